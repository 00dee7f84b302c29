"""Replies as values, as streams and as callbacks: docs/replies.md."""

import asyncio
from dataclasses import dataclass

from moothall import Event, ReActAgent, ScriptedModel, SQLiteMemory, Step

STOCK = {"apples": 12, "pears": 3}


def in_stock(item: str) -> int:
    """How many there are of an item."""
    return STOCK[item]


async def order(item: str, number: int) -> str:
    """Order more of an item."""
    STOCK[item] += number
    return "ordered"


@dataclass
class Stock:
    item: str
    left: int


def by_schema() -> None:
    with SQLiteMemory("shop.db") as memory:
        shop = ReActAgent("shop", ScriptedModel(["…"]), actions=[in_stock, order], memory=memory)
        reply = shop.reply_sync("See to it that there are 12 pears.", schema=Stock)
    step: Step = reply.steps[0]
    print(step.action, reply.stop_reason)
    text = shop.reply_sync("Hello").value
    print(text)
    shop.reply_sync("Hello", schema={"type": "object"}).value["item"]
    shop.reply_sync(12)  # error


async def stream(agent: ReActAgent) -> str:
    text = ""
    async with agent.stream("What is 1 + 2?", thread="ada", schema=Stock) as events:
        async for event in events:
            match event.kind:
                case "text":
                    text += event.text
                case "reasoning":
                    print(event.text)
                case "call_started":
                    print(f"{event.action} {event.args}")
                case "call_ended":
                    print(f"{event.action} gave {event.error or event.result['result']}")
                case "decision":
                    print(event.decision.action)
                case "turn_ended" if event.utterance.text:
                    print(event.utterance.text)
                case "done":
                    print(f"done: {event.reply.text}")
                case _:
                    pass
            if event.kind == "text":
                text += event.text
            if event.kind == "done":
                print(event.text)  # error
    return text


def watch(agent: ReActAgent) -> None:
    def show(event: Event) -> None:
        print(event.kind)

    agent.watch(show)
    agent.watch(lambda event: print(event.kind))


if __name__ == "__main__":
    by_schema()
    asyncio.run(stream(ReActAgent("adder", ScriptedModel(["3"]))))
