"""Messages, answers and help as the chat shows them, with nothing that a terminal obeys."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping
from typing import Any, Final

from civitas.approval import escaped, escaped_json
from civitas.errors import SlashError
from civitas.slash import format_slash

MAX_SHOWN: Final = 4000
"""How many characters of a message are shown."""
INDENT: Final = "  "
"""What stands before each line of a message but the first, so that none passes for another's."""

_LEAST_BESIDE: Final = 26
"""How many columns what an action does needs beside it."""

# What such a message is about is this argument, shown as it stands if it is a text.
_SPOKEN = {"say": "content", "response": "data", "error": "error"}
_BESIDE = {"original_message_id"}
_PARTS: Final = re.compile(r"\n|[ \t]+|[\u2e80-\uffff]|[^ \t\n\u2e80-\uffff]+")


def is_dumb() -> bool:
    """Whether the terminal knows no more than new lines."""
    return os.environ.get("TERM", "").lower() in ("", "dumb", "unknown")


def has_colours() -> bool:
    """Whether standard output is a terminal that has them, and NO_COLOR is not set."""
    if sys.stdout is None or not sys.stdout.isatty():
        return False
    return not (is_dumb() or os.environ.get("NO_COLOR"))


def columns() -> int | None:
    """How wide the terminal is; None where standard output is none."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def width_of(text: str) -> int:
    """How many columns a text takes."""
    if text.isascii():
        return len(text)
    try:
        from prompt_toolkit.utils import get_cwidth
    except ImportError:  # it is not needed where there is no terminal
        return len(text)
    return get_cwidth(text)


def folded(text: str, column: int, width: int | None) -> tuple[str, int]:
    """A text from a column on, in lines that end between words; and the column behind it."""
    written, before = [], ""
    for part in _PARTS.findall(text):
        if part == "\n":
            written.append("\n")
            column, before = 0, ""
        elif part.isspace():
            before += part.expandtabs(4)
        else:
            part = escaped(part)
            if width and column > len(INDENT) and column + len(before) + width_of(part) > width:
                written.append("\n")
                column, before = 0, ""
            if not column:
                before = INDENT + before
            written.append(before + part)
            column += len(before) + (width_of(part) if width else len(part))
            before = ""
    return "".join(written), column


def shown_message(message: dict[str, Any], me: str, colours: bool = False) -> str:
    """A message as it is shown: who says what, or who wants what of whom."""
    sender, to, action = message["from"], message["to"], message["action"]
    name, args = action["name"], action.get("args", {})
    rest = {key: value for key, value in args.items() if key not in _BESIDE}
    spoken = rest.get(_SPOKEN[name]) if rest.keys() == {_SPOKEN.get(name)} else rest
    if to == me and name in _SPOKEN and spoken is not rest:
        head = said_by(sender, colours)
        if name == "error":
            head += "\x1b[31merror:\x1b[0m " if colours else "error: "
    else:
        head = said_by(f"{sender} → {to}", colours) + f"{escaped(name)} "
        if spoken is not rest and not isinstance(spoken, str):
            spoken = rest
    if isinstance(spoken, str):
        text = shown_text(spoken)
    elif spoken is not rest:
        text = shown_text("(nothing)" if spoken is None else escaped_json(spoken))
    else:
        text = shown_text(_arguments(rest))
    return told(head, text)


def said_by(who: object, colours: bool = False) -> str:
    """What stands before what somebody says."""
    shown = f"{escaped(str(who))}:"
    return f"\x1b[1m{shown}\x1b[0m " if colours else f"{shown} "


def told(head: str, text: str) -> str:
    """A text behind a head, folded; without one it is the program's own."""
    column = width_of(re.sub(r"\x1b\[\d+m", "", head))
    shown = folded(text, column, columns())[0].rstrip()
    return f"{head}{shown}" if head else shown.removeprefix(INDENT)


def shown_text(text: str) -> str:
    """What is said in a message, as far as it is shown."""
    text = text.strip().replace("\r\n", "\n")
    left = len(text) - MAX_SHOWN
    return text[:MAX_SHOWN] + (left_out(left) if left > 0 else "")


def left_out(characters: int) -> str:
    """What stands in the place of the rest of a text."""
    return f"… ({characters:,} more characters)"


def help_table(offers: Mapping[str, Any]) -> str:
    """What agents offer, by their ids, as a table: what to type, and what it does."""
    rows = [
        (_call(id, name, described), _description(described))
        for id, actions in offers.items()
        for name, described in (actions.items() if isinstance(actions, Mapping) else ())
    ]
    width = columns() or 100
    left = max((width_of(call) for call, _ in rows), default=0) + len(INDENT)
    beside = left + _LEAST_BESIDE <= width  # else what an action does stands below it
    lines = []
    for call, description in rows:
        lines += textwrap.wrap(call, width, initial_indent=INDENT, subsequent_indent=INDENT * 2)
        room = width - left - len(INDENT) if beside else width - 3 * len(INDENT)
        for number, text in enumerate(textwrap.wrap(description, room)):
            if beside and not number:
                lines[-1] += " " * (left - width_of(lines[-1])) + INDENT + text
            else:
                lines.append((" " * left + INDENT if beside else INDENT * 3) + text)
    return "\n".join(lines)


def _call(id: str, name: str, described: Any) -> str:
    """How an action is typed, without the values; what may be left out is in brackets."""
    args = described.get("args") if isinstance(described, Mapping) else None
    names = []
    for arg, of in args.items() if isinstance(args, Mapping) else ():
        shown = escaped(str(arg))
        names.append(f"[{shown}]" if isinstance(of, Mapping) and "default" in of else shown)
    try:
        line = format_slash({"to": id, "action": {"name": name}})
    except SlashError:
        line = f"/{escaped_json(id)}.{escaped_json(name)}"
    return escaped(" ".join((line, *names)))[:MAX_SHOWN]


def _description(described: Any) -> str:
    """The first line of what an action says of itself."""
    text = described.get("description") if isinstance(described, Mapping) else described
    line = str(text or "").strip().partition("\n")[0]
    return escaped(line[:MAX_SHOWN])


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
