"""`mcp` 2: sessions, or the revision without them."""

from contextlib import AsyncExitStack

import mcp
import mcp_types as types
from play import URL, play
from say_and_order import say_and_order

OPEN = []  # connections end with the program, not with the collector


async def permitted(context, params):
    return types.ElicitResult(action="accept", content={"permit": True})


def begin(way, streamed):
    mode = {"sessions": "legacy", "auto": "auto"}[way]

    async def connect():
        stack = AsyncExitStack()
        OPEN.append(stack)
        client = mcp.Client(f"{URL}/mcp", mode=mode, elicitation_callback=permitted)
        client = await stack.enter_async_context(client)

        async def call(name, args):
            result = await client.call_tool(name, args)
            assert not result.is_error, result
            return result.structured_content["result"], result.meta

        return call

    return say_and_order(connect, sessions=way == "sessions")


play(begin)
