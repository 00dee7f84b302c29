"""Deleting runs: hidden at once, then removed piece by piece beside writers.

A process that dies in between leaves nothing half: the next deletion goes on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final

from moothall.foundation.arguments import check_integer, check_name
from moothall.foundation.database import Database
from moothall.foundation.errors import ConfigError, JournalError, RunHeld
from moothall.journal.doubt import Doubt
from moothall.journal.find import THREAD_CONDITION, RunQuery, thread_values
from moothall.journal.holders import Holders, Pace, has_named_values, increment_deletion_count
from moothall.journal.kinds.feedback import CASE_FILE
from moothall.journal.opening import RunOpener
from moothall.journal.stop_reason import FINAL_REASONS
from moothall.journal.store.holding import ids_present
from moothall.journal.store.store import Store
from moothall.journal.store.wait_rows import read_workers, woken_runs, workers_by_asker

_BATCH_ROWS: Final = 50
"""So many entries are deleted before the clock is looked at."""
_MAX_AGE_S: Final = 1e11
_IS_FIRING: Final = (
    "{0}.kind = 'Schedule' AND {0}.id LIKE '%Z' AND {0}.task NOT LIKE 'wanted by %' "
    "AND NOT {0}.deleted"
)
_LAST_FIRING: Final = (
    f"({_IS_FIRING.format('r')} AND NOT EXISTS (SELECT 1 FROM runs n WHERE n.number > r.number "
    f"AND n.agent = r.agent AND {_IS_FIRING.format('n')}))"
)
"""Whether a run is the last firing of a schedule, from whose time the schedule goes on."""
_KEEP_FIRING_TIME: Final = (
    "INSERT INTO runs (id, kind, agent, task, began, changed, state, open, key, unread) "
    "SELECT agent || '@since ' || substr(id, length(agent) + 2), kind, agent, "
    "'the last firing is deleted', began, changed, 'done', FALSE, key, FALSE "
    f"FROM runs r WHERE number = ? AND id NOT LIKE '%@since %' AND {_LAST_FIRING} "
    "ON CONFLICT (id) DO NOTHING"
)
_ROWS_OF_RUN: Final = (("texts", "run"), ("waits", "run"), ("runs", "number"))
_COMPACTION_LEASE: Final = 2**60 - 1
"""The lease of who writes the journal anew, which is no run's."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """What became of runs that were to be deleted.

    Attributes:
        runs: the ids of the runs that were deleted
        left: for the id of each run that was left, why
        overwritten: whether nothing of them is left in the files' bytes; False while processes work
            on other runs: where SQLite has moved rows between pages, copies may remain until
            `Journal.compact`
        folders: the folders in which agents of a deleted thread kept notes, as its runs name them:
            the notes are not deleted with the runs, but by `Notes(folder).forget_thread(thread)`
        files: the files that were written with one of the runs as a case; they stay as they are
    """

    runs: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    overwritten: bool = True
    folders: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


def _runs_on_behalf(db: Database, thread: str) -> dict[str, str]:
    """Return the runs in which one agent asked another in this thread, with what deletes them.

    They are not deleted with it: `front/anna` may be a conversation of front's own.
    """
    escaped = "".join(f"!{each}" if each in "!%_" else each for each in thread)
    query = "SELECT id, thread FROM runs WHERE NOT deleted AND thread LIKE ? ESCAPE '!'"
    rows = db.execute(f"{query} ORDER BY number", (f"%/{escaped}%",)).fetchall()
    return {
        str(id): f"it is of the thread {asking_thread!r}, in which an agent was asked for "
        f"{thread!r}: delete that thread too"
        for id, asking_thread in rows
        if f"/{thread}/" in f"{asking_thread}/"
    }


def _asked_by(db: Database, number: int) -> set[str]:
    """Return the runs in which calls of a run asked agents, and whose replies no other awaits."""
    query = "SELECT data FROM entries WHERE place > ? AND place < ? AND kind = 'started'"
    rows = db.execute(f"{query} AND data LIKE ?", (number << 32, (number + 1) << 32, '%"asks":"%'))
    abouts = [json.loads(data).get("about", {}) for (data,) in rows.fetchall()]
    ids = {str(each["asks"]) for each in abouts if "asks" in each}  # else an argument is named so
    awaited = "SELECT 1 FROM waits WHERE key = ? AND run <> ? AND NOT taken"
    ids = {each for each in ids if not db.execute(awaited, (each, number)).fetchone()}
    return ids_present(db, ids)


def _works_for(db: Database, ids: Iterable[str]) -> tuple[dict[int, str], dict[int, str]]:
    """Return the runs in the background of runs, and the replies to what came of them."""
    by_asker, pending = workers_by_asker(db), [*ids]
    workers, woken = dict[int, str](), dict[int, str]()
    for asker in pending:
        workers |= by_asker.get(asker, {})
        for number, id in woken_runs(db, asker) if asker in by_asker else ():
            woken[number] = id
            pending.append(id)
    return workers, woken


def _paths(db: Database, numbers: Iterable[int], kind: str, field: str) -> list[str]:
    """Return the paths that entries of a kind name in a field of theirs."""
    query = "SELECT data FROM entries WHERE place >= ? AND place < ? AND kind = ?"
    paths: dict[str, None] = {}
    for number in numbers:
        for (data,) in db.execute(query, (number << 32, (number + 1) << 32, kind)).fetchall():
            names = json.loads(data).get(field, ())
            paths |= dict.fromkeys(each for each in names if isinstance(each, str))
    return [*paths]


class Deletions:
    """Deletes runs of a journal."""

    def __init__(
        self, store: Store, runs: RunOpener, answer_askers: Callable[[Iterable[str]], None]
    ) -> None:
        self._store = store
        self._runs = runs
        self._answer_askers = answer_askers
        self._holders = Holders(store, runs)
        self._pace = Pace(store)

    def ids_present(self, ids: Iterable[str]) -> set[str]:
        """Return which of these runs the journal has: a deleted one's id is gone at once."""
        with self._store.reading() as db:
            return ids_present(db, ids)

    def delete(self, ids: Sequence[str], threads: str | Iterable[str] | None) -> Deleted:
        """Delete runs by id, and all of threads; none if another process works on one."""
        are_several = isinstance(threads, Iterable) and not isinstance(threads, str)
        thread_ids: list[Any] = [] if threads is None else [*threads] if are_several else [threads]
        for thread in thread_ids:
            check_name("thread=", thread)
        numbers, left_reasons = dict[int, str](), dict[str, str]()
        self._store.make_room()
        with self._store.reading() as db:
            for id in ids:
                numbers[self._store.run_number(db, id)] = id
            query = f"SELECT number, id FROM runs WHERE {THREAD_CONDITION} AND NOT deleted"
            for thread in thread_ids:
                numbers |= dict(db.execute(f"{query} ORDER BY number", thread_values(thread)))
                left_reasons |= _runs_on_behalf(db, thread)
            workers, woken = _works_for(db, numbers.values())
            numbers |= {**woken, **workers}
            for number, id in numbers.items():
                reason = f"run {id!r} has asked for it: delete it too"
                left_reasons = dict.fromkeys(_asked_by(db, number), reason) | left_reasons
            folders = _paths(db, numbers, "begun", "folders") if thread_ids else []
        leased: list[int] = []
        try:
            # All leases before anything is hidden: one run that is held leaves all as they are.
            for number, id in numbers.items():
                if self._runs.take_lease(number):
                    leased.append(number)
                elif number not in workers:  # else whoever works on it stops, and removes the rest
                    raise RunHeld(id, self._holder(number))
            files = self._hide(list(numbers))
        finally:
            for number in leased:
                self._runs.release(number)
        self._answer_askers(numbers.values())
        left = {id: each for id, each in left_reasons.items() if id not in numbers.values()}
        return Deleted([*numbers.values()], left, self.finish_deletions(), folders, files)

    def prune(self, older_than: float | timedelta, keep: int, run_query: RunQuery) -> Deleted:
        """Delete, among some runs, those that were last written so long ago, but for the newest."""
        if isinstance(older_than, timedelta):
            older_than = older_than.total_seconds()
        if isinstance(older_than, bool) or not isinstance(older_than, int | float):
            raise ConfigError(f"prune: older_than= must be seconds, got {older_than!r:.80}")
        if not 0 <= older_than <= _MAX_AGE_S:
            raise ConfigError(f"prune: older_than= must be from 0 seconds, got {older_than!r}")
        check_integer("keep=", keep, 0)
        cutoff = time.time() - older_than
        self._store.make_room()
        with self._store.reading() as db:
            run_query.check(db)
            leased = partial(self._runs.runs_at_work, db)
            query, values = run_query.old(leased, self._store.attribute_sql, cutoff, keep)
            rows = db.execute(query, values).fetchall()
        pruned, left_reasons, batch = dict[int, str](), dict[str, str](), list[int]()
        files: dict[str, None] = {}
        try:
            for number, id in rows:  # the newest first: forks before what they were made of
                if not self._runs.take_lease(number):
                    left_reasons[id] = f"{self._holder(number) or 'a process'} works on it"
                    continue
                batch.append(number)
                # Held before it is judged, so that no process takes it up in between; one may have
                # worked on it since it was listed.
                reason = self._reason_to_leave(number, id, cutoff, pruned)
                if reason:
                    left_reasons[id] = reason
                    self._runs.release(batch.pop())
                else:
                    pruned[number] = id
                if len(batch) >= _BATCH_ROWS:
                    files |= dict.fromkeys(self._hide(batch))
                    self._release(batch)
            files |= dict.fromkeys(self._hide(batch))
        finally:
            self._release(batch)
        ids = list(reversed(pruned.values()))
        return Deleted(ids, left_reasons, self.finish_deletions(), files=[*files])

    def _release(self, batch: list[int]) -> None:
        while batch:
            self._runs.release(batch.pop())

    def _holder(self, number: int) -> str:
        with self._store.reading() as db:
            row = db.execute("SELECT holder FROM runs WHERE number = ?", (number,)).fetchone()
        return str(row[0]) if row else ""

    def _reason_to_leave(self, number: int, id: str, cutoff: float, pruned: dict[int, str]) -> str:
        """Return why an old run is not pruned; empty if it is."""
        with self._store.reading() as db:
            row = db.execute(
                "SELECT CASE WHEN waiting > 0 AND state IS NULL THEN 'waiting' ELSE state END, "
                f"{_LAST_FIRING} FROM runs r WHERE number = ? AND NOT deleted AND changed < ?",
                (number, cutoff),
            ).fetchone()
            if row is None:
                return "it was worked on or deleted meanwhile"
            state, is_last_firing = row
            if is_last_firing:
                return "its schedule goes on from its time"
            forks = db.execute(
                "SELECT number, id, state FROM runs WHERE forked_from = ? AND NOT deleted", (id,)
            ).fetchall()
            for fork_number, fork_id, fork_state in forks:
                if fork_number not in pruned and fork_state not in FINAL_REASONS:
                    return f"its fork {fork_id!r} has not ended"
            if any(each.end_time is None for each in read_workers(db, "w.path = ?", id)):
                return "work in the background for it goes on"
            if state == "waiting":
                return "it waits for an answer, a result or a moment"
            is_cut_off = state is None and Doubt.among(self._store.read_entries(db, number, id))
            if state == "in_doubt" or is_cut_off:
                return "it waits for a person: calls are in doubt"
        return ""

    def _hide(self, numbers: Iterable[int]) -> list[str]:
        """Mark runs as deleted, which nobody finds then; return the files that have their cases."""
        remaining = list(numbers)
        with self._store.reading() as db:
            files = _paths(db, remaining, CASE_FILE.name, "files")
        while remaining:
            start = time.monotonic()
            with self._store.writing() as db:
                # A piece at a time: writers get their turn in between.
                while remaining and time.monotonic() < start + self._store.slice_s:
                    _hide_run(db, remaining.pop())
                # In the same transaction: who has seen the count before must look for its values.
                increment_deletion_count(db)
            if remaining:
                self._pace.pause(start)
        return files

    def finish_run(self, run_id: str) -> None:
        """Remove what is left of a run that was deleted while this process worked on it."""
        if not self.ids_present([run_id]):
            self.finish_deletions()

    def finish_deletions(self) -> bool:
        """Remove what is left of runs that are marked; return whether no copy can be left."""
        if not self.remove_marked():
            return True
        with self._store.reading() as db:
            is_idle = self._runs.is_idle(n for (n,) in db.execute("SELECT number FROM runs"))
        return self._store.after_deletion(is_idle)

    def compact(self) -> bool:
        """Remove what is left of deleted runs, and write the file anew."""
        if not self._runs.take_lease(_COMPACTION_LEASE):
            raise JournalError(self._store.name, "another process compacts it already")
        try:
            self.remove_marked()
            return self._store.rewrite()
        finally:
            self._runs.release(_COMPACTION_LEASE)

    def remove_marked(self) -> bool:
        """Remove what is left of runs that are marked; return whether there was any."""
        has_removed = holders_filled = False
        while self._marked_numbers():
            has_removed = True
            # What they name must be known before their entries go; and before a value goes, what
            # all others name.
            self._holders.read_runs(self._marked_numbers("AND unread"))
            if not holders_filled and self._have_named_values():
                self._holders.read_runs(None)
                holders_filled = True
            is_done = False
            while not is_done:
                start = time.monotonic()
                numbers = self._marked_numbers("AND NOT unread")
                with self._store.writing() as db:
                    is_done = self._remove_pieces(db, numbers, start + self._store.slice_s)
                self._pace.pause(start)
        if holders_filled:
            self._holders.remove_orphans()
        return has_removed

    def _marked_numbers(self, condition: str = "") -> list[int]:
        with self._store.reading() as db:
            query = f"SELECT number FROM runs WHERE deleted {condition}"
            numbers = [number for (number,) in db.execute(query)]
        leased = set(self._runs.leased_runs(numbers)) if numbers else ()
        return [each for each in numbers if each not in leased]  # else it is still written

    def _have_named_values(self) -> bool:
        numbers = self._marked_numbers()
        with self._store.reading() as db:
            return any(has_named_values(db, each) for each in numbers)

    def _remove_pieces(self, db: Database, numbers: list[int], until: float) -> bool:
        """Remove a piece of the runs that are marked; return whether none is left."""
        while numbers and time.monotonic() < until:
            if self._remove_entries(db, numbers[-1], until):
                numbers.pop()
        return not numbers

    def _remove_entries(self, db: Database, number: int, until: float) -> bool:
        """Remove a piece of a run that is marked; return whether nothing of it is left."""
        first, end = number << 32, (number + 1) << 32
        while time.monotonic() < until:
            rows = db.execute(
                "SELECT place FROM entries WHERE place >= ? AND place < ? ORDER BY place LIMIT ?",
                (first, end, _BATCH_ROWS),
            ).fetchall()
            if not rows:
                break
            db.execute("DELETE FROM entries WHERE place >= ? AND place <= ?", (first, rows[-1][0]))
        else:
            return False
        is_all_released, files = self._holders.release(db, number, until)
        for hash in files:
            self._store.files.delete(hash)
        # The row goes last: while it is there, the next deletion goes on with the rest.
        for table, column in _ROWS_OF_RUN if is_all_released else ():
            db.execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))
        return is_all_released


def _hide_run(db: Database, number: int) -> None:
    """Mark a run as deleted; the time of a schedule's last firing stays, so that it fires once."""
    db.execute(_KEEP_FIRING_TIME, (number,))
    db.execute(
        "UPDATE runs SET forked_from = NULL WHERE forked_from = (SELECT id FROM runs WHERE "
        "number = ?)",
        (number,),
    )
    # An id that nobody can give, since it is not printable.
    db.execute(
        "UPDATE runs SET deleted = TRUE, id = ?, kind = '', agent = '', task = '', thread = NULL, "
        "attributes = NULL, "
        "forked_from = NULL, key = '', holder = '' WHERE number = ?",
        (f"\x01{number}", number),
    )
    for table, column in _ROWS_OF_RUN[:-1]:
        db.execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))
