"""Worker threads: they grow with need, are used again, end by themselves, and lose nothing."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import threading
import time
import weakref
from contextvars import ContextVar
from pathlib import Path

import pytest

from moothall.foundation.errors import TooManyThreads
from moothall.foundation.threads import WorkerThreads

WAIT = 20


def test_value_and_an_exception_come_back() -> None:
    pool = WorkerThreads()

    def half(number: int) -> float:
        return 1 / number

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert await pool.run(loop, half, 2) == 0.5
        with pytest.raises(ZeroDivisionError):
            await pool.run(loop, half, 0)

    asyncio.run(main())


def test_calls_run_beside_the_loop_and_see_its_context() -> None:
    pool = WorkerThreads(name="beside")
    color: ContextVar[str] = ContextVar("color")

    async def main() -> None:
        color.set("green")
        thread, seen = await pool.run(
            asyncio.get_running_loop(), lambda: (threading.current_thread(), color.get())
        )
        assert thread is not threading.current_thread()
        assert thread.daemon
        assert thread.name.startswith("beside-")
        assert seen == "green"

    asyncio.run(main())


def test_worker_threads_calls_in_turn_use_one_thread() -> None:
    pool = WorkerThreads()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        threads = {await pool.run(loop, threading.get_ident) for _ in range(200)}
        assert len(threads) == 1
        assert pool.thread_count == pool.idle_count == 1

    asyncio.run(main())


def test_blocked_calls_starve_nobody() -> None:
    pool = WorkerThreads()
    gate = threading.Event()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        blocked = [pool.run(loop, gate.wait, WAIT) for _ in range(60)]
        assert await pool.run(loop, lambda: "through") == "through"
        assert pool.thread_count == 61
        gate.set()
        assert all(await asyncio.gather(*blocked))
        # The thread that was idle last is used first, so the others can end.
        first = await pool.run(loop, threading.get_ident)
        assert await pool.run(loop, threading.get_ident) == first

    asyncio.run(main())


def test_idle_threads_end() -> None:
    pool = WorkerThreads(idle_s=0.01)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        thread = await pool.run(loop, threading.current_thread)
        await asyncio.to_thread(thread.join, WAIT)
        assert not thread.is_alive()
        assert pool.thread_count == pool.idle_count == 0
        assert await pool.run(loop, lambda: "again") == "again"

    asyncio.run(main())


def test_workers_lose_no_job_while_threads_come_and_go() -> None:
    pool = WorkerThreads(idle_s=0.0001)
    done: list[int] = []
    finished = threading.Event()
    jobs = 4000

    def work(number: int) -> None:
        done.append(number)
        if len(done) == jobs:
            finished.set()

    def submit(start: int) -> None:
        for number in range(start, jobs, 4):
            pool.submit(work, number)

    senders = [threading.Thread(target=submit, args=(start,)) for start in range(4)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert finished.wait(WAIT)
    assert sorted(done) == list(range(jobs))


def test_limit_is_an_error_that_names_the_call() -> None:
    pool = WorkerThreads(limit=2)
    gate = threading.Event()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        blocked = [pool.run(loop, gate.wait, WAIT) for _ in range(2)]
        with pytest.raises(TooManyThreads, match=r"2 calls .* 2 are allowed; .*was not called"):
            pool.run(loop, print, "never")
        gate.set()
        await asyncio.gather(*blocked)
        assert await pool.run(loop, lambda: "again") == "again"

    asyncio.run(main())


def test_cancelled_call_runs_on_and_its_result_is_dropped() -> None:
    pool = WorkerThreads()
    gate, ended = threading.Event(), threading.Event()

    def work() -> None:
        gate.wait(WAIT)
        ended.set()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        future = pool.run(loop, work)
        future.cancel()
        with pytest.raises(asyncio.CancelledError):
            await future
        assert not ended.is_set()
        gate.set()
        assert await asyncio.to_thread(ended.wait, WAIT)
        assert await pool.run(loop, lambda: "again") == "again"

    asyncio.run(main())


def test_closed_loop_is_no_error() -> None:
    pool = WorkerThreads()
    gate = threading.Event()
    loop = asyncio.new_event_loop()

    async def start() -> None:
        pool.run(loop, gate.wait, WAIT)

    loop.run_until_complete(start())
    loop.close()
    gate.set()
    heard = threading.Event()
    pool.submit(heard.set)
    assert heard.wait(WAIT)


def test_stop_iteration_comes_back_as_an_error() -> None:
    pool = WorkerThreads()

    async def main() -> None:
        empty = iter(())
        with pytest.raises(RuntimeError, match="StopIteration left the function"):
            await pool.run(asyncio.get_running_loop(), next, empty)

    asyncio.run(main())


def test_submit_tells_of_the_outcome() -> None:
    pool = WorkerThreads()
    told: list[tuple[object, object]] = []
    heard = threading.Event()

    def done(value: object, error: BaseException | None) -> None:
        told.append((value, error))
        if len(told) == 2:
            heard.set()

    pool.submit(divmod, 7, 2, done=done)
    pool.submit(divmod, 7, 0, done=done)
    assert heard.wait(WAIT)
    assert (3, 1) in [value for value, _ in told]
    assert any(isinstance(error, ZeroDivisionError) for _, error in told)


class Heard(logging.Handler):
    """Waits for so many records."""

    def __init__(self, records: int) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.wanted = records
        self.all = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        if len(self.records) == self.wanted:
            self.all.set()


def test_worker_threads_failed_callback_is_logged() -> None:
    pool = WorkerThreads()

    def fail_to_tell(value: object, error: BaseException | None) -> None:
        raise ValueError("nobody listens")

    heard = Heard(2)
    logger = logging.getLogger("moothall.foundation")
    logger.addHandler(heard)
    try:
        pool.submit(divmod, 1, 0)
        pool.submit(divmod, 1, 1, done=fail_to_tell)
        assert heard.all.wait(WAIT)
    finally:
        logger.removeHandler(heard)
    raised = [record.exc_info[0] for record in heard.records if record.exc_info]
    assert set(raised) == {ZeroDivisionError, ValueError}


GREENLETS = """
import asyncio, sys
from moothall import ReActAgent, ScriptedModel

