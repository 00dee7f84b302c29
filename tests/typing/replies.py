"""Replies as values, as streams and as callbacks: docs/replies.md."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict, assert_type

from pydantic import BaseModel

from moothall import (
    ChattyAI,
    Conversation,
    Event,
    Message,
    Person,
    ReActAgent,
    RemoteAgent,
    Reply,
    ScriptedModel,
    SQLiteMemory,
    StopReason,
    show,
)

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


class Order(BaseModel):
    item: str
    number: int


class Refusal(TypedDict):
    why: str


def values(shop: ReActAgent) -> None:
    reply = shop.reply_sync("See to it that there are 12 pears.", schema=Stock)
    assert_type(reply, Reply[Stock])
    print(reply.value.item, reply.value.left + 1)
    print(reply.value.nosuch)  # error
    assert_type(shop.reply_sync("Count.", schema=list[int]).value, list[int])
    assert_type(shop.reply_sync("Count.", Order).value, Order)
    assert_type(shop.reply_sync("Count.", schema=Stock | Refusal).value, Stock | Refusal)
    assert_type(shop.reply_sync("Count.", schema=Stock | None).value, Stock | None)
    answer = shop.reply_sync("Well?", schema=Literal["yes", "no"]).value
    assert_type(answer, Literal["yes", "no"])
    assert_type(shop.reply_sync("Count.", schema=Annotated[int, "apples"]).value, int)
    assert_type(shop.reply_sync("Hello").value, Any)
    assert_type(shop.reply_sync("Hello", schema={"type": "object"}).value, Any)
    shop.reply_sync("Count.", schema=3)  # error
    shop.reply_sync(12)  # error
    shop.reply_sync("Hello", scheme=Stock)  # error


def parts(reply: Reply) -> None:
    for step in reply.steps:
        print(step.action, step.args["item"], step.error)
    for message in reply.messages:
        print(message["role"], message["content"], message.get("tool_calls"))
    why: StopReason = reply.stop_reason
    print(why, reply.usage.total, reply.run_id, reply.to_json()["text"])
    if reply.stop_reason == "finished":  # error
        reply.raise_for_error()


def in_a_file() -> None:
    with SQLiteMemory("shop.db") as memory:
        shop = ReActAgent("shop", ScriptedModel([]), actions=[in_stock, order], memory=memory)
        values(shop)
        print(memory.get_memories()[0]["content"])


async def stream(agent: ReActAgent | Conversation) -> str:
    text = ""
    async with agent.stream("What is 1 + 2?", thread="ada", deps=3, schema=Stock) as events:
        async for event in events:
            match event.kind:
                case "text" | "reasoning":
                    text += event.text
                case "call_started":
                    print(f"{event.action} {event.args}")
                case "call_progress":
                    assert_type(event.text, str)
                    print(event.result)  # error
                case "call_ended":
                    print(f"{event.action} gave {event.error or event.result['result']}")
                case "message":
                    print(event.message["content"])
                case "decision":
                    print(event.decision.action.value)
                case "conclusion":
                    print(event.conclusion.summary)
                case "turn_ended" if event.utterance.text:
                    print(event.speaker, event.utterance.text)
                case "block_ended":
                    print(event.block, event.result)
                case "done":
                    print(f"done: {event.reply.text}")
                case _:
                    pass
            assert_type(event.agent, str)
            if event.kind == "text":
                text += event.text
            if event.kind == "done":
                print(event.text)  # error
    if events.reply is not None:
        assert_type(events.reply.value, Stock)
    return text


def watch(agent: ReActAgent) -> None:
    def tell(event: Event) -> None:
        print(event.kind)

    agent.watch(tell)
    agent.watch(lambda event: print(event.kind))
    agent.unwatch(tell)
    agent.watch("tell")  # error


async def every_kind_of_agent(agent: ReActAgent, chatty: ChattyAI) -> None:
    assert_type((await agent.reply("Count.", schema=Stock)).value, Stock)
    assert_type((await show(agent.stream("Count.", schema=Stock))).value, Stock)
    assert_type((await Conversation([agent]).reply("Count.", Stock)).value, Stock)
    assert_type((await Conversation([agent]).resume(Stock)).value, Stock)
    assert_type((await Person("Ada").reply("Count.", schema=Stock)).value, Stock)
    assert_type((await RemoteAgent(agent, "other").reply("Count.", schema=Stock)).value, Stock)
    assert_type(await chatty.say("Hello"), str)
    assert_type(await agent.say("Hello"), str)
    await agent.observe({"role": "user", "content": "It rains."}, thread="ada")
    await agent.observe((await agent.reply("Count.")).messages[-1])
    message: Message = {"to": "agent", "action": {"name": "say", "args": {"content": "It rains."}}}
    await agent.observe(message)
    await agent.observe(5)  # error
    heard = agent.interrupt("Stop!", thread="ada")
    if heard:
        await heard


if __name__ == "__main__":
    asyncio.run(stream(ReActAgent("adder", ScriptedModel(["3"]))))
