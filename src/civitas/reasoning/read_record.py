"""What was recorded of one agent's part of a run, and the fingerprint of the program that did."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from civitas.errors import RunMismatch, StateError
from civitas.jsonvalue import as_json
from civitas.reasoning.state import APPENDED, LIVE, loaded
from civitas.reasoning.step import Past
from civitas.text import shorten

if TYPE_CHECKING:
    from civitas.journal import Entry
    from civitas.journal.run import RecordedPart

_SHOWN = 80
"""A part that is no longer than this, as JSON, stands in the fingerprint as it is."""
_MEMBERS = "members"

S = TypeVar("S")


class ReadRecord(Generic[S]):
    """What was recorded of one agent's part of a run.

    Attributes:
        state: the last state that was saved, or None
        begun: what the part began with, or None if it is new
        over: why it ended, if it did and nothing came after it
        heard: what was heard since the last state, in order
        members: what is known of the turns that others record in parts of their own, by part
    """

    def __init__(self, part: RecordedPart, kind: type[S]) -> None:
        self._read = part
        self._steps: dict[str, Past] = {}
        metadata = {each.name: each.metadata for each in fields(cast(Any, kind))}
        self._scalars = [name for name, how in metadata.items() if how not in (APPENDED, LIVE)]
        # How many items of each list are recorded.
        self._written = {name: 0 for name, how in metadata.items() if how == APPENDED}
        self.members: dict[str, dict[str, Any]] = {}
        self.begun: dict[str, Any] | None = None
        self.over: dict[str, Any] | None = None
        self.heard: list[Any] = []
        state: dict[str, Any] | None = None
        for entry in part.past:
            self.over = None
            try:
                state = self._take(entry, state)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise StateError(
                    f"run {part.run_id!r} was recorded by an older civitas, or is damaged: entry "
                    f"{entry.sequence} ({entry.kind}) is not one that this civitas writes "
                    f"({type(error).__name__}: {error}). Resume it with that civitas, or begin "
                    "another run"
                ) from error
        self.state: S | None = None
        if state is not None:
            self.state = loaded(kind, state, f"run {part.run_id!r}")
            self._written = {name: len(getattr(self.state, name)) for name in self._written}

    # -- what was recorded -------------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._read.run_id

    def past(self, prefix: str = "") -> list[Past]:
        """What was recorded of the steps whose keys begin so, in the order in which they began."""
        return [past for key, past in self._steps.items() if key.startswith(prefix)]

    def has_ended(self, key: str) -> bool:
        """Whether a step had ended before."""
        past = self._steps.get(key)
        return past is not None and past.state == "ended"

    def entries(self) -> list[Entry]:
        """What was recorded before, entry by entry."""
        return self._read.past

    @property
    def copied(self) -> list[dict[str, Any]]:
        """Of a copy: the runs before it, with their `key`, and how much of them was copied."""
        copied: list[dict[str, Any]] = (self.begun or {}).get("copied", [])
        return copied

    def _take(self, entry: Entry, state: dict[str, Any] | None) -> dict[str, Any] | None:
        kind, data = entry.kind, entry.data
        if kind == "state":
            made: dict[str, Any] = {**(state or {}), **data["state"]}
            for name, items in data["appended"].items():
                kept = (state or {}).get(name)
                made[name] = items if kept is None else [*kept, *items]
            self.heard = []
            return made
        if kind == "begun":
            self.begun = data
        elif kind == "heard":
            self.heard.append(data)
        elif kind == "over":
            self.over = data
        elif "part" in data:
            self.members[data["part"]] = data
        else:
            self._take_step(kind, data)
        return state

    def _take_step(self, kind: str, data: dict[str, Any]) -> None:
        past = self._steps.setdefault(data["key"], Past(data["key"]))
        if kind == "permitted":
            past.permitted = data["fingerprint"]
            past.state = past.state or kind
            return
        if kind == "decided":
            past.decision, past.value = data["decision"], data.get("value")
            return
        past.state = kind
        past.about = data.get("about", past.about)
        if kind == "started":
            past.args, past.asks = data.get("args"), data.get("asks", False)
            past.decision = None
        elif kind == "ended":
            past.result, past.kept = data.get("result"), data.get("kept")
        else:
            past.error = data["error"]


def fingerprint(**parts: Any) -> dict[str, str]:
    """What a program does, by part: as JSON where that is short, else by its hash."""
    made = {}
    for name, value in parts.items():
        text = json.dumps(as_json(value), sort_keys=True, ensure_ascii=True)
        hashed = f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:32]}"
        made[name.replace("_", " ")] = text if len(text) <= _SHOWN else hashed
    return made


def of_group(members: Iterable[Any], **parts: Any) -> dict[str, Any]:
    """What a group does, by part, and what each of its members does."""
    programs = [[str(member.id), _of_member(member)] for member in members]
    return {**fingerprint(**parts), _MEMBERS: programs}


def _of_member(member: Any) -> dict[str, Any]:
    """What a member does, by part; of one that keeps no record, its class and its id."""
    if getattr(member, "_records", False):
        program: dict[str, Any] = member._program()
        return program
    return fingerprint(agent=[type(member).__qualname__, str(member.id)])


def check(
    run_id: str, begun: Mapping[str, Any], kind: str, agent: str, program: Mapping[str, Any]
) -> None:
    """See that a program is the one that began the run."""
    changed: Iterable[str]
    if begun["kind"] != kind:
        changed, told = ["agent"], f"it was a {begun['kind']}, and is a {kind}"
    elif begun["fingerprint"] is None:
        return
    elif changes := _changes(agent, begun["fingerprint"], program):
        changed = dict.fromkeys(name for names in changes.values() for name in names)
        told = "; ".join(
            f"agent {of!r}: " + "; ".join(f"{name}: {text}" for name, text in names.items())
            for of, names in changes.items()
        )
    else:
        return
    raise RunMismatch(run_id, tuple(changed), shorten(told, 500))


def _changes(
    whose: str, recorded: Mapping[str, Any], now: Mapping[str, Any]
) -> dict[str, dict[str, str]]:
    """What differs, by part, of an agent and of its members; only of those of whom something does.

    What only one of the two knows of was written by another civitas, and says nothing.
    """
    own = {
        name: f"was {recorded[name]}, is {text}"
        for name, text in now.items()
        if name != _MEMBERS and name in recorded and recorded[name] != text
    }
    changes = {whose: own} if own else {}
    # Who is a member, and as what, is a part of the group's own.
    pairs = zip(recorded.get(_MEMBERS, ()), now.get(_MEMBERS, ()), strict=False)
    for (was, was_program), (id, program) in pairs:
        if was == id:
            for of, names in _changes(id, was_program, program).items():
                changes[of] = changes.get(of, {}) | names
    return changes
