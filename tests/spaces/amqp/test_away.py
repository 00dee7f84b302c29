"""Messages to an agent that is away: they wait for it, for a while, and so many of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from benchmarks.broker import Broker
from benchmarks.proxy import Proxy

from commands import Command
from conformance.conftest import Log, Recorder, message
from conformance.gate import Holder
from moothall import (
    Agent,
    AgentNotFound,
    AgentStopped,
    AMQPOptions,
    MailboxFull,
    RequestTimeout,
    action,
)
from spaces.amqp.conftest import WAIT_S, Dead, MakeSpace, StartProcess, until
from spaces.amqp.worker import Notes, Worker


@pytest.mark.parametrize("inbox", (False, True))
@pytest.mark.parametrize("how", ("close", "kill"))
def test_amqp_send_to_absent_agent_is_queued_and_delivered_in_order(
    inbox: bool, how: str, make_space: MakeSpace, start: StartProcess, notes: Notes, tmp_path: Path
) -> None:
    options = {"inbox": str(tmp_path / "inbox.db")} if inbox else {}
    process = start(**options)
    process.add("there")
    here = make_space()
    me = here.add(Recorder("me"))
    me.ask("there", "echo").result(timeout=WAIT_S)
    process.do("close") if how == "close" else process.kill()
    until(lambda: gone(me))
    texts = [str(number) for number in range(200)]
    for text in texts:
        me.send(message("there", "note", text=text))
    with pytest.raises(AgentNotFound):
        me.ask("there", "note", text="not waited for").result(timeout=WAIT_S)
    start(**options).add("there")
    me.wait_for(len(texts))
    assert notes.lines() == [f"done {text}" for text in texts]
    assert [m["action"]["args"]["data"] for m in me.messages] == [f"{t} by there" for t in texts]


def test_amqp_unstarted_messages_of_a_killed_process_are_redelivered_in_order(
    make_space: MakeSpace, start: StartProcess, notes: Notes
) -> None:
    process = start()
    process.add("there", holds=True)
    me = make_space().add(Recorder("me"))
    texts = [str(number) for number in range(100)]
    me.send(message("there", "hold_again", text="first"))
    for text in texts:
        me.send(message("there", "note", text=text))
    until(lambda: process.do("busy", id="there")["waiting"] == len(texts))
    until(lambda: notes.lines() == ["begun first"])
    process.kill()
    start().add("there")
    me.wait_for(len(texts) + 1)
    assert notes.lines() == [
        "begun first",
        "begun first",
        "done first",
        *(f"done {text}" for text in texts),
    ]


def test_amqp_request_with_wait_outlasts_an_absent_process(
    make_space: MakeSpace, start: StartProcess, notes: Notes
) -> None:
    process = start()
    process.add("there")
    me = make_space().add(Agent("me"))
    assert me.ask("there", "echo", value=1).result(timeout=WAIT_S) == 1
    process.kill()
    late = me.request(message("there", "note", text="late"), timeout=0.3, wait=True)
    waits = me.request(message("there", "note", text="waited"), wait=True)
    with pytest.raises(RequestTimeout):
        late.result(timeout=WAIT_S)
    start().add("there")
    assert waits.result(timeout=WAIT_S) == "waited by there"
    assert notes.lines() == ["done waited"]


def test_amqp_request_to_absent_agent_fails_at_once_and_never_runs(
    make_space: MakeSpace, start: StartProcess, notes: Notes, caplog: pytest.LogCaptureFixture
) -> None:
    process = start()
    process.add("there")
    me = make_space().add(Agent("me"))
    assert me.ask("there", "echo", value=1).result(timeout=WAIT_S) == 1
    process.kill()
    until(lambda: gone(me))
    taken = []
    for _ in range(5):
        began = time.monotonic()
        with pytest.raises(AgentNotFound, match=r'"there" now: .* may have begun'):
            me.ask("there", "note", text="not run").result(timeout=WAIT_S)
        taken.append(time.monotonic() - began)
    assert min(taken) < 1
    asked = [me.ask("there", "note", text="not run") for _ in range(200)]
    for request in asked:
        with pytest.raises(AgentNotFound):
            request.result(timeout=WAIT_S)
    assert [each for each in caplog.records if each.name.startswith("pika")] == []
    start().add("there")
    assert me.ask("there", "note", text="new").result(timeout=WAIT_S) == "new by there"
    assert notes.lines() == ["done new"]


def test_amqp_agent_arriving_late_does_not_run_a_failed_request(
    make_space: MakeSpace, proxy: Proxy
) -> None:
    """The network is cut while the failed request is cancelled at the broker."""
    me = make_space(amqp_options=AMQPOptions("127.0.0.1", proxy.port)).add(Agent("me"))
    waits = me.request(message("late", "note", name="waits"), wait=True)
    me.ask("me", "help").result(timeout=WAIT_S)
    proxy.cut_at(b"cancel")
    with pytest.raises(AgentNotFound):
        me.ask("late", "note", name="failed").result(timeout=WAIT_S)
    late = make_space().add(Holder("late"))
    assert waits.result(timeout=WAIT_S) == "waits"
    assert me.ask("late", "note", name="new").result(timeout=WAIT_S) == "new"
    assert late.begun == ["waits", "new"]


def gone(me: Agent) -> bool:
    """Whether the broker has seen that the other is."""
    try:
        me.request(message("there", "echo"), timeout=0.5).result(timeout=WAIT_S)
    except AgentNotFound:
        return True
    except RequestTimeout:
        return False  # it is taken to be there, and does not answer
    raise AssertionError("it has answered")


def test_amqp_message_older_than_keep_becomes_a_dead_letter(
    make_space: MakeSpace, dead: Dead
) -> None:
    there, here = make_space(keep=1), make_space(keep=1)
    there.add(Holder("there"))
    me = here.add(Agent("me"))
    assert me.ask("there", "note", name="before").result(timeout=WAIT_S) == "before"
    there.close()
    me.send({"id": "mine", "meta": {"a": 1}, **message("there", "note", name="too long")})
    properties, body = dead.next()
    assert b'"id":"mine"' in body
    assert b'"name":"too long"' in body
    assert properties.headers["x-death"][0]["reason"] == "expired"
    again = make_space(keep=1)
    holder = again.add(Holder("there"))
    assert me.ask("there", "note", name="after").result(timeout=WAIT_S) == "after"
    assert holder.begun == ["after"]


def test_amqp_sends_to_an_absent_agent_are_never_lost(make_space: MakeSpace, dead: Dead) -> None:
    there, here = make_space(keep=1), make_space(keep=1)
    there.add(Holder("there"))
    me = here.add(Agent("me"))
    assert me.ask("there", "note", name="before").result(timeout=WAIT_S) == "before"
    there.close()
    here.add(Holder("clock"))
    end = time.monotonic() + 4
    sent = 0
    while time.monotonic() < end:
        me.send({"id": str(sent), **message("there", "note", name="too long")})
        sent += 1
        with pytest.raises(RequestTimeout):
            me.request(message("clock", "hold"), timeout=0.15).result(timeout=WAIT_S)
    for number in range(sent):
        assert f'"id":"{number}"'.encode() in dead.next()[1]


def test_amqp_mailbox_limit_holds_for_an_absent_agent(
    make_space: MakeSpace, waiting: Callable[[str], int]
) -> None:
    there, here = make_space(mailbox=5), make_space(mailbox=5)
    there.add(Holder("there"))
    me = here.add(Recorder("me"))
    assert me.ask("there", "note", name="before").result(timeout=WAIT_S) == "before"
    there.close()
    for number in range(8):
        me.send({"id": str(number), **message("there", "note", name=str(number))})
    told = me.told(3)
    assert [args["original_message_id"] for _, args in told] == ["5", "6", "7"]
    assert {name for name, _ in told} == {"error"}
    assert all('mailbox of "there" is full' in args["error"] for _, args in told)
    with pytest.raises(MailboxFull, match='"there" is full'):
        me.request(message("there", "note", name="x"), wait=True).result(timeout=WAIT_S)
    with pytest.raises(MailboxFull, match='"there" is full'):
        me.ask("there", "note", name="x").result(timeout=WAIT_S)
    assert waiting("there") == 5
    holder = make_space(mailbox=5).add(Holder("there"))
    me.wait_for(8)
    assert holder.begun == ["0", "1", "2", "3", "4"]


def test_amqp_broadcast_is_queued_for_an_absent_agent(make_space: MakeSpace) -> None:
    there, here = make_space(), make_space()
    there.add(Holder("there"))
    me = here.add(Recorder("me", receive_own_broadcasts=False))
    assert me.ask("there", "note", name="before").result(timeout=WAIT_S) == "before"
    there.close()
    me.send(message("*", "note", name="all"))
    me.ask("me", "help").result(timeout=WAIT_S)
    holder = make_space().add(Holder("there"))
    assert me.told(1) == [("response", {"data": "all", "original_message_id": None})]
    assert holder.begun == ["all"]


def test_amqp_send_to_an_unknown_agent_keeps_nothing(make_space: MakeSpace) -> None:
    me = make_space().add(Recorder("me"))
    for _ in range(100):
        me.send(message("never", "note", name="nobody"))
    me.ask("me", "help").result(timeout=WAIT_S)
    holder = make_space().add(Holder("never"))
    assert me.ask("never", "note", name="a").result(timeout=WAIT_S) == "a"
    assert holder.begun == ["a"]
    assert me.messages == []


def test_amqp_waiting_requests_and_sends_are_delivered_in_order(
    make_space: MakeSpace,
) -> None:
    space = make_space()

    class Asker(Agent):
        @action
        async def start(self) -> None:
            self.asked = []
            for name in ("0", "2", "4"):
                self.asked.append(self.request(message("late", "note", name=name), wait=True))
                self.send(message("late", "note", name=str(int(name) + 1)))

    me = space.add(Asker("me"))
    me.ask("me", "start").result(timeout=WAIT_S)
    late = make_space().add(Holder("late"))
    assert [each.result(timeout=WAIT_S) for each in me.asked] == ["0", "2", "4"]
    until(lambda: len(late.begun) == 6)
    assert late.begun == ["0", "1", "2", "3", "4", "5"]


def test_amqp_returning_agent_with_backlog_answers_a_new_request(make_space: MakeSpace) -> None:
    there, here = make_space(), make_space()
    there.add(Worker("there", Notes("/dev/null")))
    me = here.add(Recorder("me"))
    me.ask("there", "echo").result(timeout=WAIT_S)
    there.close()
    for number in range(5000):
        me.send(message("there", "echo", value=number))
    back = make_space()
    adding = threading.Thread(target=back.add, args=(Worker("there", Notes("/dev/null")),))
    adding.start()
    for number in range(5000, 6000):
        me.send(message("there", "echo", value=number))
    adding.join(WAIT_S)
    me.wait_for(6000, timeout=30)
    assert [m["action"]["args"]["data"] for m in me.messages] == list(range(6000))


def test_amqp_answer_to_a_full_mailbox_is_logged_and_delays_no_other(
    make_space: MakeSpace, log: Log
) -> None:
    there, here = make_space(), make_space(mailbox=1)
    holder = there.add(Holder("there"))
    me: Any = here.add(Recorder("me"))
    for name in ("a", "b"):
        me.send({"id": name, **message("there", "hold", name=name)})
    holder.begun.wait_for(1)
    me.ask("me", "help").result(timeout=WAIT_S)
    here.close()
    for name in ("a", "b"):
        holder.gate(name).open()
    line = log.wait_for("an answer to agent 'me' was lost: its mailbox is full")
    assert line.startswith("WARNING")
    assert make_space().add(Agent("o")).ask("there", "note", name="c").result(WAIT_S) == "c"
    me = make_space().add(Recorder("me"))
    assert me.told(1) == [("response", {"data": "a", "original_message_id": "a"})]


def test_amqp_request_finds_an_agent_that_others_asked_for_before_it_came(
    make_space: MakeSpace,
) -> None:
    space, stop = make_space(), threading.Event()
    me = space.add(Agent("me"))

    def ask(other: Agent) -> None:
        while not stop.is_set():
            with suppress(AgentNotFound, AgentStopped):
                other.ask("there", "help").result(timeout=WAIT_S)

    agents = [space.add(Agent(f"other {i}")) for i in range(3)]
    others = [threading.Thread(target=ask, args=(agent,)) for agent in agents]
    for each in others:
        each.start()
    try:
        for _ in range(10):
            agent = space.add(Agent("there"))
            assert me.ask("there", "help").result(timeout=WAIT_S) == {}
            space.remove(agent)
    finally:
        stop.set()
        for each in others:
            each.join(WAIT_S)


def test_amqp_answer_is_queued_for_an_absent_sender(make_space: MakeSpace) -> None:
    there, here = make_space(), make_space()
    holder = there.add(Holder("there"))
    me: Any = here.add(Recorder("me"))
    me.send({"id": "x", **message("there", "hold", name="a")})
    holder.begun.wait_for(1)
    here.close()
    holder.gate("a").open()
    holder.ended.wait_for(1)
    me = make_space().add(Recorder("me"))
    assert me.told(1) == [("response", {"data": "a", "original_message_id": "x"})]


ASK_AND_DIE = """
import os
from moothall import Agent, AMQPOptions, AMQPSpace
space = AMQPSpace(amqp_options=AMQPOptions("127.0.0.1", {port}), exchange="{exchange}")
request = space.add(Agent("asker")).request(
    {{"to": "there", "action": {{"name": "note", "args": {{"text": "late"}}}}}},
    timeout=0.5, wait=True,
)
space.idle()
os._exit(0)
"""


def test_amqp_request_of_a_dead_asker_expires_at_its_deadline(
    broker: Broker, exchange: str, make_space: MakeSpace, notes: Notes, dead: Dead
) -> None:
    there = make_space()
    there.add(Worker("there", notes))
    there.close()
    code = ASK_AND_DIE.format(port=broker.port, exchange=exchange)
    assert Command(code=code).wait(WAIT_S) == 0
    properties, _ = dead.next()
    assert properties.headers["x-death"][0]["reason"] == "expired"
    back = make_space()
    back.add(Worker("there", notes))
    assert back.add(Agent("me")).ask("there", "note", text="new").result(timeout=WAIT_S)
    assert notes.lines() == ["done new"]
