"""What stands on a terminal above the line that is written: messages, and answers as they come."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from civitas.approval import escaped
from civitas.cli.chat.lines import MAX_SHOWN, columns, folded, left_out, said_by, width_of

_ERASE: Final = "\r\x1b[K"
_BEHIND_A_WORD: Final = re.compile(r"(?<=[^ \t\n])(?=[ \t\n])|(?<=[\u2e80-\uffff])")


@dataclass
class _Answer:
    """An answer that is coming.

    Attributes:
        id: who answers
        text: what came of it
        shown: how many characters of that are on the screen
        column: where the cursor stands behind them
        whole: whether nothing more comes of it
    """

    id: str
    text: str = ""
    shown: int = 0
    column: int = 0
    whole: bool = False

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

    Nothing that was written is taken back but the line that says who is at work. On a terminal that
    cannot take that back, answers are written when they are whole. Where a line comes between the
    parts of an answer, the answer goes on below it.

    Args:
        write: writes a text
        dim: the codes around who is at work; None where a line cannot be taken back
        colours: whether there are colours
    """

    def __init__(
        self, write: Callable[[str], None], dim: tuple[str, str] | None, colours: bool = False
    ) -> None:
        self._write = write
        self._dim = dim
        self._colours = colours
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
                    self._write(said_by(answer.id, self._colours))
                    answer.column = width_of(said_by(answer.id))
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
