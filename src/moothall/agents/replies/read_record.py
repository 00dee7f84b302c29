"""Reads the record of one agent's part of a run, and fingerprints the program that wrote it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast

from moothall.actions.approval.decision import DECISION_ENTRIES, DECISION_KINDS, Decision
from moothall.agents.replies.checked_parts import is_recording
from moothall.agents.replies.state import APPENDED, UNSAVED, load_state
from moothall.foundation.errors import RunMismatch, StateError
from moothall.foundation.jsonvalue import as_json
from moothall.foundation.text import shorten
from moothall.journal.entry import ROOT
from moothall.journal.kinds.run_kinds import run_kind
from moothall.journal.stop_reason import FINAL_REASONS
from moothall.journal.store.wait_rows import ANSWER_ENTRY, WAIT_ENTRY, WaitOutcome, is_wait_of
from moothall.journal.wait_kinds import DECISIONS, DoubtDecision

if TYPE_CHECKING:
    from moothall.journal import Entry

_SORTED_JSON: Final = json.JSONEncoder(sort_keys=True)
_MAX_PART_CHARS = 80
"""A part that is no longer than this, as JSON, stands in the fingerprint as it is."""
_MEMBERS = "members"
_STEP_KINDS: Final = (
    "started",
    "ended",
    "failed",
    *DECISION_ENTRIES,
    "decided",
    WAIT_ENTRY,
    ANSWER_ENTRY,
)
"""The kinds of entries about a step."""

S = TypeVar("S")
T = TypeVar("T")


@dataclass(slots=True)
class PastStep:
    """The earlier record of a step."""

    key: str
    state: str = ""  # `permitted`, `waits`, `started`, `ended` or `failed`
    about: dict[str, Any] = field(default_factory=dict)  # what the orchestrator recorded besides
    args: Any = None  # the arguments with which it began
    asks_person: bool = False  # whether a person decides if it had begun and not ended
    result: Any = None  # its result, as JSON data
    error: str = ""  # why it failed
    decided_on: str | None = None  # the fingerprint of the request that a person decided about
    permission: Decision = True  # how: `Always()` permitted it for the whole thread
    allowed: list[str] = field(default_factory=list)  # the values from outside that this permitted
    proposed: str | None = None  # that of the request as it was made, if a person changed it
    changed_args: dict[str, Any] | None = None  # the arguments with which it was permitted then
    original_args: dict[str, Any] | None = None  # the arguments that these replace
    decision: DoubtDecision | None = None  # what a person decided
    value: Any = None  # what that decision states, such as the result
    result_hash: str | None = None  # the hash of the result, if that is bytes
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)  # what it waits for, by key
    answers: dict[str, WaitOutcome] = field(default_factory=dict)  # what came of that

    @property
    def has_begun(self) -> bool:
        """Return whether it has had an effect, or may have: a call that only asked has none."""
        return self.args is not None or self.state in ("started", "ended", "failed")

    @property
    def in_doubt(self) -> bool:
        """Return whether it had begun and not ended, and a person has still to decide."""
        return self.state == "started" and self.asks_person and self.decision is None

    @property
    def wait_key(self) -> str | None:
        """Return the key of what it has asked for last, if it has not gone on since."""
        return next(reversed(self.requests), None) if self.state == WAIT_ENTRY else None

    @property
    def later_key(self) -> str | None:
        """Return the key of the result or moment that it waits for; None if it waits for none."""
        last = self.wait_key
        return last if last and self.requests[last]["kind"] in ("result", "moment") else None

    def is_charged(self, resumes: bool) -> bool:
        """Return whether its call is charged already; `resumes`: one that was cut off goes on."""
        return self.is_over or (self.args is not None and (resumes or self.state == WAIT_ENTRY))

    @property
    def is_decided(self) -> bool:
        """Return whether it had begun and not ended, and is not to be called again."""
        has_no_end = self.state == "started" and self.asks_person
        return has_no_end and (self.decision is None or self.decision.is_final)

    @property
    def is_skipped(self) -> bool:
        """Return whether a person decided that it is not called again, and stated no result."""
        return self.decision is not None and bool(self.decision.error)

    @property
    def is_over(self) -> bool:
        """Return whether its call is not made again: it has ended, or its result comes later."""
        return self.state == "ended" or self.is_decided or self.later_key is not None


class RunResult(Protocol):
    """The result of a run, which says why it stopped: `"done"`, or another stop reason."""

    @property
    def stop_reason(self) -> str:
        """Return the stop reason."""


class ReadRecord(Generic[S]):
    """The record of one agent's part of a run, as it was read."""

    run_id: str = ""
    """The id of the run."""

    def __init__(self, run_id: str, entries: list[Entry], kind: type[S]) -> None:
        self.run_id = run_id
        self._entries = entries
        self.past_steps: dict[str, PastStep] = {}
        metadata = {each.name: each.metadata for each in fields(cast(Any, kind))}
        self._scalars = [
            name for name, options in metadata.items() if options not in (APPENDED, UNSAVED)
        ]
        # How many items of each append-only list are recorded.
        self._counts = {name: 0 for name, options in metadata.items() if options == APPENDED}
        # The start entries of the turns that members record in their own parts, by part.
        self.members: dict[str, dict[str, Any]] = {}
        self.start: dict[str, Any] | None = None  # what the part began with; None if it is new
        self._end: dict[str, Any] | None = None
        self.received: list[Any] = []  # from outside since the last state, in order
        state: dict[str, Any] | None = None
        for entry in entries:
            if entry.kind != "begun":  # a fork begins anew, also what has ended
                self._end = None
            state = self._take_entry(entry, state)
        self.state: S | None = None  # the last that was saved
        if state is not None:
            self.state = load_state(kind, state, f"run {run_id!r}")
            self._counts = {name: len(getattr(self.state, name)) for name in self._counts}

    # -- what was recorded -------------------------------------------------------------------------

    @staticmethod
    def read(run_id: str, entries: Iterable[Entry], kind: type[T]) -> ReadRecord[T]:
        """Return the record of a run's own agent, which is only read.

        Args:
            run_id: the run's id
            entries: those of the run, as `journal.entries` returns them
            kind: the dataclass of its state

        Raises:
            StateError: it has no such state, or a newer moothall recorded it
        """
        return ReadRecord(run_id, [each for each in entries if each.path == ROOT], kind)

    @staticmethod
    def fingerprint(**parts: Any) -> dict[str, str]:
        """Return a program's parts by name, as a record compares them: as JSON, or its hash."""
        texts = {}
        for name, value in parts.items():
            try:
                text = _SORTED_JSON.encode(value)  # as nearly all parts are JSON data
            except (TypeError, ValueError, RecursionError):
                text = _SORTED_JSON.encode(as_json(value))
            if len(text) > _MAX_PART_CHARS:
                text = f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:32]}"
                if name == "actions" and isinstance(value, list):  # for who reads what has changed
                    text += f" {_SORTED_JSON.encode([each[0] for each in value])}"
            texts[name.replace("_", " ")] = text
        return texts

    @property
    def over(self) -> dict[str, Any] | None:
        """Return how the part ended or stopped, also to wait; None before, or if it went on."""
        return self._end

    @property
    def is_over(self) -> bool:
        """Return whether the part has ended for good: one that waits or was cancelled goes on."""
        return self._end is not None and self._end["reason"] in FINAL_REASONS

    def past(self, prefix: str = "") -> list[PastStep]:
        """Return the recorded steps whose keys have this prefix, in the order of their start."""
        return [past for key, past in self.past_steps.items() if key.startswith(prefix)]

    def find(self, key: str) -> PastStep | None:
        """Return the recorded step of this key, or None."""
        return self.past_steps.get(key)

    def has_ended(self, key: str) -> bool:
        """Return whether a step has a recorded result."""
        past = self.past_steps.get(key)
        return past is not None and past.state == "ended"

    def entries(self) -> list[Entry]:
        """Return the recorded entries."""
        return self._entries

    def check(self, kind: str, agent: str, program: Mapping[str, Any]) -> None:
        """Raise RunMismatch if the program is not the one that began the run."""
        start, parts = self.start, dict[str, None]()
        if start is None or (start["kind"] == kind and start["fingerprint"] is None):
            return
        detail = f"it was a {start['kind']}, and is a {kind}"
        if start["kind"] == kind:
            changes = _changes(agent, start["fingerprint"], program)
            parts = dict.fromkeys(name for names in changes.values() for name in names)
            detail = "; ".join(
                f"agent {id!r}: " + "; ".join(f"{name}: {text}" for name, text in names.items())
                for id, names in changes.items()
            )
        if detail:
            fork = f"use another run_id, or go on with a fork: journal.fork({self.run_id!r})"
            hint = fork if run_kind(start["kind"]) is None else ""  # no agent resumes it
            raise RunMismatch(self.run_id, (*parts,) or ("agent",), shorten(detail, 500), hint)

    @property
    def copied(self) -> list[dict[str, Any]]:
        """Return, for a fork, the runs it copied, with their `key` and how much was copied."""
        copied: list[dict[str, Any]] = (self.start or {}).get("copied", [])
        return copied

    @property
    def inherited_count(self) -> int:
        """Return how many entries are of the run it copied, or of the program before this one."""
        count: int = (self.start or {}).get("handed_over", {}).get("entries", 0)
        return max(count, self.copied[-1]["entries"] if self.copied else 0)

    def _earlier_items(self, name: str) -> list[Any]:
        """Return what a list had before the run; nothing in a record that is only read."""
        return []

    def _take_entry(self, entry: Entry, state: dict[str, Any] | None) -> dict[str, Any] | None:
        kind, data = entry.kind, entry.data
        if kind == "state":
            merged: dict[str, Any] = {**(state or {}), **data["state"]}
            for name, items in data["appended"].items():
                merged.setdefault(name, []).extend(items)  # a list of its own
            for name, recorded in data.get("earlier", {}).items():
                merged[name] = [*self._earlier_items(recorded), *merged.get(name, ())]
            self.received = []
            return merged
        if kind == "begun":
            if "handed_over" in data:
                self._ask_anew(data["handed_over"]["withdrawn"])
            self.start = data
        elif kind == "heard":
            self.received.append(data)
        elif kind == "over":
            self._end = data
        elif "part" in data:
            self.members[data["part"]] = data
        elif kind in _STEP_KINDS:
            self.take_step(kind, data, entry.at)
        else:
            raise StateError(
                f"entry {entry.sequence} of run {self.run_id!r} is of the kind {kind!r:.80}, which "
                "this moothall does not know: resume it with the program that wrote it"
            )
        return state

    def _ask_anew(self, withdrawn: Iterable[str]) -> None:
        """Forget what a person has permitted a former program that has not ended, or was parked."""
        for past_step in self.past_steps.values():
            if past_step.state != "ended" and past_step.later_key is None:
                past_step.decided_on = past_step.proposed = past_step.changed_args = None
                for wait in withdrawn:
                    past_step.requests.pop(wait, None)
                    past_step.answers.pop(wait, None)

    def take_step(self, kind: str, data: dict[str, Any], at: float) -> None:
        """Take what was recorded of a step."""
        past_step = self.past_steps.setdefault(data["key"], PastStep(data["key"]))
        if kind in DECISION_ENTRIES:
            past_step.decided_on, past_step.proposed = data["fingerprint"], data.get("proposed")
            past_step.changed_args, past_step.original_args = data.get("args"), data.get("was")
            past_step.permission = DECISION_KINDS.read_entry(data)
            past_step.state = past_step.state or kind
            return
        if kind == "decided":
            past_step.decision = DECISIONS.get(data["decision"])
            past_step.value = data.get("value")
            return
        if kind == WAIT_ENTRY:
            past_step.state = kind
            if not is_wait_of(self.run_id, data):
                return
            since = past_step.requests.get(data["wait"], {}).get("since", at)
            request = {name: each for name, each in data.items() if name != "charged"}
            past_step.requests[data["wait"]] = {**request, "since": since}
            return
        if kind == ANSWER_ENTRY:
            answer = (data.get("value"), data.get("by"), at, data.get("expired", False))
            past_step.answers[data["wait"]] = WaitOutcome(*answer, tuple(data.get("sources", ())))
            return
        past_step.state = kind
        past_step.about = data.get("about", past_step.about)
        past_step.allowed = data.get("allowed", past_step.allowed)
        if kind == "started":
            past_step.args, past_step.asks_person = data.get("args"), data.get("asks", False)
            past_step.decision = None
        elif kind == "ended":
            past_step.result, past_step.result_hash = data.get("result"), data.get("kept")
        else:
            past_step.error = data["error"]


