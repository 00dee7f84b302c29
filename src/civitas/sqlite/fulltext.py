"""Words for full text in SQLite (FTS5): what is indexed of a text, and what a query looks for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from civitas.jsonvalue import readable

# Scripts written without spaces, where a "word" of the index would be a whole sentence: each
# character is a word there, and a word of the query several in a row.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff])"
)
_WORD = re.compile(r"\w+")


def indexed(text: str) -> str:
    """A text as it is given to the index: with its words apart.

    What is deleted from an index must be given again as it was: a change here needs a migration of
    every file that has one.
    """
    return text if text.isascii() else _UNSPACED.sub(r" \1 ", text)


def terms(text: str) -> Iterator[str]:
    """What to look for: words, and pairs of characters where there are no spaces between words."""
    for word in _WORD.findall(sendable(text)):
        pieces = _UNSPACED.sub(r" \1 ", word).split()
        alone = [bool(_UNSPACED.fullmatch(piece)) for piece in pieces]
        for place, piece in enumerate(pieces):
            if not alone[place]:
                yield piece
            elif place + 1 < len(pieces) and alone[place + 1]:
                yield f"{piece} {pieces[place + 1]}"
            elif place == 0 or not alone[place - 1]:
                yield piece


def distinct(words: Iterable[str], most: int) -> list[str]:
    """The first so many different words, whatever their case."""
    return list({word.lower(): word for word in words}.values())[:most]


def any_of(words: Iterable[str]) -> str:
    """The FTS5 query for texts that have at least one of the words; empty without words."""
    # In quotes a word is a word, whatever it is: `NOT`, `near`, `text:`. It has none itself.
    return " OR ".join(f'"{word}"' for word in words)


def sendable(text: str) -> str:
    """A text that UTF-8 can carry, to its end."""
    return readable(text).replace("\0", " ")
