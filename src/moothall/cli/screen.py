"""What the commands show to a person: folded lines, styles, and one line of status below them."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, TextIO

from moothall.build import escaped

INDENT: Final = "  "
"""The indent of each line of a message but the first, so that none looks like another message."""

_ERASE: Final = "\r\x1b[K"
_STYLE_CODES: Final = re.compile(r"\x1b\[[\d;]*m")
_TEXT_PARTS: Final = re.compile(r"\n|[ \t]+|[\u2e80-\uffff]|[^ \t\n\u2e80-\uffff]+")
_LONG_WORD: Final = re.compile(r"[^ \t\n\u2e80-\uffff]{10,}")
QUICK_S: Final = 0.3
"""How long a wait may be before it is worth a line."""


def typed_command(*words: str) -> str:
    """Return a command on one line, as a shell takes it; control characters are in `$'…'`."""
    return " ".join(map(_shell_word, words))


def _shell_word(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    quoted = re.sub(r"([\\'])", r"\\\1", word)
    return f"$'{escaped(quoted)}'"


class Screen:
    """Writes lines to a terminal or a file, and to a terminal also a status that it erases again.

    Without rich it writes as to a file. A dumb terminal gets neither styles nor a status.
    """

    def __init__(self, to: TextIO | None = None) -> None:
        self._to = to = sys.stdout if to is None else to
        self._console: Any = None
        if to is not None and to.isatty() and find_spec("rich") is not None:
            from rich.console import Console

            self._console = Console(file=to)
        is_dumb = os.environ.get("TERM", "").lower() in ("", "dumb", "unknown")
        self.can_erase: bool = self._console is not None and not is_dumb
        self._has_styles = self.can_erase and not self._console.no_color
        self.open_questions: int = 0  # how many questions to a person are open
        self.is_open: bool = False  # whether the cursor is behind a text
        self._status = ""
        self._shows_status = False  # whether the status is on the screen
        self._describe: Callable[[float], str] | None = None
        self._wait_start = 0.0
        self._tick: asyncio.TimerHandle | None = None

    @property
    def columns(self) -> int | None:
        """The terminal's width; None of a file."""
        return None if self._console is None else self._console.width

    # -- lines -------------------------------------------------------------------------------------

    def styled(self, text: str, style: str) -> str:
        """Return a text with a style of rich, such as `bold red`, where the terminal has styles."""
        if not (style and text and self._has_styles):
            return text
        from rich.color import ColorSystem
        from rich.style import Style

        return Style.parse(style).render(text, color_system=ColorSystem.STANDARD)

    def lines(
        self, head: str, *spans: tuple[str, str], indent: str = INDENT, chops: bool = False
    ) -> str:
        """Return a head, and texts with their styles, folded below it; the texts are escaped.

        With `chops`, a word that is wider than the terminal is cut at its edge.
        """
        column, parts, width = width_of(_STYLE_CODES.sub("", head)), [], self.columns
        for text, style in spans:
            if width and chops:
                text = _LONG_WORD.sub(partial(_chop_word, max(width - len(indent), 10)), text)
            text, column = fold_text(text, column, width, indent)
            parts.append(self.styled(text, style))
        return f"{head}{''.join(parts)}"

    def show(self, lines: str) -> None:
        """Write whole lines, which are folded and escaped."""
        self.end()
        self.write(f"{lines}\n")
        self.show_status()

    def write(self, text: str) -> None:
        """Write a text at the cursor."""
        self._hide_status()
        self._write(text)
        self.is_open = not text.endswith("\n")

    def end(self) -> None:
        """Move the cursor to the start of an empty line."""
        if self.is_open:
            self.write("\n")

    def _write(self, text: str) -> None:
        print(text, end="", file=self._to, flush=True)

    # -- the status --------------------------------------------------------------------------------

    def wait(self, describe: Callable[[float], str] | None) -> None:
        """Show, renewed each second, what `describe` says of the seconds from now; None: no more.

        As long as it says nothing, it is asked again after `QUICK_S`.
        """
        if describe is not None and self.can_erase:
            self._wait_start = asyncio.get_running_loop().time()
        self._describe = describe
        self.renew()

    def renew(self) -> None:
        """Show the status as it is now."""
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        if self._describe is None or not self.can_erase:
            self.status("")
        elif not self.open_questions:
            loop = asyncio.get_running_loop()
            text = self._describe(loop.time() - self._wait_start)
            self.status(text)
            self._tick = loop.call_later(1.0 if text else QUICK_S, self.renew)

    def status(self, text: str) -> None:
        """Show a text in the last line while no other text is open; erase it if it is empty."""
        self._status = escaped(text)
        if text and self._shows_status:
            self._shows_status = False  # the new text is written over it
        self._hide_status()
        self.show_status()

    def hold(self) -> None:
        """Show no status until `release`: a question has the screen."""
        self.end()
        self._hide_status()
        self.open_questions += 1

    def release(self) -> None:
        """Show the status again: the question is answered."""
        self.open_questions -= 1
        if self._describe is not None:
            self.renew()
        else:
            self.show_status()

    def show_status(self) -> None:
        """Write the status below what was written."""
        if (
            self.can_erase
            and self._status
            and not (self._shows_status or self.is_open or self.open_questions)
        ):
            from rich.cells import set_cell_size

            status = set_cell_size(self._status, self._console.width - 1).rstrip()
            self._write(f"{_ERASE}{self.styled(status, 'dim')}")
            self._shows_status = True

    def _hide_status(self) -> None:
        if self._shows_status:
            self._shows_status = False
            self._write(_ERASE)


def fold_text(text: str, column: int, width: int | None, indent: str = INDENT) -> tuple[str, int]:
    """Return a text that starts at a column, folded between words, and the column after it."""
    pieces, gap, is_new_line = [], "", False
    for part in _TEXT_PARTS.findall(text):
        if part == "\n":
            pieces.append("\n")
            column, gap, is_new_line = 0, "", True
        elif part.isspace():
            gap += part.expandtabs(4)
        else:
            part = escaped(part)
            cells = width_of(part)
            if width and column > len(indent) and column + len(gap) + cells > width:
                pieces.append("\n")
                column, gap, is_new_line = 0, "", True
            gap, is_new_line = indent + gap if is_new_line else gap, False
            pieces.append(gap + part)
            column += len(gap) + cells
            gap = ""
    return "".join(pieces), column


def _chop_word(width: int, word: re.Match[str]) -> str:
    from rich.cells import chop_cells

    word_text = escaped(word[0])
    return word[0] if width_of(word_text) <= width else "\n".join(chop_cells(word_text, width))


def width_of(text: str) -> int:
    """Return how many columns a text takes."""
    if text.isascii():
        return len(text)
    try:
        from rich.cells import cell_len
    except ImportError:  # only a terminal needs exact widths
        return len(text)
    return cell_len(text)
