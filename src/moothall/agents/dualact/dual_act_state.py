"""The state of a dual act, as it is saved and recorded, and its reply."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from moothall.agents.decision import Conclusion, DecisionAction, HumanDecision
from moothall.agents.dualact.conclusions import merge_conclusions
from moothall.agents.replies.read_record import ReadRecord
from moothall.agents.replies.reply import Reply, Step, Stop
from moothall.agents.replies.state import APPENDED, UNSAVED, load_state
from moothall.foundation.jsonvalue import UnreadableText
from moothall.foundation.text import counted
from moothall.journal.stop_reason import StopReason
from moothall.models.protocol import Usage

if TYPE_CHECKING:
    from moothall.agents.replies.reply_request import AnswerSchema
    from moothall.journal import Entry


DualActReply = Reply
"""The reply of a dual act: a `Reply`, whose decisions and conclusions say what H and R did."""


@dataclass(slots=True)
class ReactiveRun:
    """The outcome of one R: `stop` is why the dual act ends with it, `value` is by the schema."""

    conclusion: Conclusion = field(default_factory=Conclusion)
    stop: Stop | None = None
    value: Any = None
    steps: list[Step] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)


@dataclass(slots=True)
class DualActState:
    """The state of a dual act, from which another process can resume it."""

    task: str | list[dict[str, Any]] = ""
    thread: str | None = None
    run_id: str = ""
    turn: Literal["human", "reactive", "over"] = "human"
    instruction: list[str] = field(default_factory=list)  # what each R does next
    redirected: bool = False  # whether the instruction changes the approach
    why: str = ""  # H's reasoning
    r_runs: int = 0
    decisions: list[HumanDecision] = field(default_factory=list, metadata=APPENDED)
    conclusions: list[Conclusion] = field(default_factory=list, metadata=APPENDED)
    steps: list[Step] = field(default_factory=list, metadata=APPENDED)
    # The requested value of each conclusion, or None.
    values: list[Any] = field(default_factory=list, metadata=APPENDED)
    schema: dict[str, Any] | bool | None = None  # True for a type, which is not saved
    requested_type: Any = field(default=None, metadata=UNSAVED)  # the schema or type as requested
    human_usage: Usage = field(default_factory=Usage)
    reactive_usage: Usage = field(default_factory=Usage)
    stop: StopReason | None = None
    detail: str = ""
    outside: list[str] = field(default_factory=list)  # what its members had read from outside
    told: list[str] = field(default_factory=list)  # the user's messages that H has not heard yet
    known_to_r: int = 0  # how many of these R has heard

    def __post_init__(self) -> None:
        if len(self.values) != len(self.conclusions):
            counts = f"{len(self.values)} for {len(self.conclusions)}"
            raise ValueError(f"there must be a value for each conclusion, got {counts}")

    def tell(self, text: str, by_r: bool) -> None:
        """Add a message of the user, for H to hear, and for R, unless R has heard it: `by_r`."""
        self.told.append(text)
        if by_r:
            self.known_to_r = len(self.told)

    def take_unheard(self, repeated_messages: list[Any], *, for_r: bool) -> list[str]:
        """Return what R, or H, has not heard yet; then add what a repeated turn had heard."""
        if for_r:
            messages, self.known_to_r = self.told[self.known_to_r :], len(self.told)
        else:
            messages, self.known_to_r = [*self.told], 0
            self.told.clear()
        while repeated_messages:
            self.tell(repeated_messages[0]["content"], repeated_messages.pop(0)["by_r"])
        return messages

    def set_schema(self, schema: Any) -> None:
        """Set the schema or type of the answer."""
        self.requested_type = schema
        self.schema = schema if schema is None or isinstance(schema, dict) else True

    @property
    def conclusion(self) -> Conclusion | None:
        """Return the last conclusion, or None."""
        return self.conclusions[-1] if self.conclusions else None

    @property
    def is_over(self) -> bool:
        """Return whether the dual act is over."""
        return self.turn == "over"

    def note_decision(self, decision: HumanDecision, max_runs: int, agent_count: int) -> None:
        """Note a decision, and set whose turn is next."""
        self.decisions.append(decision)
        self.why = decision.reasoning
        if decision.action is DecisionAction.TERMINATE:
            self.finish("terminated")
        elif self.r_runs >= max_runs:
            self.finish("max_loops", f"H did not accept after {counted(self.r_runs, 'run')} of R")
        else:
            self.turn = "reactive"
            self.stop, self.detail = None, ""
            instruction = decision.new_instruction
            self.instruction = (
                list(instruction) if isinstance(instruction, list) else [instruction] * agent_count
            )
            self.redirected = decision.action is DecisionAction.REDIRECT

    def note_conclusions(self, runs: Mapping[str, ReactiveRun]) -> None:
        """Note the outcome of each R, by its id; H's turn is next."""
        values = {id: run.value for id, run in runs.items() if run.value is not None} or None
        self.r_runs += 1
        self.conclusions.append(merge_conclusions({id: run.conclusion for id, run in runs.items()}))
        self.values.append(values if values is None or len(runs) > 1 else values.popitem()[1])
        self.turn, self.instruction = "human", []
        for run in runs.values():
            self.steps.extend(run.steps)
            self.reactive_usage = self.reactive_usage + run.usage

    def finish(self, stop: StopReason, detail: str = "") -> None:
        """Note that it is over, with the reason."""
        self.turn, self.stop, self.detail = "over", stop, detail

    def reply(self, error: BaseException | None = None) -> Reply:
        """Return the reply as it stands."""
        text, value = "", None
        results = list(zip(self.conclusions, self.values, strict=True))
        if self.stop != "terminated":
            # If R's last run was cut off without a summary, take the last one that has a summary.
            results = [(conclusion, result) for conclusion, result in results if conclusion.summary]
        if results:
            text, value = results[-1][0].summary, results[-1][1]
        elif self.stop == "terminated":
            text = self.why
        return Reply(
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
            outside=(*self.outside,),
        )

    def parse_values(self, answer_schema: AnswerSchema, has_several: bool) -> None:
        """Convert the values from JSON to the requested type."""

        def convert(value: Any, summary: str = "") -> Any:
            # R's own text first: the JSON of a model with computed fields may not fit its schema.
            texts = (summary, json.dumps(value)) if value != summary else (json.dumps(value),)
            for text in texts if value is not None else ():
                with suppress(UnreadableText):
                    return answer_schema.parse(text)
            return value

        self.values = [
            {id: convert(values) for id, values in each.items()}
            if has_several and isinstance(each, dict)
            else convert(each, conclusion.summary)
            for each, conclusion in zip(self.values, self.conclusions, strict=True)
        ]


def replayed_reply(run_id: str, entries: Iterable[Entry]) -> Reply:
    """Return the reply that a run ended with."""
    record = ReadRecord.read(run_id, entries, DualActState)
    progress = record.state or DualActState()
    if record.over is not None and "progress" in record.over:
        progress = load_state(DualActState, record.over["progress"], f"run {run_id!r}")
    elif record.over is not None and not record.is_over:  # it was cancelled after it was cut off
        progress.stop, progress.detail = record.over["reason"], record.over["detail"]
    progress.run_id = run_id
    return progress.reply()
