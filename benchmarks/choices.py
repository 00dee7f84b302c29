"""How often the default model does what one plain instruction says, over ten seeds.

    python benchmarks/choices.py [--quick] [--seeds 10] [--temperature 0.7]

Every instruction is given with all actions of its set. `action` counts the right action,
`arguments` the right action with exactly the right arguments. Nothing is executed. The form of the
prompt was chosen by the tuning tasks; the held-out ones, and one set of actions among them, were
only looked at afterwards. One JSON object a line: each instruction, then the sums, first greedy
(temperature 0) once, then over the seeds. `--quick` is greedy alone.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import show
from moothall.actions import Action
from moothall.models import LocalModel


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


def get_weather(city: str) -> None:
    """Get the weather of a city.

    Args:
        city: name of the city
    """


def move(x: int, y: int) -> None:
    """Move to a position."""


def set_timer(minutes: int) -> None:
    """Set a timer.

    Args:
        minutes: how long
    """


def turn_on(device: str) -> None:
    """Turn a device on."""


def stop() -> None:
    """Stop everything."""


def translate(text: str, language: str) -> None:
    """Translate a text into another language.

    Args:
        text: the text to translate
        language: the language to translate into
    """


def send_mail(address: str, subject: str) -> None:
    """Send a mail.

    Args:
        address: who gets it
        subject: what it is about
    """


def create_folder(name: str) -> None:
    """Create a new folder."""


def of_files(action: Action) -> Action:
    """The action with its file held to those that are there."""
    names = ("CHANGELOG.md", "LICENSE", "Makefile", "README.md", "pyproject.toml", "src/widget.py")
    schema = action.parameters
    about = {**schema["properties"]["file_name"], "anyOf": [{"const": name} for name in names]}
    properties = {**schema["properties"], "file_name": about}
    return Action(
        action.name, action.function, action.description, {**schema, "properties": properties}
    )


def of_agent(agent: str, action: Action) -> Action:
    """The action named as one that another agent offers."""
    return Action(f"{agent}_{action.name}", action.function, action.description, action.parameters)


OFFERED = {
    function.__name__: Action.of(function)
    for function in (
        *(list_files, read_file, search_in_file, write_file, add, multiply, say, get_weather),
        *(move, set_timer, turn_on, stop, translate, send_mail, create_folder),
    )
}


def offered(names: str) -> list[Action]:
    return [OFFERED[name] for name in names.split()]


MIXED = offered("list_files read_file search_in_file write_file add multiply say")
FOLDER = [
    OFFERED["list_files"],
    *map(of_files, offered("read_file search_in_file")),
    OFFERED["add"],
]
AGENTS = [
    of_agent("Calculator", OFFERED["add"]),
    of_agent("Calculator", OFFERED["multiply"]),
    of_agent("Person", OFFERED["say"]),
    of_agent("Station", OFFERED["get_weather"]),
]
ROBOT = offered("move set_timer turn_on stop")
OFFICE = offered("translate send_mail create_folder list_files")


@dataclass(frozen=True)
class Task:
    """One instruction, and the one right choice."""

    actions: list[Action]
    text: str
    name: str
    args: dict[str, Any]


def tasks(actions: list[Action], *rows: tuple[str, str, dict[str, Any]]) -> list[Task]:
    return [Task(actions, *row) for row in rows]


TUNING = [
    *tasks(
        MIXED,
        ("List the files", "list_files", {}),
        ("List all files in the folder", "list_files", {}),
        ("Show me the files", "list_files", {}),
        ("Read CHANGELOG", "read_file", {"file_name": "CHANGELOG"}),
        ("Read README.md", "read_file", {"file_name": "README.md"}),
        ("Read the file src/widget.py", "read_file", {"file_name": "src/widget.py"}),
        ("What does notes.txt say?", "read_file", {"file_name": "notes.txt"}),
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
        (
            "Search settings.py for password",
            "search_in_file",
            {"file_name": "settings.py", "search_term": "password"},
        ),
        ("Add 2 and 3", "add", {"a": 2, "b": 3}),
        ("Add 17 and 25", "add", {"a": 17, "b": 25}),
        ("What is 4 plus 5?", "add", {"a": 4, "b": 5}),
        ("Multiply 6 by 7", "multiply", {"a": 6, "b": 7}),
        ("Multiply 12 and 11", "multiply", {"a": 12, "b": 11}),
        (
            "Write hello into notes.txt",
            "write_file",
            {"file_name": "notes.txt", "content": "hello"},
        ),
        ("Say good morning", "say", {"content": "good morning"}),
    ),
    *tasks(
        FOLDER,
        ("List the files", "list_files", {}),
        ("Read the file CHANGELOG.md", "read_file", {"file_name": "CHANGELOG.md"}),
        (
            'Search for "Python" in README.md',
            "search_in_file",
            {"file_name": "README.md", "search_term": "Python"},
        ),
        (
            "Search Makefile for test",
            "search_in_file",
            {"file_name": "Makefile", "search_term": "test"},
        ),
    ),
    *tasks(
        AGENTS,
        ("Add 4 and 5", "Calculator_add", {"a": 4, "b": 5}),
        ("Multiply 3 by 9", "Calculator_multiply", {"a": 3, "b": 9}),
        ("What is the weather in Paris?", "Station_get_weather", {"city": "Paris"}),
        ("Say hello", "Person_say", {"content": "hello"}),
    ),
    *tasks(
        ROBOT,
        ("Move to 3, 4", "move", {"x": 3, "y": 4}),
        ("Set a timer for 10 minutes", "set_timer", {"minutes": 10}),
        ("Turn on the lamp", "turn_on", {"device": "lamp"}),
        ("Stop", "stop", {}),
    ),
]
HELD_OUT = [
    *tasks(
        MIXED,
        ("Which files are there?", "list_files", {}),
        ("List the files here", "list_files", {}),
        ("Open LICENSE", "read_file", {"file_name": "LICENSE"}),
        ("Read src/main.py", "read_file", {"file_name": "src/main.py"}),
        ("Show me the text of setup.cfg", "read_file", {"file_name": "setup.cfg"}),
        (
            "Search README.md for Python",
            "search_in_file",
            {"file_name": "README.md", "search_term": "Python"},
        ),
        (
            "Find the word error in log.txt",
            "search_in_file",
            {"file_name": "log.txt", "search_term": "error"},
        ),
        ("What is 2 plus 3?", "add", {"a": 2, "b": 3}),
        ("Add 40 and 2", "add", {"a": 40, "b": 2}),
        ("What is 9 times 8?", "multiply", {"a": 9, "b": 8}),
        (
            "Write done into status.txt",
            "write_file",
            {"file_name": "status.txt", "content": "done"},
        ),
        ("Say thank you", "say", {"content": "thank you"}),
    ),
    *tasks(
        FOLDER,
        (
            "Search README.md for Python",
            "search_in_file",
            {"file_name": "README.md", "search_term": "Python"},
        ),
        ("What does CHANGELOG.md say?", "read_file", {"file_name": "CHANGELOG.md"}),
        ("Read LICENSE", "read_file", {"file_name": "LICENSE"}),
        ("Show all files", "list_files", {}),
    ),
    *tasks(
        AGENTS,
        ("What is 8 plus 7?", "Calculator_add", {"a": 8, "b": 7}),
        ("Multiply 5 and 6", "Calculator_multiply", {"a": 5, "b": 6}),
        ("Get the weather of Oslo", "Station_get_weather", {"city": "Oslo"}),
        ("Tell the person good night", "Person_say", {"content": "good night"}),
    ),
    *tasks(
        ROBOT,
        ("Go to x 7 and y 2", "move", {"x": 7, "y": 2}),
        ("Set a timer of 25 minutes", "set_timer", {"minutes": 25}),
        ("Turn the radio on", "turn_on", {"device": "radio"}),
        ("Stop now", "stop", {}),
    ),
    *tasks(
        OFFICE,
        (
            "Translate good evening into French",
            "translate",
            {"text": "good evening", "language": "French"},
        ),
        (
            "Send a mail to anna@example.org about lunch",
            "send_mail",
            {"address": "anna@example.org", "subject": "lunch"},
        ),
        ("Create a folder named photos", "create_folder", {"name": "photos"}),
        ("Show the files", "list_files", {}),
    ),
]
SPLITS = {"tuning": TUNING, "held out": HELD_OUT}


async def once(model: LocalModel, of: Iterable[Task]) -> list[tuple[bool, bool]]:
    """For each task, whether the action was right, and whether its arguments were too."""

    async def one(task: Task) -> tuple[bool, bool]:
        reply = await model.complete([{"role": "user", "content": task.text}], task.actions)
        if not reply.calls or reply.calls[0].name != task.name:
            return False, False
        return True, reply.calls[0].args == task.args

    return list(await asyncio.gather(*map(one, of)))


def measure(seeds: int, temperature: float) -> Iterator[dict[str, Any]]:
    """The figures of each setting, its sums last."""
    every = [task for split in SPLITS.values() for task in split]
    for setting, heat, of_seeds in (
        ("greedy", 0.0, range(1)),
        (f"temperature {temperature}", temperature, range(seeds)),
    ):
        if not of_seeds:
            continue
        runs = []
        for seed in of_seeds:
            with LocalModel(temperature=heat, seed=seed, max_tokens=120) as model:
                runs.append(asyncio.run(once(model, every)))
        results = zip(*runs, strict=True)
        sums = []
        for split, of in SPLITS.items():
            rows = [list(next(results)) for _ in of]
            for task, row in zip(of, rows, strict=True):
                yield line("choice", f"{setting}, {split}: {task.text}", row)
            every_result = [result for row in rows for result in row]
            sums.append(line("choices", f"{setting}, {split}", every_result))
        yield from sums


def line(metric: str, variant: str, results: list[tuple[bool, bool]]) -> dict[str, Any]:
    """One figure: how often action and arguments were right, and how often the action was."""
    return {
        "metric": metric,
        "variant": variant,
        "value": sum(both for _, both in results),
        "unit": f"right of {len(results)}",
        "action": sum(action for action, _ in results),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="greedy alone")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--temperature", type=float, default=0.7)
    args = parser.parse_args()
    for figure in measure(0 if args.quick else args.seeds, args.temperature):
        show(figure)


if __name__ == "__main__":
    main()
