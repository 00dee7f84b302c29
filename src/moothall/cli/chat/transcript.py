"""What the chat shows: messages, help, and answers as they come, without control characters."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

from moothall.errors import InvalidMessage, SlashError
from moothall.slash import format_slash
from moothall.text import escaped, escaped_json

MAX_SHOWN: Final = 4000
"""How many characters of a message are shown."""
INDENT: Final = "  "
"""The indent of each line of a message but the first, so that none looks like another message."""

_ERASE: Final = "\r\x1b[K"
_BEHIND_A_WORD: Final = re.compile(r"(?<=[^ \t\n])(?=[ \t\n])|(?<=[\u2e80-\uffff])")
_LEAST_BESIDE: Final = 26
"""How many columns the description of an action needs to be beside it."""

# By action: the argument that is the message's content, shown as it is if it is a text.
_SPOKEN = {"say": "content", "response": "data", "error": "error"}
_BESIDE = {"original_message_id"}
_PARTS: Final = re.compile(r"\n|[ \t]+|[\u2e80-\uffff]|[^ \t\n\u2e80-\uffff]+")


def is_dumb() -> bool:
    """Return whether the terminal knows no more than new lines."""
    return os.environ.get("TERM", "").lower() in ("", "dumb", "unknown")


def has_colours() -> bool:
    """Return whether standard output is a terminal with colours, and NO_COLOR is not set."""
    return columns() is not None and not (is_dumb() or os.environ.get("NO_COLOR"))


def columns() -> int | None:
    """Return the terminal's width; None if standard output is no terminal."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def width_of(text: str) -> int:
    """Return how many columns a text takes."""
    if text.isascii():
        return len(text)
    try:
        from prompt_toolkit.utils import get_cwidth
    except ImportError:  # only a terminal needs exact widths
        return len(text)
    return get_cwidth(text)


def folded(text: str, column: int, width: int | None) -> tuple[str, int]:
    """Return a text that starts at a column, wrapped between words, and the column after it."""
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
    """Return a message as it is shown: its sender and text, or sender, receiver and call."""
    sender, to, action = message["from"], message["to"], message["action"]
    name, args = action["name"], action.get("args", {})
    rest = {key: value for key, value in args.items() if key not in _BESIDE}
    is_said = rest.keys() == {_SPOKEN.get(name)}
    said = rest[_SPOKEN[name]] if is_said else None
    text = said if isinstance(said, str) else _arguments(rest)
    if not (is_said and to == me):
        return wrapped(speaker_prefix(f"{sender} → {to}") + f"{escaped(name)} ", shown_text(text))
    head = speaker_prefix(sender)
    if name == "error":
        head += "\x1b[31merror:\x1b[0m " if has_colours() else "error: "
    if not isinstance(said, str):
        text = "(nothing)" if said is None else escaped_json(said)
    return wrapped(head, shown_text(text))


def speaker_prefix(who: object) -> str:
    """Return the prefix of an agent's text."""
    shown = f"{escaped(str(who))}:"
    return f"\x1b[1m{shown}\x1b[0m " if has_colours() else f"{shown} "


def wrapped(head: str, text: str) -> str:
    """Return a head and a text, wrapped; a text of the program itself has no head."""
    column = width_of(re.sub(r"\x1b\[\d+m", "", head))
    shown = folded(text, column, columns())[0].rstrip()
    return f"{head}{shown}" if head else shown.removeprefix(INDENT)


def shown_text(text: str) -> str:
    """Return the text of a message, cut to what is shown."""
    text = text.strip().replace("\r\n", "\n")
    left = len(text) - MAX_SHOWN
    return text[:MAX_SHOWN] + (cut_mark(left) if left > 0 else "")


def cut_mark(characters: int) -> str:
    """Return the mark for the cut rest of a text."""
    return f"… ({characters:,} more characters)"


def help_table(offers: Mapping[str, Any]) -> str:
    """Return a table of what agents offer, by their ids: what to type, and what it does."""
    rows = [
        (_call(id, name, described), _description(described))
        for id, actions in offers.items()
        for name, described in (actions.items() if isinstance(actions, Mapping) else ())
    ]
    if not rows:
        return ""
    table = click.HelpFormatter(len(INDENT), columns() or 100)
    longest = max(len(call) for call, _ in rows)
    beside = longest + _LEAST_BESIDE <= table.width  # else descriptions go below
    with table.indentation():
        table.write_dl(rows, longest if beside else len(INDENT))
    return table.getvalue().rstrip()


