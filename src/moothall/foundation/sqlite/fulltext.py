"""Words for full-text search in SQLite (FTS5): the indexed words, and those of a query."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Self

from moothall.foundation.jsonvalue import readable
from moothall.foundation.text.scripts import UNSPACED

# In scripts without spaces a "word" of the index would be a whole sentence: each character is
# indexed as a word, and a word of the query is several in a row.
_UNSPACED = re.compile(f"([{UNSPACED}])")
_WORD = re.compile(r"[\w\u0300-\u036f]+")  # with the marks of letters that are written apart


def pieces(text: str) -> Iterator[list[str]]:
    """Yield the words of a text, each alone; in scripts without spaces, characters in a row."""
    for word in _WORD.findall(storable(text).replace("_", " ")):
        row: list[str] = []
        for piece in _UNSPACED.sub(r" \1 ", word).split():
            if _UNSPACED.fullmatch(piece):
                row.append(piece)
                continue
            if row:
                yield row
                row = []
            yield [piece]
        if row:
            yield row


def storable(text: str) -> str:
    """Return a text without NUL characters and what UTF-8 cannot carry."""
    return readable(text).replace("\0", " ")


class SearchWords(list[str]):
    """Words that texts are searched for, or pairs of characters in scripts without spaces.

    Args:
        words: the words, without quotes
        most: how many different ones are kept, ignoring case
    """

    def __init__(self, words: Iterable[str], most: int | None = None) -> None:
        super().__init__(words)
        if most is not None:
            self[:] = [*{word.lower(): word for word in self}.values()][:most]

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Return those of a text: words, and pairs of characters in scripts without spaces."""
        return cls(_words_of(text))

    @property
    def query(self) -> str:
        """The FTS5 query for texts with at least one of them; empty without words."""
        # A quoted word is never an operator, such as `NOT`, `near`, `text:`. It contains no quotes.
        return " OR ".join(f'"{word}"' for word in self)

    @staticmethod
    def indexed(text: str) -> str:
        """Return a text as it is indexed, with its words separated.

        Deleting from an index requires the same text again, so a change here needs a migration of
        every file that has an index.
        """
        return text if text.isascii() else _UNSPACED.sub(r" \1 ", text)


def _words_of(text: str) -> Iterator[str]:
    for word in _WORD.findall(storable(text)):
        pieces = _UNSPACED.sub(r" \1 ", word).split()
        are_unspaced = [bool(_UNSPACED.fullmatch(piece)) for piece in pieces]
        for index, piece in enumerate(pieces):
            if not are_unspaced[index]:
                yield piece
            elif index + 1 < len(pieces) and are_unspaced[index + 1]:
                yield f"{piece} {pieces[index + 1]}"
            elif index == 0 or not are_unspaced[index - 1]:
                yield piece
