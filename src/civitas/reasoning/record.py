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
from dataclasses import MISSING, dataclass, field, fields
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar, cast

from civitas.errors import InDoubt, JournalError, StateError
from civitas.reasoning.jsonform import Codec, as_json

if TYPE_CHECKING:
    from civitas.journal import Entry, Journal, Part

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

Outcome = Literal["repeat", "ask"]
APPENDED: Final = {"civitas": "appended"}
"""The metadata of a state's field that is a list which only grows: each item is recorded once. As
in `lines: list[str] = field(default_factory=list, metadata=APPENDED)`."""
LIVE: Final = {"civitas": "live"}
"""The metadata of a state's field that is not saved, such as a type that was asked for."""


@dataclass(slots=True)
class Past:
    """What was recorded of a step before.

    Attributes:
        key: the step's key
        state: how far it had come: `permitted`, `started`, `ended` or `failed`
        about: what the orchestrator said of it
        args: the arguments with which it began
        asks: whether a person decides, where it had begun and not ended
        result: what it gave, as JSON data
        error: why it failed
        permitted: the fingerprint of what was permitted, or None
        decision: what a person decided: `repeat`, `skip` or `done`; None if nothing
        value: the result that a person told, where the decision is `done`
        kept: the hash of the result, where that is bytes
    """

    key: str
    state: str = ""
    about: dict[str, Any] = field(default_factory=dict)
    args: Any = None
    asks: bool = False
    result: Any = None
    error: str = ""
    permitted: str | None = None
    decision: str | None = None
    value: Any = None
    kept: str | None = None

    @property
    def in_doubt(self) -> bool:
        """Whether it had begun and not ended, and somebody has still to decide."""
        return self.state == "started" and self.asks and self.decision is None


class Step:
    """What a step's call is given, to say how far it is.

    Attributes:
        args: the arguments with which it had begun before the process died, which hold; else None
    """

    __slots__ = ("_begun", "_beside", "_charged", "_key", "_note", "_record", "args", "past")

    def __init__(
        self, record: Record[Any], key: str, note: dict[str, Any], past: Past, beside: bool
    ) -> None:
        self._record = record
        self._key = key
        self._note = note
        self._charged: Callable[[], Mapping[str, Any]] | None = None
        self._begun = False
        self._beside = beside
        self.past = past
        self.args: Any = past.args if past.state == "started" else None

    async def permitted(self, fingerprint: str, ask: Callable[[], Awaitable[bool]]) -> bool:
        """Whether this is permitted: asks once, or gives what was recorded.

        Args:
            fingerprint: what exactly is asked for
            ask: asks a person, or a rule
        """
        if self.past.permitted == fingerprint:
            return True
        if not await ask():
            return False
        record = self._record
        record._write("permitted", {"key": self._key, "fingerprint": fingerprint})
        await record.commit()
        return True

    async def begins(self, args: Any = None, reserved: Mapping[str, Any] | None = None) -> None:
        """Say that the effect begins now; returns when that is in the file.

        Called after hooks, permission and reservation: what waits for a person is never in doubt.

        Args:
            args: the arguments of the effect, as JSON data
            reserved: what it may spend at most, which counts if no more is heard of it

        Raises:
            JournalError: it cannot be written; the effect must not begin
        """
        data = dict(self._note)
        if args is not None:
            data["args"] = args
        if reserved is not None:
            data["reserved"] = dict(reserved)
        self._begun = True
        record = self._record
        record._write("started", data)
        noted = record._part.noted
        if self._beside or record._open > 1:
            await asyncio.sleep(0)  # those beside it begin now too
        await record.commit(noted)

    def charge(self, charged: Callable[[], Mapping[str, Any]]) -> None:
        """Say what tells, when the step is over, what it has spent."""
        self._charged = charged

    def _end(self, kind: str, data: dict[str, Any]) -> None:
        """Note how it ended."""
        made = dict(self._note)
        if self._charged is not None:
            made["charged"] = dict(self._charged())
        self._record._write(kind, made | data)


