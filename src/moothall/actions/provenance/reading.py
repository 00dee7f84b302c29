"""What a tool call, and the handling of a message, have read of others who read from outside."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from moothall.actions.provenance.origin import sources_within
from moothall.actions.provenance.values import texts_in
from moothall.foundation.jsonvalue import json_line
from moothall.foundation.text.values import fold
from moothall.foundation.threads import reset

_OURS: Final = "moothall"
"""How the names of our threads begin: they carry the context of the caller that gave them work."""
_WORD: Final = re.compile(r"[\w@.+-]{4,}")

Found = tuple[Any, tuple[str, ...]]
"""What was read beside a call, None for anything, and its sources."""


class Reading(Protocol):
    """A tool call, which may ask agents that have read something from outside."""

    name: str
    foreign: dict[str, Any]
    begun: bool
    read: tuple[str, ...]
    beside: tuple[Found, ...]
    late: Callable[[Sequence[str]], None] | None  # once it has ended, told what its work reads


@dataclass(slots=True)
class MemberReading:
    """A turn of a member that is no agent of moothall, and may ask some."""

    name: str = ""
    foreign: dict[str, Any] = field(default_factory=dict)
    begun: bool = True
    read: tuple[str, ...] = ()
    beside: tuple[Found, ...] = ()
    late: Callable[[Sequence[str]], None] | None = None


@dataclass(slots=True, eq=False)
class Acting:
    """What is carried out in a context."""

    # The tool call, or turn: an agent that it asks adds the outside sources that it has read.
    reading: Reading | None = None
    # The seconds of the calls that are under way, which stand still while this is entered.
    limit: AbstractContextManager[None] | None = None
    to_approve: Any = None  # the call that the run asks an approval for, a `CallToApprove`


_NOTHING: Final = Acting()
ACTING: ContextVar[Acting] = ContextVar("moothall_acting", default=_NOTHING)

_underway: dict[int, Reading] = {}  # calls that are executed


def acting(reading: Reading) -> Acting:
    """Return what is carried out in this context, with this tool call."""
    now = ACTING.get()
    return Acting(reading, now.limit, now.to_approve)


def reading_here() -> Reading | None:
    """Return the tool call, or turn, of this context."""
    return ACTING.get().reading


def execute(call: Reading) -> Token[Acting]:
    """Make a tool call the one of this context, until `executed`."""
    _underway[id(call)] = call
    return ACTING.set(acting(call))


def executed(call: Reading, token: Token[Acting], result: Any) -> None:
    """End it; what was read beside it counts as read by it if the result has words of that."""
    reset(token)
    del _underway[id(call)]
    if call.beside:
        words = {*_words(json_line(result))}
        for found, sources in call.beside:
            if found is None or not words.isdisjoint(_words(" ".join(texts_in(found)))):
                call.read += sources


def _words(text: str) -> Iterable[str]:
    return (each.strip(".-") for each in _WORD.findall(fold(text)))


def add(sources: Sequence[str], found: Any = None) -> None:
    """Give the tool call of this context the sources of what is `found` now.

    A thread of a pool has no context. What is found there may be for any call under way.
    """
    reading = ACTING.get().reading
    if reading is not None:
        if reading.late is not None:
            reading.late(sources)
        elif reading.begun:
            reading.read = tuple(dict.fromkeys((*reading.read, *sources)))
    elif is_adrift():
        for call in [*_underway.values()]:
            if call.begun:
                call.beside += ((found, tuple(sources)),)


def is_adrift() -> bool:
    """Whether this is a thread that a tool call may have started, or given work."""
    if not _underway or ACTING.get().reading is not None:
        return False
    thread = threading.current_thread()
    return thread is not threading.main_thread() and not thread.name.startswith(_OURS)


def given_beside(content: Any) -> list[str]:
    """Return where a text comes from that a thread without context gives an agent.

    It is from outside if a call under way was given a part of it from there.
    """
    if not is_adrift():
        return []
    said = fold(" ".join(texts_in(content)))
    calls = [call for call in [*_underway.values()] if call.begun]
    return [
        f"what {call.name} was given"
        for call in calls
        if any(len(each) > 3 and fold(each) in said for each in texts_in(call.foreign))
    ]


class AdriftReply:
    """A reply in a thread without context: what it reads is also read by the calls around it."""

    __slots__ = ("_calls", "_reading", "_token")

    def __init__(self) -> None:
        self._calls = [call for call in [*_underway.values()] if call.begun]
        self._reading = MemberReading()
        self._token = ACTING.set(acting(self._reading))

    def end(self) -> None:
        """Give what was read to each call that was under way when this began."""
        reset(self._token)
        for call in self._calls if self._reading.read else ():
            if call.late is not None:
                call.late(self._reading.read)
            else:
                call.beside += ((None, self._reading.read),)


def give_back(kept: Iterable[Any]) -> None:
    """Give the tool call of this context the outside sources that messages or entries name.

    Every reader of what was kept calls it (memories, journals): an action may return only the text
    of a message, without its mark.
    """
    if ACTING.get().reading is not None or (_underway and is_adrift()):
        for each in kept:
            if sources := tuple(sources_within(each)):
                add(sources, each)
