"""Environments: results, threads, loops, time limits, subclasses."""

from __future__ import annotations

import asyncio
import contextvars
import re
import sys
import threading
from typing import Any

import pytest

from moothall.actions import Action, Retry, action
from moothall.actions.environment import Environment
from moothall.foundation.threads import WORKERS

WAIT = 20

UNKNOWN = "whether it had an effect is not known"


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def add_later(a: int, b: int) -> int:
    """Add, a little later."""
    await asyncio.sleep(0)
    return a + b


def fail() -> None:
    raise ValueError("no such thing")


async def fail_later() -> None:
    await asyncio.sleep(0)
    raise ValueError("no such thing")


def run(environment: Environment, function: Any, **args: Any) -> dict[str, Any]:
    return asyncio.run(environment.aexecute_action(Action.of(function), args))


class DryRun(Environment):
    """Says what it would do."""

    def __init__(self) -> None:
        self.wanted: list[tuple[str, dict[str, Any]]] = []

    def execute_action(self, action: Action, args: dict[str, Any]) -> dict[str, Any]:
        self.wanted.append((action.name, args))
        return self.format_result(f"would {action.name}")


class Stamped(Environment):
    """Formats results its own way."""

    def format_result(self, result: Any) -> dict[str, Any]:
        return {"tool_executed": True, "result": result, "by": "me"}


class Noted(Environment):
    """Executes, and takes note."""

    def __init__(self) -> None:
        self.noted: list[object] = []

    def execute_action(self, action: Action, args: dict[str, Any]) -> dict[str, Any]:
        self.noted.append(threading.current_thread())
        result = super().execute_action(action, args)
        self.noted.append(result)
        return result


# -- the sync form ---------------------------------------------------------------------------------


def test_environment_result_has_its_time() -> None:
    result = Environment().execute_action(Action.of(add), {"a": 1, "b": 2})
    assert list(result) == ["tool_executed", "result", "timestamp"]
    assert result["tool_executed"] is True
    assert result["result"] == 3
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}", result["timestamp"])


@pytest.mark.parametrize("function", (fail, fail_later))
def test_environment_failure_has_its_error_and_traceback(function: Any) -> None:
    result = Environment().execute_action(Action.of(function), {})
    assert list(result) == ["tool_executed", "error", "traceback"]
    assert result["tool_executed"] is False
    assert result["error"] == "no such thing"
    assert result["traceback"].startswith("Traceback (most recent call last)")
    assert f"in {function.__name__}" in result["traceback"]


def test_environment_failure_without_words_says_its_type() -> None:
    def refuse() -> None:
        raise PermissionError

    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def break_down() -> None:
        raise Broken

    environment = Environment()
    assert environment.execute_action(Action.of(refuse), {})["error"] == "PermissionError"
    error = environment.execute_action(Action.of(break_down), {})["error"]
    assert error == "(its text cannot be read: RuntimeError)"


def test_wrong_arguments_are_a_failure() -> None:
    result = Environment().execute_action(Action.of(add), {"a": 1})
    assert "missing 1 required positional argument: 'b'" in result["error"]


def test_environment_in_a_script_executes_async_actions_too() -> None:
    result = Environment().execute_action(Action.of(add_later), {"a": 1, "b": 2})
    assert result["result"] == 3


async def test_environment_on_a_loops_thread_refuses_an_async_action_rather_than_deadlock() -> None:
    environment = Environment()
    result = environment.execute_action(Action.of(add_later), {"a": 1, "b": 2})
    assert result["tool_executed"] is False
    assert 'the async action "add_later" cannot be executed' in result["error"]
    assert "await aexecute_action" in result["error"]
    good = await environment.aexecute_action(Action.of(add_later), {"a": 1, "b": 2})
    assert good["result"] == 3


def test_environment_in_a_script_keeps_the_time_limit_of_an_async_action() -> None:
    @action(timeout=0.01)
    async def hang() -> None:
        await asyncio.Event().wait()

    result = Environment().execute_action(Action.of(hang), {})
    assert result["error"] == f'"hang" took longer than 0.01 s; {UNKNOWN}'


# -- the async form --------------------------------------------------------------------------------


