"""A model with prepared replies, for tests, examples and measurements."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from moothall.foundation.arguments import check_function, check_integer, check_text
from moothall.foundation.errors import ConfigError, DefinitionError, ModelError
from moothall.foundation.threads import awaited
from moothall.models.base import AnsweringModel, ModelRequest, in_pieces
from moothall.models.protocol import Call, ModelReply, StreamPart, TextPiece

_FUNCTION_TOKENS = 1000


class ScriptedModel(AnsweringModel):
    """Returns prepared replies, one after the other.

    A reply is one of

    * a text;
    * a `ModelReply`;
    * a `Call`, or a dict `{"name": …, "args": {…}}`, or a list of these for several calls at once;
    * an exception, which is raised;
    * a function of the messages and the actions, plain or `async`, that returns any of these;
    * an async generator function of the messages and the actions, which yields the pieces of a text
      to stream.

    Any other text is streamed word by word. A call that is cancelled has used up its reply.

    Args:
        replies: its replies, in order; or one function of the messages and the actions, as above,
            that answers every call
        name: what people call it
        context_tokens: the value of its `context_tokens`
        max_tokens: the value of its `max_tokens`; nothing is cut. Default: the tokens of the
            longest reply: the output that a `ModelReply` states, else one token per byte, and 1,000
            for a function.

    Attributes:
        received: the messages that it received, a list for each call of `complete` or `stream`
    """

    def __init__(
        self,
        replies: Iterable[Any] | Callable[..., Any] = (),
        name: str = "scripted",
        *,
        context_tokens: int | None = None,
        max_tokens: int | None = None,
    ) -> None:
        if isinstance(replies, str | Mapping | ModelReply | Call):
            raise DefinitionError(
                f"ScriptedModel takes a list of replies, not one {type(replies).__name__}"
            )
        # One function, instead of a reply for each call.
        self._answers_all = callable(replies) and not isinstance(replies, type)
        if not self._answers_all and not isinstance(replies, Iterable):
            raise ConfigError(
                f"ScriptedModel: replies= must be a list of replies or a function, got "
                f"{replies!r:.80}"
            )
        check_text("ScriptedModel: name=", name)
        check_integer("ScriptedModel: context_tokens=", context_tokens, optional=True)
        check_integer("ScriptedModel: max_tokens=", max_tokens, optional=True)
        self.name = name
        self.context_tokens = context_tokens
        self._max_tokens = max_tokens
        self.received: list[list[dict[str, Any]]] = []
        self._replies: list[Any] = [replies] if callable(replies) else list(replies)
        for each in self._replies:
            if callable(each) and not isinstance(each, type):
                check_function("ScriptedModel: a reply", each, "messages", "actions")
        self._skipped = 0

    @property
    def max_tokens(self) -> int | None:
        """The stated longest answer in tokens; a budget reserves it for each call."""
        if self._max_tokens is None:
            self._max_tokens = max(map(_largest_tokens, self._replies), default=0)
        return self._max_tokens

    def skip(self, replies: int) -> None:
        """Skip replies that a resumed run was given in another process."""
        self._skipped += replies

    async def _answer(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        index = len(self.received) + self._skipped
        self.received.append(list(request.messages))
        if not self._answers_all and index >= len(self._replies):
            raise ModelError(
                f"{self.name}: asked for reply {index + 1}, but it was given {len(self._replies)}: "
                "give it one for each time that it is asked, or a function"
            )
        reply = self._replies[0 if self._answers_all else index]
        if not isinstance(reply, type) and callable(reply):
            reply = await awaited(reply(request.messages, request.actions))
        if not inspect.isasyncgen(reply):
            prepared = self._reply(reply, index)
            for part in in_pieces(prepared) if request.stream else (prepared,):
                yield part
            return
        pieces: list[str] = []
        async with aclosing(reply):
            async for piece in reply:
                if not isinstance(piece, str):
                    raise DefinitionError(
                        f"{self.name}: reply {index + 1} yields {piece!r:.80}: a generator yields "
                        "texts, the pieces of one answer; for calls or usage, return a ModelReply"
                    )
                if piece:
                    pieces.append(piece)
                    yield TextPiece(piece)
        yield ModelReply("".join(pieces))

    def _reply(self, reply: Any, index: int) -> ModelReply:
        if isinstance(reply, ModelReply):
            return reply
        if isinstance(reply, str):
            return ModelReply(reply)
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, Call | Mapping):
            reply = [reply]
        if isinstance(reply, list | tuple) and reply:
            calls = [self._call(item, index, number) for number, item in enumerate(reply)]
            return ModelReply(calls=tuple(calls), finish_reason="calls")
        raise self._fault(reply, index)

    def _call(self, item: Any, index: int, number: int) -> Call:
        if isinstance(item, Call):
            return item
        if isinstance(item, Mapping) and "name" in item and item.keys() <= {"name", "args", "id"}:
            # The arguments are passed on unchecked: a test may need wrong ones.
            id = item.get("id", f"call_{index + 1}_{number + 1}")
            return Call(id, item["name"], item.get("args", {}))
        raise self._fault(item, index)

    def _fault(self, reply: Any, index: int) -> DefinitionError:
        return DefinitionError(
            f"{self.name}: reply {index + 1} is {reply!r}, which is neither text, ModelReply, "
            "Call, {'name', 'args'}, a list of calls, an exception nor a function"
        )


def _largest_tokens(reply: Any) -> int:
    """Return the most tokens that a prepared reply takes."""
    if isinstance(reply, ModelReply):
        output_tokens = reply.usage.output_tokens
        if type(output_tokens) is int and output_tokens > 0:
            return output_tokens
        reply = [reply.text, [[call.name, call.args] for call in reply.calls]]
    if callable(reply):
        return _FUNCTION_TOKENS
    text = reply if isinstance(reply, str) else repr(reply)
    return len(text.encode("utf-8", "surrogatepass"))
