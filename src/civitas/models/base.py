"""What models share: answers whole and in pieces from one method."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from civitas.errors import ModelError
from civitas.models.protocol import Model, ModelReply, ReasoningPiece, StreamPart, TextPiece

if TYPE_CHECKING:
    from civitas.action import Action

_WORD = re.compile(r"\s*\S+|\s+")
_NOTHING: Any = object()


class Request(NamedTuple):
    """What a model is asked, and whether the answer is to come in pieces."""

    messages: list[dict[str, Any]]
    actions: list[Action] | None = None
    schema: dict[str, Any] | None = None
    stream: bool = False

    def asked_of(self, model: Model) -> AsyncGenerator[StreamPart, None]:
        """What a model answers; whoever reads it closes it."""
        return streamed(model, *self[:3], whole=not self.stream)

    def as_json(self, name: str, **how: Any) -> str:
        """Its content as JSON text; an error names whom it was given to."""
        offered = [[each.name, each.description, each.parameters] for each in self.actions or ()]
        try:
            return json.dumps([self.messages, offered, self.schema], **how)
        except (TypeError, ValueError, RecursionError) as error:
            raise ModelError(f"{name}: what it was given is not JSON: {error}") from error


class Answering:
    """A model whose `complete` and `stream` are one method, `_answer`; a subclass has that.

    Attributes:
        name: what people call it
    """

    name: str

    def _answer(self, request: Request) -> AsyncGenerator[StreamPart, None]:
        """The pieces of an answer, if they are to be streamed, and at last the whole."""
        raise NotImplementedError

    async def complete(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        """Answer a conversation. Cancelled, it ends what it started, such as a connection.

        Raises:
            ContextOverflow: the prompt does not fit
            RemoteForbidden: `CIVITAS_OFFLINE=1`, and the model is not on this machine
            BudgetExceeded: a budget does not reach; `DeadlineExceeded` where its seconds are over
            ModelError: there is no answer, or what came is none
        """
        self._check(messages)
        reply: Any = _NOTHING
        # Read to its end: what it settles comes after the answer.
        async for part in self._answer(Request(messages, actions, schema)):
            reply = part
        if reply is _NOTHING:
            raise ModelError(f"{self.name}: its stream ended without an answer")
        return reply  # type: ignore[no-any-return]

    async def stream(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> AsyncGenerator[StreamPart, None]:
        """Answer a conversation piece by piece, and then whole.

        Closed or cancelled before its end, it ends what it started. Calls come with the whole
        answer only.

        Raises:
            ModelError: as `complete`, or the answer broke off
        """
        self._check(messages)
        async with aclosing(self._answer(Request(messages, actions, schema, True))) as parts:
            async for part in parts:
                yield part

    def _check(self, messages: list[dict[str, Any]]) -> None:
        if not messages:
            raise ModelError(f"{self.name}: there are no messages to answer")


class Closing:
    """What is closed at the end of a `with`."""

    def close(self) -> None:
        """Close it; more than once does no harm."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def streamed(
    model: Model,
    messages: list[dict[str, Any]],
    actions: list[Action] | None = None,
    schema: dict[str, Any] | None = None,
    *,
    whole: bool = False,
) -> AsyncGenerator[StreamPart, None]:
    """What a model streams; of one that cannot, or if it is wanted `whole`, only its answer.

    Whoever reads it closes it (`contextlib.aclosing`): left to the collector, a connection would
    stay open for as long as that likes.
    """
    # A schema is named only where there is one: models of users' own may not know of it.
    more = {} if schema is None else {"schema": schema}
    stream = None if whole else getattr(model, "stream", None)
    if stream is not None:
        parts: Any = stream(messages, actions=actions, **more)
        try:
            async for part in parts:
                yield part
        finally:
            if hasattr(parts, "aclose"):
                await parts.aclose()
        return
    reply: Any = model.complete(messages, actions=actions, **more)
    if inspect.isawaitable(reply):
        reply = await reply
    # Of a user's own model it may be anything, which whoever reads it checks.
    if isinstance(reply, ModelReply) and not whole:
        for part in in_pieces(reply, by_word=False):
            yield part
    else:
        yield reply


def in_pieces(reply: ModelReply, by_word: bool = True) -> Iterator[StreamPart]:
    """An answer that is there already, as a stream would give it: its text, at last the whole."""
    if reply.reasoning:
        yield ReasoningPiece(reply.reasoning)
    for text in _WORD.findall(reply.text) if by_word else filter(None, [reply.text]):
        yield TextPiece(text)
    yield reply
