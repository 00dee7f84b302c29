"""Approvals, questions and decisions that wait for a person, as cards on every page.

What this process waits for is a card until it is answered. So is what a run of the studio's journal
waits for, in no process: its answer goes into the journal.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, TypeAlias

from pydantic import Field

from moothall import (
    Action,
    ApprovalRequest,
    CardGone,
    ChangedArgs,
    ConfigError,
    HumanDecision,
    InvalidArguments,
    Journal,
    Later,
    MoothallError,
    NoSuchRun,
    Question,
    Refused,
    StateError,
)
from moothall.actions import DECISION_KINDS
from moothall.build import guard, json_text
from moothall.journal import Doubt, Entry, Wait, Waits
from moothall.studio.event_feed import EventFeed
from moothall.studio.page import FormError

_MAX_REASON_CHARS: Final = 2_000
_REQUEST_FIELDS: Final = ("agent", "action", "args", "sender", "fingerprint", "note", "facts")
"""What is told of a call, as it is in the request."""
_MAX_STORED: Final = 500
"""How many waits of a journal are cards at a time: the oldest."""
_NOT_OPEN: Final = "card {} is not open: it was answered, or what asked has ended"


_Reader: TypeAlias = Callable[..., tuple[Any, str]]
"""Takes what a page may say, by name, each of its type; returns the answer, and it in a word."""


@dataclass
class Card:
    """What waits for a person: an `approval`, a `question`, a `decision` of H, or a `doubt`."""

    number: int
    kind: str
    subject: dict[str, Any]
    asked_at: float
    deliver: Callable[[Any], None] = field(repr=False)  # passes the answer on
    read_answer: _Reader = field(repr=False)
    wait_key: tuple[str, str] | None = None  # of the journal: the run, and the key of the wait

    def to_json(self) -> dict[str, Any]:
        """Return the card as pages get it."""
        return {"number": self.number, "kind": self.kind, "asked": self.asked_at, **self.subject}


class Cards:
    """The open cards. This is the Approver of what the studio runs.

    Any page may answer a card; the first answer counts. A card whose asker is cancelled goes away.
    """

    title: ClassVar[str] = "the person at the studio"

    def __init__(self, feed: EventFeed) -> None:
        self._feed = feed
        self._open: dict[int, Card] = {}
        self._numbers = itertools.count(1)
        self._lock = guard()
        self._refresh_lock = guard()  # of two refreshes at once, both would make a card of a wait
        self._last_fingerprint: tuple[Any, ...] | None = None  # what waited at the last refresh

    def to_json(self) -> list[dict[str, Any]]:
        """Return the open cards, the oldest first."""
        with self._lock:
            return [card.to_json() for card in self._open.values()]

    async def approve(self, request: ApprovalRequest, **labels: str) -> Any:
        """Ask whether an action is permitted; show `labels` too. Without an open page, wait."""
        subject, read = _approval_subject(request)
        return await self.ask("approval", {**labels, **subject}, read)

    async def answer(self, question: Question) -> str:
        """Ask a person an action's question."""
        subject = {"agent": question.agent, "run": question.run, **question.details}
        return str(await self.ask("question", subject))

    async def ask(self, kind: str, subject: dict[str, Any], read: _Reader | None = None) -> Any:
        """Show a card on every page, and wait for its answer, which `read` checks."""
        loop = asyncio.get_running_loop()
        number, future = next(self._numbers), loop.create_future()

        def deliver(value: Any) -> None:
            try:
                loop.call_soon_threadsafe(_set_result, future, value)
            except RuntimeError:
                raise CardGone(f"card {number} is not open: its program has ended") from None

        card = Card(number, kind, subject, time.time(), deliver, read or _read_answer)
        self._show(card)
        try:
            return await future
        except asyncio.CancelledError:
            # A page may have answered in this moment.
            with suppress(CardGone):
                self._close(card.number, "withdrawn")
            raise

    def decide(self, number: int, answer: dict[str, Any]) -> str:
        """Answer a card as a page said, in any thread; return the outcome in a word."""
        with self._lock:
            card = self._open.get(number)
        if card is None:
            raise CardGone(_NOT_OPEN.format(number))
        try:
            args = Action.of(card.read_answer).check(answer, card.kind)
        except InvalidArguments as error:
            raise ConfigError(str(error)) from None
        try:
            value, outcome = card.read_answer(**args)
            if card.wait_key is not None:
                card.deliver(value)  # it may be refused there: then the card stays
        except (ConfigError, InvalidArguments) as error:
            if not answer.get("args"):
                raise
            # Of edited arguments: it stands at its field, or below them all.
            raise FormError(str(error), argument=error.argument) from error
        if card.wait_key is not None:
            with suppress(CardGone):  # a refresh has found the answer in the journal
                self._close(number, outcome)
            return outcome
        # First: of two pages that answer at once, the one that closes the card is heard.
        self._close(number, outcome)
        card.deliver(value)
        return outcome

    def refresh_waits(self, journal: Journal, answerer: str) -> None:
        """Show what runs of a journal wait for, and take away what they wait for no longer.

        Args:
            journal: the journal
            answerer: the name in which answers are given
        """
        with self._refresh_lock:
            fingerprint = (journal.path, *journal.waits.fingerprint())
            if fingerprint != self._last_fingerprint:
                self._show_waits(journal, answerer)
                self._last_fingerprint = fingerprint

    def _show_waits(self, journal: Journal, answerer: str) -> None:
        """Make cards of what waits, and take those away that wait no longer."""
        waiting = journal.waiting(kind=Waits.of_a_person)[:_MAX_STORED]
        waits = {(each.run, each.key): each for each in waiting}
        with self._lock:
            numbers_by_wait = {
                card.wait_key: card.number for card in self._open.values() if card.wait_key
            }
        for wait in [each for each in numbers_by_wait if each not in waits]:
            with suppress(CardGone):
                self._close(numbers_by_wait[wait], _close_outcome(journal, wait[0]))
        for wait_key, each in waits.items():
            if wait_key not in numbers_by_wait:
                try:
                    self._show(self._card_of_wait(each, journal, answerer))
                except MoothallError as error:  # another version's, or deleted: the others show
                    self._feed.publish("run_fault", {"run": each.run, "error": str(error)})

    def drop_waits(self) -> None:
        """Take away what runs of the journal wait for: it is closed."""
        self._last_fingerprint = None
        with self._lock:
            stored = [card.number for card in self._open.values() if card.wait_key]
        for number in stored:
            with suppress(CardGone):
                self._close(number, "withdrawn")

    def _card_of_wait(self, wait: Wait, journal: Journal, answerer: str) -> Card:
        """Return the card of what a run waits for in the journal."""
        request, kind = wait.request, wait.kind
        subject: dict[str, Any]
        read: _Reader
        if kind == "question" and wait.action == HumanDecision.wait_action and not wait.path:
            kind, subject, read = "decision", _decision_subject(journal, wait), _read_decision
        elif isinstance(request, ApprovalRequest):
            subject, read = _approval_subject(request)
        else:
            subject = {"agent": request.agent, "run": wait.run, **request.details}
            read = _read_answer
            if kind == "doubt":
                subject["text"], read = wait.line, _read_doubt
            elif kind in ("operator", "paused"):
                kind = "question"
                if wait.kind == "paused":
                    subject["text"] = f"{wait.text}: answer 'go-on', and it goes on"

        def deliver(value: Any) -> None:
            try:
                journal.answer(wait.run, wait.key, value, by=answerer)
            except StateError as error:
                raise CardGone(str(error)) from error

        wait_key = (wait.run, wait.key)
        return Card(next(self._numbers), kind, subject, wait.since, deliver, read, wait_key)

    def _show(self, card: Card) -> None:
        with self._lock:
            self._open[card.number] = card
        self._feed.publish("card", card.to_json())

    def _close(self, number: int, outcome: str) -> None:
        """Take a card away. Raises CardGone: another page, or its asker, was faster."""
        with self._lock:
            if self._open.pop(number, None) is None:
                raise CardGone(_NOT_OPEN.format(number))
        self._feed.publish("card_gone", {"number": number, "said": outcome})