def group_program(members: Iterable[Any], **parts: Any) -> dict[str, Any]:
    """Return the fingerprint of a group, with those of its members."""
    programs = []
    for member in members:
        id = str(member.id)
        type_only = ReadRecord.fingerprint(agent=[type(member).__qualname__, id])
        program = member.describe_program() if is_recording(member) else type_only
        programs.append([id, program])
    return {**ReadRecord.fingerprint(**parts), _MEMBERS: programs}


def _change(old: str, new: str) -> str:
    """Return how a part has changed, in words; empty if it has not."""
    if not isinstance(old, str):  # a record that others wrote
        return f"was {old!r:.80}, is {new}"
    if old == new:
        return ""
    before, now = _action_names(old), _action_names(new)
    is_hash = old.startswith("sha256:") or new.startswith("sha256:")
    if before is None or now is None or not is_hash:
        return f"was {old}, is {new}"
    names = [f"{each} is gone" for each in before if each not in now]
    names += [f"{each} is new" for each in now if each not in before]
    return ", ".join(names) or "the description or the arguments of one of them"


def _action_names(text: str) -> list[str] | None:
    """Return the names in the fingerprint of actions; None if it is another part."""
    _, space, names = text.partition(" ")
    items = json.loads(names if space else "0") if text.startswith("sha256:") else json.loads(text)
    if not isinstance(items, list) or [] in items:
        return None
    return [each[0] if isinstance(each, list) else each for each in items]


def _changes(
    agent: str, recorded: Mapping[str, Any], current: Mapping[str, Any]
) -> dict[str, dict[str, str]]:
    """Return the changed parts of an agent and its members, by id, of the parts that both have."""
    agent_changes = {
        name: change
        for name, text in current.items()
        if name != _MEMBERS and name in recorded and (change := _change(recorded[name], text))
    }
    changes = {agent: agent_changes} if agent_changes else {}
    # The group's own parts say which members it has, and in which role.
    pairs = zip(recorded.get(_MEMBERS, ()), current.get(_MEMBERS, ()), strict=False)
    for (old_id, old_program), (id, program) in pairs:
        if old_id == id:
            for member_id, names in _changes(id, old_program, program).items():
                changes[member_id] = changes.get(member_id, {}) | names
    return changes
