"""An inbox that cannot be read or written for a while: what waits meanwhile, and in which order."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from conformance.conftest import Kept, Log, Recorder, message
from conformance.gate import Doer, Gate, Holder
from moothall import ActionError, Agent
from spaces.amqp.conftest import WAIT_S, MakeSpace, until
from spaces.amqp.worker import Approving, Notes, Worker

LARGE = "x" * 200_000
"""What lies on pages of its own in the file."""


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    return tmp_path / "inbox.db"


@contextmanager
def full_disk(inbox: Path) -> Iterator[None]:
    """What the file may grow to stands for what the disk has left."""
    size = Path(f"{inbox}-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def is_of(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False  # it is not open


@contextmanager
def unreadable(inbox: Path) -> Iterator[None]:
    """The disk gives nothing back: the file's last descriptor, SQLite's, is something else."""
    *_, number = (each for each in range(3, 1024) if is_of(each, inbox))
    kept = os.dup(number)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, number)
    try:
        yield
    finally:
        os.dup2(kept, number)
        os.close(kept)
        os.close(nothing)


class Laned(Holder):
    """Handles its messages in one lane."""

    def find_lane(self, message: dict[str, Any], handling: Any) -> str:
        return "lane"


class OneLaneAtATime(Holder):
    """Handles each message in a lane of its own."""

    max_lanes = 1

    def find_lane(self, message: dict[str, Any], handling: Any) -> str:
        return str(message["action"]["args"]["name"])


@pytest.mark.parametrize("kind", (Holder, Laned, OneLaneAtATime))
def test_amqp_inbox_disk_full_pauses_agent_and_loses_nothing(
    kind: type[Holder], make_space: MakeSpace, inbox: Path, log: Log
) -> None:
    space = make_space(inbox=inbox)
    holder = space.add(kind("holder"))
    me = make_space().add(Agent("me"))
    held = me.ask("holder", "hold", name="first")
    holder.begun.wait_for(1)
    names = [str(number) for number in range(3)]
    asked = [me.ask("holder", "note", name=name) for name in names]
    until(lambda: space.statistics()["agents"]["holder"]["waiting"] == 3)
    with full_disk(inbox):
        holder.gate("first").open()
        told = log.wait_for("agent 'holder' begins nothing until its inbox can be written")
        assert not held.done()
        assert space.statistics()["agents"]["holder"]["waiting"] == 3
        assert log.lines.count(told) == 1  # it is told once a second
    assert held.result(timeout=WAIT_S) == "first"
    assert [request.result(timeout=WAIT_S) for request in asked] == names
    assert holder.begun == ["first", *names]


def test_amqp_inbox_disk_full_sends_held_answer_once_there_is_room(
    make_space: MakeSpace, inbox: Path, log: Log
) -> None:
    holder = make_space(inbox=inbox).add(Holder("holder"))
    me = make_space().add(Agent("me"))
    held = me.ask("holder", "hold", name="only")
    holder.begun.wait_for(1)
    with full_disk(inbox):
        holder.gate("only").open()
        log.wait_for("answers are held back until the inbox can be written")
        assert not held.done()
    assert held.result(timeout=WAIT_S) == "only"


def test_amqp_inbox_disk_full_logs_one_retry_a_second_of_many_answers(
    make_space: MakeSpace, inbox: Path, log: Log
) -> None:
    space = make_space(inbox=inbox)
    holders = [space.add(Holder(f"holder-{number}")) for number in range(12)]
    me = make_space().add(Agent("me"))
    held = [me.ask(str(each.id), "hold", name="only") for each in holders]
    for each in holders:
        each.begun.wait_for(1)
    with full_disk(inbox):
        for each in holders:
            each.gate("only").open()
            each.ended.wait_for(1)
        one_more = me.ask("holder-0", "note", name="more")
        log.wait_for("agent 'holder-0' begins nothing until its inbox can be written")
        assert sum("answers are held back" in line for line in log.lines) < len(holders) / 2
    assert [each.result(timeout=WAIT_S) for each in held] == ["only"] * len(holders)
    assert one_more.result(timeout=WAIT_S) == "more"


def test_amqp_inbox_file_moved_away_pauses_agent_until_restored(
    make_space: MakeSpace, inbox: Path, log: Log
) -> None:
    """An action run without the file would be unknown to the next process."""
    holder = make_space(inbox=inbox).add(Holder("holder"))
    me = make_space().add(Agent("me"))
    assert me.ask("holder", "note", name="first").result(timeout=WAIT_S) == "first"
    inbox.rename(inbox.with_name("away"))
    asked = me.ask("holder", "note", name="second")
    assert "it is gone: restore it" in log.wait_for("agent 'holder' begins nothing")
    assert holder.begun == ["first"]
    inbox.with_name("away").rename(inbox)
    assert asked.result(timeout=WAIT_S) == "second"


def test_amqp_inbox_disk_full_logs_unsaved_approval_and_runs_action(
    make_space: MakeSpace, inbox: Path, notes: Notes, log: Log, tmp_path: Path
) -> None:
    """The inbox cannot keep the approval for the next process, which would ask again."""
    yes = tmp_path / "yes"
    space = make_space(inbox=inbox, approver=Approving(notes, str(yes)))
    space.add(Worker("there", notes))
    me = make_space().add(Agent("me"))
    me.ask("there", "note", text="before").result(timeout=WAIT_S)
    with full_disk(inbox):
        asked = me.ask("there", "hold_approved", text="x")
        log.wait_for("there.hold_approved cannot be kept while it awaits approval: ")
        yes.touch()
        log.wait_for("it cannot be kept that there.hold_approved was approved: ")
        log.wait_for("agent 'there' begins nothing until its inbox can be written")
    assert asked.result(timeout=WAIT_S) == "x by there"
    assert notes.lines() == ["done before", "asked x", "begun x", "done x"]


def test_amqp_inbox_disk_full_fails_requests_of_a_running_handler(
    make_space: MakeSpace, inbox: Path, notes: Notes, log: Log
) -> None:
    """A running handler cannot wait for a message that its agent cannot start."""
    there, me = make_space(inbox=inbox), make_space().add(Agent("me"))
    gate, begun = Gate(), Kept[str]()

    async def ask_back(agent: Agent, _: Any) -> Any:
        begun.add("begun")
        await gate
        args = {"to": "doer", "name": "echo", "args": {"value": 1}}
        return await agent.ask("between", "ask_on", **args)

    there.add(Doer("doer", do=ask_back))
    make_space().add(Worker("between", notes))
    asked = me.ask("doer", "do")
    begun.wait_for(1)
    with full_disk(inbox):
        gate.open()
        log.wait_for("answers are held back until the inbox can be written")  # the handler's
    with pytest.raises(ActionError) as caught:
        asked.result(timeout=WAIT_S)
    assert caught.value.type == "InboxError"
    assert me.ask("doer", "echo", value=2).result(timeout=WAIT_S) == 2  # its place is free again


def test_amqp_inbox_disk_full_still_closes_the_space(
    make_space: MakeSpace, inbox: Path, log: Log
) -> None:
    space = make_space(inbox=inbox)
    holder, me = space.add(Holder("holder")), make_space().add(Agent("me"))
    me.send(message("holder", "hold", name="only"))
    holder.begun.wait_for(1)
    with full_disk(inbox):
        holder.gate("only").open()
        log.wait_for("answers are held back until the inbox can be written")
        assert log.wait_for("nothing can be forgotten: ").startswith("WARNING")
        space.close()
    log.wait_for("what ended last is not in the inbox: ")
    assert repr(space) == "<AMQPSpace, closed>"


@pytest.fixture
def post(channel: BlockingChannel, exchange: str) -> Callable[..., None]:
    """Send a message under a key."""

    def publish(key: str, action: str, **args: Any) -> None:
        body = {"id": key, "from": "me", **message("there", action, **args)}
        properties = pika.BasicProperties(message_id=key, type="send")
        channel.basic_publish(exchange, "agent.there", json.dumps(body).encode(), properties)

    return publish


def test_amqp_inbox_unreadable_keeps_message_order(
    make_space: MakeSpace,
    post: Callable[..., None],
    inbox: Path,
    notes: Notes,
    log: Log,
    waiting: Callable[[str], int],
) -> None:
    me = make_space().add(Recorder("me"))
    space = make_space(inbox=inbox)
    space.add(Worker("there", notes))
    post("old", "echo", value=LARGE)
    me.wait_for(1)
    space.close()
    space = make_space(inbox=inbox)
    space.add(Worker("there", notes))
    other = space.add(Agent("other"))
    post("new", "note", text="new")
    me.wait_for(2)
    with unreadable(inbox):
        post("old", "echo", value=LARGE)
        post("next", "note", text="next")
        log.wait_for("agent 'there' gets no messages until its inbox can be read")
        until(lambda: waiting("there") == 0)
        other.ask("me", "help").result(timeout=WAIT_S)  # what was brought before this is here
        assert notes.lines() == ["done new"]
    me.wait_for(3)
    assert notes.lines() == ["done new", "done next"]


def test_amqp_inbox_readable_again_resumes_accepted_messages(
    make_space: MakeSpace, inbox: Path, notes: Notes, log: Log
) -> None:
    me = make_space().add(Agent("me"))
    space = make_space(inbox=inbox, approver=Approving(notes, False))
    space.add(Worker("there", notes))
    asked = me.request(message("there", "hold_approved", text=LARGE), wait=True)
    until(notes.lines)
    space.close()
    space = make_space(inbox=inbox, approver=Approving(notes, True))
    space.add(Agent("other"))
    with unreadable(inbox):
        space.add(Worker("there", notes))
        log.wait_for("the inbox of agent 'there' cannot be read")
        assert not asked.done()
    assert asked.result(timeout=WAIT_S) == f"{LARGE} by there"
