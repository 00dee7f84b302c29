"""The tasks of tau2, retail and airline, over a database that outlives the process.

tau2 (https://github.com/sierra-research/tau2-bench, MIT) states for each task the calls that do it.
`inspect-evals` has its tools, which work on objects in memory. Here the objects that a call has
changed are written to a file of SQLite, in one transaction with a line that says which call it
was, as a shop's own database would be. The two calls that touch no database, `calculate` and
`transfer_to_human_agents`, are left out, as tau2's own evaluation leaves them out.
"""

from __future__ import annotations

import importlib
import json
import sqlite3
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from benchmarks.corpora import MISSING, package

DOMAINS = {"retail": "RetailAgentTools", "airline": "AirlineAgentTools"}
READS = ("get_", "find_", "list_", "search_")
NO_DATABASE = frozenset(("calculate", "transfer_to_human_agents"))


@dataclass(frozen=True)
class Task:
    """One task: its domain, and the calls that do it, one after the other."""

    domain: str
    id: str
    calls: tuple[tuple[str, dict[str, Any]], ...]

    @property
    def writes(self) -> int:
        """How many of its calls are made to change something."""
        return sum(not reads(name) for name, _ in self.calls)


def reads(name: str) -> bool:
    """Whether a call only looks."""
    return name.startswith(READS)


class Said(Exception):
    """A tool refuses a call: tau2's `ToolError`."""


class Domain:
    """A domain: tools in the form of tau2's, over their `db` in memory."""

    def __init__(self, name: str, tools: Any, folder: Path) -> None:
        self.name = name
        self.tools = tools
        self.folder = folder

    @classmethod
    def load(cls, name: str) -> Domain:
        """A domain of tau2, with its whole database."""
        where = package("inspect_evals")
        if where is None:
            raise SystemExit(f"inspect-evals is missing: {MISSING}")
        _stand_in(where)
        module = importlib.import_module(f"inspect_evals.tau2.{name}.{DOMAINS[name]}")
        tools = getattr(module, DOMAINS[name])()
        tools.initialize()
        return cls(name, tools, where / "tau2" / "data" / "domains" / name)

    def tasks(self) -> Iterator[Task]:
        """The tasks of its base split."""
        split = json.loads((self.folder / "split_tasks.json").read_text(encoding="utf-8"))["base"]
        for given in json.loads((self.folder / "tasks.json").read_text(encoding="utf-8")):
            if given["id"] not in split:
                continue
            stated = given["evaluation_criteria"]["actions"] or ()
            calls = [(each["name"], each["arguments"]) for each in stated]
            kept = tuple(each for each in calls if each[0] not in NO_DATABASE)
            yield Task(self.name, given["id"], kept)

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """What a tool gives for a call on the objects in memory, or why it refuses."""
        try:
            return getattr(self.tools, name)(**args)
        except Said as refused:
            return f"Error: {refused}"

    def hash_of(self, calls: tuple[tuple[str, dict[str, Any]], ...]) -> str:
        """tau2's own hash of the database after these calls, made on the objects in memory."""
        for name, args in calls:
            self.call(name, args)
        return str(self.tools.db.get_hash())


def _stand_in(where: Path) -> None:
    """Load tau2 without the clients of models that the package has besides."""

    def module(name: str, **has: Any) -> None:
        made = types.ModuleType(name)
        made.__dict__.update(has)
        sys.modules.setdefault(name, made)

    nothing = type("Nothing", (), {})
    module("inspect_evals", __path__=[str(where)])
    module("inspect_evals.tau2", __path__=[str(where / "tau2")])
    module("inspect_ai", __path__=[])
    module("inspect_ai.model", Content=nothing, ContentText=nothing)
    module("inspect_ai.tool", ToolError=Said)
    module("inspect_ai.util", StoreModel=BaseModel, store_as=None)
    module("toml", load=None, dump=None)


# -- a database of its own -------------------------------------------------------------------------


class Seen(dict[str, Any]):
    """A table of tau2's objects, which keeps how each was before a call took it."""

    def __init__(self, kind: str, rows: dict[str, Any], before: dict[Any, str | None]) -> None:
        super().__init__(rows)
        self.kind = kind
        self.before = before

    def __getitem__(self, key: str) -> Any:
        found = super().__getitem__(key)
        if (self.kind, key) not in self.before:
            self.before[self.kind, key] = found.model_dump_json()
        return found

    def __setitem__(self, key: str, value: Any) -> None:
        self.before.setdefault((self.kind, key), None)
        super().__setitem__(key, value)


