"""What was recorded of one agent's part in a run, put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from civitas.errors import StateError
from civitas.journal import Entry
from civitas.models.protocol import ModelReply, Usage
from civitas.reasoning.jsonform import answer_of_json
from civitas.reasoning.reply import Reply, Step, StopReason

__all__ = ["ENDED", "CallPast", "Past"]

ENDED = frozenset(
    ("done", "terminal", "terminated", "max_loops", "max_iterations", "no_progress", "unreadable")
)
"""The reasons for which a run is over. After any other, it goes on when it is called again."""


class CallPast:
    """What was recorded of one call of an answer.

    Attributes:
        state: `started`, `ended`, `repeat` or `skip`, the last two as a person decided
        args: the arguments with which it was executed
        idempotent: whether it may simply be executed again
        step: what came of it, once it has ended
        permitted: in which iteration what was permitted: its fingerprint
    """

    __slots__ = ("args", "decided", "idempotent", "permitted", "state", "step")

    def __init__(self) -> None:
        self.state = ""
        self.args: dict[str, Any] = {}
        self.idempotent = False
        self.step: Step | None = None
        self.permitted: tuple[int, str] | None = None
        self.decided: Any = None


class Past:
    """How far a run of the loop had come.

    Attributes:
        begun: what it began with; None if nothing was recorded yet
        messages: the messages that it added to memory
        steps: the actions that it called
        usage: the tokens that it took
        iteration: how many answers were dealt with
        pending: an answer that was not dealt with to its end, or None
        calls: what is known of its calls
        text: the last text that the model gave
        faults: what was wrong with the last answer
        same: how often the last calls came to the same, one after the other
        before: those calls
        over: why it ended, if it did and nothing came after it
    """

    def __init__(self, run_id: str, entries: Sequence[Entry]) -> None:
        self.run_id = run_id
        self.begun: dict[str, Any] | None = None
        self.messages: list[dict[str, Any]] = []
        self.steps: list[Step] = []
        self.usage = Usage()
        self.iteration = 0
        self.pending: ModelReply | None = None
        self.calls: dict[int, CallPast] = {}
        self.text = ""
        self.faults = ""
        self.same = 0
        self.before: list[tuple[str, dict[str, Any], str]] = []
        self.over: dict[str, Any] | None = None
        self._turn: list[dict[str, Any]] = []  # the messages of the turn under way
        for entry in entries:
            self.over = None
            try:
                take = _KINDS.get(entry.kind)
                if take is not None:
                    take(self, entry.data)
            except (KeyError, TypeError, ValueError) as error:
                raise StateError(
                    f"run {run_id!r}: entry {entry.sequence} ({entry.kind}) is not one that this "
                    f"civitas writes: {type(error).__name__}: {error}"
                ) from error

    @property
    def copied(self) -> list[dict[str, Any]]:
        """Of which runs it is a copy, the oldest first: what they are known by, and up to where."""
        copied: list[dict[str, Any]] = (self.begun or {}).get("copied", [])
        return copied

    @property
    def ended(self) -> bool:
        """Whether the run is over for good."""
        return self.over is not None and self.over["reason"] in ENDED

    @property
    def under_way(self) -> bool:
        """Whether calls of the pending answer had begun."""
        return any(call.state for call in self.calls.values())

    def reply(self, value: Any) -> Reply:
        """The reply that it ended with."""
        assert self.over is not None
        reason: StopReason = self.over["reason"]
        return Reply(
            self.text,
            value,
            self.messages,
            self.steps,
            self.usage,
            reason,
            self.over["detail"],
            None,
            self.run_id,
        )

    # -- one entry after the other -----------------------------------------------------------------

    def _begun(self, data: dict[str, Any]) -> None:
        self.begun = data

    def _remembered(self, data: dict[str, Any]) -> None:
        self.messages.extend(data["messages"])
        self._turn.extend(data["messages"])

    def _heard(self, data: dict[str, Any]) -> None:
        self.faults = ""
        self.same, self.before = 0, []

    def _answered(self, data: dict[str, Any]) -> None:
        self.pending = answer_of_json(data["answer"])
        self.usage = self.usage + self.pending.usage
        self.calls = {}
        self._turn = []

    def _permitted(self, data: dict[str, Any]) -> None:
        self._call(data).permitted = (data["iteration"], data["fingerprint"])

    def _started(self, data: dict[str, Any]) -> None:
        call = self._call(data)
        call.state, call.args, call.idempotent = "started", data["args"], not data["asks"]

    def _ended(self, data: dict[str, Any]) -> None:
        call = self._call(data)
        call.state, call.args = "ended", data["args"]
        call.step = Step(
            data["iteration"],
            data["action"],
            data["args"],
            data["result"],
            data["error"],
            self.run_id,
            None if self.begun is None else self.begun["thread"],
        )

    def _decided(self, data: dict[str, Any]) -> None:
        call = self._call({"call": int(data["key"].rpartition(".")[2])})
        call.state, call.decided = data["decision"], data.get("value")

    def _turned(self, data: dict[str, Any]) -> None:
        self.iteration = data["iteration"]
        self.text = data["text"]
        self.faults = data["faults"]
        steps = [call.step for _, call in sorted(self.calls.items()) if call.step is not None]
        self.steps.extend(steps)
        if steps:
            contents = [each["content"] for each in self._turn if each.get("role") == "tool"]
            now = [
                (step.action, step.args, content)
                for step, content in zip(steps, contents, strict=False)
            ]
            self.same = self.same + 1 if now == self.before else 1
            self.before = now
        else:
            self.same, self.before = 0, []
        self.pending, self.calls = None, {}

    def _over(self, data: dict[str, Any]) -> None:
        self.over = data
        self.text = data["text"]

    def _call(self, data: dict[str, Any]) -> CallPast:
        return self.calls.setdefault(data["call"], CallPast())


# Others say only what is under way.
_KINDS: Final[dict[str, Callable[[Past, dict[str, Any]], None]]] = {
    "begun": Past._begun,
    "remembered": Past._remembered,
    "heard": Past._heard,
    "answered": Past._answered,
    "permitted": Past._permitted,
    "started": Past._started,
    "ended": Past._ended,
    "decided": Past._decided,
    "turned": Past._turned,
    "over": Past._over,
}
