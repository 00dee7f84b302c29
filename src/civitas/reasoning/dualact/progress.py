"""How far a dual act has come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from civitas.models.protocol import Usage
from civitas.reasoning.dualact.conclusions import Conclusion, DecisionAction, HumanDecision
from civitas.reasoning.record import APPENDED, LIVE
from civitas.reasoning.reply import Reply, Step, StopReason

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
    """The state of a dual act: enough to go on with it in another process.

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
        steps: what H and R called
        values: of each conclusion, the value that was asked for, or None
        schema: what the answer is to be: a JSON schema, or None; True where it is a type, which is
            not saved
        wanted: what it is to be, as it was asked for
        human_usage: the tokens that H took
        reactive_usage: the tokens that R took
        stop: why it is over
        detail: more on that
    """

    task: str | list[dict[str, Any]] = ""
    thread: str | None = None
    run_id: str = ""
    turn: Turn = "human"
    instruction: list[str] = field(default_factory=list)
    redirected: bool = False
    why: str = ""
    r_runs: int = 0
    decisions: list[HumanDecision] = field(default_factory=list, metadata=APPENDED)
    conclusions: list[Conclusion] = field(default_factory=list, metadata=APPENDED)
    steps: list[Step] = field(default_factory=list, metadata=APPENDED)
    values: list[Any] = field(default_factory=list, metadata=APPENDED)
    schema: dict[str, Any] | bool | None = None
    wanted: Any = field(default=None, metadata=LIVE)
    human_usage: Usage = field(default_factory=Usage)
    reactive_usage: Usage = field(default_factory=Usage)
    stop: StopReason | None = None
    detail: str = ""

    def want(self, schema: Any) -> None:
        """Say what the answer is to be."""
        self.wanted = schema
        self.schema = schema if schema is None or isinstance(schema, dict) else True

    @property
    def conclusion(self) -> Conclusion | None:
        """The last conclusion, or None."""
        return self.conclusions[-1] if self.conclusions else None

    @property
    def is_over(self) -> bool:
        """Whether it is nobody's turn any more."""
        return self.turn == "over"

    def decided(self, decision: HumanDecision, runs: int, agents: int) -> None:
        """Note a decision, and whose turn is next."""
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
