"""A clerk sends three searchers out, answers at once, and is woken by what they find.

The searchers have places for two. Their process ends before they have found anything; the next one
goes on with their work, and wakes the clerk.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from moothall import Journal, ReActAgent, ScriptedModel
from moothall.models.protocol import Call

TITLES = ("Emma", "Ivanhoe", "Walden")


def clerk(journal: Path, is_open: bool) -> ReActAgent:
    """Return the clerk of a process, in which the library is open or not."""

    async def search(messages: list[dict[str, Any]], actions: Any) -> str:
        if not is_open:
            await asyncio.sleep(3600)
        return f"{messages[-1]['content']} is on the shelf."

    def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
        if messages[-1]["content"] == "Do you have these?":
            return tuple(Call(title, "searcher", {"text": title}) for title in TITLES)
        if messages[-1]["role"] == "tool":
            return "I have sent somebody."
        found = [
            each["content"].partition("\n")[2] for each in messages if "searcher" in each["content"]
        ]
        return " ".join(sorted(found))

    searcher = ReActAgent("searcher", ScriptedModel(search))
    actions = [searcher.as_action(background=True)]
    model = ScriptedModel(answer)
    return ReActAgent("clerk", model, actions=actions, journal=Journal(journal), max_background=2)


async def first_process(journal: Path) -> None:
    """Ask the clerk, and end."""
    reply = await clerk(journal, is_open=False).reply(
        "Do you have these?", thread="eva", run_id="r"
    )
    print(reply.text)
    print(reply.detail)


async def next_process(journal: Path) -> None:
    """Go on with what was left."""
    for resumed in await clerk(journal, is_open=True).resume_runs():
        print(f"{resumed.run.id}: {resumed.reply.text if resumed.reply else resumed.outcome}")


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(first_process(Path(folder) / "runs.db"))
    asyncio.run(next_process(Path(folder) / "runs.db"))
