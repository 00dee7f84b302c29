"""The interface of a model: a list of chat messages goes in, an answer comes out."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from operator import add, attrgetter, sub
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    Protocol,
    TypeAlias,
    TypedDict,
    runtime_checkable,
)

from moothall.foundation.jsonvalue import as_json, json_text
from moothall.foundation.text import escaped_json

if TYPE_CHECKING:
    from moothall.actions import Action


class ChatMessage(TypedDict):
    """A message of a conversation with a model: a plain dict, as in memories and replies.

    `content` is a text, or blocks of content. A model's answer may have `tool_calls`, each with
    `id`, `name` and `args`; a call's result has the call's id as `tool_call_id`, and its `name`.
    An answer of some providers has `thinking`, which goes back to the server that gave it alone.
    """

    role: str
    content: Any
    name: NotRequired[str]
    tool_calls: NotRequired[list[dict[str, Any]]]
    thinking: NotRequired[list[dict[str, Any]]]
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

    @property
    def line(self) -> str:
        """The call in words, such as `pay(coins=3)`."""
        return call_line(self.name, self.args)


def call_line(name: str, args: Any) -> str:
    """Return a call of an action in words, such as `pay(coins=3)`."""
    if isinstance(args, str):  # as the model wrote them
        with suppress(ValueError, RecursionError):
            args = json.loads(args)
    if not isinstance(args, dict):
        return f"{name}({'' if args is None else escaped_json(args)})"
    return f"{name}({', '.join(f'{k}={escaped_json(v)}' for k, v in args.items())})"


_ALWAYS_SHOWN = ("input_tokens", "output_tokens")


class TokenPart(NamedTuple):
    """How a part of the tokens is named outside this package."""

    details: Literal["input", "output"]  # whose details they are of in OpenAI's interface
    openai_name: str
    span_attribute: str
    in_chat: bool  # in chat completions too, not only in responses


def _part(details: Literal["input", "output"], name: str, span: str, in_chat: bool = True) -> Any:
    return field(default=0, metadata={"part": TokenPart(details, name, span, in_chat)})


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the provider counted them; `+` adds two, `-` subtracts.

    Attributes:
        input_tokens: those of the prompts, cached ones included
        output_tokens: those of the answers, reasoning included
        cache_read_tokens: input tokens that the provider had in its cache, which cost less
        cache_write_tokens: input tokens that it stored there, for which some providers ask more
        reasoning_tokens: output tokens of reasoning
        parts: those that are parts of the input or output tokens, with their names elsewhere
    """

    parts: ClassVar[Mapping[str, TokenPart]]

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = _part("input", "cached_tokens", "gen_ai.usage.cache_read.input_tokens")
    cache_write_tokens: int = _part(
        "input", "cache_write_tokens", "gen_ai.usage.cache_creation.input_tokens", in_chat=False
    )
    reasoning_tokens: int = _part(
        "output", "reasoning_tokens", "gen_ai.usage.reasoning.output_tokens"
    )

    @staticmethod
    def in_answer(answer: Any) -> Usage:
        """Return the tokens that an answer states; what is no number of tokens counts as none."""
        usage = getattr(answer, "usage", None)
        if usage is NO_USAGE or not isinstance(usage, Usage):
            return NO_USAGE
        counts = _counts(usage)
        if _INTS.issuperset(map(type, counts)) and min(counts) >= 0:
            return usage
        return Usage(*(each if type(each) is int and each >= 0 else 0 for each in counts))

    def to_json(self) -> list[int]:
        """Return it as JSON data: input and output, then the others where there are any."""
        counts = _counts(self)
        return [*(counts if any(counts[2:]) else counts[:2])]

    def __repr__(self) -> str:
        counts = dict(zip(self.__slots__, _counts(self), strict=True))
        parts = {name: count for name, count in counts.items() if count or name in _ALWAYS_SHOWN}
        return f"Usage({', '.join(f'{name}={count}' for name, count in parts.items())})"

    @property
    def total(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, _counts(self), _counts(other)))

    def __sub__(self, other: Usage) -> Usage:
        return Usage(*map(sub, _counts(self), _counts(other)))


Usage.parts = {each.name: each.metadata["part"] for each in fields(Usage) if each.metadata}
_counts = attrgetter(*Usage.__slots__)
_INTS: Final = frozenset((int,))
_LISTS: Final = (tuple, list)

