"""The record of a run: its state, and the steps from one state to the next.

Every orchestrator (the loop, a dual act, a conversation, one of your own) is a state, which is a
dataclass, and steps. It saves its state between two turns, and wraps in `step` all work that must
not be done twice. A resumed run starts from its last state and repeats the interrupted turn: a
step that has ended returns its recorded result and calls nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import MISSING, fields
from hashlib import sha256
from itertools import repeat
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

from moothall.agents.replies.read_record import ReadRecord, check, fingerprint, kept_list
from moothall.agents.replies.reply import Stop
from moothall.agents.replies.state import APPENDED as APPENDED
from moothall.agents.replies.state import LIVE as LIVE
from moothall.agents.replies.state import Codec, codec_of
from moothall.agents.replies.state import dump_state as dump_state
from moothall.agents.replies.state import load_state as load_state
from moothall.agents.replies.step import NULL_STEP as NULL_STEP
from moothall.agents.replies.step import PastStep as PastStep
from moothall.agents.replies.step import StepHandle as StepHandle
from moothall.foundation import tracing
from moothall.foundation.errors import InDoubt, JournalError, StateError
from moothall.foundation.jsonvalue import as_json, deep_json
from moothall.foundation.threads import is_closing

if TYPE_CHECKING:
    from moothall.journal import Journal, RunPart
    from moothall.journal.commits import OpenRun

S = TypeVar("S")
T = TypeVar("T")


class Record(ReadRecord[S]):
    """One agent's part of a recorded run; one task writes it, with the tasks that it starts."""

    def __init__(self, part: RunPart, kind: type[S]) -> None:
        self.run_part = part
        super().__init__(part, kind)
        self.key: str = part.key  # unique among the parts of all runs and journals
        self._callbacks: list[tuple[int, Callable[[], None]]] = []  # each with entries to wait for
        self.at_end: Callable[[], None] | None = None  # called when the reply has ended
        # Of its entries, including those not yet committed.
        self.count: int = len(part.past_entries)
        self.open: int = 0  # how many steps are under way

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
        if start is not None:
            check(self.run_id, start, kind, agent, program)
        if start is None or start["fingerprint"] is None:  # a fork may have another program
            about = {"kind": kind, "agent": agent, **about, **(start or {}), "fingerprint": program}
            self.start: dict[str, Any] | None = about
            self.note("begun", about)

    async def step(
        self,
        key: str,
        call: Callable[[StepHandle], Awaitable[T]],
        /,
        *,
        of: type[T] | Codec | None = None,
        outcome: Literal["repeat", "ask"] = "repeat",
        beside: bool = False,
        decided: Callable[[PastStep], T] | None = None,
        goes_on: bool = False,
        anew: bool = False,
        **about: Any,
    ) -> T:
        """Do something once: return the recorded result, or call and record the result.

        A call that raises is recorded as failed, and called again when the run is resumed. A
        cancelled call has no end. A call must await `step.begins()` before its effect: otherwise it
        is repeated, whatever `outcome` says. The next commit writes the end to the file.

        Args:
            key: the step's key: the same when the run is resumed, and unique in the part
            call: does the work; it gets a `Step`, by which it says when the effect begins
            of: the type of the result, if it is not JSON data
            outcome: what to do if it had begun and not ended: `repeat` calls it again; `ask` lets a
                person decide
            beside: whether other steps run at the same time: one commit then covers all that begin
            decided: makes the result from a person's decision `skip` or `done`; without it, `done`
                returns the value, and `skip` raises InDoubt
            goes_on: whether the call itself takes what a `Later` that it returned has come to, and
                what a person decided, from `Step.past`; else that is the result
            anew: whether it is called although it waits: it may have its result from elsewhere
            **about: what else to record, as JSON data; `action` is the name that a person sees

        Raises:
            InDoubt: it had begun and not ended, and nobody has decided
        """
        past_step = self.past_steps.get(key) or PastStep(key)
        codec = of if isinstance(of, Codec) else codec_of(of)
        if past_step.state == "ended":
            if past_step.result_hash is not None:
                return cast(T, self.stored_value(past_step.result_hash))
            try:
                return cast(T, codec.load(past_step.result))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise StateError(
                    f"run {self.run_id!r}: the result of step {key!r} is not one that this step "
                    f"records ({type(error).__name__}: {error})"
                ) from error
        note: dict[str, Any] = {"key": key, "about": about} if about else {"key": key}
        if outcome == "ask":
            note["asks"] = True
        step = StepHandle(self, key, note, past_step, beside)
        if past_step.state == "started" and past_step.is_decided:
            step.tell(decided=None if past_step.decision is None else past_step.decision.word)
            if past_step.decision is None or not goes_on:
                decided_result = self._decided(past_step, decided, of)
                step.end("ended", {"result": codec.dump(decided_result)})
                return decided_result
        if past_step.requests and past_step.waits is not None and not anew:
            answer = await step.came(past_step.waits)  # raises until there is an answer
            if past_step.later is not None and answer is not None and not goes_on:
                result: T = codec.load(answer.value)
                step.end("ended", {"result": codec.dump(result)})
                return result
        self.open += 1
        try:
            if tracing.active is None:
                result = await call(step)
            else:
                with tracing.keyed(key):
                    result = await call(step)
        except JournalError:  # the end of the step could not be written either
            raise
        except Exception as error:
            if isinstance(error, Stop) and error.reason == "waiting":
                step.rests()
            else:
                step.end("failed", {"error": f"{type(error).__name__}: {error}"})
            raise
        except asyncio.CancelledError:
            if step.has_begun and outcome == "repeat":  # its cost is known
                step.end("failed", {"error": "cancelled", "cancelled": True})
            raise
        finally:
            self.open -= 1
        if past_step.requests:
            step.withdraw()
        if isinstance(result, bytes) and not isinstance(of, Codec):  # which has a form of its own
            step.end("ended", {"kept": self.keep(result)})
        else:
            step.end("ended", {"result": codec.dump(result)})
        if self.open:
            await self.commit()  # before the steps beside it have ended
        return result

    def mark(self, key: str, result: Any = None, /, **about: Any) -> None:
        """Note a step without a call: an event, or a step that was cut off."""
        data = {"key": key, "about": about} if about else {"key": key}
        self.note("ended", {**data, "result": result})

    def _decided(
        self, past_step: PastStep, decided: Callable[[PastStep], T] | None, kind: Any
    ) -> T:
        if past_step.decision is None:
            raise InDoubt(
                f"step {past_step.key!r} of run {self.run_id!r} was running when the run was cut "
                f"off, and its outcome is unknown: look whether it took effect, and decide "
                f"by `moothall resume {self.run_id} --repeat`, --skip or --done 1=RESULT "
                "(journal.decide)"
            )
        if decided is not None:
            return decided(past_step)
        if past_step.decision.error:
            subject = f"step {past_step.key!r} of run {self.run_id!r}"
            raise InDoubt(f"{subject} {past_step.decision.outcome} by a decision")
        return cast(
            T, past_step.value if isinstance(kind, Codec) else codec_of(kind).load(past_step.value)
        )

    def hear(self, data: Any) -> None:
        """Note input from outside; it belongs to the next state."""
        self.note("heard", data)

    def save(self, state: S, **earlier: tuple[int, str]) -> None:
        """Note the state between two turns. Append-only lists are recorded item by item."""
        # `earlier`: so many items at the beginning of a list are already kept by this name.
        more = {"earlier": {name: key for name, (_, key) in earlier.items()}} if earlier else {}
        for name in earlier:
            self._counts[name] = earlier[name][0]
        grown: dict[str, Any] = {}
        for name in self._counts:
            items, count_before = getattr(state, name), self._counts[name]
            if (count := len(items)) > count_before:
                grown[name] = items[count_before:]
                self._counts[name] = count
        scalars = dict(zip(self._scalars, map(getattr, repeat(state), self._scalars), strict=True))
        self.note("state", {"state": scalars, "appended": grown, **more})

    def drop(self, state: S, name: str) -> None:
        """Drop all items of a list but the last, to save memory: they are recorded."""
        items = getattr(state, name)
        del items[:-1]
        self._counts[name] = len(items)

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

    def _earlier(self, name: str) -> list[Any]:
        return kept_list(name, self.stored_value)

    def keep(self, data: bytes) -> str:
        """Store a value once, and return its sha256; 1 MiB or more is a file beside the journal."""
        return self.run_part.run.keep(data)

    def stored_value(self, hash: str) -> bytes:
        """Return a stored value; raise a JournalError if it is missing or damaged."""
        return self.run_part.run.read_value(hash)

    async def end(self, reason: str, **about: Any) -> None:
        """Write the end of the part, with its reason."""
        self.note_end(reason, **about)
        await self.commit()

    def note_end(self, reason: str, **about: Any) -> None:
        """Note the end of the part, with its reason."""
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
        then = self._callbacks
        while then and then[0][0] <= self.run_part.run.written_count:
            then.pop(0)[1]()  # removed first: a callback that commits comes here again


