"""The contents of a journal: entries, in order, and an outline of each run."""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moothall.actions.approval.decision import DECISION_ENTRIES
from moothall.actions.provenance import Origin
from moothall.foundation.errors import JournalError, NoSuchRun, StateError
from moothall.foundation.text.arrays import data_frame
from moothall.foundation.text.display import SafeHTML
from moothall.journal.attributes import RecordedAttributes
from moothall.journal.describe import entry_line, origins_in
from moothall.journal.kinds.run_kinds import run_kind
from moothall.journal.stop_reason import PARKED_STATES
from moothall.journal.tally import (
    SUM_COLUMNS,
    SpentSums,
    StepSpending,
    fault_in,
    is_refused,
    spending_in,
    subject_in,
)
from moothall.journal.wait_kinds import moment_text

if TYPE_CHECKING:
    from pandas import DataFrame

ROOT = ""
"""The path of a run's own part."""


class RunDamaged(JournalError):
    """What a journal has of a run is not what was written; its other runs can be used."""


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

    @classmethod
    def end_of(cls, entries: Sequence[Entry], path: str = "") -> Entry | None:
        """Return how a part of a run ended; None if it has not, or something was done after it."""
        last = next((each for each in reversed(entries) if each.path == path), None)
        return last if last is not None and last.kind == "over" else None

    @property
    def line(self) -> str:
        """What happened, in one line of plain words."""
        return entry_line(self.kind, self.data)

    @property
    def subject(self) -> dict[str, Any]:
        """What its step is about, such as `{"action": "pay"}` or `{"model": "gpt-5"}`."""
        return subject_in(self.data)

    @property
    def spent(self) -> StepSpending | None:
        """What a call of a model, or a member's reply, has used; None for anything else."""
        return spending_in(self.kind, self.data)

    @property
    def fault(self) -> str:
        """What went wrong in a step; empty if nothing did, or if the call was refused."""
        return fault_in(self.kind, self.data)

    @property
    def is_refused(self) -> bool:
        """Whether it is the end of a call that was not permitted."""
        return is_refused(self.subject.get("action"), self.data.get("result"))

    @property
    def origins(self) -> dict[str, list[Origin]]:
        """Where the values of a call's arguments came from, by parameter, once it has ended."""
        return origins_in(self.data.get("result"))[0]

    @property
    def sources(self) -> list[str]:
        """The sources outside, such as pages, that a call's result came from."""
        return origins_in(self.data.get("result"))[1]

    @property
    def part(self) -> str | None:
        """The path of the part that a member's turn begins; None for anything else."""
        name = self.data.get("part")
        return subpath(self.path, name) if self.kind == "started" and type(name) is str else None

    @property
    def key(self) -> str:
        """The key of the step that it is of, such as `1.plan`; empty for anything else."""
        return str(self.data.get("key", ""))

    @property
    def starts_step(self) -> bool:
        """Whether it is the start of a step; one that was cut off may start again."""
        return self.kind == "started"

    @property
    def ends_step(self) -> bool:
        """Whether it is the end of a step: its result, or its failure."""
        return self.kind in ("ended", "failed")

    @property
    def decides_doubt(self) -> bool:
        """Whether a person has decided about a call in doubt by it, or to resume the run."""
        return self.kind == "decided"

    @property
    def is_decision(self) -> bool:
        """Whether somebody has permitted or refused a call by it."""
        return self.kind in DECISION_ENTRIES

    @property
    def args(self) -> Any:
        """The arguments with which its step starts; None for anything else."""
        return self.data.get("args") if self.starts_step else None

    @property
    def result(self) -> Any:
        """What its step ended with, or why it failed; None for anything else."""
        return self.data.get("result", self.data.get("error")) if self.ends_step else None

    @property
    def charged(self) -> dict[str, Any] | None:
        """What budgets were charged for its step, such as `tokens` and `usd`; None if nothing."""
        return self.data.get("charged")

    @property
    def state(self) -> dict[str, Any] | None:
        """The state that a part has saved, without its lists that only grow; None if it is none."""
        return self.data["state"] if self.kind == "state" else None

    @property
    def added(self) -> dict[str, list[Any]]:
        """What the saved state has added to lists that only grow, by their names."""
        return self.data["appended"] if self.kind == "state" else {}

    @property
    def reason(self) -> str | None:
        """For what reason a part ended or stopped, such as `done`; None for anything else."""
        return str(self.data.get("reason")) if self.kind == "over" else None

    @property
    def detail(self) -> str:
        """Why a part ended, in words; empty if its reason says it all."""
        return str(self.data.get("detail") or "") if self.kind == "over" else ""

    @property
    def text(self) -> str:
        """What a part replied at its end; empty for anything else."""
        text = self.data.get("text") if self.kind == "over" else None
        return text if isinstance(text, str) else ""

    @property
    def shown_data(self) -> dict[str, Any]:
        """Its data without the prompt of a model, which `RunView.prompt` has whole."""
        return {name: each for name, each in self.data.items() if name != "prompt"}

    @staticmethod
    def state_in(entries: Iterable[Entry], path: str = "") -> dict[str, Any] | None:
        """Return the state that a part of a run has saved last, as JSON data; None without one.

        Of lists that only grow, it has what the part itself has added.
        """
        state: dict[str, Any] | None = None
        for data in (each.data for each in entries if each.kind == "state" and each.path == path):
            state = {**(state or {}), **data["state"]}
            for name, items in data["appended"].items():
                state.setdefault(name, []).extend(items)
        return state


