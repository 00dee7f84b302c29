"""`mcp` 1: sessions."""

from contextlib import AsyncExitStack

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import ElicitResult
from play import URL, play
from say_and_order import say_and_order

OPEN = []  # connections end with the program, not with the collector


async def permitted(context, params):
    return ElicitResult(action="accept", content={"permit": True})


async def connect():
    stack = AsyncExitStack()
    OPEN.append(stack)
    read, write, _ = await stack.enter_async_context(streamablehttp_client(f"{URL}/mcp"))
    session = ClientSession(read, write, elicitation_callback=permitted)
    session = await stack.enter_async_context(session)
    await session.initialize()

    async def call(name, args):
        result = await session.call_tool(name, args)
        assert not result.isError, result
        return result.structuredContent["result"], result.meta

    return call


play(lambda way, streamed: say_and_order(connect, sessions=True))
