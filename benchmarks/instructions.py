"""Sixty one-instruction tasks with known answers, and ten questions for a value.

They were written before any model was shown them, and stay as they are whatever comes out: a task
that turns out hard is a finding. None has the wording of an instruction in `benchmarks.choices`, by
some of which the prompt's form was chosen.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moothall import Action, Reply
from moothall.agents import file_actions
from moothall.agents.ready.folder import Folder

# -- the folder ------------------------------------------------------------------------------------

FILES = {
    "CHANGELOG": "0.3 The widget retries.\n0.2 The widget has a colour.\n0.1 First release.\n",
    "LICENSE": "You may use this as you like.\nThere is no warranty.\n",
    "README.md": "# Widgets\n\nA widget turns a handle.\nInstall it with pip.\n",
    "budget.csv": "month,euros\nJanuary,120\nFebruary,95\nMarch,140\n",
    "config.toml": "[server]\nport = 8080\ntimeout = 30\n",
    "docs/guide.md": "# Guide\n\nTurn the handle slowly.\nA handle that sticks needs oil.\n",
    "log.txt": "09:00 started\n09:05 warning: disk slow\n09:07 error: disk full\n09:30 stopped\n",
    "notes.txt": "Call Maria on Monday.\nBuy bread and milk.\nThe spare key is in the shed.\n",
    "src/widget.py": "RETRY_LIMIT = 5\n\n\ndef turn(handle):\n    return handle.turn()\n",
    "todo.md": "- water the plants\n- pay the rent\n- phone the bank\n",
}
LISTED = [
    *("CHANGELOG", "LICENSE", "README.md", "budget.csv", "config.toml", "docs/", "log.txt"),
    *("notes.txt", "src/", "todo.md"),
]


def fill(root: Path) -> None:
    """Put the files into an empty folder."""
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def found(root: Path) -> dict[str, str]:
    """Every file that is there now, with its text."""
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_text() for path in paths}


# -- the actions -----------------------------------------------------------------------------------


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: the first number
        b: the second number
    """
    return a + b


def subtract(a: int, b: int) -> int:
    """Subtract a number from another.

    Args:
        a: the number to subtract from
        b: the number to subtract
    """
    return a - b


def multiply(a: int, b: int) -> int:
    """Multiply two numbers.

    Args:
        a: the first number
        b: the second number
    """
    return a * b


def divide(a: int, b: int) -> float:
    """Divide a number by another.

    Args:
        a: the number to divide
        b: the number to divide by
    """
    return a / b


def offered(root: Path, *, only_listed: bool = False) -> list[Action]:
    """The eight actions, each of which ends the reply when it succeeds."""
    folder = Folder(root)

    def write_file(file_name: str, text: str) -> None:
        """Write a text into a file.

        Args:
            file_name: Name of the file to write
            text: Text to write
        """
        folder.write(file_name, text)

    own = (write_file, add, subtract, multiply, divide)
    return [
        *file_actions(root, terminal=True, only_listed=only_listed),
        *(Action(function.__name__, function, terminal=True) for function in own),
    ]


# -- the tasks -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """One instruction, the call that it asks for, and what that call returns."""

    text: str
    action: str
    args: dict[str, Any]
    result: Any

    @property
    def files(self) -> dict[str, str]:
        """The folder as it is to be afterwards."""
        if self.action != "write_file":
            return FILES
        return FILES | {self.args["file_name"]: self.args["text"]}

    def is_called_by(self, action: str, args: dict[str, Any]) -> bool:
        """Whether this is the call that it asks for. Of a sum or a product, in either order."""
        if action in ("add", "multiply"):
            same = sorted(args.values()) == sorted(self.args.values())
        else:
            same = args == self.args
        return action == self.action and same

    def is_done(self, reply: Reply, root: Path) -> bool:
        """Whether a reply ended with the right call, its right result and the right folder."""
        if reply.stop_reason != "terminal" or not reply.steps:
            return False
        last = reply.steps[-1]
        result = json.loads(json.dumps(reply.value))
        return (
            self.is_called_by(last.action, last.args)
            and result == self.result
            and found(root) == self.files
        )


