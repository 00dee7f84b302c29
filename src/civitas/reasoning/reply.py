"""What comes of asking an agent: the answer, and how it came about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from civitas.models.protocol import Usage

__all__ = ["ANSWERED", "GIVEN", "Reply", "Step", "StopReason"]

StopReason: TypeAlias = Literal[
    "done",
    "terminal",
    "max_iterations",
    "no_progress",
    "unreadable",
    "budget",
    "deadline",
    "in_doubt",
    "terminated",
    "max_loops",
    "cancelled",
    "error",
]
"""Why a run ended.

* `done`: the model answered with text
* `terminal`: a terminal action succeeded; its result is the reply
* `max_iterations`: the model still called actions after as many answers as it may give
* `no_progress`: it made the same call with the same result over and over
* `unreadable`: two answers one after the other could not be used
* `budget`: what the run may spend does not reach for what came next, which was not begun
* `deadline`: the seconds that the run may take are over; what was under way was cancelled
* `in_doubt`: an action had begun when the process ended that had recorded it; nobody has said yet
  whether to execute it again
* `terminated`: of a dual act: H accepted
* `max_loops`: of a dual act: R ran as often as it may, and H did not accept
* `cancelled`: the model's answer was cancelled, though the run was not
* `error`: the model or a hook failed; `Reply.error` is the exception
"""

ANSWERED: Final = frozenset(("done", "terminal", "terminated"))
"""The reasons for which a reply's text is an answer."""

GIVEN: Final = ANSWERED | {"max_loops"}
"""The reasons for which whoever asked is given the text: a conclusion that nobody accepted, too."""


@dataclass(frozen=True, slots=True)
class Step:
    """One action that was called.

    Attributes:
        iteration: which answer of the model called it, from 1
        action: the action's name
        args: its arguments, as the model gave them
        result: what the environment made of it
        error: what went wrong, or None
    """

    iteration: int
    action: str
    args: dict[str, Any]
    result: dict[str, Any]
    error: str | None

    @property
    def executed(self) -> bool:
        """Whether it was executed, as far as the environment says."""
        return bool(self.result.get("tool_executed", True))


@dataclass(frozen=True, slots=True)
class Reply:
    """An agent's answer.

    Attributes:
        text: the answer; where the run ended without one, the last text that the model gave
        value: the answer as a value: what a terminal action returned, what the text is by the
            schema that was asked for, else the text
        messages: the chat messages that the run added to memory
        steps: the actions that were called, in order
        usage: the tokens that the run took
        stop_reason: why it ended
        detail: more on that, in words; empty if there is nothing to add
        error: the exception that ended it, if `stop_reason` is `error`
        run_id: the id of the run
    """

    text: str
    value: Any
    messages: list[dict[str, Any]]
    steps: list[Step]
    usage: Usage
    stop_reason: StopReason
    detail: str = ""
    error: BaseException | None = None
    run_id: str | None = None