@pytest.mark.parametrize("function", (add, add_later))
def test_environment_executes_plain_and_async_actions(function: Any) -> None:
    result = run(Environment(), function, a=1, b=2)
    assert list(result) == ["tool_executed", "result", "timestamp"]
    assert result["result"] == 3


@pytest.mark.parametrize("function", (fail, fail_later))
def test_environment_failure_of_plain_and_async_actions_is_a_result(function: Any) -> None:
    result = run(Environment(), function)
    assert result["error"] == "no such thing"
    assert f"in {function.__name__}" in result["traceback"]


@pytest.mark.parametrize("environment", (Environment(), Noted()))
async def test_environment_awaits_a_coroutine_of_a_plain_function(environment: Environment) -> None:
    loop = asyncio.get_running_loop()

    async def there() -> bool:
        return asyncio.get_running_loop() is loop

    result = await environment.aexecute_action(Action.of(lambda: there()), {})
    assert result["result"] is True


def test_plain_ones_run_in_threads_and_async_ones_on_the_loop() -> None:
    here = threading.current_thread()

    def where() -> bool:
        return threading.current_thread() is here

    async def where_async() -> bool:
        return threading.current_thread() is here

    assert run(Environment(), where)["result"] is False
    assert run(Environment(), where_async)["result"] is True


async def test_environment_actions_see_the_callers_context() -> None:
    color: contextvars.ContextVar[str] = contextvars.ContextVar("color")

    def see() -> str:
        return color.get()

    async def see_later() -> str:
        return color.get()

    color.set("blue")
    for environment in (Environment(), Noted()):
        for function in (see, see_later):
            result = await environment.aexecute_action(Action.of(function), {})
            assert result["result"] == "blue"


async def test_plain_actions_do_not_wait_for_one_another() -> None:
    both = threading.Barrier(2)

    def meet() -> int:
        return both.wait(WAIT)

    environment = Environment()
    results = await asyncio.gather(
        *(environment.aexecute_action(Action.of(meet), {}) for _ in range(2))
    )
    assert sorted(result["result"] for result in results) == [0, 1]


@pytest.mark.parametrize("environment", (Environment(), Noted()))
def test_environment_keeps_a_time_limit(environment: Environment) -> None:
    gate = threading.Event()
    cancelled = []

    @action(timeout=0.02)
    def block() -> None:
        gate.wait(WAIT)

    @action(timeout=0.02)
    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("hang")
            raise

    @action(timeout=WAIT)
    async def raises_its_own() -> None:
        raise TimeoutError("the line was busy")

    assert run(environment, block)["error"] == f'"block" took longer than 0.02 s; {UNKNOWN}'
    gate.set()
    assert run(environment, hang)["error"] == f'"hang" took longer than 0.02 s; {UNKNOWN}'
    assert cancelled == ["hang"]
    assert run(environment, raises_its_own)["error"] == "the line was busy"


def test_environment_calls_an_action_in_a_thread_no_more_after_its_time_limit() -> None:
    ended = threading.Event()

    class Watched(Environment):
        def execute_action(self, action: Action, args: dict[str, Any]) -> dict[str, Any]:
            result = super().execute_action(action, args)
            ended.set()
            return result

    @action(idempotent=True, timeout=0.02, retries=Retry(on=ValueError, backoff=60))
    def fails() -> None:
        fail()

    assert run(Watched(), fails)["error"] == f'"fails" took longer than 0.02 s; {UNKNOWN}'
    assert ended.wait(WAIT)


@pytest.mark.parametrize("environment", (Environment(), Noted()))
async def test_cancelling_reaches_an_async_action(environment: Environment) -> None:
    started, cleaned = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    task = asyncio.create_task(environment.aexecute_action(Action.of(hang), {}))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(cleaned.wait(), WAIT)


@pytest.mark.parametrize("environment", (Environment(), Noted()))
def test_environment_action_that_was_cancelled_by_itself_has_failed(
    environment: Environment,
) -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    result = run(environment, give_up)
    assert result["tool_executed"] is False
    assert result["error"]


