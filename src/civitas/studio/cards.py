"""What waits for a person: approvals, questions and decisions, as cards on every page."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from civitas.approval import ApprovalRequest, Question
from civitas.errors import CardGone
from civitas.studio.feed import Feed

_DECIDED: Final = 200
"""So many cards that were answered are remembered, for a page that answers one a second time."""


@dataclass
class Card:
    """One thing that waits for a person: an `approval`, a `question`, or a `decision` of H."""

    number: int
    kind: str
    about: dict[str, Any]
    asked: float
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """What a page is told of it."""
        return {"number": self.number, "kind": self.kind, "asked": self.asked, **self.about}


class Cards:
    """What waits for a person. It is the Approver of what the studio runs.

    Any page may answer a card; the first answer counts, and every page is told. A card whose asker
    is cancelled goes away.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._open: dict[int, Card] = {}
        self._numbers = itertools.count(1)
        self._guard = threading.Lock()
        self._decided: dict[int, str] = {}

    def to_json(self) -> list[dict[str, Any]]:
        """The cards that wait, the oldest first."""
        with self._guard:
            return [card.to_json() for card in self._open.values()]

    def of_run(self, task: str, folder: str) -> CardsOfRun:
        """The approver of a run, whose cards say what it is for."""
        return CardsOfRun(self, {"task": task, "folder": folder})

    async def approve(
        self, request: ApprovalRequest, more: Mapping[str, Any] | None = None
    ) -> bool:
        """Ask whether an action is permitted. With nobody looking on, it waits."""
        about = {
            **(more or {}),
            "agent": request.agent,
            "action": request.action,
            "args": request.args,
            "sender": request.sender,
            "line": str(request),
            "fingerprint": request.fingerprint,
            "run": request.run_id,
        }
        return (await self.ask("approval", about)) is True

    async def answer(self, question: Question) -> str:
        """Ask a person what an action wants to know."""
        about = {"agent": question.agent, "text": question.text, "run": question.run}
        return str(await self.ask("question", about))

    async def ask(self, kind: str, about: dict[str, Any]) -> Any:
        """Put up a card, and wait for its answer."""
        loop = asyncio.get_running_loop()
        card = Card(next(self._numbers), kind, about, time.time(), loop, loop.create_future())
        with self._guard:
            self._open[card.number] = card
        self._feed.publish("card", card.to_json())
        try:
            return await card.answer
        except asyncio.CancelledError:
            self._close(card.number, "withdrawn")
            raise

    def decide(self, number: int, value: Any, said: str) -> None:
        """Answer a card, in any thread; `said` tells the other pages in a word."""
        card = self._close(number, said)
        if card is None:
            card = self.get(number)  # which says what it came to
        try:
            card.loop.call_soon_threadsafe(_set, card.answer, value)
        except RuntimeError:
            raise CardGone(f"card {number} is not open: its program has ended") from None

    def get(self, number: int) -> Card:
        """An open card; CardGone if it is not open."""
        with self._guard:
            card = self._open.get(number)
        if card is None:
            before = self._decided.get(number)
            raise CardGone(f"card {number} is not open" + (f": it was {before}" if before else ""))
        return card

    def _close(self, number: int, said: str) -> Card | None:
        with self._guard:
            card = self._open.pop(number, None)
            if card is None:
                return None
            self._decided[number] = said
            while len(self._decided) > _DECIDED:
                del self._decided[next(iter(self._decided))]
        self._feed.publish("card_gone", {"number": number, "said": said})
        return card


def _set(answer: asyncio.Future[Any], value: Any) -> None:
    if not answer.done():
        answer.set_result(value)


class CardsOfRun:
    """`Cards`, whose approvals say which run they are for."""

    def __init__(self, cards: Cards, about: dict[str, Any]) -> None:
        self._about = about
        self._cards = cards
        self.answer = cards.answer

    async def approve(self, request: ApprovalRequest) -> bool:
        """Ask whether an action is permitted."""
        return await self._cards.approve(request, self._about)
