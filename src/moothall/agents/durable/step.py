"""`@step`: a function whose result a durable function records."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, TypeVar, overload

from moothall.actions.retry import Retry, with_retries
from moothall.agents.durable.branch import branch_here
from moothall.agents.durable.run import tell_error
from moothall.agents.durable.values import codec_for, hints_of
from moothall.agents.replies.step import ONCE, StepForm
from moothall.foundation.arguments import check_boolean, is_async
from moothall.foundation.errors import DefinitionError
from moothall.foundation.jsonvalue import as_json
from moothall.foundation.threads import WORKERS

if TYPE_CHECKING:
    from moothall.agents.replies.step import StepHandle

P = ParamSpec("P")
R = TypeVar("R")
_EFFECT: Final = StepForm(asks=True)


class StepDecorator(Protocol):
    """What `step(…)` returns: it makes a step of a function."""

    @overload
    def __call__(
        self, function: Callable[P, Awaitable[R]], /
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, Coroutine[Any, Any, R]]: ...


@overload
def step(function: Callable[P, Awaitable[R]], /) -> Callable[P, Coroutine[Any, Any, R]]: ...
@overload
def step(function: Callable[P, R], /) -> Callable[P, Coroutine[Any, Any, R]]: ...
@overload
def step(*, effect: bool = False, retries: Retry | int | None = None) -> StepDecorator: ...
def step(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: bool = False,
    retries: Retry | int | None = None,
) -> Any:
    """Make a step of a function: in a durable function, what it returns or raises is recorded.

    One that was cut off is called again; with `effect=True`, such as a payment, it is in doubt, and
    a person decides. A plain function is called in a worker thread, and awaited. Elsewhere, and in
    another step, it is only called.

    Its result is JSON data, or of the type that it is annotated with, as pydantic writes it. Its
    arguments are compared by hash when the run is resumed.

    Args:
        function: the function, `async` or plain
        effect: whether it must not be done twice
        retries: when a call that failed is made again; how many times, or a `Retry`

    Raises:
        DefinitionError: it is no function, or an effect has retries without `no_effect=True`
    """
    check_boolean("step: effect=", effect)
    retry = Retry(times=retries) if isinstance(retries, int) else retries
    if retry is not None and not isinstance(retry, Retry):
        raise DefinitionError(f"step: retries= must be a number or a Retry, got {retries!r:.80}")
    if effect and retry is not None and not retry.no_effect:
        raise DefinitionError(
            "step: an effect may have happened before it failed, so retries= must be "
            f"Retry(…, no_effect=True), whose exceptions say that it has not, got {retry!r:.200}"
        )
    if function is None:
        return partial(_step_of, effect=effect, retry=retry)
    return _step_of(function, effect=effect, retry=retry)


def _step_of(function: Any, *, effect: bool, retry: Retry | None) -> Any:
    if not callable(function) or isinstance(function, type) or inspect.isasyncgenfunction(function):
        raise DefinitionError(f"step must be given a function, got {function!r:.80}")
    name: str = function.__name__
    label = f"the result of step {name!r}"
    call_async = function if is_async(function) else _in_thread(function)
    if retry is not None:
        call_async = _with_retries(call_async, retry, name)
    signature = inspect.signature(function)
    form = _EFFECT if effect else ONCE
    codec: Any = None  # made at the first call: its types may be defined further down

    @functools.wraps(function)
    async def run_step(*args: Any, **kwargs: Any) -> Any:
        nonlocal codec
        if (branch := branch_here()) is None:
            return await call_async(*args, **kwargs)
        if codec is None:
            annotation = hints_of(function).get("return", inspect.Parameter.empty)
            codec = bytes if annotation is bytes else codec_for(annotation, label)

        async def call(handle: StepHandle) -> Any:
            try:
                if effect:
                    await handle.begins(as_json(signature.bind(*args, **kwargs).arguments))
                return await call_async(*args, **kwargs)
            except Exception as error:
                tell_error(handle, error)
                raise

        step_args = (args, kwargs) if kwargs else args
        return await branch.run.do(branch, name, step_args, call, form, codec)

    return run_step


def _in_thread(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        in_context = partial(copy_context().run, function, *args, **kwargs)
        return await WORKERS.run(asyncio.get_running_loop(), in_context)

    return call


def _with_retries(function: Callable[..., Any], retry: Retry, name: str) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        async def without_arguments() -> Any:
            return await function(*args, **kwargs)

        return await with_retries(without_arguments, retry, name)()

    return call
