"""The journal: the durable record of runs, enough to resume, replay and inspect them."""

from __future__ import annotations

from civitas.journal.doubt import Done
from civitas.journal.entry import Entry, Outline
from civitas.journal.journal import Journal
from civitas.journal.run import Part

__all__ = ["Done", "Entry", "Journal", "Outline", "Part"]
