"""Fingerprints: what must be the same for a program to go on with a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from civitas.errors import RunMismatch
from civitas.jsonvalue import shorten
from civitas.reasoning.prompts import as_json

_SHOWN = 80
"""A part that is no longer than this, as JSON, stands in the fingerprint as it is."""
_MEMBERS = "members"


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


def check_kind(run_id: str, kind: str, begun: Mapping[str, Any]) -> None:
    """Refuse a run of another class of agents: it cannot go on with it, nor with a copy."""
    was = begun.get("kind")
    if was != kind:
        raise RunMismatch(run_id, ("agent",), f"it was a {was}, and is a {kind}")


def check(
    run_id: str, whose: str, recorded: Mapping[str, Any] | None, now: Mapping[str, Any]
) -> None:
    """See that a program is the one that began the run."""
    if recorded is None:
        return
    changes = _changes(whose, recorded, now)
    if changes:
        changed = dict.fromkeys(name for names in changes.values() for name in names)
        told = "; ".join(
            f"agent {of!r}: " + "; ".join(f"{name}: {text}" for name, text in names.items())
            for of, names in changes.items()
        )
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
