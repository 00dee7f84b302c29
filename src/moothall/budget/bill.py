"""Bills: what calls of models have cost, for a record of it."""

from __future__ import annotations

from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from moothall.budget.amounts import KINDS, Amounts, stored_of
from moothall.budget.limits import RESERVED
from moothall.foundation.threads import reset

if TYPE_CHECKING:
    from moothall.budget.budget import Budget
    from moothall.budget.reservation import Hold, Reservation


@dataclass(slots=True, eq=False)
class Bill:
    """The reservations of a budget by a call of a model, and what they have cost.

    Others spend from the same budget meanwhile, so its amounts before and after do not tell.
    """

    budget: Budget
    holds: list[Hold] = field(default_factory=list)

    def json(self) -> dict[str, Any]:
        """Return what was settled or is still reserved, as JSON data."""
        spent = [sum(each.spent[kind] for each in self.holds) for kind in KINDS]
        return charged_json(tuple(spent))


@dataclass(slots=True, eq=False)
class ModelCall:
    """A call of a model that is under way in a `with` block, which may be entered again."""

    step: Any = None  # its recorded step, in which a model keeps what a resumed run must find
    bill: Bill | None = None  # takes what models reserve; that of the call around it by default
    attempt: int = 1  # the number of the try: at temperature 0 a second one would repeat the first
    _token: Token[ModelCall] | None = None

    def __enter__(self) -> None:
        outer = MODEL_CALL.get()
        self.attempt, self.bill = outer.attempt, self.bill or outer.bill
        self._token = MODEL_CALL.set(self)

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        reset(self._token)


_NO_CALL: Final = ModelCall()  # nobody enters it, so it stays as it is
MODEL_CALL: Final[ContextVar[ModelCall]] = ContextVar("moothall_model_call", default=_NO_CALL)
"""The call of a model in this context."""


def add_to_bill(reservation: Reservation, budget: Budget) -> None:
    """Put a reservation on the bill of the call, if its budget is this one or its ancestor."""
    bill = MODEL_CALL.get().bill
    if bill is not None and budget.is_part_of(bill.budget):
        bill.holds.append(reservation.hold)


def charged_json(amounts: Amounts) -> dict[str, Any]:
    """Return what was charged, as JSON data: all that asking a model takes, and what else is."""
    return stored_of(
        amounts, [kind for kind in KINDS if amounts[kind] or RESERVED[kind].bounds_asking]
    )
