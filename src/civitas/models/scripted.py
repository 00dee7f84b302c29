"""A model that says what it was told to: for tests, examples and measurements."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from civitas.errors import DefinitionError, ModelError
from civitas.models.protocol import Call, ModelReply

if TYPE_CHECKING:
    from civitas.action import Action

__all__ = ["ScriptedModel"]


class ScriptedModel:
    """Gives prepared replies, one after the other.

    A reply is one of

    * a text;
    * a `ModelReply`;
    * a `Call`, or a dict `{"name": …, "args": {…}}`, or a list of these for several calls at once;
    * an exception, which is raised;
    * a function of the messages and the actions, plain or `async`, that gives any of these.

    Args:
        replies: what it says, in order
        name: what people call it
        context_tokens: what it says its context is

    Attributes:
        received: the messages that it was given, a list for each call of `complete`
    """

    def __init__(
        self,
        replies: Iterable[Any] = (),
        name: str = "scripted",
        *,
        context_tokens: int | None = None,
    ) -> None:
        if isinstance(replies, str | Mapping | ModelReply | Call):
            raise DefinitionError(
                f"ScriptedModel takes a list of replies, not one {type(replies).__name__}"
            )
        self.name = name
        self.context_tokens = context_tokens
        self.received: list[list[dict[str, Any]]] = []
        self._replies = list(replies)

    async def complete(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        """The next reply.

        Raises:
            ModelError: there are no messages, or no replies are left
        """
        if not messages:
            raise ModelError(f"{self.name}: there are no messages to answer")
        place = len(self.received)
        self.received.append(list(messages))
        if place >= len(self._replies):
            raise ModelError(
                f"{self.name}: asked for reply {place + 1}, but it was given {len(self._replies)}"
            )
        reply = self._replies[place]
        # Most often it is one of these, and then nothing more is looked at.
        kind = type(reply)
        if kind is ModelReply:
            return reply  # type: ignore[no-any-return]
        if kind is str:
            return ModelReply(reply)
        if not isinstance(reply, type) and callable(reply):
            reply = reply(messages, actions)
            if inspect.isawaitable(reply):
                reply = await reply
        return self._reply(reply, place)

    def _reply(self, reply: Any, place: int) -> ModelReply:
        if isinstance(reply, ModelReply):
            return reply
        if isinstance(reply, str):
            return ModelReply(reply)
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, Call | Mapping):
            reply = [reply]
        if isinstance(reply, list | tuple) and reply:
            calls = [self._call(item, place, number) for number, item in enumerate(reply)]
            return ModelReply(calls=tuple(calls), finish_reason="calls")
        raise self._fault(reply, place)

    def _call(self, item: Any, place: int, number: int) -> Call:
        if isinstance(item, Call):
            return item
        if isinstance(item, Mapping) and "name" in item and item.keys() <= {"name", "args", "id"}:
            # The arguments are passed on as they are: a test may want wrong ones.
            id = item.get("id", f"call_{place + 1}_{number + 1}")
            return Call(id, item["name"], item.get("args", {}))
        raise self._fault(item, place)

    def _fault(self, reply: Any, place: int) -> DefinitionError:
        return DefinitionError(
            f"{self.name}: reply {place + 1} is {reply!r}, which is neither text, ModelReply, "
            "Call, {'name', 'args'}, a list of calls, an exception nor a function"
        )
