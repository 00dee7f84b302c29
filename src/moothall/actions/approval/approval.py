"""Approval: approvers permit actions that ask first, and answer their questions.

There is one approval system. A space, an agent or a run has an `Approver`; an action of policy
`ACCESS_REQUESTED` runs only after the approver returned `True`, for exactly the arguments shown.
An approver with a person behind it also has `answer(question)`, for actions that ask in words.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Any, ClassVar, Protocol, runtime_checkable

from moothall.actions.approval.decision import ANSWER_FORMS, DECISION_KINDS, Decision
from moothall.actions.approval.later import Later, names_of, seconds_of
from moothall.actions.approval.paused_clocks import clocks_paused
from moothall.actions.approval.request import ApprovalRequest, Question
from moothall.foundation.arguments import check_function
from moothall.foundation.errors import DefinitionError, NobodyToAsk
from moothall.foundation.text import log_failure
from moothall.foundation.threads import call_user

logger: logging.Logger = logging.getLogger("moothall.actions")


@runtime_checkable
class Approver(Protocol):
    """Answers approval requests; may be sync or async. Sync ones are called in a worker thread."""

    def approve(self, request: ApprovalRequest, /) -> Decision | Awaitable[Decision]:
        """Return True to permit; anything else refuses, `Refused("…")` with a reason.

        With `Later()`, the decision comes by `journal.answer`.
        """


def check_approver(approver: object, owner: str, name: str = "approver") -> None:
    """Raise unless the value is an approver: otherwise every request would be refused later."""
    if isinstance(approver, type) or not callable(getattr(approver, "approve", None)):
        got = f"the class {approver.__name__}" if isinstance(approver, type) else repr(approver)
        raise DefinitionError(
            f"{owner}: {name}= needs an object with a method approve(request), such as "
            f"TerminalApprover() or CallbackApprover(function), not {got:.80}"
        )


async def approve(approver: Approver | None, request: ApprovalRequest) -> Decision:
    """Ask an approver. No approver, an exception and what is not a permission refuse.

    `Later` is returned: a caller that cannot wait for it refuses.
    """
    if approver is None:
        return False
    try:
        with clocks_paused():  # the time of a person is not that of the action
            answer = await call_user(approver.approve, request)
    except Later as later:
        answer = later
    except Exception as error:
        log_failure(logger, f"approver {approver!r} failed on {request}, so it is refused", error)
        return False
    if not isinstance(answer, Decision):
        template = "approver %r: an answer must be %s, got %.80r: %s is refused"
        logger.warning(template, approver, ANSWER_FORMS, answer, request)
    return DECISION_KINDS.decision_for(request, answer)


async def answer(approver: Approver | None, question: Question) -> str:
    """Ask the person behind an approver, whose `answer` may be sync or async, or NobodyToAsk.

    If the answer comes later, `Later` is raised.
    """
    method: Any = getattr(approver, "answer", None)
    if not callable(method):
        reason = (
            "it has no approver" if approver is None else f"its approver {approver!r} answers none"
        )
        raise NobodyToAsk(
            f"agent {question.agent!r} has a question and nobody to ask, since {reason}; give it "
            "or its space an approver= such as TerminalApprover()"
        )
    with clocks_paused():
        reply = await call_user(method, question)
    if isinstance(reply, Later):
        raise reply
    if not isinstance(reply, str):
        raise TypeError(
            f"the answer to a question of agent {question.agent!r} must be text, got {reply!r:.80}"
        )
    return reply


def decider_title(approver: Approver | None) -> str | None:
    """Return who decides by an approver, as its `title` says in words; None if it has none."""
    title = getattr(approver, "title", None)
    return title if isinstance(title, str) else None


class RefuseAll:
    """Refuses everything."""

    def approve(self, request: ApprovalRequest) -> bool:
        """Return False."""
        return False


class CallbackApprover:
    """Asks a function, sync or async.

    Args:
        function: decides about a request; only `True` permits, and `Refused("…")` refuses with a
            reason
        answer: answers the questions of actions; without it, questions raise `NobodyToAsk`

    Raises:
        DefinitionError: `function` or `answer` is not a function
    """

    title: ClassVar[str] = "a function of the program"

    def __init__(
        self,
        function: Callable[[ApprovalRequest], Decision | Awaitable[Decision]],
        answer: Callable[[Question], str | Awaitable[str]] | None = None,
    ) -> None:
        if not callable(function):
            raise DefinitionError(f"CallbackApprover takes a function, got {function!r:.80}")
        if answer is not None and not callable(answer):
            raise DefinitionError(f"CallbackApprover: answer= takes a function, got {answer!r:.80}")
        check_function("CallbackApprover: function", function, "request")
        check_function("CallbackApprover: answer=", answer, "question", optional=True)
        self.function = function
        self.answer = answer

    async def approve(self, request: ApprovalRequest) -> Decision:
        """Return the function's decision."""
        decision: Decision = await call_user(self.function, request)
        return decision


class Waiting:
    """An approver for people who answer later: the run waits in its journal until they do.

    They answer by `journal.answer`, `moothall waiting permit` or `moothall answer`, in any process.
    Without a journal, it refuses.

    Args:
        until: how long a request waits before it counts as refused: seconds or a timedelta; None
            for ever
        remind: how often somebody is reminded: seconds or a timedelta; None never
        who: the names of those who may answer; empty for anybody

    Raises:
        ConfigError: an argument is not valid
    """

    def __init__(
        self,
        *,
        until: float | timedelta | None = None,
        remind: float | timedelta | None = None,
        who: str | Iterable[str] = (),
    ) -> None:
        self.until: float | None = None if until is None else seconds_of(until, "until")
        self.remind: float | None = None if remind is None else seconds_of(remind, "remind")
        self.who: tuple[str, ...] = names_of(who)

    def approve(self, request: ApprovalRequest) -> Later:
        """Have the run wait for the decision."""
        return Later(until=self.until, remind=self.remind, who=self.who)

    def answer(self, question: Question) -> Later:
        """Have the run wait for the answer."""
        return Later(until=self.until, remind=self.remind, who=self.who)
