"""Two agents of the OpenAI Agents SDK, one hands over to the other, within a budget and a journal.

    pip install 'moothall[openai-agents]'; python with_openai_agents.py

The second one's tool fails in the middle: the run is resumed, and neither model is asked again for
what it has said. The models are the SDK's scripted ones: replace them, and nothing else changes.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from agents import Agent, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

from moothall import AgentsSDKAgent, Budget

set_tracing_disabled(True)
is_open = False


@function_tool(failure_error_function=None)
def book(seat: str) -> str:
    """Book a seat."""
    if not is_open:
        raise ConnectionError("the airline does not answer")
    print("booking", seat)
    return f"{seat} is booked"


seats = Agent(
    "seats",
    tools=[book],
    model=ScriptedModel(
        [
            [function_call("book", {"seat": "12A"}, call_id="b")],
            [assistant_message("You have 12A.")],
        ]
    ),
)
front = Agent(
    "front",
    handoffs=[seats],
    model=ScriptedModel([[function_call("transfer_to_seats", {}, call_id="h")]]),
)


async def main() -> None:
    """Run it, and resume it once the airline answers."""
    global is_open
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            path = Path(folder) / "runs.db"
            clerk = AgentsSDKAgent("clerk", front, journal=path, budget=Budget(model_calls=10))
            reply = await clerk.reply("I want seat 12A.", run_id="seat")
            print(reply.stop_reason, reply.text or reply.detail)
            is_open = True


if __name__ == "__main__":
    asyncio.run(main())
