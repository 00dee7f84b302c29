"""Embedders: texts as vectors, so that texts of similar meaning are near each other."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from itertools import pairwise
from typing import Protocol, runtime_checkable
from zlib import crc32

from moothall.foundation.arguments import check_integer

_WORD = re.compile(r"\w+")
_FIRST_UNSPACED = "\u2e80"
"""The first code point of East Asian scripts: few characters per word, no spaces between words."""
_DIGITS = re.compile(r"\d+")


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors.

    Attributes:
        name: the name under which its vectors are stored; vectors of different names are never
            compared. It states all that the vectors depend on: model and settings.
        dimensions: how many numbers a vector has
    """

    @property
    def name(self) -> str:
        """The name under which its vectors are stored."""
        ...

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        ...

    def embed(self, texts: list[str], /) -> list[list[float]]:
        """Return a vector for each text, in order. It may be called in any thread.

        Args:
            texts: what to embed; they may be empty
        """
        ...


class HashEmbedder:
    """Embeds a text by its words and pieces of words, without a model or a dependency.

    Texts with similar spelling are near each other: inflections (`paid`, `prepaid`), typing errors,
    compounds, in any script. It knows no synonyms. The same text has the same vector in every
    process.

    Words and their pieces of three and four characters (one and two in East Asian scripts) are
    hashed to dimensions and signs, as in "Feature Hashing for Large Scale Multitask Learning"
    (Weinberger et al., 2009); what occurs n times weighs √n.

    Args:
        dimensions: how many; fewer take less space, and confuse more texts

    Raises:
        DefinitionError: `dimensions` is not an integer from 8 to 65536
    """

    def __init__(self, dimensions: int = 256) -> None:
        check_integer("HashEmbedder: dimensions=", dimensions, low=8, high=65536)
        self.dimensions = dimensions
        self.name: str = f"hashed-pieces-1-{dimensions}"

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Return a vector of length 1 for each text; of length 0 for one without words."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        pieces: Counter[str] = Counter()
        for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
            marked_word = f"<{word}>"
            # A word counts as two of its pieces: in common texts most pieces are endings.
            pieces[marked_word] += 2
            if word[0] >= _FIRST_UNSPACED:
                pieces.update(word)
                pieces.update(map("".join, pairwise(word)))
            elif not _DIGITS.fullmatch(word):  # numbers match only as a whole
                pieces.update(marked_word[i : i + 3] for i in range(len(marked_word) - 2))
                pieces.update(marked_word[i : i + 4] for i in range(len(marked_word) - 3))
        vector = [0.0] * self.dimensions
        for piece, count in pieces.items():
            digest = crc32(piece.encode("utf-8", "surrogatepass"))
            weight = math.sqrt(count)
            # The highest bit is the sign: pieces in the same dimension cancel out on average.
            vector[(digest & 0x7FFFFFFF) % self.dimensions] += weight if digest >> 31 else -weight
        # Exact, since the builtin sum rounds differently between Python versions.
        length = math.sqrt(math.fsum(value * value for value in vector))
        return [value / length for value in vector] if length else vector
