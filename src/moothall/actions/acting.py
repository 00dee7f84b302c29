"""What is carried out in a context: a tool call, its time, and what it is permitted for."""

from __future__ import annotations

import threading
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
    read_sources: tuple[str, ...]
    contextless_reads: tuple[ReadValue, ...]
    on_late_read: Callable[[Sequence[str]], None] | None  # told what its work reads after its end


@dataclass(slots=True, eq=False)
class CallScope:
    """What is carried out in a context."""

    # The tool call, or turn: an agent that it asks adds the outside sources that it has read.
    reading: OpenReading | None = None
    # The seconds of the calls that are under way, which stand still while this is entered.
    clock_pause: AbstractContextManager[None] | None = None
    call_to_approve: Any = None  # the call that the run asks an approval for, a `CallToApprove`
    # Set once nobody waits any more for the call that a thread carries out here.
    retry_end: threading.Event | None = None


_NO_CALL: Final = CallScope()
CALL_SCOPE: ContextVar[CallScope] = ContextVar("moothall_acting", default=_NO_CALL)


def scope_with(reading: OpenReading) -> CallScope:
    """Return what is carried out in this context, with this tool call."""
    scope = CALL_SCOPE.get()
    return CallScope(reading, scope.clock_pause, scope.call_to_approve, scope.retry_end)
