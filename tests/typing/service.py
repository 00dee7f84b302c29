"""A service for many users and a desk of agents: docs/tutorials/desk-4.md, conversations.md."""

import asyncio
from dataclasses import dataclass

from moothall import (
    AskAgain,
    Budget,
    CallbackApprover,
    Context,
    Conversation,
    HandOver,
    Journal,
    ReActAgent,
    ScriptedModel,
    SQLiteMemory,
    StopReason,
)
from moothall.serving import asgi


@dataclass
class Customer:
    id: str
    orders: dict[str, int]


@dataclass
class Refund:
    order: str
    amount: int


def my_order(context: Context[Customer]) -> list[str]:
    """Tell the customer what they have ordered."""
    return [*context.deps.orders]


def prompt(context: Context[Customer]) -> str:
    return f"You help {context.deps.id}."


def affordable(refund: Refund) -> None:
    if refund.amount > 50:
        raise AskAgain("at most 50")


whole = Budget(model_calls=100, usd=5, seconds=3600)
budgets: dict[str, Budget] = {"ada": whole.child(model_calls=2)}
desk = ReActAgent(
    "desk",
    ScriptedModel(["Hello"]),
    actions=[my_order],
    system_prompt=prompt,
    check=affordable,
    budget=whole,
    memory=SQLiteMemory("desk.db"),
    journal=Journal("runs.db"),
)


async def ask(user: Customer, run_id: str) -> tuple[str, StopReason]:
    text = ""
    stopped: StopReason = "done"
    async with desk.stream(
        "My order?", thread=user.id, deps=user, budget=budgets[user.id], run_id=run_id
    ) as events:
        async for event in events:
            if event.kind == "text":
                text += event.text
            elif event.kind == "done":
                stopped = event.reply.stop_reason
    return text, stopped


async def refund(user: Customer) -> int:
    await desk.prepare()
    reply = await desk.reply("Money back!", schema=Refund, thread=user.id, deps=user)
    reply.raise_for_error()
    left = budgets[user.id].left.tokens
    return reply.value.amount if left is None else min(left, reply.value.amount)


support = Conversation(
    [desk, ReActAgent("bills", "local", actions=[desk.as_action()])],
    next=HandOver("desk"),
    approver=CallbackApprover(lambda request: request.args["amount"] <= 50),
    budget=whole,
    journal="desk.db",
)


async def serve(customer: str, text: str) -> None:
    async with support.stream(text, thread=customer, deps=customer) as events:
        async for event in events:
            match event.kind:
                case "call_ended":
                    print(f"{event.agent}.{event.action}: {event.error or event.result['result']}")
                case "turn_ended" if event.utterance.text:
                    print(f"{event.speaker}: {event.utterance.text}")
                case "done" if event.agent == support.id:
                    print(event.reply.stop_reason)
                case _:
                    pass


asyncio.run(serve("ada", "My lamp came broken."))


def budget_of(caller: str) -> Budget | None:
    return Budget(tokens=9000) if caller == "ada" else None


served = asgi(
    ReActAgent("a", ScriptedModel(["Hello."])), token={"ada": "x"}, budget=budget_of, rate=60
)
asgi(ReActAgent("a", ScriptedModel([])), token="x", budget=Budget(usd=5, name="all"))
asgi(ReActAgent("a", ScriptedModel([])), budget=5)  # error
asgi(ReActAgent("a", ScriptedModel([])), rate="often")  # error
