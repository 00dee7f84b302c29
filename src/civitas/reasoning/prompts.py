"""What a model is told: who it is, what came of its calls, what was wrong with its answer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

from civitas.goal import Goal, format_goals
from civitas.jsonvalue import NotJSON, to_json

MAX_RESULT_CHARS = 20_000
"""How much of a result a model is shown."""

EMPTY = "Your answer was empty. Answer with text, or call an action."
NOT_RUN = "not executed, because another call of the same answer was wrong"

_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def system_text(system_prompt: str | None, goals: Iterable[Goal]) -> str:
    """The system part of a prompt; empty if there is none."""
    return "\n\n".join(part for part in (system_prompt, format_goals(goals)) if part)


def result_content(result: dict[str, Any], limit: int) -> str:
    """A result as a model is shown it: the value as JSON (a text as it is), or the error alone.

    A traceback is for people; it is in the step.
    """
    error = result.get("error")
    if error is not None:
        return _JSON.encode({"error": cut(readable(str(error)), limit)})
    if "result" in result:
        return cut(json_text(result["result"]), limit)
    rest = {key: value for key, value in result.items() if key != "traceback"}
    return cut(json_text(rest), limit)


def json_text(value: Any) -> str:
    """A value as text: a string as it is, else its JSON, else what `str` makes of it."""
    kind = type(value)
    if kind is str:
        return readable(value)
    if kind is int:
        try:
            return str(value)
        except ValueError as error:  # more digits than Python prints
            return f"(an integer that cannot be shown: {error})"
    try:
        return _JSON.encode(to_json(value))
    except NotJSON:
        try:
            return readable(str(value))
        except Exception as error:
            return f"(a {kind.__name__} that cannot be shown: {type(error).__name__})"


def as_json(value: Any) -> Any:
    """A value as JSON data, or a text in its place: the one that a model is shown for it.

    Of an object, only the items that have no JSON form are replaced.
    """
    if not isinstance(value, dict):
        return _json_or_text(value)
    try:
        return to_json(value)
    except NotJSON:
        return {readable(str(key)): _json_or_text(item) for key, item in value.items()}


def _json_or_text(value: Any) -> Any:
    try:
        return to_json(value)
    except NotJSON:
        return json_text(value)


def deep_json(value: Any) -> Any:
    """A value as JSON data, with the text of each part, however deep, that has no JSON form."""
    if isinstance(value, dict):
        return {readable(str(key)): deep_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [deep_json(item) for item in value]
    if isinstance(value, BaseException):
        return readable(f"{type(value).__name__}: {value}")
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: deep_json(getattr(value, each.name)) for each in fields(value)}
    return as_json(value)


def readable(text: str) -> str:
    """The text, with `?` for what UTF-8 cannot carry."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


def cut(text: str, limit: int) -> str:
    """The text, or its beginning and a note that says so."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut: the first {limit} of {len(text)} characters]"


def marked(text: str) -> str:
    """Somebody else's text, each line marked, so that no line of it can pass for one of ours."""
    return "\n".join(f"| {line}" for line in text.splitlines()) or "| (nothing)"
