"""The journal: an SQLite file with what happened in each run."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Self

from civitas.errors import DefinitionError
from civitas.journal.commits import Commits
from civitas.journal.doubt import Decision, Doubt, decisions_for, in_doubt, to_decide
from civitas.journal.entry import Entry, Outline, copied
from civitas.journal.file import JournalFile, as_text
from civitas.journal.opening import Runs, check_id
from civitas.journal.run import Part, ReadPart, reply_of
from civitas.jsonvalue import readable

_TASK_CHARS = 500
_OTHERS_S = 0.25
"""How long to wait before looking for what another process has written: SQLite tells nobody."""


class Journal:
    """The durable record of runs, in an SQLite file.

    An agent with a `journal=` records each answer of its model, and the start and end of each
    action, before it relies on them. `reply(…, run_id=R)` then goes on where the run of that id
    stands, in this process or, after that was killed, in another one: what ended is not done again.
    An action that had begun and not ended is in doubt; it is executed again only if it is
    `idempotent`, or if a person says so by `decide`.

    A run has one writer at a time. A process that ends, however that comes about, gives its runs
    back at once; what a living one works on raises `RunHeld` elsewhere. Any process may read.

    What is committed survives the process, killed in whatever moment. With `durability="power"` it
    survives a loss of power too, and each commit waits for the disk; commits of several runs at
    the same time wait for it together.

    Args:
        path: the file; made if it is not there, in a folder that is
        durability: `process` or `power`
        timeout: seconds to wait while another process holds the file locked

    Raises:
        DefinitionError: an argument is none of what it may be
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
        """Close the file, and give back the runs that this journal holds."""
        self._file.close()
        self._runs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- looking -----------------------------------------------------------------------------------

    def runs(self) -> list[Outline]:
        """An outline of each run, in the order in which they began.

        Raises:
            JournalError: the file cannot be read
        """
        with self._file.reading() as db:
            rows = db.execute(_OUTLINES + " ORDER BY number").fetchall()
        return [self._outline(row) for row in rows]

    def run(self, run_id: str) -> Outline:
        """The outline of a run.

        Raises:
            NoSuchRun: there is none of that id
            JournalError: the file cannot be read
        """
        with self._file.reading() as db:
            row = db.execute(_OUTLINES + " WHERE id = ?", (run_id,)).fetchone()
        if row is None:
            raise self._file.unknown(run_id)
        return self._outline(row)

    def entries(self, run_id: str, after: int = 0) -> list[Entry]:
        """What was recorded of a run, in order.

        Args:
            run_id: the run's id
            after: only entries with a higher sequence number

        Raises:
            NoSuchRun: there is no run of that id
            JournalError: the file cannot be read, or is damaged
        """
        with self._file.reading() as db:
            number = self._file.number(db, run_id)
            return [entry for entry, _ in self._file.read(db, number, run_id, max(after, 0))]

    async def follow(self, run_id: str, after: int = 0) -> AsyncIterator[Entry]:
        """The entries of a run, those that are there and then each as it is written.

        It ends when nobody works on the run any more. What this process writes comes at once, what
        another one writes within a quarter of a second.

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
                pass  # the loop has ended, and with it whoever looked on

        self._commits.watching.add(tell)
        try:
            while True:
                written.clear()
                # Before the entries: what is written between the two is seen the next time.
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
        """A large value that an entry names by its sha256.

        Raises:
            JournalError: it is missing or damaged, or the file cannot be read
        """
        return self._file.kept(hash)

    def replay(self, run_id: str) -> Any:
        """Repeat a run from its record: no model is asked, no action executed, nothing is changed.

        Returns:
            The reply that the run gave, with the same messages, steps and usage. Values are as they
            were recorded, as JSON data. Of an orchestrator of your own, a dict with its `begun`,
            `state` and `over`.

        Raises:
            NoSuchRun: there is no run of that id
            StateError: the run has not ended
            JournalError: the file cannot be read, or is damaged
        """
        return reply_of(ReadPart(run_id, self.entries(run_id)))

    def in_doubt(self, run_id: str) -> list[Doubt]:
        """The actions of a run of which nobody knows whether they took effect.

        Of a run that is being worked on, those that are under way.

        Raises:
            NoSuchRun: there is no run of that id
            JournalError: the file cannot be read, or is damaged
        """
        return in_doubt(self.entries(run_id))

    # -- deciding ----------------------------------------------------------------------------------

    def decide(self, run_id: str, decisions: Mapping[int, Decision] | Decision) -> list[Doubt]:
        """Say what becomes of the calls in doubt; it holds when the run goes on.

        Until then each may be decided otherwise.

        Args:
            run_id: the run's id
            decisions: for the number of each call, as `in_doubt` has it, `"repeat"` to execute it
                again, `"skip"` not to, which the model is told, or `Done(value)`, its result; or
                one decision for all

        Returns:
            The calls that were decided about; none, if none was in doubt.

        Raises:
            DefinitionError: one is no decision, or there is no call of such a number
            NoSuchRun: there is no run of that id
            RunHeld: somebody works on the run
            JournalError: the file cannot be written, or is damaged
        """
        run = self._runs.open(run_id)
        try:
            entries = sorted(
                (entry for part in run.past.values() for entry in part), key=lambda e: e.sequence
            )
            made = decisions_for(to_decide(entries), decisions)
            for doubt, data in made:
                run.note(doubt.path, "decided", data)
            run.commit_now()
        finally:
            run.close()
        return [doubt for doubt, _ in made]

    def fork(self, run_id: str, new_id: str | None = None) -> str:
        """Copy a run, for a program that has changed since to go on with the copy.

        Args:
            run_id: the run's id
            new_id: the copy's; the run's with a number if left out

        Returns:
            The copy's id.

        Raises:
            NoSuchRun: there is no run of that id
            ValueError: there is a run of the new id, or it is none
            JournalError: the file cannot be written, or is damaged
        """
        if new_id is not None:
            check_id(new_id)
        with self._file.reading() as db:  # which keeps nobody waiting, however long the run is
            number = self._file.number(db, run_id)
            entries = [entry for entry, _ in self._file.read(db, number, run_id)]
            about = db.execute("SELECT key, state FROM runs WHERE number = ?", (number,))
            key, state = about.fetchone()
        copies = [
            (entry.path, entry.kind, self._file.encoded(data)[0])
            for entry, data in zip(entries, copied(entries, key), strict=True)
        ]
        with self._file.writing() as db:
            taken = {id for (id,) in db.execute("SELECT id FROM runs")}
            if new_id is None:
                numbers = iter(range(1, len(taken) + 2))
                new_id = next(id for n in numbers if (id := f"{run_id}.{n}") not in taken)
            elif new_id in taken:
                raise ValueError(f"there is a run {new_id!r} already: give the copy another id")
            made = db.execute(
                "INSERT INTO runs (id, kind, agent, task, began, forked_from, key) "
                "SELECT ?, kind, agent, task, began, id, ? FROM runs WHERE number = ?",
                (new_id, secrets.token_hex(8), number),
            ).lastrowid
            assert made is not None
            times = [entry.at for entry in entries]
            self._file.write(db, made, (0, b""), copies, state, times)
        return new_id

    # -- what is spent -----------------------------------------------------------------------------

    def account(self, name: str) -> dict[str, Any] | None:
        """The account of a budget that processes share. For `Budget`.

        Raises:
            JournalError: the file cannot be read, or is damaged
        """
        with self._file.reading() as db:
            return self._account(db, name)

    def change_account(
        self, name: str, change: Callable[[dict[str, Any] | None], dict[str, Any]]
    ) -> None:
        """Change the account of a budget while nobody else can. For `Budget`.

        Raises:
            JournalError: the file cannot be written, or is damaged
        """
        with self._file.writing() as db:
            text = as_text(change(self._account(db, name)))
            db.execute(
                "INSERT INTO budgets (name, account) VALUES (?, ?) ON CONFLICT (name) "
                "DO UPDATE SET account = excluded.account",
                (name, text),
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

    async def begin(self, run_id: str, kind: str, agent: str, task: str) -> Part:
        """Work on a run: begin it, or go on with it. For agents; whoever does closes the record.

        Args:
            run_id: the run's id
            kind: the class of the agent
            agent: the agent's id
            task: what it was asked, as text

        Raises:
            RunHeld: somebody works on the run
            JournalError: the file cannot be used, or is damaged
        """
        new = (kind, agent, readable(task[:_TASK_CHARS]))
        return Part(await self._runs.begin(run_id, new))

    # -- what it says ------------------------------------------------------------------------------

    def _outline(self, row: Sequence[Any]) -> Outline:
        number, id, kind, agent, task, began, changed, entries, state, forked = row
        if self._runs.is_taken(number):
            state = "running"
        return Outline(
            id, kind, agent, task, began, changed or began, entries, state or "stopped", forked
        )


_OUTLINES = (
    "SELECT number, id, kind, agent, task, began, "
    "(SELECT at FROM entries WHERE run = number AND sequence = last), last, state, forked_from "
    "FROM runs"
)


def as_journal(given: Journal | str | os.PathLike[str], whose: str) -> Journal:
    """A journal, or that of a path."""
    if isinstance(given, Journal):
        return given
    if isinstance(given, str | os.PathLike):
        return Journal(given)
    raise DefinitionError(
        f"{whose}: journal= must be a Journal or the path of one, got {given!r:.80}"
    )
