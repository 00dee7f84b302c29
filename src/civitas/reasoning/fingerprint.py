"""Fingerprints: what must be the same for a program to go on with a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from civitas.errors import RunMismatch
from civitas.jsonvalue import shorten
from civitas.reasoning.jsonform import as_json

__all__ = ["check", "check_kind", "fingerprint"]

_SHOWN = 80
"""A part that is no longer than this, as JSON, stands in the fingerprint as it is."""


def fingerprint(**parts: Any) -> dict[str, str]:
    """What a program does, by part: as JSON where that is short, else by its hash."""
    made = {}
    for name, value in parts.items():
        text = json.dumps(as_json(value), sort_keys=True, ensure_ascii=True)
        hashed = f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:32]}"
        made[name.replace("_", " ")] = text if len(text) <= _SHOWN else hashed
    return made


def check_kind(run_id: str, kind: str, begun: Mapping[str, Any]) -> None:
    """See that a run is one of this class of agents: no other can go on with it, nor with a copy.

    Raises:
        RunMismatch: it is one of another class
    """
    was = begun.get("kind")
    if was != kind:
        raise RunMismatch(run_id, ("agent",), f"it was a {was}, and is a {kind}")


def check(
    run_id: str, whose: str, recorded: Mapping[str, str] | None, now: Mapping[str, str]
) -> None:
    """See that a program is the one that began the run.

    Args:
        run_id: the run's id
        whose: which agent's it is
        recorded: the fingerprint that was recorded; None for whichever, in a copy of a run
        now: the program's

    Raises:
        RunMismatch: it is another one; the text names what differs
    """
    if recorded is None:
        return
    changed = tuple(name for name in now if name in recorded and recorded[name] != now[name])
    if changed:
        told = "; ".join(f"{name}: was {recorded[name]}, is {now[name]}" for name in changed)
        raise RunMismatch(run_id, changed, f"agent {whose!r}: {shorten(told, 500)}")
