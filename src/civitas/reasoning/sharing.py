"""One budget for several agents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from civitas.errors import BudgetExceeded, ConfigError
from civitas.reasoning.parts import check_part

if TYPE_CHECKING:
    from civitas.budget import Budget

__all__ = ["is_spent_for_all", "share_budget"]


def share_budget(owner: Any, agents: Iterable[Any], budget: Budget | None) -> None:
    """Have agents spend of a budget, those that have a part of it of that.

    Args:
        owner: whose agents they are, for errors
        agents: the agents; one that knows of no budgets is passed over
        budget: the budget

    Raises:
        DefinitionError: it is no budget
        ConfigError: an agent has a budget that is no part of this one, or there is none to share;
            then nobody has been given it
    """
    if budget is None:
        raise ConfigError(f"agent {owner.id!r}: what was spent counts in the budget it had")
    check_part(budget, ("reserve", "deadline", "is_part_of"), "budget", owner.id)
    agents = list(agents)
    for agent in agents:
        had = getattr(agent, "budget", None)
        if had is not None and not had.is_part_of(budget):
            raise ConfigError(
                f"{owner.id!r} and {agent.id!r} have budgets of their own: give the agent a "
                "child() of the other, or none"
            )
    for agent in agents:
        if getattr(agent, "budget", budget) is None:
            agent.budget = budget


def is_spent_for_all(budget: Budget | None, agent: Any, *, late: bool) -> bool:
    """Whether an agent that stopped at a limit met one that all who share a budget would meet.

    Args:
        budget: what they share, or None
        agent: the agent
        late: whether its time was over, and not something else spent
    """
    if budget is None:
        return False
    if _has_no_own(agent, budget):
        return True
    if late:
        return budget.remaining_seconds() == 0
    try:
        budget.check()
    except BudgetExceeded:
        return True
    left = budget.left
    return 0 in (left.tokens, left.usd, left.model_calls, left.actions)


def _has_no_own(agent: Any, budget: Budget) -> bool:
    """Whether an agent, and those that reply on its behalf, spend of nothing but this budget."""
    return getattr(agent, "budget", None) is budget and all(
        _has_no_own(member, budget) for member in getattr(agent, "_member_agents", ())
    )
