"""A code agent of smolagents that waits before each payment, and pays each of them once.

pip install moothall smolagents; python code_agent.py
"""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from smolagents import ChatMessage, CodeAgent, Model, TokenUsage, tool
from smolagents.models import MessageRole
from smolagents_agent import SmolAgent

from moothall import CallbackApprover, Journal, Later

PROGRAM = """<code>
for who in ["Anna", "Bob"]:
    print(pay(who, 3))
final_answer("Both are paid.")
</code>"""


class Scripted(Model):
    """A model that writes this program, then ends."""

    def generate(self, messages: Any, *args: Any, **options: Any) -> ChatMessage:
        """Return the next answer."""
        return ChatMessage(MessageRole.ASSISTANT, PROGRAM, token_usage=TokenUsage(10, 5))


@tool
def pay(to: str, amount: int) -> str:
    """Pay.

    Args:
        to: who gets it
        amount: how much
    """
    print("paying", to)
    return f"{amount} to {to}"


async def main() -> None:
    """Run a code agent that waits before each payment, and goes on once somebody has decided."""
    with tempfile.TemporaryDirectory() as folder, Journal(f"{folder}/runs.db") as journal:
        agent = CodeAgent(tools=[pay], model=Scripted(), verbosity_level=0)
        clerk = SmolAgent(
            "clerk",
            agent,
            journal=journal,
            approver=CallbackApprover(lambda request: Later()),
            tools={"pay": {"access_policy": "requested"}},
        )
        reply = await clerk.reply("Pay Anna and Bob.", run_id="bills")
        while reply.stop_reason == "waiting":
            (wait,) = journal.waiting()
            print("permitted:", wait.args)
            journal.answer("bills", wait.key, True)
            reply = await clerk.reply("Pay Anna and Bob.", run_id="bills")
        print(reply.text, [each.args for each in reply.steps])


if __name__ == "__main__":
    asyncio.run(main())
