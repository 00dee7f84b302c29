"""A call of an MCP server's tool goes on in what the server does for it."""

from __future__ import annotations

import asyncio

from moothall import ACCESS_PERMITTED, Agent, Call, ReActAgent, ScriptedModel, action
from moothall.serving import MCPAgent, asgi
from serving.doors.conftest import serving
from serving.telemetry.conftest import Traced


class Shop(Agent):
    """An agent behind the door."""

    @action(access_policy=ACCESS_PERMITTED)
    async def price(self, item: str) -> int:
        """Tell the price of an item."""
        return 3 * len(item)


def test_mcp_call_and_the_agent_behind_the_door_are_one_trace(traced: Traced) -> None:
    async def ask(url: str) -> str:
        async with MCPAgent("there", f"{url}/mcp", access=ACCESS_PERMITTED) as server:
            call = Call("1", "there_price", {"item": "egg"})
            buyer = ReActAgent("buyer", ScriptedModel([call, "It is 9."]), actions=[server])
            return (await buyer.reply("What does an egg cost?")).text

    with serving(asgi([Shop("shop")])) as url:
        assert asyncio.run(ask(url)) == "It is 9."

    called = traced.named("execute_tool there_price")
    handled = next(
        span
        for span in traced.spans
        if (span.attributes or {}).get("moothall.action") == "price" and "process" in span.name
    )
    assert called.context
    assert handled.context
    assert handled.context.trace_id == called.context.trace_id
    sent = traced.tree()["process shop"]
    assert sent == "send shop"
    assert traced.tree()["send shop"] == "execute_tool there_price"
