"""The runs of firings: their ids and times, and notes on their schedules."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from moothall import NoSuchRun
from moothall.serving.company.schedule import MAX_TIMES, time_text

if TYPE_CHECKING:
    from moothall.journal import Journal, Outline

SCHEDULE_KIND: Final = "Schedule"
"""The kind of the runs of firings."""
MAX_RUNS_READ: Final = MAX_TIMES + 20
"""So many runs of a schedule are looked at for its last time: a thousand may be wanted ones."""
WANTED_PREFIX: Final = "wanted by "
"""What the task of a firing begins with that an operator wants: it stands for no other time."""


@dataclass
class FiringState:
    """The state of a firing's run."""

    outcome: str = ""


def paused_id(name: str) -> str:
    """Return the id of the run that says that a schedule is paused."""
    return f"{name}@paused"


def pause_of(journal: Journal, name: str) -> Outline | None:
    """Return the note that a schedule is paused; None if it is not."""
    try:
        note = journal.run(paused_id(name))
    except NoSuchRun:
        return None
    return note if note.state == "waiting" else None  # else its process died before it was paused


def firing_time(run: Outline) -> datetime | None:
    """Return the time of a firing; None for a note about its schedule."""
    at = time_of(run.id)
    return at if at is not None and run.id == f"{run.agent}@{time_text(at)}" else None


def time_of(run_id: str) -> datetime | None:
    """Return the time in the id of a firing, or of a note of its schedule."""
    try:
        return datetime.fromisoformat(run_id.rpartition("@")[2].removeprefix("since "))
    except ValueError:
        return None
