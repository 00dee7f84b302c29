"""The journal: an SQLite file with what happened in each run."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Self, Unpack

from moothall.actions.provenance import with_sources
from moothall.actions.provenance.reading import add_sources_of, current_reading
from moothall.foundation import postgres
from moothall.foundation.arguments import check_boolean, check_integer, check_name
from moothall.foundation.errors import ConfigError
from moothall.foundation.jsonvalue import readable
from moothall.foundation.threads import ProcessBound
from moothall.journal.attributes import attributes_json, read_attributes
from moothall.journal.commits import Commits
from moothall.journal.deleting import Deleted, Deletions
from moothall.journal.doubt import Doubt
from moothall.journal.entry import Entry, Outline, Outlines, Sums, outlines_of_kind, reply_of
from moothall.journal.find import FIELDS, FILTERS, Filters, RunFilter, RunQuery, with_filters
from moothall.journal.forking import fork_run
from moothall.journal.kinds.feedback import TakesFeedback
from moothall.journal.moving import adopt_run, export_run, file_path, import_run, move_run
from moothall.journal.opening import RunOpener, RunPart
from moothall.journal.run_waits import Waits
from moothall.journal.shared_budgets import SharedBudgets
from moothall.journal.store.backup import back_up, find_faults, restore_journal
from moothall.journal.store.by_path import open_store
from moothall.journal.store.operated_runs import OperatedRuns
from moothall.journal.store.store import Store
from moothall.journal.tally import SUM_COLUMNS, TASK_CHARS, detail_in
from moothall.journal.wait_kinds import Decision, Wait

_TASK_ENTRIES: Final = 10  # so many entries of a run have its task, with its mark
_SHA256: Final = re.compile("[0-9a-f]{64}")


class Journal(OperatedRuns, TakesFeedback, ProcessBound, remedy="give its path, and open it there"):
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

    Attributes:
        filters: what `runs` and `sums` find runs by, with the help and the option of each
        budgets: the budgets that processes share by it, for a person to see and change
        file, waits, deletions, held_runs: its parts, for agents, services and doors

    Raises:
        ConfigError: an argument is wrong
        JournalError: the file cannot be used; the text says why and what to do
    """

    filters: ClassVar[Mapping[str, RunFilter]] = FILTERS
    is_url: ClassVar[Callable[[object], bool]] = staticmethod(postgres.is_url)

    def __init__(
        self, path: str | os.PathLike[str], *, durability: str = "process", timeout: float = 10
    ) -> None:
        self.file: Store = open_store(path, durability, timeout)
        self.durability = durability
        self._commits = Commits(self.file)
        self.held_runs: RunOpener = RunOpener(self.file, self._commits)
        self.budgets: SharedBudgets = SharedBudgets(self.file, self.held_runs)
        self.waits: Waits = Waits(self.file, self.held_runs)
        self.deletions: Deletions = Deletions(self.file, self.held_runs, self.waits.answer_askers)

    @classmethod
    def from_argument(cls, journal: Journal | str | os.PathLike[str], owner: str) -> Journal:
        """Return what is given as `journal=`, opened if it is a path; an error names the owner."""
        if isinstance(journal, Journal):
            return journal
        if isinstance(journal, str | os.PathLike):
            return cls(journal)
        raise ConfigError(f"{owner}: journal= must be a Journal or its path, got {journal!r:.80}")

    @property
    def path(self) -> str:
        """The file, as it was given."""
        return self.file.name

    def __repr__(self) -> str:
        return f"Journal({self.path!r})"

    def close(self) -> None:
        """Close the file, and release the runs that this journal holds."""
        self.held_runs.requests.close()
        self.file.close()
        self.held_runs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @with_filters
    def runs(
        self, *, sort: str = "began", limit: int | None = None, **filters: Unpack[Filters]
    ) -> Outlines:
        """Return an outline of each run, in the order in which they began; or of those wanted.

        Args:
            sort: `began`, `changed`, `seconds`, `tokens`, `usd`, `model_calls`, `actions`,
                `errors` or `entries`; with a `-` before it, the largest first
            limit: the most runs
            **filters: which runs are wanted; all are by default:

                * `tags`, or what else `reply` says of a run: texts by name (None: any), or names

        Raises:
            ConfigError: an argument is not valid
            JournalError: the file cannot be read
        """
        query = RunQuery.of(Journal.runs, filters, sort=sort, limit=limit)
        return Outlines(self._note_sources(self._outlines(query)))

    def sums(self, **filters: Unpack[Filters]) -> Sums:
        """Return how many runs there are, and what they have spent together.

        Args:
            **filters: which runs are wanted, as for `runs`

        Raises:
            ConfigError: an argument is not valid
            JournalError: the file cannot be read
        """
        run_query = RunQuery.of(Journal.sums, filters)
        with self.file.reading() as db:
            run_query.check(db)
            leased_runs = partial(self.held_runs.runs_at_work, db)
            query, values = run_query.sums_query(leased_runs, self.file.attribute_sql)
            return Sums.of(db.execute(query, values).fetchone())

    def threads(self) -> list[str]:
        """Return the ids of the conversations that runs belong to, in order."""
        query = "SELECT DISTINCT thread FROM runs WHERE thread IS NOT NULL AND NOT deleted"
        with self.file.reading() as db:
            return sorted(thread for (thread,) in db.execute(query))

    def run(self, run_id: str) -> Outline:
        """Return the outline of a run.

        Raises:
            NoSuchRun: there is no run of that id
            JournalError: the file cannot be read
        """
        return self._note_sources(self._outlines(RunQuery(id=run_id), run_id))[0]

    def entries(self, run_id: str, after: int = 0, most: int | None = None) -> list[Entry]:
        """Return the entries of a run, in order.

        Args:
            run_id: the run's id
            after: only entries with a higher sequence number
            most: at most so many; only these are read

        Raises:
            ConfigError: `after` or `most` is not a whole number from 0 on
            NoSuchRun: there is no run of that id
            JournalError: the file cannot be read, or is damaged
        """
        check_integer("after=", after, 0)
        check_integer("most=", most, 0, optional=True)
        entries = self.file.entries_of(run_id, after, most)
        add_sources_of(entry.data for entry in entries)
        return entries

    async def follow(self, run_id: str, after: int = 0) -> AsyncIterator[Entry]:
        """Yield the entries of a run: the existing ones, then each as it is written.

        It ends when no process works on the run any more. Entries that this process writes come at
        once, those of another process within a quarter of a second.

        Args:
            run_id: the run's id
            after: only entries with a higher sequence number

        Raises:
            ConfigError: `after` is not a whole number from 0 on
            NoSuchRun: there is no run of that id
            JournalError: the file cannot be read, or is damaged
        """
        check_integer("after=", after, 0)
        loop = asyncio.get_running_loop()
        commit_event = asyncio.Event()

        def notify() -> None:
            with suppress(RuntimeError):  # the loop of this reader has ended
                loop.call_soon_threadsafe(commit_event.set)

        self._commits.listeners.add(notify)
        try:
            with self.file.reading() as db:
                number = self.file.run_number(db, run_id)
            async with self.file.watching_commits(number, notify):
                while True:
                    commit_event.clear()
                    # Read before the entries: what is written in between is seen the next time.
                    outline = self.run(run_id)
                    if outline.entries > after:
                        for entry in self.entries(run_id, after):
                            after = entry.sequence
                            yield entry
                    elif not outline.under_way:
                        return
                    else:
                        with suppress(TimeoutError):
                            async with asyncio.timeout(self.file.recheck_s):
                                await commit_event.wait()
        finally:
            self._commits.listeners.discard(notify)

    def kept(self, hash: str) -> bytes:
        """Return a large value that an entry names by its sha256.

        Raises:
            ConfigError: it is not a sha256 in hexadecimal digits
            JournalError: it is missing or damaged, or the file cannot be read
        """
        if not isinstance(hash, str) or not _SHA256.fullmatch(hash):
            raise ConfigError(f"hash= must be a sha256 in hexadecimal digits, got {hash!r:.80}")
        value = self.file.read_value(hash)
        add_sources_of([with_sources({}, [f"journal {self.path}"])])  # whose it is, is not known
        return value

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
        return reply_of(run_id, self.entries(run_id))

    def in_doubt(self, run_id: str) -> list[Doubt]:
        """Return the calls of a run whose outcome is unknown.

        For a run that is being worked on, these are the calls under way.

        Raises:
            NoSuchRun: there is no run of that id
            JournalError: the file cannot be read, or is damaged
        """
        return Doubt.among(self.entries(run_id))

    def waiting(
        self,
        run_id: str | None = None,
        *,
        agent: str | None = None,
        kind: str | Iterable[str] | None = None,
    ) -> list[Wait]:
        """Return what runs wait for, the longest first: of one run, one agent, or some kinds."""
        return self.waits.open(run_id, agent, kind)

    def answer(self, run_id: str, key: str, value: Any = None, *, by: str | None = None) -> None:
        """Give what a run waits for; a process with its agent resumes it.

        Args:
            run_id: the run's id
            key: the key of the wait; also that of a `Later` that has not come yet
            value: for an approval a decision, as an approver gives it, or its JSON data; for a
                question a text, or None for no answer; for a moment None; for a call in doubt
                what `decide` takes, or `{"done": value}`; for a result any JSON data
            by: the name of who answers

        Raises:
            ConfigError: the value is not an answer of that kind
            NotPermitted: somebody else may answer
            StateError: another answer was given before, its time is over, or nothing is asked
            NoSuchRun: there is no run of that id
        """
        self.waits.answer(run_id, key, value, by)

    def decide(
        self, run_id: str, decisions: Mapping[int, Decision] | Decision, *, by: str | None = None
    ) -> list[Doubt]:
        """Record decisions about the calls in doubt; they take effect when the run is resumed.

        Until then, each decision can be replaced.

        Args:
            run_id: the run's id
            decisions: for the number of each call, as `in_doubt` has it, `"repeat"` to execute it
                again, `"skip"` not to, which the model is told and a step of your own returns as
                None, or `Done(value)`, its result; or one decision for all
            by: the name of who decides

        Returns:
            The calls that were decided about; none, if none was in doubt.

        Raises:
            ConfigError: a decision is wrong, or there is no call of such a number
            NoSuchRun: there is no run of that id
            RunHeld: another writer has the run
            JournalError: the file cannot be written, or is damaged
        """
        return self.waits.decide(run_id, decisions, by)

    def resume(self, run_id: str, *, by: str | None = None) -> None:
        """Ask a process with its agent to resume a stopped run, such as one without budget.

        A company, a server or a program that calls `resume_decided` does so within seconds.

        Raises:
            NoSuchRun: there is no run of that id
            RunHeld: a process works on it
            StateError: it has ended, or waits for an answer or a decision that nobody has given
        """
        self.waits.resume(run_id, by)

    def cancel(self, run_id: str, *, by: str | None = None) -> bool:
        """End a run, and the runs of the agents that it has asked, whoever works on them.

        Return whether it is over; else its process ends it within a second, or calls in doubt are
        decided about first, and it goes on no more. NoSuchRun without one, StateError after its
        end.
        """
        check_name("by=", by, optional=True)
        return self.waits.cancel(run_id, "it was cancelled" if by is None else f"{by} cancelled it")

    def fork(
        self,
        run_id: str,
        new_id: str | None = None,
        *,
        upto: int | None = None,
        results: Mapping[int, Any] | None = None,
        permitted: bool = False,
    ) -> str:
        """Copy a run, so that a program that has changed since can resume the copy.

        Args:
            run_id: the run's id
            new_id: the copy's id; the run's id with a number if left out
            upto: the sequence number of the last entry to copy; defaults to all entries
            results: new results of steps, by the sequence number of the entry in which each ended:
                what an action returned, the text of a model's answer, or the value of a step of
                your own. The copy goes up to there, and goes on from the new result
            permitted: whether the copy makes calls that a person has permitted in the run, and
                that had not ended; it asks again otherwise

        Returns:
            The copy's id.

        Raises:
            NoSuchRun: there is no run of that id
            ConfigError: there is a run of the new id, or it is not valid; `upto` is not the number
                of an entry, or `results` names no ended step, or steps of different turns
            JournalError: the file cannot be written, or is damaged
        """
        return fork_run(self.file, run_id, new_id, upto, results, permitted)

    # -- deleting ----------------------------------------------------------------------------------

    def delete(self, *run_ids: str, thread: str | Iterable[str] | None = None) -> Deleted:
        """Delete runs: their entries, and the values that no other run has.

        They cannot be found from the first moment on. Their bytes are overwritten beside writers,
        which wait for some milliseconds at a time; this takes longer the more there is. If the
        process dies meanwhile, the next deletion goes on. Memories are files of their own:
        `SQLiteMemory.forget`.

        Args:
            run_ids: the ids of the runs
            thread: all runs of this conversation too, and of the threads `THREAD/…` of that
                sender; or of several

        Returns:
            What was deleted.

        Raises:
            NoSuchRun: there is no run of such an id; nothing was deleted
            RunHeld: a process works on one of them; nothing was deleted
            JournalError: the file cannot be written, or is damaged
        """
        return self.deletions.delete(run_ids, thread)

    def prune(
        self, older_than: float | timedelta, *, keep: int = 0, **filters: Unpack[Filters]
    ) -> Deleted:
        """Delete the runs that were not worked on for a time, as `delete` does.

        Left are runs under way, waiting, in doubt, with an open fork, and a schedule's last firing.

        Args:
            older_than: how long ago the last entry was written, in seconds or as a timedelta
            keep: the newest runs, so many, stay however old they are
            **filters: among which runs, as for `runs`; all are by default

        Returns:
            What was deleted, and why others were left.

        Raises:
            ConfigError: an argument is not valid
            JournalError: the file cannot be written, or is damaged
        """
        return self.deletions.prune(older_than, keep, RunQuery.of(Journal.prune, filters))

    def compact(self) -> bool:
        """Write the file anew: smaller, and without copies of what was deleted.

        SQLite overwrites what is deleted; where it had moved rows between pages before, a copy may
        remain, until this. Others that write wait, a second for 100 MB, or raise after `timeout`.

        Returns:
            Whether nothing is left; False if another process reads an older state of the file.

        Raises:
            JournalError: it cannot be written, a copy has no room, or others write for too long
        """
        return self.deletions.compact()

    def size(self) -> int:
        """Return how many bytes the journal takes: its file, or its tables with their indexes.

        Raises:
            JournalError: it cannot be read
        """
        return self.file.size()

    def export(self, run_id: str, path: str | os.PathLike[str], *, move: bool = False) -> None:
        """Write a run to a file of JSON lines: about it, its large values, and its entries.

        The file has everything that the run has, so that `import_run` gives the same entries.

        Args:
            run_id: the run's id
            path: the file; it is written whole, and replaces one of that name
            move: whether the run goes on from the file: here it is `elsewhere` from now on.
                Otherwise a run that has not ended goes on here, and as a copy only once that is
                adopted

        Raises:
            NoSuchRun: there is no run of that id
            RunHeld: a process works on a run that is to be moved
            StateError: it is `elsewhere` already, or waits
            JournalError: the journal cannot be read, or is damaged
            OSError: the file cannot be written
        """
        check_boolean("move=", move)
        if move:
            move_run(self.file, self.held_runs, run_id, file_path(path))
        else:
            export_run(self.file, run_id, file_path(path))

    def adopt(self, run_id: str) -> None:
        """Let a run go on here that is `elsewhere`: copied from another journal, or moved to one.

        Raises:
            NoSuchRun: there is no run of that id
            RunHeld: a process works on it
            JournalError: the journal cannot be written
        """
        adopt_run(self.file, self.held_runs, run_id)

    def import_run(self, path: str | os.PathLike[str], run_id: str | None = None) -> str:
        """Add a run that `export` wrote, with all its entries.

        The file is checked like any that somebody may have made up: shapes, checksums and hashes.
        Whoever made it states what was permitted and done in it, so resume only what you trust.

        Args:
            path: the file
            run_id: another id for the run

        Returns:
            The run's id.

        Raises:
            FileError: the file cannot be read, or is not an exported run; the text says where
            ConfigError: there is a run of that id, or `run_id` is not a valid id
            JournalError: the journal cannot be written
        """
        return import_run(self.file, file_path(path), run_id)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the journal, as it is at this moment, while others write it; nobody waits.

        Values of 1 MiB and more are copied to the folder `PATH-kept`. The copy is a journal, and
        has nothing of runs that were deleted before.

        Args:
            path: the copy, which must not exist

        Raises:
            FileError: there is a file of that name, or the copy cannot be written
            JournalError: the journal cannot be read
        """
        back_up(self.file, Path(os.path.abspath(file_path(path))))

    @classmethod
    def restore(cls, backup: str | os.PathLike[str], path: str | os.PathLike[str]) -> Path | None:
        """Put a copy of a backup in the place of a journal; return where the old one is, if any.

        Raises:
            ConfigError: the backup is the journal itself
            JournalError: the backup is damaged, or a process has the journal open
            FileError: the copy cannot be written
        """
        return restore_journal(Path(file_path(backup)).resolve(), Path(file_path(path)).resolve())

    def check(self) -> list[str]:
        """Return what is damaged, in words: tables, entries of runs, values; empty if all is whole.

        It reads everything, beside writers.

        Raises:
            JournalError: the journal cannot be read
        """
        return find_faults(self.file)

    # -- working -----------------------------------------------------------------------------------

    def leave_runs(self, run_id: str | None = None, *, leave: bool = True) -> None:
        """Have a run, or all that are open or opened later, get no end if they are cancelled.

        The next start resumes such a run, as after a kill.
        """
        self.held_runs.leave_runs(run_id, leave)

    def due_runs(self, kind: str, agent: str) -> list[Outline]:
        """Return an agent's runs for which has come what they waited for."""
        return outlines_of_kind(kind, self.run, self.waits.run_ids(agent))

    def runs_to_resume(self, kind: str, agent: str) -> list[Outline]:
        """Return an agent's runs that were cut off, and those that waited and can go on."""
        cut_off = self.runs(state=Outline.cut_off, kind=kind, agent=agent)
        ids = (*self.waits.run_ids(agent), *self.waits.held_up_runs(agent))
        waiting = [r for r in outlines_of_kind(kind, self.run, ids) if r.state in Outline.parked]
        return sorted([*cut_off, *waiting], key=lambda run: run.began) if waiting else cut_off

    async def begin(
        self, run_id: str, kind: str, agent: str, task: str, thread: str | None = None, **attrs: Any
    ) -> RunPart:
        """Begin or resume a run; the caller closes the part. Without a kind, none is begun."""
        new_run = (kind, agent, readable(task[:TASK_CHARS]), thread, attributes_json(attrs))
        return RunPart(await self.held_runs.begin(run_id, new_run if kind else None))

    def _outlines(self, query: RunQuery, run_id: str | None = None) -> list[Outline]:
        """Return the outlines of the wanted runs, or of one."""
        with self.file.reading() as db:
            query.check(db)
            number = None if run_id is None else self.file.run_number(db, run_id)
            leases = self.held_runs.runs_at_work(db, number)
            sql, values = query.rows_query(lambda: leases, self.file.attribute_sql)
            rows = db.execute(sql, values).fetchall()
        outlines = []
        for number, *row, attrs, state, origin, thread, waiting, end in rows:
            state = ("waiting" if waiting else "running") if number in leases else state
            cells = (*row[:7], state or "stopped", origin, thread, detail_in(end))
            details: dict[str, Any] = {**read_attributes(attrs), "held": number in leases}
            details |= zip((*SUM_COLUMNS, "seconds"), row[7:], strict=True)
            outlines.append(Outline(**details | dict(zip(FIELDS, cells, strict=True))))
        return outlines

    def _note_sources(self, outlines: list[Outline]) -> list[Outline]:
        """Return outlines; an action that reads their tasks gets the tasks' outside sources."""
        for each in outlines if current_reading() is not None else ():
            self.entries(each.id, most=_TASK_ENTRIES)
        return outlines
