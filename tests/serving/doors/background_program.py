"""A server that is killed: its desk sends clerks in the background, and answers what it hears.

Run as `python -m serving.doors.background_program FOLDER COUNT`, it listens at the socket that is
its standard input.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn

from moothall import Call, ReActAgent, ScriptedModel, action
from moothall.serving import asgi

FOLDER, COUNT = Path(sys.argv[1]), int(sys.argv[2])


@action(idempotent=True)
async def look() -> str:
    """Look."""
    await asyncio.sleep(0.3)  # long enough to be killed in
    return "seen"


def help(messages: list[dict[str, Any]], _: Any) -> Any:
    task = next(each["content"] for each in messages if each["role"] == "user")
    return f"{task} is done" if messages[-1]["role"] == "tool" else Call("1", "look", {})


def direct(messages: list[dict[str, Any]], _: Any) -> Any:
    last = messages[-1]
    if last["role"] == "tool":
        return "I have sent them."
    if last["content"] == "Go.":
        return tuple(Call(str(n), "clerk", {"text": f"task {n}"}) for n in range(COUNT))
    answers = [n for n, each in enumerate(messages) if each["role"] == "assistant"]
    return "; ".join(str(e["content"]).partition("\n")[2] for e in messages[answers[-1] + 1 :])


def main() -> None:
    clerk = ReActAgent("clerk", ScriptedModel(help), actions=[look])
    asking = [clerk.as_action(background=True)]
    desk = ReActAgent("shop", ScriptedModel(direct), actions=asking, journal=FOLDER / "runs.db")
    desk.deaths = clerk.deaths = None
    config = uvicorn.Config(asgi(desk), log_level="error")
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=0)])


if __name__ == "__main__":
    main()
