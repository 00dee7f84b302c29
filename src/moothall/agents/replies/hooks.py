"""Hooks: user functions that see, and may change, what an agent is about to do or did."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from moothall.actions.approval import Later
from moothall.actions.provenance.marks import marks_of, stored_message, without_marks
from moothall.agents.replies.record import Record
from moothall.agents.replies.reply import Reply, Stop
from moothall.agents.replies.reply_context import ask_context, deps_of
from moothall.agents.replies.reply_request import ReplyRequest, check_changed, checked_content
from moothall.foundation.arguments import check_function
from moothall.foundation.errors import ConfigError, DeadlineExceeded, DefinitionError, HookError
from moothall.foundation.jsonvalue import copy_json
from moothall.foundation.text import nearest
from moothall.foundation.threads import is_cancelled
from moothall.models.protocol import ModelReply, Usage

if TYPE_CHECKING:
    from moothall.agents.replies.step import StepHandle
    from moothall.agents.replies.thread import Thread
    from moothall.budget import Budget

HookType: TypeAlias = Literal[
    "pre_reply",
    "post_reply",
    "pre_observe",
    "post_observe",
    "pre_reasoning",
    "post_reasoning",
    "pre_acting",
    "post_acting",
]
HOOK_TYPES: Final = get_args(HookType)
"""The types of hooks."""

_MIN_REMAINING_S: Final = 0.05
"""With less than this left, the time is over: work that the deadline ends may end a bit early."""

Hook: TypeAlias = Callable[
    [Any, dict[str, Any]], dict[str, Any] | Awaitable[dict[str, Any] | None] | None
]
"""`fn(agent, kwargs)`. The returned dict is merged into `kwargs`; None changes nothing."""

Hooks: TypeAlias = Mapping[str, Mapping[str, Hook]]
"""An agent's hooks by type and name, in order of registration; replaced when one is added."""

NO_HOOKS: Final[Hooks] = {}


