"""Checks what a cited sentence has of its passage, and the footnotes of a narrative."""

from moothall.research.citations.exact_checks import fault
from moothall.research.citations.footnotes import (
    CheckedNarrative,
    Verdict,
    check,
    mark_uncited,
    renumber_footnotes,
)

__all__ = [
    "CheckedNarrative",
    "Verdict",
    "check",
    "fault",
    "mark_uncited",
    "renumber_footnotes",
]
