"""What an approver decides: permitted, or refused, perhaps with a reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from civitas.errors import NotPermitted
from civitas.text import printable


@dataclass(frozen=True, slots=True)
class Refused:
    """A refusal with a reason, given in place of False; who asked, such as a model, is told it.

    Attributes:
        reason: why, in words
    """

    reason: str

    def __bool__(self) -> bool:
        return False


Decision: TypeAlias = bool | Refused
"""What an approver decides: True permits; anything else refuses."""


def not_permitted(where: str, decision: object) -> NotPermitted:
    """The error of a call that somebody did not permit."""
    why = f": {printable(decision.reason)}" if isinstance(decision, Refused) else ""
    return NotPermitted(f'"{where}" not permitted{why}')
