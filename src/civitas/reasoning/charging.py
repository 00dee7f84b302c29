"""Counting what a run has spent in another process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from civitas.errors import BudgetExceeded, DeadlineExceeded

if TYPE_CHECKING:
    from civitas.budget import Budget
    from civitas.models.protocol import Usage

__all__ = ["charge"]


def charge(budget: Budget, model: Any, usage: Usage, calls: int, actions: int = 0) -> None:
    """Have a budget of this process know what was spent before; one that is shared knows it.

    Args:
        budget: the budget
        model: whose tokens they were
        usage: the tokens
        calls: how often the model was asked
        actions: how many actions were executed

    Raises:
        BudgetExceeded: it is more than the budget allows; it counts all the same
        DeadlineExceeded: the budget's seconds are over
        UnknownPrice: nobody has stated what the model costs, and the budget limits money
    """
    if budget.is_shared:
        return
    from civitas.models.budgeted import BudgetedModel

    # Which model of several it was is not recorded: the dearest.
    models = getattr(model, "models", None) or [model]
    counts = (usage.input_tokens, usage.output_tokens)
    usd = max(BudgetedModel(each, budget).cost(*counts) for each in models)
    tokens = sum(counts)
    try:
        held = budget.reserve(tokens=tokens, usd=usd, model_calls=calls, actions=actions)
    except DeadlineExceeded:
        raise
    except BudgetExceeded:
        # It was spent all the same: all of it counts, and then nothing more begins.
        left = budget.left
        held = budget.reserve(
            model_calls=calls if left.model_calls is None else min(calls, left.model_calls),
            actions=actions if left.actions is None else min(actions, left.actions),
        )
        held.settle(tokens=tokens, usd=usd)
    else:
        held.settle()
