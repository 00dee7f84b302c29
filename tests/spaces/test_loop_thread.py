"""What is run on a space's loop from other threads ends in any case, whenever the loop ends."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from conformance.conftest import WAIT_S
from conformance.gate import Gate
from moothall.foundation.errors import RequestCancelled, SpaceClosed
from moothall.spaces.loop import LoopThread


class Life:
    """A loop's thread, and whether it has ended."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.thread = LoopThread("test", self._closing, self.over.set)
        self.thread.start()

    async def _closing(self) -> None:
        await asyncio.sleep(0)

    def end(self) -> None:
        """Stop it and wait for that."""
        self.thread.stop()
        assert self.over.wait(WAIT_S)


@pytest.fixture
def life() -> Iterator[Life]:
    life = Life()
    yield life
    life.end()


def begun_in(life: Life, wait_for: Any) -> tuple[Future[Any], threading.Event]:
    """Run what awaits something, and wait until it does."""
    begun, ended = threading.Event(), threading.Event()

    async def work() -> Any:
        begun.set()
        try:
            return await wait_for()
        finally:
            ended.set()

    outcome = life.thread.run(work)
    assert begun.wait(WAIT_S)
    return outcome, ended


def test_loop_thread_run_returns_value_or_raises(life: Life) -> None:
    async def later(a: int) -> int:
        await asyncio.sleep(0)
        return 7 // a

    for function in (later, lambda a: 7 // a):
        assert life.thread.run(function, 2).result(timeout=WAIT_S) == 3
        with pytest.raises(ZeroDivisionError):
            life.thread.run(function, 0).result(timeout=WAIT_S)


# Of asyncio's loop, which is dropped half made.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_loop_thread_start_raises_when_no_loop_can_be_made() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            Life()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    gc.collect()


def test_cancelling_the_future_cancels_the_task(life: Life) -> None:
    outcome, ended = begun_in(life, lambda: Gate())
    outcome.cancel()
    with pytest.raises(CancelledError):
        outcome.result(timeout=WAIT_S)
    assert ended.wait(WAIT_S)


async def test_loop_thread_run_cancelled_from_another_loop_cancels_the_task(life: Life) -> None:
    outcome, ended = begun_in(life, lambda: Gate())
    waiting = asyncio.ensure_future(asyncio.wrap_future(outcome))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait((waiting,))
    assert ended.wait(WAIT_S)


def test_loop_thread_run_raises_request_cancelled_for_a_cancelled_task(life: Life) -> None:
    async def cancel_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    with pytest.raises(RequestCancelled):
        life.thread.run(cancel_itself).result(timeout=WAIT_S)


def test_loop_thread_end_ends_running_tasks(life: Life) -> None:
    async def for_ever() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    outcome, ended = begun_in(life, lambda: Gate())
    stubborn, _ = begun_in(life, for_ever)
    life.end()
    for each in (outcome, stubborn):
        with pytest.raises(SpaceClosed):
            each.result(timeout=WAIT_S)
    assert ended.is_set()


def test_loop_thread_end_ends_tasks_under_cancellation(life: Life) -> None:
    """The cleanup of a cancelled task may wait, too."""
    cleaning, told = threading.Event(), threading.Event()

    async def work() -> None:
        try:
            await Gate()
        finally:
            cleaning.set()
            try:
                await Gate()
            except asyncio.CancelledError:
                told.set()

    outcome = life.thread.run(work)
    life.thread.run(asyncio.sleep, 0).result(timeout=WAIT_S)  # it has begun
    outcome.cancel()
    assert cleaning.wait(WAIT_S)
    life.end()
    assert told.is_set()


def test_loop_thread_end_settles_every_run_submitted_meantime() -> None:
    async def wait_long() -> None:
        await asyncio.Event().wait()

    def run_many(life: Life, outcomes: list[Future[Any]], some: threading.Event) -> None:
        for n in range(300):
            outcomes.append(life.thread.run(wait_long))
            if n == 10:
                some.set()

    for _ in range(20):
        life, some = Life(), threading.Event()
        outcomes: list[Future[Any]] = []
        thread = threading.Thread(target=run_many, args=(life, outcomes, some))
        thread.start()
        assert some.wait(WAIT_S)
        life.end()
        thread.join(WAIT_S)
        assert len(outcomes) == 300
        for outcome in outcomes:
            with pytest.raises(SpaceClosed):
                outcome.result(timeout=WAIT_S)
