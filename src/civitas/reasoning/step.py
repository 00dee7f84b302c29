"""One step of a run that is recorded: what was recorded of it before, and how far it is now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol


class Notes(Protocol):
    """Where a step is recorded.

    Attributes:
        open: how many steps are under way
    """

    open: int

    @property
    def noted(self) -> int:
        """How many entries were noted."""
        ...

    def note(self, kind: str, data: Any) -> None:
        """Note an entry."""
        ...

    async def commit(self, upto: int | None = None) -> None:
        """Write what was noted."""
        ...


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
        past: what was recorded of it before
        begun: whether its effect has begun
    """

    __slots__ = ("_beside", "_charged", "_key", "_note", "_record", "args", "begun", "past")

    def __init__(
        self, record: Notes, key: str, note: dict[str, Any], past: Past, beside: bool
    ) -> None:
        self._record = record
        self._key = key
        self._note = note
        self._charged: Callable[[], Mapping[str, Any]] | None = None
        self.begun = False
        self._beside = beside
        self.past = past
        self.args: Any = past.args if past.state == "started" else None

    async def permitted(self, fingerprint: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Whether this is permitted: asks once, or gives what was recorded.

        Args:
            fingerprint: what exactly is asked for
            ask: asks a person, or a rule; only True permits
        """
        if self.past.permitted == fingerprint:
            return True
        record = self._record
        await record.commit()  # a person may take long: what led to the question is not lost
        decision = await ask()
        if decision is not True:
            return decision
        record.note("permitted", {"key": self._key, "fingerprint": fingerprint})
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
        self.begun = True
        record = self._record
        record.note("started", data)
        noted = record.noted
        if self._beside or record.open > 1:
            await asyncio.sleep(0)  # those beside it begin now too
        await record.commit(noted)

    def charge(self, charged: Callable[[], Mapping[str, Any]]) -> None:
        """Say what tells, when the step is over, what it has spent."""
        self._charged = charged

    def end(self, kind: str, data: dict[str, Any]) -> None:
        """Note how it ended."""
        made = dict(self._note)
        if self._charged is not None:
            made["charged"] = dict(self._charged())
        self._record.note(kind, made | data)


class _NullStep(Step):
    """The step of a run that nobody records."""

    __slots__ = ()

    def __init__(self) -> None:
        self.past = Past("")
        self.args = None

    async def permitted(self, fingerprint: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        return await ask()

    async def begins(self, args: Any = None, reserved: Mapping[str, Any] | None = None) -> None:
        return None

    def charge(self, charged: Callable[[], Mapping[str, Any]]) -> None:
        return None


NULL_STEP: Final = _NullStep()
