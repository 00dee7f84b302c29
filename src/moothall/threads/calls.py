"""Calls of a user's functions, which may be plain or `async`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from moothall.threads.workers import WORKERS

DATA: Final = frozenset((type(None), bool, int, float, str, list, dict))
"""The classes of most values that functions return: none is an awaitable."""


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether calling the function returns a coroutine."""
    while isinstance(function, partial):
        function = function.func
    call = getattr(function, "__call__", None)  # noqa: B004 - the method itself is wanted
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


async def awaited(given: Any) -> Any:
    """Return what a user's function gave, awaited: an `async` one may have forgotten it as well."""
    while given.__class__ not in DATA and inspect.isawaitable(given):
        given = await given
    return given


async def called(function: Any, *args: Any, in_thread: bool = True) -> Any:
    """Call a user's function, plain or `async`; a plain one runs in a thread."""
    if in_thread and not is_async(function):
        return await awaited(await WORKERS.run(asyncio.get_running_loop(), function, *args))
    return await awaited(function(*args))
