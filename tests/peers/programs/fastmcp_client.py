"""`fastmcp`: its client, as each version negotiates by itself."""

from contextlib import AsyncExitStack

from fastmcp import Client
from play import URL, play
from say_and_order import say_and_order

OPEN = []  # connections end with the program, not with the collector


async def permitted(message, response_type, params, context):
    return {"permit": True}


async def connect():
    stack = AsyncExitStack()
    OPEN.append(stack)
    client = Client(f"{URL}/mcp", elicitation_handler=permitted)
    client = await stack.enter_async_context(client)

    async def call(name, args):
        result = await client.call_tool(name, args)
        content = result.structured_content
        return content["result"], result.meta

    return call


play(lambda way, streamed: say_and_order(connect, sessions=True))
