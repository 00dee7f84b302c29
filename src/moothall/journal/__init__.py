"""The journal: the durable record of runs, enough to resume, replay and inspect them."""

from __future__ import annotations

from moothall.foundation.lazily import show_classes
from moothall.journal.deleting import Deleted
from moothall.journal.doubt import Done
from moothall.journal.entry import Entry, Outline, Sums, Wait
from moothall.journal.journal import Journal
from moothall.journal.run_parts import RunPart

__all__ = ["Deleted", "Done", "Entry", "Journal", "Outline", "RunPart", "Sums", "Wait"]

show_classes(__name__)
