"""The agents of orders that the studio runs, whose questions to a person are cards."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from moothall import Person
from moothall.studio.cards.cards import Cards, RunApprover
from moothall.studio.cards.plan import PlanDesk
from moothall.studio.orders.act import ActOrder, act_agent, check_journal_apart, model_keys
from moothall.studio.orders.research import ResearchOrder, check_research, make_researcher

if TYPE_CHECKING:
    from moothall import Journal


def agent_for(
    run_id: str,
    order: ActOrder | ResearchOrder,
    journal: Journal,
    cards: Cards,
    wait_until_resumed: Callable[[], Awaitable[Any]],
) -> Any:
    """Return an order's agent; one that acts awaits `wait_until_resumed()` before each call."""
    agent: Any
    if not isinstance(order, ActOrder):
        check_research(order)
        desk = PlanDesk(cards, run_id)
        review = desk.review if order.review_plan else None
        agent = make_researcher(order, journal, os.environ.get("MOOTHALL_KEY"), review)
        agent.approver, desk.tools, desk.is_by_model = cards, agent.tools, order.model is not None
        return agent
    check_journal_apart(order, journal.path)
    key, own_key = model_keys(order, {})  # a key of moothall.toml is for the command that read it
    options: dict[str, Any] = {"key": key, "own_key": own_key, "journal": journal}
    options["approver"] = RunApprover(cards, task=order.task, folder=order.root)
    if order.review == "me":
        person = Person("you", approver=options["approver"])
        agent = act_agent(order, reviewer=person, **options)
    else:
        agent = act_agent(order, **options)

    async def pause_hook(agent: Any, about: dict[str, Any]) -> None:
        await wait_until_resumed()

    # A dual act calls nothing itself: its members wait.
    reviewed = hasattr(agent, "human_agent")
    for each in (agent.human_agent, agent.reactive_agent) if reviewed else (agent,):
        each.register_hook("pre_reasoning", "studio", pause_hook)
        each.register_hook("pre_acting", "studio", pause_hook)
    return agent
