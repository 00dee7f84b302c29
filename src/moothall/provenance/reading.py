"""What a tool call, and the handling of a message, have read of others who read from outside."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol


class Reading(Protocol):
    """A tool call, which may ask agents that have read something from outside."""

    begun: bool
    read: tuple[str, ...]


@dataclass(slots=True)
class MemberReading:
    """A turn of a member that is no agent of moothall, and may ask some."""

    begun: bool = True
    read: tuple[str, ...] = ()


READ: ContextVar[Reading | None] = ContextVar("moothall_read", default=None)
"""The tool call, or turn, of this context. An agent that it asks adds the outside sources that it
has read.
"""
