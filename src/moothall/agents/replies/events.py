"""The events of a reply, and what they tell of: conclusions and decisions, with their words."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

from moothall.actions.provenance import Origins
from moothall.agents.replies.reply import Reply, Utterance
from moothall.foundation.errors import ConfigError
from moothall.foundation.jsonvalue import NotJSON, deep_json, readable, to_json
from moothall.foundation.text import cut
from moothall.models.protocol import ChatMessage, ReasoningPiece, TextPiece


class DecisionAction(enum.Enum):
    """The kinds of decision."""

    CONTINUE = "CONTINUE"
    """R goes on, with a new instruction."""
    TERMINATE = "TERMINATE"
    """The conclusion is accepted, and the work is done."""
    REDIRECT = "REDIRECT"
    """R changes its approach."""


class _Means(NamedTuple):
    choice: str  # the word by which a person states it; its first letter is enough
    instructs: bool  # whether R gets an instruction with it
    for_model: str  # its sentence in the prompt of H's model
    asked: str  # what a person is told of it in a terminal
    effect: str  # and on a page, after its word
    said: str  # that a person has decided so
    shown: str  # that H has decided so, for observers


DECISIONS: Final[dict[DecisionAction, _Means]] = {
    DecisionAction.TERMINATE: _Means(
        "accept",
        instructs=False,
        for_model="the task is done; leave new_instruction empty.",
        asked="accept: the work is done",
        effect="ends the run with this conclusion",
        said="accepted",
        shown="the review accepts",
    ),
    DecisionAction.CONTINUE: _Means(
        "continue",
        instructs=True,
        for_model="R continues with your new_instruction.",
        asked="send it back with a remark",
        effect="works on from it",
        said="continued",
        shown="the review asks for more",
    ),
    DecisionAction.REDIRECT: _Means(
        "redirect",
        instructs=True,
        for_model="R changes its approach and follows your new_instruction.",
        asked="have it done in another way, with a remark",
        effect="takes another way",
        said="redirected",
        shown="the review asks for another way",
    ),
}
"""To add one, say here what it is, and in `DualActState.decided` what it does."""


@dataclass(frozen=True, slots=True)
class HumanDecision:
    """H's decision about a conclusion.

    Attributes:
        action: the kind of decision
        new_instruction: what R must do next; with several R, it may be a list with one for each
        reasoning: the reason
    """

    action: DecisionAction
    new_instruction: str | list[str] = ""
    reasoning: str = ""

    def __post_init__(self) -> None:
        _check("decision", self, _OF_DECISION)

    def to_json(self) -> dict[str, Any]:
        """Return the object by which a model states this decision."""
        return deep_json(self)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Conclusion:
    """R's result for one instruction.

    Attributes:
        summary: what was accomplished; if R answers in plain text, that text
        steps: what R says that it did
        suggested_next_action: what R would do next; empty for nothing
        confidence: how sure R is, from 0 to 1; None if it did not say
        artifacts: what R made, by name, as JSON data
        evidence: R's real calls and their results, so that H need not trust the summary
        error: why R did not finish by itself, or None
    """

    summary: str = ""
    steps: list[str] = field(default_factory=list)
    suggested_next_action: str = ""
    confidence: float | None = None
    artifacts: dict[str, Any] = field(default_factory=dict)
    evidence: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None

    def __post_init__(self) -> None:
        _check("conclusion", self, PARTS_OF_CONCLUSION)
        object.__setattr__(self, "artifacts", _json_artifacts(self.artifacts))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return deep_json(self)  # type: ignore[no-any-return]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_share(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and 0 <= value <= 1)


_Parts: TypeAlias = Mapping[str, tuple[str, Callable[[Any], bool]]]

_OF_DECISION: Final[_Parts] = {
    "action": ("a DecisionAction", lambda value: isinstance(value, DecisionAction)),
    "new_instruction": (
        "a text, or a list of texts",
        lambda value: _is_text(value) or _are_texts(value),
    ),
    "reasoning": ("a text", _is_text),
}
PARTS_OF_CONCLUSION: Final[_Parts] = {
    "summary": ("a text", _is_text),
    "steps": ("a list of texts", _are_texts),
    "suggested_next_action": ("a text", _is_text),
    "confidence": ("a number from 0 to 1", _is_share),
    "artifacts": ("an object", lambda value: isinstance(value, dict)),
}


def _check(what: str, made: Any, parts: _Parts) -> None:
    for name, (wanted, fits) in parts.items():
        if not fits(value := getattr(made, name)):
            raise ConfigError(f"a {what}'s {name} must be {wanted}, got {cut(repr(value), 80)}")


def _json_artifacts(artifacts: Mapping[Any, Any]) -> dict[str, Any]:
    """Return artifacts as JSON data; a value that is not JSON becomes a text that says so."""
    made: dict[str, Any] = {}
    for name, value in artifacts.items():
        try:
            made[readable(str(name))] = to_json(value)
        except (NotJSON, RecursionError) as error:
            made[readable(str(name))] = f"(a {type(value).__name__} that is not JSON: {error})"
    return made


# Not frozen: that takes four times as long to make, and a streamed turn makes four events.
@dataclass(slots=True)
class ReplyEvent:
    """The common part of all events of a reply.

    Attributes:
        agent: the id of the event's agent; for a call, the agent whose model chose it
        past: whether it happened in an earlier process; a resumed run emits those events first
        run_id: the id of the run
        thread: the id of the conversation; None for the agent's own
    """

    kind: ClassVar[str]
    agent: str
    past: bool = field(default=False, kw_only=True)
    run_id: str | None = field(default=None, kw_only=True)
    thread: str | None = field(default=None, kw_only=True)


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
    iteration: int
    call_id: str
    action: str
    args: dict[str, Any]
    origins: Origins = field(default_factory=dict)


@dataclass(slots=True)
class CallProgress(ReplyEvent):
    """An action that was called has said how far it is, by `Context.progress`: its `text`."""

    kind: ClassVar[Literal["call_progress"]] = "call_progress"
    iteration: int
    call_id: str
    action: str
    text: str


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
    | Done
)
"""The events of `stream`, for every agent. `kind` names the type in one word, for programs in
other languages; docs/replies.md has a table."""
