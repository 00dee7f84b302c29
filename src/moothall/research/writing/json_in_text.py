"""JSON in a model's text: amid words, in fences, after its thinking, cut off at its end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from pydantic_core import from_json

_MAX_CHARS: Final = 300_000  # characters that are looked through
_MAX_STARTS: Final = 100  # places at which a value is looked for, at most
_THINKING: Final = re.compile(
    r"<(think|thinking|thought|reasoning|reflection)>.*?(?:</\1>|\Z)"
    r"|<\|channel\|>(?:analysis|commentary).*?(?=<\|channel\|>final|\Z)"
    r"|\[THINK\].*?(?:\[/THINK\]|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_OPENED_BEFORE: Final = re.compile(  # a template may have opened it in the prompt
    r"\A.*</(?:think|thinking|thought|reasoning|reflection)>|\A.*\[/THINK\]",
    re.DOTALL | re.IGNORECASE,
)
_SPECIAL_TOKEN: Final = re.compile(r"<\|channel\|>final|<\|[a-z_]{1,30}\|>", re.IGNORECASE)
_EXTRA_COMMA: Final = re.compile(r",(?=\s*[}\]])")  # a comma too many
_OPENING_BRACKET: Final = re.compile(r"[{\[]")
_DECODER: Final = json.JSONDecoder(strict=False)


def without_thinking(text: str) -> str:
    """Return a model's text without its thinking, which some servers leave in it."""
    text = _OPENED_BEFORE.sub("", _THINKING.sub("", text))
    return _SPECIAL_TOKEN.sub("", text).strip()


def is_all_json(text: str) -> bool:
    """Return whether a text is one JSON value and nothing else."""
    try:
        _DECODER.decode(text.strip())
    except (ValueError, RecursionError):
        return False
    return True


def values_in(text: str) -> list[Any]:
    """Return the JSON in a model's text, else in its thinking; also with small faults."""
    text = _EXTRA_COMMA.sub("", text[:_MAX_CHARS])
    return [*_values(without_thinking(text))] or [*_values(text)]


def _values(text: str) -> Iterator[Any]:
    at = 0
    for _ in range(_MAX_STARTS):
        match = _OPENING_BRACKET.search(text, at)
        if match is None:
            return
        at = match.start()
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            value = _partial_value(text[at:])
            at = at + 1 if value is None else len(text)
        if isinstance(value, dict | list) and value:
            yield value


def _partial_value(text: str) -> Any:
    """Return the value that a text begins and does not end; None if it is no JSON."""
    try:
        return from_json(text, allow_partial=True)
    except ValueError:
        return None
