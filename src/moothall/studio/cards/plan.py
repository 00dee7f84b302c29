"""The plan of research as a card: a person sees and changes it before research begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moothall.action import Action
from moothall.errors import ConfigError, InvalidArguments
from moothall.studio.cards.cards import Cards

if TYPE_CHECKING:
    from moothall.research import ProposedPlan

_LINES: Final = 200
"""The most tasks, and the most sections, of a plan."""
_SAID: Final = 10_000


class PlanDesk:
    """Asks the person at the page about a run's plan, by cards."""

    def __init__(self, cards: Cards, run: str) -> None:
        self._cards, self._run = cards, run
        self.tools: Mapping[str, Action] = {}
        self.by_model = False

    async def review(self, plan: ProposedPlan) -> ProposedPlan | str | bool:
        """Return what the person says: the plan to be carried out, what is to change, or False."""
        from moothall.research.findings import Heading, ResearchTask

        about = {
            "agent": "researcher",
            "run": self._run,
            "objectives": plan.objectives,
            "tasks": [asdict(each) for each in plan.tasks],
            "outline": [asdict(each) for each in plan.outline],
            "tools": {name: [*_parameters(each)] for name, each in self.tools.items()},
            "by_model": self.by_model,
        }
        said = await self._cards.ask("plan", about, partial(_plan, tools=self.tools))
        if not isinstance(said, dict):
            answer: str | bool = said
            return answer
        plan.tasks = [ResearchTask(**each) for each in said["tasks"]]
        plan.outline = [Heading(**each) for each in said["outline"]]
        return plan


def _parameters(tool: Action) -> dict[str, Any]:
    found: dict[str, Any] = tool.parameters.get("properties", {})
    return found


def _plan(
    about: dict[str, Any], answer: dict[str, Any], tools: Mapping[str, Action]
) -> tuple[Any, str]:
    """Return what a page said of a plan: False, a text, or its tasks and sections, checked."""
    choice = answer.get("choice")
    if choice == "stop":
        return False, "stopped"
    if choice == "again":
        text = answer.get("text")
        if not isinstance(text, str) or not text.strip() or len(text) > _SAID:
            raise ConfigError("write what is to change in the plan")
        return text.strip(), "planned anew"
    if choice != "begin":
        raise ConfigError(f"choice must be begin, again or stop, got {choice!r:.80}")
    tasks = [_task(each, tools) for each in _listed(answer, "tasks")]
    if not tasks:
        raise ConfigError("the plan has no task left: add one, or stop the research")
    outline = [_section(each) for each in _listed(answer, "outline")]
    return {"tasks": tasks, "outline": outline}, "begun"


def _listed(answer: dict[str, Any], name: str) -> list[Any]:
    given = answer.get(name, [])
    if not isinstance(given, list) or len(given) > _LINES:
        raise ConfigError(f"{name} must be a list of at most {_LINES}")
    return given


def _task(given: Any, tools: Mapping[str, Action]) -> dict[str, Any]:
    """Return a task; ConfigError or InvalidArguments if no tool can do it."""
    if not isinstance(given, dict) or not isinstance(given.get("args"), dict):
        raise ConfigError(f"a task must be a tool and its arguments, got {given!r:.80}")
    name, why = given.get("tool"), given.get("reasoning", "")
    if not isinstance(name, str) or name not in tools or not isinstance(why, str):
        raise ConfigError(f"a task's tool must be one of {', '.join(tools)}, got {name!r:.80}")
    try:
        tools[name].check(dict(given["args"]))
    except InvalidArguments as error:
        raise ConfigError(f"a task cannot be done: {error}") from None
    return {"tool": name, "args": given["args"], "reasoning": why[:_SAID]}


def _section(given: Any) -> dict[str, str]:
    if not isinstance(given, dict):
        raise ConfigError(f"a section must be a heading and what it is about, got {given!r:.80}")
    heading, about = given.get("heading", ""), given.get("about", "")
    if not (isinstance(heading, str) and isinstance(about, str)) or not heading.strip():
        raise ConfigError("each section needs a heading")
    return {"heading": " ".join(heading.split())[:120], "about": " ".join(about.split())[:500]}
