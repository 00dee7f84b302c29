"""A process with an agent and its helper: `python -m journal.hand_program JOURNAL EFFECTS [RUN…]`.

It begins the runs, goes on with what was cut off, and serves what is decided, until it is killed.
Each effect is a line of the file EFFECTS, written before its step ends: the run and its number.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from typing import Any

from moothall import Action, Context, Journal, ReActAgent, RequestCancelled, ScriptedModel
from moothall.models.protocol import Call

STEPS = 12
"""So many effects has a run to which nothing happens."""


def agent_at(path: str, effects: str, step_s: float = 0.2) -> ReActAgent:
    """The agent, whose runs take some seconds, half of them in a helper's own run."""
    journal = Journal(path)
    file = os.open(effects, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def book(n: int, context: Context[Any]) -> str:
        await asyncio.sleep(step_s)
        os.write(file, f"{context.run_id} {n}\n".encode())
        return f"booked {n}"

    def work(messages: list[dict[str, Any]], own: int, after: str) -> Any:
        heard = [m["content"] for m in messages if "stop after this" in str(m["content"])]
        done = sum(each["role"] == "tool" for each in messages)
        if done >= own:
            return f"done {after} {len(heard)}"
        return Call(f"c{done}", "book", {"n": done})

    async def answer(messages: Any, _: Any) -> Any:
        await asyncio.sleep(step_s / 5)
        return work(messages, STEPS // 2, "helper")

    async def lead(messages: Any, _: Any) -> Any:
        await asyncio.sleep(step_s / 5)
        done = sum(each["role"] == "tool" for each in messages)
        if done == STEPS // 4:
            return Call("h", "helper", {"text": "help"})
        return work(messages, STEPS // 2 + 1, "all")

    actions = [Action("book", book, "Book.", idempotent=False)]
    helper = ReActAgent("helper", _model(answer), actions=actions, journal=journal)
    asks = [*actions, helper.as_action()]
    return ReActAgent("a", _model(lead), actions=asks, journal=journal, max_iterations=100)


def _model(answer: Any) -> ScriptedModel:
    model = ScriptedModel(answer)
    model.context_tokens = 10**6
    return model


async def begin(agent: ReActAgent, run_id: str) -> None:
    with suppress(RequestCancelled):
        await agent.reply("go", run_id=run_id, thread=run_id)


async def main(path: str, effects: str, *run_ids: str) -> None:
    agent = agent_at(path, effects)
    tasks = [asyncio.ensure_future(agent.resume_runs())]
    tasks += [asyncio.ensure_future(begin(agent, each)) for each in run_ids]
    assert agent.journal is not None
    while not {*run_ids} <= {each.id for each in agent.journal.runs() if each.entries}:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    print("working", flush=True)
    while True:
        await agent.resume_decided()
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
