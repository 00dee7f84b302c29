"""What is in doubt: actions that had begun when their process ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from civitas.journal.entry import Entry

__all__ = ["Doubt", "in_doubt"]


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
    open_: dict[tuple[str, int, int], Doubt] = {}
    for entry in entries:
        if entry.kind not in ("started", "ended", "decided"):
            continue
        data = entry.data
        key = (entry.path, data["iteration"], data["call"])
        open_.pop(key, None)
        if entry.kind == "started" and not data["idempotent"]:
            open_[key] = Doubt(*key, data["action"], data["args"])
    return list(open_.values())
