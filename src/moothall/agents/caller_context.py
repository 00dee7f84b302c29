"""What a caller of this process gives with a request, beside the message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from moothall.foundation.threads import context_value

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

    _waiting_runs: ClassVar[ContextVar[tuple[str, ...]]] = ContextVar(
        "moothall_waiting", default=()
    )

    asks: Callable[[Question], Awaitable[str]] | None = None  # asks the person behind the caller
    hears: Callable[[str], None] | None = None  # is told the text of each event of the action
    pays: Budget | None = None
    run_id: str | None = None  # of the reply to a `say`
    content: list[dict[str, Any]] | None = None  # what a `say` says whole, as blocks
    options: dict[str, Any] | None = None  # what it says of the reply to a `say`
    holds: bool = False  # whether a `say` ends only with what works for it in the background
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

    @staticmethod
    def runs_that_wait(handling: Any, run_id: str) -> tuple[str, ...]:
        """Return the runs that wait as long as a run does that works here: it is the last one.

        A run of a reply waits with that of an agent that a call of it asks.
        """
        runs = CallerContext._waiting_runs.get()
        if not runs and handling is not None and handling.upward is not None:
            runs = handling.upward.waiting_runs
        return runs[: runs.index(run_id) + 1] if run_id in runs else (run_id,)

    @staticmethod
    def waiting_run(
        handling: Any, asking_run: str | None, run_id: str | None
    ) -> AbstractContextManager[None]:
        """Note in a `with` block that the run that asks waits with this one, if both are runs."""
        if asking_run is None or run_id is None:
            return nullcontext()
        runs = (*CallerContext.runs_that_wait(handling, asking_run), run_id)
        return context_value(CallerContext._waiting_runs, runs)
