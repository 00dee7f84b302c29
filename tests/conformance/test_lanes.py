"""An agent whose messages have lanes: in order in each, several side by side, fair to all."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import pytest

from conformance.conftest import WAIT_S, Log, Recorder, message, settle, waits
from conformance.gate import Gate, Holder
from moothall import ACCESS_REQUESTED, Agent, action
from moothall.foundation.errors import (
    ActionError,
    ActionNotFound,
    AgentStopped,
    InvalidArguments,
    MailboxFull,
    NotPermitted,
    RequestCancelled,
    RequestTimeout,
    SpaceClosed,
)


class Laned(Holder):
    """What is held has the lane that its name begins with: `b2` has `b`, and `note` has none."""

    answers: bool | Gate = True

    def find_lane(self, message: dict[str, Any], handling: Any) -> str | None:
        if message["action"]["name"] == "note":
            return None
        name = message["action"]["args"].get("name", "?")
        return name.rstrip("0123456789") if isinstance(name, str) else None

    @action
    async def pass_on(self, name: str, to: str) -> Any:
        """Ask this agent, in another lane or the same one, and give what it answers."""
        self.begun.add(name)
        return await self.ask(self.id, "hold", name=to)

    @action
    async def quick(self, name: str) -> str:
        """Answer at once."""
        self.begun.add(name)
        return name

    @action(access_policy=ACCESS_REQUESTED)
    async def asked_first(self, name: str) -> str:
        """Do it, when it was approved."""
        self.begun.add(name)
        return name

    async def request_permission(self, proposed_message: dict[str, Any]) -> bool:
        if isinstance(self.answers, Gate):
            await self.answers
            return True
        return self.answers

    @action
    async def fail(self, name: str) -> str:
        """Fail."""
        self.begun.add(name)
        raise ValueError(name)


def held(me: Agent, names: str, form: str = "hold") -> list[Any]:
    """Ask for each of these names."""
    return [me.ask("laned", form, name=name) for name in names.split()]


def opened(laned: Holder, names: str) -> None:
    for name in names.split():
        laned.gate(name).open()


@pytest.mark.parametrize("form", ("hold", "hold_plainly", "hold_stubbornly"))
def test_lanes_are_each_in_order_beside_one_another(space: Any, form: str) -> None:
    laned, me = space.add(Laned("laned")), space.add(Agent("me"))
    requests = held(me, "a1 b1 a2 b2 a3", form)
    assert sorted(laned.begun.wait_for(2)) == ["a1", "b1"]
    opened(laned, "b1 b2")
    assert [requests[n].result(timeout=WAIT_S) for n in (1, 3)] == ["b1", "b2"]
    assert "a2" not in laned.begun
    opened(laned, "a1 a2 a3")
    assert [each.result(timeout=WAIT_S) for each in requests] == ["a1", "b1", "a2", "b2", "a3"]
    assert [name for name in laned.begun if name[0] == "a"] == ["a1", "a2", "a3"]


def test_sixteen_lanes_are_side_by_side_and_further_ones_wait_their_turn(space: Any) -> None:
    laned, me = space.add(Laned("laned")), space.add(Agent("me"))
    busy = held(me, " ".join(f"{lane}{n}" for n in range(100) for lane in "a"))
    others = held(me, " ".join("bcdefghijklmnopqrst"))
    assert sorted(laned.begun.wait_for(16)) == ["a0", *"bcdefghijklmnop"]
    assert waits(space, "laned", 99 + 4)
    # Whoever has sent a hundred holds one place, and is behind those that have waited for one.
    opened(laned, "a0")
    laned.begun.wait_for(lambda names: names[-1] == "q")
    opened(laned, "b c")
    assert laned.begun.wait_for(19)[16:] == ["q", "r", "s"]
    opened(laned, "d e")
    assert laned.begun.wait_for(21)[19:] == ["t", "a1"]
    opened(laned, " ".join("fghijklmnopqrst") + "".join(f" a{n}" for n in range(100)))
    for each in busy + others:
        each.result(timeout=WAIT_S)


def test_lanes_messages_without_a_lane_run_one_at_a_time(space: Any) -> None:
    class Two(Laned):
        def find_lane(self, message: dict[str, Any], handling: Any) -> str | None:
            if message["action"]["args"].get("name", "").startswith("none"):
                return None
            return super().find_lane(message, handling)

    laned, me = space.add(Two("laned")), space.add(Agent("me"))
    requests = held(me, "none1 none2 a b")
    assert sorted(laned.begun.wait_for(3)) == ["a", "b", "none1"]
    assert me.ask("laned", "quick", name="c").result(timeout=WAIT_S) == "c"
    assert "none2" not in laned.begun
    opened(laned, "none1 none2 a b")
    for each in requests:
        each.result(timeout=WAIT_S)


@pytest.mark.parametrize("n", (1, 3))
def test_lanes_are_as_many_as_the_concurrency_that_is_stated(space: Any, n: int) -> None:
    laned, me = space.add(Laned("laned", concurrency=n)), space.add(Agent("me"))
    requests = held(me, "a b c d")
    assert laned.begun.wait_for(n) == ["a", "b", "c", "d"][:n]
    assert waits(space, "laned", 4 - n)
    opened(laned, "a b c d")
    for each in requests:
        each.result(timeout=WAIT_S)


@pytest.mark.parametrize("how", ("cancel", "drop", "deadline"))
def test_lanes_waiting_message_that_ends_is_never_begun(space: Any, how: str) -> None:
    laned, me = space.add(Laned("laned")), space.add(Agent("me"))
    first = me.ask("laned", "hold", name="a1")
    laned.begun.wait_for(1)
    timeout = 0.05 if how == "deadline" else 300
    second = me.request(message("laned", "hold", name="a2"), timeout=timeout)
    third = me.ask("laned", "hold", name="a3")
    if how == "cancel":
        second.cancel()
        with pytest.raises(RequestCancelled):
            second.result(timeout=WAIT_S)
    elif how == "drop":
        del second
    else:
        with pytest.raises(RequestTimeout):
            second.result(timeout=WAIT_S)
    assert waits(space, "laned", 1)
    opened(laned, "a1 a3")
    assert [each.result(timeout=WAIT_S) for each in (first, third)] == ["a1", "a3"]
    assert laned.begun == ["a1", "a3"]


def test_lane_whose_last_message_has_ended_has_no_turn(space: Any) -> None:
    laned, me = space.add(Laned("laned", concurrency=1)), space.add(Agent("me"))
    first, ended = held(me, "a b")
    assert waits(space, "laned", 1)
    ended.cancel()
    with pytest.raises(RequestCancelled):
        ended.result(timeout=WAIT_S)
    assert waits(space, "laned", 0)
    after = held(me, "c b")
    opened(laned, "a b c")
    assert [each.result(timeout=WAIT_S) for each in (first, *after)] == ["a", "c", "b"]
    assert laned.begun == ["a", "c", "b"]


def test_lane_goes_on_after_a_message_that_was_cancelled_under_way(space: Any) -> None:
    laned, me = space.add(Laned("laned")), space.add(Agent("me"))
    requests = held(me, "a1 a2")
    laned.begun.wait_for(1)
    requests[0].cancel()
    assert laned.begun.wait_for(2) == ["a1", "a2"]
    opened(laned, "a2")
    assert requests[1].result(timeout=WAIT_S) == "a2"
    assert laned.ended == ["a1 cancelled", "a2 done"]


def test_lane_of_a_cancelled_plain_action_stays_busy(space: Any) -> None:
    laned, me = space.add(Laned("laned")), space.add(Agent("me"))
    first, second = held(me, "a1 a2", "hold_plainly")
    laned.begun.wait_for(1)
    first.cancel()
    with pytest.raises(RequestCancelled):
        first.result(timeout=WAIT_S)
    assert me.ask("laned", "quick", name="b").result(timeout=WAIT_S) == "b"
    assert laned.begun == ["a1", "b"]
    opened(laned, "a1 a2")
    assert second.result(timeout=WAIT_S) == "a2"


@pytest.mark.parametrize("concurrency", (1, 4))
@pytest.mark.parametrize("to", ("a2", "b"))
def test_lanes_let_their_own_chain_in_before_its_turn(
    space: Any, to: str, concurrency: int
) -> None:
    laned = space.add(Laned("laned", concurrency=concurrency))
    me = space.add(Agent("me"))
    for name in ("a9", "b9"):  # others of both lanes come first, but for what is let in
        opened(laned, name)
    outer = me.ask("laned", "pass_on", name="a1", to=to)
    laned.begun.wait_for(2)
    later = held(me, "a9 b9")
    opened(laned, to)
    assert outer.result(timeout=WAIT_S) == to
    for each in later:
        each.result(timeout=WAIT_S)
    assert laned.begun[:2] == ["a1", to]


def test_lanes_reentrant_call_keeps_the_lane_of_its_ended_caller(space: Any) -> None:
    class Leaving(Laned):
        @action
        async def leave_it(self, name: str, to: str) -> str:
            """Begin a request, and end while it goes on."""
            self.begun.add(name)
            self.kept = self.ask(self.id, "hold_stubbornly", name=to)
            reader = self.create_reader()
            await self.gate("in")
            reader.cancel()
            return name

        def create_reader(self) -> Any:
            import asyncio

            async def read() -> None:
                await self.kept

            return asyncio.create_task(read())

    laned, me = space.add(Leaving("laned")), space.add(Agent("me"))
    outer = me.ask("laned", "leave_it", name="a1", to="a2")
    laned.begun.wait_for(2)
    next_one = me.ask("laned", "hold", name="a3")
    assert waits(space, "laned", 1)
    laned.gate("in").open()
    assert outer.result(timeout=WAIT_S) == "a1"
    assert me.ask("laned", "quick", name="b").result(timeout=WAIT_S) == "b"
    assert laned.begun == ["a1", "a2", "b"]
    opened(laned, "a2 a3")
    assert next_one.result(timeout=WAIT_S) == "a3"


def test_lanes_refused_or_failed_message_frees_its_lane(space: Any) -> None:
    laned, me = space.add(Laned("laned", concurrency=1)), space.add(Agent("me"))
    ends: list[tuple[Any, type[Exception]]] = [
        (me.ask("laned", "fail", name="a1"), ActionError),
        (me.ask("laned", "nothing", name="a2"), ActionNotFound),
        (me.ask("laned", "hold", name="a3", more=1), InvalidArguments),
    ]
    for request, error in ends:
        with pytest.raises(error):
            request.result(timeout=WAIT_S)
    assert me.ask("laned", "quick", name="b").result(timeout=WAIT_S) == "b"
    assert laned.begun == ["a1", "b"]


def test_lanes_message_awaiting_approval_leaves_its_lane_and_requeues(space: Any) -> None:
    laned, me = space.add(Laned("laned")), space.add(Agent("me"))
    laned.answers = Gate()
    asked = me.ask("laned", "asked_first", name="a1")
    requests = held(me, "a2 a3")
    assert laned.begun.wait_for(1) == ["a2"]  # later ones pass it
    assert waits(space, "laned", 1)
    laned.answers.open()
    assert waits(space, "laned", 2)
    assert not asked.done()
    opened(laned, "a2 a3")
    assert asked.result(timeout=WAIT_S) == "a1"
    assert [each.result(timeout=WAIT_S) for each in requests] == ["a2", "a3"]
    assert laned.begun == ["a2", "a3", "a1"]


def test_lanes_message_not_permitted_frees_its_lane(space: Any) -> None:
    laned, me = space.add(Laned("laned", concurrency=1)), space.add(Agent("me"))
    laned.answers = False
    with pytest.raises(NotPermitted):
        me.ask("laned", "asked_first", name="a1").result(timeout=WAIT_S)
    assert me.ask("laned", "quick", name="a2").result(timeout=WAIT_S) == "a2"


def test_mailbox_counts_messages_that_wait_in_every_lane(make_space: Any) -> None:
    space = make_space(mailbox=4)
    laned, me = space.add(Laned("laned")), space.add(Recorder("me", receive_own_broadcasts=False))
    first = held(me, "a1 b1")
    laned.begun.wait_for(2)
    waiting = held(me, "a2 b2 a3 b3")
    with pytest.raises(MailboxFull, match="4 messages wait"):
        me.ask("laned", "hold", name="a4").result(timeout=WAIT_S)
    me.send(message("*", "quick", name="c"))
    assert [name for name, _ in me.told(1)] == ["error"]
    waiting[0].cancel()
    assert waits(space, "laned", 3)
    waiting[0] = me.ask("laned", "hold", name="b4")
    assert waits(space, "laned", 4)
    opened(laned, "a1 b1 b2 a3 b3 b4")
    for each in first + waiting:
        each.result(timeout=WAIT_S)
    assert laned.begun.count("a2") == 0


def test_lanes_order_broadcasts_too(space: Any) -> None:
    laned, me = space.add(Laned("laned")), space.add(Agent("me", receive_own_broadcasts=False))
    first = me.ask("laned", "hold", name="a1")
    laned.begun.wait_for(1)
    me.send(message("*", "quick", name="a2"))
    me.send(message("*", "quick", name="b"))
    assert laned.begun.wait_for(2) == ["a1", "b"]
    opened(laned, "a1")
    assert first.result(timeout=WAIT_S) == "a1"
    assert laned.begun.wait_for(3) == ["a1", "b", "a2"]


@pytest.mark.parametrize("end", ("remove", "close"))
def test_lanes_all_end_with_the_agent_and_the_space(space: Any, end: str) -> None:
    laned, me = space.add(Laned("laned", concurrency=2)), space.add(Agent("me"))
    requests = held(me, "a1 b1 a2 c1 c2")
    laned.begun.wait_for(2)
    if end == "remove":
        space.remove("laned")
    else:
        space.close()
    for each in requests:
        with pytest.raises(AgentStopped if end == "remove" else SpaceClosed):
            each.result(timeout=WAIT_S)
    assert sorted(laned.begun) == ["a1", "b1"]
    assert sorted(laned.ended.wait_for(2)) == ["a1 cancelled", "b1 cancelled"]


def test_lanes_begin_once_after_add_has_ended(space: Any) -> None:
    begun, gate = threading.Event(), Gate()

    class Slow(Laned):
        async def after_add(self) -> None:
            begun.set()
            await gate
            self.begun.add("ready")

    me = space.add(Agent("me"))
    laned = Slow("laned")
    adding = threading.Thread(target=space.add, args=(laned,))
    adding.start()
    assert begun.wait(WAIT_S)
    request = me.request(message("laned", "quick", name="a"), timeout=WAIT_S)
    assert waits(space, "laned", 1)
    gate.open()
    assert request.result(timeout=WAIT_S) == "a"
    adding.join(WAIT_S)
    assert laned.begun == ["ready", "a"]


def test_lane_that_cannot_be_told_is_none(space: Any, log: Log) -> None:
    class Confused(Laned):
        def find_lane(self, message: dict[str, Any], handling: Any) -> str | None:
            raise LookupError("no idea")

    space.add(Confused("laned"))
    me = space.add(Agent("me"))
    assert me.ask("laned", "quick", name="a").result(timeout=WAIT_S) == "a"
    assert "LookupError: no idea" in log.wait_for("lane")


def test_lanes_come_and_go_by_thousands_in_order(space: Any, load: Any) -> None:
    laned, me = space.add(Laned("laned")), space.add(Recorder("me"))
    wanted: dict[str, deque[str]] = {}
    for n in range(load(3_000)):
        name = f"{'abcdefghijklmnopqrstuvwxyz'[n * 7 % 26]}{n}"
        wanted.setdefault(name[0], deque()).append(name)
        me.send(message("laned", "quick", name=name))
    settle(me)
    me.wait_for(load(3_000))
    for name in laned.begun:
        assert wanted[name[0]].popleft() == name
    assert not any(wanted.values())


class Talker(Agent):
    """Has one lane for all, as an agent with one conversation has."""

    def __init__(self, id: str, together: threading.Barrier) -> None:
        super().__init__(id)
        self.together = together

    def find_lane(self, message: dict[str, Any], handling: Any) -> str | None:
        return "all"

    @action
    def talk(self, to: str) -> Any:
        self.together.wait(WAIT_S)
        return self.ask(to, "listen").result(WAIT_S)

    @action
    async def listen(self) -> str:
        return self.id


def test_lanes_of_agents_that_wait_for_each_other_get_a_deadlock(space: Any) -> None:
    together = threading.Barrier(2)
    for id in "AB":
        space.add(Talker(id, together))
    me = space.add(Agent("me"))
    asked = [me.ask(id, "talk", to=to) for id, to in ("AB", "BA")]
    ended = []
    for each in asked:
        try:
            ended.append(each.result(WAIT_S))
        except ActionError as error:
            ended.append(error.type)
    assert sorted(ended)[1] == "Deadlock"
    assert me.ask("A", "listen").result(WAIT_S) == "A"
