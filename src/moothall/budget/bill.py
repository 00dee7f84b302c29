"""Bills: what calls of models have cost, for a record of it."""

from __future__ import annotations

from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moothall.budget.amounts import KINDS
from moothall.budget.limits import USD
from moothall.foundation.threads import reset

if TYPE_CHECKING:
    from moothall.budget.budget import Budget
    from moothall.budget.reservation import Reservation

_OPEN: ContextVar[Bill | None] = ContextVar("moothall_bill", default=None)


@dataclass(slots=True, eq=False)
class Bill:
    """The reservations of a budget while the bill is open, and what they have cost.

    In a `with` block, which may be entered again later, it takes what models reserve in this
    context, and no other bill does. Others spend from the same budget meanwhile, so its amounts
    before and after do not tell.
    """

    _budget: Budget
    _held: list[Reservation] = field(default_factory=list)
    _token: Token[Bill | None] | None = None

    def __enter__(self) -> None:
        self._token = _OPEN.set(self)

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        reset(self._token)

    def json(self) -> dict[str, Any]:
        """Return what was settled or is still reserved, as JSON data."""
        tokens, usd, calls, *_ = (sum(held._spent[kind] for held in self._held) for kind in KINDS)
        return charged_json(tokens, usd, calls)


def add_to_bill(held: Reservation, budget: Budget) -> None:
    """Put a reservation on the open bill, if the bill's budget is this one or its ancestor."""
    bill = _OPEN.get()
    if bill is not None and budget.is_part_of(bill._budget):
        bill._held.append(held)


def charged_json(tokens: int, picodollars: int, model_calls: int) -> dict[str, Any]:
    """Return what was charged, as JSON data."""
    return {"tokens": tokens, "usd": USD.digits(picodollars), "model_calls": model_calls}
