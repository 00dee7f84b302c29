"""Which runs can go on: by what has come, or by what has come for a run that they wait for."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from moothall.foundation.errors import NoSuchRun, StateError
from moothall.journal.entry import MAX_FIRST_ENTRIES, begin_data_of
from moothall.journal.stop_reason import FINAL_REASONS
from moothall.journal.store.operator_waits import DEATHS_KEY, PROGRAM_KEY
from moothall.journal.store.run_requests import (
    WORKER_KEY,
    is_paused_sql,
    note_heard,
    paused_runs,
)
from moothall.journal.store.wait_rows import WORKER, WorkerRow, read_workers

if TYPE_CHECKING:
    from moothall.journal.store.store import Store

_RETRY_S: Final = 60.0
_BELOW: Final = (
    "WITH RECURSIVE below (number) AS (SELECT number FROM runs WHERE id = ? UNION "
    "SELECT r.number FROM below b JOIN waits w ON w.run = b.number AND NOT w.taken "
    "JOIN runs r ON r.id = w.key)"
)
"""A run, with those for whose replies it waits, and so on."""


class DueRuns:
    """The runs of a journal that can go on, and which run waits for which."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._askers: dict[str, str | None] = {}  # which run has asked for a run that is due

    def run_ids(self, agent: str | None = None) -> list[str]:
        """Return the runs that can go on: each with an answer, or its moment or time has come.

        Also those that wait for such a run; if that does not go on, again after a minute.
        """
        query = (  # by the agent's index, all that waits would be read
            "SELECT r.id, w.agent, min(w.due) FROM waits w JOIN runs r ON r.number = w.run "
            "WHERE NOT w.taken AND w.due > 0.0 AND w.due <= ? AND w.place > 0 AND NOT r.deleted "
            "GROUP BY r.number, r.id, w.agent ORDER BY 3"
        )
        now = time.time()
        with self._store.reading() as db:
            rows = db.execute(query, (now,)).fetchall()
            paused_ids = paused_runs(db) if rows else set[str]()
        agent_by_run = {id: run_agent for id, run_agent, _ in rows}
        self._askers = {id: each for id, each in self._askers.items() if id in agent_by_run}
        held_back = set[str]()
        for id, _, due_at in rows:
            visited, askers, is_mismatch = {id: None}, dict[str, str](), False
            while (asker := self.asker_of(id)) is not None and asker[0] not in visited:
                id, asker_agent, changed = asker
                visited[id] = None
                is_mismatch = is_mismatch or not changed  # another program may take it at once
                if is_mismatch or due_at > changed or now > changed + _RETRY_S:
                    askers[id] = asker_agent
            if paused_ids.isdisjoint(visited):
                agent_by_run |= {id: each for id, each in askers.items() if id not in agent_by_run}
            else:  # it goes on with the run that it is for
                held_back.update(visited)
        return [
            id
            for id, run_agent in agent_by_run.items()
            if agent in (None, run_agent) and id not in held_back
        ]

    def asker_of(self, run_id: str) -> tuple[str, str, float] | None:
        """Return the run that waits for this run of an agent asked, its agent and last change.

        The change is 0 if a program did not take this run, since it differs.
        """
        asker_id = self.asked_for(run_id)
        if asker_id is None:
            return None
        query = (
            "SELECT r.id, r.agent, CASE WHEN EXISTS (SELECT 1 FROM waits q JOIN runs h ON "
            f"h.number = q.run WHERE h.id = w.key AND q.key = '{PROGRAM_KEY}' AND NOT q.taken "
            "AND q.value IS NULL) THEN 0.0 ELSE r.changed END FROM runs r JOIN waits w "
            "ON w.run = r.number WHERE w.key = ? AND NOT w.taken AND NOT r.deleted"
        )
        with self._store.reading() as db:
            row = db.execute(f"{query} AND r.id = ?", (run_id, asker_id)).fetchone()
            if row is None:  # it has gone: perhaps a copy of it waits
                row = db.execute(f"{query} ORDER BY r.number", (run_id,)).fetchone()
        asker: tuple[str, str, float] | None = row
        return asker

    def asked_for(self, run_id: str) -> str | None:
        """Return the run that has asked for this one; None without it."""
        if run_id not in self._askers:
            asked_for = None
            skipping = self._store.skipping_damaged(run_id)
            with suppress(NoSuchRun), skipping:
                first_entries = self._store.entries_of(run_id, most=MAX_FIRST_ENTRIES)
                asked_for = (begin_data_of(first_entries) or {}).get("asked_for")
            self._askers[run_id] = asked_for  # after a read that fails, it is read again
        asker_id = self._askers[run_id]
        return asker_id if isinstance(asker_id, str) else None

    def askers_of(self, run_id: str) -> list[str]:
        """Return the run that has asked for this one, the run that has asked for that, and so on.

        They need not wait for it.
        """
        askers = {run_id: None}
        while (asker := self.asked_for(next(reversed(askers)))) not in (None, *askers):
            askers[str(asker)] = None
        return [*askers][1:]

    def open_below(self, run_id: str, *states: str) -> list[str]:
        """Return the runs that have not ended and for whose replies a run waits, and so on."""
        query = (
            f"{_BELOW} SELECT r.id, r.state FROM below b JOIN runs r ON r.number = b.number "
            "WHERE r.id <> ? AND NOT r.deleted ORDER BY r.number"
        )
        open_states = states or (None, "waiting", "in_doubt")
        with self._store.reading() as db:
            rows = db.execute(query, (run_id, run_id)).fetchall()
        return [str(id) for id, state in rows if state in open_states]

    def check_doubt_below(self, run_id: str) -> None:
        """Raise StateError if calls are in doubt of a run for whose reply this one waits."""
        if ids := self.open_below(run_id, "in_doubt"):
            text = f"has no call in doubt, but run {ids[0]!r} has, for whose reply it waits"
            advice = f"decide there: `moothall resume {ids[0]}`, with --repeat, --skip or --done"
            raise StateError(f"run {run_id!r} {text}: {advice}")

    def first_asker(self, run_id: str) -> str:
        """Return the run that waits for this run, for one that does, and so on; or the run."""
        visited = {run_id: None}  # a file that somebody made up may have a circle
        while (asker := self.asker_of(run_id)) is not None and asker[0] not in visited:
            run_id = asker[0]
            visited[run_id] = None
        return run_id

    def workers(self, agent: str, thread: str | None = None) -> list[WorkerRow]:
        """Return the runs in the background that an agent has to hear of: in a thread, or all."""
        with self._store.reading() as db:
            if thread is None:
                return read_workers(db, "w.agent = ?", agent)
            return read_workers(db, "w.agent = ? AND w.thread = ?", agent, thread)

    def worker(self, run_id: str) -> WorkerRow | None:
        """Return a run as one in the background; None if it is none, or if its end is told."""
        with self._store.reading() as db:
            return next(iter(read_workers(db, "r.id = ?", run_id)), None)

    def told_worker(self, run_id: str, agent: str, thread: str) -> WorkerRow | None:
        """Return a run in the background of a conversation, also once its end is told."""
        condition = "r.id = ? AND w.agent = ? AND w.thread = ?"
        with suppress(ValueError), self._store.reading() as db:  # an id with a lone surrogate
            cells = (run_id, agent, thread)
            return next(iter(read_workers(db, condition, *cells, told_too=True)), None)
        return None

    def end_workers(self, asker: str, cancel: Callable[[str], object], run_id: str = "") -> bool:
        """End what works for a run in the background, or one run of that; nobody is told.

        Return whether any did.
        """
        condition, id = ("r.id = ?", run_id) if run_id else ("w.path = ?", asker)
        try:
            with self._store.writing() as db:
                rows = read_workers(db, condition, id)
                ids = [each.id for each in rows if each.end_time is None]
                note_heard(db, 0, [WORKER_KEY + each for each in ids])
        except ValueError:  # a lone surrogate or a NUL, which no id has
            return False
        for each in ids:
            with suppress(StateError, NoSuchRun):  # it has ended, or was deleted meanwhile
                cancel(each)
        return bool(ids)

    def fail_worker(self, run_id: str, fault: str) -> None:
        """Have who asked for a run in the background hear why it could not begin."""
        query = (
            "UPDATE waits SET value = ?, answered = ? WHERE kind = ? AND answered IS NULL "
            "AND run IN (SELECT number FROM runs WHERE id = ?)"
        )
        with self._store.writing() as db:
            db.execute(query, (fault, time.time(), WORKER, run_id))

    def has_deadly_run(self, prefix: str) -> bool:
        """Return whether a run whose id begins so has ended its process too often, and waits."""
        query = (
            "SELECT 1 FROM runs r JOIN waits w ON w.run = r.number WHERE r.id >= ? AND r.id < ? "
            f"AND w.key = '{DEATHS_KEY}' AND NOT w.taken AND w.value IS NULL LIMIT 1"
        )
        bounds = (prefix, f"{prefix[:-1]}{chr(ord(prefix[-1]) + 1)}")
        with self._store.reading() as db:
            return db.execute(query, bounds).fetchone() is not None

    def held_up_runs(self, agent: str) -> list[str]:
        """Return an agent's runs that may go on though nothing has come for them.

        They wait for a run which is over, and were not told that; or for their program.
        """
        query = (
            "SELECT DISTINCT r.id FROM waits w JOIN runs r ON r.number = w.run LEFT JOIN runs h ON "
            "h.id = w.key WHERE w.agent = ? AND NOT w.taken AND w.value IS NULL AND NOT r.deleted "
            f"AND NOT {is_paused_sql('w.run')} "
            f"AND (w.key = '{PROGRAM_KEY}' OR w.kind = 'result' AND h.state IN "
            f"({', '.join('?' * len(FINAL_REASONS))}))"
        )
        with self._store.reading() as db:
            return [id for (id,) in db.execute(query, (agent, *FINAL_REASONS))]


def is_due(store: Store, run_id: str) -> bool:
    """Return whether a run can go on, or one that it waits for."""
    query = (
        f"{_BELOW} SELECT 1 FROM below b JOIN waits w ON w.run = b.number "
        "WHERE NOT w.taken AND w.place > 0 AND w.due > 0.0 AND w.due <= ? LIMIT 1"
    )
    with store.reading() as db:
        return db.execute(query, (run_id, time.time())).fetchone() is not None
