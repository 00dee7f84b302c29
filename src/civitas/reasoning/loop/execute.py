"""Executing one call of a model's answer, as far as it is permitted."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

from civitas.action import ACCESS_DENIED, ACCESS_PERMITTED, Action, is_async
from civitas.agent import CURRENT
from civitas.approval import ApprovalRequest
from civitas.context import Context, filled
from civitas.environment import execute_in_thread, failed
from civitas.errors import DefinitionError, JournalError
from civitas.jsonvalue import copy_json
from civitas.reasoning.loop.answer import Wanted
from civitas.reasoning.loop.parts import LoopAgent
from civitas.reasoning.record import NULL_STEP, Step
from civitas.reasoning.reply_request import Asked
from civitas.refusal import Decision, not_permitted
from civitas.text import log_failure
from civitas.threads import WORKERS

logger = logging.getLogger("civitas.reasoning")


async def execute(
    agent: LoopAgent, call: Wanted, asked: Asked, step: Step = NULL_STEP
) -> dict[str, Any]:
    """Execute a call, as far as it is permitted, and give its result."""
    chosen = call.action
    assert chosen is not None
    environment = agent.environment
    try:
        if chosen.access_policy != ACCESS_PERMITTED:
            decision = await _permits(agent, call, asked, step)
            if decision is not True:
                return failed(not_permitted(call.name, decision))
        if step is not NULL_STEP:
            await step.begins(call.args)
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


def _injected(
    agent: LoopAgent, chosen: Action, kwargs: dict[str, Any], asked: Asked
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
        return {**kwargs, **filled(injected, context)}
    return kwargs


async def _permits(agent: LoopAgent, call: Wanted, asked: Asked, step: Step) -> Decision:
    """Whether this very call may be executed; whoever is asked cannot change it."""
    if call.action is None or call.action.access_policy == ACCESS_DENIED:
        return False
    id = str(agent.id)
    args = copy_json(call.args)
    message = {"from": id, "to": id, "action": {"name": call.name, "args": args}}

    async def asks() -> Any:
        if asked.seen is not None and not getattr(agent._approver(), "awaits_reader", False):
            await asked.seen()  # the call was shown: nobody is asked about what they do not know of
        ask: Callable[..., Any] = agent.request_permission
        if is_async(ask):
            return await ask(message)
        # An override may be a plain function, and wait for a person.
        return await WORKERS.run(asyncio.get_running_loop(), ask, message)

    try:
        if step is NULL_STEP:
            return await asks()  # type: ignore[no-any-return]
        decision: Decision = await step.permitted(ApprovalRequest.of(message).fingerprint, asks)
        return decision
    except JournalError:
        raise
    except Exception as error:
        about = f"request_permission of agent {agent.id!r} failed on {call.name!r}"
        log_failure(logger, about, error)
        return False
