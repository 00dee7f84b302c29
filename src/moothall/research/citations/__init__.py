"""Checks whether a passage supports a sentence, and the footnotes of a narrative."""

from moothall.research.citations.evidence import fault
from moothall.research.citations.footnotes import UNSUPPORTED, Checked, check, renumbered

__all__ = ["UNSUPPORTED", "Checked", "check", "fault", "renumbered"]
