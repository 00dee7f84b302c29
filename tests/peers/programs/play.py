"""What the programs share: each is called with a server's address, and reads a question a line.

`play` gets a function that begins a conversation in one way (chat, responses, …), streamed or not,
and returns a function, plain or `async`, that takes one turn of it. Its tool `tax` is the client's.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import traceback

URL = sys.argv[1]
TAX = {
    "type": "object",
    "properties": {"price": {"type": "integer"}},
    "required": ["price"],
    "additionalProperties": False,
}


def taxed(price: int) -> str:
    return f"the tax on {price} is {price // 4}"


def play(begin) -> None:
    asyncio.run(play_on_loop(begin))


async def play_on_loop(begin) -> None:
    begun = {}
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = json.loads(line)
        mode = asked["mode"]
        try:
            if mode not in begun:
                begun[mode] = begin(mode.removesuffix("-stream"), mode.endswith("-stream"))
            text = begun[mode](asked["question"])
            told = {"text": await text if inspect.isawaitable(text) else text}
        except BaseException:
            told = {"error": traceback.format_exc()}
        print(json.dumps(told), flush=True)
