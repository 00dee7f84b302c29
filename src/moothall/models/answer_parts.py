"""What an answer has beside its text: images, audio, and reasoning written into the text.

A model marks such reasoning by `<think>` and `</think>`, or in other ways.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

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


def image_block(data: Any, format: Any) -> dict[str, Any] | None:
    """Return an image, given in base64, as a block; None if there is none."""
    if not isinstance(data, str) or not data:
        return None
    kind = format if isinstance(format, str) and format.isalnum() else "png"
    return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{data}"}}


def images_of(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the images of a message in the chat interface's form; links stay links."""
    listed = [message.get("images"), message.get("content")]
    for block in (each for some in listed if isinstance(some, list) for each in some):
        about = block.get("image_url") if isinstance(block, dict) else None
        url = about.get("url") if isinstance(about, dict) else about
        if isinstance(url, str) and url.startswith(("data:image/", "https://", "http://")):
            yield {"type": "image_url", "image_url": {"url": url}}


class Audio:
    """Collects the audio of an answer, which may come in pieces."""

    def __init__(self, format: Any) -> None:
        self._format = format if isinstance(format, str) and format else "wav"
        self._data = bytearray()

    def take(self, given: Any) -> str:
        """Take some audio; return the transcript of it."""
        about = given if isinstance(given, dict) else {}
        data, text = about.get("data"), about.get("transcript")
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


def as_said(content: list[Any]) -> str:
    """Return an answer's content as text: a note stands for each image or audio in it."""
    said = []
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        text = block.get("text") if isinstance(block, dict) else block
        if kind in ("image_url", "input_audio"):
            what = "an image" if kind == "image_url" else "audio"
            said.append(f"[{what}]")
        elif isinstance(text, str):
            said.append(text)
    return "\n".join(filter(None, said))
