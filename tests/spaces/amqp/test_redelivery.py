"""What the inbox says of a message that comes again: it ended, it had not begun, it is in doubt."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pika
import pytest
from benchmarks.broker import Broker
from benchmarks.proxy import Proxy
from pika.adapters.blocking_connection import BlockingChannel

from conformance.conftest import Recorder, message
from moothall import Agent, InboxError, InDoubt, Journal, ReActAgent, ScriptedModel, action
from spaces.amqp.conftest import WAIT_S, Dead, MakeSpace, StartProcess, until
from spaces.amqp.worker import Notes, Worker


@pytest.fixture
def inbox(tmp_path: Path) -> str:
    return str(tmp_path / "inbox.db")


def ask(me: Agent, to: str, name: str, text: str) -> Any:
    """A request that waits: another's fails if its process is killed in its first moments."""
    return me.request(message(to, name, text=text), wait=True)


def test_amqp_inbox_redelivered_ended_message_is_answered_and_not_run(
    make_space: MakeSpace,
    start: StartProcess,
    notes: Notes,
    inbox: str,
    broker: Broker,
    tmp_path: Path,
) -> None:
    """The process recorded the end and was killed before the broker had the acknowledgement."""
    me = make_space().add(Recorder("me"))
    go = tmp_path / "go"
    with Proxy(broker.port) as proxy:
        process = start(port=proxy.port, inbox=inbox)
        process.add("there")
        asked = me.request(message("there", "wait_for", text="asked", path=str(go)), wait=True)
        until(lambda: notes.lines() == ["begun asked"])
        me.send({"id": "sent", **message("there", "note", text="sent")})
        me.send({"id": "failed", **message("there", "fail")})
        until(lambda: process.do("busy", id="there")["waiting"] == 2)
        proxy.stall()
        go.touch()
        process.idle("there")
        assert not asked.done()
        process.kill()
        proxy.cut()
    start(inbox=inbox).add("there")
    assert asked.result(timeout=WAIT_S) == "asked by there"
    assert me.told(2) == [
        ("response", {"data": "sent by there", "original_message_id": "sent"}),
        ("error", {"error": "ValueError: in vain", "original_message_id": "failed"}),
    ]
    assert notes.lines() == ["begun asked", "done asked", "done sent"]


def test_amqp_inbox_started_message_is_in_doubt_and_the_next_runs(
    make_space: MakeSpace, start: StartProcess, notes: Notes, inbox: str, dead: Dead
) -> None:
    process = start(inbox=inbox)
    process.add("there", holds=True)
    me = make_space().add(Recorder("me"))
    held = ask(me, "there", "hold", "held")
    until(lambda: notes.lines() == ["begun held"])
    behind = ask(me, "there", "note", "behind")
    until(lambda: process.do("busy", id="there")["waiting"] == 1)
    process.kill()
    start(inbox=inbox).add("there")
    with pytest.raises(InDoubt) as caught:
        held.result(timeout=WAIT_S)
    assert caught.value.type == "InDoubt"
    assert caught.value.where == "there.hold"
    assert 'in doubt: "there.hold" was running when its process ended' in caught.value.text
    assert behind.result(timeout=WAIT_S) == "behind by there"
    assert notes.lines() == ["begun held", "done behind"]
    properties, body = dead.next()
    assert b'"args":{"text":"held"}' in body
    assert properties.headers["agent"] == "there"
    assert properties.headers["reason"].startswith("in doubt")
    assert dead.count() == 0


def test_amqp_inbox_reports_a_message_in_doubt_to_its_sender_once(
    make_space: MakeSpace, start: StartProcess, notes: Notes, inbox: str, dead: Dead
) -> None:
    process = start(inbox=inbox)
    process.add("there", holds=True)
    me = make_space().add(Recorder("me"))
    me.send({"id": "x", **message("there", "hold", text="held")})
    until(lambda: notes.lines() == ["begun held"])
    process.kill()
    second = start(inbox=inbox)
    second.add("there")
    ((name, args),) = me.told(1)
    assert (name, args["original_message_id"]) == ("error", "x")
    assert args["error"].startswith("InDoubt: in doubt")
    dead.next()
    second.do("close")
    start(inbox=inbox).add("there")
    assert me.ask("there", "note", text="new").result(timeout=WAIT_S) == "new by there"
    assert (len(me.messages), dead.count()) == (1, 0)
    assert notes.lines() == ["begun held", "done new"]


