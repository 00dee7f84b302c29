"""Runs of which some end their process: `python -m journal.deadly_program JOURNAL [RUN …]`."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from moothall import Action, Journal, ReActAgent, ScriptedModel
from moothall.models.protocol import Call


def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
    last = messages[-1]
    return f"Did {last['content']}." if last["role"] == "tool" else Call("c", "do", {})


async def work(journal: Journal, *runs: str) -> None:
    """Begin runs, then resume what was cut off; those with `deadly` in their id end the process.

    They do that once all others of the same process are in their action.
    """
    others = sum("deadly" not in run for run in runs)
    begun, all_begun = list[None](), asyncio.Event()

    async def do() -> str:
        begun.append(None)
        if len(begun) == others:
            all_begun.set()
        if others:
            await asyncio.Event().wait()
        return "it"

    async def do_deadly() -> str:
        if others:
            await all_begun.wait()
        os.kill(os.getpid(), 9)
        return "never"

    agents = [
        ReActAgent(
            id,
            ScriptedModel(answer),
            actions=[Action("do", function, "Do.", idempotent=True)],
            journal=journal,
        )
        for id, function in (("good", do), ("bad", do_deadly))
    ]
    await asyncio.gather(
        *(agents["deadly" in run].reply("go", run_id=run, thread=run) for run in runs)
    )
    resumed = await asyncio.gather(*(each.resume_runs() for each in agents))
    print(*sorted(each.run.id for runs in resumed for each in runs if each.outcome == "resumed"))


if __name__ == "__main__":
    asyncio.run(work(Journal(sys.argv[1]), *sys.argv[2:]))
