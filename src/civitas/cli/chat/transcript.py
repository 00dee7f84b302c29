"""What stands on a terminal above the line that is written: messages, and answers as they come."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from civitas.approval import escaped
from civitas.cli.chat.lines import MAX_SHOWN, left_out

_ERASE: Final = "\r\x1b[K"


@dataclass
class _Answer:
    """An answer that is coming.

    Attributes:
        head: what stands before it
        text: what came of it
        shown: how many characters of that are on the screen
        whole: whether nothing more comes of it
    """

    head: str
    text: str = ""
    shown: int = 0
    whole: bool = False

    def rest(self) -> str:
        """What is to be written on; space at the end waits for what follows it."""
        end = min(len(self.text.rstrip()), MAX_SHOWN)
        new, self.shown = self.text[self.shown : end], max(self.shown, end)
        return escaped(new)


class Transcript:
    """Lines, and one answer at a time that is written on as its pieces come.

    Nothing that was written is taken back but the line that says who is at work, so that answers
    look the same on a terminal that knows no more than new lines. Where a line comes in the midst
    of an answer, the answer goes on below it.
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
        """Write a whole line."""
        self._make_way()
        self._write(f"{line}\n")
        self._mark()

    def piece(self, id: str, head: str, text: str) -> None:
        """Write a piece of an answer, when the answer has its turn."""
        answer = self._coming.get(id)
        if answer is None:
            answer = self._coming[id] = _Answer(head)
            self._answers.append(answer)
        answer.text = answer.text + text if answer.text else text.lstrip()
        self._go_on()

    def over(self, id: str) -> None:
        """Nothing more comes of what this one was saying."""
        if (answer := self._coming.pop(id, None)) is not None:
            answer.whole = True
            self._go_on()

    def answered(self, id: str, head: str, text: str) -> None:
        """Have a whole answer there, once; pieces of it may be there already."""
        answer = self._coming.get(id)
        said = text.strip()
        if answer is not None and not said.startswith(answer.text[: answer.shown]):
            self.over(id)  # what was to be seen of it is no part of what it came to
            answer = None
        if answer is None:
            answer = self._coming[id] = _Answer(head)
            self._answers.append(answer)
        answer.text = said or " "
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

    def _go_on(self) -> None:
        """Write what there is, until an answer of which more comes."""
        while self._answers and not self._held:
            answer = self._answers[0]
            before = answer.shown
            new = answer.rest()
            left = len(answer.text.rstrip()) - MAX_SHOWN if answer.whole else 0
            if new or (answer.whole and answer.text == " "):
                self._unmark()
                if not self._open:
                    self._write(f"{answer.head}  {'…' if before else ''}")
                    self._open = True
                self._write(new)
            if not answer.whole:
                break
            if left > 0:
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
            from prompt_toolkit.utils import get_cwidth

            shown, room = "", shutil.get_terminal_size().columns - 1
            for character in self._at_work:
                room -= get_cwidth(character)
                if room < 0:
                    break
                shown += character
            self._write(f"{self._dim[0]}{shown}{self._dim[1]}")
            self._marked = True

    def _unmark(self) -> None:
        if self._marked:
            self._marked = False
            self._write(_ERASE)
