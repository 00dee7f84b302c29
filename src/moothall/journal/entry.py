"""The contents of a journal: entries, in order, and an outline of each run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from moothall.text import display

ROOT = ""
"""The path of a run's own part."""

WAYS = {"repeat": "run it again", "skip": "skip it"}
"""What a person may decide about a call in doubt besides `Done`, and its words."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened in a run.

    Attributes:
        sequence: its place in the run, from 1 without gaps
        path: which part of the run it belongs to: empty for the run's own agent, such as `R1/coder`
            for an agent that works on its behalf
        kind: what happened, such as `begun`, `started` or `ended`
        at: when, in seconds since 1970
        data: the details, as JSON data
    """

    sequence: int
    path: str
    kind: str
    at: float
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outline:
    """One run of a journal, in short.

    Attributes:
        id: the run's id
        kind: the class of its agent, such as `ReActAgent`
        agent: the id of its agent
        task: what it was asked: the beginning of the text; the first entry of the run's own agent
            has all of it
        began: when, in seconds since 1970
        changed: when the last entry was written, likewise
        entries: how many there are
        state: `running` while a process works on it, or `waiting` while that waits for a person's
            permission; `in_doubt` if it was cut off during an action, so that a person has to
            decide; `stopped` if its process ended otherwise and recorded no end; else the reason
            for which the run ended, such as `done`
        forked_from: the id of the run that it was forked from, or None
        thread: the id of the conversation that it belongs to; None for the agent's own
        tokens: how many tokens its model calls took; a fork counts only its own
        usd: what they cost in US dollars, as far as their prices are known
        model_calls: how often a model was asked
        actions: how many calls of actions have started
        seconds: for how long processes worked on it
    """

    id: str
    kind: str
    agent: str
    task: str
    began: float
    changed: float
    entries: int
    state: str
    forked_from: str | None = None
    thread: str | None = None
    tokens: int = 0
    usd: float = 0.0
    model_calls: int = 0
    actions: int = 0
    seconds: float = 0.0

    @property
    def under_way(self) -> bool:
        """Whether a process works on it, even if that waits for a person."""
        return self.state in ("running", "waiting")

    def _repr_html_(self) -> str:
        return display.facts(
            {
                "run": self.id,
                "agent": f"{self.agent} ({self.kind})",
                "task": self.task,
                "state": self.state,
                "began": _moment(self.began),
                "changed": _moment(self.changed),
                "entries": self.entries,
                "tokens": self.tokens,
                "US dollars": f"{self.usd:.4g}",
                "forked from": self.forked_from,
            }
        )


class Outlines(list[Outline]):
    """The runs of a journal, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        rows = [
            (each.id, each.agent, each.task, each.state, _moment(each.changed), each.entries)
            for each in self
        ]
        return display.table(
            ("run", "agent", "task", "state", "changed", "entries"), rows, len(rows)
        )


@dataclass(frozen=True, slots=True)
class Sums:
    """What runs have spent together.

    Attributes:
        runs: how many runs
        tokens: as of an `Outline`, like those below
        usd: likewise
        model_calls: likewise
        actions: likewise
        seconds: likewise
    """

    runs: int = 0
    tokens: int = 0
    usd: float = 0.0
    model_calls: int = 0
    actions: int = 0
    seconds: float = 0.0


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).isoformat(" ", "seconds")


def copied(entries: Sequence[Entry], key: str) -> Iterator[dict[str, Any]]:
    """Yield the data of entries as it is in a copy of their run."""
    count: Counter[str] = Counter()
    messages: Counter[str] = Counter()
    for entry in entries:
        count[entry.path] += 1
        if entry.kind == "state":
            messages[entry.path] += len(entry.data["appended"].get("messages", ()))
    for entry in entries:
        if entry.kind != "begun":
            yield entry.data
            continue
        # The program that resumes the copy sets the fingerprint. The entry also says how far the
        # part is that of the other run, which memories and budgets know.
        path = entry.path
        other = {"key": f"{key}/{path}", "messages": messages[path], "entries": count[path]}
        before = entry.data.get("copied", [])
        yield {**entry.data, "fingerprint": None, "copied": [*before, other]}
