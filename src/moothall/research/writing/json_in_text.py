"""JSON in a model's text: amid words, in fences, after its thinking, with small mistakes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

_LONGEST: Final = 300_000  # characters that are looked through
_STARTS: Final = 100  # places at which a value is looked for, at most
_DEEPEST: Final = 60  # how deep values may be nested
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
_SPECIAL: Final = re.compile(r"<\|channel\|>final|<\|[a-z_]{1,30}\|>", re.IGNORECASE)
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*)
    |(?P<mark>[{}\[\],:])
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|“[^”]*”)
    |(?P<open>["'“].*)
    |(?P<word>[^\s{}\[\],:"'“]+)""",
    re.DOTALL | re.VERBOSE,
)
_LITERALS: Final = {"true": "true", "false": "false", "none": "null", "null": "null"}
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_OPENS: Final = re.compile(r"[{\[]")
_DECODER: Final = json.JSONDecoder(strict=False)


def without_thinking(text: str) -> str:
    """Return a model's text without its thinking, which some servers leave in it."""
    text = _OPENED_BEFORE.sub("", _THINKING.sub("", text))
    return _SPECIAL.sub("", text).strip()


def is_all_json(text: str) -> bool:
    """Return whether a text is one JSON value and nothing else."""
    try:
        _DECODER.decode(text.strip())
    except (ValueError, RecursionError):
        return False
    return True


def values_in(text: str) -> list[Any]:
    """Return the JSON objects and lists in a model's text, in their order.

    What stands after its thinking comes first; if there is nothing, the thinking is looked
    through too. Comments, single quotes, commas too many and a missing end are put up with.
    """
    text = text[:_LONGEST]
    return [*_values(without_thinking(text))] or [*_values(text)]


def _values(text: str) -> Iterator[Any]:
    at = 0
    for _ in range(_STARTS):
        match = _OPENS.search(text, at)
        if match is None:
            return
        at = match.start()
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            mended = _mended(text, at)
            if mended is None:
                at += 1
                continue
            value, at = mended
        if isinstance(value, dict | list) and value:
            yield value


def _mended(text: str, start: int) -> tuple[Any, int] | None:
    """Return the value that begins here, mended, and where it ends; None if it is no JSON."""
    tokens: list[str] = []
    ends: list[str] = []
    at = start
    while match := _TOKEN.match(text, at):
        at = match.end()
        kind, token = match.lastgroup, match[0]
        if kind == "open":  # a string without its end: the answer was cut off
            at = len(text)
            break
        if kind == "space":
            continue
        if kind == "string":
            token = _string(token)
        elif kind == "word":
            token = _word(token)
        elif token in "{[":
            ends.append("}" if token == "{" else "]")
            if len(ends) > _DEEPEST:
                return None
        elif token in "}]":
            _drop_loose(tokens)
            if token != ends[-1]:
                return None
            ends.pop()
        elif token == "," and (not tokens or tokens[-1] in ",{["):
            continue
        tokens.append(token)
        if not ends:
            break
    _drop_loose(tokens)
    tokens.extend(reversed(ends))
    try:
        return json.loads("".join(tokens), strict=False), at
    except (ValueError, RecursionError):
        return None


def _drop_loose(tokens: list[str]) -> None:
    """Drop a comma, or a key without its value, from the end."""
    if tokens and tokens[-1] == ":":
        del tokens[-2:]
    if tokens and tokens[-1] == ",":
        tokens.pop()


def _string(token: str) -> str:
    if token[0] == '"':
        return token
    inner = token[1:-1]
    if token[0] == "'":
        inner = inner.replace("\\'", "'")
    return '"' + re.sub(r'(?<!\\)"', r"\"", inner) + '"'


def _word(token: str) -> str:
    literal = _LITERALS.get(token.lower())
    return literal or (token if _NUMBER.fullmatch(token) else json.dumps(token))
