"""What the chat shows: messages, help, and answers as they come; nothing a terminal obeys."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from civitas.errors import SlashError
from civitas.slash import format_slash
from civitas.text import escaped, escaped_json

MAX_SHOWN: Final = 4000
"""How many characters of a message are shown."""
INDENT: Final = "  "
"""What stands before each line of a message but the first, so that none passes for another's."""

_ERASE: Final = "\r\x1b[K"
_BEHIND_A_WORD: Final = re.compile(r"(?<=[^ \t\n])(?=[ \t\n])|(?<=[\u2e80-\uffff])")
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


def shown_message(message: dict[str, Any], me: str) -> str:
    """A message as it is shown: who says what, or who wants what of whom."""
    sender, to, action = message["from"], message["to"], message["action"]
    name, args = action["name"], action.get("args", {})
    rest = {key: value for key, value in args.items() if key not in _BESIDE}
    is_said = rest.keys() == {_SPOKEN.get(name)}
    said = rest[_SPOKEN[name]] if is_said else None
    text = said if isinstance(said, str) else _arguments(rest)
    if not (is_said and to == me):
        return told(said_by(f"{sender} → {to}") + f"{escaped(name)} ", shown_text(text))
    head = said_by(sender)
    if name == "error":
        head += "\x1b[31merror:\x1b[0m " if has_colours() else "error: "
    if not isinstance(said, str):
        text = "(nothing)" if said is None else escaped_json(said)
    return told(head, shown_text(text))


def said_by(who: object) -> str:
    """What stands before what somebody says."""
    shown = f"{escaped(str(who))}:"
    return f"\x1b[1m{shown}\x1b[0m " if has_colours() else f"{shown} "


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


# -- answers as they come --------------------------------------------------------------------------


@dataclass
class _Answer:
    """An answer that is coming."""

    id: str  # who answers
    text: str = ""
    shown: int = 0  # how many characters of it are on the screen
    column: int = 0  # where the cursor stands behind them
    whole: bool = False  # whether nothing more comes of it

    def rest(self) -> str:
        """What is to be written on: whole words, and no space that nothing follows."""
        end = min(len(self.text.rstrip()), MAX_SHOWN)
        if not self.whole:  # what may be a part of a word waits for the rest of it
            ends = [found.start() for found in _BEHIND_A_WORD.finditer(self.text, self.shown)]
            end = min(end, ends[-1]) if ends else 0
        new, self.shown = self.text[self.shown : end], max(self.shown, end)
        return new


class Transcript:
    """Lines, and one answer at a time that is written on as its pieces come.

    Nothing that was written is taken back but the line that says who is at work, between the codes
    `dim`. On a terminal that cannot take it back, where these are None, answers are written when
    they are whole. Where a line comes between the parts of an answer, it goes on below that.
    """

    def __init__(self, write: Callable[[str], None], dim: tuple[str, str] | None) -> None:
        self._write = write
        self._dim = dim
        self._answers: list[_Answer] = []  # the first has its turn
        self._coming: dict[str, _Answer] = {}  # those that are not whole, by who answers
        self._open = False  # whether the cursor stands behind the first answer
        self._at_work = ""
        self._marked = False  # whether the line that says so is there
        self._held = False

    def line(self, line: str) -> None:
        """Write a whole line, or several."""
        self._make_way()
        self._write(f"{line}\n")
        self._mark()

    def piece(self, id: str, text: str) -> None:
        """Write a piece of an answer, when the answer has its turn."""
        if self._dim is None:
            return
        answer = self._coming.get(id) or self._begun(id)
        answer.text = answer.text + text if answer.text else text.lstrip()
        self._go_on()

    def over(self, id: str) -> None:
        """Nothing more comes of what this one was saying."""
        if (answer := self._coming.pop(id, None)) is not None:
            answer.whole = True
            self._go_on()

    def answered(self, id: str, text: str) -> None:
        """Have a whole answer there, once; pieces of it may be there already."""
        answer = self._coming.get(id)
        said = text.strip()
        if answer is not None and not said.startswith(answer.text[: answer.shown]):
            self.over(id)  # what was to be seen of it is no part of what it came to
            answer = None
        answer = answer or self._begun(id)
        answer.text = said or "(nothing)"
        self.over(id)

    def at_work(self, ids: list[str], seconds: int = 0) -> None:
        """Who is waited for, and for how long; nobody for an empty list."""
        verb = "are" if len(ids) > 1 else "is"
        names = ", ".join(escaped(id) for id in ids)
        since = f", {seconds} s" if seconds else ""
        self._at_work = f"{names} {verb} at work{since}" if ids else ""
        if not self._held:
            self._unmark()
            self._mark()

    def hold(self) -> None:
        """Write nothing more of answers until `release`: something else has the screen."""
        self._make_way()
        self._held = True

    def release(self) -> None:
        """Write on."""
        self._held = False
        self._go_on()

    # -- how it is written -------------------------------------------------------------------------

    def _begun(self, id: str) -> _Answer:
        answer = self._coming[id] = _Answer(id)
        self._answers.append(answer)
        return answer

    def _go_on(self) -> None:
        """Write what there is, until an answer of which more comes."""
        while self._answers and not self._held:
            answer = self._answers[0]
            before = answer.shown
            if new := answer.rest():
                self._unmark()
                if not self._open:
                    self._open = True
                    self._write(said_by(answer.id))
                    answer.column = width_of(f"{escaped(answer.id)}: ")
                    new = f"…{new.lstrip()}" if before else new
                text, answer.column = folded(new, answer.column, columns())
                self._write(text)
            if not answer.whole:
                break
            if (left := len(answer.text.rstrip()) - MAX_SHOWN) > 0:
                self._write(left_out(left))
            self._answers.pop(0)
            self._make_way()
        self._mark()

    def _make_way(self) -> None:
        """Have the cursor at the beginning of an empty line."""
        self._unmark()
        if self._open:
            self._open = False
            self._write("\n")

    def _mark(self) -> None:
        if self._dim and self._at_work and not (self._marked or self._open or self._held):
            shown, room = "", (columns() or 80) - 1
            for character in self._at_work:
                room -= width_of(character)
                if room < 0:
                    break
                shown += character
            self._write(f"{self._dim[0]}{shown}{self._dim[1]}")
            self._marked = True

    def _unmark(self) -> None:
        if self._marked:
            self._marked = False
            self._write(_ERASE)
