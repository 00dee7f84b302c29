"""What is written down of a message: it has begun, it has ended, its answer is with the broker."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from benchmarks.broker import Broker
from benchmarks.proxy import Proxy
from pika.adapters.blocking_connection import BlockingChannel

from conformance.conftest import Kept, Recorder, message
from conformance.gate import Holder
from moothall import Agent, AMQPOptions, InDoubt, action
from moothall.spaces.amqp.inbox import Inbox
from spaces.amqp.conftest import WAIT_S, Dead, MakeSpace, StartProcess, until
from spaces.amqp.worker import Notes


@pytest.fixture
def inbox(tmp_path: Path) -> str:
    return str(tmp_path / "inbox.db")


class Silent(Agent):
    """Returns nothing."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.begun: Kept[str] = Kept()

    @action
    async def note(self, name: str) -> None:
        self.begun.add(name)


@pytest.mark.parametrize("durable", (False, True))
def test_amqp_inbox_records_the_end_of_an_action_without_result(
    durable: bool, make_space: MakeSpace, inbox: str, dead: Dead
) -> None:
    """Without a recorded end, the next process would find the message in doubt."""
    options: dict[str, Any] = {"mailbox": 10, **({"inbox": inbox} if durable else {})}
    there = make_space(**options)
    silent = there.add(Silent("silent"))
    me = make_space().add(Recorder("me"))
    names = [str(number) for number in range(150)]  # more than a mailbox of that size is brought
    for begin in range(0, len(names), 5):
        for name in names[begin : begin + 5]:
            me.send(message("*", "hum"))  # what nobody knows has ended, too
            me.send(message("silent", "note", name=name))
        silent.begun.wait_for(begin + 5)
    there.close()
    again = make_space(**options).add(Silent("silent"))
    assert me.ask("silent", "note", name="last").result(timeout=WAIT_S) is None
    assert (silent.begun, again.begun) == (names, ["last"])
    assert (me.messages, dead.count()) == ([], 0)


def test_amqp_inbox_records_the_end_only_after_publisher_confirms(
    make_space: MakeSpace,
    start: StartProcess,
    notes: Notes,
    inbox: str,
    broker: Broker,
    tmp_path: Path,
) -> None:
    """A process killed before the confirm leaves the message in doubt, and reports no success."""
    me = make_space().add(Recorder("me"))
    go = tmp_path / "go"
    with Proxy(broker.port) as proxy:
        process = start(port=proxy.port, inbox=inbox)
        process.add("there")
        asked = me.request(
            message("there", "tell_when", text="asked", to="me", path=str(go)), wait=True
        )
        until(lambda: notes.lines() == ["begun asked"])
        proxy.stall()
        go.touch()
        process.idle("there")
        process.kill()
        proxy.cut()
    start(inbox=inbox).add("there")
    with pytest.raises(InDoubt):
        asked.result(timeout=WAIT_S)
    assert me.messages == []


def test_amqp_unconfirmed_answer_of_an_acknowledged_message_is_sent_by_the_next_process(
    make_space: MakeSpace,
    start: StartProcess,
    notes: Notes,
    inbox: str,
    broker: Broker,
    tmp_path: Path,
    unacknowledged: Callable[[], int],
) -> None:
    """Though it has written down more since: the broker never confirmed the answer."""
    me = make_space().add(Agent("me"))
    go = tmp_path / "go"
    with Proxy(broker.port) as proxy:
        process = start(port=proxy.port, inbox=inbox)
        process.add("there")
        wanted = message("there", "wait_for_detached", text="asked", path=str(go))
        asked = me.request(wanted, wait=True)
        until(lambda: notes.lines() == ["begun asked"])
        until(lambda: unacknowledged() == 0)
        me.send(message("there", "note", text="next"))
        until(lambda: process.do("busy", id="there")["waiting"] == 1)
        proxy.stall()
        go.touch()
        process.idle("there")
        process.kill()
        proxy.cut()
    start(inbox=inbox).add("there")
    assert asked.result(timeout=WAIT_S) == "asked by there"
    assert notes.lines() == ["begun asked", "done asked", "done next"]


def test_amqp_inbox_confirmed_answer_is_not_sent_again_after_restart(
    make_space: MakeSpace,
    start: StartProcess,
    inbox: str,
    channel: BlockingChannel,
    exchange: str,
) -> None:
    process = start(inbox=inbox)
    process.add("there")
    me = make_space().add(Recorder("me"))
    copies = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(copies, exchange, "agent.me")
    me.send(message("there", "hold_detached", text="sent"))
    assert me.told(1) == [("response", {"data": "sent by there", "original_message_id": None})]
    process.do("close")
    start(inbox=inbox).add("there")
    assert me.ask("there", "note", text="new").result(timeout=WAIT_S) == "new by there"
    assert channel.queue_declare(copies, passive=True).method.message_count == 1


