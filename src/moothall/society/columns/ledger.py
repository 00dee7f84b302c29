"""Arrays of what services store of a population, and rules that settle many wants at once."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from itertools import chain, pairwise
from typing import Any, Final

from moothall.society.arrays import Array, WholeNumber, larger, np, smaller
from moothall.society.columns.register import Register

BRACKETS: Final[tuple[tuple[int, int], ...]] = (
    (0, 100),
    (2_610, 120),
    (10_603, 220),
    (22_603, 240),
    (43_151, 320),
    (54_795, 350),
    (136_986, 370),
)
"""Income tax: (cents of a day's income, thousandths of the income above them).

The federal brackets of the United States of 2018, as in EconAgent: a year's, divided by 365.
"""
CONTRIBUTION: Final = 124
"""Thousandths of a wage for pensions: of worker and employer (Social Security Administration)."""
PENSION_AGE: Final = 67
_BENDS: Final = ((0, 90), (102_400, 32), (617_200, 15))  # cents a month, and hundredths above them
_CAREER_SHARE: Final = 75  # hundredths of full work that one has earned, in the mean
RENT: Final = 450
"""Thousandths of the income after rent: 31 of 100 of the income before it."""
MAX_SUM: Final = 2.0**62
"""From this size on, sums are computed one by one, in Python's integers, not in columns."""


class ByRow(MutableMapping[str, Any]):
    """A service's numbers for each citizen, by id, in an array; who has only 0 is missing.

    Those of who has left stay, by id, in `departed`.
    """

    def __init__(self, population: Register, width: int | None = None) -> None:
        self._population = population
        count = len(population)
        shape = count if width is None else (count, width)
        self.array: Array = np.zeros(shape, np.int64, order="F")
        self.departed: dict[str, Any] = {}

    def __getitem__(self, id: str) -> Any:
        row = self._population.find_row(id)
        if row is None or not self.array[row].any():
            return self.departed[id]
        return self.array[row].tolist()

    def __setitem__(self, id: str, value: object) -> None:
        row = self._population.find_row(id)
        if row is None:
            self.departed[id] = value
        else:
            self.array[row] = value

    def __delitem__(self, id: str) -> None:
        self[id] = 0

    def __iter__(self) -> Iterator[str]:
        return (id for id, _ in self.items())

    def __len__(self) -> int:
        return int(np.count_nonzero(self._has_any)) + len(self.departed)

    @property
    def _has_any(self) -> Any:
        return self.array != 0 if self.array.ndim == 1 else (self.array != 0).any(axis=1)

    def clear(self) -> None:
        """Set all numbers to 0."""
        self.array[...] = 0
        self.departed.clear()

    def items(self) -> Any:
        """Return ids and numbers of the citizens that have any."""
        rows = np.flatnonzero(self._has_any)
        ids = map(self._population.id_of, rows.tolist())
        return chain(zip(ids, self.array[rows].tolist(), strict=True), self.departed.items())


class LedgerField:
    """A whole number of a service, which the array of a `ServiceLedger` keeps if it has one."""

    def __set_name__(self, owner: Any, name: str) -> None:
        self._name: str = name
        self.stored_name: str = f"_{name}"
        owner.state_names = (*getattr(owner, "state_names", ()), name)

    def __get__(self, service: Any, owner: type) -> int:
        if service.ledger is None:
            amount: int = getattr(service, self.stored_name)
            return amount
        return int(service.ledger.arrays[self._name][service.index])

    def __set__(self, service: Any, value: int) -> None:
        if service.ledger is None:
            setattr(service, self.stored_name, value)  # `vars` would create a dict for each
        else:
            service.ledger.arrays[self._name][service.index] = value


class ServiceLedger:
    """The `LedgerField`s of services of one class, in arrays. OverflowError: too large."""

    def __init__(self, services: Sequence[Any], names: Sequence[str], books: Any) -> None:
        self.services = services
        self.arrays: dict[str, Array] = {
            name: np.array([getattr(each, name) for each in services], np.int64) for name in names
        }
        purses, places = books.balances, books.population.place_numbers
        self.money_index: Array = np.array([purses.index[each.id] for each in services], np.int64)
        self.place: Array = np.array([places.get(each.place, -1) for each in services], np.int64)
        for index, each in enumerate(services):
            each.ledger, each.index = self, index


def has_rows_rule(kind: type, rule: str, rows: str) -> bool:
    """Return whether `rows` is defined by the class that defines `rule`, or by a subclass."""
    rule_definer, owner = definer(kind, rule), definer(kind, rows)
    return rule_definer is not None and owner is not None and issubclass(owner, rule_definer)


def definer(kind: type, name: str) -> Any:
    """Return the class, of a class and its bases, that defines a name; None if none does."""
    return next((each for each in kind.__mro__ if name in vars(each)), None)


# `payer`: the index in `has`, the money; `order_of` gives the order of some of the payments.
def affordable(cents: Array, payer: Array, has: Array, order_of: Callable[[Array], Array]) -> Array:
    """Return which payments are made: as heard, each in full, as far as the payer's money lasts."""
    totals = np.bincount(payer, cents, len(has))
    able = np.ones(len(cents), bool)
    poor = totals > has * (1 - 2.0**-40)  # the error of float sums is far smaller
    poor &= totals > 0
    entries = np.flatnonzero(poor[payer])
    if len(entries):
        remaining = dict(zip(np.flatnonzero(poor).tolist(), has[poor].tolist(), strict=True))
        for entry in entries[order_of(entries)].tolist():
            index, cost = int(payer[entry]), int(cents[entry])
            able[entry] = remaining[index] >= cost
            remaining[index] -= cost * bool(able[entry])
    return able


def tax_on(income: WholeNumber, brackets: Sequence[tuple[int, int]] = BRACKETS) -> Any:
    """Return the tax in cents on a day's income; each bracket's part is rounded down."""
    starts, rates = (list(each) for each in zip(*brackets, strict=True))
    tax_below = [0]  # the full tax of the brackets below
    for (start, rate), (end, _) in pairwise(brackets):
        tax_below.append(tax_below[-1] + (end - start) * rate // 1000)
    if type(income) is int:
        bracket: Any = bisect(starts, income) - 1
        return tax_below[bracket] + (income - starts[bracket]) * rates[bracket] // 1000
    bracket = np.searchsorted(starts, income, side="right") - 1
    part = (income - np.array(starts)[bracket]) * np.array(rates)[bracket]
    return np.array(tax_below)[bracket] + part // 1000


def pension_of(skill: Array, wage: int) -> Any:
    """Return the pension of a day, in cents, by skill and the usual wage of an hour."""
    month = wage * larger(0, skill) // 1000 * 2080 // 12 * _CAREER_SHARE // 100
    parts = [larger(0, month - start) for start, _ in _BENDS] + [0]
    tiers = zip(parts, parts[1:], _BENDS, strict=False)
    return sum((part - above) * rate // 100 for part, above, (_, rate) in tiers) * 12 // 365


def tax_to_withhold(
    gross: Array, income: Array, tax_paid: Array, brackets: Sequence[tuple[int, int]], days: int = 1
) -> Any:
    """Return the tax to withhold from wages of some days, given the earlier income and tax."""
    total = income + gross
    tax = tax_on(total, brackets) if days == 1 else tax_on(total // days, brackets) * days
    return smaller(gross, larger(0, tax - tax_paid))


def credited_interest(
    deposits: Array, interest: int, fund: int, order_of: Callable[[Array], Array]
) -> Any:
    """Return a day's interest on deposits, at a rate in millionths, as far as `fund` cents last."""
    # Equals kept * interest // 1_000_000, whose product may overflow.
    earned = deposits // 1_000_000 * interest + deposits % 1_000_000 * interest // 1_000_000
    return earned * affordable(earned, np.zeros(len(earned), np.int64), np.array([fund]), order_of)


def divide(total: int, weights: Sequence[int], turns: Sequence[Any] = ()) -> list[int]:
    """Divide a whole number by weights, without a remainder: largest remainders (Hamilton).

    Of equal remainders the lowest turn is first; without turns, the first weight.
    """
    weight_sum = sum(weights)
    if weight_sum == 0:
        return [0] * len(weights)
    parts = [total * weight // weight_sum for weight in weights]
    order = sorted(range(len(weights)), key=turns.__getitem__) if turns else range(len(weights))
    by_remainder = sorted(order, key=lambda i: -(total * weights[i] % weight_sum))
    for i in by_remainder[: total - sum(parts)]:
        parts[i] += 1
    return parts
