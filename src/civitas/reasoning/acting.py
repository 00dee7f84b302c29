"""Executing one call of a model's answer."""

from __future__ import annotations

import asyncio
import inspect
import logging
from types import MethodType
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from civitas.action import ACCESS_DENIED, ACCESS_PERMITTED, Action, is_async
from civitas.agent import CURRENT, Context
from civitas.approval import ApprovalRequest
from civitas.environment import execute_in_thread, failed
from civitas.errors import DefinitionError, HookError, InvalidArguments, JournalError, NotPermitted
from civitas.jsonvalue import copy_json
from civitas.reasoning.hooks import expect, expect_args
from civitas.reasoning.parsing import Wanted
from civitas.reasoning.reply import log_failure
from civitas.threads import WORKERS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from civitas.reasoning.asked import Asked
    from civitas.reasoning.react import ReActAgent

__all__ = ["Permission", "as_action", "execute", "with_hooks"]

logger = logging.getLogger("civitas.reasoning")


_FOREIGN: WeakKeyDictionary[Any, Action] = WeakKeyDictionary()
"""Actions as models are shown them, where they are not as they were given."""


def as_action(given: Any) -> Action:
    """An action of whatever class as one of civitas's, the same each time.

    A registry of a user's own may have actions of its own class, with `name`, `function`,
    `description`, `parameters` and `terminal` as in the paper that civitas follows.
    """
    if isinstance(given, Action):
        function = given.function
        if type(function) is not MethodType or function.__name__ != "say":
            return given
        return _without_thread(given)
    made = _FOREIGN.get(given)
    if made is None:
        parts = (given.name, given.function, given.description, given.parameters)
        made = _FOREIGN[given] = Action(*parts, getattr(given, "terminal", False))
    return made


def _without_thread(say: Action) -> Action:
    """An agent's `say` without the thread, which is not the model's to name."""
    parameters = say.parameters
    properties = parameters.get("properties", {})
    if "thread" not in properties:
        return say
    made = _FOREIGN.get(say)
    if made is None:
        shown = {name: each for name, each in properties.items() if name != "thread"}
        made = _FOREIGN[say] = Action._described(
            say.name,
            say.function,
            say.description,
            {**parameters, "properties": shown},
            terminal=say.terminal,
            access_policy=say.access_policy,
            idempotent=say.idempotent,
            timeout=say.timeout,
            help=say.help,
        )
    return made


async def execute(
    agent: ReActAgent,
    call: Wanted,
    asked: Asked,
    begin: Callable[[], Awaitable[None]] | None = None,
    known: Permission | None = None,
) -> dict[str, Any]:
    """Execute a call, as far as it is permitted, and give its result.

    Args:
        agent: on whose behalf
        call: the call
        asked: what the run is asked
        begin: writes down that it is executed, once it is permitted
        known: knows, and keeps, what whoever was asked has said

    Raises:
        JournalError: that could not be written; it was not executed
    """
    chosen = call.action
    assert chosen is not None
    environment = agent.environment
    try:
        if chosen.access_policy != ACCESS_PERMITTED and not await _permits(
            agent, call, asked, known
        ):
            return failed(NotPermitted(f'"{call.name}" not permitted'))
        if begin is not None:
            await begin()
        kwargs = _injected(agent, chosen, call.kwargs, asked)
        method = getattr(environment, "aexecute_action", None)
        if method is None:  # an environment of the user's own, with only the sync form
            result = await execute_in_thread(environment, chosen, kwargs)
        else:
            result = await method(chosen, kwargs)
        if inspect.isawaitable(result):  # an override of the sync form may be async
            result = await result
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return failed(error)  # something that was awaited was cancelled, not this
    except JournalError:
        raise
    except Exception as error:
        log_failure(logger, f"the environment of agent {agent.id!r} failed on {call.name!r}", error)
        return failed(error)
    if not isinstance(result, dict):
        return failed(TypeError(f"the environment gave no result but {type(result).__name__}"))
    return result


