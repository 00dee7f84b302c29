"""Checks whether a passage supports a sentence, and the footnotes of a narrative."""

from civitas.research.citations.evidence import fault
from civitas.research.citations.footnotes import UNSUPPORTED, Checked, check, renumbered

__all__ = ["UNSUPPORTED", "Checked", "check", "fault", "renumbered"]
