"""Opening runs: each has at most one writer, a living process that holds its lease."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, Final, TypeAlias
from weakref import WeakSet

from moothall.actions.approval.decision import DECISION_ENTRIES, DECISION_KINDS
from moothall.foundation.arguments import check_text
from moothall.foundation.database import RUNS, Database
from moothall.foundation.errors import RequestCancelled, RunHeld, StateError
from moothall.foundation.threads import WORKERS, guard
from moothall.journal.commits import Commits, OpenRun
from moothall.journal.doubt import Doubt, in_order, state_of
from moothall.journal.entry import ROOT, Entry, parts_of, subpath
from moothall.journal.find import END_SQL
from moothall.journal.kinds.entry_kinds import EntryKind
from moothall.journal.stop_reason import ELSEWHERE_STATE, OPEN_STATES
from moothall.journal.store.backup import give_key
from moothall.journal.store.run_requests import read_requests
from moothall.journal.store.run_work import RunRequests, RunWork
from moothall.journal.store.store import Store, WriteUncertain
from moothall.journal.store.wait_rows import (
    WAIT_ENTRY_KINDS,
    WORKER,
    WorkerRow,
    begin_worker,
    claim_worker,
)
from moothall.journal.tally import search_text

NewRun: TypeAlias = tuple[str, str, str, str | None, str | None]
"""The kind, agent, task, thread and attributes of a run that begins."""

NOTIFIER_LEASE: Final = 0
"""The lease of the process that tells people what waits: no run has this number."""
_LEASE_POLL_S: Final = 0.02
_MAX_TRIES: Final = 3
_HAS_ROWS: Final = "SELECT 1 FROM waits WHERE run = ? AND NOT taken LIMIT 1"
_NO_RUN: Final = 0
_OPEN_RUNS: Final = f"SELECT number, {END_SQL}, last, holder FROM runs WHERE open AND NOT deleted"
_WAITING_RUNS: Final = (
    "SELECT r.id, r.last, max(w.place) FROM waits w JOIN runs r ON r.number = w.run WHERE NOT "
    "w.taken AND w.agent = ? AND w.thread = ? AND w.run <> ? AND (w.place > 0 OR w.kind = "
    f"'{WORKER}') GROUP BY r.number, r.id, r.last ORDER BY r.number"
)
"""The other runs of a thread that wait; those that work for it in the background have no place."""


class RunOpener:
    """Opens runs of a journal; this process holds a lease on each run that it works on."""

    def __init__(self, store: Store, commits: Commits) -> None:
        self._store = store
        self._commits = commits
        self._leases = store.leases()
        # Held until a run of a cancelled caller is released, so that the next finds it free.
        self._opening_lock = guard(threading.Lock())
        self._open_runs: WeakSet[OpenRun] = WeakSet()
        self.requests: RunRequests = RunRequests(store, self.leased_runs)
        self.resumes_cancelled_runs: bool = False  # at the next start

    def close(self) -> None:
        """Release all runs that this process holds."""
        with self._leases.lock:
            self._leases.close()

    def is_taken(self, number: int) -> bool:
        """Return whether this process or another one works on a run."""
        with self._leases.lock:
            return self._leases.is_taken(number)

    def leased_runs(self, numbers: Iterable[int]) -> list[int]:
        """Return which of these runs this process or another one works on."""
        with self._leases.lock:
            return self._leases.leased_runs(numbers)

    def is_idle(self, numbers: Iterable[int]) -> bool:
        """Return whether no process works on a run, or has used a shared budget and lives."""
        with self._leases.lock:
            return self._leases.is_idle(numbers)

    def take_lease(self, number: int) -> bool:
        """Take the lease of a run for something else than work; return False if it is taken."""
        with self._leases.lock:
            return self._leases.take(number)

    def release(self, number: int) -> None:
        """Give back the lease of a run."""
        with self._leases.lock:
            self._leases.give_back(number)

    @contextmanager
    def leasing(self, run_id: str, holder: str, wait_s: float = 0.0) -> Iterator[int]:
        """Have no process work on a run in the `with` block, which gets its number; else RunHeld.

        The error says that `holder` works on it, also after `wait_s`.
        """
        with self._store.reading() as db:
            number = self._store.run_number(db, run_id)
        end = time.monotonic() + wait_s
        while not self.take_lease(number):
            if time.monotonic() >= end:
                raise RunHeld(run_id, holder)
            threading.Event().wait(_LEASE_POLL_S)
        try:
            yield number
        finally:
            self.release(number)

    def leave_runs(self, run_id: str | None, leave: bool) -> None:
        """Have a run, or all that are open or opened later, get no end if they are cancelled."""
        if run_id is None:
            self.resumes_cancelled_runs = leave
        for run in list(self._open_runs):
            run.resumes_later = run.resumes_later or (leave and run_id in (None, run.id))

    def idle_runs(self, db: Database, number: int | None = None) -> dict[int, str | None]:
        """Return the state of each open run, or of one, that no process works on.

        As a run begins or ends, its row and its lease are not read at one moment: so the rows of
        those that are free are read again, and who has changed meanwhile is not idle.
        """
        query, values = (
            (_OPEN_RUNS, ()) if number is None else (f"{_OPEN_RUNS} AND number = ?", (number,))
        )
        rows = db.execute(query, values).fetchall()
        leased = set(self.leased_runs([row[0] for row in rows]))
        if idle := {row for row in rows if row[0] not in leased}:
            with self._store.reading() as later:
                idle &= {*later.execute(query, values)}
        return {number: state for number, state, *_ in idle}

    def runs_at_work(self, db: Database, number: int | None = None) -> set[int]:
        """Return the runs, or whether it is one, that processes work on, or did as it was read."""
        condition = "" if number is None else f" WHERE number = {number}"
        rows = dict(
            db.execute(f"SELECT number, open AND NOT deleted FROM runs{condition}").fetchall()
        )
        leased, idle = self.leased_runs(rows), self.idle_runs(db, number)
        return {*leased, *(n for n, is_open in rows.items() if is_open and n not in idle)}

    async def begin(self, run_id: str, new_run: NewRun | None) -> OpenRun:
        """Open a run in a worker thread; a new one begins with `new_run`, if that is given.

        RequestCancelled if somebody has cancelled it: it has its end then.
        """
        self._store.check()
        # Not a future of the loop: the loop may have ended when the run is open.
        run_future: concurrent.futures.Future[OpenRun] = concurrent.futures.Future()
        WORKERS.submit(self._open_for, run_future, run_id, new_run)
        try:
            run = await asyncio.wrap_future(run_future)
        except BaseException:
            if not run_future.cancel() and run_future.exception() is None:
                run_future.result().close()
            raise
        if cause := run.work.cancel_cause:  # its process was killed before it took that up
            run.close()
            await asyncio.to_thread(self.requests.cancel_idle, run_id, cause)
            raise RequestCancelled(f"run {run_id!r} does not go on: {cause}")
        run.work.begin()
        self.requests.add(run)
        return run

    def begin_worker(self, new_run: NewRun, thread: str | None, row: WorkerRow) -> None:
        """Make a run that works in the background for a thread, once; it begins by `begin`."""
        self._store.check()
        with self._store.writing(lock=RUNS) as db:
            number, _ = self._find_or_create(db, row.id, new_run)
            begin_worker(db, number, thread, row)

    def claim_worker(self, run_id: str, by: int) -> bool:
        """Have a run alone tell of the end of work in the background; False if another one does."""
        with self._store.writing() as db:
            return claim_worker(db, run_id, by, self.leased_runs)

    def check_writable(self) -> None:
        """Write what no run has: a full disk, or a server that is a standby now, can be read."""
        self._store.check()
        with self._store.writing(lock=RUNS) as db:
            self._store.index_text(db, _NO_RUN, str(time.monotonic()))

    def wait_for_openings(self) -> None:
        """Wait until each run that a cancelled caller wanted open is given back."""
        with self._opening_lock:
            pass

    def open(self, run_id: str) -> OpenRun:
        """Open an existing run."""
        self._store.check()
        with self._opening_lock:
            return self._open_with_retries(run_id)

    def note_beside(self, run_id: str, kind: EntryKind, data: dict[str, Any]) -> None:
        """Note an entry beside the work of a run at rest, whose state stays."""
        with closing(self.open(run_id)) as run:
            run.state = state_of(in_order(run.past_entries.values()))
            run.note(kind.path, kind.name, data)
            run.commit_now()

    def _open_for(
        self, run_future: concurrent.futures.Future[OpenRun], run_id: str, new_run: NewRun | None
    ) -> None:
        """Open a run for a waiting caller; close it if the caller was cancelled meanwhile."""
        with self._opening_lock:
            if run_future.cancelled():
                return
            try:
                run = self._open_with_retries(run_id, new_run)
            except BaseException as error:
                with suppress(concurrent.futures.InvalidStateError):
                    run_future.set_exception(error)
                return
            try:
                run_future.set_result(run)
            except concurrent.futures.InvalidStateError:
                run.close()

    def _open_with_retries(self, run_id: str, new_run: NewRun | None = None) -> OpenRun:
        """Open a run, again if a connection was lost; with `new_run`, create a missing one."""
        for _ in range(_MAX_TRIES):
            try:
                return self._open_once(run_id, new_run)
            except WriteUncertain:
                pass  # the connection to a server was lost: what was made is found the next time
        return self._open_once(run_id, new_run)

    def _open_once(self, run_id: str, new_run: NewRun | None) -> OpenRun:
        """Take the lease of a run and read its entries."""
        leased_number = 0
        try:
            with self._store.writing(lock=RUNS) as db:
                number, last_holder = self._find_or_create(db, run_id, new_run)
                with self._leases.lock:
                    if not self._leases.take(number):
                        raise RunHeld(run_id, last_holder or "another process")
                leased_number = number
                this_process = f"process {os.getpid()} on {socket.gethostname()}"
                key, state, *agent_and_thread = db.execute(
                    "SELECT key, state, agent, coalesce(thread, '') FROM runs WHERE number = ?",
                    (number,),
                ).fetchone()
                if state == ELSEWHERE_STATE:
                    raise StateError(
                        f"run {run_id!r} may go on in the journal that it was copied from or moved "
                        "to: delete it there, then `moothall runs adopt` lets it go on here"
                    )
                has_rows = db.execute(_HAS_ROWS, (number,)).fetchone() is not None
                work = RunWork(read_requests(db, number, state)) if has_rows else RunWork()
                if last_holder != this_process:
                    db.execute(
                        "UPDATE runs SET holder = ? WHERE number = ?", (this_process, number)
                    )
            # No other process writes it now. Read without the lock, so that no other run waits.
            with self._store.reading() as db:
                entries = [*self._store.read_entries(db, number, run_id)]
                end = self._store.read_end(db, number)
                waiting_runs = db.execute(_WAITING_RUNS, (*agent_and_thread, number)).fetchall()
        except BaseException:
            if leased_number:
                self.release(leased_number)
            raise
        parts = parts_of(entries)
        run = OpenRun(self._commits, self.release, number, run_id, key, end, parts)
        run.open_calls.update((each.path, each.key) for each in Doubt.among(entries))
        for each in (each for each in entries if each.kind in DECISION_ENTRIES):
            run.standing_decisions.update(DECISION_KINDS.keys_in_entry(each.data))
        kinds = {entry.kind for entry in entries}
        run.has_waits = not WAIT_ENTRY_KINDS.isdisjoint(kinds) or bool(run.open_calls) or has_rows
        run.is_open = state in OPEN_STATES
        for other_id, last, place in waiting_runs:
            if place:
                run.waiting_runs.append((other_id, last))
            else:
                run.has_workers = True
        run.work = work
        self._open_runs.add(run)
        if (
            self.resumes_cancelled_runs
        ):  # read after the run was added, which `Journal.leave_runs` looks for later
            run.resumes_later = True
        return run

    def _find_or_create(self, db: Database, run_id: str, new_run: NewRun | None) -> tuple[int, str]:
        """Return the number of a run, and the process that worked on it last."""
        if new_run is None:
            self._store.run_number(db, run_id)
        else:
            check_text("a run's id", run_id)
        find_query = "SELECT number, holder FROM runs WHERE id = ?"
        row = db.execute(find_query, (run_id,)).fetchone()
        if row is not None:  # never one that is deleted: its id is not printable
            return int(row[0]), str(row[1])
        assert new_run is not None
        inserted = db.execute(
            "INSERT INTO runs (id, kind, agent, task, thread, attributes, began, changed, key, "
            "unread) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, FALSE) ON CONFLICT (id) DO NOTHING",
            (run_id, *new_run, now := time.time(), now, ""),
        ).rowcount
        number, holder = db.execute(find_query, (run_id,)).fetchone()
        if inserted:  # else another process has made it meanwhile
            give_key(db, number)
            self._store.index_text(db, number, search_text(new_run[2], ""))
        return int(number), str(holder)


class RunPart:
    """One part of an open run: that of its agent, or of an agent that works on its behalf."""

    __slots__ = ("past_entries", "path", "run")

    def __init__(self, run: OpenRun, path: str = ROOT) -> None:
        self.run: OpenRun = run
        self.path: str = path
        # From before the run was opened.
        self.past_entries: list[Entry] = run.past_entries.get(path, [])

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.run.id

    @property
    def begin_time(self) -> float:
        """When the run began, in seconds since 1970."""
        with self.run.file.reading() as db:
            row = db.execute("SELECT began FROM runs WHERE number = ?", (self.run.number,))
            return float(row.fetchone()[0])

    @property
    def key(self) -> str:
        """The key of this part, unique among the parts of all runs in all journals."""
        return f"{self.run.key}/{self.path}"

    def part(self, name: str) -> RunPart:
        """The part, such as `H1` or `R1/ID`, of an agent that works on this one's behalf."""
        return RunPart(self.run, subpath(self.path, name))

    def note(self, kind: str, data: dict[str, Any]) -> None:
        """Note an entry, as JSON data; it is written with the next commit."""
        self.run.note(self.path, kind, data)

    async def commit(self) -> None:
        """Write what was noted, in all parts of the run. When this returns, it is in the file."""
        await self.run.commit()

    def end(self, state: str) -> None:
        """Set the state of the run, as its outline shows it; written with the next commit."""
        self.run.state = state

    def close(self) -> None:
        """Let others work on the run. Entries that are noted and not committed are dropped."""
        self.run.close()
