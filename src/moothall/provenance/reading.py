"""What a tool call, and the handling of a message, have read of others who read from outside."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from moothall.provenance.origin import sources_within


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


def give_back(kept: Iterable[Any]) -> None:
    """Give the tool call of this context the outside sources that messages or entries name.

    Every reader of what was kept calls it (memories, journals): an action may return only the text
    of a message, without its mark.
    """
    reading = READ.get()
    if reading is not None and reading.begun:
        found = (source for each in kept for source in sources_within(each))
        reading.read = tuple(dict.fromkeys((*reading.read, *found)))
