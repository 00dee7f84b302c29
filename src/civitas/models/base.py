"""What models share: answers whole and in pieces from one method, and text that can be encoded."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self

from civitas.errors import ModelError
from civitas.models.protocol import Model, ModelReply, ReasoningPiece, StreamPart, TextPiece

if TYPE_CHECKING:
    from civitas.action import Action

__all__ = ["Answering", "Characters", "Closing", "answer_of", "in_pieces", "streamed", "whole"]

_WORD = re.compile(r"\s*\S+|\s+")


_NOTHING: Any = object()


class Answering:
    """A model whose `complete` and `stream` are one method, `_answer`; a subclass has that.

    Attributes:
        name: what people call it
    """

    name: str

    def _answer(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None,
        schema: dict[str, Any] | None,
        stream: bool,
    ) -> AsyncGenerator[StreamPart, None]:
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
        async for part in self._answer(messages, actions, schema, False):
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
        async with aclosing(self._answer(messages, actions, schema, True)) as parts:
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


def answer_of(
    model: Model,
    messages: list[dict[str, Any]],
    actions: list[Action] | None,
    schema: dict[str, Any] | None,
    stream: bool,
) -> AsyncGenerator[StreamPart, None]:
    """What a model that is inside another gives: its pieces and its answer, or its answer alone."""
    if stream:
        return streamed(model, messages, actions, schema)
    return _completed(model, messages, actions, schema)


async def _completed(model: Model, *request: Any) -> AsyncGenerator[StreamPart, None]:
    reply: Any = model.complete(*request)
    yield await reply if inspect.isawaitable(reply) else reply


def streamed(
    model: Model,
    messages: list[dict[str, Any]],
    actions: list[Action] | None = None,
    schema: dict[str, Any] | None = None,
) -> AsyncGenerator[StreamPart, None]:
    """What a model streams; of one that cannot, its answer whole.

    Whoever reads it closes it (`contextlib.aclosing`): left to the collector, a connection would
    stay open for as long as that likes.

    Raises:
        ModelError: the model cannot answer; while it is read
    """
    # A schema is named only where there is one: models of users' own may not know of it.
    more = {} if schema is None else {"schema": schema}
    stream = getattr(model, "stream", None)
    if stream is None:
        return _in_one_piece(model, messages, actions, more)
    parts: Any = stream(messages, actions=actions, **more)
    return parts if hasattr(parts, "aclose") else _closable(parts)


async def _in_one_piece(
    model: Model, messages: list[dict[str, Any]], actions: Any, more: dict[str, Any]
) -> AsyncGenerator[StreamPart, None]:
    reply: Any = model.complete(messages, actions=actions, **more)
    if inspect.isawaitable(reply):
        reply = await reply
    if not isinstance(reply, ModelReply):
        yield reply  # of a user's own model, which whoever reads it checks
        return
    for part in in_pieces(reply, by_word=False):
        yield part


async def _closable(parts: AsyncIterator[StreamPart]) -> AsyncGenerator[StreamPart, None]:
    async for part in parts:
        yield part


def in_pieces(reply: ModelReply, by_word: bool = True) -> Iterator[StreamPart]:
    """An answer that is there already, as a stream would give it: its text, at last the whole."""
    if reply.reasoning:
        yield ReasoningPiece(reply.reasoning)
    for text in _WORD.findall(reply.text) if by_word else filter(None, [reply.text]):
        yield TextPiece(text)
    yield reply


def whole(text: str) -> str:
    """The text, with `?` for each half of a character, which JSON can write and nothing encode."""
    return text.encode("utf-8", "replace").decode()


class Characters:
    """Joins the halves of characters whose text comes in pieces.

    A server that counts in UTF-16 may cut between the two halves of one. What comes out, joined,
    is `whole` of what went in, joined.
    """

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    def add(self, piece: str) -> str:
        """The piece, without a first half at its end, which is kept for the next."""
        if not piece or (not self._half and piece.isascii()):
            return piece
        if self._half:
            piece = self._half + piece
            self._half = ""
            if "\udc00" <= piece[1] <= "\udfff":
                pair = piece[:2].encode("utf-16-le", "surrogatepass").decode("utf-16-le")
                piece = pair + piece[2:]
        if "\ud800" <= piece[-1] <= "\udbff":
            self._half = piece[-1]
            piece = piece[:-1]
        return whole(piece)

    def end(self) -> str:
        """What is left when nothing more comes."""
        left, self._half = self._half, ""
        return whole(left)
