"""What comes of a run as JSON data: to be saved, recorded or printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, Final, NamedTuple

from civitas.jsonvalue import NotJSON, to_json
from civitas.models.protocol import Call, ModelReply, Usage
from civitas.reasoning.prompts import json_text, readable
from civitas.reasoning.reply import Reply, Step

__all__ = [
    "ANSWER",
    "REPLY",
    "Codec",
    "answer_json",
    "answer_of_json",
    "as_json",
    "deep_json",
    "reply_json",
    "reply_of_json",
    "step_json",
    "usage_json",
]


class Codec(NamedTuple):
    """How a result is written as JSON data and read back, where its type alone does not say it."""

    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]


def as_json(value: Any) -> Any:
    """A value as JSON data, or a text in its place: the one that a model is shown for it.

    Of an object, only the items that have no JSON form are replaced.
    """
    try:
        return to_json(value)
    except NotJSON:
        if isinstance(value, dict):
            return {readable(str(key)): _or_text(item) for key, item in value.items()}
        return json_text(value)


def deep_json(value: Any) -> Any:
    """A value as JSON data, with the text of each part, however deep, that has no JSON form."""
    if isinstance(value, dict):
        return {readable(str(key)): deep_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [deep_json(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: deep_json(getattr(value, each.name)) for each in fields(value)}
    return as_json(value)


def _or_text(value: Any) -> Any:
    try:
        return to_json(value)
    except NotJSON:
        return json_text(value)


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
