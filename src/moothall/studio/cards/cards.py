"""Approvals, questions and decisions that wait for a person, as cards on every page."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field

from moothall.agents.person import in_words
from moothall.approval import Always, ApprovalRequest, ChangedArgs, Question, Refused
from moothall.approval.decision import Decision
from moothall.errors import CardGone, ConfigError, InvalidArguments
from moothall.reasoning.dualact.conclusions import DECISION_SCHEMA
from moothall.reasoning.events import (
    DECISIONS,
    Conclusion,
    ConclusionReached,
    Event,
    HumanDecision,
)
from moothall.reasoning.reply_request import ReplyRequest
from moothall.signature import Signature
from moothall.studio.feed import Feed
from moothall.threads import guard

_ALWAYS: Final = "always"
_REASON: Final = 2_000
_TOLD: Final = ("agent", "action", "args", "sender", "fingerprint", "note")
"""What is told of a call, as it is in the request."""
_MOST_ALWAYS: Final = 1_000
"""How many permissions for whole runs are kept: the last ones."""
_GONE: Final = "card {} is not open: it was answered, or what asked has ended"


_Reader: TypeAlias = Callable[..., tuple[Any, str]]
"""Takes what a page may say, by name, each of its type; returns the answer, and it in a word."""


@dataclass
class Card:
    """One thing that waits for a person: an `approval`, a `question`, or a `decision` of H."""

    number: int
    kind: str
    about: dict[str, Any]
    asked: float
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any] = field(repr=False)
    read: _Reader = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return the card as pages get it."""
        return {"number": self.number, "kind": self.kind, "asked": self.asked, **self.about}


class Cards:
    """The open cards. This is the Approver of what the studio runs.

    Any page may answer a card; the first answer counts. A card whose asker is cancelled goes away.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._open: dict[int, Card] = {}
        self._numbers = itertools.count(1)
        self._guard = guard()
        self._always: dict[tuple[str | None, str, str], None] = {}

    def to_json(self) -> list[dict[str, Any]]:
        """Return the open cards, the oldest first."""
        with self._guard:
            return [card.to_json() for card in self._open.values()]

    async def approve(self, request: ApprovalRequest, **more: str) -> Decision:
        """Ask whether an action is permitted; show `more` too. Without an open page, wait.

        What a person has permitted always in this run is permitted at once, unless it has a note or
        values from outside.
        """
        run = request.run_id
        same = (run, request.agent, request.action)
        if run is not None and not request.note and not request.outside and same in self._always:
            return True
        about = {
            **more,
            **{name: getattr(request, name) for name in _TOLD},
            "run": request.run_id,
            "outside": list(request.outside),
            "editable": request.check is not None,
        }
        answer = await self.ask("approval", about, _Approval(request).read)
        if answer == _ALWAYS and run is not None:
            with self._guard:
                self._always[same] = None
                while len(self._always) > _MOST_ALWAYS:
                    self._always.pop(next(iter(self._always)))
        given = isinstance(answer, Refused | Always | ChangedArgs)
        return answer if given else answer in (True, _ALWAYS)

    async def answer(self, question: Question) -> str:
        """Ask a person an action's question."""
        about = {"agent": question.agent, "text": question.text, "run": question.run}
        return str(await self.ask("question", about))

    async def ask(self, kind: str, about: dict[str, Any], read: _Reader | None = None) -> Any:
        """Show a card on every page, and wait for its answer, which `read` checks."""
        loop = asyncio.get_running_loop()
        number, answer = next(self._numbers), loop.create_future()
        card = Card(number, kind, about, time.time(), loop, answer, read or _READ[kind])
        with self._guard:
            self._open[card.number] = card
        self._feed.publish("card", card.to_json())
        try:
            return await card.answer
        except asyncio.CancelledError:
            with suppress(CardGone):
                self._close(card.number, "withdrawn")
            raise

    def decide(self, number: int, answer: dict[str, Any]) -> str:
        """Answer a card as a page said, in any thread; return the outcome in a word."""
        with self._guard:
            card = self._open.get(number)
        if card is None:
            raise CardGone(_GONE.format(number))
        try:
            given = Signature.of(card.read, bound_to_self=False).check(answer, card.kind)
        except InvalidArguments as error:
            raise ConfigError(str(error)) from None
        value, said = card.read(**given)
        self._close(number, said)
        try:
            card.loop.call_soon_threadsafe(_set, card.answer, value)
        except RuntimeError:
            raise CardGone(f"card {number} is not open: its program has ended") from None
        return said

    def _close(self, number: int, said: str) -> None:
        """Take a card away. Raises CardGone: another page, or its asker, was faster."""
        with self._guard:
            if self._open.pop(number, None) is None:
                raise CardGone(_GONE.format(number))
        self._feed.publish("card_gone", {"number": number, "said": said})


