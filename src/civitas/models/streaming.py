"""Answers piece by piece, from any model."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from civitas.models.protocol import Model, ModelReply, ReasoningPiece, StreamPart, TextPiece

if TYPE_CHECKING:
    from civitas.action import Action

__all__ = ["in_pieces", "streamed"]

_WORD = re.compile(r"\s*\S+|\s+")


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
    if isinstance(reply, ModelReply):
        if reply.reasoning:
            yield ReasoningPiece(reply.reasoning)
        if reply.text:
            yield TextPiece(reply.text)
    yield reply


async def _closable(parts: AsyncIterator[StreamPart]) -> AsyncGenerator[StreamPart, None]:
    async for part in parts:
        yield part


def in_pieces(reply: ModelReply) -> Iterator[StreamPart]:
    """An answer that is there already, as a stream would give it: word by word, at last whole."""
    if reply.reasoning:
        yield ReasoningPiece(reply.reasoning)
    for word in _WORD.findall(reply.text):
        yield TextPiece(word)
    yield reply