class _NullRecord(Record[S]):
    """The record of a run without a journal: steps are called, and nothing is kept."""

    key = ""
    run: Any = SimpleNamespace(resumes_later=False, waiting_runs=(), cut_off=(), past_entries={})

    def __init__(self) -> None:
        self.state = self.start = self._end = self.at_end = None
        self.received = []
        self.members = {}
        self.past_steps = {}
        self._counts = {}

    @property
    def run_id(self) -> str:
        return ""

    async def step(
        self, key: str, call: Callable[[StepHandle], Awaitable[T]], /, **options: Any
    ) -> T:
        return await call(NULL_STEP)

    def note(self, kind: str, data: Any) -> None:
        pass

    def note_end(self, reason: str, **about: Any) -> None:
        pass

    def save(self, state: S, **earlier: tuple[int, str]) -> None:
        pass

    def member(self, name: str, agent: str, **about: Any) -> RunPart | None:
        return None

    def keep(self, data: bytes) -> str:
        return sha256(data).hexdigest()

    def after_commit(self, done: Callable[[], None]) -> None:
        done()

    async def commit(self, upto: int | None = None) -> None:
        pass

    def commit_now(self, cause: BaseException | None = None) -> None:
        pass


NULL_RECORD: Final[Record[Any]] = _NullRecord()
"""The record of every run without a journal."""


