"""Whose turn it is: agents of one loop leave each other theirs, and callers let their chain in."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from conformance.conftest import WAIT_S, Kept, message
from conformance.gate import Gate, Holder
from moothall import (
    Agent,
    MailboxFull,
    NativeSpace,
    ReActAgent,
    RequestCancelled,
    RequestError,
    ScriptedModel,
    action,
)
from moothall.build import Delivery, Mailbox


def test_native_space_long_mailbox_lets_other_agents_run() -> None:
    order: Kept[str] = Kept()

    class Noting(Agent):
        @action
        async def note(self) -> None:
            """Keep that it was called."""
            order.add(str(self.id))

    class Sender(Agent):
        @action
        async def send_all(self) -> None:
            """Send a thousand messages to one agent and then one to another, at once."""
            for _ in range(1_000):
                self.send(message("busy", "note"))
            self.send(message("other", "note"))

    with NativeSpace() as space:
        for agent in (Noting("busy"), Noting("other"), Sender("sender")):
            space.add(agent)
        me: Any = space.add(Agent("me"))
        me.ask("sender", "send_all").result(timeout=WAIT_S)
        assert order.wait_for(1_001).index("other") <= 100


@pytest.mark.parametrize("asker", ("busy", "relay"))
def test_native_space_repeated_reentrant_calls_let_other_agents_run(asker: str) -> None:
    order: list[str] = []

    class Noting(Agent):
        @action
        async def note(self) -> None:
            """Keep that it was called."""
            order.append(str(self.id))

        @action
        async def begin(self) -> None:
            """Have itself asked, by itself or by another."""
            await self.ask(asker, "ask_busy")

        @action
        async def ask_busy(self) -> None:
            """Ask one that waits for this a thousand times; send to another in the midst of it."""
            for n in range(1_000):
                if n == 500:
                    self.send(message("other", "note"))
                await self.ask("busy", "note")

    with NativeSpace() as space:
        for id in ("busy", "relay", "other"):
            space.add(Noting(id))
        me: Any = space.add(Agent("me"))
        me.ask("busy", "begin").result(timeout=WAIT_S)
    assert order.index("other") <= 600


def test_native_space_broadcast_to_many_agents_lets_other_agents_run() -> None:
    """Each receiver has one turn; together they would hold the loop for a second."""
    worked: list[str] = []
    seen: list[int] = []

    class Worker(Agent):
        @action
        async def work(self) -> None:
            """Take some tenths of a millisecond."""
            sum(range(20_000))
            worked.append(str(self.id))

    class Onlooker(Agent):
        @action
        async def look(self) -> None:
            """See at each turn of the loop how many have worked."""
            while len(worked) < 1_000:
                seen.append(len(worked))
                await asyncio.sleep(0)
            seen.append(1_000)

    with NativeSpace() as space:
        for n in range(1_000):
            space.add(Worker(f"w{n}"))
        space.add(Onlooker("onlooker"))
        me = space.add(Agent("me", receive_own_broadcasts=False))
        looking = me.ask("onlooker", "look")
        me.send(message("*", "work"))
        looking.result(timeout=WAIT_S)
    assert max(after - before for before, after in pairwise(seen)) <= 500


def test_reentrant_call_from_an_ended_handler_runs_while_its_caller_waits() -> None:
    """Without re-entrance, caller and called would wait for each other."""
    queued = Gate()

    class Caller(Agent):
        asked: Any = None

        @action
        async def begin(self) -> str:
            """Have `leave` called here, then wait for what that has asked."""
            await self.ask("relay", "relay")
            value: str = await self.asked
            return value

        @action
        async def leave(self) -> None:
            """Ask for what comes back here, and end when it waits here."""
            self.asked = self.ask("other", "come_back")
            await queued

        @action
        async def answer(self) -> str:
            return "answered"

    class Relay(Agent):
        @action
        async def relay(self) -> None:
            await self.ask("caller", "leave")

    class Other(Agent):
        @action
        async def come_back(self) -> str:
            asked = self.ask("caller", "answer")
            queued.open()
            value: str = await asked
            return value

    with NativeSpace() as space:
        for agent in (Caller("caller"), Relay("relay"), Other("other")):
            space.add(agent)
        me: Any = space.add(Agent("me"))
        assert me.ask("caller", "begin").result(timeout=WAIT_S) == "answered"


def test_request_cancelled_before_its_task_begins_frees_the_slot() -> None:
    class Asker(Agent):
        @action
        async def ask_and_cancel(self) -> None:
            asked = self.ask("holder", "hold")
            # No task is idle, so one is made; it has its first step after this.
            asyncio.get_running_loop().call_soon(asked.cancel)
            with pytest.raises(RequestCancelled):
                await asked

    with NativeSpace() as space:
        space.add(Asker("asker"))
        holder = space.add(Holder("holder"))
        me: Any = space.add(Agent("me"))
        me.ask("asker", "ask_and_cancel").result(timeout=WAIT_S)
        assert me.ask("holder", "note", name="next").result(timeout=WAIT_S) == "next"
        assert holder.begun == ["next"]


class LastFirst(Mailbox.line_type):
    def append(self, delivery: Delivery) -> None:
        self.insert(0, delivery)


class LastFirstMailbox(Mailbox):
    line_type = LastFirst


class Stack(NativeSpace):
    mailbox_type = LastFirstMailbox


def test_native_space_line_of_a_class_of_its_own_orders_all_messages() -> None:
    order: Kept[int] = Kept()

    class Noting(Agent):
        @action
        async def note(self, number: int) -> None:
            """Keep a number."""
            order.add(number)

    class Sender(Agent):
        @action
        async def send_all(self) -> None:
            """Send three messages at once, one of them to everyone."""
            for number, to in ((1, "noting"), (2, "*"), (3, "noting")):
                self.send(message(to, "note", number=number))

    with Stack() as space:
        space.add(Noting("noting"))
        space.add(Sender("sender"))
        me: Any = space.add(Agent("me"))
        me.ask("sender", "send_all").result(timeout=WAIT_S)
        assert order.wait_for(3) == [3, 2, 1]


@pytest.mark.parametrize("has_lanes", (True, False))
def test_native_space_line_of_a_class_of_its_own_orders_each_thread_or_all(has_lanes: bool) -> None:
    begun: Kept[str] = Kept()
    asked: Kept[str] = Kept()
    gate = Gate()

    class Laned(LastFirstMailbox):
        pass

    class Pile(NativeSpace):
        mailbox_type = Laned

    Laned.has_lanes = has_lanes

    async def answer(messages: list[dict[str, Any]], actions: Any) -> str:
        begun.add(messages[-1]["content"])
        await gate
        return "ok"

    class Sender(Agent):
        @action
        async def ask_all(self) -> None:
            """Ask three things at once."""
            contents = [f"{self.id}{number}" for number in (1, 2, 3)]
            requests = [self.ask("clerk", "say", content=content) for content in contents]
            asked.add(str(self.id))
            for request in requests:
                await request

    with Pile() as space:
        for agent in (ReActAgent("clerk", ScriptedModel(answer)), Sender("a"), Sender("b")):
            space.add(agent)
        me: Any = space.add(Agent("me"))
        requests = [me.ask("a", "ask_all")]
        assert begun.wait_for(1) == ["a3"]
        requests.append(me.ask("b", "ask_all"))
        asked.wait_for(2)
        if has_lanes:
            assert begun.wait_for(2) == ["a3", "b3"]
        gate.open()
        for request in requests:
            request.result(timeout=WAIT_S)
    order = begun.wait_for(6)
    if has_lanes:
        for sender in "ab":
            in_thread = [content for content in order if content.startswith(sender)]
            assert in_thread == [f"{sender}{number}" for number in (3, 2, 1)]
    else:
        assert order == ["a3", "b3", "b2", "b1", "a2", "a1"]


def test_native_space_mailbox_of_its_own_is_full_before_ours() -> None:
    class Short(Mailbox):
        def is_full(self, delivery: Delivery) -> bool:
            return self.waiting() >= 1 or super().is_full(delivery)

    class Clinic(NativeSpace):
        mailbox_type = Short

    with Clinic() as space:
        holder: Any = space.add(Holder("holder"))
        me: Any = space.add(Agent("me"))
        requests = [me.ask("holder", "hold")]
        holder.begun.wait_for(1)
        requests.append(me.ask("holder", "hold"))
        with pytest.raises(MailboxFull, match="holder"):
            me.ask("holder", "note", name="third").result(timeout=WAIT_S)
        holder.gate("one").open()
        assert [request.result(timeout=WAIT_S) for request in requests] == ["one", "one"]


class BrokenAccept(Mailbox):
    def accept(self, delivery: Delivery) -> None:
        super().accept(delivery)
        raise KeyError("accept")


class BrokenIsFull(Mailbox):
    def is_full(self, delivery: Delivery) -> bool:
        raise KeyError("is_full")


class BrokenAppend(Mailbox):
    class line_type(Mailbox.line_type):
        def append(self, delivery: Delivery) -> None:
            raise KeyError("append")


class BrokenPopleft(Mailbox):
    class line_type(Mailbox.line_type):
        def popleft(self) -> Delivery:
            raise KeyError("popleft")


@pytest.mark.parametrize("kind", (BrokenAccept, BrokenIsFull, BrokenAppend, BrokenPopleft))
@pytest.mark.parametrize("to_all", (False, True))
def test_native_space_mailbox_of_its_own_that_raises_ends_its_messages(
    kind: type[Mailbox], to_all: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Clinic(NativeSpace):
        mailbox_type = kind

    texts = []
    with Clinic() as space:
        holder: Any = space.add(Holder("holder"))
        me: Any = space.add(Agent("me"))
        if to_all:
            me.send(message("*", "note", name="first"))
        requests = [me.ask("holder", "note", name=str(number)) for number in range(3)]
        for request in requests:
            with pytest.raises(RequestError) as refused:
                request.result(timeout=WAIT_S)
            texts.append(str(refused.value))
        assert holder.begun == []
    mailbox = f"the mailbox of agent 'holder' (a class {kind.__qualname__})"
    failure = f"{mailbox} failed on holder.note: KeyError"
    assert all(text.startswith(failure) for text in texts)
    assert failure in caplog.text
    assert "a defect in moothall" not in caplog.text