class Record(Generic[S]):
    """One agent's part of a run that is recorded. One task writes it, and those that it starts.

    Attributes:
        state: the last state that was saved, or None
        begun: what the part began with, or None if it is new
        over: why it ended, if it did and nothing came after it
        heard: what was heard since the last state, in order
        members: what is known of the turns that others record in parts of their own, by part
        count: how many entries it has, with those that are noted
        committed: called after each commit
    """

    def __init__(self, part: Part, kind: type[S]) -> None:
        self._part = part
        self._kind = kind
        self._steps: dict[str, Past] = {}
        self._lists = [each.name for each in fields(cast(Any, kind)) if each.metadata == APPENDED]
        self._written = dict.fromkeys(self._lists, 0)  # how many items of each list are recorded
        self._then: list[tuple[int, Callable[[], None]]] = []  # what the next commit makes true
        self.committed: Callable[[], None] | None = None
        self.count = len(part.past)
        self._open = 0  # steps under way
        self.members: dict[str, dict[str, Any]] = {}
        self.begun: dict[str, Any] | None = None
        self.over: dict[str, Any] | None = None
        self.heard: list[Any] = []
        state: dict[str, Any] | None = None
        for entry in part.past:
            self.over = None
            try:
                state = self._take(entry, state)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise StateError(
                    f"run {part.run_id!r}: entry {entry.sequence} ({entry.kind}) is not one that "
                    f"this civitas writes: {type(error).__name__}: {error}"
                ) from error
        self.state: S | None = None if state is None else self._read_state(state)

    # -- what was recorded -------------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._part.run_id

    @property
    def key(self) -> str:
        """What tells this part from all others, of this run and others, in whatever journal."""
        return self._part.key

    @property
    def is_new(self) -> bool:
        """Whether nothing was recorded of it before."""
        return self.begun is None

    def past(self, prefix: str = "") -> list[Past]:
        """What was recorded of the steps whose keys begin so, in the order in which they began."""
        return [past for key, past in self._steps.items() if key.startswith(prefix)]

    def has_ended(self, key: str) -> bool:
        """Whether a step had ended before."""
        past = self._steps.get(key)
        return past is not None and past.state == "ended"

    def entries(self) -> list[Entry]:
        """What was recorded before, entry by entry."""
        return self._part.past

    @property
    def copied_messages(self) -> list[tuple[str, int]]:
        """Of a copy: by what keys the runs before it are known, and how many messages each had."""
        copied = (self.begun or {}).get("copied", ())
        return [(each["key"], each["messages"]) for each in copied]

    def key_of(self, message: int) -> str:
        """By what key a memory knows a message of this run: a copy shares those before it."""
        for key, count in self.copied_messages:
            if message < count:
                return key
        return self.key

    def _take(self, entry: Entry, state: dict[str, Any] | None) -> dict[str, Any] | None:
        kind, data = entry.kind, entry.data
        if kind == "state":
            made: dict[str, Any] = {**(state or {}), **data["state"]}
            for name, items in data["appended"].items():
                kept = (state or {}).get(name)
                made[name] = items if kept is None else [*kept, *items]
            self.heard = []
            return made
        if kind == "begun":
            self.begun = data
        elif kind == "heard":
            self.heard.append(data)
        elif kind == "over":
            self.over = data
        elif "part" in data:
            self.members[data["part"]] = data
        elif kind in ("started", "ended", "failed", "permitted", "decided"):
            self._take_step(kind, data)
        return state

    def _take_step(self, kind: str, data: dict[str, Any]) -> None:
        key = data["key"]
        past = self._steps.setdefault(key, Past(key))
        if kind == "permitted":
            past.permitted = data["fingerprint"]
            past.state = past.state or kind
            return
        if kind == "decided":
            past.decision, past.value = data["decision"], data.get("value")
            return
        past.state = kind
        past.about = data.get("about", past.about)
        if kind == "started":
            past.args, past.asks = data.get("args"), data.get("asks", False)
            past.decision = None
        elif kind == "ended":
            past.result, past.kept = data.get("result"), data.get("kept")
        else:
            past.error = data["error"]

    def _read_state(self, data: dict[str, Any]) -> S:
        made = loaded(self._kind, data, f"run {self.run_id!r}")
        for name in self._lists:
            self._written[name] = len(getattr(made, name))
        return made

    # -- what happens ------------------------------------------------------------------------------

    def begin(self, **about: Any) -> None:
        """Note what the part begins with."""
        self.begun = about
        self._write("begun", about)

    async def step(
        self,
        key: str,
        call: Callable[[Step], Awaitable[T]],
        /,
        *,
        of: type[T] | Codec | None = None,
        outcome: Outcome = "repeat",
        beside: bool = False,
        decided: Callable[[Past], T] | None = None,
        **about: Any,
    ) -> T:
        """Do something once: gives what was recorded of it, or calls and records that.

        A call that raises is recorded as failed, and called again when the run goes on. One that
        was cancelled has no end.

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
        if past.state == "ended":
            return cast(T, self._result(past, of))
        note: dict[str, Any] = {"key": key}
        if about:
            note["about"] = about
        if outcome == "ask":
            note["asks"] = True
        step = Step(self, key, note, past, beside)
        if past.state == "started" and past.asks and past.decision != "repeat":
            made = self._decided(past, decided, of)
            step._end("ended", {"result": _result_json(made, of), "decided": past.decision})
            return made
        self._open += 1
        try:
            result = await call(step)
        except JournalError:
            raise
        except Exception as error:
            step._end("failed", {"error": f"{type(error).__name__}: {error}"})
            raise
        except asyncio.CancelledError:
            if step._begun and outcome == "repeat":  # what it cost is known
                step._end("failed", {"error": "cancelled", "cancelled": True})
            raise
        finally:
            self._open -= 1
        self._end(step, result, of)
        if self._open:
            await self.commit()  # before those beside it have ended
        return result

    def _end(self, step: Step, result: Any, of: Any) -> None:
        if isinstance(result, bytes):
            step._end("ended", {"kept": self.keep(result)})
        else:
            step._end("ended", {"result": _result_json(result, of)})

    def mark(self, key: str, result: Any = None, /, **about: Any) -> None:
        """Note that something has happened, or that a step was cut off: a step without a call."""
        data = {"key": key, "about": about} if about else {"key": key}
        self._write("ended", {**data, "result": as_json(result)})

    def _result(self, past: Past, of: Any) -> Any:
        if isinstance(of, Codec):
            return of.load(past.result)
        if past.kept is not None:
            return self._part.kept(past.kept)
        if of is None or of is Any:
            return past.result
        from pydantic import TypeAdapter

        return TypeAdapter(of).validate_python(past.result)

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
        return cast(T, _read(past.value, of))

    def hear(self, data: Any) -> None:
        """Note something that came from outside, which belongs to the next state."""
        self._write("heard", data)

    def save(self, state: S) -> None:
        """Note the state between two turns. Lists that only grow are recorded item by item."""
        scalars: dict[str, Any] = {}
        grown: dict[str, Any] = {}
        for each in fields(cast(Any, state)):
            value = getattr(state, each.name)
            if each.metadata == LIVE:
                continue
            if each.name not in self._written:
                scalars[each.name] = as_json(value)
            elif len(value) > self._written[each.name]:
                grown[each.name] = [as_json(item) for item in value[self._written[each.name] :]]
                self._written[each.name] = len(value)
        self._write("state", {"state": scalars, "appended": grown})

    def then(self, done: Callable[[], None]) -> None:
        """Call something once what was noted until now is in the file."""
        self._then.append((self._part.noted, done))

    async def commit(self, upto: int | None = None) -> None:
        """Write what was noted. When this returns, it is in the file.

        Args:
            upto: how many of the part's `noted` entries are waited for; all, if left out

        Raises:
            JournalError: it cannot be written
        """
        try:
            await self._part.commit(upto)
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
            self._write("started", data)
        return self._part.part(name)

    def keep(self, data: bytes) -> str:
        """Store a value once, by its sha256; 1 MiB or more becomes a file beside the journal."""
        return self._part.keep(data)

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
        self._write("over", self.over)
        if not self._part.path:
            self._part.end(reason)

    def commit_now(self) -> None:
        """Write what was noted, where nothing can be awaited: the thread waits.

        Raises:
            JournalError: it cannot be written
        """
        self._part.commit_now()
        self._has_committed()

    def _write(self, kind: str, data: Any) -> None:
        self._part.note(kind, data)
        self.count += 1

    def _has_committed(self) -> None:
        """Do what was to be done once something is in the file."""
        then, written = self._then, self._part.written
        self._then = [each for each in then if each[0] > written]
        for number, done in then:
            if number <= written:
                done()
        if self.committed is not None:
            self.committed()


class _NullStep(Step):
    """The step of a run that nobody records."""

    __slots__ = ()

    def __init__(self) -> None:
        self.past = Past("")
        self.args = None

    async def permitted(self, fingerprint: str, ask: Callable[[], Awaitable[bool]]) -> bool:
        return await ask()

    async def begins(self, args: Any = None, reserved: Mapping[str, Any] | None = None) -> None:
        return None

    def charge(self, charged: Callable[[], Mapping[str, Any]]) -> None:
        return None


NULL_STEP: Final = _NullStep()


class NullRecord(Record[S]):
    """The record of a run that nobody records: steps are called, and nothing is kept."""

    def __init__(self) -> None:
        self.state = None
        self.begun = None
        self.over = None
        self.heard = []
        self.members = {}
        self.committed = None

    @property
    def key(self) -> str:
        """Nothing."""
        return ""

    def past(self, prefix: str = "") -> list[Past]:
        """Nothing."""
        return []

    def has_ended(self, key: str) -> bool:
        """False."""
        return False

    def begin(self, **about: Any) -> None:
        """Nothing is noted."""

    async def step(self, key: str, call: Callable[[Step], Awaitable[T]], /, **options: Any) -> T:
        """Call."""
        return await call(NULL_STEP)

    def mark(self, key: str, result: Any = None, /, **about: Any) -> None:
        """Nothing is noted."""

    def hear(self, data: Any) -> None:
        """Nothing is noted."""

    def save(self, state: S) -> None:
        """Nothing is noted."""

    def keep(self, data: bytes) -> str:
        """The hash alone: nothing is stored."""
        return sha256(data).hexdigest()

    def then(self, done: Callable[[], None]) -> None:
        """At once: there is nothing to wait for."""
        done()

    async def commit(self, upto: int | None = None) -> None:
        """There is nothing to write."""

    def member(self, name: str, agent: str, **about: Any) -> Part | None:
        """None."""
        return None

    def note_end(self, reason: str, **about: Any) -> None:
        """Nothing is noted."""

    def commit_now(self) -> None:
        """There is nothing to write."""

    async def end(self, reason: str, **about: Any) -> None:
        """Nothing is noted."""


def dumped(state: Any) -> dict[str, Any]:
    """A state, or whatever dataclass, as JSON data."""
    return {
        each.name: as_json(getattr(state, each.name))
        for each in fields(state)
        if each.metadata != LIVE
    }


def loaded(kind: type[S], data: Any, whose: str) -> S:
    """The state that JSON data is. What an older program did not save is as a state begins.

    Raises:
        StateError: it is none
    """
    from pydantic import TypeAdapter, ValidationError
    from pydantic_core import to_json

    known = {each.name for each in fields(cast(Any, kind)) if each.metadata != LIVE}
    try:
        if not isinstance(data, dict):
            raise TypeError(f"it must be an object, got {type(data).__name__}")
        text = to_json({name: value for name, value in data.items() if name in known})
        made: S = TypeAdapter(kind).validate_json(text, strict=True)
    except (ValidationError, TypeError, ValueError) as error:
        raise StateError(f"{whose}: the state of a {kind.__name__} is damaged: {error}") from error
    return made


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
    """The record of a run of one's own orchestrator: begun, or gone on with.

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
    from civitas.reasoning.fingerprint import check, check_kind, fingerprint

    for each in fields(cast(Any, state)):
        if each.default is MISSING and each.default_factory is MISSING:
            raise StateError(f"{state.__name__}.{each.name} must have a default: it begins so")
    part = await journal.begin(run_id, kind, agent, task)
    try:
        record = Record(part, state)
        now = fingerprint(**(program or {}))
        if record.begun is not None:
            check_kind(run_id, kind, record.begun)
            check(run_id, agent, record.begun["fingerprint"], now)
        if record.begun is None or record.begun["fingerprint"] is None:
            copied = (record.begun or {}).get("copied", [])
            record.begin(kind=kind, agent=agent, task=task, fingerprint=now, copied=copied)
        try:
            yield record
        except BaseException:
            with suppress(JournalError):  # what stopped the run is raised
                record.commit_now()
            raise
        await record.commit()
    finally:
        part.close()


def _result_json(result: Any, of: Any) -> Any:
    if isinstance(of, Codec):
        return of.dump(result)
    # A long text is stored by its hash: it has no bound.
    return result if isinstance(result, str) else as_json(result)


def _read(value: Any, of: Any) -> Any:
    if isinstance(of, Codec) or of is None:
        return value
    from pydantic import TypeAdapter

    return TypeAdapter(of).validate_python(value)
