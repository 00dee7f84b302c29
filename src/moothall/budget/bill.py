"""Bills: what calls of models and actions have cost, for a record of it."""

from __future__ import annotations

from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from moothall.budget.amounts import KINDS, Amounts, amounts_json
from moothall.budget.limits import RESERVABLE
from moothall.foundation.threads import reset

if TYPE_CHECKING:
    from moothall.budget.account import Account, Accounts


class BilledHold(Protocol):
    """What a reservation has taken of its accounts."""

    accounts: Accounts
    spent: Amounts


@dataclass(slots=True, eq=False)
class Bill:
    """The reservations of a budget by a call of a model or an action, and what they have cost.

    Others spend from the same budget meanwhile, so its amounts before and after do not tell.
    """

    account: Account  # of the budget
    holds: list[BilledHold] = field(default_factory=list)
    outer: Bill | None = None  # that of the call around it, which has the same reservations

    def to_json(self) -> dict[str, Any]:
        """Return what was settled or is still reserved, as JSON data."""
        spent = [sum(each.spent[kind] for each in self.holds) for kind in KINDS]
        return charged_json(tuple(spent))

    def take_json(self) -> dict[str, Any]:
        """Return the same, once; empty if nothing was reserved since."""
        charged = self.to_json() if self.holds else {}
        self.holds.clear()
        return charged


@dataclass(slots=True, eq=False)
class CallContext:
    """The context of a call of a model, or of an action that may ask some: for `with`.

    It may be entered again.
    """

    step: Any = None  # its recorded step, in which a model keeps what a resumed run must find
    bill: Bill | None = None  # takes what models reserve; that of the call around it by default
    attempt: int = 1  # the number of the try: at temperature 0 a second one would repeat the first
    _token: Token[CallContext] | None = None

    def __enter__(self) -> None:
        outer = CALL_CONTEXT.get()
        self.attempt = outer.attempt
        if self.bill is None:
            self.bill = outer.bill
        elif self.bill is not outer.bill:
            self.bill.outer = outer.bill
        self._token = CALL_CONTEXT.set(self)

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        reset(self._token)


_NO_CALL: Final = CallContext()  # nobody enters it, so it stays as it is
CALL_CONTEXT: Final[ContextVar[CallContext]] = ContextVar("moothall_model_call", default=_NO_CALL)
"""The call of a model in this context."""


def add_to_bill(hold: BilledHold) -> None:
    """Put a reservation on the bills of the calls around it, if it counts in their budgets."""
    bill = CALL_CONTEXT.get().bill
    while bill is not None:
        if any(map(bill.account.is_same, hold.accounts)):
            bill.holds.append(hold)
        bill = bill.outer


def charged_json(amounts: Amounts) -> dict[str, Any]:
    """Return what was charged, as JSON data: all that asking a model takes, and what else is."""
    return amounts_json(
        amounts,
        [kind for kind in KINDS if amounts[kind] or RESERVABLE[kind].bounds_asking],
    )