def listing(text: str) -> Task:
    return Task(text, "list_files", {}, LISTED)


def reading(text: str, file_name: str) -> Task:
    return Task(text, "read_file", {"file_name": file_name}, FILES[file_name])


def searching(text: str, file_name: str, term: str, *lines: tuple[int, str]) -> Task:
    args = {"file_name": file_name, "search_term": term}
    return Task(text, "search_in_file", args, [list(line) for line in lines])


def writing(text: str, file_name: str, content: str) -> Task:
    return Task(text, "write_file", {"file_name": file_name, "text": content}, None)


def counting(text: str, action: str, a: int, b: int, result: float) -> Task:
    return Task(text, action, {"a": a, "b": b}, result)


TASKS = (
    listing("List the files in this folder"),
    listing("What files do we have?"),
    listing("Give me a list of all files"),
    listing("List everything in the directory"),
    listing("Which files are in the folder?"),
    listing("Show the file names"),
    listing("I want to see what files exist"),
    listing("Print the names of the files"),
    reading("Read the CHANGELOG", "CHANGELOG"),
    reading("Read the file LICENSE", "LICENSE"),
    reading("Open README.md", "README.md"),
    reading("Read notes.txt", "notes.txt"),
    reading("Read todo.md", "todo.md"),
    reading("Show me what is in config.toml", "config.toml"),
    reading("Read src/widget.py", "src/widget.py"),
    reading("Read the contents of log.txt", "log.txt"),
    reading("What is written in todo.md?", "todo.md"),
    reading("Print notes.txt", "notes.txt"),
    reading("Open the file docs/guide.md and show it to me", "docs/guide.md"),
    reading("Read budget.csv", "budget.csv"),
    reading("What does LICENSE say?", "LICENSE"),
    reading("Let me see README.md", "README.md"),
    searching(
        "Search for handle in src/widget.py",
        *("src/widget.py", "handle"),
        *((4, "def turn(handle):"), (5, "return handle.turn()")),
    ),
    searching(
        "Search for widget in README.md", "README.md", "widget", (3, "A widget turns a handle.")
    ),
    searching("Search log.txt for error", "log.txt", "error", (3, "09:07 error: disk full")),
    searching(
        "Find disk in log.txt",
        *("log.txt", "disk"),
        *((2, "09:05 warning: disk slow"), (3, "09:07 error: disk full")),
    ),
    searching(
        "Look for the word Maria in notes.txt", "notes.txt", "Maria", (1, "Call Maria on Monday.")
    ),
    searching("Search config.toml for port", "config.toml", "port", (2, "port = 8080")),
    searching("Find the line with March in budget.csv", "budget.csv", "March", (4, "March,140")),
    searching("Search for rent in todo.md", "todo.md", "rent", (2, "- pay the rent")),
    searching(
        "Where does CHANGELOG mention colour?",
        *("CHANGELOG", "colour", (2, "0.2 The widget has a colour.")),
    ),
    searching(
        "Search the file LICENSE for warranty", "LICENSE", "warranty", (2, "There is no warranty.")
    ),
    searching(
        "Search docs/guide.md for oil",
        *("docs/guide.md", "oil", (4, "A handle that sticks needs oil.")),
    ),
    searching(
        "Find RETRY_LIMIT in src/widget.py", "src/widget.py", "RETRY_LIMIT", (1, "RETRY_LIMIT = 5")
    ),
    writing("Write hello into greeting.txt", "greeting.txt", "hello"),
    writing("Write the text buy eggs into shopping.txt", "shopping.txt", "buy eggs"),
    writing("Put the word ready into status.txt", "status.txt", "ready"),
    writing("Create a file named name.txt with the content Ada", "name.txt", "Ada"),
    writing("Write 42 into answer.txt", "answer.txt", "42"),
    writing('Save "see you at noon" in message.txt', "message.txt", "see you at noon"),
    writing("Write all done into todo.md", "todo.md", "all done"),
    writing(
        'Write the sentence "The door is open." into door.txt', "door.txt", "The door is open."
    ),
    counting("Add 5 and 8", "add", 5, 8, 13),
    counting("What is 14 plus 3?", "add", 14, 3, 17),
    counting("Add 120 to 45", "add", 120, 45, 165),
    counting("How much is 31 plus 19?", "add", 31, 19, 50),
    counting("Compute 7 + 6", "add", 7, 6, 13),
    counting("Add -2 and 9", "add", -2, 9, 7),
    counting("Subtract 4 from 10", "subtract", 10, 4, 6),
    counting("What is 20 minus 5?", "subtract", 20, 5, 15),
    counting("How much is 100 minus 1?", "subtract", 100, 1, 99),
    counting("Compute 9 - 3", "subtract", 9, 3, 6),
    counting("Multiply 8 by 4", "multiply", 8, 4, 32),
    counting("What is 6 times 9?", "multiply", 6, 9, 54),
    counting("Multiply 15 and 3", "multiply", 15, 3, 45),
    counting("How much is 12 times 12?", "multiply", 12, 12, 144),
    counting("Compute 7 * 5", "multiply", 7, 5, 35),
    counting("Divide 20 by 4", "divide", 20, 4, 5),
    counting("What is 81 divided by 9?", "divide", 81, 9, 9),
    counting("How much is 7 divided by 2?", "divide", 7, 2, 3.5),
)

