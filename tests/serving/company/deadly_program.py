"""A company of which some work ends its process: `serving.company.deadly_program FOLDER [WORK …]`.

It begins the work, and prints what it has come to once only a person can have it go on.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from moothall import Action, Agent, Journal, ReActAgent, ScriptedModel, action
from moothall.serving import Company
from serving.company.conftest import until

FOLDER = Path(sys.argv[1])
WORK = sys.argv[2:]
ALL_BEGUN = asyncio.Event()
BEGUN: list[str] = []


def end_process() -> None:
    """End it as the kernel does for want of memory."""
    with open(FOLDER / "deaths", "a") as file:
        file.write("x")
    os.kill(os.getpid(), 9)


async def do(what: str) -> str:
    BEGUN.append(what)
    if len(BEGUN) == len(WORK):
        ALL_BEGUN.set()
    if WORK:
        await ALL_BEGUN.wait()
        if what != "deadly":
            await asyncio.Event().wait()
    if what == "deadly":
        end_process()
    return f"did {what}"


def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
    last = messages[-1]
    if last["role"] == "tool":
        return last["content"]
    return {"name": "do", "args": {"what": last["content"].rpartition(" ")[2]}}


def worker(id: str) -> ReActAgent:
    actions = [Action("do", do, "Do.", idempotent=True)]
    agent = ReActAgent(id, ScriptedModel(answer), actions=actions)
    agent.max_lanes = 20  # all begin in the first life
    return agent


class Reader(Agent):
    @action(idempotent=True)
    async def read_big(self) -> str:
        """Read what the memory does not suffice for."""
        end_process()
        return "never"


async def work(file: Path) -> None:
    """Begin the work; wait until all but the deadly has ended, and the company is in order."""
    async with Company.from_yaml(file) as company:
        space: Any = company.space
        asks = []
        for each in WORK:
            sender = await space.aadd(Agent(each))
            asks.append(sender.ask("worker", "say", content=f"Do {each}"))
        await asyncio.gather(*asks)
        with Journal(FOLDER / "runs.db") as journal:

            def is_at_rest() -> bool:
                rest = ("done", "stopped", "waiting")
                return all(run.state in rest for run in journal.runs())

            await until(lambda: bool(journal.waiting(kind="operator")) and is_at_rest())
            await until(lambda: bool(company.health()["ready"]))
            runs = {run.id: run.state for run in journal.runs()}
            waits = [[wait.run, wait.agent] for wait in journal.waiting()]
        print(json.dumps({"runs": runs, "waits": waits, "health": company.health()}))


if __name__ == "__main__":
    asyncio.run(work(FOLDER / "company.yaml"))
