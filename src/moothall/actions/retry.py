"""Actions that are called again after failures that pass: how often, and after how long."""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from moothall.actions.acting import CALL_SCOPE
from moothall.foundation.arguments import check_boolean, check_integer, check_seconds, is_async
from moothall.foundation.errors import ConfigError
from moothall.foundation.text import error_message
from moothall.foundation.threads import context_value

logger: logging.Logger = logging.getLogger("moothall.actions")


@dataclass(frozen=True)
class Retry:
    """When an action that failed is called again.

    Args:
        times: how many more times it is called at most
        on: the exceptions after which it is called again; any other is the outcome at once
        backoff: seconds before the second call; twice as many before each further one. A random
            part, of up to a quarter, is left out, so that many callers do not come at once
        longest: the most seconds before a call
        no_effect: whether these exceptions mean that nothing took effect. Without it, only an
            `idempotent` action may have retries

    Raises:
        ConfigError: an argument is not valid
    """

    times: int = 3
    on: type[Exception] | tuple[type[Exception], ...] = (ConnectionError, TimeoutError)
    backoff: float = 1.0
    longest: float = 60.0
    no_effect: bool = False

    def __post_init__(self) -> None:
        check_integer("Retry: times=", self.times)
        check_seconds("Retry: backoff=", self.backoff, zero=True)
        check_seconds("Retry: longest=", self.longest, zero=True)
        check_boolean("Retry: no_effect=", self.no_effect)
        classes = self.on if isinstance(self.on, tuple) else (self.on,)
        if not classes or not all(
            isinstance(e, type) and issubclass(e, Exception) for e in classes
        ):
            raise ConfigError(
                "Retry: on= must be an exception class, or several, such as (ConnectionError,), "
                f"got {self.on!r:.80}"
            )

    def pause(self, call: int) -> float:
        """Return how many seconds to wait before call number `call`, from 2."""
        longest_pause = min(self.backoff * 2.0 ** min(call - 2, 60), self.longest)
        return longest_pause * random.uniform(0.75, 1.0)


@contextmanager
def retries_in_thread() -> Iterator[threading.Event]:
    """Have a plain action that a thread carries out be called again within a `with` block only.

    The event ends that earlier. A thread cannot be stopped, but it need not begin anew.
    """
    end = threading.Event()
    try:
        with context_value(CALL_SCOPE, replace(CALL_SCOPE.get(), retry_end=end)):
            yield end
    finally:
        end.set()


def with_retries(function: Callable[..., Any], retry: Retry, name: str) -> Callable[..., Any]:
    """Return a function that calls another as often as `retry` says."""

    def pause(call: int, error: Exception) -> float:
        """Return the pause before the next call; raise the error after the last one."""
        if call > retry.times:
            raise error
        seconds = retry.pause(call + 1)
        text = "call %d of action %r failed (%s: %s); calling it again in %.1f s"
        logger.warning(text, call, name, type(error).__name__, error_message(error), seconds)
        return seconds

    if is_async(function):

        @functools.wraps(function)
        async def call_again(**args: Any) -> Any:
            call = 1
            while True:
                try:
                    return await function(**args)
                except retry.on as error:
                    await asyncio.sleep(pause(call, error))
                call += 1

        return call_again

    @functools.wraps(function)
    def call_again_in_thread(**args: Any) -> Any:
        call, end = 1, CALL_SCOPE.get().retry_end or threading.Event()
        while True:
            try:
                return function(**args)
            except retry.on as error:
                if end.is_set() or end.wait(pause(call, error)):
                    raise
            call += 1

    return call_again_in_thread
