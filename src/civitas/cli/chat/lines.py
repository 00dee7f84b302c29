"""Messages as the chat shows them: one line each, with sender and receiver."""

from __future__ import annotations

import os
import sys
from typing import Any

from civitas.approval import escaped
from civitas.errors import SlashError
from civitas.slash import format_slash

MAX_SHOWN = 4000
"""How many characters of a message are shown."""

# What such a message is about is this argument, shown as it stands if it is a text.
_SPOKEN = {"say": "content", "response": "data", "error": "error"}
_BESIDE = {"original_message_id"}
_COLOURS = {"error": "31", "response": "32", "say": "36"}


def is_dumb() -> bool:
    """Whether the terminal knows no more than new lines."""
    return os.environ.get("TERM", "").lower() in ("", "dumb", "unknown")


def has_colours() -> bool:
    """Whether standard output is a terminal that has them, and NO_COLOR is not set."""
    if sys.stdout is None or not sys.stdout.isatty():
        return False
    return not (is_dumb() or os.environ.get("NO_COLOR"))


def shown_message(message: dict[str, Any], colours: bool = False) -> str:
    """A message as one line, with nothing in it that a terminal obeys but our own colours."""
    action = message["action"]
    name, args = action["name"], action.get("args", {})
    rest = {key: value for key, value in args.items() if key not in _BESIDE}
    spoken = _SPOKEN.get(name)
    if spoken is not None and rest.keys() == {spoken} and isinstance(rest[spoken], str):
        text = shown_text(rest[spoken])
    else:
        whole = _arguments(rest)
        text = whole[:MAX_SHOWN]
        if len(whole) > MAX_SHOWN:
            text += left_out(len(whole) - MAX_SHOWN)
    return f"{message_head(message, colours)}  {text}".rstrip()


def message_head(message: dict[str, Any], colours: bool = False) -> str:
    """From whom a message is to whom, and of which action."""
    name = message["action"]["name"]
    who = f"{escaped(str(message['from']))} → {escaped(message['to'])}"
    shown = escaped(name)
    if colours:
        who = f"\x1b[1m{who}\x1b[0m"
        shown = f"\x1b[{_COLOURS.get(name, '33')}m{shown}\x1b[0m"
    return f"{who}  {shown}"


def shown_text(text: str) -> str:
    """What is said in a message, as far as it is shown."""
    left = len(text) - MAX_SHOWN
    return escaped(text[:MAX_SHOWN]) + (left_out(left) if left > 0 else "")


def left_out(characters: int) -> str:
    """What stands in the place of the rest of a text."""
    return f"… ({characters:,} more characters)"


def _arguments(args: dict[str, Any]) -> str:
    parts = []
    for name, value in args.items():
        # The longest of these is not worth escaping for the few characters shown of it.
        if isinstance(value, str) and len(value) > 2 * MAX_SHOWN:
            value = value[: 2 * MAX_SHOWN]
        try:
            line = format_slash({"to": "*", "action": {"name": "x", "args": {name: value}}})
        except SlashError:
            line = "/*.x (an argument too long to show)"
        parts.append(line[5:])
    return " ".join(parts)
