"""What it costs a call to know where its arguments come from.

    python -m benchmarks.origins [--quick]

A run makes a hundred calls of an action, one an answer, each with another address that the user has
named. Beside it runs the same with an action that guards nothing and reads nothing from outside, so
the difference is what provenance takes: where nothing was read from outside, and where the first
call read 100 kB there, whose reading it pays for, too.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Callable
from typing import Any

from benchmarks.measure import emit, side_by_side
from moothall import Action, Call, Memory, ReActAgent, ScriptedModel

CALLS = 100
TO = [f"person{number}@example.com" for number in range(CALLS)]
SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


def text(size: int) -> str:
    """Mails as they look to a program: words, names, addresses, dates and amounts."""
    rng = random.Random(7)
    words = [
        "".join(rng.choices("etaoinshrdlu", k=rng.randrange(2, 11))).capitalize()
        if rng.random() < 0.1
        else "".join(rng.choices("etaoinshrdlu", k=rng.randrange(2, 11)))
        for _ in range(2000)
    ]
    made: list[str] = []
    while sum(map(len, made)) < size:
        sender, host = rng.choice(words), rng.choice(words).lower()
        made.append(f"From: {sender}@{host}.example\nDate: 2026-11-{len(made) % 28 + 1:02}\n")
        made.append(
            f"{' '.join(rng.choices(words, k=150))}\n{rng.randrange(10**6) / 100:.2f} EUR\n"
        )
    return "".join(made)[:size]


def run(read: str, outside: bool, guarded: bool) -> Callable[[], int]:
    """A run that reads something and then makes its calls."""

    async def look() -> str:
        return read

    async def send(to: str) -> str:
        return "sent"

    options: dict[str, Any] = {"guard": ("to",)} if guarded else {"guard": ()}
    actions = [
        Action("look", look, "Look.", NOTHING, idempotent=True, outside=outside),
        Action("send", send, "Send.", SCHEMA, **options),
    ]
    calls = [Call(f"c{number}", "send", {"to": each}) for number, each in enumerate(TO)]

    def work() -> int:
        model = ScriptedModel([Call("l", "look", {}), *calls, "Done."], max_tokens=10)
        agent = ReActAgent(
            "assistant", model, actions=actions, memory=Memory(), max_iterations=CALLS + 2,
            max_result_chars=10**6,
        )  # fmt: skip
        reply = asyncio.run(agent.reply(f"Look what is new, and write to {', '.join(TO)}."))
        assert reply.text == "Done."
        return CALLS

    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 5 if parser.parse_args().quick else 25
    long = text(100_000)
    figures = side_by_side(
        {
            "nothing, unguarded": run("Nothing.", False, False),
            "nothing": run("Nothing.", False, True),
            "much, unguarded": run(long, False, False),
            "much": run(long, True, True),
        },
        rounds,
    )
    for name, of, aim in (
        ("nothing", "nothing read from outside", "<= 5"),
        ("much", "100 kB read from outside", "<= 50"),
    ):
        with_it, without = figures[name], figures[f"{name}, unguarded"]
        pairs = sorted(a - b for a, b in zip(with_it.cpu, without.cpu, strict=True))
        more = pairs[len(pairs) // 2] * 1e6
        emit("origins: a call", of, more, "us", limit=without.seconds * 1e6, target=aim)


if __name__ == "__main__":
    main()