class Desk:
    """A domain's tools over a file, which has each object that was changed and each call."""

    def __init__(
        self, tools: Any, path: Path, at: Callable[[str, int], None] = lambda place, number: None
    ) -> None:
        """Open the file, and bring the objects in memory to where it is.

        Args:
            tools: tau2's tools; their `db` is changed
            path: the file
            at: is told `"begins"` before a call, and `"took effect"` after it, with its number
        """
        self.tools = tools
        self.at = at
        self.made = 0
        self._before: dict[Any, str | None] = {}
        self._file = opened(path)
        for kind in type(tools.db).model_fields:
            setattr(tools.db, kind, Seen(kind, getattr(tools.db, kind), self._before))
        for kind, key, data in self._file.execute("SELECT kind, key, data FROM objects"):
            rows = getattr(tools.db, kind)
            model = type(next(iter(rows.values())))
            rows[key] = model.model_validate_json(data)

    def close(self) -> None:
        self._file.close()

    def call(self, name: str, args: dict[str, Any]) -> str:
        """Make one call; what it changed is in the file when this returns."""
        self.made += 1
        self.at("begins", self.made)
        self._before.clear()
        try:
            said = getattr(self.tools, name)(**args)
            result = said if isinstance(said, str) else json.dumps(said)
        except Said as refused:
            result = f"Error: {refused}"
        if not reads(name):
            self._write(name, args, result)
        self.at("took effect", self.made)
        return result

    def _write(self, name: str, args: dict[str, Any], result: str) -> None:
        now = {
            (kind, key): dict.__getitem__(getattr(self.tools.db, kind), key).model_dump_json()
            for kind, key in self._before
        }
        changed = [(*at, data) for at, data in now.items() if data != self._before[at]]
        self._file.execute("BEGIN IMMEDIATE")
        self._file.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?)", changed)
        line = (name, spelled(args), bool(changed), result)
        self._file.execute(
            "INSERT INTO calls (name, args, changed, result) VALUES (?, ?, ?, ?)", line
        )
        self._file.execute("COMMIT")


def opened(path: Path) -> sqlite3.Connection:
    """The file of a desk."""
    file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    file.execute("PRAGMA journal_mode = WAL")
    file.execute("PRAGMA synchronous = NORMAL")
    file.execute(
        "CREATE TABLE IF NOT EXISTS objects (kind TEXT, key TEXT, data TEXT, "
        "PRIMARY KEY (kind, key))"
    )
    file.execute(
        "CREATE TABLE IF NOT EXISTS calls (number INTEGER PRIMARY KEY, name TEXT, args TEXT, "
        "changed INTEGER, result TEXT)"
    )
    return file


def spelled(args: dict[str, Any]) -> str:
    return json.dumps(args, sort_keys=True)


@dataclass(frozen=True)
class State:
    """What a desk's file has: the changed objects, and how often each call was made to the end."""

    objects: dict[tuple[str, str], Any]
    made: Counter[tuple[str, str]]
    changed: Counter[tuple[str, str]]

    @classmethod
    def of(cls, path: Path) -> State:
        file = opened(path)
        try:
            rows = file.execute("SELECT kind, key, data FROM objects").fetchall()
            calls = file.execute("SELECT name, args, changed FROM calls").fetchall()
        finally:
            file.close()
        made: Counter[tuple[str, str]] = Counter((name, args) for name, args, _ in calls)
        changed: Counter[tuple[str, str]] = Counter(
            (name, args) for name, args, really in calls if really
        )
        return cls({(kind, key): json.loads(data) for kind, key, data in rows}, made, changed)


def results(path: Path, name: str, args: dict[str, Any]) -> list[str]:
    """What each call like this one gave that was made to the end: whoever doubts looks here."""
    file = opened(path)
    try:
        asked = "SELECT result FROM calls WHERE name = ? AND args = ? ORDER BY number"
        return [result for (result,) in file.execute(asked, (name, spelled(args)))]
    finally:
        file.close()
