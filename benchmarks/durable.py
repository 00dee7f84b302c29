"""What a step of a durable function costs, and how soon a long one goes on.

    python -m benchmarks.durable [--quick]

The limit of a step is `Record.once` with equal arguments, in processor time, within one run each.
Beside it, where they are installed, a task of LangGraph's functional interface, whose checkpointer
writes to SQLite, and a step of DBOS, which writes to SQLite, too.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import emit, installed
from moothall import Journal, durable, step
from moothall.agents.durable.function import FunctionState
from moothall.build import recorded

STEPS = 300
LONG = 10_000

Work = Callable[[int], Any]
"""Does the steps of a run of this number; returns the seconds of the processor that they took."""


@step
async def add(number: int, text: str) -> int:
    return number + len(text)


async def many(steps: int) -> float:
    begin, total = time.process_time(), 0
    for _ in range(steps):
        total = await add(total, "letter")
    return time.process_time() - begin


def ours(journal: Journal) -> Work:
    desk = durable(journal)(many)
    return lambda number: desk.run(f"durable-{number}", STEPS)


def once(journal: Journal) -> Work:
    async def work(number: int) -> float:
        state = FunctionState
        async with recorded(journal, f"once-{number}", "Adds", "adds", state) as record:
            begin, total = time.process_time(), 0
            for at in range(STEPS):

                async def call(step: Any, total: int = total) -> int:
                    return await add(total, "letter")

                args = [total, "letter"]
                total = await record.once(f"{at}.add", call, action="add", args=args)
            await record.end("done")
            return time.process_time() - begin

    return work


def langgraph(folder: Path) -> Work:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.func import entrypoint, task

    @task
    async def add_there(number: int, text: str) -> int:
        return number + len(text)

    async def work(number: int) -> float:
        async with AsyncSqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:

            @entrypoint(checkpointer=saver)
            async def many_there(steps: int) -> float:
                begin, total = time.process_time(), 0
                for _ in range(steps):
                    total = await add_there(total, "letter")
                return time.process_time() - begin

            config = {"configurable": {"thread_id": str(number)}}
            seconds: float = await many_there.ainvoke(STEPS, config, durability="sync")
            return seconds

    return work


def dbos(folder: Path) -> Work:
    from dbos import DBOS

    DBOS(
        config={
            "name": "steps",
            "system_database_url": f"sqlite:///{folder / 'dbos.db'}",
            "run_admin_server": False,
            "log_level": "CRITICAL",
        }
    )

    @DBOS.step()
    async def add_there(number: int, text: str) -> int:
        return number + len(text)

    @DBOS.workflow()
    async def many_there(steps: int) -> float:
        begin, total = time.process_time(), 0
        for _ in range(steps):
            total = await add_there(total, "letter")
        return time.process_time() - begin

    DBOS.launch()
    return lambda number: many_there(STEPS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 3 if parser.parse_args().quick else 7
    with (
        tempfile.TemporaryDirectory() as name,
        Journal(Path(name) / "runs.db") as journal,
        asyncio.Runner() as runner,
    ):
        folder = Path(name)
        works = {"Record.once": once(journal), "durable": ours(journal)}
        ours_and_limit = {*works}  # of some milliseconds: their best of a few is chance
        if installed("langgraph") and installed("langgraph.checkpoint.sqlite"):
            works["LangGraph's task"] = langgraph(folder)
        if installed("dbos"):
            works["DBOS's step"] = dbos(folder)
        taken_by: dict[str, list[float]] = {name: [] for name in works}
        for number in range(20 * rounds):  # in turns: other work slows whatever runs just then
            for name, work in works.items():
                if name in ours_and_limit or not number % 20:
                    taken_by[name].append(runner.run(work(number)))
        seconds = {name: min(taken) for name, taken in taken_by.items()}
        limit = seconds["Record.once"] / STEPS * 1e6
        for name, taken in seconds.items():
            figure = taken / STEPS * 1e6
            emit("durable: a step", name, figure, "us", limit=limit, ratio=figure / limit)
        desk = durable(journal)(many)
        runner.run(desk.run("long", LONG))
        last = journal.run("long").entries - 1
        copy = journal.fork("long", upto=last)
        begin = time.perf_counter()
        runner.run(desk.run(copy, LONG))
        taken = time.perf_counter() - begin
        emit("durable: goes on", f"{LONG:,} recorded steps", taken, "s", target="<= 1")
        if "DBOS's step" in works:
            from dbos import DBOS

            DBOS.destroy()


if __name__ == "__main__":
    main()