def test_amqp_redelivery_of_a_running_message_is_acknowledged_at_its_end(
    make_space: MakeSpace, proxy: Proxy, events: Kept[str]
) -> None:
    """Without that, the broker would deliver the message again to the next process."""
    here = make_space(
        amqp_options=AMQPOptions("127.0.0.1", proxy.port),
        on_connection=lambda what, _: events.add(what),
    )
    holder = here.add(Holder("holder"))
    me = make_space().add(Agent("me"))
    first = me.request(message("holder", "hold", name="first"), wait=True)
    holder.begun.wait_for(1)
    proxy.cut()
    events.wait_for(lambda found: found.count("connected") == 2)
    second = me.request(message("holder", "note", name="second"), wait=True)
    until(lambda: here.statistics()["agents"]["holder"]["waiting"] == 1)  # behind the first
    holder.gate("first").open()
    assert (first.result(timeout=WAIT_S), second.result(timeout=WAIT_S)) == ("first", "second")
    here.close()
    other = make_space().add(Holder("holder"))
    assert me.ask("holder", "note", name="third").result(timeout=WAIT_S) == "third"
    assert (holder.begun, other.begun) == (["first", "second"], ["third"])


def test_amqp_redelivery_of_a_running_message_survives_a_killed_process(
    make_space: MakeSpace,
    start: StartProcess,
    notes: Notes,
    broker: Broker,
    tmp_path: Path,
    waiting: Callable[[str], int],
) -> None:
    me = make_space().add(Agent("me"))
    go = tmp_path / "go"
    with Proxy(broker.port) as proxy:
        process = start(port=proxy.port)
        process.add("there")
        asked = me.request(message("there", "wait_for", text="asked", path=str(go)), wait=True)
        until(lambda: notes.lines() == ["begun asked"])
        proxy.refuse()
        proxy.cut()
        until(lambda: waiting("there") == 1)
        proxy.accept()
        until(lambda: waiting("there") == 0)
        me.send(message("there", "note", text="next"))
        until(lambda: process.do("busy", id="there")["waiting"] == 1)  # what was before it is here
        process.kill()
    go.touch()
    start().add("there")
    assert asked.result(timeout=WAIT_S) == "asked by there"


@pytest.mark.long
def test_amqp_process_that_lost_an_id_sends_no_answer(
    make_space: MakeSpace, proxy: Proxy, events: Kept[str], log: Any
) -> None:
    """The process that has the id now was brought it too.

    The one that lost it gives it up no sooner than the broker may see that a connection is lost.
    """
    here = make_space(
        amqp_options=AMQPOptions("127.0.0.1", proxy.port, heartbeat=2),
        on_connection=lambda what, _: events.add(what),
    )
    mine = here.add(Holder("wanted"))
    me = make_space().add(Agent("me"))
    asked = me.request(message("wanted", "hold", name="a"), wait=True)
    mine.begun.wait_for(1)
    proxy.refuse()
    proxy.cut()
    events.wait_for(lambda found: "lost" in found)
    there = make_space()

    def taken() -> Any:
        try:
            return there.add(Holder("wanted"))
        except ValueError:
            return None  # the broker has still to see that the other is gone

    other = until(taken)
    other.begun.wait_for(1)
    proxy.accept()
    back = time.monotonic()
    log.lines.wait_for(lambda lines: any("was replaced by" in line for line in lines), 30)
    assert time.monotonic() - back > 2 * 2 + 10  # two heartbeats, and the time to connect again
    mine.ended.wait_for(1)
    here.close()
    assert not asked.done()
    other.gate("a").open()
    assert asked.result(timeout=WAIT_S) == "a"


def test_amqp_remove_without_connection_does_not_wait(
    make_space: MakeSpace, proxy: Proxy, events: Kept[str]
) -> None:
    """The broker never confirmed the messages in flight to the removed agent."""
    space = make_space(
        amqp_options=AMQPOptions("127.0.0.1", proxy.port),
        on_connection=lambda what, _: events.add(what),
    )
    space.add(Holder("holder"))
    me = space.add(Agent("me"))
    proxy.stall()
    me.send(message("holder", "note", name="a"))
    leaving = threading.Thread(target=space.remove, args=("holder",))
    leaving.start()
    until(lambda: "holder" not in space.ids())
    proxy.refuse()
    proxy.cut()
    events.wait_for(lambda found: "lost" in found)
    leaving.join(WAIT_S)
    assert not leaving.is_alive()


def test_amqp_inbox_forgets_two_old_entries_for_each_new_one(
    make_space: MakeSpace, inbox: str
) -> None:
    """A file that has grown shrinks: two old messages go for each new one."""
    kept = Inbox(inbox)
    for number in range(3_000):
        kept.end(str(number), "me", None)
    kept.close()
    with closing(sqlite3.connect(inbox, isolation_level=None)) as file:
        file.execute("UPDATE inbox SET ended = 0")
    space = make_space(inbox=inbox)
    space.add(Agent("me")).ask("me", "help").result(timeout=WAIT_S)
    space.close()
    with closing(sqlite3.connect(inbox)) as file:
        assert file.execute("SELECT count(*) FROM inbox").fetchone() == (1_001,)