async def test_cancelling_drops_what_a_thread_gives() -> None:
    gate, ended = threading.Event(), threading.Event()

    def block() -> None:
        gate.wait(WAIT)
        ended.set()

    environment = Environment()
    task = asyncio.create_task(environment.aexecute_action(Action.of(block), {}))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    assert await asyncio.to_thread(ended.wait, WAIT)
    assert (await environment.aexecute_action(Action.of(add), {"a": 1, "b": 1}))["result"] == 2


@pytest.mark.parametrize("environment", (Environment(), Noted()))
@pytest.mark.parametrize("kind", ("plain", "async"))
def test_environment_action_cannot_end_the_program(environment: Environment, kind: str) -> None:
    def leave() -> None:
        sys.exit("enough")

    async def leave_later() -> None:
        sys.exit("enough")

    result = run(environment, leave if kind == "plain" else leave_later)
    assert result["tool_executed"] is False
    assert "enough" in result["error"]


async def test_environment_callbacks_of_an_action_run_before_its_result() -> None:
    loop = asyncio.get_running_loop()
    heard: list[int] = []

    def say(number: int) -> None:
        loop.call_soon_threadsafe(heard.append, number)

    act = Action.of(say)
    for number in range(100):
        assert (await Environment().aexecute_action(act, {"number": number}))["tool_executed"]
        assert heard[-1] == number


# -- subclasses that override one method of the sync interface ------------------------------------


@pytest.mark.parametrize("function", (add, add_later))
def test_environment_subclass_of_dry_runs_is_obeyed(function: Any) -> None:
    environment = DryRun()
    result = run(environment, function, a=1, b=2)
    assert result["result"] == f"would {function.__name__}"
    assert environment.wanted == [(function.__name__, {"a": 1, "b": 2})]


@pytest.mark.parametrize("function", (add, add_later))
def test_environment_subclass_of_another_result_format_is_obeyed(function: Any) -> None:
    assert run(Stamped(), function, a=1, b=2) == {"tool_executed": True, "result": 3, "by": "me"}


def test_environment_override_on_the_object_is_obeyed() -> None:
    environment = Environment()
    environment.execute_action = lambda action, args: {"result": "mine"}  # type: ignore[method-assign]
    assert run(environment, add_later, a=1, b=2) == {"result": "mine"}


async def test_environment_override_keeps_the_loop() -> None:
    environment = Noted()
    loop = asyncio.get_running_loop()

    async def where() -> bool:
        await asyncio.sleep(0)
        return asyncio.get_running_loop() is loop

    result = await environment.aexecute_action(Action.of(where), {})
    assert result["result"] is True
    assert environment.noted[0] is not threading.current_thread()
    assert environment.noted[1] == result


def test_environment_override_that_fails_is_a_failure() -> None:
    class Failing(Environment):
        def execute_action(self, action: Action, args: dict[str, Any]) -> dict[str, Any]:
            raise OSError("the disk is full")

    for function in (add, add_later):
        result = run(Failing(), function, a=1, b=2)
        assert (result["tool_executed"], result["error"]) == (False, "the disk is full")
    assert WORKERS.thread_count >= 1


@pytest.mark.parametrize("way", ("a coroutine", "a task", "one within another"))
def test_environment_returned_awaitable_is_awaited(way: str) -> None:
    async def get() -> int:
        await asyncio.sleep(0)
        return 7

    async def within() -> Any:
        return get()

    async def forgets() -> Any:
        """Get it."""
        return {"a coroutine": get, "a task": lambda: asyncio.create_task(get())}.get(way, within)()

    done = asyncio.run(Environment().aexecute_action(Action("forgets", forgets), {}))
    assert done["result"] == 7
    if way != "a task":
        assert Environment().execute_action(Action("forgets", forgets), {})["result"] == 7


@pytest.mark.parametrize(
    "make", (lambda: (n for n in range(3)), lambda: map(str, range(3)), lambda: iter([1]))
)
def test_environment_refuses_a_result_that_can_be_read_only_once(make: Any) -> None:
    result = Environment().execute_action(Action("numbers", make), {})
    assert not result["tool_executed"]
    assert result["error"].endswith("not a value: return a list")
