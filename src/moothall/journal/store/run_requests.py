"""What somebody asks of a run: a row that is taken up by the process that works on it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary, ref

from moothall.foundation.database import Database
from moothall.foundation.errors import MoothallError, TooManyThreads
from moothall.foundation.threads import WORKERS, guard, in_child
from moothall.journal.stop_reason import FINAL_REASONS
from moothall.journal.store.store import Store

_LOOK_S: Final = 0.5
"""Seconds between two looks of a process that works on runs."""
_KIND: Final = "cancel"
_KEY: Final = "\x01cancel"  # no answer can have it, since it is not printable

# The text is the cause. It is found by the index of what is due.
_INSERT: Final = (
    "INSERT INTO waits (run, key, kind, agent, thread, path, step, place, since, due) "
    f"VALUES (?, '{_KEY}', '{_KIND}', '', '', '', ?, 0, ?, 0.0) ON CONFLICT (run, key) "
    "DO UPDATE SET step = excluded.step, since = excluded.since, taken = FALSE"
)
_SELECT: Final = f"SELECT step FROM waits WHERE run = ? AND key = '{_KEY}' AND NOT taken"
_SELECT_ALL: Final = (
    "SELECT r.number, r.id, r.state, w.step FROM waits w JOIN runs r ON r.number = w.run "
    f"WHERE NOT w.taken AND w.due <= 0.0 AND w.kind = '{_KIND}' AND NOT r.deleted"
)
IS_CANCELLED_SQL: Final = (
    "(coalesce(state, 'waiting') = 'waiting' AND EXISTS "
    f"(SELECT 1 FROM waits q WHERE q.run = number AND q.key = '{_KEY}' AND NOT q.taken))"
)
"""The condition that a run goes on no more: nobody works on it, and it is to be cancelled."""


def ask_to_cancel(db: Database, run: int, cause: str) -> None:
    """Have the process that works on a run end it, or whoever would go on with it."""
    db.execute(_INSERT, (run, cause, time.time()))


def withdraw_cancel(db: Database, run: int) -> None:
    """Forget that a run is to be cancelled."""
    db.execute("DELETE FROM waits WHERE run = ? AND key = ?", (run, _KEY))


def cancel_cause(db: Database, run: int, state: str | None) -> str:
    """Return why a run that is opened is to be cancelled; empty if it is not, or is over."""
    row = db.execute(_SELECT, (run,)).fetchone()
    if row is None:
        return ""
    if _is_over(state):
        withdraw_cancel(db, run)
        return ""
    return str(row[0])


def _is_over(state: str | None) -> bool:
    return state in FINAL_REASONS or state == "cancelled"


class RunWork:
    """The task that works on a run, which a request cancels.

    Attributes:
        cancel_cause: why it is cancelled; empty until then
        is_asked: whether that was asked, and not yet done
    """

    __slots__ = ("_task", "cancel_cause", "is_asked", "is_over")

    def __init__(self) -> None:
        self._task: Callable[[], asyncio.Task[Any] | None] = lambda: None
        self.cancel_cause: str = ""
        self.is_asked: bool = False
        self.is_over: bool = False

    def begin(self) -> None:
        """Take the current task as the one that works on the run."""
        task = asyncio.current_task()
        if task is not None:
            self._task = ref(task)

    def cancel(self, cause: str) -> None:
        """Cancel the task, once, in any thread."""
        if (task := self._task()) is None:
            return

        def cancel() -> None:
            if not (self.is_over or self.cancel_cause):  # else the task does other work, or ends
                self.cancel_cause, self.is_asked = cause, False
                task.cancel(cause)

        self.is_asked = not self.cancel_cause
        with suppress(RuntimeError):  # its loop has ended
            task.get_loop().call_soon_threadsafe(cancel)


class WorkedOn(Protocol):
    """A run that this process works on."""

    number: int
    work: RunWork


class RequestLook:
    """Looks for requests to runs, every half a second while this process works on any.

    Args:
        store: the store
        leased_runs: returns which of these runs a process works on
    """

    def __init__(self, store: Store, leased_runs: Callable[[list[int]], list[int]]) -> None:
        self._store = store
        self._leased_runs = leased_runs
        # Ends a run that nobody works on; set by what does that.
        self.cancel_idle: Callable[[str, str], object] = lambda run_id, cause: None
        self._lock = guard()
        self._look_lock = guard(threading.Lock())  # held while it reads
        self._closing = threading.Event()
        self._works: WeakValueDictionary[int, WorkedOn] = WeakValueDictionary()
        self._is_looking = False
        in_child(self._renew)

    def _renew(self) -> None:
        self._works.clear()
        self._is_looking = False

    def add(self, run: WorkedOn) -> None:
        """Look for requests to a run, as long as it is worked on."""
        with self._lock:
            self._works[run.number] = run
            if self._is_looking:
                return
            self._is_looking = True
        try:
            WORKERS.submit(_keep_looking, ref(self), self._closing)
        except TooManyThreads:  # the next run tries it again
            self._is_looking = False

    def close(self) -> None:
        """Stop looking: when this returns, nothing reads the store."""
        self._closing.set()
        with self._look_lock:
            pass

    def look_again(self) -> bool:
        """Look once; return whether to do so again, since a run is still worked on."""
        with self._lock:
            self._is_looking = any(not each.work.is_over for each in list(self._works.values()))
            if not self._is_looking:
                return False
        with self._look_lock:
            if self._closing.is_set():
                return False
            with suppress(MoothallError):  # of a database that is away
                self.look()
        return True

    def look(self) -> None:
        """Cancel the runs that are to be cancelled: here, or where nobody works on them."""
        with self._store.reading() as db:
            rows = db.execute(_SELECT_ALL).fetchall()
        if not rows:
            return
        leased_runs = self._leased_runs([number for number, *_ in rows])
        for number, run_id, state, cause in rows:
            with self._lock:
                run = self._works.get(number)
            if number in leased_runs:
                if run is not None and not run.work.is_over:
                    run.work.cancel(cause)
            elif _is_over(state):
                with self._store.writing() as db:
                    withdraw_cancel(db, number)
            elif state != "in_doubt":  # once somebody has decided, whoever goes on with it
                with suppress(MoothallError):  # it was deleted, or is damaged
                    self.cancel_idle(run_id, cause)


def _keep_looking(look_ref: ref[RequestLook], closing: threading.Event) -> None:
    """Look until nothing is worked on; a journal that nobody uses any more is not kept open."""
    while not closing.wait(_LOOK_S):
        look = look_ref()
        if look is None or not look.look_again():
            return
        del look
