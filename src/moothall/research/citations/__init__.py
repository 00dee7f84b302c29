"""Checks what a cited sentence has of its passage, and the footnotes of a narrative."""

from moothall.research.citations.exact_checks import fault
from moothall.research.citations.footnotes import Checked, Verdict, check, marked, renumbered

__all__ = ["Checked", "Verdict", "check", "fault", "marked", "renumbered"]
