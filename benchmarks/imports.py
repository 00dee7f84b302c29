"""What importing costs, over a bare interpreter.

    python -m benchmarks.imports [--quick]

The floor is what no asynchronous agent framework does without: asyncio, json, dataclasses, inspect,
typing. Each import happens in a fresh interpreter, in turns; the bare interpreter's time is taken
off. `ratio` is the time over the floor's.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import time

from benchmarks.measure import emit

FLOOR = "import asyncio, json, dataclasses, inspect, typing, uuid, contextvars"
STATEMENTS = {
    "import moothall": "import moothall",
    "agent and space": "from moothall import Agent, NativeSpace, action",
    "loop": "from moothall import ReActAgent",
}
PEERS = {
    "agent_framework": "from agent_framework import Agent, WorkflowBuilder",
    "agno": "from agno.agent import Agent",
    "pydantic_ai": "from pydantic_ai import Agent",
}


def seconds(statement: str) -> float:
    """Wall time of a fresh interpreter that runs a statement."""
    # Byte code is kept, as it is for a user: without it every import compiles.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    # No timeout: with one, waiting polls, and the figure comes in steps of 50 ms.
    subprocess.run([sys.executable, "-c", statement], check=True, env=environment)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 5 if parser.parse_args().quick else 15
    statements = {"bare": "pass", "floor": FLOOR, **STATEMENTS}
    statements |= {
        name: statement for name, statement in PEERS.items() if importlib.util.find_spec(name)
    }
    taken: dict[str, list[float]] = {name: [] for name in statements}
    for statement in statements.values():
        seconds(statement)  # writes the byte code
    for _ in range(rounds):
        for name, statement in statements.items():
            taken[name].append(seconds(statement))
    bare = taken.pop("bare")
    over = {
        name: statistics.median(t - b for t, b in zip(times, bare, strict=True))
        for name, times in taken.items()
    }
    floor = over.pop("floor")
    for name, extra in over.items():
        target = {} if name in PEERS else {"target": "<= 100"}
        emit("import", name, extra * 1e3, "ms", limit=floor * 1e3, ratio=extra / floor, **target)


if __name__ == "__main__":
    main()