def _set(answer: asyncio.Future[Any], value: Any) -> None:
    if not answer.done():
        answer.set_result(value)


class PageDesk:
    """Asks the person at the page, a dual act's reviewer, by cards. For `Person(id, desk=…)`."""

    def __init__(self, cards: Cards, task: str) -> None:
        self._cards = cards
        self._task = task
        self._concluded: list[Conclusion] = []

    def on_event(self, event: Event) -> None:
        """Keep the conclusions, with their evidence, among the dual act's events."""
        if isinstance(event, ConclusionReached):
            self._concluded.append(event.conclusion)

    async def ask(
        self, request: ReplyRequest, told: Sequence[str], fault: str
    ) -> str | HumanDecision | None:
        """Return what the person decides or writes."""
        about: dict[str, Any] = {"agent": "H", "run": request.run_id, "told": list(told)}
        if request.schema == DECISION_SCHEMA:
            last = self._concluded[-1].to_json() if self._concluded else None
            of = {"task": self._task, "round": len(self._concluded), "conclusion": last}
            decision: HumanDecision = await self._cards.ask("decision", {**about, **of})
            return decision
        text = in_words(request, told, fault)
        return str(await self._cards.ask("question", {**about, "text": text}))


class _Approval:
    """What a page may say to an action that wants permission."""

    def __init__(self, request: ApprovalRequest) -> None:
        self._request = request

    def read(
        self,
        permit: bool,
        fingerprint: str = "",
        always: bool = False,
        reason: Annotated[str, Field(max_length=_REASON)] = "",
        args: dict[str, Any] | None = None,
    ) -> tuple[Decision | str, str]:
        """Return the decision, and its word."""
        request = self._request
        for_thread = permit and always and bool(request.outside)
        if always and not for_thread and (request.run_id is None or request.note):
            raise ConfigError("always must be for a call of a run, without note")
        if not permit:
            return Refused(reason.strip()) if reason.strip() else False, "refused"
        if fingerprint != request.fingerprint:
            raise ConfigError("the fingerprint is not that of the call: look at it again")
        if args is not None:
            if always or request.check is None:
                raise ConfigError("args must be for this call alone, where it can be changed")
            request.check(args)
            return ChangedArgs(args), "permitted with other arguments"
        if for_thread:
            return Always(), "permitted for the thread"
        return (_ALWAYS, "permitted always in this run") if always else (True, "permitted")


def _question(text: str) -> tuple[str, str]:
    if not text.strip():
        raise ConfigError("text must be an answer in words")
    return text, "answered"


def _decision(choice: str, instruction: str = "", reasoning: str = "") -> tuple[HumanDecision, str]:
    if choice not in _CHOICES:
        raise ConfigError(f"choice must be one of {', '.join(_CHOICES)}, got {choice!r:.80}")
    action, means = _CHOICES[choice]
    if means.instructs and not instruction.strip():
        raise ConfigError(f"to {choice}, write an instruction")
    instruction = instruction.strip() if means.instructs else ""
    reasoning = reasoning.strip() or f"{means.said} by a person"
    return HumanDecision(action, instruction, reasoning), means.said


_CHOICES: Final = {means.choice: (action, means) for action, means in DECISIONS.items()}
_READ: Final[dict[str, _Reader]] = {"question": _question, "decision": _decision}
