"""A program that is killed: `python killed_workers.py JOURNAL COUNT MODEL_CALLS END ask|resume`.

`ask` asks the chief, whose helpers work in the background, and prints what it has heard; `resume`
goes on with what another process has left. Each may have the chief's run, or that of a helper. The
chief's reply `waits` until it has heard of each, or `ends` before, and is woken.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from moothall import Budget, Journal, ReActAgent, RunHeld, action
from moothall.journal.run_view import RunView
from moothall.models.protocol import Call, ModelReply, Usage

JOURNAL, COUNT, MODEL_CALLS = Journal(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
END, ROLE = sys.argv[4:]
USAGE = Usage(5, 5)


class Helping:
    """A model that looks once, and then repeats its task."""

    name = "helping"
    context_tokens = None

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> ModelReply:
        if messages[-1]["role"] == "tool":
            task = next(each["content"] for each in messages if each["role"] == "user")
            return ModelReply(text=f"{task} is done", usage=USAGE)
        return ModelReply(calls=(Call("1", "look", {}),), usage=USAGE)


class Directing:
    """A model that gives tasks to helpers, and pauses until it has heard of each."""

    name = "directing"
    context_tokens = None

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> ModelReply:
        if messages[-1]["content"] == "Go.":
            calls = (Call(str(n), "helper", {"text": f"task {n}"}) for n in range(COUNT))
            return ModelReply(calls=(*calls,), usage=USAGE)
        heard = sum("in the background" in str(each["content"]) for each in messages)
        if heard < COUNT and END == "waits":
            return ModelReply(calls=(Call(f"p{len(messages)}", "pause", {}),), usage=USAGE)
        return ModelReply(text=f"heard {heard}", usage=USAGE)


@action(idempotent=True)
async def look() -> str:
    """Look."""
    await asyncio.sleep(0.2)  # long enough to be killed in, also on a fast machine
    return "seen"


@action(idempotent=True, polling=True)
async def pause() -> str:
    """Wait a moment."""
    await asyncio.sleep(0.003)
    return "later"


def chief() -> ReActAgent:
    helper = ReActAgent("helper", Helping(), actions=[look])
    helper.deaths = None
    actions = [helper.as_action(background=True), pause]
    options: dict[str, Any] = {"max_iterations": 9999, "max_background": 4}
    agent = ReActAgent("chief", Directing(), actions=actions, journal=JOURNAL, **options)
    agent.deaths = None
    return agent


async def main() -> None:
    agent = chief()
    while ROLE == "resume":
        await agent.resume_runs(budget=lambda run: Budget(model_calls=MODEL_CALLS))
        await asyncio.sleep(0.01)
    while True:
        try:
            reply = await agent.reply(
                "Go.", thread="t", run_id="r", budget=Budget(model_calls=MODEL_CALLS)
            )
        except RunHeld:
            await asyncio.sleep(0.01)  # the other process has it
        else:
            break
    while END == "ends" and JOURNAL.waits.workers("chief"):
        await agent.resume_runs(budget=lambda run: Budget(model_calls=MODEL_CALLS))
        await asyncio.sleep(0.01)
    views = [RunView(JOURNAL, run) for run in JOURNAL.runs() if run.agent == "chief"]
    messages = [each for view in views for each in view.messages if each["role"] == "user"]
    print(json.dumps({"reason": reply.stop_reason, "heard": [e["content"] for e in messages]}))


asyncio.run(main())
