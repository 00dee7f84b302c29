"""Charging budgets: for calls of a model, and for what a run spent in another process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from moothall.budget.bill import Bill, charged_json
from moothall.budget.limits import picodollars
from moothall.errors import BudgetExceeded
from moothall.models.base import answer_of
from moothall.models.protocol import Usage

if TYPE_CHECKING:
    from moothall.budget import Budget
    from moothall.journal import Entry
    from moothall.reasoning.step import Step


@dataclass(slots=True)
class Spending:
    """The recorded spending of a run."""

    answers: int = 0  # how often a model gave an answer, or failed
    tokens: int = 0
    usd: Decimal = Decimal(0)  # what the tokens cost, as far as that was known then
    model_calls: int = 0
    actions: int = 0
    unpriced: Usage = field(default_factory=Usage)  # tokens whose price was not known
    untold: int = 0  # tokens without a price that may be input or output

    def add(self, charged: Mapping[str, Any] | None, usage: Usage | None = None) -> None:
        """Add the cost of one model call."""
        usage = usage or Usage()
        stated = usage.total
        if charged is None:
            charged = charged_json(stated, 0, 1)
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
    """Return what one agent's part in a run has spent, without calls that a budget refused."""
    spent = Spending()
    reserved: dict[str, Mapping[str, Any]] = {}  # for the steps without an end
    interrupted = False  # the last answer was cut off, and nothing says yet that the run was too
    for entry in entries:
        data = entry.data
        about = data.get("about", {})
        if interrupted:
            spent.answers += entry.kind == "state"  # the run goes on without that answer
            interrupted = False
        if entry.kind == "started" and "part" not in data:
            if data["key"] in reserved:  # the one before was cut off
                spent.add(reserved.pop(data["key"]).get("reserved"))
            if "model" in about:
                reserved[data["key"]] = data
            elif "action" in about:
                spent.actions += 1
        elif entry.kind in ("ended", "failed") and data["key"] in reserved:
            del reserved[data["key"]]
            usage = (data.get("result") or {}).get("usage")
            cost = data.get("charged")
            spent.add(cost, None if usage is None else Usage(*usage))
            # Calls that a budget refused, or that were cut off with their run, do not count.
            if cost is None or cost["model_calls"]:
                interrupted = bool(data.get("cancelled"))
                spent.answers += not interrupted
    for left in reserved.values():
        spent.add(left.get("reserved"))
    return spent


async def begun(
    step: Step, budget: Budget | None, model: Any, *asked: Any, args: Any = None
) -> AbstractContextManager[None]:
    """Record that a call begins and what it reserves; return the context that it is charged in."""
    if budget is None:
        await step.begins(args)
        return nullcontext()
    bill = Bill(budget)
    step.charge(bill.json)
    try:
        tokens, usd = model._most(*asked)
        reserved = charged_json(tokens, picodollars("reserve", usd), 1)
    except Exception:
        reserved = None  # the call itself raises the same error
    await step.begins(args, reserved)
    return bill.opened()


def budgeted(model: Any, budget: Budget | None) -> Any:
    """Return the model bound to a budget; without a budget, the model itself."""
    if budget is None:
        return model
    from moothall.models.wrappers.budgeted import BudgetedModel

    return BudgetedModel(model, budget)


async def completed(
    model: Any,
    budget: Budget | None,
    prompt: list[dict[str, Any]],
    schema: dict[str, Any] | None,
    step: Step,
) -> Any:
    """Ask a model once its reservation is recorded, and return its answer."""
    model = budgeted(model, budget)
    # Pass a schema only if there is one: a user's own model may not have the parameter.
    more = {} if schema is None else {"schema": schema}
    args = {"messages": prompt, **more}
    with await begun(step, budget, model, prompt, None, schema, args=args):
        return await answer_of(model, prompt, **more)


def charge_spent(budget: Budget, model: Any, spent: Spending) -> None:
    """Charge a budget what was spent, even if that is more than it allows."""
    usd = spent.usd
    if spent.untold or spent.unpriced != Usage():
        usd += _price(budget, model, spent.unpriced, spent.untold)
    calls, actions = spent.model_calls, spent.actions
    # No further call starts; the reply of a run that has ended is returned all the same.
    with suppress(BudgetExceeded):
        budget.charge(tokens=spent.tokens, usd=usd, model_calls=calls, actions=actions)


def _price(budget: Budget, model: Any, usage: Usage, untold: int) -> Decimal:
    """Return the cost, at current prices, of tokens that were recorded without a price."""
    # The record does not say which of several models it was, nor the direction: take the dearest.
    models = getattr(model, "models", [model])
    input, output = usage.input_tokens, usage.output_tokens
    dearest: Decimal = max(
        (
            budgeted(each, budget).cost(*counts)
            for each in models
            for counts in ((input + untold, output), (input, output + untold))
        ),
        default=Decimal(0),
    )
    return dearest
