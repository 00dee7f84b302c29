"""The record of a run: its state, and the steps from one state to the next.

Every orchestrator (the loop, a dual act, a conversation, one of your own) saves its state, which is
a dataclass, between two turns, and makes steps of what must not be done twice. A resumed run starts
from its last state: a step that has ended returns its recorded result and calls nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

from moothall.actions.approval import Later
from moothall.agents.replies.charging import OFFSETS, charge_spent, spending_of
from moothall.agents.replies.read_record import PastStep, ReadRecord, RunResult
from moothall.agents.replies.reply import Stop
from moothall.agents.replies.state import Codec, RecordNotes, codec_of
from moothall.agents.replies.step import ONCE, StepForm, StepHandle
from moothall.foundation import tracing
from moothall.foundation.errors import (
    BudgetExceeded,
    InDoubt,
    JournalError,
    MoothallError,
    RunMismatch,
    StateError,
)
from moothall.foundation.jsonvalue import as_json, deep_json
from moothall.foundation.text import error_message, error_text, log_failure
from moothall.foundation.threads import WORKERS, is_cancelled, is_closing
from moothall.journal.entry import read_list
from moothall.journal.stop_reason import REASONS, cancel_reason
from moothall.journal.wait_kinds import wait_kind_in_words

if TYPE_CHECKING:
    from moothall.budget import Budget
    from moothall.journal import Entry, RunPart
    from moothall.journal.commits import OpenRun

logger: logging.Logger = logging.getLogger("moothall.agents")

R = TypeVar("R", bound=RunResult)
S = TypeVar("S")
T = TypeVar("T")

ResultType: TypeAlias = type[T] | Codec | None
"""The type of a step's result; None for JSON data."""
StepCall: TypeAlias = Callable[[StepHandle], Awaitable[T]]
"""Does the work of a step, and reports its progress by the step that it gets."""


