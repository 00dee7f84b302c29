"""What is in doubt: actions that had begun when their process ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from civitas.journal.entry import Entry

__all__ = ["Doubt", "in_doubt", "to_decide"]


@dataclass(frozen=True, slots=True)
class Doubt:
    """An action that had begun, and of which nobody knows whether it took effect.

    Attributes:
        path: the part of the run that it belongs to
        iteration: which answer of the model called it
        call: which call of that answer, from 0
        action: its name
        args: its arguments
    """

    path: str
    iteration: int
    call: int
    action: str
    args: dict[str, Any]

    def __str__(self) -> str:
        from civitas.journal.file import as_text

        text = f"{self.action} {as_text(self.args)}"
        return text if len(text) <= 200 else f"{text[:199]}…"


def in_doubt(entries: Iterable[Entry]) -> list[Doubt]:
    """The actions that have a start and no end, and that nobody has decided about.

    One that is declared idempotent is none of them: it is simply executed again.
    """
    return [doubt for doubt, decided in _open(entries) if not decided]


def to_decide(entries: Iterable[Entry]) -> list[Doubt]:
    """Those, and the ones of which something was decided that is not carried out yet."""
    return [doubt for doubt, _ in _open(entries)]


def _open(entries: Iterable[Entry]) -> list[tuple[Doubt, bool]]:
    """The actions that have a start and no end, and whether somebody has decided about each."""
    open_: dict[tuple[str, int, int], tuple[Doubt, bool]] = {}
    for entry in entries:
        data = entry.data
        if entry.kind == "turned":
            # What was to be skipped is skipped by now.
            open_ = {key: each for key, each in open_.items() if key[0] != entry.path}
        if entry.kind not in ("started", "ended", "decided"):
            continue
        key = (entry.path, data["iteration"], data["call"])
        before = open_.pop(key, None)
        if entry.kind == "started" and not data["idempotent"]:
            open_[key] = Doubt(*key, data["action"], data["args"]), False
        elif entry.kind == "decided" and before is not None:
            open_[key] = before[0], True
    return list(open_.values())