@pytest.mark.parametrize(("action", "kept"), (("hold_again", True), ("hold", False)))
def test_amqp_started_message_runs_again_if_it_is_idempotent_or_no_inbox_knows_of_it(
    make_space: MakeSpace,
    start: StartProcess,
    notes: Notes,
    inbox: str,
    dead: Dead,
    action: str,
    kept: bool,
) -> None:
    options = {"inbox": inbox} if kept else {}
    process = start(**options)
    process.add("there", holds=True)
    me = make_space().add(Agent("me"))
    held = ask(me, "there", action, "held")
    until(lambda: notes.lines() == ["begun held"])
    process.kill()
    start(**options).add("there")
    assert held.result(timeout=WAIT_S) == "held by there"
    assert notes.lines() == ["begun held", "begun held", "done held"]
    assert dead.count() == 0


def test_amqp_say_repeated_within_one_message_gets_separate_answers(
    make_space: MakeSpace, tmp_path: Path
) -> None:
    class Desk(ReActAgent):
        @action
        async def brief(self) -> list[str]:
            return [await self.say("one"), await self.say("two")]

    class Front(Agent):
        @action
        async def say(self, content: str) -> str:
            return f"{await desk.say('three')} {await desk.say('four')}"

    space = make_space()
    model = ScriptedModel(["1", "2", "3", "4"])
    desk = space.add(Desk("desk", model, journal=Journal(tmp_path / "runs.db")))
    front = space.add(Front("front"))
    assert front.ask("desk", "brief").result(timeout=WAIT_S) == ["1", "2"]
    assert desk.ask("front", "say", content="hello").result(timeout=WAIT_S) == "3 4"


def test_amqp_inbox_records_a_broadcast_per_receiver(
    make_space: MakeSpace, start: StartProcess, notes: Notes, inbox: str, dead: Dead
) -> None:
    process = start(inbox=inbox)
    process.add("holds", holds=True)
    process.add("ends")
    me = make_space().add(Recorder("me", receive_own_broadcasts=False))
    me.send({"id": "b", **message("*", "hold", text="all")})
    me.wait_for(1)
    until(lambda: sorted(notes.lines()) == ["begun all", "begun all", "done all"])
    process.kill()
    second = start(inbox=inbox)
    second.add("ends")
    second.add("holds")
    told = me.told(2)
    assert told[0] == ("response", {"data": "all by ends", "original_message_id": "b"})
    assert told[1][1]["error"].startswith("InDoubt: ")
    dead.next()
    assert me.ask("ends", "note", text="new").result(timeout=WAIT_S) == "new by ends"
    assert len(notes.lines()) == 4
    assert len(me.messages) == 2


# -- what is acknowledged before it runs -----------------------------------------------------------


def test_amqp_detached_action_is_acknowledged_first_and_in_doubt_after_a_kill(
    make_space: MakeSpace,
    start: StartProcess,
    notes: Notes,
    inbox: str,
    dead: Dead,
    waiting: Callable[[str], int],
    unacknowledged: Callable[[], int],
) -> None:
    process = start(inbox=inbox)
    process.add("there", holds=True)
    process.add("plain", holds=True)
    me = make_space().add(Agent("me"))
    detached = ask(me, "there", "hold_detached", "detached")
    plain = ask(me, "plain", "hold", "plain")
    until(lambda: len(notes.lines()) == 2)
    me.ask("me", "help").result(timeout=WAIT_S)
    behind = ask(me, "there", "hold_detached", "behind")
    until(lambda: process.do("busy", id="there")["waiting"] == 1)
    until(lambda: unacknowledged() == 2)
    process.kill()
    until(lambda: unacknowledged() == 0)  # the broker has taken back what it had
    assert waiting("plain") == 1
    assert waiting("there") == 1, "what had not begun; the other is in the inbox alone"
    second = start(inbox=inbox)
    second.add("there")
    second.add("plain")
    for request, where in ((detached, "there.hold_detached"), (plain, "plain.hold")):
        with pytest.raises(InDoubt) as caught:
            request.result(timeout=WAIT_S)
        assert caught.value.where == where
    assert behind.result(timeout=WAIT_S) == "behind by there"
    assert {dead.next()[0].headers["agent"] for _ in range(2)} == {"there", "plain"}


def test_amqp_detached_idempotent_action_runs_again_in_order(
    make_space: MakeSpace, start: StartProcess, notes: Notes, inbox: str
) -> None:
    process = start(inbox=inbox)
    process.add("there", holds=True)
    me = make_space().add(Agent("me"))
    first = ask(me, "there", "hold_detached_again", "first")
    until(lambda: notes.lines() == ["begun first"])
    second = ask(me, "there", "note", "second")
    until(lambda: process.do("busy", id="there")["waiting"] == 1)
    process.kill()
    start(inbox=inbox).add("there")
    assert first.result(timeout=WAIT_S) == "first by there"
    assert second.result(timeout=WAIT_S) == "second by there"
    assert notes.lines() == ["begun first", "begun first", "done first", "done second"]


