"""What holds for a coroutine that is closed before its end.

The garbage collector closes it, at any moment, in any thread and context, perhaps within another
task. It can then await nothing, and the context variables of its own context are out of reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from typing import Any, TypeVar

T = TypeVar("T")


def is_closing(error: BaseException) -> bool:
    """Return whether an exception comes of closing a coroutine, perhaps in place of that."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, GeneratorExit):
        seen = seen.__context__
    return seen is not None


def reset(token: Token[Any]) -> None:
    """Give a context variable its earlier value, if this is still the context that had it."""
    with suppress(ValueError):
        token.var.reset(token)


@contextmanager
def within(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a context variable within a `with` block."""
    token = variable.set(value)
    try:
        yield
    finally:
        reset(token)
