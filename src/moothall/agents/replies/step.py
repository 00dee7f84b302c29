"""One step of a recorded run: its earlier record, and its progress."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from moothall.actions.approval import ApprovalRequest, ChangedArgs, Later, Question
from moothall.actions.approval.decision import DECISION_KINDS, Refused
from moothall.agents.replies.read_record import PastStep
from moothall.agents.replies.reply import Stop
from moothall.foundation.errors import ConfigError, NobodyToAsk
from moothall.foundation.threads import WORKERS
from moothall.journal.store.due_runs import is_due
from moothall.journal.store.wait_rows import ANSWER_ENTRY, WAIT_ENTRY, WaitOutcome
from moothall.journal.wait_kinds import Wait, wait_of

if TYPE_CHECKING:
    from moothall.journal.commits import OpenRun

KEPT_SUFFIX: Final = "#kept"
"""What ends the key under which a step keeps data while it is under way."""


class StepForm(NamedTuple):
    """How a step goes on that was cut off, or that waits."""

    asks: bool = False  # whether a person decides if it had begun and not ended
    decided: Callable[[PastStep], Any] | None = None  # makes its result from that decision
    # Whether its call takes what came of its `Later`, or of a doubt, from `StepHandle.past`.
    goes_on: bool = False
    anew: bool = False  # whether it is called although it waits: its result may come otherwise


ONCE: Final = StepForm()


class AskingCall(Protocol):
    """A call, with what it has asked a person so far."""

    questions: tuple[str, ...]


class StepHandle:
    """Passed to a step's call, which reports its progress by it."""

    def __init__(
        self, record: Any, key: str, note: dict[str, Any], past: PastStep, side_by_side: bool
    ) -> None:
        self.record = record
        self._key = key
        self._note = note
        self._get_charge: Callable[[], Mapping[str, Any]] | None = None
        self._side_by_side = side_by_side
        self._has_taken = False
        self._own_entries: list[tuple[str, dict[str, Any]]] = []  # what it recorded of itself
        self.has_begun: bool = False  # whether its effect has begun
        self.past = past
        # The arguments with which it began before the run was cut off: they hold.
        had_begun = past.state == "started" or (past.state == WAIT_ENTRY and past.args is not None)
        self.args: Any = past.args if had_begun else None

    async def permitted(
        self,
        fingerprint: str,
        ask: Callable[[], Awaitable[Any]],
        change: Callable[[dict[str, Any]], tuple[str, dict[str, Any]]] | None = None,
        about: Mapping[str, Any] | None = None,
        request: ApprovalRequest | None = None,
        by: str | None = None,
    ) -> Any:
        """Return whether exactly this request is permitted: as recorded, or by asking `by`.

        `change` gives it the arguments of `ChangedArgs`, and returns its new fingerprint and those
        that they replace. A `request` that is decided later waits with what it is `about`.
        """
        past = self.past
        if past.decided_on == fingerprint:
            return past.permission
        if past.proposed == fingerprint and past.changed_args is not None and change is not None:
            change(past.changed_args)
            return True
        record, wait = self.record, self.hash_of(fingerprint)
        outcome, decision = await self.find_outcome(wait), None
        if outcome is None:
            action, args, text = map((about or {}).get, ("action", "args", "text"))
            with record.waiting_for("approval", action or "", args, text or ""):
                await record.commit()  # keep all entries: a person may take long to answer
                decision = await ask()
            if isinstance(decision, Later):
                outcome = await self.wait(wait, "approval", decision, **(about or {}))
        note: dict[str, Any] = {"key": self._key, "fingerprint": fingerprint}
        if "action" in (about := about or {}):
            note |= {"action": about["action"], "asked": about.get("args", {})}
        if outcome is not None:
            decision = DECISION_KINDS.read(outcome.value)
            if request is not None:  # as the person saw it: its facts may be others by now
                request = replace(request, facts=past.requests.get(wait, {}).get("facts", {}))
                decision = DECISION_KINDS.decision_for(request, decision)
            decision, by = Refused(outcome.late_text) if outcome.expired else decision, outcome.by
        note |= {} if by is None else {"by": by}
        if isinstance(decision, ChangedArgs) and change is not None:
            new_fingerprint, old_args = change(decision.args)
            note |= {"fingerprint": new_fingerprint, "proposed": fingerprint}
            note |= {"args": decision.args, "was": old_args}
            decision = True
        if (entry := DECISION_KINDS.entry_of(decision, request)) is not None:
            kind, entry_data = entry
            record.run.standing_decisions.update(DECISION_KINDS.keys_in_entry(entry_data))
            self._add_entry(kind, note | entry_data)
            await record.commit()
        return decision

    # -- waiting in the journal --------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        """Return the id of the run whose record it is in."""
        return str(self.record.run_id)

    def hash_of(self, *parts: Any) -> str:
        """Return the hash of what this call of this run asks: two equal calls ask twice."""
        identity = json.dumps([self.record.run_id, self.record.path, self._key, *parts])
        return hashlib.sha256(identity.encode()).hexdigest()

    def key_of(self, name: str) -> str:
        """Return the key of what this call waits for under a name; another call has another."""
        identity = json.dumps([self.record.path, self._key, name])
        return f"wait-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"

    async def find_outcome(self, wait: str) -> WaitOutcome | None:
        """Return what came of a wait; None if nothing was asked; raise Stop if it goes on."""
        if wait in self.past.answers:
            return self.past.answers[wait]
        request = self.past.requests.get(wait)
        return None if request is None else await self._read_outcome(request)

    async def wait(self, wait: str, kind: str, later: Later, **about: Any) -> WaitOutcome:
        """Ask, and return what has come already; raise Stop for the run to wait in the journal."""
        return await self._read_outcome(await self._ask(wait, kind, later, about))

    async def answer_of(
        self,
        call: AskingCall,
        question: Question,
        ask: Callable[[Question], Awaitable[str]],
        exact: str | None = None,
    ) -> str:
        """Return a person's answer to a question of a call; raise Later if it comes later.

        The call is made again then: what has been answered is not asked again. `exact` is the
        question without what need not be the same again; by default, its text.
        """
        exact = question.text if exact is None else exact
        place = (exact, call.questions.count(exact))
        call.questions += (exact,)
        try:
            answer = await self.find_outcome(self.hash_of("question", *place))
            if answer is None:
                with self.record.waiting_for("question", text=question.text):
                    await self.record.commit()
                    return await ask(replace(question, waits_in=self.run_id))
        except Stop:  # it is open
            later = Later()
        except Later as error:
            later = error
        else:
            if answer.value is None:
                by = f"{answer.by or 'a person'} does not answer"
                reason = answer.late_text if answer.expired else by
                raise NobodyToAsk(f"agent {question.agent!r} asked {question.text!r}: {reason}")
            return str(answer.value)
        later.question, later.question_data = place, question.details
        raise later from None

    async def result_of(self, later: Later, **details: Any) -> Any:
        """Return what came of a `Later` that the call returned; raise Stop for the run to wait."""
        if later.key is not None:
            key = self.key_of(later.key)
            outcome = await self.wait(key, "result", later, **details, name=later.key)
        elif later.until is not None:
            key = f"moment-{self.hash_of('moment')[:16]}"
            outcome = await self.wait(key, "moment", later, **details)
        else:
            raise ConfigError(f"step {self._key!r} returned Later() without a key or until=")
        return self.value_of(outcome)

    def value_of(self, outcome: WaitOutcome) -> Any:
        """Return the value that came of a wait; NobodyToAsk if its time is over."""
        if outcome.expired:
            raise NobodyToAsk(f"step {self._key!r} of run {self.run_id!r}: {outcome.late_text}")
        return outcome.value

    async def ask(self, later: Later, **details: Any) -> Stop:
        """Ask a question, once; return the Stop after which the call is made again and hears it."""
        assert later.question is not None
        wait = self.hash_of("question", *later.question)
        request = self.past.requests.get(wait) or await self._ask(wait, "question", later, details)
        return Stop("waiting", f"waiting for {self._wait_of(request)}")

    async def _ask(
        self, wait: str, kind: str, later: Later, about: Mapping[str, Any]
    ) -> dict[str, Any]:
        request = {"key": self._key, "wait": wait, "kind": kind, "run": self.run_id, **about}
        request |= later.details
        self.past.requests[wait] = request
        self._add_entry(WAIT_ENTRY, request | self._charge_data())
        await self.record.commit()
        return request

    async def _read_outcome(self, request: dict[str, Any]) -> WaitOutcome:
        record, wait = self.record, request["wait"]
        outcome = await self._read_answer(wait)
        if outcome is False:  # a copy of the run that asked, or one that was cancelled, asks again
            if request["kind"] == "result" and "name" not in request:
                self.past.requests.pop(wait)  # another call has its key now
                request, wait = {**request, "name": wait}, self.key_of(wait)
                request["wait"] = wait
                self.past.requests[wait] = request
            self._add_entry(WAIT_ENTRY, request)
            await record.commit()
            outcome = await self._read_answer(wait)
        if not isinstance(outcome, WaitOutcome):
            raise Stop("waiting", f"waiting for {self._wait_of(request)}")
        if outcome.expired and ("default" in request or request["kind"] == "moment"):
            outcome = WaitOutcome(request.get("default"), at=outcome.at)
        details: dict[str, Any] = {"expired": True} if outcome.expired else {"value": outcome.value}
        if outcome.by is not None:
            details["by"] = outcome.by
        if outcome.sources:
            details["sources"] = [*outcome.sources]
        self._add_entry(ANSWER_ENTRY, {"key": self._key, "wait": wait, **details})
        await record.commit()
        self.past.answers[wait] = outcome
        return outcome

    def withdraw(self) -> None:
        """Note that nobody need answer what it has asked: it has its result from elsewhere."""
        for wait in self.past.requests.keys() - self.past.answers.keys():
            self._add_entry(ANSWER_ENTRY, {"key": self._key, "wait": wait, "withdrawn": True})

    def keep_for_retry(self) -> None:
        """Keep what it has recorded: it may be called again while this process has the run."""
        self.record.past_steps.setdefault(self._key, self.past)
        for each in self._own_entries:
            self.record.take_step(*each, time.time())

    def renew_doubt(self) -> None:
        """Note that it is in doubt as before: its program did not take what a person decided."""
        self._add_entry("started", {**self._note, "args": self.past.args, "again": True})

    async def is_answered(self) -> bool:
        """Return whether what it waits for has come, or its time is over; or can go on."""
        wait = next(reversed(self.past.requests), None)
        if wait is None or isinstance(await self._read_answer(wait), WaitOutcome):
            return wait is not None
        asks_agent, file = "asks" in self._note.get("about", ()), self.record.run.file
        return asks_agent and await WORKERS.run(asyncio.get_running_loop(), is_due, file, wait)

    def _add_entry(self, kind: str, data: dict[str, Any]) -> None:
        self.record.note(kind, data)
        self._own_entries.append((kind, data))

    async def _read_answer(self, wait: str) -> WaitOutcome | bool:
        run: OpenRun = self.record.run
        place = (wait, self.record.path, self._key)
        if not run.file.commits_wait:  # else the loop would wait for a disk or a network
            return run.find_outcome(*place)
        return await WORKERS.run(asyncio.get_running_loop(), run.find_outcome, *place)

    def _wait_of(self, request: dict[str, Any]) -> Wait:
        since = request.get("since") or time.time()
        no_place: dict[str, Any] = {"agent": "", "thread": None, "path": "", "step": ""}
        return wait_of(request, run=self.record.run_id, since=since, **no_place)

    async def begins(
        self, args: Any = None, reserved: Mapping[str, Any] | None = None, resumes: bool = False
    ) -> None:
        """Note that the effect begins now; return when that is in the file.

        Call it after hooks, permission and reservation, so that a waiting step is not in doubt.
        `reserved` is what the effect may spend at most, charged if it has no recorded end;
        `resumes`: whether one that was cut off goes on, and is no second call.
        """
        data = {**self._note} if args is None else {**self._note, "args": args}
        if reserved is not None:
            data["reserved"] = dict(reserved)
        if self.past.args is not None and self.past.is_charged(resumes):
            data["again"] = True
        record = self.record
        if record.run_part.run.work.pause_cause:  # since it was to begin
            raise record.paused_stop
        self.has_begun = True
        if self.past.state == "started" and record.find(f"{self._key}{KEPT_SUFFIX}") is not None:
            return  # the call that began then goes on
        if resumes and self.past.state == "started" and not self.past.asks_person:
            await record.commit()
            return  # the agent that it asks goes on, and a wait of months keeps the record short
        self._add_entry("started", data)
        entry_count = record.entry_count  # not what the steps beside it note while it sleeps
        try:
            if self._side_by_side or record.open_count > 1:
                await asyncio.sleep(0)  # let concurrent steps begin in the same commit
            await record.commit(entry_count)
        except asyncio.CancelledError:
            if "asks" in data:  # its effect has not begun: no person need decide about it
                self.has_begun = False
                self.end("failed", {"error": "cancelled", "cancelled": True})
            raise

    async def set_back(self) -> None:
        """Note that its effect has not begun after all, until it begins again: a person decides."""
        self.has_begun = False
        self._add_entry("failed", {**self._note, "error": "cancelled", "cancelled": True})
        await self.record.commit()

    def charge(self, charged: Callable[[], Mapping[str, Any]]) -> None:
        """Set the function that returns, at the end of the step, what it has spent."""
        self._get_charge = charged

    @property
    def goes_on(self) -> bool:
        """Return whether the run is resumed if it is cancelled now."""
        return bool(self.record.run.resumes_later)

    def take_kept(self) -> dict[str, Any] | None:
        """Return what this step kept before the run was cut off; only the first time."""
        past = None if self._has_taken else self.record.find(f"{self._key}{KEPT_SUFFIX}")
        self._has_taken = True
        return None if past is None else past.result

    async def keep(self, data: dict[str, Any]) -> None:
        """Keep data for the case that the run is cut off; return when it is in the file."""
        self.record.mark(f"{self._key}{KEPT_SUFFIX}", data)
        await self.record.commit()

    def tell(self, **fields: Any) -> None:
        """Add to what is recorded at the end of the step."""
        self._note.update(fields)

    def end(self, kind: str, data: dict[str, Any]) -> None:
        """Note how it ended."""
        self.record.note(kind, self._note | self._charge_data() | data)

    def _charge_data(self) -> dict[str, Any]:
        """Return what it has spent and not yet recorded."""
        charged = None if self._get_charge is None else dict(self._get_charge())
        return {"charged": charged} if charged else {}


class _NullStep(StepHandle):
    """The step of a run without a journal."""

    async def permitted(
        self, fingerprint: str, ask: Any, change: Any = None, *about: Any, **more: Any
    ) -> Any:
        return await ask_unrecorded(ask, change)

    async def find_outcome(self, wait: str) -> WaitOutcome | None:
        return None

    async def begins(self, *about: Any, **more: Any) -> None:
        return None

    def charge(self, charged: Callable[[], Mapping[str, Any]]) -> None:
        return None

    def take_kept(self) -> None:
        return None

    async def keep(self, data: dict[str, Any]) -> None:
        return None

    @property
    def goes_on(self) -> bool:
        return False


def unrecorded_step(key: str) -> StepHandle:
    """Return the step of a run without a journal."""
    return _NullStep(None, key, {}, PastStep(key), False)


async def ask_unrecorded(
    ask: Callable[[], Awaitable[Any]],
    change: Callable[[dict[str, Any]], tuple[str, dict[str, Any]]] | None,
) -> Any:
    """Return whether a request is permitted, by asking: nothing is recorded."""
    if not isinstance(decision := await ask(), ChangedArgs) or change is None:
        return decision
    change(decision.args)
    return True
