"""Whether a passage bears a sentence out, and the footnotes of a narrative that do."""

from civitas.research.citations.evidence import fault
from civitas.research.citations.footnotes import UNSUPPORTED, Checked, check, renumbered

__all__ = ["UNSUPPORTED", "Checked", "check", "fault", "renumbered"]
