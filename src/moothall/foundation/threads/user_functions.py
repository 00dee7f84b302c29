"""Calls of a user's functions, which may be plain or `async`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import lru_cache, partial
from logging import Logger
from types import CoroutineType, GeneratorType
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

from moothall.foundation.arguments import is_async
from moothall.foundation.text import log_failure
from moothall.foundation.threads.workers import WORKERS

P = ParamSpec("P")
C = TypeVar("C", bound=Callable[..., Any])

DATA_TYPES: Final = frozenset((type(None), bool, int, float, str, list, dict))
"""The classes of most values that functions return: none is an awaitable."""


def plain_or_async(method: Callable[P, object]) -> Callable[P, Any]:
    """Let type checkers accept a plain and an `async` method in its place, and `await super()…`."""
    return method


def call_observers(
    callbacks: Iterable[C],
    make: Callable[[], object],
    subject: str,
    logger: Logger,
    error_type: type[BaseException] = Exception,
) -> Iterator[C]:
    """Call observers, each with what `make` makes for it; log and yield those that fail."""
    for callback in callbacks:
        try:
            callback(make())
        except error_type as error:
            log_failure(logger, f"{subject} {callback!r} failed and is called no more", error)
            yield callback


async def awaited(value: Any) -> Any:
    """Return what a user's function gave, awaited: an `async` one may have forgotten it as well."""
    kind: Any
    if type(value) is CoroutineType:  # the most frequent case
        value = await value
    while (kind := type(value)) not in DATA_TYPES and _may_be_awaited(kind):
        if kind is GeneratorType and not inspect.isawaitable(value):
            break
        value = await value
    return value


@lru_cache(maxsize=256)
def _may_be_awaited(kind: type) -> bool:
    """Return whether values of a class can be awaited, as generators can that are marked so."""
    return kind is GeneratorType or hasattr(kind, "__await__")


Runner: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Calls a function in a thread, and returns its value."""


async def in_worker(call: Callable[[], Any]) -> Any:
    """Call a function in a worker thread; if cancelled, its value is dropped."""
    return await WORKERS.run(asyncio.get_running_loop(), call)


async def call_user(function: Any, *args: Any, in_thread: Runner | None = in_worker) -> Any:
    """Call a user's function, plain or `async`; a plain one runs in a thread, unless that is None.

    This is how spaces and loops alike call actions and callbacks.
    """
    if in_thread is None or is_async(function):
        return await awaited(function(*args))
    return await awaited(await in_thread(partial(function, *args)))
