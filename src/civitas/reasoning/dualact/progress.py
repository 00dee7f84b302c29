"""How far a dual act has come, as it is saved and recorded, and what comes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from civitas.jsonvalue import Unreadable
from civitas.models.protocol import Usage
from civitas.reasoning.dualact.conclusions import (
    Conclusion,
    DecisionAction,
    HumanDecision,
    merged,
)
from civitas.reasoning.read_record import ReadRecord
from civitas.reasoning.record import APPENDED, LIVE, loaded
from civitas.reasoning.reply import Reply, Step, Stop, StopReason
from civitas.reasoning.resume import ended

if TYPE_CHECKING:
    from civitas.journal.run import RecordedPart
    from civitas.reasoning.reply_request import AnswerSchema


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
class RunOfR:
    """What one R came to: `stop` is why all ends with it, `value` its answer by the schema."""

    conclusion: Conclusion = field(default_factory=Conclusion)
    stop: Stop | None = None
    value: Any = None
    steps: list[Step] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)


@dataclass(slots=True)
class Progress:
    """The state of a dual act: enough to go on with it in another process.

    `instruction` is what R is to do next, one text for each R; `redirected` says that it is a
    change of approach, and `why` is H's reasoning. `values` has of each conclusion the value that
    was asked for, or None. `schema` is what the answer is to be: a JSON schema, None, or True where
    it is a type, which is not saved; `wanted` is the same as it was asked for.
    """

    task: str | list[dict[str, Any]] = ""
    thread: str | None = None
    run_id: str = ""
    turn: Literal["human", "reactive", "over"] = "human"
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

    def concluded(self, runs: Mapping[str, RunOfR]) -> None:
        """Note what each R came to, by its id, and that it is H's turn."""
        values = {id: run.value for id, run in runs.items() if run.value is not None} or None
        self.r_runs += 1
        self.conclusions.append(merged({id: run.conclusion for id, run in runs.items()}))
        self.values.append(values if values is None or len(runs) > 1 else values.popitem()[1])
        self.turn, self.instruction = "human", []
        for run in runs.values():
            self.steps.extend(run.steps)
            self.reactive_usage = self.reactive_usage + run.usage

    def over(self, stop: StopReason, detail: str = "") -> None:
        """Note that it is over, and why."""
        self.turn, self.stop, self.detail = "over", stop, detail

    def reply(self, error: BaseException | None = None) -> DualActReply:
        """What came of it."""
        text, value = "", None
        found = list(zip(self.conclusions, self.values, strict=True))
        if self.stop != "terminated":
            # A run of R that was cut off may have come to nothing, where one before did.
            found = [(conclusion, its) for conclusion, its in found if conclusion.summary]
        if found:
            text, value = found[-1][0].summary, found[-1][1]
        elif self.stop == "terminated":
            text = self.why
        return DualActReply(
            text,
            text if value is None and self.schema is None else value,
            [],
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

    def read_values(self, wanted: AnswerSchema, several: bool) -> None:
        """Have the values, which were recorded as JSON, be of the type that is asked for."""

        def typed(value: Any) -> Any:
            try:
                return None if value is None else wanted.read(json.dumps(value))
            except Unreadable:
                return value

        self.values = [
            {id: typed(its) for id, its in each.items()}
            if several and isinstance(each, dict)
            else typed(each)
            for each in self.values
        ]


def replayed(part: RecordedPart) -> DualActReply:
    """The reply that a run ended with."""
    record = ReadRecord(part, Progress)
    progress = record.state or Progress()
    if record.over is not None and not ended(record):
        progress = loaded(Progress, record.over["progress"], f"run {part.run_id!r}")
    progress.run_id = part.run_id
    return progress.reply()
