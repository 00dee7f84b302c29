"""A call of a tool of another framework's program, within the chain of the loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from moothall.actions.approval import Later
from moothall.agents.loop.call_steps import LoopActionStep
from moothall.agents.loop.calls import ToolCalls
from moothall.foundation.errors import RunMismatch
from moothall.foundation.jsonvalue import as_json

if TYPE_CHECKING:
    from moothall.agents.loop.answer import ToolCall
    from moothall.agents.replies.record import Record


class CallOutcome(NamedTuple):
    """What came of a call, for the program: a value, what the tool raised, or a refusal.

    Attributes:
        value: what the tool returned
        error: what it raised; None if nothing
        refused: why it was not executed, in words; empty if it was
    """

    value: Any = None
    error: BaseException | None = None
    refused: str = ""

    def get(self) -> Any:
        """Return what the program gets; raise what the tool raised."""
        if self.error is not None:
            raise self.error
        return self.refused or self.value


class TheirStep(LoopActionStep):
    """Such a call: its record has the value for the program beside that for people."""

    __slots__ = ()
    turn: TheirCalls

    def __init__(self, turn: TheirCalls, place: int) -> None:
        super().__init__(turn, place)
        self.key = turn.key
        action = self.call.action
        if turn.work is not None and action is not None and action.function is not turn.work:
            self.call.action = action = copy(action)
            action.function = turn.work
            action.__dict__.pop("with_retries", None)  # of the function that it had

    def dump(self, data_of_result: dict[str, Any]) -> dict[str, Any]:
        """Return its result as it is recorded."""
        data, turn, raised = super().dump(data_of_result), self.turn, self.call.raised
        if turn.error is not None:
            raised = turn.codec.write_error(turn.error)
        return (
            data if raised is None or "error" not in data_of_result else {**data, "raised": raised}
        )

    def load(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return its recorded result."""
        if "raised" in data:
            self.turn.error = self.turn.codec.read_error(data["raised"])
        return super().load(data)


class TheirCalls(ToolCalls):
    """One call of a program, with what executes it."""

    __slots__ = ("codec", "error", "has_value", "key", "value", "work", "written_value")

    step_class = TheirStep
    key: str
    codec: Any  # the agent, which writes what tools return and raise as JSON data, and reads it
    work: Callable[..., Awaitable[Any]] | None

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.error: BaseException | None = None
        self.has_value: bool = False
        self.value: Any = None
        self.written_value: Any = None
        self.work = None

    async def outcome_of(self, work: Awaitable[Any]) -> Any:
        """Return what a tool gives, as JSON data; keep the value, or what it raised."""
        self.error, self.has_value = None, False
        try:
            self.value = await work
        except Exception as error:
            self.error = error
            raise
        if isinstance(self.value, Later):
            return self.value
        self.has_value, self.written_value = True, self.codec.write_value(self.value)
        return self.written_value

    def outcome(self) -> CallOutcome:
        """Return what came of the call; a hook may have given another result."""
        result = self.calls[0].result
        assert result is not None
        if result.error is not None:
            if self.error is None and self.calls[0].raised is not None:
                self.error = self.codec.read_error(self.calls[0].raised)
            return (
                CallOutcome(error=self.error) if self.error else CallOutcome(refused=result.error)
            )
        if self.has_value and result.data.get("result") is self.written_value:
            return CallOutcome(self.value)
        return CallOutcome(self.codec.read_value(result.value))

    @staticmethod
    def check(record: Record[Any], key: str, call: ToolCall, has_hooks: bool) -> None:
        """Raise RunMismatch if another call is recorded under this key."""
        past = record.find(key)
        if past is None:
            return
        request = next(iter(past.requests.values()), {})  # all that one has which only waited
        name = past.about.get("action") or request.get("action")
        if name is None:
            return
        args = past.original_args or past.args or request.get("args")
        if isinstance(past.result, dict):
            args = past.result.get("was") or past.result.get("args", args)
        is_other = not has_hooks and isinstance(args, dict) and args != as_json(call.args)
        if name != call.name or is_other:
            detail = f"step {key!r} was {name!r} of {args!r:.200}, and is {call.name!r} of "
            raise RunMismatch(record.run_id, ("steps",), f"{detail}{call.args!r:.200}")
