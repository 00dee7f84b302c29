"""The journal: an SQLite file with what happened in each run."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Self

from moothall.arguments import check_integer
from moothall.errors import ConfigError
from moothall.journal.commits import Commits
from moothall.journal.doubt import Decision, Doubt, decisions_for, in_doubt
from moothall.journal.entry import Entry, Outline, Outlines, copied
from moothall.journal.journal_file import JournalFile, as_text
from moothall.journal.opening import MAX_ID, Runs, check_id
from moothall.journal.run_parts import Part, ReadPart, reply_of
from moothall.jsonvalue import readable

_TASK_CHARS = 500
_OTHERS_S = 0.25
"""Seconds between looks for what another process has written: SQLite does not signal it."""


class Journal:
    """The durable record of runs, in an SQLite file.

    An agent with a `journal=` records each answer of its model, and the start and end of each
    action, before it relies on them. `reply(…, run_id=R)` then resumes that run where it stopped,
    in this process or, after it was killed, in another one: what has ended is not done again. An
    action that had started and not ended is in doubt; it is executed again only if it is
    `idempotent`, or if a person says so by `decide`.

    A run has one writer at a time. A process that ends, for any reason, releases its runs at once;
    a run that a living process works on raises `RunHeld` elsewhere. Any process may read.

    Committed entries survive a kill of the process at any moment. With `durability="power"` they
    also survive a loss of power, and each commit waits for the disk; commits of several runs at
    the same time wait for it together.

    Args:
        path: the file; created if it does not exist; its folder must exist
        durability: `process` or `power`
        timeout: seconds to wait while another process holds the file locked

    Raises:
        DefinitionError: an argument is wrong
        JournalError: the file cannot be used; the text says why and what to do
    """

    def __init__(
        self, path: str | os.PathLike[str], *, durability: str = "process", timeout: float = 10
    ) -> None:
        self._file = JournalFile(path, durability, timeout)
        self.durability = durability
        self._commits = Commits(self._file, waits=durability == "power")
        self._runs = Runs(self._file, self._commits)

    @property
    def path(self) -> str:
        """The file, as it was given."""
        return self._file.name

    def __repr__(self) -> str:
        return f"Journal({self.path!r})"

    def close(self) -> None:
        """Close the file, and release the runs that this journal holds."""
        self._file.close()
        self._runs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- looking -----------------------------------------------------------------------------------

    def runs(self) -> Outlines:
        """Return an outline of each run, in the order in which they began.

        Raises:
            JournalError: the file cannot be read
        """
        with self._file.reading() as db:
            rows = db.execute(_OUTLINES + " ORDER BY number").fetchall()
        return Outlines(self._outline(row) for row in rows)

    def run(self, run_id: str) -> Outline:
        """Return the outline of a run.

        Raises:
            NoSuchRun: there is no run of that id
            JournalError: the file cannot be read
        """
        with self._file.reading() as db:
            number = self._file.number(db, run_id)
            row = db.execute(_OUTLINES + " WHERE number = ?", (number,)).fetchone()
        return self._outline(row)

    def entries(self, run_id: str, after: int = 0) -> list[Entry]:
        """Return the entries of a run, in order.

        Args:
            run_id: the run's id
            after: only entries with a higher sequence number

        Raises:
            NoSuchRun: there is no run of that id
            JournalError: the file cannot be read, or is damaged
        """
        with self._file.reading() as db:
            number = self._file.number(db, run_id)
            return [entry for entry, _ in self._file.read(db, number, run_id, after)]

    async def follow(self, run_id: str, after: int = 0) -> AsyncIterator[Entry]:
        """Yield the entries of a run: the existing ones, then each as it is written.

        It ends when no process works on the run any more. Entries that this process writes come at
        once, those of another process within a quarter of a second.

        Args:
            run_id: the run's id
            after: only entries with a higher sequence number

        Raises:
            NoSuchRun: there is no run of that id
            JournalError: the file cannot be read, or is damaged
        """
        loop = asyncio.get_running_loop()
        written = asyncio.Event()

        def tell() -> None:
            try:
                loop.call_soon_threadsafe(written.set)
            except RuntimeError:
                pass  # the loop of this reader has ended

        self._commits.watching.add(tell)
        try:
            while True:
                written.clear()
                # Read before the entries: what is written in between is seen the next time.
                now = self.run(run_id)
                if now.entries > after:
                    for entry in self.entries(run_id, after):
                        after = entry.sequence
                        yield entry
                elif now.state != "running":
                    return
                else:
                    try:
                        async with asyncio.timeout(_OTHERS_S):
                            await written.wait()
                    except TimeoutError:
                        pass
        finally:
            self._commits.watching.discard(tell)

    def kept(self, hash: str) -> bytes:
        """Return a large value that an entry names by its sha256.

        Raises:
            JournalError: it is missing or damaged, or the file cannot be read
        """
        return self._file.kept(hash)

    def replay(self, run_id: str) -> Any:
        """Replay a run from its record: no model is asked, no action executed, nothing is changed.

        Returns:
            The run's reply, with the same messages, steps and usage. Values are JSON data, as they
            were recorded. For your own orchestrator, a dict with its `begun`, `state` and `over`.

        Raises:
            NoSuchRun: there is no run of that id
            StateError: the run has not ended
            JournalError: the file cannot be read, or is damaged
        """
        return reply_of(ReadPart(run_id, self.entries(run_id)))

    def in_doubt(self, run_id: str) -> list[Doubt]:
        """Return the calls of a run whose outcome is unknown.

        For a run that is being worked on, these are the calls under way.

        Raises:
            NoSuchRun: there is no run of that id
            JournalError: the file cannot be read, or is damaged
        """
        return in_doubt(self.entries(run_id))

    # -- deciding ----------------------------------------------------------------------------------

    def decide(self, run_id: str, decisions: Mapping[int, Decision] | Decision) -> list[Doubt]:
        """Record decisions about the calls in doubt; they take effect when the run is resumed.

        Until then, each decision can be replaced.

        Args:
            run_id: the run's id
            decisions: for the number of each call, as `in_doubt` has it, `"repeat"` to execute it
                again, `"skip"` not to, which the model is told, or `Done(value)`, its result; or
                one decision for all

        Returns:
            The calls that were decided about; none, if none was in doubt.

        Raises:
            DefinitionError: a decision is wrong, or there is no call of such a number
            NoSuchRun: there is no run of that id
            RunHeld: another writer has the run
            JournalError: the file cannot be written, or is damaged
        """
        run = self._runs.open(run_id)
        try:
            entries = sorted(
                (entry for part in run.past.values() for entry in part), key=lambda e: e.sequence
            )
            made = decisions_for(in_doubt(entries, with_decided=True), decisions)
            for doubt, data in made:
                run.note(doubt.path, "decided", data)
            run.commit_now()
        finally:
            run.close()
        return [doubt for doubt, _ in made]

    def fork(self, run_id: str, new_id: str | None = None, *, upto: int | None = None) -> str:
        """Copy a run, so that a program that has changed since can resume the copy.

        Args:
            run_id: the run's id
            new_id: the copy's id; the run's id with a number if left out
            upto: the sequence number of the last entry to copy; defaults to all entries

        Returns:
            The copy's id.

        Raises:
            NoSuchRun: there is no run of that id
            ValueError: there is a run of the new id, or the new id is not valid
            DefinitionError: `upto` is not the number of an entry
            JournalError: the file cannot be written, or is damaged
        """
        if new_id is not None:
            check_id(new_id)
        with self._file.reading() as db:  # makes no writer wait, however long the run is
            number = self._file.number(db, run_id)
            entries = [entry for entry, _ in self._file.read(db, number, run_id)]
            about = db.execute("SELECT key, state FROM runs WHERE number = ?", (number,))
            key, state = about.fetchone()
        if upto is not None:
            check_integer("upto=", upto, 1, len(entries))
            state = state if upto == len(entries) else None
            del entries[upto:]
        copies = [
            (entry.path, entry.kind, self._file.encoded(data)[0])
            for entry, data in zip(entries, copied(entries, key), strict=True)
        ]
        with self._file.writing() as db:
            taken = {id for (id,) in db.execute("SELECT id FROM runs")}
            if new_id is None:
                stem = run_id[: MAX_ID - 10]
                numbers = iter(range(1, len(taken) + 2))
                new_id = next(id for n in numbers if (id := f"{stem}.{n}") not in taken)
            elif new_id in taken:
                raise ValueError(f"there is a run {new_id!r} already: give the copy another id")
            made = db.execute(
                "INSERT INTO runs (id, kind, agent, task, thread, began, forked_from, key) "
                "SELECT ?, kind, agent, task, thread, began, id, ? FROM runs WHERE number = ?",
                (new_id, secrets.token_hex(8), number),
            ).lastrowid
            assert made is not None
            times = [entry.at for entry in entries]
            self._file.write(db, made, (0, b""), copies, state, times)
        return new_id

    # -- budgets -----------------------------------------------------------------------------------

    def accounts(self, names: Sequence[str]) -> list[dict[str, Any] | None]:
        """Return the accounts of budgets that processes share. For `Budget`."""
        with self._file.reading() as db:
            return [self._account(db, name) for name in names]

    def change_accounts(
        self,
        names: Sequence[str],
        change: Callable[[list[dict[str, Any] | None]], list[dict[str, Any]]],
    ) -> None:
        """Change the accounts of budgets, alone among all processes. For `Budget`."""
        with self._file.writing() as db:
            accounts = change([self._account(db, name) for name in names])
            db.executemany(
                "INSERT INTO budgets (name, account) VALUES (?, ?) ON CONFLICT (name) "
                "DO UPDATE SET account = excluded.account",
                [(name, as_text(each)) for name, each in zip(names, accounts, strict=True)],
            )

    def _account(self, db: sqlite3.Connection, name: str) -> dict[str, Any] | None:
        row = db.execute("SELECT account FROM budgets WHERE name = ?", (name,)).fetchone()
        if row is None:
            return None
        try:
            found = json.loads(row[0])
        except (ValueError, TypeError, RecursionError) as error:
            raise self._file.damaged(f"budget {name!r}: {error}") from error
        if not isinstance(found, dict):
            raise self._file.damaged(f"budget {name!r} is no account")
        return found

    # -- working -----------------------------------------------------------------------------------

    async def begin(
        self, run_id: str, kind: str, agent: str, task: str, thread: str | None = None
    ) -> Part:
        """Begin or resume a run of an agent, of the class `kind`; the caller closes the part."""
        new = (kind, agent, readable(task[:_TASK_CHARS]), thread)
        return Part(await self._runs.begin(run_id, new))

    # -- what it says ------------------------------------------------------------------------------

    def _outline(self, row: Sequence[Any]) -> Outline:
        number, id, kind, agent, task, began, changed, entries, state, forked, thread = row
        if self._runs.is_taken(number):
            state = "running"
        times = (began, changed or began)
        return Outline(id, kind, agent, task, *times, entries, state or "stopped", forked, thread)


_OUTLINES = (
    "SELECT number, id, kind, agent, task, began, "
    "(SELECT at FROM entries WHERE place = number << 32 | last), last, state, forked_from, "
    "thread FROM runs"
)


def as_journal(given: Journal | str | os.PathLike[str], whose: str) -> Journal:
    """Return a journal, opened if it is given as a path."""
    if isinstance(given, Journal):
        return given
    if isinstance(given, str | os.PathLike):
        return Journal(given)
    raise ConfigError(f"{whose}: journal= must be a Journal or the path of one, got {given!r:.80}")
