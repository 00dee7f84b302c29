"""Environments: where actions are executed."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import threading
import time
import traceback
from collections.abc import Awaitable, Coroutine, Iterator
from dataclasses import dataclass
from types import CoroutineType
from typing import Any, Protocol

from moothall.actions import Action
from moothall.actions.approval import Later
from moothall.actions.retry import retries_in_thread
from moothall.foundation.arguments import is_async
from moothall.foundation.text import error_message
from moothall.foundation.threads import DATA_TYPES, WORKERS, awaited, is_cancelled, loop_is_running


class AnyEnvironment(Protocol):
    """What an agent needs of an environment; `aexecute_action` is optional."""

    def execute_action(self, action: Action, args: dict[str, Any], /) -> Any:
        """Execute an action and return the result, or an awaitable of it."""


class Environment:
    """Executes actions, and turns every value and exception into a result.

    A result is a dict: `{"tool_executed": True, "result": …, "timestamp": …}`, or
    `{"tool_executed": False, "error": …, "traceback": …}`.

    A subclass may override `execute_action` or `format_result` alone: `aexecute_action`, which a
    loop awaits, goes through them.
    """

    def execute_action(self, action: Action, args: dict[str, Any]) -> dict[str, Any]:
        """Execute an action and return the result; an exception is a result too.

        An `async` action runs to its end: on the loop that awaits `aexecute_action`, or on a loop
        of its own in a script. On the thread of a running loop that is an error, since waiting
        there would stop the loop: await `aexecute_action` instead.
        """
        try:
            result = action.execute(**args)
            if inspect.isawaitable(result):
                result = _run_to_end(action, result)
            return self.format_result(result)
        except Exception as error:
            return failed_result(error)

    def aexecute_action(
        self, action: Action, args: dict[str, Any]
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        """Execute an action on behalf of a loop.

        An `async` action is awaited here. A plain action, or a subclass's own `execute_action`,
        runs in a worker thread. Cancelling reaches an `async` action at its next await; a thread
        cannot be stopped, so its result is dropped. An action that takes longer than its `timeout`
        is cancelled in the same way, and the result is an error, which says that its effect is not
        known.
        """
        execute = self._execute if action.timeout is None else self._execute_in_time
        return execute(action, args)

    def format_result(self, result: Any) -> dict[str, Any]:
        """Format the result with metadata; what can be read only once is an error."""
        if result.__class__ not in DATA_TYPES and isinstance(result, Iterator):
            kind = type(result).__name__
            return failed_result(
                TypeError(f"the action returned a {kind}, not a value: return a list")
            )
        return {"tool_executed": True, "result": result, "timestamp": _timestamp(int(time.time()))}

    async def _execute_in_time(self, action: Action, args: dict[str, Any]) -> dict[str, Any]:
        try:
            result: dict[str, Any] = await _await_in_time(action, self._execute(action, args))
            return result
        except TimeoutError as error:
            return failed_result(error)

    async def _execute(self, action: Action, args: dict[str, Any]) -> dict[str, Any]:
        if not action.is_async or _is_overridden(self):
            return await execute_in_thread(self, action, args)
        try:
            value = action.execute(**args)
            if type(value) is CoroutineType:  # the faster way
                value = await value
            if value.__class__ not in DATA_TYPES:
                value = await awaited(value)
            return self.format_result(value)
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            # Something that the action awaited was cancelled, not the action itself.
            return failed_result(error)
        except (Exception, SystemExit) as error:
            return failed_result(error)


def _is_overridden(environment: Environment) -> bool:
    execute_action = environment.execute_action
    return getattr(execute_action, "__func__", execute_action) is not Environment.execute_action


def _error_text(error: BaseException) -> str:
    """Return an error as a model reads it; a key alone would not say what is wrong."""
    text, error_type = error_message(error), type(error)
    shows_key = error_type.__str__ is KeyError.__str__
    return f"{error_type.__name__}: {text}" if text and shows_key else text or error_type.__name__


def failed_result(error: BaseException) -> dict[str, Any]:
    """Return the result of an action that raised."""
    return {
        "tool_executed": False,
        "error": _error_text(error),
        "traceback": "".join(traceback.format_exception(error)),
    }


# -- threads ---------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _ThreadCall:
    """A call of `execute_action` in a worker thread, and the loop that awaits it."""

    loop: asyncio.AbstractEventLoop
    is_finished: bool = False
    future: concurrent.futures.Future[Any] | None = None


class _ThreadState(threading.local):
    call: _ThreadCall | None = None


_THREAD_STATE = _ThreadState()


async def execute_in_thread(
    environment: Any, action: Action, args: dict[str, Any]
) -> dict[str, Any]:
    """Call `execute_action` in a worker thread; async actions run on this loop."""
    loop = asyncio.get_running_loop()
    result: dict[str, Any]
    if _is_overridden(environment) and is_async(environment.execute_action):
        result = await environment.execute_action(action, args)
        return result
    call = _ThreadCall(loop)
    try:
        if not action.may_wait_in_thread:
            return await WORKERS.run(loop, _call_in_thread, call, environment, action, args)
        with retries_in_thread():
            return await WORKERS.run(loop, _call_in_thread, call, environment, action, args)
    except asyncio.CancelledError:
        # At least one side sees the other: this one sets `is_finished` before it reads `future`,
        # and the thread sets `future` before it reads `is_finished`.
        call.is_finished = True
        if call.future is not None:
            call.future.cancel()
        raise


def _call_in_thread(
    call: _ThreadCall, environment: Any, action: Action, args: dict[str, Any]
) -> Any:
    _THREAD_STATE.call = call
    try:
        return environment.execute_action(action, args)
    except Later:
        raise
    except BaseException as error:  # sys.exit() in an action is no reason to end a loop
        return failed_result(error)
    finally:
        _THREAD_STATE.call = None


def _run_to_end(action: Action, awaitable: Awaitable[Any]) -> Any:
    """Wait for an async action's value, in a thread that may wait."""
    if loop_is_running():
        if inspect.iscoroutine(awaitable):
            awaitable.close()
        raise RuntimeError(
            f'the async action "{action.name}" cannot be executed synchronously on the thread of a '
            "running event loop: await aexecute_action(action, args)"
        )
    call = _THREAD_STATE.call
    if call is not None and call.loop.is_running():
        future = asyncio.run_coroutine_threadsafe(_await_value(awaitable), call.loop)
        call.future = future
        if call.is_finished:
            future.cancel()
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise RuntimeError(f'"{action.name}" was cancelled') from None
        finally:
            call.future = None
    return asyncio.run(_await_in_time(action, awaitable))


async def _await_value(awaitable: Awaitable[Any]) -> Any:
    try:
        return await awaited(awaitable)
    except SystemExit as error:  # it would end the loop, not the action
        raise RuntimeError(f"SystemExit: {error}") from error


async def _await_in_time(action: Action, awaitable: Awaitable[Any]) -> Any:
    limit = asyncio.timeout(action.timeout)
    try:
        async with limit:
            return await awaited(awaitable)
    except TimeoutError as error:
        if limit.expired():
            text = f'"{action.name}" took longer than {action.timeout:g} s'
            raise TimeoutError(f"{text}; whether it had an effect is not known") from error
        raise


# -- time ------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)  # strftime takes longer than the rest of a turn's bookkeeping
def _timestamp(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(second))