class RunApprover:
    """Has a run of the studio wait in its journal for the person at the page.

    What cannot wait there, such as a call of an agent that has no run, is a card.

    Args:
        cards: the cards
        **labels: what else a card tells, such as the task
    """

    title: ClassVar[str] = Cards.title

    def __init__(self, cards: Cards, **labels: str) -> None:
        self._cards = cards
        self._labels = labels

    async def approve(self, request: ApprovalRequest) -> Any:
        """Have the run wait for the decision."""
        return Later() if request.waits_in else await self._cards.approve(request, **self._labels)

    async def answer(self, question: Question) -> str | Later:
        """Have the run wait for the answer."""
        return Later() if question.waits_in else await self._cards.answer(question)


def _close_outcome(journal: Journal, run: str) -> str:
    """Return why a run waits no longer: it is answered, or it was cancelled or deleted."""
    with suppress(NoSuchRun):
        if journal.run(run).state != "cancelled":
            return "answered"
    return "withdrawn"


def _set_result(future: asyncio.Future[Any], value: Any) -> None:
    # Cancelled in the turn in which the answer came.
    if not future.done():
        future.set_result(value)


def _decision_subject(journal: Journal, wait: Wait) -> dict[str, Any]:
    """Return what H of a dual act decides about: the task, and what R has concluded last."""
    state = Entry.state_in(journal.entries(wait.run)) or {}
    conclusions = state.get("conclusions", [])
    subject = {"agent": "H", "run": wait.run, "told": state.get("told", [])}
    last = conclusions[-1] if conclusions else None
    return {**subject, "conclusion": last, "task": state.get("task", ""), "round": len(conclusions)}


