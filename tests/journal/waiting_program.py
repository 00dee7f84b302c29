"""A program whose runs wait: it goes on with what is due, until nothing waits or it is killed."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from moothall import ACCESS_REQUESTED, Action, Journal, Later, ReActAgent, Waiting


class Script:
    """A model that calls one action, and then says what came of it."""

    name = "script"
    context_tokens = None

    def __init__(self, action: str) -> None:
        self.action = action

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> Any:
        from moothall.models.protocol import Call, ModelReply

        if messages[-1]["role"] == "tool":
            return ModelReply(str(messages[-1]["content"]))
        number = int(messages[-1]["content"])
        return ModelReply("", [Call("c", self.action, {"number": number})])


def clerk(folder: Path, journal: Journal, action: str, seconds: float = 0.0) -> ReActAgent:
    """An agent that pays once it may, or that naps."""

    def pay(number: int) -> str:
        """Pay."""
        with (folder / "paid").open("a") as paid:
            paid.write(f"{number}\n")
        return f"paid {number}"

    def nap(number: int) -> Later:
        """Nap."""
        return Later(until=seconds)

    asked = Action("pay", pay, "Pay.", access_policy=ACCESS_REQUESTED)
    model = Script(action)
    return ReActAgent("clerk", model, actions=[asked, nap], journal=journal, approver=Waiting())


async def begin(folder: Path, action: str, count: int, seconds: float = 0.0) -> None:
    """Have so many runs wait, each in a thread of its own."""
    with Journal(folder / "runs.db") as journal:
        agent = clerk(folder, journal, action, seconds)
        for number in range(count):
            reply = await agent.reply(str(number), run_id=f"r{number}", thread=f"t{number}")
            assert reply.stop_reason == "waiting", reply


async def main(folder: Path, action: str) -> None:
    with Journal(folder / "runs.db") as journal:
        agent = clerk(folder, journal, action)
        await agent.resume_runs()
        while journal.waits.counts() or journal.waits.run_ids():
            await agent.resume_decided()
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
    os._exit(0)