@asynccontextmanager
async def recorded(
    journal: Journal | None,
    run_id: str,
    kind: str,
    agent: str,
    state: type[S],
    *,
    task: str = "",
    program: Mapping[str, Any] | None = None,
) -> AsyncIterator[Record[S]]:
    """Open the record of a run of your own orchestrator, new or resumed.

    A run that is over has `record.over`: return its result instead of doing it again.

    Args:
        journal: the journal; None records nothing
        run_id: the run's id
        kind: the name of the orchestrator
        agent: the id of the agent that runs it
        state: the dataclass of its state, with a default for each field
        task: its task, as people see it in `moothall runs`
        program: what must be equal for a program to resume the run, as JSON data by name

    Raises:
        RunHeld: the run is in use elsewhere
        RunMismatch: another program began it
        JournalError: the journal cannot be used, or is damaged
    """
    if journal is None:
        yield NULL_RECORD
        return
    for each in fields(cast(Any, state)):
        if each.default is MISSING and each.default_factory is MISSING:
            raise StateError(f"{state.__name__}.{each.name} must have a default: it begins so")
    part = await journal.begin(run_id, kind, agent, task)
    try:
        record = Record(part, state)
        record.begin(kind, agent, fingerprint(**(program or {})), task=task)
        try:
            yield record
        except BaseException as error:
            with suppress(JournalError):  # raise what stopped the run instead
                record.commit_now(error)
            raise
        await record.commit()
    finally:
        part.close()
