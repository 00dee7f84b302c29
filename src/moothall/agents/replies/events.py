"""The events of a reply."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

from moothall.actions.provenance import Origins
from moothall.agents.decision import Conclusion, HumanDecision
from moothall.agents.replies.reply import Reply, Utterance
from moothall.foundation.jsonvalue import as_json, json_and_text, json_line, json_text
from moothall.foundation.text import escaped_json
from moothall.models.protocol import ChatMessage, ReasoningPiece, TextPiece


# Not frozen: that takes four times as long to make, and a streamed turn makes four events.
@dataclass(slots=True)
class ReplyEvent:
    """The common part of all events of a reply.

    Each says itself in words, and whom they concern: `line` is for a person who watches the agent,
    `progress` for a caller who waits for it, who gets no results of its calls. Empty: nobody.

    Attributes:
        agent: the id of the event's agent; for a call, the agent whose model chose it
        past: whether it happened in an earlier process; a resumed run emits those events first
        run_id: the id of the run
        thread: the id of the conversation; None for the agent's own
    """

    kind: ClassVar[str]
    reader_first: ClassVar[bool] = False
    """Whether the agent goes on only once the reader has seen it."""
    agent: str
    past: bool = field(default=False, kw_only=True)
    run_id: str | None = field(default=None, kw_only=True)
    thread: str | None = field(default=None, kw_only=True)

    @property
    def line(self) -> str:
        """Return what a person who watches reads, in one line."""
        return ""

    @property
    def progress(self) -> str:
        """Return what a waiting caller reads, in one line."""
        return ""


@dataclass(slots=True)
class CallStarted(ReplyEvent):
    """The model called an action; if it needs approval, the approver is asked after this event.

    Attributes:
        iteration: which answer of the model chose it, from 1
        call_id: the call's id, unique within the reply
        action: the action's name
        args: its arguments
        origins: where their values come from, by parameter; empty as long as the thread had read
            nothing from outside
    """

    kind: ClassVar[Literal["call_started"]] = "call_started"
    reader_first: ClassVar[bool] = True
    iteration: int
    call_id: str
    action: str
    args: dict[str, Any]
    origins: Origins = field(default_factory=dict)

    @property
    def line(self) -> str:
        """Return what a person who watches reads, in one line."""
        return f"→ {self.action} {escaped_json(self.args)}"

    @property
    def progress(self) -> str:
        """Return what a waiting caller reads, in one line."""
        return f"{self.agent}: {self.action} {json_line(self.args)}"


@dataclass(slots=True)
class CallProgress(ReplyEvent):
    """An action that was called has said how far it is, by `Context.progress`: its `text`."""

    kind: ClassVar[Literal["call_progress"]] = "call_progress"
    iteration: int
    call_id: str
    action: str
    text: str

    @property
    def line(self) -> str:
        """Return what a person who watches reads, in one line."""
        return f"· {self.action}: {self.text}"

    @property
    def progress(self) -> str:
        """Return what a waiting caller reads, in one line."""
        return f"{self.agent}: {self.action}: {self.text}"


@dataclass(slots=True)
class CallEnded(ReplyEvent):
    """An action that was called has ended.

    Attributes:
        iteration: which answer of the model chose it, from 1
        call_id: the call's id
        action: the action's name
        result: the environment's result
        error: what went wrong, or None
    """

    kind: ClassVar[Literal["call_ended"]] = "call_ended"
    iteration: int
    call_id: str
    action: str
    result: dict[str, Any]
    error: str | None

    @property
    def line(self) -> str:
        """Return what a person who watches reads, in one line."""
        result = self.error or json_and_text(self.result.get("result"))[1]
        return f"{'✗' if self.error else '←'} {self.action}: {result}"

    @property
    def progress(self) -> str:
        """Return what a waiting caller reads, in one line."""
        return f"{self.agent}: {self.action} has {'failed' if self.error else 'ended'}"


@dataclass(slots=True)
class ResultsCleared(ReplyEvent):
    """Old results are one line each from now on: those of these `numbers`, for `read_result`."""

    kind: ClassVar[Literal["results_cleared"]] = "results_cleared"
    numbers: list[int]


@dataclass(slots=True)
class MessageAdded(ReplyEvent):
    """A chat message was added to an agent's memory."""

    kind: ClassVar[Literal["message"]] = "message"
    message: ChatMessage


@dataclass(slots=True)
class MessagesLeftOut(ReplyEvent):
    """The model no longer reads `count` earlier messages of this reply: they do not fit."""

    kind: ClassVar[Literal["messages_left_out"]] = "messages_left_out"
    count: int


