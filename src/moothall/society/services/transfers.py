"""Pensions and rents, each day.

Who is old and does not work has a pension of the formula of the United States' Social Security for
2022 (Social Security Administration, "Primary Insurance Amount": 90, 32 and 15 of 100 of the mean
monthly earnings, up to 1,024, up to 6,172 and above, in dollars). The mean earnings are 75 of 100
of what one's skill earns by full work: fitted to benefits of 1,669 dollars a month in the mean
(Social Security Administration, June 2022). They are paid from contributions of 124 of 1,000 of
wages, as of worker and employer there. 35 of 100 households rent (American Community Survey 2022:
65.2 own their home), for 31 of 100 of their income, which is assumed. Rents go to those who own
theirs, in equal parts: who owns which home is assumed not to matter.
"""

from __future__ import annotations

from typing import Any, Final

from moothall.build import check_integer
from moothall.society.arrays import Array, np
from moothall.society.columns.ledger import PENSION_AGE, RENT, pension_of
from moothall.society.kernel.commit import Books, Service
from moothall.society.kernel.kept import sets_own
from moothall.society.services.accounts import citizens_of, pay_citizens

_READ: Final = ("work", "age", "skill", "income", "money", "rents")
_ADULT_AGE: Final = 18


class Transfers(Service):
    """Pays pensions from the government's money, and rents from tenants to owners, each day.

    The government does not borrow: if it has less than the day's pensions, each is cut by the same
    share. A tenant pays of its usual income, and at most what it has.

    Args:
        id: the id of the service
        wage: the usual wage, cents an hour, which pensions follow
        pension: pensions, in thousandths of the formula's
        rent: rents, in thousandths of a tenant's usual income after rent

    Attributes:
        counts: of the last day, in cents: `pensions`, `unpaid` (pensions), `rents`; empty before
    """

    @sets_own
    def __init__(
        self, id: str = "transfers", *, wage: int = 2500, pension: int = 1000, rent: int = RENT
    ) -> None:
        super().__init__(id)
        for name, value in (("wage", wage), ("pension", pension), ("rent", rent)):
            check_integer(f"{id}: {name}", value, 0, None)
        self.wage: int = wage
        self.pension: int = pension
        self.rent: int = rent
        self.counts: dict[str, int] = {}

    def after_step(self, books: Books) -> None:
        """Close each day that ends with this step."""
        for _ in range(books.days_ended):
            self._close(books)

    def _close(self, books: Books) -> None:
        _, columns = citizens_of(books, _READ)
        old = (columns["age"] >= PENSION_AGE) & (columns["work"] < 0)
        pensions: Array = pension_of(columns["skill"], self.wage) * old * self.pension // 1000
        cents, total = pensions, int(pensions.sum())
        available = max(0, books.balances.get("government", 0))
        if total > available:
            cents = pensions * (available * 1_000_000 // total) // 1_000_000
        _pay(books, cents, "government")
        rents = np.minimum(columns["money"], columns["income"] * self.rent // 1000)
        rents = np.maximum(rents, 0) * (columns["rents"] > 0)
        _pay(books, -rents, self.id)
        is_owner = (columns["age"] >= _ADULT_AGE) & (columns["rents"] <= 0)
        share = books.balances[self.id] // max(1, int(is_owner.sum()))
        _pay(books, share * is_owner, self.id)
        self.counts = {
            "pensions": int(cents.sum()),
            "unpaid": total - int(cents.sum()),
            "rents": int(rents.sum()),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the last day's counts."""
        return {"counts": dict(self.counts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        self.counts = dict(state["counts"])


def _pay(books: object, cents: Array, service: str) -> None:
    rows = np.flatnonzero(cents)
    if len(rows):
        pay_citizens(books, rows, cents[rows], service)
