"""Reasoning that a model writes into its text, between marks such as `<think>` and `</think>`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_OPEN = {f"<{tag}>": f"</{tag}>" for tag in ("think", "thinking", "thought", "reasoning")}
_OPEN["[THINK]"] = "[/THINK]"
# Some servers leave out the first mark, which the prompt ends with. One in quotes is text.
_LONE = re.compile(r"(?<![`'\"])</think(?:ing)?>(?![`'\"])")
_LONGEST = len("</thinking>")


class Said(NamedTuple):
    """A piece of an answer.

    Attributes:
        text: the piece
        thought: whether it is reasoning
        before: whether all text before it was reasoning, too
    """

    text: str
    thought: bool
    before: bool = False


class Thoughts:
    """Parts reasoning from text, as the text arrives; only what begins an answer is reasoning."""

    def __init__(self) -> None:
        self._left = ""  # may be the beginning of a mark
        self._close: str | None = None  # the mark that ends the reasoning
        self._begun = False  # whether the answer's first word has come
        self._blank = False  # whether blanks after a mark are to be left out

    def feed(self, text: str, last: bool = False) -> Iterator[Said]:
        """Yield the pieces of a text, except what may be part of a mark, unless it is the last."""
        self._left += text
        if not self._begun:
            start = self._left.lstrip()
            mark = next((mark for mark in _OPEN if start.startswith(mark)), None)
            if mark is None and not last and any(mark.startswith(start) for mark in _OPEN):
                return
            self._begun = True
            if mark is not None:
                self._close, self._blank = _OPEN[mark], True
                self._left = start[len(mark) :]
        if self._close is not None:
            thought, close, rest = self._left.partition(self._close)
            if close:
                self._left = ""
                yield from self._piece(thought.rstrip(), True)
                self._close, self._blank, self._left = None, True, rest
            else:
                yield from self._piece(self._whole(last), True)
                return
        elif found := _LONE.search(self._left):
            thought, self._left = self._left[: found.start()], self._left[found.end() :]
            yield Said(thought.rstrip(), True, before=True)
            self._blank = True
        yield from self._piece(self._whole(last), False)

    def _whole(self, last: bool) -> str:
        """Take what is there, but for the beginning of a mark at its end."""
        at = -1 if last else max(self._left.rfind("<"), self._left.rfind("["))
        if at < 0 or len(self._left) - at > _LONGEST:
            at = len(self._left)
        taken, self._left = self._left[:at], self._left[at:]
        return taken

    def _piece(self, text: str, thought: bool) -> Iterator[Said]:
        if self._blank:
            text = text.lstrip()
            self._blank = not text
        if text:
            yield Said(text, thought)
