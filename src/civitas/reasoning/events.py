"""What happens while an agent replies, as it happens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from civitas.models.protocol import ReasoningPiece, TextPiece
from civitas.reasoning.conversation.state import TurnEnded, TurnStarted
from civitas.reasoning.dualact.conclusions import Conclusion, HumanDecision
from civitas.reasoning.reply import Reply


@dataclass(frozen=True, slots=True)
class CallStarted:
    """An action was called that the model chose; whoever has to permit it is asked after this.

    Attributes:
        agent: the id of the agent whose model chose it
        iteration: which answer of the model chose it, from 1
        call_id: the call's id, unique within the reply
        action: the action's name
        args: its arguments
        past: whether it happened in a process before, which a run that goes on tells first
        run_id: the id of the run
        thread: the id of the conversation; None for the agent's own
    """

    kind: ClassVar[str] = "call_started"
    agent: str
    iteration: int
    call_id: str
    action: str
    args: dict[str, Any]
    past: bool = False
    run_id: str | None = None
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class CallEnded:
    """An action that was called has ended.

    Attributes:
        agent: the id of the agent whose model chose it
        iteration: which answer of the model chose it, from 1
        call_id: the call's id
        action: the action's name
        result: what the environment made of it
        error: what went wrong, or None
        past: whether it happened in a process before, which a run that goes on tells first
        run_id: the id of the run
        thread: the id of the conversation; None for the agent's own
    """

    kind: ClassVar[str] = "call_ended"
    agent: str
    iteration: int
    call_id: str
    action: str
    result: dict[str, Any]
    error: str | None
    past: bool = False
    run_id: str | None = None
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class MessageAdded:
    """A chat message was added to an agent's memory.

    Attributes:
        agent: the id of the agent
        message: the chat message
        past: whether it happened in a process before, which a run that goes on tells first
        run_id: the id of the run
        thread: the id of the conversation; None for the agent's own
    """

    kind: ClassVar[str] = "message"
    agent: str
    message: dict[str, Any]
    past: bool = False
    run_id: str | None = None
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class DecisionMade:
    """H of a dual act has decided.

    Attributes:
        agent: the id of the dual act
        loop: which decision it is, from 1
        decision: what H decided
        past: whether it happened in a process before, which a run that goes on tells first
        run_id: the id of the run
        thread: the id of the conversation; None for the agent's own
    """

    kind: ClassVar[str] = "decision"
    agent: str
    loop: int
    decision: HumanDecision
    past: bool = False
    run_id: str | None = None
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class ConclusionReached:
    """R of a dual act has come to a conclusion.

    Attributes:
        agent: the id of the dual act
        loop: which run of R it is, from 1
        conclusion: what R came to; of several R, as one
        past: whether it happened in a process before, which a run that goes on tells first
        run_id: the id of the run
        thread: the id of the conversation; None for the agent's own
    """

    kind: ClassVar[str] = "conclusion"
    agent: str
    loop: int
    conclusion: Conclusion
    past: bool = False
    run_id: str | None = None
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class BlockStarted:
    """A block of an agent has begun its part of a step, such as Plan of a researcher.

    Attributes:
        agent: the id of the agent
        block: the name of the block
        iteration: which step of the agent it is, from 1
        past: whether it happened in a process before, which a run that goes on tells first
        run_id: the id of the run
        thread: the id of the conversation; None for the agent's own
    """

    kind: ClassVar[str] = "block_started"
    agent: str
    block: str
    iteration: int
    past: bool = False
    run_id: str | None = None
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class BlockEnded:
    """A block of an agent has ended its part of a step.

    Attributes:
        agent: the id of the agent
        block: the name of the block
        iteration: which step of the agent it is, from 1
        result: what came of it, as JSON data: of Plan the tasks, of Evaluate the remark, …
        past: whether it happened in a process before, which a run that goes on tells first
        run_id: the id of the run
        thread: the id of the conversation; None for the agent's own
    """

    kind: ClassVar[str] = "block_ended"
    agent: str
    block: str
    iteration: int
    result: dict[str, Any]
    past: bool = False
    run_id: str | None = None
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The reply is there; the last event.

    Attributes:
        agent: the id of the agent
        reply: the reply
        run_id: the id of the run
        thread: the id of the conversation; None for the agent's own
    """

    kind: ClassVar[str] = "done"
    agent: str
    reply: Reply
    run_id: str | None = None
    thread: str | None = None


Event: TypeAlias = (
    TextPiece
    | ReasoningPiece
    | CallStarted
    | CallEnded
    | MessageAdded
    | DecisionMade
    | ConclusionReached
    | BlockStarted
    | BlockEnded
    | TurnStarted
    | TurnEnded
    | Done
)
"""What `stream` gives, of every agent. `kind` names the type in one word, for programs in other
languages; docs/replies.md has them in a table."""