@pytest.mark.parametrize("kind", (pytest.param("request", marks=pytest.mark.long), "send"))
def test_amqp_inbox_message_awaiting_approval_is_asked_again_after_restart(
    kind: str,
    make_space: MakeSpace,
    start: StartProcess,
    notes: Notes,
    inbox: str,
    dead: Dead,
    waiting: Callable[[str], int],
    unacknowledged: Callable[[], int],
) -> None:
    """The approver is asked again, and then the action runs once."""
    process = start(inbox=inbox, says=False)
    process.add("there")
    me = make_space().add(Recorder("me"))
    asked = None
    if kind == "request":
        asked = ask(me, "there", "hold_approved", "a")
    else:
        me.send({"id": "s", **message("there", "hold_approved", text="a")})
    until(lambda: notes.lines() == ["asked a"])
    until(lambda: unacknowledged() == 0)
    process.kill()
    assert waiting("there") == 0, "it is in the inbox alone"
    second = start(inbox=inbox, says=False)
    second.add("there")
    until(lambda: notes.lines() == ["asked a", "asked a"])
    second.do("close")
    third = start(inbox=inbox, says=True)
    third.add("there")
    if asked is not None:
        assert asked.result(timeout=WAIT_S) == "a by there"
    else:
        assert me.told(1) == [
            ("response", {"data": "a by there", "original_message_id": "s"}),
        ]
    assert notes.lines()[2:] == ["asked a", "begun a", "done a"]
    third.do("close")
    start(inbox=inbox, says=True).add("there")
    assert me.ask("there", "note", text="last").result(timeout=WAIT_S) == "last by there"
    assert notes.lines()[5:] == ["done last"]
    assert dead.count() == 0


def test_amqp_inbox_approved_and_started_message_is_in_doubt(
    make_space: MakeSpace, start: StartProcess, notes: Notes, inbox: str
) -> None:
    process = start(inbox=inbox, says=True)
    process.add("there", holds=True)
    me = make_space().add(Agent("me"))
    asked = ask(me, "there", "hold_approved", "a")
    until(lambda: notes.lines() == ["asked a", "begun a"])
    process.kill()
    start(inbox=inbox, says=True).add("there")
    with pytest.raises(InDoubt):
        asked.result(timeout=WAIT_S)
    assert notes.lines() == ["asked a", "begun a"]


@pytest.fixture
def approved(
    make_space: MakeSpace, start: StartProcess, notes: Notes, inbox: str, tmp_path: Path
) -> Any:
    """A request that was permitted, and whose process was killed before it could begin."""
    yes = tmp_path / "yes"
    process = start(inbox=inbox, says=str(yes))
    process.add("there", holds=True)
    me = make_space().add(Recorder("me"))
    asked = ask(me, "there", "hold_approved", "a")
    until(lambda: notes.lines() == ["asked a"])
    me.send(message("there", "hold_again", text="long"))
    until(lambda: notes.lines() == ["asked a", "begun long"])
    yes.touch()

    def is_permitted() -> bool:
        found = process.do("busy", id="there")
        return (found["asking"], found["waiting"]) == (0, 1)

    until(is_permitted)
    process.kill()
    return asked


def test_amqp_inbox_permission_survives_restart(
    approved: Any, start: StartProcess, notes: Notes, inbox: str
) -> None:
    start(inbox=inbox, says=False).add("there")
    assert approved.result(timeout=WAIT_S) == "a by there"
    assert notes.lines().count("asked a") == 1


def test_amqp_inbox_permission_does_not_cover_another_message(
    approved: Any,
    make_space: MakeSpace,
    start: StartProcess,
    notes: Notes,
    inbox: str,
    exchange: str,
    channel: BlockingChannel,
) -> None:
    """Another message with the same key does not run."""
    with closing(sqlite3.connect(f"file:{inbox}?mode=ro", uri=True)) as connection:
        (key,) = connection.execute("SELECT key FROM inbox WHERE message IS NOT NULL").fetchone()
    body = {"from": "me", **message("there", "hold_approved", text="other")}
    channel.basic_publish(
        exchange,
        "agent.there",
        json.dumps(body).encode(),
        pika.BasicProperties(message_id=key, type="request", reply_to="reply.nobody"),
    )
    start(inbox=inbox, says=False).add("there")
    assert approved.result(timeout=WAIT_S) == "a by there"
    me = make_space().add(Agent("another"))
    assert me.ask("there", "note", text="last").result(timeout=WAIT_S) == "last by there"
    assert "begun other" not in notes.lines()


