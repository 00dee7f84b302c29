"""Companies: the agents of a file, supervised, with schedules, health and metrics."""

from __future__ import annotations

from moothall.text import lazily

_HOME = {
    "Company": "company",
    "Restart": "supervisor",
    "Schedule": "schedule",
    "Supervised": "supervisor",
    "Supervisor": "supervisor",
}

__all__ = [*_HOME]
__getattr__, __dir__ = lazily(__name__, _HOME)
