"""The plan of research as a card: a person sees and changes it before research begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from moothall import Action, ConfigError, InvalidArguments, ResearchTask
from moothall.research import Heading
from moothall.studio.cards.cards import Cards

if TYPE_CHECKING:
    from moothall.research import ProposedPlan

_MAX_LINES: Final = 200
"""The most tasks, and the most sections, of a plan."""
_MAX_REMARK_CHARS: Final = 10_000


class PlanDesk:
    """Asks the person at the page about a run's plan, by cards."""

    def __init__(self, cards: Cards, run: str) -> None:
        self._cards, self._run = cards, run
        self.tools: Mapping[str, Action] = {}
        self.is_by_model = False

    async def review(self, plan: ProposedPlan) -> ProposedPlan | str | bool:
        """Return what the person says: the plan to be carried out, what is to change, or False."""
        subject = {
            "agent": "researcher",
            "run": self._run,
            "objectives": plan.objectives,
            "tasks": [asdict(each) for each in plan.tasks],
            "outline": [asdict(each) for each in plan.outline],
            "tools": {
                name: [*each.parameters.get("properties", {})] for name, each in self.tools.items()
            },
            "by_model": self.is_by_model,
        }
        answer: str | bool | tuple[list[ResearchTask], list[Heading]]
        answer = await self._cards.ask("plan", subject, self._read)
        if not isinstance(answer, tuple):
            return answer
        plan.tasks, plan.outline = answer
        return plan

    def _read(
        self,
        choice: Literal["begin", "again", "stop"],
        text: Annotated[str, Field(max_length=_MAX_REMARK_CHARS)] = "",
        tasks: Annotated[list[ResearchTask] | None, Field(max_length=_MAX_LINES)] = None,
        outline: Annotated[list[Heading] | None, Field(max_length=_MAX_LINES)] = None,
    ) -> tuple[Any, str]:
        """Return what a page said of a plan: False, a text, or its tasks and sections, checked."""
        if choice == "stop":
            return False, "stopped"
        if choice == "again":
            if not text.strip():
                raise ConfigError("write what is to change in the plan")
            return text.strip(), "planned anew"
        if not tasks:
            raise ConfigError("the plan has no task left: add one, or stop the research")
        for each in tasks:
            if (tool := self.tools.get(each.tool)) is None:
                raise ConfigError(
                    f"a task's tool must be one of {', '.join(self.tools)}, got {each.tool!r:.80}"
                )
            try:
                tool.check(dict(each.args))
            except InvalidArguments as error:
                raise ConfigError(f"a task cannot be done: {error}") from None
        for section in outline or ():
            section.heading = " ".join(section.heading.split())[:120]
            section.about = " ".join(section.about.split())[:500]
            if not section.heading:
                raise ConfigError("each section needs a heading")
        return (tasks, outline or []), "begun"
