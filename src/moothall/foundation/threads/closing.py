"""What holds for a coroutine that is closed before its end.

The garbage collector closes it, at any moment, in any thread and context, perhaps within another
task. It can then await nothing, and the context variables of its own context are out of reach.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any, Generic, TypeVar

T = TypeVar("T")


def is_closing(error: BaseException) -> bool:
    """Return whether an exception comes of closing a coroutine, perhaps in place of that."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, GeneratorExit):
        cause = cause.__context__
    return cause is not None


def reset(token: Token[Any]) -> None:
    """Give a context variable its earlier value, if this is still the context that had it."""
    try:  # each reply does so several times: `suppress` takes longer than the reset
        token.var.reset(token)
    except ValueError:
        pass


class context_value(Generic[T]):
    """Set a context variable within a `with` block."""

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[T], value: T) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        reset(self._token)
