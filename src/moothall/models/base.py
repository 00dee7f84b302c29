"""What models share: one method returns answers, whole or streamed."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from moothall.foundation import tracing
from moothall.foundation.errors import ConfigError, ModelError
from moothall.foundation.threads import awaited, call_user
from moothall.models.protocol import Model, ModelReply, ReasoningPiece, StreamPart, TextPiece

if TYPE_CHECKING:
    from moothall.actions import Action

_PIECE_TYPES = (TextPiece, ReasoningPiece)
_WORD = re.compile(r"\s*\S+|\s+")


class ModelRequest(NamedTuple):
    """A request to a model, and whether its answer is streamed."""

    messages: list[dict[str, Any]]
    actions: list[Action] | None = None
    schema: dict[str, Any] | None = None
    stream: bool = False

    def stream_from(self, model: Model) -> AsyncGenerator[StreamPart, None]:
        """Ask a model; the caller must close the returned generator."""
        return stream_answer(model, *self[:3], in_one_piece=not self.stream)

    def as_json(self, name: str, **options: Any) -> str:
        """Return its content as JSON text; an error names the model `name`."""
        try:
            return json.dumps(self._content(), **options)
        except (TypeError, ValueError, RecursionError) as error:
            raise ModelError(f"{name}: its input is not JSON: {error}") from error

    def byte_count(self, name: str) -> int:
        """Return how many bytes its content takes as compact JSON text; an error names the model.

        A conversation is counted before each of its calls: this takes a quarter of the time.
        """
        from pydantic_core import to_json

        try:
            return len(to_json(self._content(), inf_nan_mode="constants"))
        except (ValueError, RecursionError):  # half a pair of surrogates, or no JSON
            text = self.as_json(name, ensure_ascii=False, separators=(",", ":"))
            return len(text.encode("utf-8", "surrogatepass"))

    def _content(self) -> list[Any]:
        actions = [[each.name, each.description, each.parameters] for each in self.actions or ()]
        return [self.messages, actions, self.schema]


class AnsweringModel:
    """A model whose `complete` and `stream` use one method, `_answer`, which a subclass defines.

    Attributes:
        name: what people call it
    """

    name: str
    asks_others: ClassVar[bool] = False
    """Whether other models answer for it, whose calls are traced instead."""

    def _answer(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        """Yield the pieces of the answer, if `stream` is set, and finally the whole answer."""
        raise NotImplementedError

    async def _prepare(self, actions: list[Action] | None) -> None:
        """Do what the first call would do once, such as loading weights, for these actions."""

    async def complete(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        """Answer a conversation. Cancelling it ends what it started, such as a connection.

        Raises:
            ContextOverflow: the prompt does not fit
            RemoteForbidden: `MOOTHALL_OFFLINE=1`, and the model is not on this machine
            BudgetExceeded: a budget is too small; `DeadlineExceeded` if its seconds are over
            ModelError: there is no answer, or the answer is not valid
        """
        self._check(messages)
        request = ModelRequest(messages, actions, schema)
        if tracing.active is not None and not self.asks_others:
            return await tracing.in_span(
                partial(self._complete_reply, request), "chat", self, request
            )
        return await self._complete_reply(request)

    async def _complete_reply(self, request: ModelRequest) -> ModelReply:
        """Return the last part of an answer, which is read to its end: then a budget settles."""
        reply: Any = None
        async for part in self._answer(request):
            reply = part
        return reply  # type: ignore[no-any-return]

    async def stream(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> AsyncGenerator[StreamPart, None]:
        """Stream the answer to a conversation in pieces, and finally the whole answer.

        Closing or cancelling it before its end ends what it started. Only the whole answer contains
        calls.

        Raises:
            ModelError: as for `complete`, or the answer broke off
        """
        self._check(messages)
        request = ModelRequest(messages, actions, schema, True)
        answer = self._answer(request)
        if not self.asks_others:
            answer = tracing.stream_in_span(answer, self, lambda: request)
        async with aclosing(answer) as parts:
            async for part in parts:
                yield part

    def _check(self, messages: list[dict[str, Any]]) -> None:
        if not messages:
            raise ModelError(f"{self.name}: there are no messages to answer: pass at least one")


class Closing:
    """A base class for objects that the end of a `with` closes."""

    def close(self) -> None:
        """Close it; further calls do nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_in_process(model: object) -> bool:
    """Return whether a model runs in this process: a small one, asked one thing at a time."""
    return getattr(model, "in_process", False) is True


