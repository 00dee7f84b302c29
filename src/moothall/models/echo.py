"""What of a server's refusal stands in the request, and so is no demand of the server.

A server may repeat a request in its refusal. Whoever wrote a message could then have all requests
changed by words that the server never meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moothall.models.base import ModelRequest
    from moothall.models.refusal import Refusal

# An escape, or a word. JSON within JSON doubles the backslashes.
_PIECE = re.compile(
    r"\\+(?:u(?P<u>[0-9a-f]{4})|x(?P<x>[0-9a-f]{2})|[nrtbfv])|%(?P<p>[0-9a-f]{2})|[a-z0-9]+", re.I
)
_SHOWN_CHARACTERS = 10_000
# Of an image or a file, of which a refusal shows the beginning or the end.
_ENCODED = re.compile(f"[A-Za-z0-9+/=]{{{2 * _SHOWN_CHARACTERS},}}")
_NO_WORD = bytes(each for each in range(128) if not chr(each).isalnum())


def without_own_words(refusal: Refusal, request: ModelRequest) -> Refusal:
    """Return what a server says of a request, with blanks where that has the words itself."""
    words = _OwnWords(request)
    faults = (each._replace(text=words.taken_out(each.text)) for each in refusal.faults)
    return refusal._replace(text=words.taken_out(refusal.text), faults=(*faults,))


class _OwnWords:
    """The words of a request, but those of its system messages, which the program has written."""

    def __init__(self, request: ModelRequest) -> None:
        fields = [
            (name, value)
            for message in request.messages
            if message.get("role") != "system"
            for name, value in message.items()
        ]
        # Callers of a door, and other servers, describe actions and schemas.
        offered = [(each.name, each.description, each.parameters) for each in request.actions or ()]
        other_data = [*offered, request.schema]
        texts = [*_texts([[value for _, value in fields], other_data])]
        # Whoever writes data chooses the names in it, but a model's server those of what it gave.
        named_data = [value for name, value in fields if name != "thinking"]
        given_back = [value for name, value in fields if name == "thinking"]
        runs = [*_texts([named_data, other_data], with_names=True), *_texts(given_back)]
        undone = (_letters(_undone(each)) if "\\" in each or "%" in each else "" for each in runs)
        self._letters = "".join(map(_letters, runs)) + " " + "".join(undone)
        self._texts = {*map(_letters, texts)}

    def taken_out(self, text: str) -> str:
        """Return a text with blanks for three words in a row, or a text of two, of the request.

        Only letters and digits count, so escapes, quotes, cuts and case make no difference.
        """
        pieces = [
            (letters, *piece.span())
            for piece in _PIECE.finditer(text)
            if (letters := _letters(_undone(piece[0])))
        ]
        characters = [*text]
        for count in (2, 3):
            for n in range(len(pieces) - count + 1):
                words = pieces[n : n + count]
                word_run = "".join(letters for letters, _, _ in words)
                if word_run in self._letters if count == 3 else word_run in self._texts:
                    start, end = words[0][1], words[-1][2]
                    characters[start:end] = "\0" * (end - start)
        return "".join(characters)


def _texts(value: Any, with_names: bool = False) -> Iterator[str]:
    """Yield the texts in data, and the names of fields if asked for, in their order."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            if with_names:
                yield str(name)
            yield from _texts(each, with_names)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each, with_names)
    elif value is not None:
        yield _ENCODED.sub(_ends, str(value))


def _letters(text: str) -> str:
    """Return the letters and digits of a text, those of ASCII alone, in lower case."""
    return text.encode("ascii", "ignore").lower().translate(None, _NO_WORD).decode()


def _undone(text: str) -> str:
    """Return a text with blanks or characters where it has escapes."""
    return _PIECE.sub(_character, text)


def _character(piece: re.Match[str]) -> str:
    code = piece["u"] or piece["x"] or piece["p"]
    return chr(int(code, 16)) if code else " " if piece[0].startswith("\\") else piece[0]


def _ends(encoded: re.Match[str]) -> str:
    return f"{encoded[0][:_SHOWN_CHARACTERS]} {encoded[0][-_SHOWN_CHARACTERS:]}"
