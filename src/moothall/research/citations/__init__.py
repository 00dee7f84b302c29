"""Checks whether a passage supports a sentence, and the footnotes of a narrative."""

from moothall.research.citations.evidence import fault
from moothall.research.citations.footnotes import (
    PARTLY,
    UNSUPPORTED,
    Checked,
    check,
    marked,
    renumbered,
)

__all__ = ["PARTLY", "UNSUPPORTED", "Checked", "check", "fault", "marked", "renumbered"]
