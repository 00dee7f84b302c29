"""How often the default model does what one plain instruction says, over ten seeds.

    python benchmarks/choices.py [--seeds 10] [--temperature 0.7]

Every instruction is given with all seven actions. `action` counts the right action, `arguments` the
right action with exactly the right arguments. Nothing is executed. One JSON object a line: first
each instruction, then the sums; greedy (temperature 0) once, the rest over the seeds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

from civitas.action import Action
from civitas.models import LocalModel


def list_files() -> None:
    """List all the files."""


def read_file(file_name: str) -> None:
    """Read a file and give its text.

    Args:
        file_name: the file
    """


def search_in_file(file_name: str, search_term: str) -> None:
    """Search a file for a text and give the lines with it.

    Args:
        file_name: the file
        search_term: what to look for
    """


def write_file(file_name: str, content: str) -> None:
    """Write text into a file.

    Args:
        file_name: the file
        content: what to write
    """


def add(a: int, b: int) -> None:
    """Add two numbers.

    Args:
        a: the first
        b: the second
    """


def multiply(a: int, b: int) -> None:
    """Multiply two numbers.

    Args:
        a: the first
        b: the second
    """


def say(content: str) -> None:
    """Say something to a person.

    Args:
        content: what to say
    """


ACTIONS = [
    Action.of(function)
    for function in (list_files, read_file, search_in_file, write_file, add, multiply, say)
]
TASKS: list[tuple[str, str, dict[str, Any]]] = [
    ("List the files", "list_files", {}),
    ("List all files in the folder", "list_files", {}),
    ("Show me the files", "list_files", {}),
    ("Read CHANGELOG", "read_file", {"file_name": "CHANGELOG"}),
    ("Read README.md", "read_file", {"file_name": "README.md"}),
    ("Read the file src/widget.py", "read_file", {"file_name": "src/widget.py"}),
    (
        "Search for RETRY_LIMIT in src/widget.py",
        "search_in_file",
        {"file_name": "src/widget.py", "search_term": "RETRY_LIMIT"},
    ),
    (
        "Search for license in README.md",
        "search_in_file",
        {"file_name": "README.md", "search_term": "license"},
    ),
    (
        "Search for timeout in config.toml",
        "search_in_file",
        {"file_name": "config.toml", "search_term": "timeout"},
    ),
    ("Add 2 and 3", "add", {"a": 2, "b": 3}),
    ("Add 17 and 25", "add", {"a": 17, "b": 25}),
    ("Multiply 6 by 7", "multiply", {"a": 6, "b": 7}),
    ("Multiply 12 and 11", "multiply", {"a": 12, "b": 11}),
    (
        "Write hello into notes.txt",
        "write_file",
        {"file_name": "notes.txt", "content": "hello"},
    ),
    ("Say good morning", "say", {"content": "good morning"}),
]


async def once(model: LocalModel) -> list[tuple[bool, bool]]:
    """For each task, whether the action was right, and whether its arguments were too."""

    async def one(text: str, name: str, args: dict[str, Any]) -> tuple[bool, bool]:
        reply = await model.complete([{"role": "user", "content": text}], ACTIONS)
        if not reply.calls or reply.calls[0].name != name:
            return False, False
        return True, reply.calls[0].args == args

    return list(await asyncio.gather(*(one(*task) for task in TASKS)))


def measure(seeds: int, temperature: float) -> list[dict[str, Any]]:
    """The figures, the sums last."""
    settings = [("greedy", 0.0, [0]), (f"temperature {temperature}", temperature, range(seeds))]
    lines, sums = [], []
    for variant, heat, of_seeds in settings:
        runs = []
        for seed in of_seeds:
            with LocalModel(temperature=heat, seed=seed, max_tokens=120) as model:
                runs.append(asyncio.run(once(model)))
        rows = list(zip(*runs, strict=True))
        for (text, _, _), results in zip(TASKS, rows, strict=True):
            lines.append(line("choice", f"{variant}: {text}", list(results)))
        sums.append(line("choices", variant, [result for row in rows for result in row]))
    return lines + sums


def line(metric: str, variant: str, results: list[tuple[bool, bool]]) -> dict[str, Any]:
    """One figure."""
    return {
        "metric": metric,
        "variant": variant,
        "action": sum(action for action, _ in results),
        "arguments": sum(both for _, both in results),
        "of": len(results),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--temperature", type=float, default=0.7)
    args = parser.parse_args()
    for figure in measure(args.seeds, args.temperature):
        print(json.dumps(figure), flush=True)


if __name__ == "__main__":
    main()
