"""An agent of Pydantic AI pays a bill: a person is asked, and the answer may come a day later.

    pip install 'moothall[pydantic-ai]'; python with_pydantic_ai.py

The account stands in a mail, which is from outside: so a person is asked about it. The model is
scripted: replace it by a real one, and nothing else changes.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from moothall import CallbackApprover, Journal, Later, PydanticAIAgent

ANSWERS = (
    ToolCallPart("read_mail", {}),
    ToolCallPart("transfer", {"account": "DE02120300000000202051", "amount": 3}),
    TextPart("Anna's bill is paid."),
)


def next_answer(messages: list[Any], info: Any) -> ModelResponse:
    """Return what the model says after so many answers."""
    count = sum(isinstance(each, ModelResponse) for each in messages)
    return ModelResponse(parts=[ANSWERS[count]])


shop = Agent(FunctionModel(next_answer), instructions="You pay bills.")


@shop.tool_plain
def read_mail() -> str:
    """Read the last mail."""
    return "Anna asks for 3 coins, to DE02120300000000202051."


@shop.tool_plain
def transfer(account: str, amount: int) -> str:
    """Transfer money."""
    print(f"transferring {amount} to {account}")
    return "done"


def clerk(path: Path) -> PydanticAIAgent:
    """Return it as an agent of ours, whose approver answers later."""
    return PydanticAIAgent(
        "clerk",
        shop,
        journal=path,
        approver=CallbackApprover(lambda request: Later()),
        tools={"read_mail": {"outside": True}, "transfer": {"guard": ("account",)}},
    )


async def main() -> None:
    """Begin the run, answer what it asks, and go on as another process would."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        reply = await clerk(path).reply("Pay Anna's bill.", run_id="bill-7")
        print(reply.stop_reason)
        with Journal(path) as journal:
            (wait,) = journal.waiting()
            print(wait.action, wait.args)
            journal.answer("bill-7", wait.key, True)
        reply = await clerk(path).reply("Pay Anna's bill.", run_id="bill-7")
        print(reply.text, [each.action for each in reply.steps])


if __name__ == "__main__":
    asyncio.run(main())
