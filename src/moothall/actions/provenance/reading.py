"""What a tool call, and the handling of a message, have read of others who read from outside."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from contextvars import Token
from dataclasses import dataclass, field
from typing import Any, Final

from moothall.actions.acting import CALL_SCOPE, CallScope, OpenReading, ReadValue, scope_with
from moothall.actions.provenance.origin import sources_within
from moothall.actions.provenance.value_places import texts_in
from moothall.foundation.jsonvalue import json_line
from moothall.foundation.threads import reset

_OWN_THREAD_PREFIX: Final = "moothall"
"""How the names of our threads begin: they carry the context of the caller that gave them work."""
_WORD: Final = re.compile(r"[\w@.+-]{4,}")


@dataclass(slots=True)
class MemberReading:
    """A turn of a member that is no agent of moothall, and may ask some."""

    name: str = ""
    foreign: dict[str, Any] = field(default_factory=dict)
    has_started: bool = True
    read_sources: tuple[str, ...] = ()
    contextless_reads: tuple[ReadValue, ...] = ()
    on_late_read: Callable[[Sequence[str]], None] | None = None


_executing_calls: dict[int, OpenReading] = {}  # calls that are executed


def current_reading() -> OpenReading | None:
    """Return the tool call, or turn, of this context."""
    return CALL_SCOPE.get().reading


def begin_execution(call: OpenReading) -> Token[CallScope]:
    """Make a tool call the one of this context, until `end_execution`."""
    _executing_calls[id(call)] = call
    scope = CALL_SCOPE.get()
    return CALL_SCOPE.set(
        CallScope(call, scope.clock_pause, scope.call_to_approve, scope.retry_end)
    )


def end_execution(call: OpenReading, token: Token[CallScope], result: Any) -> None:
    """End it; what was read beside it counts as read by it if the result has words of that."""
    reset(token)
    del _executing_calls[id(call)]
    if call.contextless_reads:
        words = {*_words_in(json_line(result))}
        for value, sources in call.contextless_reads:
            if value is None or not words.isdisjoint(_words_in(" ".join(texts_in(value)))):
                call.read_sources += sources


def _fold(text: str) -> str:
    from moothall.foundation.text.values import fold  # its tables take 15 ms to import

    return fold(text)


def _words_in(text: str) -> Iterable[str]:
    return (each.strip(".-") for each in _WORD.findall(_fold(text)))


def add_sources(sources: Sequence[str], value: Any = None) -> None:
    """Give the tool call of this context the sources of a `value` that is found now.

    A thread of a pool has no context. What is found there may be for any call under way.
    """
    reading = CALL_SCOPE.get().reading
    if reading is not None:
        if reading.on_late_read is not None:
            reading.on_late_read(sources)
        elif reading.has_started:
            reading.read_sources = tuple(dict.fromkeys((*reading.read_sources, *sources)))
    elif is_without_context():
        for call in [*_executing_calls.values()]:
            if call.has_started:
                call.contextless_reads += ((value, tuple(sources)),)


def is_without_context() -> bool:
    """Whether this is a thread that a tool call may have started, or given work."""
    if not _executing_calls or CALL_SCOPE.get().reading is not None:
        return False
    thread = threading.current_thread()
    return thread is not threading.main_thread() and not thread.name.startswith(_OWN_THREAD_PREFIX)


def sources_of_contextless_text(content: Any) -> list[str]:
    """Return where a text comes from that a thread without context gives an agent.

    It is from outside if a call under way was given a part of it from there.
    """
    if not is_without_context():
        return []
    content_text = _fold(" ".join(texts_in(content)))
    calls = [call for call in [*_executing_calls.values()] if call.has_started]
    return [
        f"what {call.name} was given"
        for call in calls
        if any(len(each) > 3 and _fold(each) in content_text for each in texts_in(call.foreign))
    ]


class ContextlessReply:
    """A reply in a thread without context: what it reads is also read by the calls around it."""

    __slots__ = ("_calls", "_reading", "_token")

    def __init__(self) -> None:
        self._calls = [call for call in [*_executing_calls.values()] if call.has_started]
        self._reading = MemberReading()
        self._token = CALL_SCOPE.set(scope_with(self._reading))

    def end(self) -> None:
        """Give what was read to each call that was under way when this began."""
        reset(self._token)
        for call in self._calls if self._reading.read_sources else ():
            if call.on_late_read is not None:
                call.on_late_read(self._reading.read_sources)
            else:
                call.contextless_reads += ((None, self._reading.read_sources),)


def add_sources_of(entries: Iterable[Any]) -> None:
    """Give the tool call of this context the outside sources that messages or entries name.

    Every reader of what was kept calls it (memories, journals): an action may return only the text
    of a message, without its mark.
    """
    if CALL_SCOPE.get().reading is not None or (_executing_calls and is_without_context()):
        for each in entries:
            if sources := tuple(sources_within(each)):
                add_sources(sources, each)
