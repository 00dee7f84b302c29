"""What comes of asking an agent: the answer, and how it came about."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from civitas.errors import BudgetExceeded, DeadlineExceeded, HookError, InDoubt, ModelError
from civitas.jsonvalue import deep_json
from civitas.models.protocol import Usage
from civitas.text import cut, log_failure, shorten

_LOGGER = logging.getLogger("civitas.reasoning")

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
        run_id: the id of the run
        thread: the id of the conversation; None for the agent's own
    """

    iteration: int
    action: str
    args: dict[str, Any]
    result: dict[str, Any]
    error: str | None
    run_id: str | None = None
    thread: str | None = None

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
            schema that was asked for, else the text; None where a schema was asked for and the run
            ended without an answer
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

    def __repr__(self) -> str:
        # Short: debuggers and `asyncio.run` format results, and messages may hold megabytes.
        text, steps = shorten(self.text, 80), len(self.steps)
        return f"Reply(stop_reason={self.stop_reason!r}, text={text!r}, steps={steps})"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data; what has no JSON form, such as the error, as its text."""
        made: dict[str, Any] = deep_json(self)
        return made

    def raise_for_error(self) -> None:
        """Raise what ended the run; nothing where its text is an answer.

        Raises:
            BudgetExceeded: what the run may spend did not suffice; `DeadlineExceeded` for its time
            InDoubt: an action had begun when the process ended that had recorded it
            ModelError: there is no answer for another reason, which it tells
            Exception: what went wrong where `stop_reason` is `error`
        """
        if self.stop_reason not in ANSWERED:
            self._raise(None)

    def _raise(self, agent: str | int | None) -> None:
        """Raise why there is no answer, as an error that names the agent."""
        if self.error is not None:
            raise self.error
        who = "the agent" if agent is None else f"agent {agent!r}"
        said = f"; it had said: {cut(self.text, 500)}" if self.text else ""
        text = f"{who} has no reply ({self.stop_reason}): {self.detail}{said}"
        if agent is None and self.stop_reason == "deadline":
            raise DeadlineExceeded(text)
        if agent is None and self.stop_reason == "budget":
            raise BudgetExceeded(text, "budget")
        if agent is None and self.stop_reason == "in_doubt":
            raise InDoubt(text)
        raise ModelError(text)


class Stop(Exception):
    """Why a run ends in the middle of a turn."""

    def __init__(self, reason: StopReason, detail: str, error: BaseException | None = None) -> None:
        super().__init__(detail)
        self.reason: StopReason = reason
        self.detail = detail
        self.error = error

    @classmethod
    def at_limit(cls, error: BudgetExceeded, detail: str | None = None) -> Stop:
        """At a limit of the run's budget."""
        reason: StopReason = "deadline" if isinstance(error, DeadlineExceeded) else "budget"
        return cls(reason, str(error) if detail is None else detail)

    @classmethod
    def of(cls, error: BudgetExceeded | Stop) -> Stop:
        """On what a run that goes on may fail at."""
        return error if isinstance(error, Stop) else cls.at_limit(error)

    @classmethod
    def on_hook(cls, agent: str | int, error: HookError) -> Stop:
        """On a hook of an agent that failed, which is logged."""
        log_failure(_LOGGER, f"a hook of agent {agent!r} failed", error)
        return cls("error", str(error), error)

    @classmethod
    def on_memory(cls, agent: str | int, error: Exception) -> Stop:
        """On a memory that takes no message, which is logged."""
        log_failure(_LOGGER, f"the memory of agent {agent!r} failed", error)
        return cls("error", f"{type(error).__name__}: {error}", error)
