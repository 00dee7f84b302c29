"""While a person is asked: what counts the seconds of the work stands still."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import Context, copy_context
from typing import Final

from moothall.actions.acting import ACTING

_ASKING: Final[dict[object, Context]] = {}


@contextmanager
def clocks_paused() -> Iterator[None]:
    """Have the time until the end not count against the seconds of the work in this context."""
    key = object()
    with ACTING.get().limit or nullcontext():
        _ASKING[key] = copy_context()
        try:
            yield
        finally:
            del _ASKING[key]


def asking_contexts() -> list[Context]:
    """Return the contexts in which a person is asked now. Any thread may call this."""
    return [*_ASKING.copy().values()]
