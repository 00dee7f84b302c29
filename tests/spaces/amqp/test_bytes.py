"""Large messages: what is in a process is bounded in bytes, not only in number."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from benchmarks.proxy import Proxy

from conformance.conftest import Kept, Log, Recorder, message
from moothall import Agent, AMQPOptions, MailboxFull, action
from spaces.amqp.conftest import WAIT_S, MakeSpace, until

MB = 1_000_000


class Reader(Agent):
    """Keeps the numbers of what it has read; it reads nothing before it may."""

    def __init__(self) -> None:
        super().__init__("reader")
        self.read: Kept[int] = Kept()
        self.may_begin = threading.Event()

    @action
    async def take(self, n: int, text: str = "") -> None:
        while not self.may_begin.is_set():  # noqa: ASYNC110 - a thread of the test sets it
            await asyncio.sleep(0.005)
        self.read.add(n)


def test_amqp_large_messages_wait_at_the_broker_beyond_the_bytes_of_a_process(
    make_space: MakeSpace, waiting: Callable[[str], int]
) -> None:
    space = make_space(prefetch_bytes=4 * MB)
    reader = space.add(Reader())
    me = make_space().add(Recorder("me"))
    for n in range(60):
        me.send(message("reader", "take", n=n, text="x" * MB))
    until(lambda: waiting("reader") >= 40)
    assert space.statistics()["agents"]["reader"]["waiting"] <= 16
    reader.may_begin.set()
    assert reader.read.wait_for(60, timeout=60) == list(range(60))
    assert waiting("reader") == 0


def test_amqp_small_messages_are_taken_ahead_up_to_the_mailbox(
    make_space: MakeSpace, waiting: Callable[[str], int]
) -> None:
    space = make_space()
    reader = space.add(Reader())
    me = make_space().add(Recorder("me"))
    for n in range(3000):
        me.send(message("reader", "take", n=n))
    until(lambda: space.statistics()["agents"]["reader"]["waiting"] == 2999)
    assert waiting("reader") == 0
    reader.may_begin.set()
    assert reader.read.wait_for(3000, timeout=60) == list(range(3000))


def test_amqp_prefetch_is_how_many_messages_a_process_takes_ahead(
    make_space: MakeSpace, waiting: Callable[[str], int]
) -> None:
    space = make_space(prefetch=5)
    reader = space.add(Reader())
    me = make_space().add(Recorder("me"))
    for n in range(20):
        me.send(message("reader", "take", n=n))
    until(lambda: space.statistics()["agents"]["reader"]["waiting"] == 4)
    until(lambda: waiting("reader") == 15)
    assert space.statistics()["agents"]["reader"]["waiting"] == 4
    reader.may_begin.set()
    assert reader.read.wait_for(20) == list(range(20))


def test_amqp_messages_larger_than_the_bytes_of_a_process_are_taken_one_by_one(
    make_space: MakeSpace,
) -> None:
    reader = make_space(prefetch_bytes=1000).add(Reader())
    reader.may_begin.set()
    me = make_space().add(Recorder("me"))
    for n in range(50):
        me.send(message("reader", "take", n=n, text="x" * 10_000))
    assert reader.read.wait_for(50) == list(range(50))


def test_amqp_mailbox_bytes_bound_what_waits_at_the_broker(make_space: MakeSpace) -> None:
    space = make_space(mailbox_bytes=10 * MB, prefetch_bytes=MB)
    reader = space.add(Reader())
    me = make_space().add(Recorder("me"))
    for n in range(60):
        me.send({"id": str(n), **message("reader", "take", n=n, text="x" * MB)})
    told = me.told(1)
    assert 'the mailbox of "reader" is full' in told[0][1]["error"]
    reader.may_begin.set()
    until(lambda: len(reader.read) + len(me.messages) == 60, timeout=60)


def test_amqp_replicated_queue_that_is_full_by_bytes_refuses_its_senders(
    make_space: MakeSpace,
) -> None:
    space = make_space(quorum=True, mailbox_bytes=2 * MB, prefetch=1)
    reader = space.add(Reader())
    me = make_space(quorum=True).add(Recorder("me"))
    for n in range(30):  # the first few above the limit are taken
        me.send(message("reader", "take", n=n, text="x" * MB))
    ((kind, told), *_) = me.told(1)
    assert kind == "error"
    assert 'the mailbox of "reader" is full' in told["error"]
    reader.may_begin.set()
    until(lambda: len(reader.read) + len(me.messages) == 30)


@pytest.mark.parametrize("delay", (None, pytest.param(60, marks=pytest.mark.long)))
async def test_amqp_sender_keeps_no_more_bytes_than_its_limit_for_a_stalled_broker(
    make_space: MakeSpace, proxy: Proxy, delay: float | None
) -> None:
    space = make_space(amqp_options=AMQPOptions("127.0.0.1", proxy.port))
    me = space.add(Recorder("me"))
    proxy.stall()
    begun, text = time.monotonic(), "x" * (15 * MB)
    for n in range(10):
        me.send(message("nobody", "take", n=n, text=text), delay=delay)
    for _, args in me.told(1):
        assert "wait for the broker: no more fit" in args["error"]
    assert time.monotonic() - begun < 60
    proxy.resume()


def test_amqp_slow_observer_of_everything_loses_the_oldest_and_says_how_many(
    make_space: MakeSpace, log: Log
) -> None:
    seen: list[int] = []
    may_go_on = threading.Event()

    def observe(shown: dict[str, Any]) -> None:
        may_go_on.wait(60)
        if shown["action"]["name"] == "take":
            seen.append(shown["action"]["args"]["n"])

    make_space().observe(observe, everywhere=True)
    reader = make_space().add(Reader())
    reader.may_begin.set()
    me = make_space().add(Recorder("me"))
    for n in range(120):
        me.send(message("reader", "take", n=n, text="x" * MB))
        if n % 10 == 9:
            reader.read.wait_for(n + 1)
    may_go_on.set()
    until(lambda: 119 in seen, timeout=60)
    log.wait_for("observers are slower than the messages: at least one was not shown")
    line = log.wait_for("more messages, at least, were not shown to observers within a second")
    assert len(seen) < 120
    assert seen == sorted(seen)
    assert int(line.split(" more ")[0].split()[-1]) < 120 - len(seen)


def test_amqp_mailbox_full_is_raised_for_a_request_that_does_not_fit(make_space: MakeSpace) -> None:
    space = make_space(mailbox_bytes=2 * MB, prefetch_bytes=MB)
    space.add(Reader())
    me = make_space().add(Agent("me"))
    asked = [me.ask("reader", "take", n=n, text="x" * MB) for n in range(30)]
    with pytest.raises(MailboxFull, match="is full"):
        asked[-1].result(WAIT_S)
