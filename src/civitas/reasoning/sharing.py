"""One budget for several agents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from civitas.errors import ConfigError

if TYPE_CHECKING:
    from civitas.budget import Budget

__all__ = ["share_budget"]


def share_budget(owner: Any, agents: Iterable[Any], budget: Budget | None) -> None:
    """Have agents spend of a budget, those that have a part of it of that.

    Args:
        owner: whose agents they are, for errors
        agents: the agents; one that knows of no budgets is passed over
        budget: the budget

    Raises:
        ConfigError: an agent has a budget that is no part of this one, or there is none to share;
            then nobody has been given it
    """
    if budget is None:
        raise ConfigError(f"agent {owner.id!r}: what was spent counts in the budget it had")
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
