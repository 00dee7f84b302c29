"""The record of a run: its state, and the steps from one state to the next.

Every orchestrator (the loop, a dual act, a conversation, one of your own) is a state, which is a
dataclass, and steps. It saves its state between two turns, and wraps in `step` whatever must not be
done twice. A run that goes on begins with its last state and walks the turn that was under way
again: a step that has ended gives its recorded result and calls nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import MISSING, fields
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

from civitas.errors import InDoubt, JournalError, StateError
from civitas.jsonvalue import as_json, deep_json
from civitas.reasoning.read_record import ReadRecord, check, fingerprint
from civitas.reasoning.state import APPENDED, LIVE, Codec, codec_of, dumped, loaded
from civitas.reasoning.step import NULL_STEP, Past, Step

if TYPE_CHECKING:
    from civitas.journal import Journal, Part

__all__ = [
    "APPENDED",
    "LIVE",
    "NULL_RECORD",
    "NULL_STEP",
    "NullRecord",
    "Past",
    "Record",
    "Step",
    "dumped",
    "loaded",
    "recorded",
]

S = TypeVar("S")
T = TypeVar("T")


class Record(ReadRecord[S]):
    """One agent's part of a run that is recorded. One task writes it, and those that it starts.

    Attributes:
        count: how many entries it has, with those that are noted
        open: how many steps are under way
        committed: called after each commit
    """

    def __init__(self, part: Part, kind: type[S]) -> None:
        super().__init__(part, kind)
        self._part = part
        self._then: list[tuple[int, Callable[[], None]]] = []  # what the next commit makes true
        self.committed: Callable[[], None] | None = None
        self.count = len(part.past)
        self.open = 0

    @property
    def key(self) -> str:
        """What tells this part from all others, of this run and others, in whatever journal."""
        return self._part.key

    @property
    def journal(self) -> str:
        """The path of the journal."""
        return self._part.run.file.path

    def key_of(self, message: int) -> str:
        """By what key a memory knows a message of this run: a copy shares those before it."""
        copied = (each["key"] for each in self.copied if message < each["messages"])
        return next(copied, self.key)

    # -- what happens ------------------------------------------------------------------------------

    def begin(self, kind: str, agent: str, program: Mapping[str, Any], /, **about: Any) -> None:
        """Note what the part begins with, or see that the program is the one that began it.

        Raises:
            RunMismatch: it is another one
        """
        begun = self.begun
        if begun is not None:
            check(self.run_id, begun, kind, agent, program)
        if begun is None or begun["fingerprint"] is None:  # a copy may be of another program
            about = {"kind": kind, "agent": agent, **about, **(begun or {}), "fingerprint": program}
            self.begun = about
            self.note("begun", about)

    async def step(
        self,
        key: str,
        call: Callable[[Step], Awaitable[T]],
        /,
        *,
        of: type[T] | Codec | None = None,
        outcome: Literal["repeat", "ask"] = "repeat",
        beside: bool = False,
        decided: Callable[[Past], T] | None = None,
        **about: Any,
    ) -> T:
        """Do something once: gives what was recorded of it, or calls and records that.

        A call that raises is recorded as failed, and called again when the run goes on. One that
        was cancelled has no end. A call awaits `step.begins()` before its effect: one that does not
        is repeated, whatever `outcome` says. The end is in the file with the next commit.

        Args:
            key: what the step is called: the same when the run goes on, and no other's
            call: does it; it is given a `Step`, by which it says when the effect begins
            of: the type of the result, where that is no JSON data
            outcome: what becomes of it where it had begun and not ended: `repeat` calls it again;
                `ask` leaves that to a person
            beside: whether others are done at the same time: then one commit is for all that begin
            decided: makes the result of a person's decision `skip` or `done`; without it `done`
                gives the value, and `skip` raises InDoubt
            **about: what to record of it besides, as JSON data; `action` names it to a person

        Raises:
            InDoubt: it had begun and not ended, and nobody has decided
            JournalError: it cannot be written
            Exception: what the call raises
        """
        past = self._steps.get(key) or Past(key)
        codec = codec_of(of)
        if past.state == "ended":
            ended = codec.load(past.result) if past.kept is None else self.kept(past.kept)
            return cast(T, ended)
        note: dict[str, Any] = {"key": key, "about": about} if about else {"key": key}
        if outcome == "ask":
            note["asks"] = True
        step = Step(self, key, note, past, beside)
        if past.state == "started" and past.asks and past.decision != "repeat":
            made = self._decided(past, decided, of)
            step.end("ended", {"result": codec.dump(made), "decided": past.decision})
            return made
        self.open += 1
        try:
            result = await call(step)
        except JournalError:
            raise
        except Exception as error:
            step.end("failed", {"error": f"{type(error).__name__}: {error}"})
            raise
        except asyncio.CancelledError:
            if step.begun and outcome == "repeat":  # what it cost is known
                step.end("failed", {"error": "cancelled", "cancelled": True})
            raise
        finally:
            self.open -= 1
        if isinstance(result, bytes):
            step.end("ended", {"kept": self.keep(result)})
        else:
            step.end("ended", {"result": codec.dump(result)})
        if self.open:
            await self.commit()  # before those beside it have ended
        return result

    def mark(self, key: str, result: Any = None, /, **about: Any) -> None:
        """Note that something has happened, or that a step was cut off: a step without a call."""
        data = {"key": key, "about": about} if about else {"key": key}
        self.note("ended", {**data, "result": result})

    def _decided(self, past: Past, decided: Callable[[Past], T] | None, of: Any) -> T:
        if past.decision is None:
            raise InDoubt(
                f"step {past.key!r} of run {self.run_id!r} was running when the process died, and "
                f"its outcome is unknown: decide by journal.decide({self.run_id!r}, …)"
            )
        if decided is not None:
            return decided(past)
        if past.decision == "skip":
            raise InDoubt(f"step {past.key!r} of run {self.run_id!r} is skipped by a decision")
        return cast(T, past.value if isinstance(of, Codec) else codec_of(of).load(past.value))

    def hear(self, data: Any) -> None:
        """Note something that came from outside, which belongs to the next state."""
        self.note("heard", data)

    def save(self, state: S) -> None:
        """Note the state between two turns. Lists that only grow are recorded item by item."""
        grown: dict[str, Any] = {}
        for name, written in self._written.items():
            items = getattr(state, name)
            if len(items) > written:
                grown[name] = items[written:]
                self._written[name] = len(items)
        scalars = {name: getattr(state, name) for name in self._scalars}
        self.note("state", {"state": scalars, "appended": grown})

    def drop(self, state: S, name: str) -> None:
        """Let go of all items of a list but the last: they are recorded, and take memory here."""
        items = getattr(state, name)
        del items[:-1]
        self._written[name] = len(items)

    def then(self, done: Callable[[], None]) -> None:
        """Call something once what was noted until now is in the file."""
        self._then.append((self.noted, done))

    async def commit(self, upto: int | None = None) -> None:
        """Write what was noted. When this returns, it is in the file.

        Args:
            upto: how many of the part's `noted` entries are waited for; all, if left out

        Raises:
            JournalError: it cannot be written
        """
        try:
            await self._part.run.commit(upto)
        finally:  # also if cancelled: what is in the file holds
            self._has_committed()

    def member(self, name: str, agent: str, **about: Any) -> Part | None:
        """The part of the run in which an agent records the turn that it takes for this one.

        It answers from there when the run goes on, so that this is no step. None without a journal.

        Args:
            name: such as `H1`, or `R1/ID`
            agent: the agent's id
            **about: what to record of it besides, as JSON data
        """
        if name not in self.members:
            data = {"key": name, "part": name, "agent": agent, **about}
            self.members[name] = data
            self.note("started", data)
        return self._part.part(name)

    def keep(self, data: bytes) -> str:
        """Store a value once, by its sha256; 1 MiB or more becomes a file beside the journal."""
        return self._part.run.keep(data)

    def kept(self, hash: str) -> bytes:
        """A value that was stored; a JournalError where it is missing or damaged."""
        return self._part.run.kept(hash)

    async def end(self, reason: str, **about: Any) -> None:
        """Write down why it ended.

        Raises:
            JournalError: it cannot be written
        """
        self.note_end(reason, **about)
        await self.commit()

    def note_end(self, reason: str, **about: Any) -> None:
        """Note why it ended."""
        self.over = {"reason": reason, **as_json(about)}
        self.note("over", self.over)
        if not self._part.path:
            self._part.end(reason)

    def commit_now(self) -> None:
        """Write what was noted, where nothing can be awaited: the thread waits.

        Raises:
            JournalError: it cannot be written
        """
        self._part.run.commit_now()
        self._has_committed()

    @property
    def noted(self) -> int:
        """How many entries of the run were noted since it was opened."""
        return self._part.run.noted

    def note(self, kind: str, data: Any) -> None:
        """Note an entry; of a value that has no JSON form, the text that a model is shown."""
        try:
            self._part.note(kind, data)
        except (TypeError, ValueError, RecursionError):
            self._part.note(kind, deep_json(data))
        self.count += 1

    def _has_committed(self) -> None:
        """Do what was to be done once something is in the file."""
        then, written = self._then, self._part.run.written
        self._then = [each for each in then if each[0] > written]
        for number, done in then:
            if number <= written:
                done()
        if self.committed is not None:
            self.committed()


class NullRecord(Record[S]):
    """The record of a run that nobody records: steps are called, and nothing is kept."""

    key = ""

    def __init__(self) -> None:
        self.state = self.begun = self.over = self.committed = None
        self.heard = []
        self.members = {}
        self._steps = {}
        self._written = {}

    async def step(self, key: str, call: Callable[[Step], Awaitable[T]], /, **options: Any) -> T:
        """Call."""
        return await call(NULL_STEP)

    def note(self, kind: str, data: Any) -> None:
        """Nothing is noted."""

    def note_end(self, reason: str, **about: Any) -> None:
        """Nothing is noted."""

    def save(self, state: S) -> None:
        """Nothing is noted."""

    def member(self, name: str, agent: str, **about: Any) -> Part | None:
        """None."""
        return None

    def keep(self, data: bytes) -> str:
        """The hash alone: nothing is stored."""
        return sha256(data).hexdigest()

    def then(self, done: Callable[[], None]) -> None:
        """At once: there is nothing to wait for."""
        done()

    async def commit(self, upto: int | None = None) -> None:
        """There is nothing to write."""

    def commit_now(self) -> None:
        """There is nothing to write."""


NULL_RECORD: Final[Record[Any]] = NullRecord()
"""The record of every run that nobody records."""


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
    """The record of a run of one's own orchestrator: begun, or resumed.

    A run that is over has `record.over`: return its result in the place of doing it again.

    Args:
        journal: where; None records nothing
        run_id: the run's id
        kind: the name of the orchestrator
        agent: the id of who runs it
        state: the dataclass that its state is, with a default for each field
        task: what it is to do, as people see it in `civitas runs`
        program: what must be the same for a program to go on with the run, as JSON data by name

    Raises:
        RunHeld: somebody works on the run
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
        except BaseException:
            with suppress(JournalError):  # what stopped the run is raised
                record.commit_now()
            raise
        await record.commit()
    finally:
        part.close()
