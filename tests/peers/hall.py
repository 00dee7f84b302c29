"""The server that other people's clients call: an agent behind all doors, over a journal.

Run as `python -m peers.hall FOLDER`, it listens at the socket that is its standard input.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import uvicorn

from moothall import ACCESS_REQUESTED, ReActAgent, ScriptedModel, action
from moothall.serving import asgi
from peers.clerk import PRICES, answer

FOLDER = Path(sys.argv[1])


def note(line: str) -> None:
    with FOLDER.joinpath("ran").open("a") as file:
        file.write(f"{line}\n")


@action
def price(item: str) -> str:
    """Tell the price of an item."""
    note(f"price {item}")
    return f"{item}: {PRICES[item]}"


class Clerk(ReActAgent):
    """Tells prices, and takes orders."""

    @action(access_policy=ACCESS_REQUESTED)
    async def order(self, item: str) -> str:
        """Order an item."""
        note(f"order {item}")
        return f"ordered {item}"


def main() -> None:
    clerk = Clerk(
        "clerk",
        ScriptedModel(answer),
        actions=[price],
        journal=FOLDER / "runs.db",
        memory=FOLDER / "memory.db",
    )
    config = uvicorn.Config(asgi(clerk), log_level="warning")
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=0)])


if __name__ == "__main__":
    main()
