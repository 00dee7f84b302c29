"""Calls that one request needs: tasks of the Berkeley Function Calling Leaderboard.

The tasks and their answers are those of the package `bfcl-eval` (Apache-2.0), of which only the
data is read; `scripts/corpora` unpacks it. A task is right if the model makes exactly the calls
that are asked for, with an accepted value for each argument; `irrelevance` is right without a call.
Every second task of the shuffled ones is shut: not looked at while prompts are written, and run
with `--shut` alone.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.corpora import MISSING, package
from benchmarks.minds.mind import Outcomes
from moothall.actions import Action
from moothall.foundation.errors import ModelError
from moothall.models import Model

CATEGORIES = {
    "simple": "simple_python",
    "multiple": "multiple",
    "parallel": "parallel",
    "parallel_multiple": "parallel_multiple",
    "irrelevance": "irrelevance",
    "live_simple": "live_simple",
}
SEED = 7
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": None}
_MARKS = re.compile(r"[ ,./\-_*^'\"]")


def data() -> Path:
    """The folder of the package's data; SystemExit if it is not there."""
    where = package("bfcl_eval")
    if where is None:
        sys.exit(f"the Berkeley Function Calling Leaderboard is missing: {MISSING}")
    return where / "data"


def tasks(category: str, count: int, shut: bool) -> list[tuple[dict[str, Any], list[Any]]]:
    """Some tasks of a category, with the calls that each asks for."""
    name = f"BFCL_v4_{CATEGORIES[category]}.json"
    lines = [json.loads(line) for line in (data() / name).read_text().splitlines()]
    random.Random(SEED).shuffle(lines)
    chosen = lines[shut::2][:count]
    answers = data() / "possible_answer" / name
    if not answers.exists():
        return [(task, []) for task in chosen]
    of = {(row := json.loads(line))["id"]: row for line in answers.read_text().splitlines()}
    return [(task, of[task["id"]]["ground_truth"]) for task in chosen]


def schema(given: Any) -> Any:
    """A schema in the leaderboard's words as a JSON schema."""
    if isinstance(given, list):
        return [schema(each) for each in given]
    if not isinstance(given, dict):
        return given
    made = {k: schema(v) for k, v in given.items() if k not in ("optional", "default")}
    kind = given.get("type")
    if isinstance(kind, str) and kind.lower() in _TYPES:
        made["type"] = _TYPES[kind.lower()]
        if made["type"] is None:
            del made["type"]
    return made


def action(function: dict[str, Any]) -> Action:
    """A function of the leaderboard as an action."""

    def done(**_: Any) -> str:
        return "done"

    about = {"description": function["description"]}
    parameters = schema(function["parameters"])
    return Action(function["name"], done, about["description"], parameters)


async def calls_of(model: Model, task: dict[str, Any]) -> tuple[list[Any], str]:
    """The calls that a model makes for a task at once, and its text."""
    messages = [dict(each) for each in task["question"][0]]
    reply = await model.complete(messages, [action(each) for each in task["function"]])
    return [(call.name, call.args) for call in reply.calls], reply.text


def fits(given: Any, accepted: Any) -> bool:
    """Whether a value is among the accepted ones, by the leaderboard's rules."""
    return any(_same(given, each) for each in accepted)


def _same(given: Any, wanted: Any) -> bool:
    if isinstance(wanted, str):
        return isinstance(given, str) and _plain(given) == _plain(wanted)
    if isinstance(wanted, bool) or isinstance(given, bool):
        return given is wanted
    if isinstance(wanted, int | float):
        return isinstance(given, int | float) and abs(given - wanted) < 1e-9
    if isinstance(wanted, list):
        same = isinstance(given, list) and len(given) == len(wanted)
        return same and all(map(_same, given, wanted))
    if isinstance(wanted, dict):
        return isinstance(given, dict) and arguments_fit(given, wanted)
    return given is wanted


def _plain(text: str) -> str:
    return _MARKS.sub("", text).lower()


def arguments_fit(given: Mapping[str, Any], wanted: Mapping[str, list[Any]]) -> bool:
    """Whether each argument has an accepted value; an empty one may be left out."""
    if given.keys() - wanted.keys():
        return False
    return all(
        fits(given[name], accepted) if name in given else "" in accepted
        for name, accepted in wanted.items()
    )


def right(made: list[Any], wanted: list[dict[str, Any]]) -> bool:
    """Whether these are the calls that were asked for, in any order."""
    rest = list(made)
    for each in wanted:
        ((name, args),) = each.items()
        found = next((c for c in rest if c[0] == name and arguments_fit(c[1], args)), None)
        if found is None:
            return False
        rest.remove(found)
    return not rest


def run(model: Model, outcomes: Outcomes, category: str, count: int, shut: bool) -> Any:
    """The outcomes of a category."""

    def one(task: dict[str, Any], wanted: list[Any]) -> dict[str, Any]:
        try:
            made, text = asyncio.run(calls_of(model, task))
        except ModelError as error:
            return {"right": False, "made": None, "text": str(error)[:300]}
        return {"right": right(made, wanted), "made": made, "text": text[:200]}

    return [
        outcomes.of(f"bfcl.{category}", task["id"], lambda t=task, w=wanted: one(t, w))
        for task, wanted in tasks(category, count, shut)
    ]