class Record(RecordNotes, ReadRecord[S]):
    """One agent's part of a recorded run; one task writes it, with the tasks that it starts."""

    open_count: int = 0  # how many steps are under way
    _idle_event: asyncio.Event | None = None  # set once none is; made by whoever waits for it
    kept_turns: dict[str, Any] | None = None  # of other agents' conversations, by their ids

    def __init__(self, part: RunPart, kind: type[S]) -> None:
        self.run_part = part
        super().__init__(part.run_id, part.past_entries, kind)
        self.key: str = part.key  # unique among the parts of all runs and journals
        self._ended_here: dict[str, None] = {}  # the keys of the steps that ended in this process
        self._callbacks: list[tuple[int, Callable[[], None]]] = []  # each with entries to wait for
        self.at_end: Callable[[], None] | None = None  # called when the reply has ended
        # Of its entries, including those not yet committed.
        self.count: int = len(part.past_entries)
        self.heard_keys: list[
            str
        ] = []  # the keys of what it was told, which the next state has heard

    @property
    def run(self) -> OpenRun:
        """Return the run as it is open in this process."""
        return self.run_part.run

    @property
    def path(self) -> str:
        """Return the path of the part in its run."""
        return self.run_part.path

    def key_of(self, message: int) -> str:
        """Return the key by which memory deduplicates a message; a fork shares those it copied."""
        for each in self.copied:
            if message < each["messages"]:
                return str(each["key"])
        return self.key

    # -- what happens ------------------------------------------------------------------------------

    def begin(self, kind: str, agent: str, program: Mapping[str, Any], /, **about: Any) -> None:
        """Note what the part begins with; RunMismatch if another program began it."""
        start = self.start
        self.check(kind, agent, program)
        if start is None or start["fingerprint"] is None:  # a fork may have another program
            data = {"kind": kind, "agent": agent, **about, **(start or {}), "fingerprint": program}
            self.start: dict[str, Any] | None = data
            self.note("begun", data)

    def once(
        self,
        key: str,
        call: StepCall[T],
        /,
        *,
        of: ResultType[T] = None,
        beside: bool = False,
        **details: Any,
    ) -> Coroutine[Any, Any, T]:
        """Do something once: return the recorded result, or call and record the result.

        A call that raises is recorded as failed, and called again when the run is resumed; so is
        one that was cut off. The next commit writes the end to the file.

        Args:
            key: the step's key: the same when the run is resumed, and unique in the part
            call: does the work; it gets a `StepHandle`. If it returns a `Later`, or raises it with
                `action=`, the run waits for its result
            of: the type of the result, if it is not JSON data
            beside: whether other steps run at the same time: one commit then covers all that begin
            **details: what else to record, as JSON data; `action` is the name that a person sees

        Raises:
            Stop: it waits: catch it by `run_to_end`
            NobodyToAsk: nothing came of a `Later` in time, and that has no default
        """
        return self.perform(key, call, ONCE, of, beside, details)

    def effect(
        self,
        key: str,
        call: StepCall[T],
        /,
        *,
        args: Any = None,
        idempotent: bool = False,
        of: ResultType[T] = None,
        beside: bool = False,
        decided: Callable[[PastStep], T] | None = None,
        **details: Any,
    ) -> Coroutine[Any, Any, T]:
        """Do once what must not be done twice, such as a payment: in doubt once it is cut off.

        Its beginning is in the file before it is called. The rest is as for `once`, such as `of=`.

        Args:
            args: what it begins with, as JSON data, which a person who decides sees; the call has
                them as `step.args`: those of its first begin, if that was cut off by a kill
            idempotent: whether it may be done twice: then it is called again if it was cut off
            decided: makes the result from a person's decision `skip` or `done`; without it, `done`
                returns the value, and `skip` returns None

        Raises:
            InDoubt: it had begun and not ended, and nobody has decided
        """

        async def begin_and_call(step: StepHandle) -> T:
            step.args = args if step.args is None else step.args
            await step.begins(step.args)
            return await call(step)

        form = StepForm(asks=not idempotent, decided=decided)
        return self.perform(key, begin_and_call, form, of, beside, details)

    def wait(self, key: str, later: Later, /, **details: Any) -> Coroutine[Any, Any, Any]:
        """Return what comes of a `Later`: a result that somebody brings, or None at a moment.

        Raises:
            Stop: it has not come, and the run waits for it: catch it by `run_to_end`
            NobodyToAsk: nothing came in time, and it has no default
        """

        async def wait_for(step: StepHandle) -> Any:
            return later

        return self.perform(key, wait_for, ONCE, None, False, details)

    def step(
        self,
        key: str,
        call: StepCall[T],
        /,
        *,
        of: ResultType[T] = None,
        outcome: Literal["repeat", "ask"] = "repeat",
        beside: bool = False,
        decided: Callable[[PastStep], T] | None = None,
        **details: Any,
    ) -> Coroutine[Any, Any, T]:
        """Do something once, whose call says by `await step.begins()` when its effect begins.

        Before that it may ask for permission, or return a `Later`. With `outcome="ask"` it is in
        doubt, as an `effect`, if it had begun and not ended.
        """
        form = StepForm(asks=outcome == "ask", decided=decided)
        return self.perform(key, call, form, of, beside, details)

    async def perform(
        self,
        key: str,
        call: StepCall[T],
        form: StepForm,
        result_type: ResultType[T],
        side_by_side: bool,
        details: Mapping[str, Any],
    ) -> T:
        """Return a step's result, from the record or by its call; `form` says how it goes on."""
        if key in self._ended_here:
            await self._read_again(key)
        past_step = self.past_steps.get(key) or PastStep(key)
        codec: Any = result_type if result_type.__class__ is Codec else codec_of(result_type)
        if past_step.state == "ended":
            is_skipped = past_step.is_skipped and form.decided is None
            return cast(T, None if is_skipped else self._recorded_result(past_step, codec))
        note: dict[str, Any] = {"key": key, "about": details} if details else {"key": key}
        if form.asks:
            note["asks"] = True
        step = StepHandle(self, key, note, past_step, side_by_side)
        if past_step.state == "started" and past_step.is_decided:
            step.tell(decided=None if past_step.decision is None else past_step.decision.word)
            if past_step.decision is None or not form.goes_on:
                try:
                    result: T = self._result_of_decision(past_step, form, codec)
                except Exception:
                    if past_step.decision is not None:
                        step.renew_doubt()
                    raise
                is_skipped = past_step.is_skipped and form.decided is None
                step.end("ended", {"result": None if is_skipped else codec.dump(result)})
                return result
        if self.run_part.run.work.pause_cause:
            raise self.paused_stop
        if past_step.requests and past_step.wait_key is not None and not form.anew:
            answer = await step.find_outcome(past_step.wait_key)  # raises until there is an answer
            if past_step.later_key is not None and answer is not None and not form.goes_on:
                result = codec.load(step.value_of(answer))
                step.end("ended", {"result": codec.dump(result)})
                return result
        self.open_count += 1
        try:
            try:
                if tracing.active is None:
                    result = await call(step)
                else:
                    with tracing.with_step_key(key):
                        result = await call(step)
            except Later as later:
                if "action" not in details:  # of a hook, which may not wait
                    raise
                result = cast(T, later)
            if type(result) is Later:
                action = {"action": details["action"]} if "action" in details else {}
                value = await step.result_of(cast(Later, result), **action)
                result = codec.load(value)
        except JournalError:  # the end of the step could not be written either
            raise
        except Exception as error:
            if isinstance(error, Stop) and error.reason == "waiting":
                step.keep_for_retry()
            else:
                step.end("failed", {"error": f"{type(error).__name__}: {error}"})
            raise
        except asyncio.CancelledError:
            if step.has_begun and not form.asks:  # its cost is known
                step.end("failed", {"error": "cancelled", "cancelled": True})
            elif step.has_begun:  # its outcome is unknown, also to who calls it again here
                step.keep_for_retry()
            raise
        finally:
            self.open_count -= 1
            if self._idle_event is not None and not self.open_count:
                self._idle_event.set()
        if past_step.requests:
            step.withdraw()
        if isinstance(result, bytes) and type(result_type) is not Codec:  # a codec has its own form
            step.end("ended", {"kept": self.keep(result)})
        else:
            step.end("ended", {"result": codec.dump(result)})
        self._ended_here[key] = None
        if self.open_count:
            await self.commit()  # before the steps beside it have ended
        return result

    async def _read_again(self, key: str) -> None:
        """Take the record of a step that has ended in this process, and is called again."""
        await self.commit()
        run = self.run

        def read() -> list[Entry]:
            entries = run.file.entries_of(run.id)
            return [e for e in entries if e.path == self.path and e.data.get("key") == key]

        for entry in await WORKERS.run(asyncio.get_running_loop(), read):
            self._take_entry(entry, None)
        del self._ended_here[key]

    async def rest(self) -> None:
        """Wait until no step is under way, so that those beside one that raised have their ends."""
        while self.open_count:
            self._idle_event = asyncio.Event()
            await self._idle_event.wait()

    def _recorded_result(self, past_step: PastStep, codec: Codec) -> Any:
        """Return the result that a step ended with; StateError if it is none of this step's."""
        if past_step.result_hash is not None:
            return self.stored_value(past_step.result_hash)
        try:
            return codec.load(past_step.result)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StateError(
                f"run {self.run_id!r}: the result of step {past_step.key!r} is not one that this "
                f"step records ({type(error).__name__}: {error})"
            ) from error

    def _result_of_decision(self, past_step: PastStep, form: StepForm, codec: Codec) -> Any:
        if past_step.decision is None:
            raise self._doubt_about(past_step.key)
        if form.decided is not None:
            return form.decided(past_step)
        return None if past_step.is_skipped else codec.load(past_step.value)

    def _doubt_about(self, key: str) -> InDoubt:
        return InDoubt(
            f"step {key!r} of run {self.run_id!r} was running when the run was cut off, and its "
            "outcome is unknown: look whether it took effect, and decide by "
            f"`moothall resume {self.run_id} --repeat`, --skip or --done 1=RESULT (journal.decide)"
        )

    def save(self, state: S, **earlier: tuple[int, str]) -> None:
        """Note the state between two turns. Append-only lists are recorded item by item."""
        # `earlier`: so many items at the beginning of a list are already kept by this name.
        extra: Any = {"earlier": {n: key for n, (_, key) in earlier.items()}} if earlier else {}
        if self.heard_keys:
            extra["told_keys"], self.heard_keys = self.heard_keys, []
        for name in earlier:
            self._counts[name] = earlier[name][0]
        new_items: dict[str, Any] = {}
        for name in self._counts:
            items, count_before = getattr(state, name), self._counts[name]
            if (count := len(items)) > count_before:
                new_items[name] = items[count_before:]
                self._counts[name] = count
        scalars = dict(zip(self._scalars, map(getattr, repeat(state), self._scalars), strict=True))
        self.note("state", {"state": scalars, "appended": new_items, **extra})

    def after_commit(self, done: Callable[[], None]) -> None:
        """Call something once all entries noted so far are in the file."""
        self._callbacks.append((self.entry_count, done))

    async def commit(self, upto: int | None = None) -> None:
        """Write the noted entries, at least the run's first `upto`, or raise a JournalError."""
        try:
            await self.run_part.run.commit(upto)
        finally:  # also if cancelled: some entries may be in the file
            self._has_committed()

    def member(self, name: str, agent: str, **about: Any) -> RunPart | None:
        """Return the part, such as `R1/ID`, in which a member records its turn, and resumes it."""
        if name not in self.members:
            data = {"key": name, "part": name, "agent": agent, **about}
            self.members[name] = data
            self.note("started", data)
        return self.run_part.part(name)

    def _earlier_items(self, name: str) -> list[Any]:
        return read_list(name, self.stored_value)

    def keep(self, data: bytes) -> str:
        """Store a value once, and return its sha256; 1 MiB or more is a file beside the journal."""
        return self.run_part.run.keep_value(data)

    def stored_value(self, hash: str) -> bytes:
        """Return a stored value; raise a JournalError if it is missing or damaged."""
        return self.run_part.run.read_value(hash)

    async def end(self, reason: str, **about: Any) -> None:
        """Write the end of the part, with its reason; InDoubt if it is final beside a doubt."""
        self.note_end(reason, **about)
        await self.commit()

    def note_end(self, reason: str, **about: Any) -> None:
        """Note the end of the part, with its reason; InDoubt if it is final beside a doubt."""
        if reason in REASONS.final:  # nobody would be asked about the call any more
            for path, key in sorted(self.run.open_calls):
                if f"{path}/".startswith(f"{self.path}/" if self.path else ""):
                    raise self._doubt_about(f"{path}/{key}".removeprefix(f"{self.path}/"))
        self._end = {"reason": reason, **as_json(about)}
        self.note("over", self._end)
        if not self.run_part.path:
            self.run_part.end(reason)

    def commit_now(self, cause: BaseException | None = None) -> None:
        """Write the noted entries where nothing can be awaited; this blocks the thread.

        It does not if the cause is that a coroutine is closed: the garbage collector may do that,
        in a thread that holds what the writer waits for.
        """
        self.run_part.run.commit_now(wait=cause is None or not is_closing(cause))
        self._has_committed()

    @property
    def entry_count(self) -> int:
        """Return how many entries of the run were noted since it was opened."""
        return self.run_part.run.entry_count

    def note(self, kind: str, data: Any) -> None:
        """Note an entry; a value without a JSON form becomes the text that a model is shown."""
        part = self.run_part
        try:
            part.run.note(part.path, kind, data)
        except (TypeError, ValueError, RecursionError):
            part.run.note(part.path, kind, deep_json(data))
        self.count += 1

    def _has_committed(self) -> None:
        """Run the callbacks whose entries are now in the file."""
        callbacks = self._callbacks
        while callbacks and callbacks[0][0] <= self.run_part.run.written_count:
            callbacks.pop(0)[1]()  # removed first: a callback that commits comes here again

    async def run_to_end(
        self,
        run: Callable[[], Awaitable[R]],
        at_end: Callable[[R], Mapping[str, Any]],
        stopped: Callable[[Stop], R],
    ) -> R:
        """Run to the end, and record how it ended, even if it raises; a spent budget is `budget`.

        Args:
            run: does the work; its result has a `stop_reason`, such as `"done"`; it may raise Stop
            at_end: returns what is recorded of the reply, beside its stop reason
            stopped: returns the result of a run that has stopped, or waits: its `stop_reason` is
                that of the Stop
        """
        end_before = self.over  # of a run that is resumed
        try:
            try:
                try:
                    reply = await run()
                except (Exception, Later):
                    await self.rest()
                    raise
            except Stop as stop:
                reply = stopped(stop)
            except BudgetExceeded as limit:
                reply = stopped(Stop.at_limit(limit))
            except Later as later:
                log_failure(logger, f"run {self.run_id!r} stops", later)
                reply = stopped(Stop("error", str(later.misplaced_error), later.misplaced_error))
            if not (reply.stop_reason == "waiting" and self._still_waits()):
                if self._has_mismatch(reply, end_before):  # it stays cut off until that is restored
                    await self.commit()
                else:
                    await self.end(reply.stop_reason, **at_end(reply))
        except JournalError as error:
            log_failure(logger, f"run {self.run_id!r} stops", error)
            return stopped(Stop("error", str(error), error))
        except BaseException as error:
            resumes = isinstance(error, asyncio.CancelledError) and self.run.resumes_later
            resumes = resumes and not self.run.work.cancel_cause
            if self.over is end_before and not resumes:  # else its end is noted, and not written
                cancelled_stop = Stop("cancelled", self._cut_off_reason(error))
                self.note_end("cancelled", **at_end(stopped(cancelled_stop)))
            try:
                # After KeyboardInterrupt or GeneratorExit no loop would go on with an await.
                may_await = isinstance(error, Exception | asyncio.CancelledError)
                if may_await and not is_closing(error):
                    await self.commit()
                else:
                    self.commit_now(error)
            except MoothallError as end_error:  # of the memory, too: raise what stopped the run
                logger.error("run %r: its end is not kept: %s", self.run_id, end_error)
            raise
        return reply

    def note_wait(self, stop: Stop) -> None:
        """Note that the run waits, if that is why it stopped, and it did not wait before."""
        if stop.reason == "waiting" and not self._still_waits():
            self.note_end("waiting", detail=stop.detail)

    def _has_mismatch(self, reply: RunResult, end_before: dict[str, Any] | None) -> bool:
        """Return whether a run that was cut off, and did not wait, has asked a changed agent."""
        error = getattr(reply, "error", None)
        is_of_part = isinstance(error, RunMismatch) and error.run_id == self.run_id
        return is_of_part and (end_before is None or end_before["reason"] != "waiting")

    def _still_waits(self) -> bool:
        """Return whether a run waits as before: nothing has happened since it was opened."""
        is_changed = self.entry_count or self.run.work.is_let_go_on
        return self.over is not None and self.over["reason"] == "waiting" and not is_changed

    def _cut_off_reason(self, error: BaseException) -> str:
        """Return why the run was cut off, and what it asked a person; empty if nothing says it."""
        if isinstance(error, Exception):
            return error_text(error)
        reason_text = self.run.work.cancel_cause or error_message(error)
        questions = self.run.cancelled_questions
        reason = reason_text or REASONS.explain("cancelled")
        return cancel_reason(reason, questions) if questions else reason_text

    @contextmanager
    def waiting_for(
        self, kind: str, action: str = "", args: Any = None, text: str = ""
    ) -> Iterator[None]:
        """Have the run say in a `with` block that it waits for a person.

        The next commit writes it. Its end says what for, if it is cancelled meanwhile.

        Args:
            kind: `approval`, `question` or `person`
            action: the name of the action that a person is asked about
            args: its arguments
            text: the question, or who is asked
        """
        self.run.add_waiting_calls(1)
        try:
            yield
        except asyncio.CancelledError:
            if is_cancelled() and self.run_id:
                self.run.cancelled_questions.append(wait_kind_in_words(kind, action, args, text))
            raise
        finally:
            self.run.add_waiting_calls(-1)

    # -- what this process knows ------------------------------------------------------------------

    def catch_up(
        self,
        owner: Any,
        model: Any,
        budget: Budget | None,
        chosen: Callable[[Entry], bool] | None = None,
    ) -> None:
        """Let a model skip the recorded answers, and charge a budget for them, each once.

        Args:
            owner: the model, or its name, for which a process makes a model anew
            model: the model itself
            budget: what the run may spend; None without a limit
            chosen: returns whether an entry is of this model, if there are several
        """
        entries = self.entries()
        skip: Callable[[int], None] | None = getattr(model, "skip", None)
        unknown = entries[self.known_count(owner, "entries") :]
        self._set_known(owner, len(entries))
        if unknown and callable(skip):
            answers = spending_of(unknown if chosen is None else filter(chosen, unknown)).answers
            if answers:
                skip(answers)
        # A budget made for this reply is new; the one that it is part of may be charged already.
        for account, single_budget in () if budget is None else budget.single_account_budgets():
            before = self.known_count(account, "entries")
            if before < len(entries):
                self._set_known(account, len(entries))  # counted, even if the charge is refused
                charge_spent(single_budget, model, entries[before:])

    def mark_known(self, model: Any, budget: Budget | None) -> None:
        """Mark what this process has recorded as known to a model and a budget."""
        accounts = () if budget is None else budget.accounts
        for each in (model, *accounts):
            OFFSETS.set(each, self.key, self.count)

    def charge(self, budget: Budget, model: Any, chosen: Callable[[Entry], bool]) -> None:
        """Charge a budget what the recorded entries that `chosen` says have spent.

        It is charged even if that is more than it allows. `model` says the price of tokens that
        were recorded without one.
        """
        charge_spent(budget, model, filter(chosen, self.entries()))

    def known_count(self, target: Any, unit: Literal["entries", "messages"]) -> int:
        """Return how many of these of the run an object knows, from it or those it copies."""
        count = OFFSETS.get(target, self.key)
        for each in self.copied:
            count = max(count, min(OFFSETS.get(target, each["key"]), each[unit]))
        return count

    def _set_known(self, target: Any, entries: int) -> None:
        """Mark entries of the run, also in those it copies, as known to an object."""
        OFFSETS.set(target, self.key, entries)
        for each in self.copied:
            OFFSETS.set(target, each["key"], max(OFFSETS.get(target, each["key"]), each["entries"]))
