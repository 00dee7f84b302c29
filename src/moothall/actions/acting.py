"""What is carried out in a context: a tool call, its time, and what it is permitted for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Protocol

ReadValue = tuple[Any, tuple[str, ...]]
"""What was read beside a call, None for anything, and its sources."""


class OpenReading(Protocol):
    """A tool call, which may ask agents that have read something from outside."""

    name: str
    foreign: dict[str, Any]
    has_started: bool
    read: tuple[str, ...]
    adrift_reads: tuple[ReadValue, ...]
    late: Callable[[Sequence[str]], None] | None  # once it has ended, told what its work reads


@dataclass(slots=True, eq=False)
class Acting:
    """What is carried out in a context."""

    # The tool call, or turn: an agent that it asks adds the outside sources that it has read.
    reading: OpenReading | None = None
    # The seconds of the calls that are under way, which stand still while this is entered.
    limit: AbstractContextManager[None] | None = None
    to_approve: Any = None  # the call that the run asks an approval for, a `CallToApprove`


_NO_ACTING: Final = Acting()
ACTING: ContextVar[Acting] = ContextVar("moothall_acting", default=_NO_ACTING)


def acting(reading: OpenReading) -> Acting:
    """Return what is carried out in this context, with this tool call."""
    now = ACTING.get()
    return Acting(reading, now.limit, now.to_approve)
