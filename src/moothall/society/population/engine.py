"""Engines, which run the turns of a step."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Final, Protocol

from moothall.build import WORKERS, check_boolean, check_integer, to_its_end
from moothall.society.columns.row_part import Moment
from moothall.society.kernel.router import SocietyMailbox, SocietyRouter
from moothall.society.population.population import Population
from moothall.society.population.step import CHUNK, Wants, run_in_threads

_TURNS_PER_YIELD: Final = 100  # after this many turns the loop runs the waiting ones
_QUICK_S: Final = 0.004  # rows that took less in one of two steps need no thread of their own;
# by the thread's own time: on a busy computer each step takes long
_YIELD_S: Final = 0.005  # after this time without a thread the loop runs what waits


class Engine(Protocol):
    """Runs the turns of a step."""

    async def run(self, mailboxes: Iterable[SocietyMailbox], router: SocietyRouter) -> None:
        """Run the turn of each agent, in any order; return when all have ended."""

    async def run_rows(self, population: Population, moment: Moment) -> list[Wants]:
        """Run a step of a population's rows; return their wants, in the order of the rows."""

    def close(self) -> None:
        """Release resources such as threads; the society that uses the engine calls this."""


class LocalEngine:
    """Runs the turns on the society's loop.

    A turn that waits for nothing, such as that of a citizen with rules only, runs without its own
    task. Turns that wait, for example for a model, wait concurrently.

    The rows of a population run in chunks, on `threads` threads, which numpy lets run in parallel.
    The number of threads does not change the result.

    Args:
        concurrency: the number of turns that may wait at a time
        threads: the number of threads that run the rows of a population
        apart: whether each row runs alone: a rule that looks at other rows of its part then gives
            something else, and so does its population

    Raises:
        ConfigError: a number is not 1 or more
    """

    def __init__(self, *, concurrency: int = 64, threads: int = 1, apart: bool = False) -> None:
        check_integer("concurrency", concurrency, 1, None)
        check_integer("threads", threads, 1, None)
        check_boolean("apart", apart)
        self.concurrency = concurrency
        self.threads = threads
        self.apart = apart
        self._pool: ThreadPoolExecutor | None = None
        self._durations_s = (math.inf, math.inf)  # how long the rows took in their last two steps
        self._yield_time = 0.0

    async def run_rows(self, population: Population, moment: Moment) -> list[Wants]:
        """Run a step of a population's rows; return their wants, in the order of the rows."""
        self._lend_threads(population)
        chunk = 1 if self.apart else CHUNK
        run = partial(run_in_threads, population, moment, self._pool, self.threads, chunk)
        own_time = time.thread_time if self._pool is None else time.perf_counter
        loop, start_s, duration_s = asyncio.get_running_loop(), time.perf_counter(), 0.0

        def work() -> list[Wants]:
            nonlocal duration_s
            begin_s = own_time()
            result = run()
            duration_s = own_time() - begin_s
            return result

        if min(self._durations_s) > _QUICK_S:
            # A cancelled step ends with its thread: a state that is loaded then stays as it is.
            result = await to_its_end(WORKERS.run(loop, work))
            self._yield_time = start_s
        else:
            if start_s - self._yield_time > _YIELD_S:
                await asyncio.sleep(0)
                self._yield_time = time.perf_counter()
            asyncio._set_running_loop(None)  # as in a thread: a block may run a loop of its own
            try:
                result = copy_context().run(work)
            finally:
                asyncio._set_running_loop(loop)
        self._durations_s = (self._durations_s[1], duration_s)
        return result

    def _lend_threads(self, population: Population) -> None:
        if self.threads > 1 and self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, "moothall-rows")
        population.pool = self._pool

    def close(self) -> None:
        """End the threads."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    async def run(self, mailboxes: Iterable[SocietyMailbox], router: SocietyRouter) -> None:
        """Run the turn of each agent; return when all have ended."""
        limit = self.concurrency
        for number, mailbox in enumerate(mailboxes):
            while len(router.turns) >= limit:
                await router.wait_turn_end()
            router.begin(mailbox)
            if number % _TURNS_PER_YIELD == 0:
                await asyncio.sleep(0)
        while router.turns:
            await router.wait_turn_end()
