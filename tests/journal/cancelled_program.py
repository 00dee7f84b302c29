"""A process that works on a run: `python -m journal.cancelled_program JOURNAL WHERE`."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from typing import Any

from moothall import Action, Journal, ModelReply, ReActAgent, RequestCancelled, ScriptedModel
from moothall.models.protocol import Call


class Hanging:
    """A model that never answers."""

    name = "hanging"
    context_tokens: int | None = None

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> ModelReply:
        print("working", flush=True)
        await asyncio.Event().wait()
        raise AssertionError


async def wait() -> None:
    print("working", flush=True)
    await asyncio.Event().wait()


def block() -> None:
    print("working", flush=True)
    threading.Event().wait()


async def go_on(n: int) -> int:
    if n == 1:
        print("working", flush=True)
    return n


def agent_at(journal: Journal, where: str) -> ReActAgent:
    """The agent, which works for ever in a place: a model, an action, or many of both."""
    if where == "model":
        return ReActAgent("a", Hanging(), journal=journal)
    function = {"action": wait, "function": block, "turns": go_on}[where]
    numbers = itertools.count(1)
    args = (lambda: {"n": next(numbers)}) if where == "turns" else dict
    model = ScriptedModel(lambda messages, _: Call("c", "act", args()))
    model.context_tokens = 10**6
    actions = [Action("act", function, "Act.", idempotent=True)]
    return ReActAgent("a", model, actions=actions, journal=journal, max_iterations=10**6)


if __name__ == "__main__":
    try:
        agent_at(Journal(sys.argv[1]), sys.argv[2]).reply_sync("go", run_id="r")
    except RequestCancelled as error:
        print(error, flush=True)
