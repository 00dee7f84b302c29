"""How often the process of a run has ended, since it got as far as it is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from moothall.foundation.database import Database
from moothall.journal.store import operator_waits

_MARK_KEY: Final = "\x01deaths"  # no answer can have it, since it is not printable

# The path has how far the run was, the step how many deaths came before it was resumed there.
_MARK: Final = (
    "INSERT INTO waits (run, key, kind, agent, thread, path, step, place, since, taken) "
    f"VALUES (?, '{_MARK_KEY}', '', '', '', ?, ?, 0, ?, TRUE) ON CONFLICT (run, key) "
    "DO UPDATE SET path = excluded.path, step = excluded.step, since = excluded.since"
)
_PROGRESS: Final = (
    "SELECT coalesce(max(place), 0) FROM entries "
    "WHERE place > ? AND place < ? AND kind <> 'started'"
)


_LET_GO_ON: Final = (
    f"SELECT 1 FROM waits w JOIN runs r ON r.number = w.run WHERE r.id = ? AND w.key = "
    f"'{operator_waits.DEATHS_KEY}' AND w.value IS NOT NULL AND w.answered > "
    f"(SELECT since FROM waits WHERE run = ? AND key = '{_MARK_KEY}')"
)


def deaths_of(db: Database, run: int) -> tuple[str, int]:
    """Return how far a run is, and how often its process has ended there since it was resumed."""
    (place,) = db.execute(_PROGRESS, (run << 32, (run + 1) << 32)).fetchone()
    row = db.execute(
        f"SELECT path, step FROM waits WHERE run = ? AND key = '{_MARK_KEY}'", (run,)
    ).fetchone()
    (state,) = db.execute("SELECT state FROM runs WHERE number = ?", (run,)).fetchone()
    progress = str(place)
    if row is not None and row[0] == progress:
        return progress, int(row[1]) + 1
    return progress, int(state is None)  # it was cut off there by the process that came to it


def note_resumption(db: Database, run: int, progress: str, deaths: int) -> None:
    """Note that a run is resumed after so many deaths: if this process dies, it is one more."""
    db.execute(_MARK, (run, progress, str(deaths), time.time()))


def forget_deaths(db: Database, run: int) -> None:
    """Forget that a run was resumed: the process that did so has lived."""
    db.execute(f"DELETE FROM waits WHERE run = ? AND key = '{_MARK_KEY}'", (run,))


def was_let_go_on(db: Database, run: int, askers: Sequence[str]) -> bool:
    """Return whether an operator has let this run go on, or since it was resumed an asker of it.

    Of the askers nothing is counted or asked any more then: one answer is for all.
    """
    if operator_waits.operator_decided(db, run, operator_waits.DEATHS_KEY) is None:
        return any(db.execute(_LET_GO_ON, (each, run)).fetchone() for each in askers)
    for each in askers:
        for (number,) in db.execute("SELECT number FROM runs WHERE id = ?", (each,)).fetchall():
            forget_deaths(db, number)
            operator_waits.end_asking(db, number, operator_waits.DEATHS_KEY)
    return True
