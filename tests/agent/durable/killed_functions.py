"""A program of durable functions that is killed: `python killed_functions.py JOURNAL LOG COUNT`.

It goes on with what was begun, answers what is asked, and prints what all runs returned.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from moothall import InDoubt, Journal, ReActAgent, RunWaiting, ScriptedModel, durable, step
from moothall.journal import Done

JOURNAL, LOG = Journal(sys.argv[1]), Path(sys.argv[2])


def log(line: str) -> None:
    """Write a line that outlives the process."""
    with LOG.open("a") as file:
        file.write(f"{line}\n")


def logged() -> str:
    return LOG.read_text()


@step
async def fetch(run: int, number: int) -> int:
    log(f"fetch {run} {number}")
    await asyncio.sleep(0.002)  # its end is written as soon as it has taken a while
    return run * 10 + number


@step(effect=True)
async def charge(run: int, cents: int) -> str:
    log(f"charge {run} {cents}")
    await asyncio.sleep(0.001)
    return f"paid {cents}"


def agent() -> ReActAgent:
    return ReActAgent(
        "law", ScriptedModel([lambda messages, actions: messages[-1]["content"]] * 99)
    )


@durable(JOURNAL)
async def desk(run: int) -> str:
    found = await asyncio.gather(*(fetch(run, number) for number in range(4)))
    said = await agent().reply(f"sum {sum(found)}")
    if not await durable.ask(f"Charge {run}?"):
        return "refused"
    paid = await charge(run, sum(found))
    for number in range(4, 8):
        found.append(await fetch(run, number))
    return f"{said.text}, {paid}, {sum(found)}"


async def carry_out(run: int) -> str:
    while True:
        try:
            return await desk.run(f"run-{run}", run)
        except RunWaiting:
            for wait in JOURNAL.waiting(f"run-{run}"):
                JOURNAL.answer(wait.run, wait.key, run % 5 != 0)
        except InDoubt:
            is_paid = f"charge {run} " in logged()
            JOURNAL.decide(f"run-{run}", Done(f"paid {run * 40 + 6}") if is_paid else "repeat")


async def main() -> None:
    count = int(sys.argv[3])
    print(json.dumps(await asyncio.gather(*map(carry_out, range(count)))))


asyncio.run(main())
