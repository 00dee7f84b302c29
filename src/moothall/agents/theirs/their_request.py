"""A request of another framework's program to a model, and where in the program it is made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from moothall.models.protocol import ModelReply

if TYPE_CHECKING:
    from moothall.agents.loop.answer import ToolCall
    from moothall.models.protocol import ChatMessage


class TheirScope(NamedTuple):
    """Where in a program a step is: what its key begins with, and the call around it."""

    prefix: str = ""
    call: ToolCall | None = None


_PROGRAM = TheirScope()
THEIR_SCOPE: ContextVar[TheirScope] = ContextVar("moothall_their_scope", default=_PROGRAM)


class TheirRequest(Protocol):
    """A request of a framework's program to a model; each framework has a class for it."""

    name: str
    """The model's name, as prices know it."""
    max_tokens: int | None
    """How many tokens its answer may have."""
    raw: Any
    """The framework's own answer, once it is here."""

    def messages(self) -> list[ChatMessage]:
        """Return its prompt, for the budget and the record."""
        ...

    def tools(self) -> list[tuple[str, str, Any]]:
        """Return the name, the description and the parameters' schema of each tool shown."""
        ...

    async def send(self, tell: Callable[[Any], object] | None) -> ModelReply:
        """Ask, set `raw`, and return the answer; tell its pieces, if somebody listens."""
        ...

    def dump(self) -> Any:
        """Return `raw` as JSON data."""
        ...

    def load(self, data: Any) -> None:
        """Set `raw` from its JSON data."""
        ...


class TheirModel:
    """A request as a model of ours, which budgets know."""

    def __init__(
        self,
        request: TheirRequest,
        tell: Callable[[Any], object] | None,
        recall: Callable[[Any, Any], Awaitable[ModelReply]] | None = None,
    ) -> None:
        self.name: str = request.name
        self.max_tokens: int | None = request.max_tokens
        self.begins: Callable[[], None] | None = None
        self._request = request
        self._tell = tell
        self._recall = recall  # gives the answer of another run's record, which is not sent

    def complete(
        self, messages: Any, actions: Any = None, schema: Any = None
    ) -> Awaitable[ModelReply]:
        """Return its answer."""
        if self.begins is not None:
            self.begins()
        if self._recall is not None:
            return self._recall(messages, actions)
        return self._request.send(self._tell)
