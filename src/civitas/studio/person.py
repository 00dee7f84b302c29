"""The person at the page as H of a dual act: a card for each conclusion, answered by a choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from civitas.reasoning.dualact.conclusions import DECISION_SCHEMA, Conclusion, HumanDecision
from civitas.reasoning.events import ConclusionReached, Event
from civitas.reasoning.prompts import json_text
from civitas.reasoning.reply_request import AnswerSchema, Asked
from civitas.studio.cards import Cards


class PageDesk:
    """Asks the person at the page, by cards. For `Person(id, desk=…)`."""

    def __init__(self, cards: Cards, task: str) -> None:
        self._cards = cards
        self._task = task
        self._concluded: list[Conclusion] = []

    def saw(self, event: Event) -> None:
        """What the dual act shows to who watches it: the conclusions, with their evidence."""
        if isinstance(event, ConclusionReached):
            self._concluded.append(event.conclusion)

    async def ask(
        self, asked: Asked, told: Sequence[str], fault: str
    ) -> str | HumanDecision | None:
        """What the person decides, or writes."""
        about: dict[str, Any] = {"agent": "H", "run": asked.run_id, "told": list(told)}
        if asked.schema == DECISION_SCHEMA:
            last = self._concluded[-1].to_json() if self._concluded else None
            of = {"task": self._task, "round": len(self._concluded), "conclusion": last}
            decision: HumanDecision = await self._cards.ask("decision", {**about, **of})
            return decision
        text = asked.content if isinstance(asked.content, str) else json_text(asked.content)
        schema = None if asked.schema is None else AnswerSchema(asked.schema).json
        form = f"Answer with JSON that follows this schema: {json_text(schema)}" if schema else ""
        text = "\n\n".join(each for each in (text, *told, fault or form) if each)
        return str(await self._cards.ask("question", {**about, "text": text}))
