"""Counting what a run has spent in another process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from civitas.budget.amounts import picodollars
from civitas.budget.bill import charged_json
from civitas.errors import BudgetExceeded, DeadlineExceeded
from civitas.models.protocol import Usage

if TYPE_CHECKING:
    from civitas.budget import Budget
    from civitas.journal import Entry

__all__ = ["Spending", "charge", "most_json", "spending"]


class Spending:
    """What a run has spent, as it was recorded.

    Attributes:
        tokens: how many tokens
        usd: what they cost, as far as that was known then
        model_calls: how often a model was asked
        actions: how many actions were executed
        unpriced: those of the tokens of which it was not known
        untold: the same, where it is not even known whether they went in or came out
    """

    __slots__ = ("actions", "model_calls", "tokens", "unpriced", "untold", "usd")

    def __init__(self) -> None:
        self.tokens = 0
        self.usd = Decimal(0)
        self.model_calls = 0
        self.actions = 0
        self.unpriced = Usage()
        self.untold = 0

    def add(
        self, charged: Mapping[str, Any] | None, usage: Usage | None = None, calls: int = 1
    ) -> None:
        """Count a call of a model.

        Args:
            charged: what was charged for it; None where there was no budget
            usage: what its answer stated
            calls: how many calls it was, where that was not recorded
        """
        usage = usage or Usage()
        stated = usage.input_tokens + usage.output_tokens
        if charged is None:
            charged = charged_json(stated, 0, calls)
        tokens, usd = charged["tokens"], Decimal(charged["usd"])
        self.tokens += tokens
        self.usd += usd
        self.model_calls += charged["model_calls"]
        if usd:
            return
        if tokens < stated:
            self.untold += tokens
        else:
            self.unpriced = self.unpriced + usage
            self.untold += tokens - stated


def spending(entries: Iterable[Entry]) -> Spending:
    """What one agent's part in a run has spent; not, where a budget refused it."""
    spent = Spending()
    waits: Mapping[str, Any] | None = None
    for entry in entries:
        data = entry.data
        if entry.kind == "asked":
            if waits is not None:  # the one before was cut off
                spent.add(waits.get("reserved"))
            waits = data
        elif entry.kind in ("answered", "failed", "charged"):
            usage = data["answer"]["usage"] if entry.kind == "answered" else None
            spent.add(data.get("charged"), None if usage is None else Usage(*usage))
            waits = None
        elif entry.kind == "started":
            spent.actions += 1
        elif entry.kind == "over" and data["reason"] == "budget":
            waits = None
    if waits is not None:
        spent.add(waits.get("reserved"))
    return spent


def most_json(model: Any, *asked: Any) -> dict[str, Any] | None:
    """What a call will reserve, as JSON data; None if that cannot be told.

    Args:
        model: the model, which a budget bounds
        *asked: what it is asked
    """
    try:
        tokens, usd = model._most(*asked)
    except Exception:
        return None  # the call itself fails of it, and says so
    return charged_json(tokens, picodollars("reserve", usd), 1)


def charge(budget: Budget, model: Any, spent: Spending) -> None:
    """Have a budget of this process know what was spent before; one that is shared knows it.

    Args:
        budget: the budget
        model: whose tokens they were
        spent: what was spent

    Raises:
        BudgetExceeded: it is more than the budget allows; it counts all the same
        DeadlineExceeded: the budget's seconds are over
        UnknownPrice: nobody has stated what the model costs, and the budget limits money
    """
    if budget.is_shared:
        return
    tokens, calls, actions = spent.tokens, spent.model_calls, spent.actions
    usd = spent.usd + _price(budget, model, spent.unpriced, spent.untold)
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


def _price(budget: Budget, model: Any, usage: Usage, untold: int) -> Decimal:
    """What tokens cost by the prices of now, where nobody knew a price or had a budget then."""
    from civitas.models.wrappers.budgeted import BudgetedModel

    # Which model of several it was is not recorded, nor what went in: the dearest.
    models = getattr(model, "models", None) or [model]
    input, output = usage.input_tokens, usage.output_tokens
    return max(
        BudgetedModel(each, budget).cost(*counts)
        for each in models
        for counts in ((input + untold, output), (input, output + untold))
    )