@dataclass(slots=True)
class DecisionMade(ReplyEvent):
    """The reviewer, H, of a dual act has decided.

    Attributes:
        loop: which decision it is, from 1
        decision: H's decision
    """

    kind: ClassVar[Literal["decision"]] = "decision"
    loop: int
    decision: HumanDecision

    @property
    def line(self) -> str:
        """Return what a person who watches reads, in one line."""
        words = self.decision.new_instruction or self.decision.reasoning
        return f"{self.agent} decides: {self.decision.action.value} {json_text(words)}"


@dataclass(slots=True)
class ConclusionReached(ReplyEvent):
    """The worker, R, of a dual act has reached a conclusion.

    Attributes:
        loop: which run of R it is, from 1
        conclusion: R's conclusion; those of several R merged
    """

    kind: ClassVar[Literal["conclusion"]] = "conclusion"
    loop: int
    conclusion: Conclusion


@dataclass(slots=True)
class BlockStarted(ReplyEvent):
    """A block of an agent has begun its part of a step, such as Plan of a researcher.

    Attributes:
        block: the name of the block
        iteration: which step of the agent it is, from 1
    """

    kind: ClassVar[Literal["block_started"]] = "block_started"
    block: str
    iteration: int

    @property
    def line(self) -> str:
        """Return what a person who watches reads, in one line."""
        return f"{self.block} ({self.iteration})"


@dataclass(slots=True)
class BlockEnded(ReplyEvent):
    """A block of an agent has ended its part of a step.

    Attributes:
        block: the name of the block
        iteration: which step of the agent it is, from 1
        result: its result, as JSON data: for Plan the tasks, for Evaluate the remark, …
    """

    kind: ClassVar[Literal["block_ended"]] = "block_ended"
    block: str
    iteration: int
    result: dict[str, Any]


@dataclass(slots=True)
class BudgetLow(ReplyEvent):
    """A share, from 0 to 1, of a budget's limit, such as `tokens`, is spent; so much is left."""

    kind: ClassVar[Literal["budget_low"]] = "budget_low"
    limit: str
    share: float
    left: float


@dataclass(slots=True)
class TurnStarted(ReplyEvent):
    """A participant begins to speak: the next events belong to its turn.

    Attributes:
        speaker: the id of the participant
        turn: which turn of the reply it is, from 1
    """

    kind: ClassVar[Literal["turn_started"]] = "turn_started"
    speaker: str
    turn: int

    @property
    def line(self) -> str:
        """Return what a person who watches reads, in one line."""
        return f"{self.speaker}:"


@dataclass(slots=True)
class TurnEnded(ReplyEvent):
    """A participant has spoken, or failed to.

    Attributes:
        speaker: the id of the participant
        turn: which turn of the reply it was, from 1
        utterance: its entry in the transcript
    """

    kind: ClassVar[Literal["turn_ended"]] = "turn_ended"
    speaker: str
    turn: int
    utterance: Utterance


@dataclass(slots=True)
class Emitted(ReplyEvent):
    """A durable function has told of a `value`, JSON data, by `durable.emit`."""

    kind: ClassVar[Literal["emitted"]] = "emitted"
    value: Any

    @property
    def line(self) -> str:
        """Return what a person who watches reads, in one line."""
        return f"· {json_text(as_json(self.value))}"

    @property
    def progress(self) -> str:
        """Return what a waiting caller reads, in one line."""
        return f"{self.agent}: {json_text(as_json(self.value))}"


def _no_reply() -> Any:
    raise TypeError(
        "Done is the last event of a stream, made of the agent's id and its reply; for a decision "
        "about a call in doubt, import Done from moothall.journal"
    )


@dataclass(slots=True)
class Done(ReplyEvent):
    """The last event: the reply has ended. A decision's `Done` is `moothall.journal.Done`."""

    kind: ClassVar[Literal["done"]] = "done"
    reply: Reply = field(default_factory=_no_reply)


Event: TypeAlias = (
    TextPiece
    | ReasoningPiece
    | CallStarted
    | CallProgress
    | CallEnded
    | ResultsCleared
    | MessageAdded
    | MessagesLeftOut
    | DecisionMade
    | ConclusionReached
    | BlockStarted
    | BlockEnded
    | BudgetLow
    | TurnStarted
    | TurnEnded
    | Emitted
    | Done
)
"""The events of `stream`, for every agent. `kind` names the type in one word, for programs in
other languages; docs/replies.md has a table."""
EVENT_KINDS: Final[dict[str, Any]] = {each.kind: each for each in get_args(Event)}
"""Their classes by kind."""
