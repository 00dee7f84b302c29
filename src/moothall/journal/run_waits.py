"""What runs wait for: listed, answered, and found when it is due, by any process."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any, ClassVar, Final

from moothall.foundation.arguments import check_name, check_text
from moothall.foundation.database import Database
from moothall.foundation.errors import NoSuchRun, RunHeld, StateError
from moothall.foundation.jsonvalue import json_text
from moothall.journal.doubt import Doubt, decisions_for, in_order, state_of
from moothall.journal.entry import ROOT, Entry
from moothall.journal.forking import hand_over_run
from moothall.journal.opening import NOTIFIER_LEASE, RunOpener
from moothall.journal.stop_reason import FINAL_REASONS, NO_ANSWER_TEXT, REASONS, cancel_reason
from moothall.journal.store import operator_waits
from moothall.journal.store.due_runs import DueRuns, is_due
from moothall.journal.store.entry_values import stored_json
from moothall.journal.store.holding import batches, placeholders
from moothall.journal.store.run_deaths import (
    deaths_of,
    forget_deaths,
    note_resumption,
    was_let_go_on,
)
from moothall.journal.store.run_requests import PAUSE_KEY, PAUSED, ask_to_cancel, withdraw_cancel
from moothall.journal.store.shapes import end_of_cut_off
from moothall.journal.store.store import Store
from moothall.journal.store.wait_answers import give_answer
from moothall.journal.store.wait_rows import (
    DOUBT,
    LATE,
    LATE_RUNS,
    WaitOutcome,
    asked_runs,
    doubt_key,
    end_rows,
    keep_late_reply,
    note_doubt_reminder,
)
from moothall.journal.wait_kinds import (
    DECISIONS,
    RESUME,
    WAIT_KINDS,
    Wait,
    WaitKind,
    checked_kinds,
    moment_text,
    wait_in_words,
    wait_kind_in_words,
    wait_of,
)

_OPEN_WAITS: Final = (
    "waits w JOIN runs r ON r.number = w.run WHERE NOT w.taken AND w.value IS NULL AND w.place > 0"
)
_COLUMNS: Final = (
    # Its key is its name, unless other calls of the run have asked under this name, too.
    "r.id, CASE WHEN w.name <> '' AND NOT EXISTS (SELECT 1 FROM waits o WHERE o.run = w.run "
    "AND o.name = w.name AND o.key <> w.key) THEN w.name ELSE w.key END, w.kind, w.agent, "
    "w.thread, w.path, w.step, w.place, w.since, w.until, "
    "w.value, w.decided_by, w.answered, w.run"
)

_LOOK_S: Final = 5.0
"""Seconds within which a process has seen that a run does not go on by its program."""

# A mark is no wait: no answer can have its key, since that is not printable.
_INSERT_MARK: Final = (
    "INSERT INTO waits (run, key, kind, agent, thread, path, step, place, since, taken) "
    "VALUES (?, ?, '', '', '', '', '', 0, ?, TRUE)"
)

_DOUBT_REMINDERS: Final = (
    "SELECT r.id, w.key, w.since, w.remind FROM runs r JOIN waits w ON w.run = r.number "
    f"WHERE r.open AND r.state = 'in_doubt' AND NOT r.deleted AND w.kind = '{DOUBT}'"
)


class Waits(DueRuns):
    """What the runs of a journal wait for.

    Attributes:
        kinds: the kinds of waits, by their words
        of_a_person: the kinds that a person answers
    """

    kinds: ClassVar[Mapping[str, WaitKind]] = WAIT_KINDS
    of_a_person: ClassVar[tuple[str, ...]] = tuple(
        kind for kind, wait_kind in WAIT_KINDS.items() if wait_kind.by_person
    )

    def __init__(self, store: Store, runs: RunOpener) -> None:
        super().__init__(store)
        self._runs = runs
        runs.requests.cancel_idle = self.cancel
        # By a run and its last change.
        self._doubts_cache: dict[tuple[int, float], list[Doubt]] = {}

    def open(
        self, run_id: str | None, agent: str | None, kind: str | Iterable[str] | None
    ) -> list[Wait]:
        """Return what waits, the longest first."""
        terms = [
            "NOT w.taken AND w.value IS NULL AND w.kind <> 'doubt' AND (w.kind <> 'paused' "
            "OR r.state IS NULL OR r.state IN ('waiting', 'in_doubt'))"
        ]
        values: list[Any] = []
        kinds = checked_kinds(kind)
        check_name("agent=", agent, optional=True)
        with self._store.reading() as db:
            if run_id is not None:
                values.append(self._store.run_number(db, run_id))
                terms.append("w.run = ?")
            if agent is not None:
                values.append(agent)
                terms.append("w.agent = ?")
            waits = [*self._read_waits(db, " AND ".join(terms), values)]
            if DOUBT in kinds:
                waits += self._doubt_waits(db, run_id, agent)
        waits = [each for each in waits if each.kind in kinds]
        return sorted(waits, key=lambda each: each.since)

    def _doubt_waits(self, db: Database, run_id: str | None, agent: str | None) -> Iterator[Wait]:
        """Yield the calls whose outcome is unknown, of runs that no process works on."""
        rows = db.execute(
            "SELECT number, id, agent, thread, changed FROM runs WHERE open "
            "AND state = 'in_doubt' AND NOT deleted"
        ).fetchall()
        cached_doubts = self._doubts_cache
        self._doubts_cache = {
            at: cached_doubts[at] for row in rows if (at := (row[0], row[-1])) in cached_doubts
        }
        rows = [row for row in rows if run_id in (None, row[1]) and agent in (None, row[2])]
        idle = self._runs.idle_runs(db) if rows else ()
        for number, run, agent_id, thread, changed in rows:
            # A process has gone on with it: what looks cut off is under way.
            if number not in idle:
                continue
            doubts = cached_doubts.get((number, changed))
            if doubts is None:
                doubts = []
                with self._store.skipping_damaged(run):
                    doubts += Doubt.among(self._store.read_entries(db, number, run))
                # Not of a file that could not be read now.
                self._doubts_cache[number, changed] = doubts
            for each in doubts:
                place = (run, doubt_key(each.path, each.key), DOUBT, agent_id, thread)
                call = (each.path, each.key, each.action, each.args)
                yield Wait(*place, *call, since=each.since)

    def doubts(self) -> list[Wait]:
        """Return the calls that a person decides about, since their process ended."""
        with self._store.reading() as db:
            return list(self._doubt_waits(db, None, None))

    def decided(self, by: str | None = None, run_id: str | None = None) -> list[Wait]:
        """Return what has been answered, in order: by one person, or in one run."""
        terms: list[str] = ["w.value IS NOT NULL AND w.place > 0"]
        values: list[Any] = []
        with self._store.reading() as db:
            if by is not None:
                terms.append("w.decided_by = ?")
                values.append(by)
            if run_id is not None:
                terms.append("w.run = ?")
                values.append(self._store.run_number(db, run_id))
            return list(self._read_waits(db, " AND ".join(terms), values, "w.answered"))

    def _read_waits(
        self, db: Database, condition: str, values: list[Any], order: str = "w.since"
    ) -> Iterator[Wait]:
        rows = db.execute(
            f"SELECT {_COLUMNS} FROM waits w JOIN runs r ON r.number = w.run "
            f"WHERE {condition} AND w.place > 0 AND NOT r.deleted ORDER BY {order}, w.run, w.key",
            values,
        ).fetchall()
        for run, key, kind, agent, thread, path, step, place, *answer_cells in rows:
            since, until, value, answered_by, answered, number = answer_cells
            details: dict[str, Any] = {}
            if kind == DOUBT:
                details["action"] = f"step {step}" if step else RESUME
            elif kind == PAUSED:
                if self._runs.runs_at_work(db, number):  # it is to stop before its next step
                    continue
                details["text"], step, path = step, "", ""
            elif kind in operator_waits.KINDS:
                details["text"], step = step, ""
            else:
                with self._store.skipping_damaged(run):
                    details = self._store.data_at(db, place)
                if not details:
                    continue
            yield wait_of(
                {"kind": kind, "name": ""} | details | {"wait": key, "until": until},
                run=run,
                agent=agent,
                thread=thread or None,
                path=path,
                step=step,
                since=since,
                answer=None if value is None else json.loads(value),
                by=answered_by,
                answered=answered,
            )

    # -- answering ---------------------------------------------------------------------------------

    def answer(
        self, run_id: str, key: str, value: Any, by: str | None, sources: tuple[str, ...] = ()
    ) -> None:
        """Keep the answer to a wait, once; the same answer again changes nothing.

        `sources` are what it comes from, if from outside. A key is that of a wait, or a name under
        which one call waits.
        """
        check_text("key=", key)
        check_name("by=", by, optional=True)
        if key.startswith(f"{DOUBT}:"):
            self._answer_doubt(run_id, key, value, by)
            return
        if key == PAUSE_KEY and WAIT_KINDS[PAUSED].check_answer(key, value):
            self._runs.requests.go_on(run_id, by)
            return
        outcome = WaitOutcome(None, by, sources=sources)
        if key == operator_waits.PROGRAM_KEY and value == "fork":
            self.hand_over(run_id, outcome)
            return
        if key in self.open_below(run_id) and self.asked_for(key) == run_id:
            raise StateError(
                f"run {run_id!r} waits for the reply of run {key!r}, which gives it itself: answer "
                "what that waits for, as `moothall waiting` lists it, or cancel that"
            )
        with self._store.writing() as db:
            run = (self._store.run_number(db, run_id), run_id)
            give_answer(self._store, db, run, key, value, outcome)
            ends = operator_waits.operator_decided(db, run[0], key) == "cancel"
        if ends:
            self.cancel(run_id, "it was cancelled" if by is None else f"{by} cancelled it")

    def hand_over(self, run_id: str, outcome: WaitOutcome | None = None) -> None:
        """Have the program as it is now go on with a run that another one began, in its place.

        `outcome` has who decides so, if the run asks its operator.
        """
        # A process may be looking whether it can go on.
        leasing = self._runs.leasing(run_id, "another process", _LOOK_S)
        with leasing as number, self._store.writing() as db:
            if outcome is None:
                operator_waits.end_asking(db, number, operator_waits.PROGRAM_KEY)
            elif operator_waits.operator_decided(db, number, operator_waits.PROGRAM_KEY) is None:
                key = operator_waits.PROGRAM_KEY
                give_answer(self._store, db, (number, run_id), key, "fork", outcome)
            else:
                return  # the same answer again
            hand_over_run(self._store, db, (number, run_id))

    def answer_askers(
        self,
        run_ids: Iterable[str],
        text: str = NO_ANSWER_TEXT,
        sources: tuple[str, ...] = (),
        but: Container[str] = (),
    ) -> None:
        """Tell the runs that wait for replies of runs, and copies of them, that no other comes.

        The runs have ended or were deleted; `but` are the askers that need no answer.
        """
        ids = {*run_ids}
        query = (
            "SELECT r.id, w.key FROM waits w JOIN runs r ON r.number = w.run WHERE NOT w.taken "
            "AND w.kind = 'result' AND w.value IS NULL AND w.place > 0 AND NOT r.deleted"
        )
        with self._store.reading() as db:
            rows = db.execute(query).fetchall()
        for asker, run_id in rows:
            if run_id in ids and asker not in but:
                with suppress(StateError, NoSuchRun):  # answered, ended or deleted meanwhile
                    self.answer(asker, run_id, text, None, sources)

    def _answer_doubt(self, run_id: str, key: str, value: Any, by: str | None) -> None:
        """Decide about a call in doubt, once."""
        entries = self._store.entries_of(run_id)
        # Perhaps again: its repetition, too. Another may answer until the run is open.
        is_open = any(doubt_key(each.path, each.key) == key for each in Doubt.among(entries))
        if is_open and self.decide(run_id, value, by, only=key):
            return
        decision = stored_json(DECISIONS.to_json(value))
        for each in self.decided(run_id=run_id):
            if each.key == key:
                if stored_json(each.answer) == decision:
                    return
                raise StateError(
                    f"run {run_id!r}: {key!r} was decided at {moment_text(each.answered or 0)} "
                    f"with {json_text(each.answer)}, and not with {decision}: the first answer "
                    "counts; `moothall resume` replaces a decision that has not been carried out"
                )
        self.check_doubt_below(run_id)
        raise StateError(f"run {run_id!r} has no call in doubt under the key {key!r}")

    def decide(
        self,
        run_id: str,
        decisions: Any,
        by: str | None,
        only: str | None = None,
    ) -> list[Doubt]:
        """Record decisions about calls in doubt; return these.

        `only` is the key of the one call that is decided about, unless that was done before.
        """
        check_name("by=", by, optional=True)
        with closing(self._runs.open(run_id)) as run:
            entries = in_order(run.past_entries.values())
            doubts = Doubt.among(entries, decided=only is None)
            if not doubts:
                self.check_doubt_below(run_id)
            if only is not None:
                doubts = [each for each in doubts if doubt_key(each.path, each.key) == only]
                decisions = {each.number: decisions for each in doubts}
            decision_entries = decisions_for(doubts, decisions)
            for doubt, data in decision_entries:
                run.note(doubt.path, "decided", data if by is None else {**data, "by": by})
            run.commit_now()
        return [doubt for doubt, _ in decision_entries]

    def resume(self, run_id: str, by: str | None) -> None:
        """Record that a run is to be resumed: it is due, unless it is already."""
        check_name("by=", by, optional=True)
        with closing(self._runs.open(run_id)) as run:
            state = state_of(in_order(run.past_entries.values()))
            if state == "waiting":
                questions = [wait_in_words(each) for each in self.open(run_id, None, None)]
                with self._store.reading() as db:
                    questions += [f"run {each!r}" for each in asked_runs(db, run.number)]
                if not questions:
                    return  # what it waited for has come
                text = " and ".join(questions)
                raise StateError(f"run {run_id!r} waits for {text}: answer that, or cancel the run")
            if state == "in_doubt":
                raise StateError(f"run {run_id!r} is in doubt: decide about its calls first")
            if state in FINAL_REASONS:
                raise StateError(f"run {run_id!r} cannot be resumed: it is {state}")
            run.note("", "decided", {"key": "", "decision": RESUME, "by": by})
            run.commit_now()
            with self._store.writing() as db:
                withdraw_cancel(db, run.number)

    def cancel(self, run_id: str, cause: str) -> bool:
        """End a run as cancelled; return False if its process, or a decision, comes before that.

        A process that works on it ends it within a second. Calls in doubt are decided first: the
        run does not go on after that. The runs of the agents that it has asked end, too, unless a
        copy of it waits for them, and its work in the background. Who waits for it goes on without.
        """
        had_workers = self.end_workers(run_id, lambda each: self.cancel(each, cause))
        try:
            run = self._runs.open(run_id)
        except RunHeld:
            self._runs.requests.cancel(run_id, cause)
            try:
                run = self._runs.open(run_id)  # it may have been left just before it was asked
            except RunHeld:
                return False
        with closing(run):
            entries = run.past_entries.get(ROOT, [])
            end = Entry.end_of(entries)
            questions = [wait_in_words(each) for each in self.open(run_id, None, None)]
            reason = "" if end is None else str(end.data["reason"])
            if reason in FINAL_REASONS or reason not in ("", *REASONS):
                if had_workers:
                    return True
                raise StateError(f"run {run_id!r} has ended: it is {reason}")
            # Whoever decides about a call in doubt must still be asked.
            is_in_doubt = state_of(in_order(run.past_entries.values())) == "in_doubt"
            # The run first: if this process dies in between, the next `cancel` ends the rows.
            if questions or (reason != "cancelled" and not is_in_doubt):
                data = end_of_cut_off(entries) if end is None else end.data
                detail = cancel_reason(cause, questions)
                run.note("", "over", {**data, "reason": "cancelled", "detail": detail})
                run.state = "in_doubt" if is_in_doubt else "cancelled"
                run.commit_now()
            with self._store.writing() as db:
                run_ids = asked_runs(db, run.number)
                end_rows(db, run.number)
                if is_in_doubt:
                    ask_to_cancel(db, run.number, cause)
        for each in run_ids:
            with suppress(StateError, NoSuchRun):  # it has ended
                self.cancel(each, cause)
        if not is_in_doubt:
            self.answer_askers([run_id], f"it has no answer: {cause}")
        return not is_in_doubt

    def mark(self, run_id: str, mark: str, still: bool = True) -> bool:
        """Leave a mark of a door at a run, for other processes, or remove it; whether it had it."""
        with self._store.writing() as db:
            number = self._store.run_number(db, run_id)
            delete = "DELETE FROM waits WHERE run = ? AND key = ?"
            was_marked = db.execute(delete, (number, f"\x01{mark}")).rowcount > 0
            if still:
                db.execute(_INSERT_MARK, (number, f"\x01{mark}", time.time()))
        return was_marked

    def marked(self, run_ids: Iterable[str], mark: str) -> list[str]:
        """Return which of these runs have a mark."""
        query = "SELECT r.id FROM runs r JOIN waits w ON w.run = r.number WHERE w.key = ? AND r.id"
        with self._store.reading() as db:
            return [
                str(id)
                for batch in batches(run_ids)
                for (id,) in db.execute(
                    f"{query} IN {placeholders(batch)}", (f"\x01{mark}", *batch)
                )
            ]

    # -- processes that have died ------------------------------------------------------------------

    def deaths(self, run_id: str) -> int:
        """Return how often a run's process has ended before the run got further."""
        with self._store.reading() as db:
            return deaths_of(db, self._store.run_number(db, run_id))[1]

    def begins_again(self, run_id: str, most: int | None) -> bool:
        """Note that a run is resumed; return False if its process has died too often to do so.

        It waits for an operator then, and goes on, or ends, as that decides. If this process lives,
        `has_lived` follows.
        """
        askers = self.askers_of(run_id)
        with self._store.writing() as db:
            number = self._store.run_number(db, run_id)
            progress, deaths = deaths_of(db, number)
            if was_let_go_on(db, number, askers):
                deaths = 0
            elif most is not None and deaths >= most:
                operator_waits.ask_operator(db, number, operator_waits.DEATHS_KEY, deaths)
                return False
            for key in (operator_waits.DEATHS_KEY, operator_waits.AGENTS_KEY):
                operator_waits.end_asking(db, number, key)
            note_resumption(db, number, progress, deaths)
            return True

    def has_lived(self, run_id: str) -> None:
        """Forget that a run was resumed: its process has come to the end of that."""
        with suppress(NoSuchRun), self._store.writing() as db:
            forget_deaths(db, self._store.run_number(db, run_id))

    def note_away(self, run_id: str, names: Iterable[str]) -> str:
        """Note for which agents a run waits, which are not up, or none; return it in words."""
        text = ", ".join(names)
        with suppress(NoSuchRun), self._store.writing() as db:
            operator_waits.wait_for_agents(db, self._store.run_number(db, run_id), text)
        return f"waiting for {wait_kind_in_words(operator_waits.AGENTS, text=text)}"

    # -- programs that have changed ----------------------------------------------------------------

    def note_changed_program(self, run_id: str, detail: str, goes_on: bool) -> None:
        """Have a run that could go on wait for its operator: its program differs, as `detail` says.

        It goes on by itself once the program is restored. `goes_on`: whether it is known to be able
        to; else it is if that has come for which it waits, and a run that was cut off is not.
        """
        has_come = is_due(self._store, run_id)
        with self._store.writing() as db:
            number = self._store.run_number(db, run_id)
            (state,) = db.execute("SELECT state FROM runs WHERE number = ?", (number,)).fetchone()
            if (state is None and goes_on) or (state == "waiting" and (goes_on or has_come)):
                operator_waits.ask_operator(db, number, operator_waits.PROGRAM_KEY, detail)

    def asks_operator(self, run_id: str) -> bool:
        """Return whether it is still open what becomes of a run whose program has changed."""
        with suppress(NoSuchRun), self._store.reading() as db:
            number = self._store.run_number(db, run_id)
            return operator_waits.operator_decided(db, number, operator_waits.PROGRAM_KEY) is None
        return False

    # -- replies that come late --------------------------------------------------------------------

    def keep_late_reply(self, run_id: str) -> None:
        """Keep that the sender of a run's message gets its reply later."""
        with self._store.writing() as db:
            keep_late_reply(db, run_id)

    def drop_late_reply(self, run_id: str) -> None:
        """Forget it: the sender has the reply."""
        query = "DELETE FROM waits WHERE kind = ? AND run IN (SELECT number FROM runs WHERE id = ?)"
        with self._store.writing() as db:
            db.execute(query, (LATE, run_id))

    def late_replies(self, agent: str) -> list[str]:
        """Return the runs of an agent whose reply is there and still to be sent."""
        with self._store.reading() as db:
            return [str(id) for (id,) in db.execute(LATE_RUNS, (agent, *REASONS.answered))]

    # -- what is due -------------------------------------------------------------------------------

    def hold_notifying(self) -> bool:
        """Be the one process that tells people what waits, until `end_notifying` or its death."""
        return self._runs.take_lease(NOTIFIER_LEASE)

    def end_notifying(self) -> None:
        """Let another process tell people what waits."""
        self._runs.release(NOTIFIER_LEASE)

    def due_notices(self) -> list[Wait]:
        """Return the waits that somebody must hear of now: new ones, and reminders."""
        now = time.time()
        condition = (
            "NOT w.taken AND w.value IS NULL AND w.remind <= ? AND (w.until IS NULL OR w.until > ?)"
        )
        with self._store.reading() as db:
            doubts = list(self._doubt_waits(db, None, None))
            rows = db.execute(_DOUBT_REMINDERS).fetchall() if doubts else ()
            reminders = {(run, key, since): remind for run, key, since, remind in rows}
            waits = [*self._read_waits(db, condition, [now, now])]
        remind_times = [reminders.get((each.run, each.key, each.since), now) for each in doubts]
        return waits + [
            w for w, remind in zip(doubts, remind_times, strict=True) if remind and remind <= now
        ]

    def remind_in(self, wait: Wait, seconds: float | None) -> None:
        """Set in how many seconds somebody is told of a wait again; None for never."""
        remind = None if seconds is None else time.time() + seconds
        with self._store.writing() as db:
            number = self._store.run_number(db, wait.run)
            if wait.kind == DOUBT:
                note_doubt_reminder(db, number, wait, remind)
                return
            # The key of a wait is its name where that is enough: see `_COLUMNS`.
            query = "UPDATE waits SET remind = ? WHERE run = ? AND path = ? AND step = ? AND "
            step = wait.text if wait.kind in operator_waits.KINDS else wait.step
            values = (remind, number, wait.path, step, wait.key, wait.key)
            db.execute(f"{query}(key = ? OR name = ?)", values)

    def asking_processes(self) -> list[tuple[str, str, str]]:
        """Return the runs for which a process asks a person itself: run, agent and process."""
        query = (
            "SELECT number, id, agent, holder FROM runs WHERE open AND waiting > 0 AND NOT deleted"
        )
        with self._store.reading() as db:
            rows = db.execute(query).fetchall()
        leased = set(self._runs.leased_runs([row[0] for row in rows]))
        with self._store.reading() as db:  # one that has gone on since asks no more
            rows = [each for each in db.execute(query) if each in rows]
        return [(run, agent, holder) for number, run, agent, holder in rows if number in leased]

    def count_cut_off(self) -> tuple[int, int]:
        """Return how many runs are stopped, and how many are in doubt; nobody works on them."""
        with self._store.reading() as db:
            states = Counter(self._runs.idle_runs(db).values())
        return states[None], states["in_doubt"]

    def fingerprint(self) -> tuple[Any, ...]:
        """Return what changes with what waits."""
        doubts = [(each.run, each.key, each.since) for each in self.doubts()]
        query = f"SELECT count(*), coalesce(max(w.since), 0) FROM {_OPEN_WAITS}"
        with self._store.reading() as db:
            return (*db.execute(query).fetchone(), doubts)

    def runs_below(self, agent: str, thread: str) -> int:
        """Return how many runs of an agent wait in the threads `THREAD/…`."""
        query = (
            "SELECT count(DISTINCT run) FROM waits "
            "WHERE agent = ? AND substr(thread, 1, ?) = ? AND NOT taken"
        )
        with self._store.reading() as db:
            (count,) = db.execute(query, (agent, len(thread) + 1, f"{thread}/")).fetchone()
        return int(count)

    def counts(self) -> dict[tuple[str, str], int]:
        """Return how much waits, by agent and kind."""
        doubts = Counter((each.agent, DOUBT) for each in self.doubts())
        query = f"SELECT w.agent, w.kind, count(*) FROM {_OPEN_WAITS} GROUP BY w.agent, w.kind"
        with self._store.reading() as db:
            return {**doubts, **{(agent, kind): count for agent, kind, count in db.execute(query)}}
