"""The words of a text and of a query, for full-text search in PostgreSQL.

Words are found without regard to case and accents. In scripts without spaces each character is a
word, and so is each pair of neighbours.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from moothall.foundation.sqlite.fulltext import SearchWords, pieces

_WORD_CHARS: Final = 200
_LAST_POSITION: Final = 16_383
_MAX_POSITIONS: Final = 255
_MAX_BYTES: Final = 900_000
"""PostgreSQL stores at most 1 MiB of a text's words."""
_ACCENTS: Final = re.compile("[\u0300-\u036f]")


def tsvector_text(text: str) -> str:
    """Return the words of a text with their places, as PostgreSQL writes a `tsvector`."""
    positions: dict[str, list[str]] = {}
    size = 0
    for number, word in enumerate(_words_in(text), 1):
        word_positions = positions.get(word)
        if word_positions is None:
            size += len(word.encode()) + 8
            word_positions = positions[word] = []
        if len(word_positions) < _MAX_POSITIONS:
            size += 2
            word_positions.append(str(min(number, _LAST_POSITION)))
        if size > _MAX_BYTES:
            break
    return " ".join(
        f"'{word}':{','.join(word_positions)}" for word, word_positions in positions.items()
    )


def query_words(text: str, limit: int) -> list[str]:
    """Return at most so many different words of a text, as `vector` has them."""
    parts: list[str] = []
    for word in pieces(text):
        # A pair of neighbours stands for both.
        parts += [first + right for first, right in pairwise(word)] or word
    return SearchWords(filter(None, map(_without_accents, parts)), limit)


def _words_in(text: str) -> Iterator[str]:
    """Yield the words of a text; accents alone are no word."""
    for word in pieces(text):
        for index, piece in enumerate(word):
            terms = (piece, word[index - 1] + piece) if index else (piece,)
            yield from filter(None, map(_without_accents, terms))


def _without_accents(word: str) -> str:
    """Return a word without accents and case."""
    if not word.isascii():
        word = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", word)))
    return word.casefold()[:_WORD_CHARS]