def subpath(path: str, name: str) -> str:
    """Return the path of a part; a slash in an id is quoted, so that no two parts share a path."""
    turn, slash, id = name.partition("/")
    name = f"{turn}{slash}{id.replace('%', '%25').replace('/', '%2F')}"
    return f"{path}/{name}" if path else name


def parts_of(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Return the entries of each part of a run, by its path."""
    parts: dict[str, list[Entry]] = {}
    for entry in entries:
        parts.setdefault(entry.path, []).append(entry)
    return parts


MAX_FIRST_ENTRIES: Final = 8
"""Among so many entries is the beginning of a run's own part."""


def begin_data_of(entries: Iterable[Entry]) -> dict[str, Any] | None:
    """Return what a run's own part began with; None before it has."""
    return next((each.data for each in entries if not each.path and each.kind == "begun"), None)


@dataclass(frozen=True, slots=True)
class Outline(SpentSums, RecordedAttributes):
    """One run of a journal, in short.

    Attributes:
        id: the run's id
        kind: the class of its agent, such as `ReActAgent`
        agent: the id of its agent
        task: the beginning of the text that it was asked; the first entry of the run's own agent
            has the whole text
        began: when, in seconds since 1970
        changed: when the last entry was written, likewise
        entries: how many there are
        state: `running` while a process works on it; `waiting` while that waits for a person, or
            while the run waits in the journal for an answer, a result or a moment; `in_doubt` if it
            was cut off during an action, so that a person has to decide; `stopped` if its process
            ended otherwise and recorded no end; `mismatch` if it could go on, but for its program,
            which has changed; else the reason for which the run ended, such as `done`
        detail: why, if it ended by an error: the beginning of what `Reply.detail` says; else empty
        forked_from: the id of the run that it was forked from, or None
        thread: the id of the conversation that it belongs to; None for the agent's own
        seconds: for how long processes worked on it
        held: whether a process works on it, even if that waits for a person
        sorts: by what `Journal.runs` sorts
        cut_off: the states of runs whose process has ended
        parked: the states of runs that go on by themselves once they can

    Its tags, and what else the caller says of it, are those of `RecordedAttributes`. What it has
    spent is that of `SpentSums`: `tokens` (a fork counts only its own), `usd`, as far as prices are
    known, `model_calls`, the `actions` that have started, and `errors`.
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
    seconds: float = 0.0
    held: bool = False
    detail: str = ""

    sorts: ClassVar[tuple[str, ...]] = ("began", "changed", "seconds", *SUM_COLUMNS, "entries")
    cut_off: ClassVar[tuple[str, ...]] = ("stopped", "in_doubt")
    parked: ClassVar[tuple[str, ...]] = PARKED_STATES

    @property
    def is_ours(self) -> bool:
        """Whether a class of moothall writes its record, and not a program's own orchestrator."""
        return run_kind(self.kind) is not None

    @property
    def under_way(self) -> bool:
        """Whether a process works on it, even if that waits for a person."""
        return self.state == "running" or self.held

    def _repr_html_(self) -> str:
        return SafeHTML.facts(
            {
                "run": self.id,
                "agent": f"{self.agent} ({self.kind})",
                "task": self.task,
                "state": self.state,
                "began": moment_text(self.began),
                "changed": moment_text(self.changed),
                "entries": self.entries,
                "tokens": self.tokens,
                "US dollars": f"{self.usd:.4g}",
                "forked from": self.forked_from,
            }
            | self.attributes_in_words()
        )


class Outlines(list[Outline]):
    """The runs of a journal, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        rows = [
            (each.id, each.agent, each.task, each.state, moment_text(each.changed), each.entries)
            for each in self
        ]
        return SafeHTML.table(
            ("run", "agent", "task", "state", "changed", "entries"), rows, len(rows)
        )

    def to_pandas(self) -> DataFrame:
        """Return them as a data frame of pandas, in which `began` and `changed` are times in UTC.

        Raises:
            MissingExtra: pandas is not installed
        """
        names = tuple(each.name for each in fields(Outline))
        rows = [[getattr(run, name) for name in names] for run in self]
        return data_frame("Outlines.to_pandas()", rows, names, moments=("began", "changed"))


@dataclass(frozen=True, slots=True)
class Sums(SpentSums):
    """What runs have spent together.

    Attributes:
        runs: how many runs
        seconds: for how long processes worked on them

    The others, such as `tokens` and `usd`, add up those of each `Outline`.
    """

    runs: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, row: Iterable[Any]) -> Sums:
        """Return the sums in a row: the number of runs, what is added up, and the seconds."""
        return cls(**dict(zip(("runs", *SUM_COLUMNS, "seconds"), row, strict=True)))


def outlines_of_kind(
    kind: str, outline_of: Callable[[str], Outline], ids: Iterable[str]
) -> list[Outline]:
    """Return the outlines of runs of a kind, without those that were deleted since."""
    outlines = list[Outline]()
    for id in dict.fromkeys(ids):
        with suppress(NoSuchRun):
            outlines.append(outline_of(id))
    return [run for run in outlines if run.kind == kind]


def rekeyed_data(entries: Sequence[Entry], key: str) -> Iterator[dict[str, Any]]:
    """Yield the data that the entries have in a copy of their run."""
    entry_counts: Counter[str] = Counter()
    message_counts: Counter[str] = Counter()
    for entry in entries:
        entry_counts[entry.path] += 1
        if entry.kind == "state":
            message_counts[entry.path] += len(entry.data["appended"].get("messages", ()))
    for entry in entries:
        if entry.kind != "begun":
            yield entry.data
            continue
        # The program that resumes the copy sets the fingerprint. The entry also says how much of
        # the part is copied: memories and budgets know that much by the other run's key.
        path = entry.path
        copied_part = {
            "key": f"{key}/{path}",
            "messages": message_counts[path],
            "entries": entry_counts[path],
        }
        units = ("messages", "entries")
        earlier_parts = [
            {**each, **{unit: min(each[unit], copied_part[unit]) for unit in units}}
            for each in entry.data.get("copied", ())
        ]
        yield {**entry.data, "fingerprint": None, "copied": [*earlier_parts, copied_part]}


def read_list(name: str, read_value: Callable[[str], bytes]) -> list[Any]:
    """Return a list that `keep_list` has kept; `read_value` returns a value by its hash."""
    levels, _, hash = name.partition(":")
    hashes = [hash]
    for _ in range(int(levels)):
        groups = [read_value(each).hex() for each in hashes]
        hashes = [each[at : at + 64] for each in groups for at in range(0, len(each), 64)]
    return [json.loads(read_value(each)) for each in hashes]


def reply_of(run_id: str, entries: Sequence[Entry]) -> Any:
    """Return the reply of a run, rebuilt from its entries; StateError before its end."""
    if (end := Entry.end_of(entries)) is None:
        raise StateError(
            f"run {run_id!r} has not ended: call its agent with this run_id to resume it"
        )
    start = begin_data_of(entries) or {}
    kind = run_kind(start.get("kind"))
    if kind is not None and kind.replay_module:
        return importlib.import_module(kind.replay_module).replayed_reply(run_id, entries)
    return {"begun": start, "state": Entry.state_in(entries) or {}, "over": end.data}
