"""Embedders: texts as vectors, so that what is alike in meaning is near."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from itertools import pairwise
from typing import Protocol, runtime_checkable
from zlib import crc32

from civitas.arguments import check_count

_WORD = re.compile(r"\w+")
_UNSPACED = "\u2e80"
"""From here on are the scripts of East Asia: few characters to a word, no spaces between words."""
_DIGITS = re.compile(r"\d+")


@runtime_checkable
class Embedder(Protocol):
    """What turns texts into vectors.

    Attributes:
        name: what its vectors are kept under; another name is another space of vectors, and the
            two are never compared. It says all that the vectors depend on: model and settings.
        dimensions: how many numbers a vector has
    """

    name: str
    dimensions: int

    def embed(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text, in their order. May be called in any thread.

        Args:
            texts: what to embed; they may be empty
        """
        ...


class HashEmbedder:
    """Embeds by the words and the pieces of words that a text has: no model, no dependency.

    Texts are near each other that share spelling: inflections (`paid`, `prepaid`), typing errors,
    compounds, in any script. It knows no synonyms. The same text gives the same vector in every
    process.

    Words and their pieces of three and four characters (one and two in East Asian scripts) are
    hashed to dimensions and signs, as in "Feature Hashing for Large Scale Multitask Learning"
    (Weinberger et al., 2009); what occurs n times weighs √n.

    Args:
        dimensions: how many; fewer take less room, and confuse more

    Raises:
        DefinitionError: `dimensions` is not an integer from 8 to 65536
    """

    def __init__(self, dimensions: int = 256) -> None:
        check_count("HashEmbedder", "dimensions", dimensions, least=8, most=65536)
        self.dimensions = dimensions
        self.name = f"hashed-pieces-1-{dimensions}"

    def embed(self, texts: list[str]) -> list[list[float]]:
        """A vector of length 1 for each text; one without words has the length 0."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        pieces: Counter[str] = Counter()
        for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
            bounded = f"<{word}>"
            # The word counts as two of its pieces: in common texts most pieces are of endings.
            pieces[bounded] += 2
            if word[0] >= _UNSPACED:
                pieces.update(word)
                pieces.update(map("".join, pairwise(word)))
            elif not _DIGITS.fullmatch(word):  # a number is that number, or another
                pieces.update(bounded[i : i + 3] for i in range(len(bounded) - 2))
                pieces.update(bounded[i : i + 4] for i in range(len(bounded) - 3))
        vector = [0.0] * self.dimensions
        for piece, times in pieces.items():
            hashed = crc32(piece.encode("utf-8", "surrogatepass"))
            weight = math.sqrt(times)
            # The highest bit is the sign: pieces that meet in a dimension cancel out on average.
            vector[(hashed & 0x7FFFFFFF) % self.dimensions] += weight if hashed >> 31 else -weight
        # Exact, where the builtin sum rounds differently from one Python to the next.
        length = math.sqrt(math.fsum(value * value for value in vector))
        return [value / length for value in vector] if length else vector
