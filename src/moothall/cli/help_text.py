"""Help that fits the terminal: no line is wider, and no word is broken."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable
from typing import Final

import click

_MAX_WIDTH: Final = 80
_MIN_WIDTH: Final = 20
_NARROW: Final = 60
"""Below so many columns, what an option does stands below it, not beside it."""
_WORD: Final = re.compile(r"""(?:"[^"]*"|'[^']*'|\S)+""")
_VERBATIM: Final = "\b\n"
"""Begins a paragraph whose lines stay lines, where they fit."""


class Formatter(click.HelpFormatter):
    """Folds between words; click has 50 columns for the least, and breaks words."""

    def __init__(self) -> None:
        columns = shutil.get_terminal_size((_MAX_WIDTH, 24)).columns
        super().__init__(width=max(min(columns, _MAX_WIDTH) - 2, _MIN_WIDTH))
        self._is_narrow = columns < _NARROW

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write how the command is used."""
        self._fold(f"{'Usage: ' if prefix is None else prefix}{prog} {args}", "", 4 * " ")

    def write_text(self, text: str) -> None:
        """Write paragraphs."""
        margin = " " * self.current_indent
        for number, paragraph in enumerate(re.split(r"\n{2,}", text.strip("\n"))):
            if number:
                self.write("\n")
            if not paragraph.startswith(_VERBATIM):
                self._fold(" ".join(paragraph.split()), margin, margin)
                continue
            for line in paragraph.removeprefix(_VERBATIM).split("\n"):
                self._line(f"{margin}{line}")

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        """Write terms, each with what it means."""
        margin = " " * self.current_indent
        rows = list(rows)
        widths = [len(term) for term, _ in rows if len(term) <= col_max - col_spacing]
        column = max(widths, default=0) + col_spacing
        for term, meaning in rows:
            if self._is_narrow or len(term) + col_spacing > column:
                self._fold(term, margin, f"{margin}  ")
                first = indent = margin + (4 if self._is_narrow else column) * " "
            else:
                first, indent = f"{margin}{term:<{column}}", margin + column * " "
            if meaning:
                self._fold(meaning, first, indent)
            elif first is not indent:
                self.write(f"{first.rstrip()}\n")

    def _fold(self, text: str, first: str, indent: str) -> None:
        lines = textwrap.wrap(
            text,
            self.width,
            initial_indent=first,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        self.write("".join(f"{line}\n" for line in lines))

    def _line(self, line: str) -> None:
        """Write a line as it is if it fits; else folded, a command so that a shell takes it."""
        if len(line) <= self.width:
            self.write(f"{line}\n")
            return
        indent = line[: len(line) - len(line.lstrip())]
        is_command = line.lstrip().startswith("moothall ")
        words = _WORD.findall(line)
        is_continued = words[-1] == "\\"
        lines = [indent]
        for word in words[: -1 if is_continued else None]:
            width = self.width - 2 * is_command  # for the backslash
            if lines[-1].strip() and len(f"{lines[-1]} {word}") > width:
                lines.append(f"{indent}  {word}")
            else:
                lines[-1] += f" {word}" if lines[-1].strip() else word
        separator = " \\\n" if is_command else "\n"
        self.write(separator.join(lines) + (" \\\n" if is_continued else "\n"))


class HelpContext(click.Context):
    """The context of each command; its help fits the terminal."""

    def make_formatter(self) -> click.HelpFormatter:
        """Return what formats the help."""
        return Formatter()

    @property
    def command_path(self) -> str:
        """The words that name the command, as they are typed.

        click puts the arguments of the commands above between them.
        """
        above = "" if self.parent is None else f"{self.parent.command_path} "
        return f"{above}{self.info_name or ''}".lstrip()