async def main():
    try:
        ReActAgent("a", ScriptedModel(["x"])).reply_sync("x")
    except RuntimeError as error:
        print(error)

asyncio.run(main())
"""


IN_SPACE = """
from moothall import Agent, NativeSpace, StateError
try:
    NativeSpace().add(Agent("a"))
except StateError as error:
    print(error)
"""


def test_threads_that_are_greenlets_of_gevent_are_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "gevent").mkdir()
    (tmp_path / "gevent" / "__init__.py").touch()
    # Its own question of what it has patched, in a stand-in: gevent is no dependency.
    (tmp_path / "gevent" / "monkey.py").write_text("def is_module_patched(name): return True\n")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import gevent.monkey\n{GREENLETS}"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "await reply(text) instead" in done.stdout, done.stderr
    assert "gevent.get_hub().threadpool.apply(FUNCTION, ARGUMENTS)" in done.stdout
    program = program.replace(GREENLETS, IN_SPACE)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "use a process that gevent has not patched" in done.stdout, done.stderr
    plain = subprocess.run([sys.executable, "-c", GREENLETS], capture_output=True, text=True)
    assert "gevent" not in plain.stdout


def test_thread_keeps_nothing_of_a_call() -> None:
    pool = WorkerThreads()

    class Thing:
        pass

    async def main() -> weakref.ref[Thing]:
        thing = Thing()
        loop = asyncio.get_running_loop()
        await pool.run(loop, id, thing)
        await pool.run(loop, lambda thing: thing, thing)
        return weakref.ref(thing)

    reference = asyncio.run(main())
    end = time.monotonic() + WAIT
    while reference() is not None:  # the thread is about to wait for the next call
        assert time.monotonic() < end
        gc.collect()


def test_blocked_threads_do_not_hold_up_the_exit() -> None:
    program = (
        "import asyncio, threading\n"
        "from moothall.foundation.threads import WORKERS\n"
        "async def main():\n"
        "    WORKERS.run(asyncio.get_running_loop(), threading.Event().wait)\n"
        "asyncio.run(main())\n"
        "print('the end')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT, check=True
    )
    assert done.stdout == "the end\n"


def test_forked_child_has_threads_of_its_own() -> None:
    program = (
        "import os, sys, threading\n"
        "from moothall.foundation.threads import WORKERS\n"
        "heard = threading.Event()\n"
        "WORKERS.submit(heard.set)\n"
        "assert heard.wait(20)\n"
        "child = os.fork()\n"
        "again = threading.Event()\n"
        "WORKERS.submit(again.set)\n"
        "heard = again.wait(20)\n"
        "if child == 0:\n"
        "    os._exit(0 if heard else 1)\n"
        "print(os.waitpid(child, 0)[1], heard)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "0 True\n"
