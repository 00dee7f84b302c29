"""While a person is asked: what counts the seconds of the work stands still."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import Context, copy_context
from typing import Final

from moothall.actions.acting import CALL_SCOPE

_ASKING_CONTEXTS: Final[dict[object, Context]] = {}


@contextmanager
def clocks_paused() -> Iterator[None]:
    """Have the time until the end not count against the seconds of the work in this context."""
    key = object()
    with CALL_SCOPE.get().clock_pause or nullcontext():
        _ASKING_CONTEXTS[key] = copy_context()
        try:
            yield
        finally:
            del _ASKING_CONTEXTS[key]


def asking_contexts() -> list[Context]:
    """Return the contexts in which a person is asked now. Any thread may call this."""
    return [*_ASKING_CONTEXTS.copy().values()]