async def run_hooks(
    agent: Any,
    type: str,
    kwargs: dict[str, Any],
    check: Callable[[dict[str, Any]], object],
    budget: Budget | None = None,
) -> dict[str, Any]:
    """Call an agent's hooks of a type in order; return the arguments as they changed them."""
    hooks = agent.hooks.get(type)
    if not hooks:
        return kwargs
    deps = deps_of(agent)
    for name, fn in hooks.items():
        limit: asyncio.Timeout | None = None
        try:
            # Copies: only the returned dict counts, so that a failed hook has changed nothing.
            kwargs_copy = kwargs.copy()
            for key, value in kwargs.items():
                if isinstance(value, (dict, list)):
                    kwargs_copy[key] = value.copy()
            kwargs_copy["deps"] = deps  # the program's own object
            result: Any = fn(agent, kwargs_copy)
            if result is None:
                continue
            if inspect.isawaitable(result):
                limit = asyncio.timeout(_seconds(type, budget))
                async with limit:
                    result = await result
        except (Exception, Later, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            if limit is not None and limit.expired():
                raise DeadlineExceeded(
                    f"agent {str(agent.id)!r}: the time limit was reached before the {type} "
                    f"hook {name!r} had ended"
                ) from error
            detail = f"{error.__class__.__name__}: {error}"
            raise HookError(str(agent.id), type, name, detail) from error
        if result is None:
            continue
        if not isinstance(result, dict):
            reason = f"it returned {result!r:.80}, which is neither a dict nor None"
            raise HookError(str(agent.id), type, name, reason)
        kwargs = {**kwargs, **result}
        try:
            check(kwargs)
        except Exception as error:
            raise HookError(str(agent.id), type, name, str(error)) from None
    return kwargs


async def hooked_value(
    record: Record[Any] | None,
    key: str,
    agent: Any,
    type: str,
    kwargs: dict[str, Any],
    name: str,
    check: Callable[[Any], object],
    budget: Budget | None = None,
    **options: Any,
) -> Any:
    """Return `kwargs[name]` as hooks changed it: the recorded value, or by calling them now."""
    hook_args = (agent, type, kwargs, lambda new: check(new[name]), budget)
    if record is None:
        return (await run_hooks(*hook_args))[name]

    async def call(step: StepHandle | None) -> Any:
        return (await run_hooks(*hook_args))[name]

    return await record.once(f"{type}.{key}", call, **options)


def _seconds(type: str, budget: Budget | None) -> float | None:
    """Return how many seconds a hook may take; None for no limit."""
    remaining = None if budget is None else budget.remaining_seconds()
    return (
        None
        if remaining is not None and remaining < _MIN_REMAINING_S and type.startswith("post_")
        else remaining
    )


def expect(value: object, kind: type) -> None:
    """Check that a hook returned a value of this kind."""
    if not isinstance(value, kind):
        raise TypeError(f"it gave no {kind.__name__} but {value!r:.80}")


def expect_messages(result: dict[str, Any]) -> None:
    """Check that a hook returned messages for a model."""
    messages = result["messages"]
    if not isinstance(messages, list) or not messages:
        raise TypeError(f"it gave no list of messages but {messages!r:.80}")
    for message in messages:
        if not isinstance(message, dict):
            raise TypeError(f"a message is a dict, and among those it gave is {message!r:.80}")


def expect_answer(original: object, answer: Any) -> None:
    """Check that a hook returned a `ModelReply`, or an answer of the model's own class."""
    if type(answer) is not type(original):
        expect(answer, ModelReply)


def expect_args(result: dict[str, Any]) -> None:
    """Check that a hook returned the arguments of a call."""
    expect(result["args"], dict)
    copy_json(result["args"])


def with_hook(hooks: Hooks, type: HookType, name: str, fn: Hook) -> Hooks:
    """Return hooks and one more, which replaces one of its name."""
    _check_type(type)
    if not isinstance(name, str) or not name:
        raise ConfigError(f"the name of a hook must be a text, got {name!r}")
    check_function(f"the {type} hook {name!r}", fn, "agent", "kwargs")
    return {**hooks, type: {**hooks.get(type, {}), name: fn}}


def without_hook(hooks: Hooks, type: HookType, name: str) -> Hooks:
    """Return hooks without one."""
    _check_type(type)
    remaining = dict(hooks.get(type, {}))
    if remaining.pop(name, None) is None:
        raise KeyError(f"there is no {type} hook {name!r}")
    return {**hooks, type: remaining}


async def reply_with_hooks(agent: Any, request: ReplyRequest) -> Reply:
    """Let an agent reply, with its `pre_reply` and `post_reply` hooks around it."""
    budget = agent.budget if request.budget is None else request.budget

    async def call(type: str, kwargs: dict[str, Any], check: Callable[[Any], object]) -> Any:
        try:
            return await run_hooks(agent, type, kwargs, check, budget)
        except DeadlineExceeded as error:
            raise Stop.at_limit(error) from error

    reply: Any = None
    kwargs = {"text": request.content, "schema": request.schema, **request.run_fields}
    try:
        kwargs = await call("pre_reply", kwargs, lambda new: check_changed(new, request))
        request.content = checked_content(kwargs["text"], "reply")
        if kwargs["schema"] is not request.schema:
            request.set_schema(kwargs["schema"])
        reply = await agent.respond(request)
        kwargs = {**kwargs, "reply": reply}
        changed = await call("post_reply", kwargs, lambda new: expect(new["reply"], Reply))
        return changed["reply"]  # type: ignore[no-any-return]
    except Stop as stop:
        return _stopped_reply(reply, request, stop)
    except HookError as error:
        return _stopped_reply(reply, request, Stop.on_hook(agent.id, error))


async def observe_with_hooks(agent: Any, item: dict[str, Any], thread: Thread) -> None:
    """Let an agent remember a message, with its `pre_observe` and `post_observe` hooks around."""

    def check(result: dict[str, Any]) -> dict[str, Any]:
        item: dict[str, Any] = agent.as_observed(result["message"])
        return item

    marks, message = marks_of(item), without_marks(item)
    kwargs = {"run_id": None, "thread": thread.id, "message": message}
    with ask_context(observation=None):  # what a hook observes is not this message of the run
        item = check(await run_hooks(agent, "pre_observe", kwargs, check))
    await agent.remember(stored_message(item, marks), thread)
    with ask_context(observation=None):
        await run_hooks(agent, "post_observe", {**kwargs, "message": item}, check)


def _stopped_reply(reply: Reply | None, request: ReplyRequest, stop: Stop) -> Reply:
    """Return the reply, or an empty one, with the reason of the hook that ended it."""
    reply = reply or Reply("", "", [], [], Usage(), stop.reason, run_id=request.run_id)
    return replace(reply, stop_reason=stop.reason, detail=stop.detail, error=stop.error)


def _check_type(type: object) -> None:
    if type not in HOOK_TYPES:
        raise DefinitionError(
            f"there are no {type!r} hooks; there are {', '.join(HOOK_TYPES)}"
            f"{nearest(str(type), HOOK_TYPES)}"
        )
