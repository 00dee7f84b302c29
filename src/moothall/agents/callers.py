"""What stands behind a caller from outside: who pays, who is asked, who hears of progress."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from moothall.actions.approval import Question
    from moothall.budget import Budget

T = TypeVar("T")

PAYERS: Final[dict[str, Budget]] = {}
"""The budgets of callers from outside, by the id of the message with which each came in."""
ASKERS: Final[dict[str, Callable[[Question], Awaitable[str]]]] = {}
"""What asks a person behind such a caller a question, by the id of that message."""
HEARERS: Final[dict[str, Callable[[str], None]]] = {}
"""What is told the progress of an action, by the id of the message that calls it."""
HEARD: Final[ContextVar[Callable[[dict[str, Any]], None] | None]] = ContextVar(
    "moothall_heard", default=None
)
"""What takes the pieces that the handler of a request made in this context streams."""


def of_chain(known: Mapping[str, T], handling: Any) -> T | None:
    """Return what is known of a message, or of the nearest one whose handling led to it."""
    while handling is not None:
        if (found := known.get(handling.envelope.id or "")) is not None:
            return found
        handling = handling.parent
    return None
