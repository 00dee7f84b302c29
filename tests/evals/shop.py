"""A shop's desk for evaluations: its model answers by rules, and counts how often it was asked."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from moothall import ReActAgent, ScriptedModel, action

PROMPT = "You are at the desk."


@action(idempotent=True)
async def find(order: str) -> str:
    """Find an order."""
    return f"order {order} is here"


def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
    if (path := os.environ.get("ASKED")) is not None:
        with Path(path).open("a") as file:
            file.write(f"{messages[1]['content']}\n")
        if len(Path(path).read_text().splitlines()) == int(os.environ.get("KILL_AT", -1)):
            os.kill(os.getpid(), signal.SIGKILL)
    if messages[-1]["role"] == "tool":
        return f"Here: {messages[-1]['content']}"
    return {"name": "find", "args": {"order": messages[-1]["content"].split()[-1]}}


def desk(prompt: str = PROMPT) -> ReActAgent:
    return ReActAgent("desk", ScriptedModel(answer), actions=[find], system_prompt=prompt)
