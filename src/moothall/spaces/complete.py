"""Completions of a line of the slash syntax: agents, actions and arguments, from `help`."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from moothall.actions.message import BROADCAST
from moothall.actions.slash import format_slash, parse_slash
from moothall.foundation.errors import InvalidMessage, MoothallError, SlashError

Help = Mapping[str, Any]
"""What `help` returns: the description of each action, by name."""

_ID = re.compile(r'\s*/("(?:[^"\\]|\\.)*"?|[^\s".:\\]*)')
_ACTION = re.compile(r'\s*/("(?:[^"\\]|\\.)*"|[^\s".:\\]+)\.("[^"]*"?|[^\s":\\]*)')
_CALL = re.compile(r'(\s*/(?:"(?:[^"\\]|\\.)*"|[^\s".:\\]+)\.[^\s":\\]+)\s+(\S.*)')
_WORD = re.compile(r"\w*$")
# `help` lists an agent's own actions, and every agent has it.
_HELP_ACTION: dict[str, Any] = {"help": {"args": {"action_name": {"type": "string"}}}}


async def completions(
    text: str, ids: list[str], help_of: Callable[[str], Awaitable[Help]]
) -> tuple[int, list[str]]:
    """Return how many characters at a text's end to replace, and what may replace them."""
    if match := _ID.fullmatch(text):
        return _matching_candidates(match[1], [_quoted_id(id) for id in (BROADCAST, *ids)], ".")
    if match := _ACTION.fullmatch(text):
        message = _parse_line(f"/{match[1]}.help")
        if message is None:
            return 0, []
        actions = await _find_actions(message["to"], ids, help_of)
        return _matching_candidates(match[2], [*filter(None, map(_quoted_action, actions))], " ")
    word = _WORD.search(text)
    assert word is not None  # it may be empty
    text_before = text[: word.start()]
    is_call = text_before.endswith(" ") and text_before.strip()[:1] == "/"
    message = _parse_line(text_before) if is_call else None
    if message is None:
        return 0, []
    action = message["action"]
    args = _args_of(await _find_actions(message["to"], ids, help_of), action["name"])
    names = [
        name + (':"' if isinstance(schema, Mapping) and schema.get("type") == "string" else ":")
        for name, schema in args.items()
        if name not in action["args"] and name.isidentifier()
    ]
    return _matching_candidates(word[0], names, "")


async def completed_call(line: str, help_of: Callable[[str], Awaitable[Help]]) -> str:
    """Return a line with the names that its arguments lack; empty if they are not known."""
    match = _CALL.match(line)
    if match is None or ":" in match[2] or '"' in match[2] or not match[2].isprintable():
        return ""
    message = _parse_line(match[1])
    if message is None or message["to"] == BROADCAST:
        return ""
    args = _args_of(await help_of(message["to"]), message["action"]["name"])
    if not args:
        return ""
    words = match[2].split(maxsplit=len(args) - 1)
    pairs = zip(args.items(), words, strict=False)  # the last may be left out
    try:
        values = {name: _read_value(word.strip(), schema) for (name, schema), word in pairs}
        return format_slash({**message, "action": {**message["action"], "args": values}})
    except (MoothallError, ValueError, RecursionError):  # a word is not a valid value
        return ""


def _parse_line(line: str) -> dict[str, Any] | None:
    """Return the message of a line, or None if the line is not one."""
    try:
        return parse_slash(line)
    except SlashError:
        return None


def _args_of(help: Help, action: str) -> Mapping[str, Any]:
    """Return the arguments of an action; empty if something else replaced its help."""
    action_help = help.get(action)
    args = action_help.get("args") if isinstance(action_help, Mapping) else None
    return args if isinstance(args, Mapping) else {}


def _read_value(word: str, schema: Any) -> Any:
    """Return a word as a value of its argument's type."""
    is_text = not isinstance(schema, Mapping) or schema.get("type", "string") == "string"
    return word if is_text else json.loads(word)


async def _find_actions(to: str, ids: list[str], help_of: Callable[[str], Awaitable[Help]]) -> Help:
    actions: dict[str, Any] = {}
    for id in ids if to == BROADCAST else [to]:
        if id in ids:
            actions |= await help_of(id)
    return actions | _HELP_ACTION if to == BROADCAST or to in ids else actions


def _matching_candidates(prefix: str, candidates: list[str], end: str) -> tuple[int, list[str]]:
    matches = [c + end for c in candidates if c.startswith((prefix, f'"{prefix}'))]
    return len(prefix), list(dict.fromkeys(matches))


def _quoted_id(id: str) -> str:
    return format_slash({"to": id, "action": {"name": "x"}})[1:-2]


def _quoted_action(name: str) -> str:
    """Return a name as it is written; empty for one, of another program, that none can call."""
    try:
        return format_slash({"to": "*", "action": {"name": name}})[3:]
    except InvalidMessage:
        return ""