def _call(id: str, name: str, described: Any) -> str:
    """Return how an action is typed, without values; optional arguments are in brackets."""
    args = described.get("args") if isinstance(described, Mapping) else None
    names = []
    for arg, of in args.items() if isinstance(args, Mapping) else ():
        shown = escaped(str(arg))
        names.append(f"[{shown}]" if isinstance(of, Mapping) and "default" in of else shown)
    try:
        line = format_slash({"to": id, "action": {"name": name}})
    except InvalidMessage:  # another program may offer any name
        line = f"/{escaped_json(id)}.{escaped_json(name)}"
    return escaped(" ".join((line, *names)))[:MAX_SHOWN]


def _description(described: Any) -> str:
    """Return the first line of an action's description."""
    text = described.get("description") if isinstance(described, Mapping) else described
    line = str(text or "").strip().partition("\n")[0]
    return escaped(line[:MAX_SHOWN])


def _arguments(args: dict[str, Any]) -> str:
    parts = []
    for name, value in args.items():
        # Escaping the whole of a long text takes long, and only a few characters are shown.
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
    """An answer that arrives in pieces."""

    id: str  # who answers
    text: str = ""
    shown: int = 0  # how many characters of it are on the screen
    column: int = 0  # the cursor's column after them
    whole: bool = False  # whether it is complete

    def rest(self) -> str:
        """Return what to write next: whole words, without trailing space."""
        end = min(len(self.text.rstrip()), MAX_SHOWN)
        if not self.whole:  # a part of a word waits for its rest
            ends = [found.start() for found in _BEHIND_A_WORD.finditer(self.text, self.shown)]
            end = min(end, ends[-1]) if ends else 0
        new, self.shown = self.text[self.shown : end], max(self.shown, end)
        return new


class Transcript:
    """Writes lines, and one answer at a time, as its pieces come.

    Only the line that says who is at work is erased again; it is written between the codes `dim`.
    If the terminal cannot erase, `dim` is None, and answers are written when they are complete.
    If a line comes between two pieces of an answer, the answer continues below it.
    """

    def __init__(self, write: Callable[[str], None], dim: tuple[str, str] | None) -> None:
        self._write = write
        self._dim = dim
        self._answers: list[_Answer] = []  # the first is being written
        self._coming: dict[str, _Answer] = {}  # incomplete ones, by agent
        self._open = False  # whether the cursor is after the first answer
        self._at_work = ""
        self._marked = False  # whether that line is on the screen
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
        self._print_next()

    def over(self, id: str) -> None:
        """Mark the answer of an agent as complete."""
        if (answer := self._coming.pop(id, None)) is not None:
            answer.whole = True
            self._print_next()

    def answered(self, id: str, text: str) -> None:
        """Write a whole answer, once; pieces of it may be written already."""
        answer = self._coming.get(id)
        said = text.strip()
        if answer is not None and not said.startswith(answer.text[: answer.shown]):
            self.over(id)  # the answer does not begin with what was shown
            answer = None
        answer = answer or self._begun(id)
        answer.text = said or "(nothing)"
        self.over(id)

    def at_work(self, ids: list[str], seconds: int = 0) -> None:
        """Show which agents are at work, and for how long; erase that for an empty list."""
        verb = "are" if len(ids) > 1 else "is"
        names = ", ".join(escaped(id) for id in ids)
        since = f", {seconds} s" if seconds else ""
        self._at_work = f"{names} {verb} at work{since}" if ids else ""
        self._unmark()
        self._mark()

    def hold(self) -> None:
        """Write nothing more of answers until `release`: something else has the screen."""
        self._make_way()
        self._held = True

    def release(self) -> None:
        """Continue to write answers."""
        self._held = False
        self._print_next()

    # -- how it is written -------------------------------------------------------------------------

    def _begun(self, id: str) -> _Answer:
        answer = self._coming[id] = _Answer(id)
        self._answers.append(answer)
        return answer

    def _print_next(self) -> None:
        """Write complete answers, and what there is of the first incomplete one."""
        while self._answers and not self._held:
            answer = self._answers[0]
            before = answer.shown
            if new := answer.rest():
                self._unmark()
                if not self._open:
                    self._open = True
                    self._write(speaker_prefix(answer.id))
                    answer.column = width_of(f"{escaped(answer.id)}: ")
                    new = f"…{new.lstrip()}" if before else new
                text, answer.column = folded(new, answer.column, columns())
                self._write(text)
            if not answer.whole:
                break
            if (left := len(answer.text.rstrip()) - MAX_SHOWN) > 0:
                self._write(cut_mark(left))
            self._answers.pop(0)
            self._make_way()
        self._mark()

    def _make_way(self) -> None:
        """Move the cursor to the start of an empty line."""
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
