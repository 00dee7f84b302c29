"""Why a run that could go on does not: its process ends each time, or agents are not up."""

from __future__ import annotations

import json
import time
from typing import Final

from moothall.foundation.database import Database

OPERATOR: Final = "operator"
"""The kind of wait for who decides whether a run goes on; its row has the text as the step."""
AGENTS: Final = "agents"
"""The kind of wait for agents that a run may call; its row has their names as the step."""
_OPERATOR_KEY: Final = "operator:deaths"
_AGENTS_KEY: Final = "agents:away"
_MARK_KEY: Final = "\x01deaths"  # no answer can have it, since it is not printable

# The path has how far the run was, the step how many deaths came before it was resumed there.
_MARK: Final = (
    "INSERT INTO waits (run, key, kind, agent, thread, path, step, place, since, taken) "
    f"VALUES (?, '{_MARK_KEY}', '', '', '', ?, ?, 0, ?, TRUE) ON CONFLICT (run, key) "
    "DO UPDATE SET path = excluded.path, step = excluded.step, since = excluded.since"
)
_SELECT_ANSWER: Final = (
    f"SELECT value FROM waits WHERE run = ? AND key = '{_OPERATOR_KEY}' AND NOT taken"
)
_ASK: Final = (
    "INSERT INTO waits (run, key, kind, agent, thread, path, step, place, since, remind, due) "
    "SELECT number, ?, ?, agent, coalesce(thread, ''), '', ?, (number << 32) + last, ?, ?, ? "
    "FROM runs WHERE number = ? "
    "ON CONFLICT (run, key) DO UPDATE SET step = excluded.step, place = excluded.place, "
    "since = excluded.since, remind = excluded.remind, taken = FALSE, value = NULL, "
    "due = excluded.due, decided_by = NULL, answered = NULL WHERE waits.taken"
)
_PROGRESS: Final = (
    "SELECT coalesce(max(place), 0) FROM entries "
    "WHERE place > ? AND place < ? AND kind <> 'started'"
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


def ask_operator(db: Database, run: int, text: str) -> None:
    """Have somebody decide whether a run goes on."""
    db.execute(_ASK, (_OPERATOR_KEY, OPERATOR, text, time.time(), 0.0, None, run))


def wait_for_agents(db: Database, run: int, names: str) -> None:
    """Have a run say for which agents it waits: it can go on at any time, and nobody is told."""
    now = time.time()
    db.execute(_ASK, (_AGENTS_KEY, AGENTS, names, now, None, now, run))


def operator_decided(db: Database, run: int, key: str = _OPERATOR_KEY) -> str | None:
    """Return what somebody has decided about a run; None without that, or by another key."""
    row = db.execute(_SELECT_ANSWER, (run,)).fetchone()
    return (
        None if row is None or row[0] is None or key != _OPERATOR_KEY else str(json.loads(row[0]))
    )


def end_asking(db: Database, run: int) -> None:
    """Have a run wait no more for its operator, or for agents."""
    query = "UPDATE waits SET taken = TRUE WHERE run = ? AND key IN (?, ?)"
    db.execute(query, (run, _OPERATOR_KEY, _AGENTS_KEY))