def test_amqp_request_cancelled_while_process_is_down_never_runs(
    make_space: MakeSpace, start: StartProcess, notes: Notes, inbox: str
) -> None:
    process = start(inbox=inbox, says=False)
    process.add("there")
    me = make_space().add(Agent("me"))
    asked = ask(me, "there", "hold_approved", "a")
    until(lambda: notes.lines() == ["asked a"])
    process.kill()
    asked.cancel()
    me.ask("me", "help").result(timeout=WAIT_S)
    start(inbox=inbox, says=True).add("there")
    assert (
        me.request(message("there", "note", text="new"), wait=True).result(timeout=WAIT_S)
        == "new by there"
    )
    assert "begun a" not in notes.lines()


def test_amqp_close_leaves_messages_awaiting_approval_to_the_next_process(
    make_space: MakeSpace, start: StartProcess, notes: Notes, inbox: str
) -> None:
    process = start(inbox=inbox, says=False)
    process.add("there")
    me = make_space().add(Agent("me"))
    asked = ask(me, "there", "hold_approved", "a")
    until(lambda: notes.lines() == ["asked a"])
    process.do("close")
    assert not asked.done()
    start(inbox=inbox, says=True).add("there")
    assert asked.result(timeout=WAIT_S) == "a by there"


# -- the file --------------------------------------------------------------------------------------


def test_amqp_inbox_file_of_another_process_raises_inbox_error(
    make_space: MakeSpace, start: StartProcess, inbox: str
) -> None:
    process = start(inbox=inbox)
    process.add("there")
    space = make_space(inbox=inbox)
    for _ in range(2):
        with pytest.raises(InboxError, match="used by another process; give each") as caught:
            space.add(Agent("here"))
        assert inbox in str(caught.value)
    process.kill()
    assert space.add(Agent("here")).ask("here", "help").result(timeout=WAIT_S) == {}


def test_amqp_inbox_file_of_another_space_raises_inbox_error(
    make_space: MakeSpace, inbox: str
) -> None:
    make_space(inbox=inbox).add(Agent("one"))
    with pytest.raises(InboxError, match="used already in this process"):
        make_space(inbox=inbox).add(Agent("two"))


@pytest.mark.parametrize("what", ("damaged", "no database", "another's", "folder", "nowhere"))
def test_amqp_inbox_file_of_another_kind_raises_inbox_error(
    what: str, make_space: MakeSpace, tmp_path: Path
) -> None:
    path = tmp_path / "inbox.db"
    if what == "damaged":
        with make_space(inbox=path) as space:
            me = space.add(Worker("me", Notes(tmp_path / "n")))
            for number in range(200):
                me.ask("me", "echo", value=str(number) * 100).result(timeout=WAIT_S)
        content = path.read_bytes()
        path.write_bytes(content[:1024] + b"\xff" * (len(content) - 1024))
    elif what == "no database":
        path.write_text("notes of mine\n" * 100)
    elif what == "another's":
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE mine (a)")
        connection.close()
    elif what == "folder":
        path.mkdir()
    else:
        path = tmp_path / "nowhere" / "inbox.db"
    space = make_space(inbox=path)
    with pytest.raises(InboxError) as caught:
        space.add(Agent("me"))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(InboxError):
        space.observe(print, everywhere=True)
    assert space.ids() == []
    space.close()
    space.close()


def test_amqp_inbox_forgets_entries_older_than_keep(
    make_space: MakeSpace, inbox: str, tmp_path: Path
) -> None:
    """Longer ago than messages wait: it does not come again, and the file grows no more."""

    def rows() -> int:
        with closing(sqlite3.connect(inbox)) as connection:
            return int(connection.execute("SELECT count(*) FROM inbox").fetchone()[0])

    def handle(many: int, keep: float = 1) -> None:
        space = make_space(inbox=inbox, keep=keep)
        me = space.add(Worker("me", Notes(tmp_path / "notes")))
        for request in [me.ask("me", "echo", value=n) for n in range(many)]:
            request.result(timeout=WAIT_S)
        space.close()

    handle(1500, keep=3600)
    assert rows() == 1500
    until(lambda: handle(1) or rows() < 100, timeout=30)