class Permission(Protocol):
    """Whether a call was permitted, kept for when its run goes on."""

    def has(self, fingerprint: str) -> bool:
        """Whether exactly this was."""
        ...

    def keep(self, fingerprint: str) -> None:
        """Keep that it was."""
        ...


async def with_hooks(
    agent: ReActAgent,
    call: Wanted,
    iteration: int,
    asked: Asked,
    acted: Callable[[], Awaitable[dict[str, Any]]],
    broken: list[HookError],
) -> dict[str, Any]:
    """Execute a call with the agent's hooks around it.

    Args:
        agent: whose hooks
        call: the call, whose arguments they may change
        iteration: which answer of the model it is of
        asked: what the run is asked
        acted: executes it
        broken: the errors of hooks that end the reply are put here
    """
    hooks = agent._hooks
    assert hooks is not None
    about: dict[str, Any] = {
        "action": call.name,
        "args": copy_json(call.args),
        "iteration": iteration,
        "call_id": call.id,
        "run_id": asked.run_id,
        "thread": asked.thread,
    }
    try:
        about = await hooks.run("pre_acting", agent, about, lambda made: expect_args(made["args"]))
        _change(call, about["args"])
    except HookError as error:
        if error.__cause__ is None:
            broken.append(error)  # it gave what is no arguments: nothing for the model to mend
            return failed(error)
        # What the hook raised says to the model why the call was not executed.
        logger.warning("%s; it was not executed", error)
        return failed(error.__cause__)
    except InvalidArguments as error:
        logger.warning("agent %r: a pre_acting hook gave wrong arguments: %s", agent.id, error)
        return failed(error)
    result = await acted()
    if not hooks.has("post_acting"):
        return result
    try:
        made = await hooks.run(
            "post_acting",
            agent,
            {**about, "result": result},
            lambda made: expect(made["result"], dict),
        )
    except HookError as error:
        broken.append(error)
        return result
    return made["result"]  # type: ignore[no-any-return]


def _change(call: Wanted, args: dict[str, Any]) -> None:
    """Put a hook's arguments in the place of the model's, checked like these."""
    if args == call.args:
        return
    assert call.action is not None
    call.args = copy_json(args)
    call.kwargs = call.action.check(call.args)


def _injected(
    agent: ReActAgent, chosen: Action, kwargs: dict[str, Any], asked: Asked
) -> dict[str, Any]:
    try:
        injected = chosen.signature.injected
    except DefinitionError:
        return kwargs  # its parameters were given by hand: the function says nothing usable
    if injected:
        handling = CURRENT.get()
        message = None if handling is None else handling.message()
        context: Context[Any] = Context(
            agent,
            run_id=asked.run_id,
            thread=asked.thread,
            sender=None if message is None else message["from"],
            budget=agent.budget if asked.budget is None else asked.budget,
            deps=agent.deps if asked.deps is None else asked.deps,
        )
        fill = [name for name, kind in injected.items() if issubclass(kind, Context)]
        return {**kwargs, **dict.fromkeys(fill, context)}
    return kwargs


async def _permits(agent: ReActAgent, call: Wanted, asked: Asked, known: Permission | None) -> bool:
    """Whether this very call may be executed; whoever is asked cannot change it."""
    if call.action is None or call.action.access_policy == ACCESS_DENIED:
        return False
    id = str(agent.id)
    args = copy_json(call.args)
    message = {"from": id, "to": id, "action": {"name": call.name, "args": args}}
    exact = "" if known is None else ApprovalRequest.of(message).fingerprint
    if known is not None and known.has(exact):
        return True
    if asked.seen is not None and not getattr(agent._approver(), "awaits_reader", False):
        await asked.seen()  # the call was shown: nobody is asked about what they do not know of
    ask: Callable[..., Any] = agent.request_permission
    try:
        if is_async(ask):
            permitted = await ask(message)
        else:  # an override may be a plain function, and wait for a person
            permitted = await WORKERS.run(asyncio.get_running_loop(), ask, message)
    except Exception as error:
        about = f"request_permission of agent {agent.id!r} failed on {call.name!r}"
        log_failure(logger, about, error)
        return False
    if permitted is not True:
        return False
    if known is not None:
        known.keep(exact)
    return True
