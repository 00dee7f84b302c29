"""The agents of orders that the studio runs, whose questions to a person are cards."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from moothall import Person
from moothall.studio.cards.cards import Cards, RunApprover
from moothall.studio.cards.plan import PlanDesk
from moothall.studio.orders.act import ActOrder, act_agent, check_journal_apart, model_keys
from moothall.studio.orders.research import ResearchOrder, check_research, make_researcher

if TYPE_CHECKING:
    from moothall import Journal


def agent_for(run_id: str, order: ActOrder | ResearchOrder, journal: Journal, cards: Cards) -> Any:
    """Return an order's agent."""
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
        options["reviewer"] = Person("you", approver=options["approver"])
    return act_agent(order, **options)
