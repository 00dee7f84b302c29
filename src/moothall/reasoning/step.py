"""One step of a recorded run: its earlier record, and its progress."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moothall.approval import ChangedArgs

KEPT_MARK: Final = "#kept"
"""What ends the key under which a step keeps data while it is under way."""


@dataclass(slots=True)
class Past:
    """The earlier record of a step."""

    key: str
    state: str = ""  # `permitted`, `started`, `ended` or `failed`
    about: dict[str, Any] = field(default_factory=dict)  # what the orchestrator recorded besides
    args: Any = None  # the arguments with which it began
    asks: bool = False  # whether a person decides if it had begun and not ended
    result: Any = None  # its result, as JSON data
    error: str = ""  # why it failed
    permitted: str | None = None  # the fingerprint of the permitted request
    proposed: str | None = None  # that of the request as it was made, if a person changed it
    changed: dict[str, Any] | None = None  # the arguments with which it was permitted then
    was: dict[str, Any] | None = None  # the arguments that these replace
    decision: str | None = None  # what a person decided: `repeat`, `skip` or `done`
    value: Any = None  # the result that a person stated, if the decision is `done`
    kept: str | None = None  # the hash of the result, if that is bytes

    @property
    def in_doubt(self) -> bool:
        """Return whether it had begun and not ended, and a person has still to decide."""
        return self.state == "started" and self.asks and self.decision is None


class Step:
    """Passed to a step's call, which reports its progress by it."""

    def __init__(
        self, record: Any, key: str, note: dict[str, Any], past: Past, beside: bool
    ) -> None:
        self._record = record
        self._key = key
        self._note = note
        self._charged: Callable[[], Mapping[str, Any]] | None = None
        self._beside = beside
        self._took = False
        self.begun: bool = False  # whether its effect has begun
        self.past = past
        # The arguments with which it began before the run was cut off: they hold.
        self.args: Any = past.args if past.state == "started" else None

    async def permitted(
        self,
        fingerprint: str,
        ask: Callable[[], Awaitable[Any]],
        change: Callable[[dict[str, Any]], tuple[str, dict[str, Any]]] | None = None,
    ) -> Any:
        """Return whether exactly this request is permitted: as recorded, or by asking.

        `change` gives it the arguments of `ChangedArgs`, and returns its new fingerprint and the
        arguments that they replace.
        """
        past = self.past
        if past.permitted == fingerprint:
            return True
        if past.proposed == fingerprint and past.changed is not None and change is not None:
            change(past.changed)
            return True
        record = self._record
        record.wait(1)
        try:
            await record.commit()  # keep all entries so far: a person may take long to answer
            decision = await ask()
        finally:
            record.wait(-1)
        note: dict[str, Any] = {"key": self._key, "fingerprint": fingerprint}
        if isinstance(decision, ChangedArgs) and change is not None:
            exact, was = change(decision.args)
            note |= {"fingerprint": exact, "proposed": fingerprint}
            note |= {"args": decision.args, "was": was}
            decision = True
        if decision is True:
            record.note("permitted", note)
            await record.commit()
        return decision

    async def begins(self, args: Any = None, reserved: Mapping[str, Any] | None = None) -> None:
        """Note that the effect begins now; return when that is in the file.

        Call it after hooks, permission and reservation, so that a waiting step is not in doubt.
        `reserved` is what the effect may spend at most, charged if it has no recorded end.
        """
        data = dict(self._note)
        if args is not None:
            data["args"] = args
        if reserved is not None:
            data["reserved"] = dict(reserved)
        self.begun = True
        record = self._record
        if self.past.state == "started" and record.find(f"{self._key}{KEPT_MARK}") is not None:
            return  # the call that began then goes on
        record.note("started", data)
        noted = record.noted
        try:
            if self._beside or record.open > 1:
                await asyncio.sleep(0)  # let concurrent steps begin in the same commit
            await record.commit(noted)
        except asyncio.CancelledError:
            if "asks" in data:  # its effect has not begun: no person need decide about it
                self.begun = False
                self.end("failed", {"error": "cancelled", "cancelled": True})
            raise

    def charge(self, charged: Callable[[], Mapping[str, Any]]) -> None:
        """Set the function that returns, at the end of the step, what it has spent."""
        self._charged = charged

    @property
    def goes_on(self) -> bool:
        """Return whether the run is resumed if it is cancelled now."""
        return bool(self._record.left)

    def take_kept(self) -> dict[str, Any] | None:
        """Return what this step kept before the run was cut off; only the first time."""
        past = None if self._took else self._record.find(f"{self._key}{KEPT_MARK}")
        self._took = True
        return None if past is None else past.result

    async def keep(self, data: dict[str, Any]) -> None:
        """Keep data for the case that the run is cut off; return when it is in the file."""
        self._record.mark(f"{self._key}{KEPT_MARK}", data)
        await self._record.commit()

    def tell(self, **more: Any) -> None:
        """Add to what is recorded at the end of the step."""
        self._note.update(more)

    def end(self, kind: str, data: dict[str, Any]) -> None:
        """Note how it ended."""
        charged = {} if self._charged is None else {"charged": dict(self._charged())}
        self._record.note(kind, self._note | charged | data)


class _NullStep(Step):
    """The step of a run without a journal."""

    async def permitted(
        self,
        fingerprint: str,
        ask: Callable[[], Awaitable[Any]],
        change: Callable[[dict[str, Any]], tuple[str, dict[str, Any]]] | None = None,
    ) -> Any:
        return await decided_now(ask, change)

    async def begins(self, args: Any = None, reserved: Mapping[str, Any] | None = None) -> None:
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


NULL_STEP: Final = _NullStep(None, "", {}, Past(""), False)


async def decided_now(
    ask: Callable[[], Awaitable[Any]],
    change: Callable[[dict[str, Any]], tuple[str, dict[str, Any]]] | None,
) -> Any:
    """Return whether a request is permitted, by asking: nothing is recorded."""
    decision = await ask()
    if isinstance(decision, ChangedArgs) and change is not None:
        change(decision.args)
        return True
    return decision