NO_USAGE: Final = Usage()
"""What a model that was not asked has taken."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A model's answer. It is unchecked data: its user must check it.

    Attributes:
        text: the answer's text
        calls: the actions that it wants executed, in order
        usage: the tokens that the answer took
        finish_reason: `stop`, `calls`, `refusal` (the text says that the model declines), or, for
            an answer that was cut, `length` (at a limit), `content_filter` (by the provider) or
            `unreadable` (before a call that the server could not read)
        reasoning: the model's reasoning, if the provider shows it; not part of the answer
        meta: what came with the answer, as the provider states it: `id`, `model`, `provider`,
            `citations`, `logprobs`, `executed_tools`, `commentary` (the text's beginning, before
            the answer); two answers that differ in it alone are equal
        blocks: the images and audio of the answer, as blocks of content that a message can have
        thinking: what the provider wants back with the answer, such as signatures and reasoning;
            its user keeps it with the message, and it goes to the server that it names alone
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage = NO_USAGE
    finish_reason: str = "stop"
    reasoning: str = ""
    thinking: tuple[dict[str, Any], ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict, compare=False)
    blocks: tuple[dict[str, Any], ...] = ()

    @staticmethod
    def can_read(answer: Any) -> bool:
        """Return whether what a model gave can be read as its answer."""
        text, calls = getattr(answer, "text", None), getattr(answer, "calls", None)
        return isinstance(calls, _LISTS) and (text is None or isinstance(text, str))

    @staticmethod
    def json_of(answer: Any) -> dict[str, Any]:
        """Return what is recorded of a model's answer; a wrong one is as wrong when read back."""
        is_usable, thinking = ModelReply.can_read(answer), thinking_of(answer)
        finish_reason, meta = getattr(answer, "finish_reason", None), getattr(answer, "meta", None)
        reasoning, blocks = getattr(answer, "reasoning", ""), blocks_of(answer)
        return {
            "type": answer.class_name if isinstance(answer, NoAnswer) else type(answer).__name__,
            "text": (is_usable and answer.text) or "",
            "calls": [_call_json(each) for each in answer.calls] if is_usable else [],
            "usage": Usage.in_answer(answer).to_json(),
            "finish_reason": finish_reason if isinstance(finish_reason, str) else None,
            "reasoning": reasoning if isinstance(reasoning, str) else "",
            **({"thinking": thinking} if thinking else {}),
            **({"blocks": blocks} if blocks else {}),
            **({"meta": dict(meta)} if isinstance(meta, Mapping) and meta else {}),
            **({} if is_usable else {"unusable": True}),
        }

    @staticmethod
    def of_json(fields: dict[str, Any]) -> Any:
        """Return what `json_of` was given; raise `KeyError` or `TypeError` for other data."""
        if fields.get("unusable"):
            return NoAnswer(str(fields["type"]))
        calls, usage = fields["calls"], fields["usage"]
        if isinstance(calls, list):
            calls = tuple(Call(**call) for call in calls)
        usage = Usage() if usage is None else Usage(*usage)
        # Old recordings have no reasoning, and most answers no blocks of it.
        reasoning, thinking = fields.get("reasoning", ""), tuple(fields.get("thinking", ()))
        values = (fields["text"], calls, usage, fields["finish_reason"], reasoning, thinking)
        return ModelReply(*values, fields.get("meta") or {}, tuple(fields.get("blocks", ())))


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """What a model gave that is no answer, as its record says it.

    Attributes:
        class_name: the name of its class
    """

    class_name: str


def thinking_of(answer: Any) -> list[dict[str, Any]]:
    """Return what goes back to the provider of an answer."""
    thinking = getattr(answer, "thinking", ())
    return _dicts(thinking) if thinking else []


def blocks_of(answer: Any) -> list[dict[str, Any]]:
    """Return the images and audio of an answer; what is no list of blocks counts as none."""
    blocks = getattr(answer, "blocks", ())
    return _dicts(blocks) if blocks else []


def _dicts(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, tuple | list):
        return []
    return [each for each in value if isinstance(each, dict)]


def _call_json(call: Any) -> dict[str, Any]:
    id, name, args = (getattr(call, each, None) for each in ("id", "name", "args"))
    return {
        "id": id if isinstance(id, str) else "",
        "name": name if isinstance(name, str) else "",
        # As JSON text, other data is refused as it was: arguments are an object.
        "args": args if isinstance(args, dict | str) else json_text(as_json(args)),
    }


def thinking_for(message: Mapping[str, Any], server: str, form: str) -> Any:
    """Return what a message has to go back to a server in this form; None if there is nothing."""
    thinking = message.get("thinking")
    for each in thinking if isinstance(thinking, list | tuple) else ():
        if isinstance(each, Mapping) and each.get("server") == server and form in each:
            return each[form]
    return None


def calls_in(messages: Iterable[Mapping[str, Any]]) -> int:
    """Return how many calls a conversation has."""
    return sum(len(message.get("tool_calls") or ()) for message in messages)


@dataclass(frozen=True, slots=True)
class _Piece:
    kind: ClassVar[str]
    line: ClassVar[str] = ""  # as of any event of a reply: a piece is no line of its own
    progress: ClassVar[str] = ""
    reader_first: ClassVar[bool] = False
    text: str
    agent: str = ""
    run_id: str | None = field(default=None, repr=False)
    thread: str | None = field(default=None, repr=False)
    decides: bool = field(default=False, repr=False)


@dataclass(frozen=True, slots=True)
class TextPiece(_Piece):
    """A piece of an answer's text, as soon as it arrives.

    Attributes:
        text: the piece
        agent: the id of the model's agent; the model itself leaves it empty
        run_id: the id of the run; the model itself leaves it None
        thread: the id of the conversation; None for the agent's own
        decides: whether the reviewer, H, of a dual act says it: it belongs to a decision, which no
            user takes for an answer
    """

    kind: ClassVar[Literal["text"]] = "text"
    _value: Callable[[], Any] | None = field(default=None, repr=False, compare=False)

    @property
    def partial(self) -> Any:
        """The value of the answer so far, as JSON data, in a reply by a schema; None without one.

        A text grows, while one of several values, a date and a number appear once they are whole.
        A field that has not begun is missing. If the answer is refused, the next begins anew.
        """
        return None if self._value is None else self._value()


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
