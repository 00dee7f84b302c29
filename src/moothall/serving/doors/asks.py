"""What a call of a caller asks it: what its process waits for, or its run in a journal."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from moothall import ApprovalRequest, Event, Later, NobodyToAsk, Question, Refused, Waiting
from moothall.actions import DECISION_KINDS
from moothall.build import CURRENT, CallerContext, escaped, json_line
from moothall.journal import Outline, Wait
from moothall.serving.doors.callers import LOCAL
from moothall.serving.doors.checks import hash_of

T = TypeVar("T")

RESTING: Final = (*Outline.parked, "in_doubt")
"""Why a reply has stopped that goes on once somebody answers, or decides about a call."""
GOING_ON: Final = ("running", "stopped", *RESTING)
"""The states of a run that has not ended."""
_OPERATOR_WORDS: Final = {
    "operator:program": "waiting for its operator, as its program has changed",
    "operator:pause": "waiting for its operator, who has paused it",
}
_OPERATOR_HINT: Final = "; its operator answers (`moothall waiting`)"
_CANNOT_ASK: Final = (
    "its caller's client cannot ask anybody, and only a reply of an agent with a journal= can wait"
)


@dataclass(eq=False)
class Ask:
    """An approval or a question, under a key that only its caller is told.

    Attributes:
        key: a hash of what is asked to the letter, and of this one asking
        text: it in words
        details: it as data; an answer may repeat it
        is_approval: whether it is an approval
        schema: that of the answer
        call: the id of the call that it is about, if that is known
        run: the id of the run that waits for the answer in its journal; empty if none does
        future: where this process waits for the answer; None if the run waits in its journal
    """

    key: str
    text: str
    details: dict[str, Any]
    is_approval: bool
    schema: dict[str, Any]
    call: str = ""
    run: str = ""
    future: asyncio.Future[Any] | None = None


def ask_of(request: ApprovalRequest | Question, key: str, call: str = "") -> Ask:
    """Return what is asked, under a key."""
    details: dict[str, Any] = {"agent": request.agent}
    if isinstance(request, Question):
        details |= request.details
        return Ask(key, _question_text(request), details, False, request.answer_schema, call)
    details |= {"action": request.action, "args": request.args}
    if request.note:
        details["note"] = request.note
    if request.facts:
        details["facts"] = {**request.facts}
    kinds = DECISION_KINDS.choices_for(request).items()
    if choices := {word: kind.label for word, kind in kinds if kind.for_callers}:
        details["for"] = choices
    return Ask(key, f"Permit {request}", details, True, {"type": "boolean"}, call)


def answer_schema(ask: Ask, permit_key: str, **keywords: Any) -> dict[str, Any]:
    """Return the schema of an answer; in that to an approval, `permit_key` is true for yes."""
    name = permit_key if ask.is_approval else "answer"
    properties: dict[str, Any] = {name: {**ask.schema, **keywords}}
    if choices := ask.details.get("for"):
        properties["for"] = {"type": "string", "enum": [*choices]}
    return {"type": "object", "properties": properties, "required": [name]}


def read_form(ask: Ask, form: Mapping[str, Any], permit_key: str) -> Any:
    """Return what a form answers, as JSON data; another form permits and answers nothing."""
    if not ask.is_approval:
        answer = form.get("answer")
        return answer if isinstance(answer, str) else None
    word, permits = form.get("for"), form.get(permit_key)
    if word in (None, ""):
        return permits is True
    offered = (kind for kind in DECISION_KINDS if kind.word in ask.details.get("for", ()))
    kinds = (kind for kind in offered if kind.word == word and kind.permits is permits)
    return next((kind.write(kind.type()) for kind in kinds), False)


def asks_of(waits: Iterable[Wait], may_permit: bool) -> dict[str, Ask]:
    """Return by key what a run that waits asks the caller who began it.

    Args:
        waits: what it waits for
        may_permit: whether the caller may permit calls
    """
    asks: dict[str, Ask] = {}
    for each in waits:
        if not each.asks_caller or (each.kind == "approval" and not may_permit):
            continue
        ask = asks[each.key] = ask_of(each.request, each.key, each.call)
        ask.run = each.run
    return asks


def waiting_text(waits: Iterable[Wait]) -> str:
    """Return what a run waits for, and for whom, in words."""
    return "; ".join(
        _OPERATOR_WORDS[each.key]  # not the prompts, nor who has paused it
        if each.key in _OPERATOR_WORDS
        else f"waiting for {each}"
        + ("" if each.who or each.kind in ("moment", "agents") else _OPERATOR_HINT)
        for each in waits
    )


class OpenAsks:
    """Asks a caller while its call is under way here: what no journal can keep.

    Args:
        on_change: called when something is asked, and when it is answered or withdrawn
        timeout_s: after so many seconds it counts as not answered
    """

    def __init__(self, on_change: Callable[[Ask], object], timeout_s: float | None) -> None:
        self.open: dict[str, Ask] = {}
        self.withdrawn: set[str] = set()  # the keys of what was asked and needs no answer any more
        self._on_change = on_change
        self._timeout_s = timeout_s

    async def approve(self, request: ApprovalRequest) -> Any:
        """Ask whether a call is permitted."""
        decision = DECISION_KINDS.read(await self._ask(request))
        return Refused("the caller has not permitted it") if decision is False else decision

    async def answer(self, question: Question) -> str:
        """Ask a question."""
        answer = await self._ask(question)
        if not isinstance(answer, str):
            raise NobodyToAsk(f"agent {question.agent!r} has a question that nobody answered")
        return answer

    async def _ask(self, request: ApprovalRequest | Question) -> Any:
        ask = ask_of(request, "")
        unique_text = f"{json_line(ask.details)}\n{secrets.token_hex(16)}"
        ask.key = hash_of(unique_text)
        ask.future = asyncio.get_running_loop().create_future()
        self.open[ask.key] = ask
        self._on_change(ask)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await ask.future
        except TimeoutError:
            return None
        finally:
            if self.open.pop(ask.key, None) is not None:  # cancelled, or too late
                self.withdrawn.add(ask.key)
                self._on_change(ask)

    def settle(self, key: str, value: Any) -> None:
        """Give the answer to what is open, None for no answer; nothing if it was withdrawn."""
        ask = self.open.pop(key, None)
        if ask is None:
            return
        if ask.future is not None and not ask.future.done():
            ask.future.set_result(value)
        self._on_change(ask)


@dataclass(slots=True, eq=False)
class Caller:
    """The caller of a call, and how to ask it and report to it.

    Attributes:
        loop: the loop on which it is asked and told
        asking: asks it while its call is under way; None if it cannot be asked then
        tell: gets the events of replies; a plain function
        run_id: the id of the run that is called for, which waits in its journal for what it asks;
            None for any, and for a call that has none
        name: the caller, whose budget it spends
        content: what it says whole, as blocks, where there are files in it
        options: what it says of the reply, as `reply` takes it, such as its tags
    """

    loop: asyncio.AbstractEventLoop
    asking: OpenAsks | None
    tell: Callable[[Event], None] = lambda event: None
    run_id: str | None = None
    name: str = LOCAL
    content: str | list[dict[str, Any]] = ""
    options: dict[str, Any] | None = None


def call_on_loop(
    loop: asyncio.AbstractEventLoop, callback: Callable[[T], object], value: T
) -> None:
    """Call a function of a caller on its loop, unless that is closed."""
    with suppress(RuntimeError):  # else the agent would call the door's watcher no more
        loop.call_soon_threadsafe(callback, value)


class CallerApprover:
    """Has a run wait in its journal; asks a caller whose call is under way about anything else.

    Args:
        waiting: how long a run waits, and how often somebody is reminded
    """

    served: Any = None  # the `Served` that has this approver

    def __init__(self, waiting: Waiting | None = None) -> None:
        self._waiting = Waiting() if waiting is None else waiting

    async def approve(self, request: ApprovalRequest) -> Any:
        """Have a call wait for its approval, or ask the caller."""
        caller = self._caller()
        permits = caller is None or self.served.callers.permits(caller.name)
        if not permits or self._can_wait(caller, request.waits_in):
            return self._for_caller(self._waiting.approve(request))
        if caller is None or caller.asking is None:
            return Refused(_CANNOT_ASK)
        return await _on_callers_loop(caller, caller.asking.approve(request))

    async def answer(self, question: Question) -> str | Later:
        """Have a question wait for its answer, or ask the caller."""
        caller = self._caller()
        if self._can_wait(caller, question.waits_in):
            return self._for_caller(self._waiting.answer(question))
        if caller is None or caller.asking is None:
            raise NobodyToAsk(f"agent {question.agent!r} has a question; {_CANNOT_ASK}")
        answer: str = await _on_callers_loop(caller, caller.asking.answer(question))
        return answer

    def _caller(self) -> Caller | None:
        caller: Caller | None = None if self.served is None else self.served._caller()
        return caller

    @staticmethod
    def _can_wait(caller: Caller | None, run_id: str | None) -> bool:
        """Whether a run waits: the caller's own, one for which that waits, or if nobody is asked.

        The run of an agent that an action asks in its midst does not: the caller is asked at once.
        """
        if run_id is None or caller is None or caller.asking is None:
            return run_id is not None
        return caller.run_id in CallerContext.runs_that_wait(CURRENT.get(), run_id)

    @staticmethod
    def _for_caller(later: Later) -> Later:
        later.asks_caller = True
        return later


def _question_text(question: Question) -> str:
    """Return a question as callers are shown it: one of several lines stays so."""
    if "\n" not in question.text:
        return str(question)
    lines = escaped(question.text, lines=True).replace("\n", "\n    ")
    return f"{escaped(question.agent)} asks:\n    {lines}"


async def _on_callers_loop(caller: Caller, coroutine: Any) -> Any:
    """Await a coroutine on the caller's loop."""
    # The caller's connection may be written on its own loop only.
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, caller.loop))
