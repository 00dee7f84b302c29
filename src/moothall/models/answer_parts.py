"""What an answer has beside its text: images, audio, and reasoning written into the text.

A model marks such reasoning by `<think>` and `</think>`, or in other ways.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from moothall.foundation.errors import ModelError
from moothall.models.blocks import BLOCKS

_TAGS = ("think", "thinking", "thought", "reasoning", "seed:think", "longcat_think")
_FINAL_CHANNEL = "<|end|><|start|>assistant<|channel|>final"
_MARKS = {f"<{tag}>": (f"</{tag}>",) for tag in _TAGS} | {
    "[think]": ("[/think]",),
    "◁think▷": ("◁/think▷",),
    "<|start_thinking|>": ("<|end_thinking|>",),
    "<|begin_of_thought|>": ("<|end_of_thought|>",),
    "<|channel>thought\n": ("<channel|>",),
    "<unused94>thought\n": ("<unused95>",),
    "<|channel|>analysis<|message|>": (
        f"{_FINAL_CHANNEL}<|message|>",
        f"{_FINAL_CHANNEL} <|constrain|>json<|message|>",
    ),
}
"""What begins reasoning, and what ends it, in lower case."""
# Some servers leave out the first mark, which the prompt ends with.
_END_MARKS = (
    "</think>",
    "</thinking>",
    "[/think]",
    "</seed:think>",
    "◁/think▷",
    "<|end_thinking|>",
)
_END_MARK_PATTERN = re.compile("|".join(map(re.escape, _END_MARKS)), re.I)
_OPENING_MARK_PATTERN = re.compile(
    "|".join(re.escape(mark) for mark, ends in _MARKS.items() if ends[0] in _END_MARKS), re.I
)
_QUOTES = frozenset(
    "`'\"\u201c\u201d\u201e\u2018\u2019\u201a\xab\xbb\u2039\u203a\u300c\u300d\u300e\u300f"
)
_MAX_QUOTED_MARKS = 64
"""More marks than these, in a text that speaks of them, are looked at no longer."""
_LEADING_MARKS = (*_MARKS, *_END_MARKS)
_END_PATTERNS = {
    mark: re.compile("|".join(map(re.escape, ends)), re.I) for mark, ends in _MARKS.items()
}
_MARK_FIRST_CHAR = re.compile(r"[<\[◁]")
_MAX_MARK_CHARS = max(len(end) for ends in _MARKS.values() for end in ends)


class AnswerPiece(NamedTuple):
    """A piece of an answer.

    Attributes:
        text: the piece
        is_reasoning: whether it is reasoning
        only_reasoning_before: whether all text before it was reasoning, too
    """

    text: str
    is_reasoning: bool
    only_reasoning_before: bool = False


class ReasoningParser:
    """Parts reasoning from text, as the text arrives; only what begins an answer is reasoning.

    Args:
        pieces: the pieces of the text so far, to which each one given out is added at once

    Attributes:
        has_reasoning_field: whether the server sends reasoning in a field of its own, too
    """

    def __init__(self, pieces: list[str]) -> None:
        self.has_reasoning_field: bool = False
        self._pieces = pieces
        self._quotes = 0  # marks that the text speaks of
        self._unread_text = ""  # may be the beginning of a mark
        self._mark = ""  # the one that began the reasoning
        self._has_begun = False  # whether the answer's first word has come
        self._skips_blanks = False  # whether blanks after a mark are to be left out
        self._had_reasoning = False  # whether there was reasoning

    @property
    def has_reasoning(self) -> bool:
        """Whether the text has had reasoning."""
        return self._had_reasoning or bool(self._mark)

    def is_plain(self, text: str) -> bool:
        """Return whether a further piece is text as it is, with no mark in it."""
        is_in_text = (
            self._has_begun and not self._skips_blanks and not self._unread_text and not self._mark
        )
        return is_in_text and _MARK_FIRST_CHAR.search(text) is None

    def feed(self, text: str, last: bool = False) -> Iterator[AnswerPiece]:
        """Yield the pieces of a text, except what may be part of a mark, unless it is the last."""
        self._unread_text += text
        while self._unread_text:
            if self._mark:
                mark_end = _END_PATTERNS[self._mark].search(self._unread_text)
                if mark_end is None:
                    thought = self._take_text(_MARKS[self._mark], last)
                    complete = thought if last else thought.rstrip()  # blanks before the mark go
                    self._unread_text = thought[len(complete) :] + self._unread_text
                    yield from self._make_piece(complete, True)
                    return
                yield from self._make_piece(self._unread_text[: mark_end.start()].rstrip(), True)
                self._end_reasoning(mark_end.end())
            elif not self._has_begun:
                stripped = self._unread_text.lstrip()
                first = stripped[:_MAX_MARK_CHARS].lower()
                if first and _MARK_FIRST_CHAR.match(first) is None:
                    self._has_begun = True  # as nearly all do
                elif mark := next((mark for mark in _MARKS if first.startswith(mark)), ""):
                    self._mark, self._skips_blanks = mark, True
                    self._unread_text = stripped[len(mark) :]
                elif (self._had_reasoning or self.has_reasoning_field) and (
                    mark_end := _END_MARK_PATTERN.match(stripped)
                ):
                    self._unread_text, self._skips_blanks = stripped[mark_end.end() :], True
                elif not last and any(mark.startswith(first) for mark in _LEADING_MARKS):
                    return
                else:
                    self._has_begun = True
            elif not (self._had_reasoning or self.has_reasoning_field) and _END_MARK_PATTERN.search(
                self._unread_text
            ):
                yield from self._unopened_reasoning(last)
                if not self._had_reasoning and _END_MARK_PATTERN.search(self._unread_text):
                    return  # a quote may follow
            else:
                marks = () if self._had_reasoning or self.has_reasoning_field else _END_MARKS
                yield from self._make_piece(self._take_text(marks, last), False)
                return

    def _unopened_reasoning(self, last: bool) -> Iterator[AnswerPiece]:
        """Yield the text to the end of reasoning that lacks its beginning, or to all marks."""
        text, position = self._unread_text, 0
        for mark in _END_MARK_PATTERN.finditer(text):
            before, after = text[position : mark.start()], text[mark.end() : mark.end() + 1]
            if not after and not last:
                break
            if self._quotes < _MAX_QUOTED_MARKS and not _is_quoted((*self._pieces, before), after):
                yield AnswerPiece(before.rstrip(), True, only_reasoning_before=True)
                return self._end_reasoning(mark.end())
            self._quotes += 1
            yield AnswerPiece(before + mark[0], False)
            position = mark.end()
        self._unread_text = text[position:]

    def _end_reasoning(self, end: int) -> None:
        """Go on after the end of reasoning; more of it may follow."""
        self._unread_text, self._mark = self._unread_text[end:], ""
        self._has_begun, self._skips_blanks, self._had_reasoning = False, True, True

    def _take_text(self, marks: tuple[str, ...], last: bool) -> str:
        """Take what is there, but for the beginning of a mark at its end."""
        cut_at, search_from = (
            len(self._unread_text),
            max(0, len(self._unread_text) - _MAX_MARK_CHARS),
        )
        for first_char in () if last else _MARK_FIRST_CHAR.finditer(self._unread_text, search_from):
            rest = self._unread_text[first_char.start() :].lower()
            if any(mark.startswith(rest) for mark in marks):
                cut_at = first_char.start()
                break
        text, self._unread_text = self._unread_text[:cut_at], self._unread_text[cut_at:]
        return text

    def _make_piece(self, text: str, is_reasoning: bool) -> Iterator[AnswerPiece]:
        if self._skips_blanks:
            text = text.lstrip()
            self._skips_blanks = not text
        if text:
            yield AnswerPiece(text, is_reasoning)


def _is_quoted(pieces: Iterable[str], next_text: str) -> bool:
    """Return whether a text speaks of the mark that follows it: in quotes, in code, as a pair."""
    text = "".join(pieces)
    line = text[text.rfind("\n") + 1 :]
    is_in_code = text.count("```") % 2 or line.count("`") % 2
    is_in_code = is_in_code or (line.isspace() and len(line.expandtabs()) >= 4)
    is_in_row = line.lstrip(" \t>").startswith("|")
    openings, ends = _OPENING_MARK_PATTERN.findall(text), _END_MARK_PATTERN.findall(text)
    is_inside_reasoning = len(openings) > len(ends)
    return bool({text[-1:], next_text} & _QUOTES or is_in_code or is_in_row or is_inside_reasoning)


def image_block(data: Any, format: Any) -> dict[str, Any] | None:
    """Return an image, given in base64, as a block, or None."""
    if not isinstance(data, str) or not data:
        return None
    kind = format if isinstance(format, str) and format.isalnum() else "png"
    return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{data}"}}


def images_of(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the images of a message in the chat interface's form; links stay links."""
    block_lists = [message.get("images"), message.get("content")]
    for block in (each for blocks in block_lists if isinstance(blocks, list) for each in blocks):
        image = block.get("image_url") if isinstance(block, dict) else None
        url = image.get("url") if isinstance(image, dict) else image
        if isinstance(url, str) and url.startswith(("data:image/", "https://", "http://")):
            yield {"type": "image_url", "image_url": {"url": url}}


