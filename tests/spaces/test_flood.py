"""A thread that sends without pause: the space goes on, and the thread waits."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from conformance.conftest import WAIT_S, Kept, message
from moothall import ACCESS_REQUESTED, Agent, NativeSpace, action
from moothall.foundation.errors import MailboxFull, RequestTimeout

LET_THROUGH = 1_000
"""Messages of a thread that may be on their way into a space; a thread beyond that waits."""


@pytest.fixture(autouse=True)
def few_lines() -> Iterator[None]:
    """What is refused is logged, once for each message: too much for a test to keep."""
    logger = logging.getLogger("moothall")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


class Sink(Agent):
    """Takes what it is sent; its mailbox is full most of the time."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.handled: Kept[int] = Kept()

    @action
    async def put(self, n: int) -> None:
        """Keep a number."""
        self.handled.add(n)

    @action
    async def hold(self) -> None:
        """Keep busy until cancelled."""
        await asyncio.Event().wait()


class Quiet(Agent):
    """Says nothing of errors: a refused message is one."""

    @action
    async def error(self, error: str, original_message_id: str | None = None) -> None:
        """Ignore it."""


FLOODS = {
    "send": lambda me, n: me.send(message("sink", "put", n=n)),
    "broadcast": lambda me, n: me.send(message("*", "put", n=n)),
    "dropped request": lambda me, n: me.ask("sink", "put", n=n),
}


@contextmanager
def flood(me: Agent, kind: str) -> Iterator[None]:
    """Have a thread send without pause."""
    over = threading.Event()

    def main() -> None:
        n = 0
        while not over.is_set():
            FLOODS[kind](me, n)
            n += 1

    thread = threading.Thread(target=main, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(WAIT_S)
        assert not thread.is_alive()


@pytest.mark.parametrize("kind", FLOODS)
def test_others_are_answered_and_deadlines_kept_while_a_thread_floods(kind: str) -> None:
    with NativeSpace(mailbox=100) as space:
        sink = space.add(Sink("sink"))
        space.add(Sink("calm"))
        busy = space.add(Sink("busy"))
        me, other = space.add(Quiet("me", receive_own_broadcasts=False)), space.add(Quiet("other"))
        with flood(me, kind):
            for _ in range(3):
                # A broadcast fills every mailbox; then a request is refused, which is an end too.
                with suppress(*([MailboxFull] if kind == "broadcast" else [])):
                    other.ask("calm", "help").result(timeout=WAIT_S)
                late = other.request(message("busy", "hold"), timeout=0.05)
                with pytest.raises((RequestTimeout, MailboxFull)[: 1 + (kind == "broadcast")]):
                    late.result(timeout=WAIT_S)
                if kind != "dropped request":  # those are cancelled before their turn
                    so_far = len(sink.handled)
                    sink.handled.wait_for(so_far + 1)
            assert space.statistics()["agents"][busy.id]["waiting"] <= 100


def test_send_of_a_thread_waits_while_the_loop_is_held() -> None:
    begun, go_on = threading.Event(), threading.Event()
    seen = 0
    ahead: list[int] = []
    sent = 0

    class Holder(Sink):
        @action
        async def hold_the_loop(self) -> None:
            """Hold the loop until the test lets go of it."""
            begun.set()
            assert go_on.wait(WAIT_S)

    def watch(seen_message: dict[str, Any]) -> None:
        nonlocal seen
        if seen_message["action"]["name"] == "put":
            seen += 1
            ahead.append(sent - seen)

    def main() -> None:
        nonlocal sent
        for n in range(5_000):
            me.send(message("sink", "put", n=n))
            sent += 1

    with NativeSpace() as space:
        sink, holder = space.add(Sink("sink")), space.add(Holder("holder"))
        me = space.add(Quiet("me"))
        space.observe(watch)
        held = me.ask(holder.id, "hold_the_loop")
        assert begun.wait(WAIT_S)
        sender = threading.Thread(target=main)
        sender.start()
        sender.join(0.3)
        assert sender.is_alive()  # it waits in send
        go_on.set()
        held.result(timeout=WAIT_S)
        sender.join(WAIT_S)
        assert sink.handled.wait_for(5_000) == list(range(5_000))
        assert max(ahead) <= LET_THROUGH


def test_send_on_a_loop_of_a_space_never_waits() -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Sender(Agent):
        @action
        async def send_many(self, via: str) -> int:
            """Send from this loop into the other space, which takes nothing meanwhile."""
            for n in range(2 * LET_THROUGH):
                away[via].send(message("sink", "put", n=n))
            return n

    class Holder(Agent):
        @action
        async def hold_the_loop(self) -> None:
            """Hold the loop until the test lets go of it."""
            begun.set()
            assert go_on.wait(WAIT_S)

    with NativeSpace() as here, NativeSpace() as there:
        sink = there.add(Sink("sink"))
        there.add(Holder("holder"))
        away = {"there": there.add(Quiet("from here")), "here": here.add(Quiet("me"))}
        here.add(Sink("sink"))
        here.add(Sender("sender"))
        held = away["there"].ask("holder", "hold_the_loop")
        assert begun.wait(WAIT_S)
        for via in ("there", "here"):
            away["here"].ask("sender", "send_many", via=via).result(timeout=WAIT_S)
        go_on.set()
        held.result(timeout=WAIT_S)
        assert sink.handled.wait_for(2 * LET_THROUGH) == list(range(2 * LET_THROUGH))


def test_mailbox_counts_messages_awaiting_approval_as_waiting() -> None:
    asked: Kept[int] = Kept()

    class Guarded(Agent):
        @action(access_policy=ACCESS_REQUESTED)
        async def open_door(self) -> None:
            """Open it."""

        async def request_permission(self, proposed_message: dict[str, Any]) -> bool:
            asked.add(1)
            await asyncio.Event().wait()
            return True

    with NativeSpace(mailbox=3) as space:
        space.add(Guarded("guarded"))
        me = space.add(Agent("me"))
        requests = [me.ask("guarded", "open_door") for _ in range(3)]
        asked.wait_for(3)
        with pytest.raises(MailboxFull, match="3 messages wait"):
            me.ask("guarded", "open_door").result(timeout=WAIT_S)
        requests.pop().cancel()
        for _ in range(3):  # what is cancelled ends in a turn of the loop of its own
            me.ask("me", "help").result(timeout=WAIT_S)
        requests.append(me.ask("guarded", "open_door"))
        asked.wait_for(4)


def test_send_from_blocked_threads_takes_turns() -> None:
    with NativeSpace() as space:
        sink = space.add(Sink("sink"))
        first, second = space.add(Quiet("first")), space.add(Quiet("second"))
        with flood(first, "send"), flood(second, "send"):
            order: Kept[str] = Kept()
            space.observe(lambda seen: order.add(seen["from"]))
            order.wait_for(lambda names: names.count("first") > 500 < names.count("second"))
        assert sink.handled
