"""A server whose process is killed: its agent buys eight items, each a line in a file.

Run as `python -m doors.a2a_program FOLDER LIMIT`, it listens at the socket that is its standard
input, and dies by kill -9 once LIMIT lines are there, within the next purchase; 0 is for no limit.
With `once` a purchase that was cut off is in doubt.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import uvicorn

from moothall import ACCESS_REQUESTED, Call, ReActAgent, ScriptedModel, action
from moothall.serving import asgi

FOLDER = Path(sys.argv[1])
LIMIT = int(sys.argv[2])


@action(idempotent="once" not in sys.argv)
async def buy(item: int) -> str:
    """Buy an item."""
    lines = FOLDER.joinpath("bought")
    if LIMIT and lines.exists() and len(lines.read_text().splitlines()) >= LIMIT:
        os.kill(os.getpid(), signal.SIGKILL)
    with lines.open("a") as file:
        file.write(f"{item}\n")
    return f"bought {item}"


@action(access_policy=ACCESS_REQUESTED)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def main() -> None:
    answers = [Call(f"c{n}", "buy", {"item": n}) for n in range(8)]
    pays = Call("pay", "pay", {"amount": 8})
    agent = ReActAgent(
        "shop",
        ScriptedModel([*answers, pays, "All is bought."]),
        actions=[buy, pay],
        journal=FOLDER / "runs.db",
    )
    config = uvicorn.Config(asgi(agent), log_level="warning")
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=0)])


if __name__ == "__main__":
    main()
