"""What a citizen's step costs: rules only, all blocks, one process; and what a citizen takes.

    python -m benchmarks.society [--quick] [--tokens]

A town of 10,000 citizens (`--quick`: 1,000) lives hours of its first day in steps of 15 minutes,
from 7:00 on, when people set out; then with a model behind a pause of 50 ms, where the limit is the
pause times the calls over the allowed concurrency. `ratio` of the last is limit over time.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
import tracemalloc
from typing import Any

from benchmarks.measure import emit
from moothall.memory.bounded import estimate_tokens
from moothall.models.protocol import ModelReply
from moothall.society import CitizenAgent, CitizenMemory, City, LocalEngine, Society
from moothall.society.services.economy import make_economy
from moothall.society.services.feed import Feed

PAUSE_S = 0.05
_LOOKED_AT = {
    "all": "",
    "none": " in columns",
    "one": " in columns, one looked at in each step",
}


def town(count: int) -> Society:
    """A town by seed, with firms, a bank, a government and a feed."""
    city = City.generate(seed=1, citizens=count)
    services = [*make_economy(city, seed=1), Feed()]
    return Society(count, city, seed=1, services=services, start="2026-01-05T07:00")


async def steps(count: int, number: int, looked_at: str) -> None:
    """Agent-steps a second; of CPU time, since other work comes and goes.

    Citizens that somebody has looked at are objects; others are rows of columns.
    """

    def look(row: dict[str, Any]) -> None:
        if looked_at == "one":
            _ = society.agents[count // 2].status["needs"]

    async with town(count) as society:
        if looked_at == "all":
            assert len([*society.agents]) == count
        await society.run(steps=1)  # builds what is built once
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        rows = await society.run(steps=number, progress=look)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        assert not any(row["failures"] for row in rows), society.failures
        moving = max(row["moving"] for row in rows)
        messages = sum(row["messages"] for row in rows)
    emit(
        "agent-steps",
        f"{count} citizens{_LOOKED_AT[looked_at]}",
        count * number / cpu,
        "1/s",
        target=None if count < 10_000 else ">= 20_000" if looked_at == "all" else ">= 1_000_000",
        wall=count * number / wall,
        moving=moving,
        messages=messages,
    )


async def room(count: int) -> None:
    """What a citizen takes before its first step, and after a day."""
    city = City.generate(seed=1, citizens=count)
    services = [*make_economy(city, seed=1), Feed()]
    tracemalloc.start()
    society = Society(count, city, seed=1, services=services)
    async with society:
        assert len([*society.agents]) == count
        gc.collect()
        emit(
            "room",
            "a citizen",
            tracemalloc.get_traced_memory()[0] / count / 1024,
            "KB",
            target="<= 12",
        )
        await society.run(days=1)
        gc.collect()
        emit("room", "after a day", tracemalloc.get_traced_memory()[0] / count / 1024, "KB")
    tracemalloc.stop()


class Pausing:
    """A model that answers after a pause."""

    name = "pausing"
    context_tokens = None

    async def complete(self, messages: list[Any], *_: Any, **__: Any) -> ModelReply:
        await asyncio.sleep(PAUSE_S)
        return ModelReply(json.dumps({"block": None, "reason": "none"}))


class Asks(CitizenAgent):
    """Asks its model once a step."""

    async def forward(self) -> None:
        await self.llm.complete([{"role": "user", "content": f"{self.id}"}])


async def models(count: int, concurrency: int) -> None:
    """A step of citizens that each ask a model once."""
    citizens = [Asks(number, memory=CitizenMemory()) for number in range(count)]
    engine = LocalEngine(concurrency=concurrency)
    async with Society(citizens, model=Pausing(), engine=engine) as society:
        await society.step()
        start = time.perf_counter()
        await society.step()
        taken = time.perf_counter() - start
    limit = PAUSE_S * count / concurrency
    emit("step with a model", f"{count} calls", taken, "s", limit=limit, ratio=limit / taken)


class Answering:
    """A model that answers as the form asks: the plan that it is shown, the first block, a word."""

    name = "answering"
    context_tokens = None

    def __init__(self) -> None:
        self.calls = self.tokens = self.characters = 0

    async def complete(self, messages: list[Any], *_: Any, schema: Any, **__: Any) -> ModelReply:
        text = "\n".join(each["content"] for each in messages)
        self.calls += 1
        self.characters += len(text)
        self.tokens += estimate_tokens(text)
        answer = _answer(schema, "")
        if "plan" in answer:
            answer["plan"] = json.loads(messages[-1]["content"].splitlines()[-1])["an example"]
        return ModelReply(json.dumps(answer))


def _answer(schema: dict[str, Any], name: str) -> Any:
    """An answer of a form; of a dispatcher's blocks, the first acts."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema["type"]
    if kind == "object":
        answer = {key: _answer(each, key) for key, each in schema["properties"].items()}
        return answer | {next(iter(answer)): "yes"} if name == "blocks" else answer
    return {"array": [], "integer": 100, "number": 100}.get(kind, "Hello.")


async def tokens(count: int) -> None:
    """What a model is shown in a citizen's day."""
    city, model = City.generate(seed=1, citizens=count), Answering()
    services = [*make_economy(city, seed=1), Feed()]
    async with Society(
        count, city, seed=1, model=model, services=services, start="2026-01-05T00:00"
    ) as society:
        rows = await society.run(days=1, step="15min")
    emit(
        "a citizen's day",
        f"{count} citizens",
        model.calls / count,
        "calls",
        estimated_tokens=model.tokens / count,
        characters=model.characters / count,
        by_rule=sum(row["fallbacks"] for row in rows),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer citizens and steps")
    parser.add_argument("--tokens", action="store_true", help="only what a model is shown in a day")
    args = parser.parse_args()
    quick = args.quick
    if args.tokens:
        asyncio.run(tokens(30 if quick else 100))
        return
    for looked_at in _LOOKED_AT:
        asyncio.run(steps(1_000 if quick else 10_000, 8, looked_at))
    if not quick:
        asyncio.run(steps(50_000, 8, "all"))
    asyncio.run(room(500 if quick else 2_000))
    asyncio.run(models(1_000, 64))


if __name__ == "__main__":
    main()
