from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from models.openai_server import HANG, OpenAIServer, status, text
from moothall.foundation.errors import ModelError
from moothall.models import OpenAIModel, RateLimit
from moothall.testing.model_suite import run, user_message


class SetClock:
    """Time that stands still until a test moves it; from any thread."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.lock = threading.Lock()
        self.sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self.lock:
            self.sleepers.append((self.time + seconds, future))
        await future

    def advance(self, seconds: float) -> None:
        with self.lock:
            self.time += seconds
            due = [each for each in self.sleepers if each[0] <= self.time]
            self.sleepers = [each for each in self.sleepers if each not in due]
        for _, future in due:
            loop = future.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(lambda f=future: f.done() or f.set_result(None))


async def settled() -> None:
    """Let everything run that can."""
    for _ in range(50):
        await asyncio.sleep(0)


class Line:
    """Callers that come one after the other, and the order in which they begin."""

    def __init__(self, limit: RateLimit) -> None:
        self.limit = limit
        self.begun: list[int] = []
        self.tasks: list[asyncio.Task[Any]] = []

    async def come(self, *tokens: int) -> None:
        for count in tokens:
            self.tasks.append(asyncio.create_task(self._one(len(self.tasks), count)))
            await settled()

    async def _one(self, number: int, tokens: int) -> Any:
        reserved = await self.limit.acquire(tokens)
        self.begun.append(number)
        return reserved

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        assert self.limit.waiting == 0


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


Steps = list[tuple[str, Any, int]]
"""Tokens that `come`, seconds that `pass`, or what the first `settle`s; and how many have begun."""

MINUTES: dict[str, tuple[dict[str, int], Steps]] = {
    "so many requests begin in any minute": (
        {"requests_per_minute": 2},
        [
            *(("come", [0], 1), ("pass", 30, 1), ("come", [0, 0, 0], 2)),
            *(("pass", 29.9, 2), ("pass", 0.1, 3), ("pass", 30, 4)),
        ],
    ),
    "requests are served in order whatever their size": (
        {"tokens_per_minute": 100},
        [("come", [60, 60, 1, 1], 1), ("pass", 60, 4)],
    ),
    "unused tokens are given back at once": (
        {"tokens_per_minute": 100},
        [("come", [90, 50], 1), ("settle", 10, 2)],
    ),
    "so many tokens are used in any minute, whatever the one before gave back": (
        {"tokens_per_minute": 100},
        [
            *(("come", [90], 1), ("settle", 40, 1), ("come", [60], 2)),
            ("pass", 60, 2),
            ("come", [100, 1], 3),
        ],
    ),
    "the estimate stays where a provider counted nothing": (
        {"tokens_per_minute": 100},
        [("come", [90], 1), ("settle", 0, 1), ("come", [50], 1)],
    ),
    "the next is delayed if more was used than thought; what is long past counts no more": (
        {"tokens_per_minute": 100},
        [
            *(("come", [10], 1), ("settle", 100, 1), ("come", [1], 1)),
            *(("pass", 60, 2), ("settle", 5000, 2), ("come", [1], 3)),
        ],
    ),
    "a request above the limit waits until it is alone": (
        {"tokens_per_minute": 100},
        [("come", [5000], 1), ("come", [5000], 1), ("pass", 60, 2)],
    ),
}


@pytest.mark.parametrize(("limits", "steps"), MINUTES.values(), ids=MINUTES)
async def test_rate_limit_of_a_minute(
    clock: SetClock, limits: dict[str, int], steps: Steps
) -> None:
    line = Line(RateLimit(**limits, clock=clock))
    for what, amount, begun in steps:
        if what == "come":
            await line.come(*amount)
        elif what == "pass":
            clock.advance(amount)
        else:
            line.tasks[0].result().settle(amount)
        await settled()
        assert line.begun == [*range(begun)]
    await line.end()


@pytest.mark.parametrize("gone", (1, 2), ids=("first", "behind"))
async def test_cancelled_while_waiting_it_takes_nothing(clock: SetClock, gone: int) -> None:
    line = Line(RateLimit(1, clock=clock))
    await line.come(0, 0, 0, 0)
    line.tasks[gone].cancel()
    await settled()
    assert line.limit.waiting == 2
    for _ in range(2):
        clock.advance(60)
        await settled()
    assert line.begun == [0, *({1, 2, 3} - {gone})]
    await line.end()


def test_threads_with_loops_of_their_own_share_one(clock: SetClock) -> None:
    limit = RateLimit(1, clock=clock)
    begun: list[int] = []
    came = threading.Semaphore(0)

    def one(number: int) -> None:
        async def wait() -> None:
            await limit.acquire()
            begun.append(number)
            came.release()

        run(wait())

    threads = [threading.Thread(target=one, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for passed in range(3):
        # Time passes whenever somebody waits for it.
        while not came.acquire(timeout=0.01):
            clock.advance(60)
        assert len(begun) >= passed + 1
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert sorted(begun) == [0, 1, 2]
    assert limit.waiting == 0


def test_rate_limit_waiter_on_a_stopped_loop_holds_nobody_up(clock: SetClock) -> None:
    limit = RateLimit(1, clock=clock)
    run(limit.acquire())
    still = asyncio.new_event_loop()
    waiting = still.create_task(limit.acquire())
    still.run_until_complete(settled())

    async def scenario() -> None:
        line = Line(limit)
        await line.come(0)
        clock.advance(60)
        await settled()
        assert line.begun == [0]

    run(scenario())
    clock.advance(60)
    still.run_until_complete(waiting)
    still.close()


def test_rate_limit_waiter_on_a_closed_loop_holds_nobody_up(clock: SetClock) -> None:
    limit = RateLimit(1, clock=clock)
    run(limit.acquire())
    lefts: list[asyncio.Task[Any]] = []

    def leave() -> None:
        loop = asyncio.new_event_loop()
        lefts.append(loop.create_task(limit.acquire()))
        loop.run_until_complete(settled())
        loop.close()

    leave()
    assert limit.waiting == 1

    async def scenario() -> None:
        line = Line(limit)
        await line.come(0)
        await asyncio.to_thread(leave)
        await asyncio.to_thread(leave)
        await line.come(0)
        for begun in ([0], [0, 1]):
            clock.advance(60)
            await settled()
            assert line.begun == begun
        await line.end()

    run(scenario())
    assert not any(left.done() for left in lefts)


def test_rate_limit_counts_an_image_as_an_image_not_as_its_bytes() -> None:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'A' * 90_000}"}}
    limit = RateLimit(tokens_per_minute=10_000, clock=SetClock())

    async def both() -> None:
        model = OpenAIModel("m", server.url, rate_limit=limit, max_tokens=100)
        asked = [{"role": "user", "content": [image]}]
        async with asyncio.timeout(30):  # for the second to wait, the clock would have to go on
            await asyncio.gather(*(model.complete(asked) for _ in range(2)))

    with OpenAIServer(text("ok")) as server:
        run(both())
    assert len(server.requests) == 2


# -- with models -----------------------------------------------------------------------------------


async def test_models_share_a_limit(clock: SetClock) -> None:
    limit = RateLimit(2, clock=clock)
    with OpenAIServer(text("ok")) as server:
        one, other = (OpenAIModel(name, server.url, rate_limit=limit) for name in "ab")
        await one.complete(user_message("Hi"))
        await other.complete(user_message("Hi"))
        third = asyncio.create_task(one.complete(user_message("Hi")))
        await settled()
        assert not third.done()
        assert len(server.requests) == 2
        clock.advance(60)
        assert (await third).text == "ok"


async def test_rate_limit_takes_the_providers_count_in_place_of_the_estimate(
    clock: SetClock,
) -> None:
    limit = RateLimit(tokens_per_minute=1000, clock=clock)
    usage = {"prompt_tokens": 20, "completion_tokens": 10}
    with OpenAIServer(text("ok", usage=usage)) as server:
        asked = OpenAIModel("m", server.url, rate_limit=limit, max_tokens=900)
        for _ in range(3):
            await asked.complete(user_message("Hi"))
        assert len(server.requests) == 3


async def test_rate_limit_is_not_held_up_by_a_failed_or_cancelled_call(clock: SetClock) -> None:
    limit = RateLimit(10, clock=clock)
    with OpenAIServer(status(400), HANG, text("ok")) as server:
        asked = OpenAIModel("m", server.url, rate_limit=limit)
        with pytest.raises(ModelError, match="answered 400"):
            await asked.complete(user_message("Hi"))
        server.wait_for_request()
        task = asyncio.create_task(asked.complete(user_message("Hi")))
        await asyncio.to_thread(server.wait_for_request)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (await asked.complete(user_message("Hi"))).text == "ok"
    assert limit.waiting == 0
