"""States as JSON: of an agent, of what it remembers, of an orchestrator, of what comes of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from civitas.errors import StateError
from civitas.jsonvalue import NotJSON, copy_json
from civitas.models.protocol import Call, ModelReply, Usage
from civitas.reasoning.prompts import as_json
from civitas.reasoning.reply import Reply, Step

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from civitas.memory.memory import Memory


class Codec(NamedTuple):
    """How a result is written as JSON data and read back, where its type alone does not say it."""

    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]


def result_json(result: Any, of: Any) -> Any:
    """The result of a step as it is recorded; `of` is its type, or its codec."""
    return of.dump(result) if isinstance(of, Codec) else result


def read_result(value: Any, of: Any) -> Any:
    """The result of a step, as it was recorded."""
    if isinstance(of, Codec):
        return of.load(value)
    if of is None or of is Any:
        return value
    from pydantic import TypeAdapter

    return TypeAdapter(of).validate_python(value)


def usage_json(usage: Usage) -> list[int]:
    """The tokens in and out."""
    return [usage.input_tokens, usage.output_tokens]


def step_json(step: Step) -> dict[str, Any]:
    """An action that was called."""
    return {
        "iteration": step.iteration,
        "action": step.action,
        "args": as_json(step.args),
        "result": as_json(step.result),
        "error": step.error,
        "run_id": step.run_id,
        "thread": step.thread,
    }


def reply_json(reply: Reply) -> dict[str, Any]:
    """What came of asking an agent."""
    return {
        "text": reply.text,
        "value": as_json(reply.value),
        "messages": as_json(reply.messages),
        "steps": [step_json(step) for step in reply.steps],
        "usage": usage_json(reply.usage),
        "stop_reason": reply.stop_reason,
        "detail": reply.detail,
        "run_id": reply.run_id,
    }


def reply_of_json(given: dict[str, Any], run_id: str) -> Reply:
    """What came of asking an agent, as it was recorded."""
    return Reply(
        given["text"],
        given["value"],
        given["messages"],
        [Step(**step) for step in given["steps"]],
        Usage(*given["usage"]),
        given["stop_reason"],
        given["detail"],
        None,
        run_id,
    )


REPLY: Final = Codec(reply_json, lambda given: reply_of_json(given, given["run_id"]))
"""A reply as the result of a step."""


def answer_json(answer: Any) -> dict[str, Any]:
    """A model's answer, whatever it is: what is wrong with it is as wrong when it is read back."""
    usage = getattr(answer, "usage", None)
    calls = getattr(answer, "calls", None)
    return {
        "type": type(answer).__name__,
        "text": as_json(getattr(answer, "text", None)),
        "calls": [
            {"id": as_json(_part(call, "id")), "name": as_json(_part(call, "name"))}
            | {"args": as_json(_part(call, "args"))}
            for call in calls
        ]
        if isinstance(calls, tuple | list)
        else as_json(calls),
        "usage": usage_json(usage) if isinstance(usage, Usage) else None,
        "finish_reason": as_json(getattr(answer, "finish_reason", None)),
        "reasoning": as_json(getattr(answer, "reasoning", "")),
    }


def answer_of_json(given: dict[str, Any]) -> ModelReply:
    """What a model answered, as it was recorded."""
    calls = given["calls"]
    if isinstance(calls, list):
        calls = tuple(Call(call["id"], call["name"], call["args"]) for call in calls)
    usage = given["usage"]
    return ModelReply(
        given["text"],
        calls,
        Usage() if usage is None else Usage(*usage),
        given["finish_reason"],
        given["reasoning"],
    )


ANSWER: Final = Codec(answer_json, answer_of_json)
"""A model's answer as the result of a step."""


def _part(of: Any, name: str) -> Any:
    return getattr(of, name, None)


S = TypeVar("S")

VERSION: Final = 1

APPENDED: Final = {"civitas": "appended"}
"""The metadata of a state's field that is a list which only grows: each item is recorded once. As
in `lines: list[str] = field(default_factory=list, metadata=APPENDED)`."""
LIVE: Final = {"civitas": "live"}
"""The metadata of a state's field that is not saved, such as a type that was asked for."""


def state(kind: str, **parts: Any) -> dict[str, Any]:
    """A state of this kind, made of JSON alone, that shares nothing with the agent."""
    try:
        copied: dict[str, Any] = copy_json({"kind": kind, "version": VERSION, **parts})
    except NotJSON as error:
        raise StateError(f"the state of a {kind} cannot be written as JSON: {error}") from error
    return copied


def opened(given: Any, kind: str) -> dict[str, Any]:
    """A state that was given back, if it is one of this kind."""
    if not isinstance(given, dict) or given.get("kind") != kind:
        what = given.get("kind") if isinstance(given, dict) else type(given).__name__
        raise StateError(f"this is no state of a {kind}, but of {what!r:.80}")
    if given.get("version") != VERSION:
        raise StateError(
            f"this state of a {kind} is of version {given.get('version')!r:.80}; this civitas "
            f"reads version {VERSION}"
        )
    try:
        copied: dict[str, Any] = copy_json(given)
    except NotJSON as error:
        raise StateError(f"the state of a {kind} is damaged: {error}") from error
    return copied


def dumped(state: Any) -> dict[str, Any]:
    """A state, or whatever dataclass, as JSON data."""
    return {
        each.name: as_json(getattr(state, each.name))
        for each in fields(state)
        if each.metadata != LIVE
    }


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """What checks a state of a kind; made once, as that takes 2 ms."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def loaded(kind: type[S], data: Any, whose: str) -> S:
    """The state that JSON data is. What an older program did not save is as a state begins."""
    from pydantic import ValidationError
    from pydantic_core import to_json

    known = {each.name for each in fields(cast(Any, kind)) if each.metadata != LIVE}
    try:
        if not isinstance(data, dict):
            raise TypeError(f"it must be an object, got {type(data).__name__}")
        text = to_json({name: value for name, value in data.items() if name in known})
        made: S = _adapter(cast(Any, kind)).validate_json(text, strict=True)
    except (ValidationError, TypeError, ValueError) as error:
        raise StateError(f"{whose}: the state of a {kind.__name__} is damaged: {error}") from error
    return made


def memory_state(memory: Memory) -> dict[str, Any]:
    """What a memory remembers. One that keeps it somewhere itself says so in its own form."""
    own: Any = getattr(memory, "state_dict", None)
    if callable(own):
        made: dict[str, Any] = own()
        return made
    return {"items": memory.get_memories()}


def restore_memory(memory: Memory, given: Any, agent: Any) -> None:
    """Have a memory remember what another did, and nothing else."""
    own: Any = getattr(memory, "load_state_dict", None)
    if callable(own):
        own(given)
        return
    items = given.get("items") if isinstance(given, dict) else None
    if not isinstance(items, list) or not all(
        isinstance(item, dict) and isinstance(item.get("role"), str) for item in items
    ):
        raise StateError(f"agent {agent!r}: the state of its memory is no list of chat messages")
    listed: Any = getattr(memory, "items", None)
    if isinstance(listed, list):
        listed.clear()
    if memory.get_memories():
        raise StateError(
            f"agent {agent!r}: its {type(memory).__name__} keeps what it has and has no "
            "load_state_dict: load into an agent with a new memory"
        )
    for item in items:
        memory.add_memory(item)
