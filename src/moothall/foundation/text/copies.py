"""Whether an answer repeats what its author was shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

COPIED_WORDS: Final = 40
"""How many words in a row make a copy: an answer quotes less at once."""


def copied_stretch(answer: str, shown: Iterable[str], words: int = COPIED_WORDS) -> str:
    """Return the first stretch of so many words in a row that stands in a shown text, else ""."""
    said = answer.split()
    if len(said) < words:
        return ""
    stretches = {
        tuple(given[at : at + words])
        for given in (text.split() for text in shown)
        for at in range(len(given) - words + 1)
    }
    for at in range(len(said) - words + 1):
        if tuple(said[at : at + words]) in stretches:
            return " ".join(said[at : at + words])
    return ""
