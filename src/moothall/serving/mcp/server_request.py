"""A request to a server, from its caller to its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import mcp
    import mcp_types

Send = Callable[["mcp.Client"], Awaitable[Any]]
Ask = Callable[["mcp_types.ElicitRequestParams"], Coroutine[Any, Any, "mcp_types.ElicitResult"]]


@dataclass(slots=True, eq=False, weakref_slot=True)
class ServerRequest:
    """A request of a caller, and the future, of the caller's loop, for its answer."""

    send: Send
    label: str  # how errors name it
    answer: asyncio.Future[Any]
    ask: Ask | None  # asks the person behind the caller, on the caller's loop
    caller: object = None  # equal for requests behind which is the same person
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    person_answer: asyncio.Future[Any] | None = None
    context: Context = field(default_factory=copy_context)  # the caller's, who is asked
    unopened_addresses: list[str] = field(default_factory=list)  # that nobody has opened, in words
    trace: Callable[[], None] | None = None  # continues the caller's trace, if there is one

    @property
    def is_cancelled(self) -> bool:
        """Whether its caller waits no more."""
        return self.task is not None and self.task.cancelling() > 0

    def settle(self, value: Any = None, error: BaseException | None = None) -> None:
        """Give the caller a value or an error, unless it has one or is gone; from any thread."""

        def give() -> None:
            if self.answer.done():
                return
            if error is None:
                self.answer.set_result(value)
            else:
                self.answer.set_exception(error)

        with suppress(RuntimeError):  # the caller's loop is closed
            self.answer.get_loop().call_soon_threadsafe(give)
