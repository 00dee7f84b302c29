"""How far a dual act has come: enough to go on with it in another process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from civitas.errors import DefinitionError, StateError
from civitas.models.protocol import Usage
from civitas.reasoning.dualact.conclusions import Conclusion, DecisionAction, HumanDecision
from civitas.reasoning.jsonform import as_json, step_json, usage_json
from civitas.reasoning.reply import Reply, Step, StopReason

__all__ = ["DualActReply", "Progress"]

Turn: TypeAlias = Literal["human", "reactive", "over"]


@dataclass(frozen=True, slots=True)
class DualActReply(Reply):
    """What came of a dual act.

    Attributes:
        r_runs: how often R ran; several R side by side count once
        decisions: what H decided, in order; also what was accepted without H
        conclusions: what R came to, in order; of several R, as one
        human_usage: the tokens that H took
        reactive_usage: the tokens that R took
    """

    r_runs: int = 0
    decisions: tuple[HumanDecision, ...] = ()
    conclusions: tuple[Conclusion, ...] = ()
    human_usage: Usage = field(default_factory=Usage)
    reactive_usage: Usage = field(default_factory=Usage)


@dataclass(slots=True)
class Progress:
    """A dual act under way.

    Attributes:
        task: what it was asked
        thread: the conversation that it belongs to
        run_id: the id of the run
        turn: whose turn is next; `over` if there is none
        instruction: what R is to do next, one for each R
        redirected: whether that is a change of approach
        why: H's reasoning
        r_runs: how often R ran
        decisions: what H decided
        conclusions: what R came to
        steps: what R called
        values: of each conclusion, the value that was asked for, or None
        schema: what the answer is to be: a JSON schema, a type, or None; of a type it is saved only
            that there was one, as True
        human_usage: the tokens that H took
        reactive_usage: the tokens that R took
        stop: why it is over
        detail: more on that
    """

    task: str | list[dict[str, Any]]
    thread: str | None
    run_id: str
    turn: Turn = "human"
    instruction: list[str] = field(default_factory=list)
    redirected: bool = False
    why: str = ""
    r_runs: int = 0
    decisions: list[HumanDecision] = field(default_factory=list)
    conclusions: list[Conclusion] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    schema: Any = None
    human_usage: Usage = field(default_factory=Usage)
    reactive_usage: Usage = field(default_factory=Usage)
    stop: StopReason | None = None
    detail: str = ""

    @property
    def conclusion(self) -> Conclusion | None:
        """The last conclusion, or None."""
        return self.conclusions[-1] if self.conclusions else None

    def decided(self, decision: HumanDecision, runs: int, agents: int) -> None:
        """Note a decision, and whose turn is next.

        Args:
            decision: it
            runs: how often R may run
            agents: how many R there are
        """
        self.decisions.append(decision)
        self.why = decision.reasoning
        if decision.action is DecisionAction.TERMINATE:
            self.over("terminated")
        elif self.r_runs >= runs:
            self.over("max_loops", f"H did not accept after {self.r_runs} runs of R")
        else:
            self.turn = "reactive"
            self.stop, self.detail = None, ""
            given = decision.new_instruction
            self.instruction = list(given) if isinstance(given, list) else [given] * agents
            self.redirected = decision.action is DecisionAction.REDIRECT

    def over(self, stop: StopReason, detail: str = "") -> None:
        """Note that it is over, and why."""
        self.turn, self.stop, self.detail = "over", stop, detail

    def reply(self, messages: list[dict[str, Any]], error: BaseException | None) -> DualActReply:
        """What came of it."""
        text, value = "", None
        found = list(zip(self.conclusions, self.values, strict=True))
        if not found:
            text = self.why if self.stop == "terminated" else ""
        elif self.stop == "terminated":
            text, value = found[-1][0].summary, found[-1][1]
        else:  # a run of R that was cut off may have come to nothing, where one before did
            for conclusion, of_it in reversed(found):
                if conclusion.summary:
                    text, value = conclusion.summary, of_it
                    break
        value = text if value is None else value
        return DualActReply(
            text,
            value,
            messages,
            list(self.steps),
            self.human_usage + self.reactive_usage,
            self.stop or "error",
            self.detail,
            error,
            self.run_id,
            self.r_runs,
            tuple(self.decisions),
            tuple(self.conclusions),
            self.human_usage,
            self.reactive_usage,
        )

    # -- as JSON -----------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """It as JSON data."""
        return {
            "task": self.task,
            "thread": self.thread,
            "run_id": self.run_id,
            "turn": self.turn,
            "instruction": list(self.instruction),
            "redirected": self.redirected,
            "why": self.why,
            "r_runs": self.r_runs,
            "decisions": [each.to_json() for each in self.decisions],
            "conclusions": [each.to_json() for each in self.conclusions],
            "steps": [step_json(each) for each in self.steps],
            "values": [as_json(each) for each in self.values],
            "schema": self.schema if isinstance(self.schema, dict) else self.schema is not None,
            "human_usage": usage_json(self.human_usage),
            "reactive_usage": usage_json(self.reactive_usage),
            "stop": self.stop,
            "detail": self.detail,
        }

    @classmethod
    def of_json(cls, given: Any) -> Progress:
        """What was saved.

        Raises:
            StateError: it is none
        """
        try:
            if given["turn"] not in ("human", "reactive", "over"):
                raise ValueError(f"it is nobody's turn but {given['turn']!r:.80}'s")
            return cls(
                _of(str, list)(given["task"]),
                _of(str, type(None))(given["thread"]),
                _of(str)(given["run_id"]),
                given["turn"],
                [_of(str)(each) for each in given["instruction"]],
                _of(bool)(given["redirected"]),
                _of(str)(given["why"]),
                _of(int)(given["r_runs"]),
                [_decision(each) for each in given["decisions"]],
                [Conclusion(**each) for each in given["conclusions"]],
                [Step(**each) for each in given["steps"]],
                _values(given["values"], len(given["conclusions"])),
                _of(dict, bool)(given["schema"]) or None,
                Usage(*map(_of(int), given["human_usage"])),
                Usage(*map(_of(int), given["reactive_usage"])),
                given["stop"],
                _of(str)(given["detail"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StateError(
                f"the progress of a dual act is damaged: {type(error).__name__}: {error}"
            ) from error


def _decision(given: Any) -> HumanDecision:
    action = DecisionAction(given["action"])
    return HumanDecision(action, given["new_instruction"], given["reasoning"])


def _values(given: Any, count: int) -> list[Any]:
    if not isinstance(given, list) or len(given) != count:
        raise ValueError(f"there are {count} conclusions, and values of another number")
    return list(given)


def _of(*kinds: type) -> Any:
    def checked(value: Any) -> Any:
        if type(value) not in kinds:
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise DefinitionError(f"{value!r:.80} is not of type {wanted}")
        return value

    return checked
