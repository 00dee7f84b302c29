"""The work of this process on runs, and what somebody asks of them meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary, ref

from moothall.foundation.errors import MoothallError, NoSuchRun, StateError, TooManyThreads
from moothall.foundation.threads import WORKERS, guard, in_child
from moothall.journal.store.run_requests import (
    CANCEL,
    NO_REQUESTS,
    PAUSED,
    Requests,
    ToldText,
    ask_to_cancel,
    ask_to_pause,
    asks_of_open_runs,
    check_askable,
    is_over,
    keep_told,
    let_go_on,
    withdraw_all,
    withdraw_cancel,
)
from moothall.journal.store.store import Store
from moothall.journal.store.wait_rows import asked_runs

_LOOK_S: Final = 0.5
"""Seconds between two looks of a process that works on runs."""


class RunWork:
    """The task that works on a run, and what it is asked.

    Attributes:
        cancel_cause: why it is cancelled; empty until then
        is_asked: whether that was asked, and not yet done
        pause_cause: why it stops before its next step; empty if it does not
        has_paused: whether it has stopped for that
        is_let_go_on: whether it was paused, and somebody has let it go on
        told_texts: what it was still to hear when it was opened
        hear: returns what has it hear a text; set by what gives its reply
        asked_for: the run for which it works; empty for none
    """

    __slots__ = (
        *("_task", "asked_for", "cancel_cause", "has_paused", "hear", "heard_keys", "is_asked"),
        *("is_let_go_on", "is_over", "pause_cause", "told_texts"),
    )

    def __init__(self, requests: Requests = NO_REQUESTS) -> None:
        self._task: Callable[[], asyncio.Task[Any] | None] = lambda: None
        self.cancel_cause: str
        self.pause_cause: str
        self.is_let_go_on: bool
        self.told_texts: tuple[ToldText, ...]
        self.cancel_cause, self.pause_cause, self.is_let_go_on, self.told_texts = requests
        self.heard_keys: set[str] = {each.key for each in self.told_texts}
        self.hear: Callable[[], Callable[[ToldText], object] | None] = lambda: None
        self.asked_for: str = ""
        self.is_asked: bool = False
        self.has_paused: bool = False
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

    def tell(self, message: ToldText) -> None:
        """Have it hear a text, once, in any thread."""
        if (hear := self.hear()) is not None and message.key not in self.heard_keys:
            self.heard_keys.add(message.key)
            hear(message)


class WorkedOn(Protocol):
    """A run that this process works on."""

    id: str
    number: int
    has_waits: bool
    work: RunWork


class RunRequests:
    """What is asked of runs, at which this process looks while it works on any.

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

    # -- what is asked -----------------------------------------------------------------------------

    def cancel(self, run_id: str, cause: str) -> None:
        """Have a run end that a process works on."""
        with self._store.writing() as db:
            ask_to_cancel(db, self._store.run_number(db, run_id), cause)

    def keep_going(self, run_id: str) -> None:
        """Forget that a run was to be cancelled, or is paused, since a person resumes it."""
        with suppress(NoSuchRun), self._store.writing() as db:
            number = self._store.run_number(db, run_id)
            withdraw_cancel(db, number)
            let_go_on(db, number, run_id, None)

    def pause(self, run_id: str, cause: str) -> bool:
        """Have a run stop before its next step, with those for which it waits, until `go_on`.

        Return whether no process works on it, so that it stands still now.
        """
        with self._store.writing() as db:
            number = self._store.run_number(db, run_id)
            check_askable(db, number, run_id, "paused")
            pending, numbers = [number], dict[int, None]()
            for each in pending:  # a file that somebody made up may have a circle
                if each not in numbers:
                    numbers[each] = None
                    ask_to_pause(db, each, cause, run_id)
                    pending += [self._store.run_number(db, id) for id in asked_runs(db, each)]
        return number not in self._leased_runs([number])

    def go_on(self, run_id: str, by: str | None) -> None:
        """Let a paused run go on, with those that were paused with it."""
        with self._store.writing() as db:
            if not let_go_on(db, self._store.run_number(db, run_id), run_id, by):
                raise StateError(f"run {run_id!r} is not paused")

    def tell(
        self, run_id: str, text: str, by: str | None, sources: Sequence[str] = (), call: str = ""
    ) -> str:
        """Have a run hear a text; return the key by which `is_heard` knows it.

        `call` is what says so, if that may be repeated.
        """
        with self._store.writing() as db:
            number = self._store.run_number(db, run_id)
            check_askable(db, number, run_id, "told something", ended_too=True)
            return keep_told(db, number, run_id, text, by, sources, call)

    def is_heard(self, run_id: str, key: str) -> bool:
        """Return whether a run has heard a text."""
        query = "SELECT 1 FROM waits WHERE run = ? AND key = ? AND NOT taken"
        with self._store.reading() as db:
            row = db.execute(query, (self._store.run_number(db, run_id), key)).fetchone()
            return row is None

    # -- what this process works on ----------------------------------------------------------------

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
            works = {n: each for n, each in self._works.items() if not each.work.is_over}
            self._is_looking = bool(works)
            if not works:
                return False
        with self._look_lock:
            if self._closing.is_set():
                return False
            with suppress(MoothallError):  # of a database that is away
                self._look(works)
        return True

    def _look(self, works: Mapping[int, WorkedOn]) -> None:
        """Hand on what is asked: to the runs here, or where nobody works on them."""
        askers = {each.work.asked_for for each in works.values()} - {""}
        with self._store.reading() as db:
            rows = asks_of_open_runs(db, works, [*askers])
        causes: dict[str, tuple[str, str]] = {}
        cancelled = []
        for number, run_id, state, kind, key, root, text, by, sources in rows:
            if kind == CANCEL:
                cancelled.append((number, run_id, state, text))
            elif kind == PAUSED:
                causes[run_id] = text, root
            else:
                works[number].has_waits = True
                works[number].work.tell(ToldText.of_row(key, text, by, sources))
        self._pause(works, causes)
        leased_runs = self._leased_runs([number for number, *_ in cancelled]) if cancelled else []
        for number, run_id, state, cause in cancelled:
            run = works.get(number)
            if number in leased_runs:
                if run is not None:
                    run.work.cancel(cause)
            elif is_over(state):
                with self._store.writing() as db:
                    withdraw_all(db, number)
            elif state != "in_doubt":  # once somebody has decided, whoever goes on with it
                with suppress(MoothallError):  # it was deleted, or is damaged
                    self.cancel_idle(run_id, cause)

    def _pause(self, works: Mapping[int, WorkedOn], causes: Mapping[str, tuple[str, str]]) -> None:
        """Have runs stop before their next step, and those that work for them; and no others.

        A run that works for such a one is taken up by the process that works on it: here or there.
        """
        for run in works.values():
            work = run.work
            is_asked = run.id in causes
            cause, root = causes.get(run.id if is_asked else work.asked_for, ("", ""))
            if cause and not work.pause_cause:
                run.has_waits = True
                if not is_asked:
                    with self._store.writing() as db:
                        ask_to_pause(db, run.number, cause, root)
            work.pause_cause = cause


def _keep_looking(look_ref: ref[RunRequests], closing: threading.Event) -> None:
    """Look until nothing is worked on; a journal that nobody uses any more is not kept open."""
    while not closing.wait(_LOOK_S):
        look = look_ref()
        if look is None or not look.look_again():
            return
        del look