# -- the questions ---------------------------------------------------------------------------------

_WORDS = {
    "text": {"type": "string"},
    "whole number": {"type": "integer"},
    "true or false": {"type": "boolean"},
    "list of texts": {"type": "array", "items": {"type": "string"}},
}


@dataclass(frozen=True)
class Question:
    """A sentence, the fields to take from it, and their values.

    A schema holds a model to a form without telling it of any, so the text does.
    """

    sentence: str
    fields: dict[str, str]
    value: dict[str, Any]

    @property
    def text(self) -> str:
        form = ", ".join(f"{json.dumps(name)}: {words}" for name, words in self.fields.items())
        return f"{self.sentence} Answer with JSON alone: {{{form}}}"

    @property
    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {name: _WORDS[words] for name, words in self.fields.items()},
            "required": list(self.fields),
            "additionalProperties": False,
        }


QUESTIONS = (
    Question(
        "Ada is 36 years old.",
        {"name": "text", "age": "whole number"},
        {"name": "Ada", "age": 36},
    ),
    Question(
        "Boris, aged 52, lives in Riga.",
        {"name": "text", "age": "whole number", "city": "text"},
        {"name": "Boris", "age": 52, "city": "Riga"},
    ),
    Question(
        "The meeting is on Tuesday at 15 o'clock.",
        {"day": "text", "hour": "whole number"},
        {"day": "Tuesday", "hour": 15},
    ),
    Question(
        "Maria bought 3 lamps for 45 euros.",
        {"lamps": "whole number", "euros": "whole number"},
        {"lamps": 3, "euros": 45},
    ),
    Question(
        "The train goes from Bern to Milan.",
        {"from": "text", "to": "text"},
        {"from": "Bern", "to": "Milan"},
    ),
    Question(
        "Paris is the capital of France.",
        {"capital": "text", "country": "text"},
        {"capital": "Paris", "country": "France"},
    ),
    Question(
        "The box is red and weighs 12 kilograms.",
        {"colour": "text", "kilograms": "whole number"},
        {"colour": "red", "kilograms": 12},
    ),
    Question(
        "The number of Tom's telephone is 5551234.",
        {"name": "text", "number": "whole number"},
        {"name": "Tom", "number": 5551234},
    ),
    Question(
        "The lamp in the kitchen is on.",
        {"room": "text", "on": "true or false"},
        {"room": "kitchen", "on": True},
    ),
    Question(
        "She speaks French, Polish and Greek.",
        {"languages": "list of texts"},
        {"languages": ["French", "Polish", "Greek"]},
    ),
)
