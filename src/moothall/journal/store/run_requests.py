"""What somebody asks of a run, each a row: to end, to pause, to hear something.

The process that works on the run takes it up (`run_work.py`); else whoever would go on with it.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from moothall.foundation.database import Database
from moothall.foundation.errors import StateError
from moothall.journal.stop_reason import FINAL_REASONS, OPEN_STATES

CANCEL: Final = "cancel"
PAUSED: Final = "paused"
"""The kind of wait of a run that is to stop before its next step, until somebody lets it go on."""
TELL: Final = "tell"
_CANCEL_KEY: Final = "\x01cancel"  # no answer can have it, since it is not printable
WORKER_KEY: Final = "\x01worker"
"""The key of the row of a run in the background; before its id, that by which it is told."""
PAUSE_KEY: Final = "operator:pause"
GO_ON: Final = "go-on"
"""The answer by which a paused run goes on."""

_MAX_TOLD: Final = 100
"""How many texts of one run wait to be heard."""
_MARK_UNTIMELY: Final = "0.0"  # what is due then is no answer: only requests are found by it

# The text is the cause.
_INSERT_CANCEL: Final = (
    "INSERT INTO waits (run, key, kind, agent, thread, path, step, place, since, due) "
    f"VALUES (?, '{_CANCEL_KEY}', '{CANCEL}', '', '', '', ?, 0, ?, {_MARK_UNTIMELY}) "
    "ON CONFLICT (run, key) "
    "DO UPDATE SET step = excluded.step, since = excluded.since, taken = FALSE"
)
# The text is the step; the path is the run with which it was paused.
_INSERT_PAUSE: Final = (
    "INSERT INTO waits (run, key, kind, agent, thread, path, step, place, since, due) "
    f"SELECT number, '{PAUSE_KEY}', '{PAUSED}', agent, coalesce(thread, ''), ?, ?, "
    f"(number << 32) + last, ?, {_MARK_UNTIMELY} FROM runs WHERE number = ? AND NOT deleted "
    # Not with a run that goes on meanwhile.
    f"AND (id = ? OR EXISTS (SELECT 1 FROM runs p JOIN waits q ON q.run = p.number "
    f"WHERE p.id = ? AND q.key = '{PAUSE_KEY}' AND NOT q.taken AND q.value IS NULL)) "
    "ON CONFLICT (run, key) DO UPDATE SET path = excluded.path, step = excluded.step, "
    "place = excluded.place, since = excluded.since, due = excluded.due, value = NULL, "
    "decided_by = NULL, answered = NULL, taken = FALSE WHERE waits.taken OR waits.value IS NOT NULL"
)
_INSERT_TOLD: Final = (
    "INSERT INTO waits (run, key, kind, agent, thread, path, step, place, since, due, decided_by, "
    f"sources) VALUES (?, ?, '{TELL}', '', '', '', ?, 0, ?, {_MARK_UNTIMELY}, ?, ?) "
    "ON CONFLICT (run, key) DO NOTHING"
)
_GO_ON: Final = (
    f"UPDATE waits SET value = ?, decided_by = ?, answered = ?, due = ? WHERE key = '{PAUSE_KEY}' "
    "AND NOT taken AND value IS NULL AND (run = ? OR path = ?)"
)
_SELECT: Final = (
    "SELECT key, kind, step, value, decided_by, sources FROM waits WHERE run = ? AND NOT taken "
    f"AND kind IN ('{CANCEL}', '{PAUSED}', '{TELL}') ORDER BY since, key"
)


def is_paused_sql(run: str) -> str:
    """Return the condition that somebody has paused a run; `run` is what has its number."""
    return (
        f"EXISTS (SELECT 1 FROM waits q WHERE q.run = {run} AND q.key = '{PAUSE_KEY}' "
        "AND NOT q.taken AND q.value IS NULL)"
    )


def paused_runs(db: Database) -> set[str]:
    """Return the runs that are paused."""
    query = (
        "SELECT r.id FROM waits w JOIN runs r ON r.number = w.run WHERE NOT w.taken AND "
        f"w.due <= {_MARK_UNTIMELY} AND w.kind = '{PAUSED}' AND w.value IS NULL"
    )
    return {str(id) for (id,) in db.execute(query)}


IS_CANCELLED_SQL: Final = (
    "(coalesce(state, 'waiting') = 'waiting' AND EXISTS "
    f"(SELECT 1 FROM waits q WHERE q.run = number AND q.key = '{_CANCEL_KEY}' AND NOT q.taken))"
)
"""The condition that a run goes on no more: nobody works on it, and it is to be cancelled."""
IS_PAUSED_SQL: Final = f"(state IS NULL AND {is_paused_sql('number')})"
"""The condition that a run that was cut off waits, since it is paused."""

_NO_STEPS: Final = {
    **dict.fromkeys(("Society", "Survey"), "cancel it: `moothall resume` goes on with its steps"),
    "Schedule": "the run of the agent that it asks can be, and `moothall schedules pause`",
}
"""The kinds of runs that cannot be paused or told something, each with what else there is."""


class ToldText(NamedTuple):
    """What a run is to hear: the key of its row, the text, who says it, and what that is from."""

    key: str
    text: str
    by: str | None
    sources: tuple[str, ...]

    @classmethod
    def of_row(cls, key: str, text: str, by: str | None, sources: str | None) -> ToldText:
        """Return the text of a row."""
        return cls(key, text, by, () if sources is None else tuple(json.loads(sources)))


class Requests(NamedTuple):
    """What is asked of a run that is opened: why it ends or pauses, and what it is to hear."""

    cancel_cause: str = ""
    pause_cause: str = ""
    is_let_go_on: bool = False
    told_texts: tuple[ToldText, ...] = ()


NO_REQUESTS: Final = Requests()


def ask_to_cancel(db: Database, run: int, cause: str) -> None:
    """Have the process that works on a run end it, or whoever would go on with it."""
    db.execute(_INSERT_CANCEL, (run, cause, time.time()))


def withdraw_cancel(db: Database, run: int) -> None:
    """Forget that a run is to be cancelled."""
    db.execute("DELETE FROM waits WHERE run = ? AND key = ?", (run, _CANCEL_KEY))


def withdraw_all(db: Database, run: int) -> None:
    """Forget what was asked of a run: it has ended."""
    query = "DELETE FROM waits WHERE run = ? AND NOT taken AND kind IN (?, ?, ?)"
    db.execute(query, (run, CANCEL, PAUSED, TELL))


def ask_to_pause(db: Database, run: int, cause: str, root: str) -> None:
    """Have a run stop before its next step, with the run `root` for which it works."""
    db.execute(_INSERT_PAUSE, (root, cause, time.time(), run, root, root))


def let_go_on(db: Database, run: int, id: str, by: str | None) -> bool:
    """Let a paused run go on, with what was paused with it; return False if it is not paused."""
    now = time.time()
    return db.execute(_GO_ON, (json.dumps(GO_ON), by, now, now, run, id)).rowcount > 0


def keep_told(
    db: Database, run: int, id: str, text: str, by: str | None, sources: Sequence[str], call: str
) -> str:
    """Keep a text until a run has heard it; return its key. What one call says is kept once."""
    query = "SELECT count(*) FROM waits WHERE run = ? AND kind = ? AND NOT taken"
    if db.execute(query, (run, TELL)).fetchone()[0] >= _MAX_TOLD:
        raise StateError(f"run {id!r} has {_MAX_TOLD} texts already that it has not heard")
    now = time.time()
    key = f"\x01tell:{call or f'{now:020.6f}:{secrets.token_hex(4)}'}"
    db.execute(_INSERT_TOLD, (run, key, text, now, by, json.dumps([*sources]) if sources else None))
    return key


def note_heard(db: Database, run: int, keys: Iterable[str]) -> None:
    """Note that a run has heard texts: the entry that says so is written with it."""
    query = "UPDATE waits SET taken = TRUE WHERE key = ? AND run = "
    for key in keys:
        if worker_id := key.partition(WORKER_KEY)[2]:
            by_id = f"{query}(SELECT number FROM runs WHERE id = ?)"
            db.execute(by_id, (WORKER_KEY, worker_id))
        else:
            db.execute(f"{query}?", (key, run))


def read_requests(db: Database, run: int, state: str | None) -> Requests:
    """Return what is asked of a run that is opened; of one that is over, nothing any more."""
    rows = db.execute(_SELECT, (run,)).fetchall()
    if not rows:
        return NO_REQUESTS
    if is_over(state):
        withdraw_all(db, run)
        return NO_REQUESTS
    texts = {kind: (str(step), value) for _, kind, step, value, *_ in rows}
    pause_cause, go_on = texts.get(PAUSED, ("", None))
    told_texts = tuple(
        ToldText.of_row(key, step, by, sources)
        for key, kind, step, _, by, sources in rows
        if kind == TELL
    )
    return Requests(
        texts.get(CANCEL, ("",))[0], "" if go_on else pause_cause, go_on is not None, told_texts
    )


def is_over(state: str | None) -> bool:
    """Return whether a run in this state of the table goes on no more by itself."""
    return state in FINAL_REASONS or state == "cancelled"


def check_askable(db: Database, run: int, id: str, wish: str, *, ended_too: bool = False) -> None:
    """Raise StateError unless a run can be paused or told something; `wish` says it.

    `ended_too`: also one that has stopped, and that somebody may resume.
    """
    kind, state = db.execute("SELECT kind, state FROM runs WHERE number = ?", (run,)).fetchone()
    if advice := _NO_STEPS.get(kind):
        raise StateError(f"run {id!r} is of a {kind} and cannot be {wish}: {advice}")
    if is_over(state) or not (ended_too or state == "waiting" or state in OPEN_STATES):
        raise StateError(f"run {id!r} cannot be {wish}: it is {state}")


def asks_of_open_runs(db: Database, works: Iterable[int], askers: Sequence[str]) -> list[Any]:
    """Return what is asked of these runs, which of their askers pause, and what is to be cancelled.

    `works` are their numbers, `askers` the ids of the runs for which they work.
    """
    numbers, marks = ", ".join(map(str, works)) or "NULL", ", ".join("?" * len(askers)) or "NULL"
    query = (
        "SELECT r.number, r.id, r.state, w.kind, w.key, w.path, w.step, w.decided_by, w.sources "
        "FROM waits w JOIN runs r ON r.number = w.run "
        f"WHERE NOT w.taken AND w.due <= {_MARK_UNTIMELY} AND NOT r.deleted AND "
        f"(w.kind = '{CANCEL}' OR (w.kind IN ('{PAUSED}', '{TELL}') AND w.run IN ({numbers})) "
        f"OR (w.kind = '{PAUSED}' AND r.id IN ({marks}))) ORDER BY w.since, w.key"
    )
    deleted_query = (
        "SELECT number, id, NULL, ?, '', '', 'it was deleted', NULL, NULL FROM runs "
        f"WHERE deleted AND number IN ({numbers})"
    )
    return [*db.execute(query, [*askers]), *db.execute(deleted_query, (CANCEL,))]
