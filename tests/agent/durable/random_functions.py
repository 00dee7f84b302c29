"""Random durable functions: branches, loops, tasks side by side, failures and waits."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from moothall import ReActAgent, ScriptedModel, durable, step

Tree = tuple[Any, ...]


@step
async def add(total: int, by: int) -> int:
    for _ in range(by % 4):
        await asyncio.sleep(0)
    return (total * 31 + by) % 997


@step
def multiply(total: int, by: int) -> int:
    return total * by % 991


@step
async def refuse(total: int) -> int:
    await asyncio.sleep(0)
    raise ValueError(f"{total} is refused")


@step
async def label(total: int) -> tuple[int, bytes]:
    return total, b"%d" % total


def agent_of(number: int) -> ReActAgent:
    """Return an agent that says how long its question is."""
    answer = ScriptedModel([lambda messages, actions: str(len(messages[-1]["content"]))] * 1000)
    return ReActAgent(f"a{number}", answer)


AGENTS = [agent_of(number) for number in range(3)]


def tree_of(draw: random.Random, depth: int = 0) -> Tree:
    """Return a program drawn at random."""
    leaves = [
        "add",
        "add",
        "multiply",
        "refuse",
        "label",
        "agent",
        "ask",
        "result",
        "sleep",
        "child",
    ]
    nodes = ["sequence", "sequence", "if", "loop", "gather", "group"]
    kind = draw.choice(nodes if depth < 2 else leaves if depth > 3 else [*leaves, *nodes])
    if kind in leaves:
        return kind, draw.randrange(1, 50)
    size = {"if": 2, "loop": 1}.get(kind, draw.randrange(1, 4))
    return kind, draw.randrange(1, 4), *(tree_of(draw, depth + 1) for _ in range(size))


async def carry_out(tree: Tree, total: int) -> int:
    """Carry out a program from a number to a number."""
    kind, number, *parts = tree
    if kind == "add":
        return await add(total, number)
    if kind == "multiply":
        return await multiply(total, number)
    if kind == "refuse":
        try:
            return await refuse(total)
        except ValueError as error:
            return total + len(str(error))
    if kind == "label":
        return sum(map(int, await label(total))) % 997
    if kind == "agent":
        return total + int((await AGENTS[number % 3].reply("x" * (total % 7 + 1))).text)
    if kind == "ask":
        return total + await durable.ask(f"Add to {total}?")
    if kind == "result":
        return total + int(await durable.result(f"key-{number}"))
    if kind == "sleep":
        await durable.sleep(0.001)
        return total
    if kind == "child":
        return await doubled(total)
    if kind == "if":
        return await carry_out(parts[total % 2], total)
    if kind == "gather":
        done = await asyncio.gather(*(carry_out(each, total) for each in parts))
        return sum(done) % 997
    if kind == "group":
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(carry_out(each, total)) for each in parts]
        return sum(task.result() for task in tasks) % 997
    for _ in range(number if kind == "loop" else 1):
        for each in parts:
            total = await carry_out(each, total)
    return total


@durable
async def doubled(total: int) -> int:
    """Double a number in two steps."""
    return await add(await add(total, 1), total % 5)


@durable
async def at_random(seed: int) -> int:
    """Carry out a random program."""
    return await carry_out(tree_of(random.Random(seed)), seed % 100)