def _approval_subject(request: ApprovalRequest) -> tuple[dict[str, Any], _Reader]:
    """Return what a card says of a call, and how its answer is read."""
    subject = {name: getattr(request, name) for name in _REQUEST_FIELDS}
    subject |= {"run": request.run_id, "outside": [*request.outside], "line": str(request)}
    choices = {word: kind.label for word, kind in DECISION_KINDS.choices_for(request).items()}
    subject |= {"editable": request.check is not None, "choices": choices}
    subject["formats"] = {
        name: each["format"]
        for name, each in (request.schema or {}).get("properties", {}).items()
        if isinstance(each, dict) and isinstance(each.get("format"), str)
    }
    return subject, _ApprovalReader(request).read


class _ApprovalReader:
    """What a page may say to an action that wants permission."""

    def __init__(self, request: ApprovalRequest) -> None:
        self._request = request

    def read(
        self,
        permit: bool | None = None,
        fingerprint: str = "",
        choice: str = "",
        reason: Annotated[str, Field(max_length=_MAX_REASON_CHARS)] = "",
        args: dict[str, Any] | None = None,
    ) -> tuple[Any, str]:
        """Return the decision, and its word; a choice says by itself whether it permits."""
        request, choices = self._request, DECISION_KINDS.choices_for(self._request)
        if choice and choice not in choices:
            allowed = f"one of {', '.join(choices)}" if choices else "empty"
            raise ConfigError(f"choice must be {allowed} for this call, got {choice!r:.80}")
        kind = choices.get(choice)
        permits = permit if kind is None else kind.permits and permit is not False
        if permits is None:
            raise ConfigError("permit must be true or false where there is no choice")
        if permits and fingerprint != request.fingerprint:
            raise ConfigError("the fingerprint is not that of the call: look at it again")
        if permits and args is not None:
            if choice or request.check is None:
                raise ConfigError("args must be for this call alone, where it can be changed")
            request.check(args)
        permission = True if args is None else ChangedArgs(args)
        refusal = Refused(reason.strip()) if reason.strip() else False
        plain_decision = permission if permits else refusal
        decision = kind.type() if kind is not None and kind.permits is permits else plain_decision
        return decision, DECISION_KINDS.outcome_of(decision)


def _read_answer(text: str) -> tuple[str, str]:
    if not text.strip():
        raise ConfigError("text must be an answer in words")
    return text, "answered"


def _read_doubt(decision: str, result: Any = None) -> tuple[Any, str]:
    kind = Doubt.decisions.get(decision)
    return ({decision: result} if kind is not None and kind.type else decision), "decided"


def _read_decision(choice: str, instruction: str = "", reasoning: str = "") -> tuple[str, str]:
    if choice not in _CHOICES:
        raise ConfigError(f"choice must be one of {', '.join(_CHOICES)}, got {choice!r:.80}")
    action, meaning = _CHOICES[choice]
    if meaning.instructs and not instruction.strip():
        raise ConfigError(f"to {choice}, write an instruction")
    instruction = instruction.strip() if meaning.instructs else ""
    reasoning = reasoning.strip() or f"{meaning.outcome} by a person"
    return json_text(HumanDecision(action, instruction, reasoning).to_json()), meaning.outcome


_CHOICES: Final = {
    meaning.choice: (action, meaning) for action, meaning in HumanDecision.choices.items()
}
