"""What a caller of this process gives with a request, beside the message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from moothall.actions.approval import Question
    from moothall.budget import Budget


@dataclass(slots=True, kw_only=True, eq=False)
class CallerContext:
    """What a caller gives with a request, for its handling and what that leads to."""

    listener: ClassVar[ContextVar[Callable[[dict[str, Any]], None] | None]] = ContextVar(
        "moothall_heard", default=None
    )
    """What takes the pieces that the handler of a request made in this context streams."""

    asks: Callable[[Question], Awaitable[str]] | None = None  # asks the person behind the caller
    hears: Callable[[str], None] | None = None  # is told the text of each event of the action
    pays: Budget | None = None
    run_id: str | None = None  # of the reply to a `say`
    content: list[dict[str, Any]] | None = None  # what a `say` says whole, as blocks
    options: dict[str, Any] | None = None  # what it says of the reply to a `say`
    open: bool = True  # False once the caller does not wait any more

    @staticmethod
    def nearest(handling: Any, name: str) -> Any:
        """Return what was given by this name with a message, or the nearest one that led to it."""
        while handling is not None:
            context: CallerContext | None = handling.caller_context
            if (
                context is not None
                and context.open
                and (value := getattr(context, name, None)) is not None
            ):
                return value
            handling = handling.parent
        return None
