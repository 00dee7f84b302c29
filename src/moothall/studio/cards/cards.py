"""Approvals, questions and decisions that wait for a person, as cards on every page."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from moothall.agents.person import in_words
from moothall.approval import Always, ApprovalRequest, ChangedArgs, Question, Refused
from moothall.approval.decision import Check, Decision
from moothall.errors import CardGone, ConfigError
from moothall.reasoning.dualact.conclusions import DECISION_SCHEMA
from moothall.reasoning.events import (
    DECISIONS,
    Conclusion,
    ConclusionReached,
    Event,
    HumanDecision,
)
from moothall.reasoning.reply_request import ReplyRequest
from moothall.studio.feed import Feed
from moothall.threads import guard

_ALWAYS: Final = "always"
_REASON: Final = 2_000
_MOST_ALWAYS: Final = 1_000
"""How many permissions for whole runs are kept: the last ones."""
_GONE: Final = "card {} is not open: it was answered, or what asked has ended"


_Reader: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], tuple[Any, str]]


@dataclass
class Card:
    """One thing that waits for a person: an `approval`, a `question`, or a `decision` of H."""

    number: int
    kind: str
    about: dict[str, Any]
    asked: float
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any] = field(repr=False)
    read: _Reader = field(repr=False)  # what a page says, as the answer and in a word

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
            "agent": request.agent,
            "action": request.action,
            "args": request.args,
            "sender": request.sender,
            "fingerprint": request.fingerprint,
            "run": request.run_id,
            "note": request.note,
            "outside": list(request.outside),
            "editable": request.check is not None,
        }
        answer = await self.ask("approval", about, partial(_approval, check=request.check))
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
        value, said = card.read(card.about, answer)
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


def _approval(
    about: dict[str, Any], answer: dict[str, Any], check: Check | None = None
) -> tuple[Decision | str, str]:
    permit = answer.get("permit")
    if type(permit) is not bool:
        raise ConfigError(f"permit must be true or false, got {permit!r:.80}")
    if permit and answer.get("fingerprint") != about["fingerprint"]:
        raise ConfigError("the fingerprint is not that of the call: look at it again")
    always, reason = answer.get("always", False), answer.get("reason", "")
    if permit and (args := answer.get("args")) is not None:
        if not isinstance(args, dict) or always or check is None:
            raise ConfigError(
                "args must be an object, for this call alone, where it can be changed"
            )
        check(args)
        return ChangedArgs(args), "permitted with other arguments"
    if permit and always is True and about["outside"]:
        return Always(), "permitted for the thread"
    if type(always) is not bool or (always and (about["run"] is None or about["note"])):
        raise ConfigError(
            "always must be true or false, and true for a call of a run, without note"
        )
    if not isinstance(reason, str) or len(reason) > _REASON:
        raise ConfigError(f"the reason must be a text of at most {_REASON:,} characters")
    if permit:
        return (_ALWAYS, "permitted always in this run") if always else (True, "permitted")
    reason = reason.strip()
    return (Refused(reason) if reason else False), "refused"


def _question(about: dict[str, Any], answer: dict[str, Any]) -> tuple[str, str]:
    text = answer.get("text")
    if not isinstance(text, str) or not text.strip():
        raise ConfigError("text must be an answer in words")
    return text, "answered"


def _decision(about: dict[str, Any], answer: dict[str, Any]) -> tuple[HumanDecision, str]:
    choice = answer.get("choice")
    if not isinstance(choice, str) or choice not in _CHOICES:
        raise ConfigError(f"choice must be one of {', '.join(_CHOICES)}, got {choice!r:.80}")
    given = {name: answer.get(name, "") for name in ("instruction", "reasoning")}
    for name, text in given.items():
        if not isinstance(text, str):
            raise ConfigError(f"{name} must be a text, got {text!r:.80}")
    action, means = _CHOICES[choice]
    instruction = given["instruction"].strip()
    if not means.instructs:
        instruction = ""
    elif not instruction:
        raise ConfigError(f"to {choice}, write an instruction")
    reasoning = given["reasoning"].strip() or f"{means.said} by a person"
    return HumanDecision(action, instruction, reasoning), means.said


_CHOICES: Final = {means.choice: (action, means) for action, means in DECISIONS.items()}
_READ: Final[dict[str, _Reader]] = {
    "question": _question,
    "decision": _decision,
}
