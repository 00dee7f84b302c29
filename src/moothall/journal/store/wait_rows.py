"""The rows of what runs wait for: written with the entries that say so."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from moothall.foundation.database import Database
from moothall.foundation.errors import ConfigError
from moothall.foundation.jsonvalue import NotJSON, copy_json
from moothall.journal.entry import Entry
from moothall.journal.stop_reason import ANSWERED_REASONS
from moothall.journal.store.operator_waits import AGENTS, OPERATOR
from moothall.journal.store.run_requests import PAUSED, WORKER_KEY, note_heard
from moothall.journal.wait_kinds import WAIT_KINDS, Wait

WAIT_ENTRY: Final = "waits"
"""The kind of the entry that says what a call waits for."""
ANSWER_ENTRY: Final = "answered"
"""The kind of the entry with the answer, or that none came in time."""

DOUBT: Final = "doubt"
WAIT_ENTRY_KINDS: Final = frozenset((WAIT_ENTRY, ANSWER_ENTRY, "decided"))
"""The kinds of entries that change rows."""

_REMIND_AT_ONCE: Final = 0.0
"""When somebody is to be reminded of what nobody has been told: at once, by any clock."""
_AGENT_AND_THREAD: Final = (
    "(SELECT agent FROM runs WHERE number = ?), "
    "(SELECT coalesce(thread, '') FROM runs WHERE number = ?)"
)
_INSERT_WAIT: Final = (
    "INSERT INTO waits (run, key, name, kind, path, step, place, since, until, remind, due, agent, "
    f"thread) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {_AGENT_AND_THREAD}) "
    # An answer that was kept for it is there already.
    "ON CONFLICT (run, key) DO UPDATE SET kind = excluded.kind, path = excluded.path, "
    "name = excluded.name, step = excluded.step, place = excluded.place, since = excluded.since, "
    "until = excluded.until, remind = excluded.remind, taken = FALSE, "
    "due = CASE WHEN waits.value IS NULL THEN excluded.due ELSE excluded.since END"
)
_TAKE_EARLY: Final = (
    "UPDATE waits SET key = ? WHERE run = ? AND key = ? AND place = 0 "
    "AND NOT EXISTS (SELECT 1 FROM waits o WHERE o.run = ? AND o.key = ?)"
)
_INSERT_DECISION: Final = (
    "INSERT INTO waits (run, key, kind, path, step, place, since, due, value, decided_by, "
    f"answered, agent, thread) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {_AGENT_AND_THREAD}) "
    "ON CONFLICT (run, key) DO UPDATE SET place = excluded.place, due = excluded.due, "
    "value = excluded.value, decided_by = excluded.decided_by, answered = excluded.answered, "
    "taken = FALSE"
)

_INSERT_REMINDER: Final = (
    "INSERT INTO waits (run, key, kind, path, step, place, since, remind, agent, thread) "
    f"VALUES (?, ?, ?, ?, ?, 0, ?, ?, {_AGENT_AND_THREAD}) "
    "ON CONFLICT (run, key) DO UPDATE SET since = excluded.since, remind = excluded.remind"
)


_ANSWER_COLUMNS: Final = ("key", "name", "kind", "value", "decided_by", "answered", "sources")


# No call waits for it: a reply that came late, until the sender of its message has it.
LATE: Final = "late"
_INSERT_LATE: Final = (
    "INSERT INTO waits (run, key, kind, agent, thread, path, step, place, since, due) "
    f"SELECT number, '\x01late', '{LATE}', agent, '', '', '', 0, ?, 0.0 FROM runs "
    "WHERE id = ? AND NOT deleted ON CONFLICT (run, key) DO NOTHING"
)
LATE_RUNS: Final = (
    "SELECT r.id FROM waits w JOIN runs r ON r.number = w.run WHERE NOT w.taken AND w.due <= 0.0 "
    f"AND w.kind = '{LATE}' AND w.agent = ? AND NOT r.deleted AND r.state IN "
    f"({', '.join('?' * len(ANSWERED_REASONS))}) ORDER BY r.number"
)


# No call waits for it: a run that works in the background, until who asked has heard of its end.
WORKER: Final = "worker"
# The name is the action, the path the run that asked, the step the text that it was given.
_INSERT_WORKER: Final = (
    "INSERT INTO waits (run, key, name, kind, agent, thread, path, step, place, since, sources) "
    f"VALUES (?, '{WORKER_KEY}', ?, '{WORKER}', ?, ?, ?, ?, 0, ?, ?) "
    "ON CONFLICT (run, key) DO NOTHING"
)
_END_WORKER: Final = (
    f"UPDATE waits SET answered = ? WHERE run = ? AND kind = '{WORKER}' AND answered IS NULL "
    "AND (SELECT state FROM runs WHERE number = ?) NOT IN ('waiting', 'in_doubt')"
)
_WORKERS: Final = (
    "SELECT r.id, w.name, w.path, w.agent, r.thread, w.step, w.sources, w.answered, w.value "
    f"FROM waits w JOIN runs r ON r.number = w.run WHERE w.kind = '{WORKER}' AND NOT r.deleted AND "
)


class WorkerRow(NamedTuple):
    """A run that works in the background, of whose end who asked has still to hear."""

    id: str
    action: str  # the name of the action that asked
    asker: str  # the run that asked
    agent: str  # whose run that is
    thread: str  # of its own
    text: str
    sources: tuple[str, ...] = ()  # of the text
    end_time: float | None = None
    fault: str | None = None  # why it could not begin


class WaitEntry(NamedTuple):
    """An entry that changes rows: which of the entries of its commit it is, and what it says.

    `at` is the time of the entry; None means the time of its commit.
    """

    position: int
    path: str
    kind: str
    data: dict[str, Any]
    at: float | None = None


class WaitOutcome(NamedTuple):
    """What came of a wait."""

    value: Any
    by: str | None = None
    at: float | None = None
    expired: bool = False
    sources: tuple[str, ...] = ()  # what it comes from, if from outside

    @property
    def late_text(self) -> str:
        """Return that nobody has answered in time, in words."""
        when = datetime.fromtimestamp(self.at or 0).isoformat(" ", "seconds")
        return f"nobody has answered by {when}"


def doubt_key(path: str, step: str) -> str:
    """Return the key by which a call in doubt is decided."""
    return f"{DOUBT}:{path}/{step}" if path else f"{DOUBT}:{step}"


def write_rows(
    db: Database,
    run: int,
    last_sequence: int,
    entries: Iterable[WaitEntry],
    is_over: bool,
    is_paused: bool = False,
) -> None:
    """Write what entries after `last_sequence` say; `is_over`: no process works on the run now.

    `is_paused`: it has stopped since it is paused; perhaps somebody has let it go on just now.
    """
    now = time.time()
    for position, path, kind, data, at in entries:
        if "told_keys" in data:
            note_heard(db, run, data["told_keys"])
            continue
        place, step = run << 32 | (last_sequence + position + 1), str(data.get("key"))
        if kind == WAIT_ENTRY:
            until, key, name = data.get("until"), data["wait"], data.get("name", "")
            if allowed_names := data.get("who"):
                # An answer that somebody else gave before does not count.
                other_sql = f"decided_by NOT IN ({', '.join('?' * len(allowed_names))})"
                db.execute(
                    "DELETE FROM waits WHERE run = ? AND key = ? AND place = 0 "
                    f"AND (decided_by IS NULL OR {other_sql})",
                    (run, name, *allowed_names),
                )
            if name != key:
                db.execute(_TAKE_EARLY, (key, run, name, run, key))
            since = now if at is None else at
            values = (run, key, name, data["kind"], path, step, place, since, until)
            db.execute(_INSERT_WAIT, (*values, _REMIND_AT_ONCE, until, run, run))
        elif kind == ANSWER_ENTRY:
            query = "UPDATE waits SET taken = TRUE WHERE run = ? AND key = ?"
            db.execute(query, (run, data["wait"]))
        else:
            from moothall.journal.store.entry_values import (
                stored_json,  # no first agent needs pydantic_core
            )

            value = {name: each for name, each in data.items() if name in ("decision", "value")}
            row = (
                run,
                doubt_key(path, step),
                DOUBT,
                path,
                step,
                place,
                now,
                now,
                stored_json(value),
            )
            db.execute(_INSERT_DECISION, (*row, data.get("by"), now, run, run))
    if is_over:  # what was decided is carried out
        db.execute(_END_WORKER, (now, run, run))
        db.execute(
            "UPDATE waits SET taken = TRUE WHERE run = ? AND NOT taken AND (kind IN (?, ?, ?) OR "
            "(kind = ? AND value IS NOT NULL))",
            (run, DOUBT, OPERATOR, AGENTS, "" if is_paused else PAUSED),
        )


def woken_id(asker: str, number: int) -> str:
    """Return the id of the reply, by its number, to what came of the work for a run."""
    return f"{asker}/woken-{number}"


def is_wait_of(run_id: str, wait_data: Mapping[str, Any]) -> bool:
    """Return whether a run waits for what an entry says: a copy asks a person for itself."""
    return not WAIT_KINDS[wait_data["kind"]].is_bound or wait_data.get("run", run_id) == run_id


def reopen_rows(db: Database, run: int, id: str, entries: Iterable[Entry]) -> bool:
    """Write the rows of what a copied run waits for; return whether it waits for anything."""
    wait_entries = [
        WaitEntry(each.sequence - 1, each.path, each.kind, each.data, each.at)
        for each in entries
        if each.kind == ANSWER_ENTRY or (each.kind == WAIT_ENTRY and is_wait_of(id, each.data))
    ]
    write_rows(db, run, 0, wait_entries, is_over=False)
    query = f"SELECT 1 FROM waits WHERE run = ? AND NOT taken AND kind <> '{LATE}'"
    return db.execute(query, (run,)).fetchone() is not None


def untaken_answers(db: Database, run: int) -> list[dict[str, Any]]:
    """Return the answers that a run was given and that no entry has yet, as JSON data."""
    rows = db.execute(
        f"SELECT {', '.join(_ANSWER_COLUMNS)} FROM waits "
        "WHERE run = ? AND NOT taken AND value IS NOT NULL AND kind NOT IN (?, ?, ?, ?) "
        "ORDER BY key",
        (run, DOUBT, OPERATOR, PAUSED, WORKER),
    ).fetchall()
    return [dict(zip(_ANSWER_COLUMNS, row, strict=True)) for row in rows]


def note_doubt_reminder(db: Database, run: int, doubt: Wait, remind: float | None) -> None:
    """Write when somebody is told again of a call in doubt: no entry says that one is."""
    row = (run, doubt.key, DOUBT, doubt.path, doubt.step, doubt.since, remind, run, run)
    db.execute(_INSERT_REMINDER, row)


def asked_runs(db: Database, run: int) -> list[str]:
    """Return the runs for whose replies this run waits, and no other one does."""
    query = (
        "SELECT r.id FROM waits w JOIN runs r ON r.id = w.key WHERE w.run = ? AND NOT w.taken "
        "AND w.kind = 'result' AND NOT r.deleted AND NOT EXISTS "
        "(SELECT 1 FROM waits o WHERE o.key = w.key AND o.run <> w.run AND NOT o.taken)"
    )
    return [str(id) for (id,) in db.execute(query, (run,)).fetchall()]


def end_rows(db: Database, run: int) -> None:
    """Have nobody wait for what a run that is over had asked."""
    query = "UPDATE waits SET taken = TRUE WHERE run = ? AND NOT taken AND kind NOT IN (?, ?)"
    db.execute(query, (run, LATE, WORKER))


def begin_worker(db: Database, run: int, thread: str | None, row: WorkerRow) -> None:
    """Keep that a run works in the background, for a thread of who asks."""
    sources = json.dumps(row.sources) if row.sources else None
    cells = (run, row.action, row.agent, thread or "", row.asker, row.text, time.time(), sources)
    db.execute(_INSERT_WORKER, cells)


def read_workers(
    db: Database, condition: str, *cells: str, told_too: bool = False
) -> list[WorkerRow]:
    """Return the runs in the background that fulfil a condition, in the order of their ends.

    The end of each is read with its row: both are written in one transaction.
    """
    condition = condition if told_too else f"NOT w.taken AND {condition}"
    rows = db.execute(f"{_WORKERS}{condition} ORDER BY w.answered, w.since, w.run", cells)
    return [
        WorkerRow._make((*row[:6], tuple(json.loads(row[6] or "[]")), *row[7:]))
        for row in rows.fetchall()
    ]


def workers_by_asker(db: Database) -> dict[str, dict[int, str]]:
    """Return the numbers and ids of all runs in the background, by the run that asked."""
    query = "SELECT w.path, r.number, r.id FROM waits w JOIN runs r ON r.number = w.run "
    runs = dict[str, dict[int, str]]()
    for asker, *run in db.execute(f"{query}WHERE w.kind = ? AND NOT r.deleted", (WORKER,)):
        runs.setdefault(asker, {}).update([run])
    return runs


def woken_runs(db: Database, asker: str) -> Iterator[tuple[int, str]]:
    """Yield the replies to what came of the work in the background for a run."""
    query, id = "SELECT number, id FROM runs WHERE id = ?", woken_id(asker, 1)
    for count in itertools.count(2):
        if (row := db.execute(query, (id,)).fetchone()) is None:
            return
        yield row
        id = woken_id(asker, count)


def claim_worker(
    db: Database, run_id: str, by: int, is_at_work: Callable[[list[int]], list[int]]
) -> bool:
    """Have one run tell of the end of another in the background; whether that is the run `by`.

    `is_at_work` returns which of these runs a process works on: another one may have begun to.
    """
    query = (
        "SELECT w.run, w.decided_by FROM waits w JOIN runs r ON r.number = w.run WHERE r.id = ? "
        "AND w.kind = ? AND NOT w.taken AND NOT r.deleted"
    )
    row = db.execute(query, (run_id, WORKER)).fetchone()
    if row is None or (row[1] not in (None, str(by)) and is_at_work([int(row[1])])):
        return False
    claim = "UPDATE waits SET decided_by = ? WHERE run = ? AND key = ? AND NOT taken AND "
    values = (str(by), row[0], WORKER_KEY, row[1] or "")
    return db.execute(f"{claim}coalesce(decided_by, '') = ?", values).rowcount > 0


def keep_late_reply(db: Database, run_id: str) -> None:
    """Keep that whoever sent the message of a run is still to get its reply."""
    db.execute(_INSERT_LATE, (time.time(), run_id))


def has_late_reply(db: Database, run: int) -> bool:
    """Return whether the sender of a run's message is still to get its reply."""
    query = f"SELECT 1 FROM waits WHERE run = ? AND kind = '{LATE}'"
    return db.execute(query, (run,)).fetchone() is not None


def sorted_json(text: str) -> str:
    """Return an answer as it is compared with another one."""
    return json.dumps(json.loads(text), sort_keys=True)


def answer_json(kind: str, key: str, value: Any) -> str:
    """Return an answer as it is stored; ConfigError if it is not of that kind."""
    from moothall.journal.store.entry_values import stored_json

    value = WAIT_KINDS[kind].check_answer(key, value)
    try:
        return stored_json(copy_json(value))
    except NotJSON as error:
        raise ConfigError(f"the answer to {key!r} is not JSON: {error}") from error