class Audio:
    """Collects the audio of an answer, which may come in pieces."""

    def __init__(self, format: Any) -> None:
        self._format = format if isinstance(format, str) and format else "wav"
        self._data = bytearray()

    def take(self, piece: Any) -> str:
        """Take some audio; return the transcript of it."""
        audio = piece if isinstance(piece, dict) else {}
        data, text = audio.get("data"), audio.get("transcript")
        if isinstance(data, str):
            with suppress(ValueError):  # what is not base64 has its transcript alone
                self._data += base64.b64decode(data)
        return text if isinstance(text, str) else ""

    def blocks(self) -> list[dict[str, Any]]:
        """Return the audio as a block, if there was any."""
        if not self._data:
            return []
        data = base64.b64encode(self._data).decode()
        return [{"type": "input_audio", "input_audio": {"data": data, "format": self._format}}]


def name_of_call(call: Any, label: str) -> str:
    """Return the name in a call of an assistant's message; ModelError if it is no call."""
    if not isinstance(call, Mapping) or not isinstance(name := call.get("name"), str):
        raise ModelError(f"{label} is not a call with id, name and args")
    return name


def content_text(content: list[Any]) -> str:
    """Return an answer's content as text: a note stands for each image or audio in it."""
    texts = []
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        text = block.get("text") if isinstance(block, dict) else block
        if isinstance(kind, str) and kind in BLOCKS:
            texts.append(f"[{BLOCKS[kind].label}]")
        elif isinstance(text, str):
            texts.append(text)
    return "\n".join(filter(None, texts))
