"""One step of a run that is recorded: what was recorded of it before, and how far it is now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(slots=True)
class Past:
    """What was recorded of a step before."""

    key: str
    state: str = ""  # how far it had come: `permitted`, `started`, `ended` or `failed`
    about: dict[str, Any] = field(default_factory=dict)  # what the orchestrator said of it
    args: Any = None  # the arguments with which it began
    asks: bool = False  # whether a person decides, where it had begun and not ended
    result: Any = None  # what it gave, as JSON data
    error: str = ""  # why it failed
    permitted: str | None = None  # the fingerprint of what was permitted
    decision: str | None = None  # what a person decided: `repeat`, `skip` or `done`
    value: Any = None  # the result that a person told, where the decision is `done`
    kept: str | None = None  # the hash of the result, where that is bytes

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

    def __init__(
        self, record: Any, key: str, note: dict[str, Any], past: Past, beside: bool
    ) -> None:
        self._record = record
        self._key = key
        self._note = note
        self._charged: Callable[[], Mapping[str, Any]] | None = None
        self._beside = beside
        self.begun = False
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
        if decision is True:
            record.note("permitted", {"key": self._key, "fingerprint": fingerprint})
            await record.commit()
        return decision

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

    def tell(self, **more: Any) -> None:
        """Say what to record with the end of the step."""
        self._note.update(more)

    def end(self, kind: str, data: dict[str, Any]) -> None:
        """Note how it ended."""
        charged = {} if self._charged is None else {"charged": dict(self._charged())}
        self._record.note(kind, self._note | charged | data)


class _NullStep(Step):
    """The step of a run that nobody records."""

    async def permitted(self, fingerprint: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        return await ask()

    async def begins(self, args: Any = None, reserved: Mapping[str, Any] | None = None) -> None:
        return None

    def charge(self, charged: Callable[[], Mapping[str, Any]]) -> None:
        return None


NULL_STEP: Final = _NullStep(None, "", {}, Past(""), False)