async def prepare(model: Any, actions: list[Action] | None = None) -> None:
    """Do what the first call of a model would do once, if it is one of moothall's."""
    if isinstance(model, AnsweringModel):
        await model._prepare(actions)


async def answer_of(
    model: Any,
    messages: list[dict[str, Any]],
    *,
    schema: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Return a model's whole answer; a user's own model may return anything."""
    if schema is not None:  # a user's own model may not take that argument
        options["schema"] = schema
    if tracing.active is not None and not _traces(model):
        request = ModelRequest(messages, options.get("actions"), schema)
        ask = partial(call_user, partial(model.complete, messages, **options), in_thread=None)
        return await tracing.in_span(ask, "chat", model, request)
    answer = model.complete(messages, **options)
    if type(answer) is CoroutineType:  # the most frequent case
        answer = await answer
    return answer if type(answer) is ModelReply else await awaited(answer)


def _traces(model: Any) -> bool:
    """Return whether a model traces its calls itself, or those of the models that it asks."""
    return isinstance(model, AnsweringModel) or getattr(model, "asks_others", False) is True


def stream_answer(
    model: Model,
    messages: list[dict[str, Any]],
    actions: list[Action] | None = None,
    schema: dict[str, Any] | None = None,
    *,
    in_one_piece: bool = False,
) -> AsyncGenerator[StreamPart, None]:
    """Stream a model's answer; yield only the whole answer if it cannot stream, or `in_one_piece`.

    The caller must close it (`contextlib.aclosing`): otherwise a connection stays open until the
    garbage collector runs.
    """
    stream: Any = None if in_one_piece else getattr(model, "stream", None)
    if stream is None:
        return _whole_or_split(model, messages, actions, schema, not in_one_piece)
    parts = stream(messages, actions=actions, **({} if schema is None else {"schema": schema}))
    if not hasattr(parts, "aclose"):  # a user's own iterator may have none
        parts = _closable(parts)
    if tracing.active is None or _traces(model):
        return parts  # type: ignore[no-any-return]
    return tracing.stream_in_span(
        parts, model, lambda: ModelRequest(messages, actions, schema, True)
    )


async def _whole_or_split(
    model: Any, messages: Any, actions: Any, schema: Any, may_split: bool
) -> AsyncGenerator[StreamPart, None]:
    """Yield the answer of a model that does not stream, or its text and then the whole."""
    reply: Any = await answer_of(model, messages, actions=actions, schema=schema)
    # A user's own model may return anything; the reader checks it.
    is_split = may_split and isinstance(reply, ModelReply)
    for part in in_pieces(reply, by_word=False) if is_split else (reply,):
        yield part


async def _closable(parts: AsyncIterator[StreamPart]) -> AsyncGenerator[StreamPart, None]:
    async for part in parts:
        yield part


async def stream_to(
    model: Model,
    messages: list[dict[str, Any]],
    tell: Callable[[TextPiece | ReasoningPiece], object],
    *,
    actions: list[Action] | None = None,
    schema: dict[str, Any] | None = None,
) -> Any:
    """Return a model's answer, unchecked, and tell its pieces as they come."""
    reply: Any = None
    async with aclosing(stream_answer(model, messages, actions, schema)) as parts:
        async for part in parts:
            if isinstance(part, _PIECE_TYPES):
                tell(part)
            else:
                reply = part
    return reply


def with_options(model: Any, options: Mapping[str, Any] | None) -> Any:
    """Return a model that sends more fields with each request; a model as it is without any.

    Raises:
        ConfigError: it sends no requests, or sets one of these fields itself
    """
    if not options:
        return model
    make_with_options = getattr(model, "with_options", None)
    if make_with_options is None:
        raise ConfigError(
            f"options= is for a model behind a server; {getattr(model, 'name', model)!r:.200} "
            "takes none"
        )
    return make_with_options(options)


def in_pieces(reply: ModelReply, by_word: bool = True) -> Iterator[StreamPart]:
    """Yield a complete answer as a stream would: pieces of its text, finally the whole."""
    if reply.reasoning:
        yield ReasoningPiece(reply.reasoning)
    for text in _WORD.findall(reply.text) if by_word else filter(None, [reply.text]):
        yield TextPiece(text)
    yield reply
