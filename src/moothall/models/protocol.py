"""The interface of a model: a list of chat messages goes in, an answer comes out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NotRequired,
    Protocol,
    TypeAlias,
    TypedDict,
    runtime_checkable,
)

if TYPE_CHECKING:
    from moothall.action import Action


class ChatMessage(TypedDict):
    """A message of a conversation with a model: a plain dict, as in memories and replies.

    `content` is a text, or blocks of content. A model's answer may have `tool_calls`, each with
    `id`, `name` and `args`; a call's result has the call's id as `tool_call_id`, and its `name`.
    """

    role: str
    content: Any
    name: NotRequired[str]
    tool_calls: NotRequired[list[dict[str, Any]]]
    tool_call_id: NotRequired[str]


@dataclass(frozen=True, slots=True)
class Call:
    """An action that the model wants executed.

    Attributes:
        id: the id that the result refers to; unique within a conversation
        name: the action's name
        args: its arguments, or the provider's raw JSON text, unparsed
    """

    id: str
    name: str
    args: dict[str, Any] | str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the provider counted them; `+` adds two."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def total(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens
        )


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A model's answer. It is unchecked data: its user must check it.

    Attributes:
        text: the answer's text
        calls: the actions that it wants executed, in order
        usage: the tokens that the answer took
        finish_reason: `stop`, `calls`, or, for an answer that was cut, `length` (at a limit) or
            `content_filter` (by the provider)
        reasoning: the model's reasoning, if the provider shows it; not part of the answer
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage = field(default_factory=Usage)
    finish_reason: str = "stop"
    reasoning: str = ""


def usage_json(usage: Usage) -> list[int]:
    """Return the input and output tokens as JSON data."""
    return [usage.input_tokens, usage.output_tokens]


def answer_json(answer: Any) -> dict[str, Any]:
    """Return what is recorded of a model's answer; an invalid one is invalid when read back."""
    usage = getattr(answer, "usage", None)
    calls = getattr(answer, "calls", None)
    if isinstance(calls, tuple | list):
        names = ("id", "name", "args")
        calls = [{name: getattr(call, name, None) for name in names} for call in calls]
    return {
        "type": type(answer).__name__,
        "text": getattr(answer, "text", None),
        "calls": calls,
        "usage": usage_json(usage) if isinstance(usage, Usage) else None,
        "finish_reason": getattr(answer, "finish_reason", None),
        "reasoning": getattr(answer, "reasoning", ""),
    }


def answer_of_json(given: dict[str, Any]) -> ModelReply:
    """Return a model's answer from its JSON data; raise `KeyError` or `TypeError` for others."""
    calls, usage = given["calls"], given["usage"]
    if isinstance(calls, list):
        calls = tuple(Call(**call) for call in calls)
    usage = Usage() if usage is None else Usage(*usage)
    # Old recordings have no reasoning.
    reasoning = given.get("reasoning", "")
    return ModelReply(given["text"], calls, usage, given["finish_reason"], reasoning)


def calls_in(messages: Iterable[Mapping[str, Any]]) -> int:
    """Return how many calls a conversation has."""
    return sum(len(message.get("tool_calls") or ()) for message in messages)


@dataclass(frozen=True, slots=True)
class _Piece:
    kind: ClassVar[str]
    text: str
    agent: str | None = None
    run_id: str | None = field(default=None, repr=False)
    thread: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TextPiece(_Piece):
    """A piece of an answer's text, as soon as it arrives.

    Attributes:
        text: the piece
        agent: the id of the model's agent; the model itself leaves it None
        run_id: the id of the run; the model itself leaves it None
        thread: the id of the conversation; None for the agent's own
    """

    kind: ClassVar[Literal["text"]] = "text"


@dataclass(frozen=True, slots=True)
class ReasoningPiece(_Piece):
    """A piece of a model's reasoning before it answers, with the attributes of a `TextPiece`."""

    kind: ClassVar[Literal["reasoning"]] = "reasoning"


StreamPart: TypeAlias = TextPiece | ReasoningPiece | ModelReply
"""What a model streams: pieces, and finally the whole answer."""


@runtime_checkable
class Model(Protocol):
    """Answers a list of chat messages.

    Attributes:
        name: what people call it
        context_tokens: how much a prompt and its answer may take together; None if unknown
    """

    # Read-only, so that any class attribute is one: `context_tokens = None` is of type None.
    @property
    def name(self) -> str:
        """What people call it."""
        ...

    @property
    def context_tokens(self) -> int | None:
        """How much a prompt and its answer may take together."""
        ...

    async def complete(
        self,
        messages: list[dict[str, Any]],
        /,
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        """Answer a conversation.

        Cancelling it ends what it started: a connection, a generation.

        Args:
            messages: `{"role": "system" | "user" | "assistant" | "tool", "content": …}`, where an
                assistant's may have `tool_calls` (`[{"id", "name", "args"}]`) and a tool's has
                `tool_call_id`; they are not changed
            actions: what the model may call
            schema: the JSON schema that the answer's text should follow

        Raises:
            ModelError: the model cannot answer
        """
        ...


@runtime_checkable
class StreamingModel(Model, Protocol):
    """A model that can also stream its answer in pieces.

    `stream` is optional: without it, the answer of `complete` is used as one piece.
    """

    def stream(
        self,
        messages: list[dict[str, Any]],
        /,
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> AsyncIterator[StreamPart]:
        """Answer a conversation in pieces.

        The pieces, joined, are the text of the whole answer, which comes last and is what
        `complete` would return. Closing or cancelling it earlier ends what it started.

        Raises:
            ModelError: the model cannot answer, or its answer broke off and no whole answer came
        """
        ...
