"""What a conversation costs on top of the agents that talk in it.

    python -m benchmarks.conversation [--quick]

`limit` is the same agents asked one after the other by a plain loop, which tells the others what
each said, and nothing else. Their model answers at once. The unit is a turn; `more` is what ours
takes on top of the limit.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks.measure import emit, side_by_side
from moothall import Conversation, MaxTurns, Memory, ModelReply, ReActAgent, Said

TURNS = 400


class Fake:
    """Says one word at once."""

    name = "fake"
    context_tokens: int | None = None

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> ModelReply:
        return ModelReply("yes")


class Last(Memory):
    """Remembers the last few messages, so that a turn costs the same however many there were."""

    def add_memory(self, memory: dict[str, Any]) -> None:
        self.items.append(memory)
        if len(self.items) > 20:
            del self.items[:10]


def agents(count: int) -> list[ReActAgent]:
    model = Fake()
    return [ReActAgent(f"agent-{i}", model, memory=Last()) for i in range(count)]


async def bare(talking: list[ReActAgent]) -> int:
    text = "go"
    for turn in range(TURNS):
        speaker = talking[turn % len(talking)]
        text = f"{speaker.id}: {(await speaker.reply(text)).text}"
        following = talking[(turn + 1) % len(talking)]
        for each in talking:
            if each is not speaker and each is not following:
                await each.observe({"role": "user", "content": text})
    return TURNS


async def ours(talk: Conversation) -> int:
    reply = await talk.reply("go")
    assert reply.stop_reason == "done", reply
    return TURNS


async def streamed(talk: Conversation) -> int:
    async for event in talk.stream("go"):
        last = event
    assert last.reply.stop_reason == "done", last
    return TURNS


def conversation(count: int) -> Conversation:
    until = Said("no") | MaxTurns(TURNS)
    return Conversation(agents(count), until=until, max_turns=TURNS + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 3 if parser.parse_args().quick else 15
    with asyncio.Runner() as runner:

        def work(begin: Callable[[], Coroutine[Any, Any, int]]) -> Callable[[], int]:
            return lambda: runner.run(begin())

        for count in (2, 5):
            talking, talk = agents(count), conversation(count)
            listened = conversation(count)
            works = {
                "limit": work(lambda talking=talking: bare(talking)),
                "moothall": work(lambda talk=talk: ours(talk)),
                "moothall, streamed": work(lambda talk=listened: streamed(talk)),
            }
            figures = side_by_side(works, rounds, warm=2)
            limit = figures.pop("limit")
            for name, figure in figures.items():
                emit(
                    "turn of a conversation",
                    f"{count} agents, {name}",
                    figure.seconds * 1e6,
                    "us",
                    limit=limit.seconds * 1e6,
                    more=(figure.seconds - limit.seconds) * 1e6,
                    ratio=figure.over(limit),
                )


if __name__ == "__main__":
    main()
