"""What services read of all citizens at once, and how they pay them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from moothall.society.arrays import np
from moothall.society.kernel.draw import hashed
from moothall.society.kernel.wants import id_order

_READ: Final[Mapping[str, tuple[tuple[str, ...], int]]] = {
    "work": (("work",), -1),
    "age": (("profile", "age"), 18),
    "jobless": (("jobless",), -1),
    "skill": (("profile", "skill"), 1000),
    "income": (("income",), 0),
    "money": (("money",), 0),
    "rents": (("profile", "rents"), 0),
}
"""Where a status has what is read, and what stands for nothing."""


def citizens_of(books: Any, read: Iterable[str]) -> tuple[Any, Any, dict[str, Any]]:
    """Return all citizens in order of id: their names, ids as numbers, and what is read of them."""
    if hasattr(books, "population"):
        population = books.population
        rows = np.arange(len(population))
        columns = {name: books.column(name, rows, _READ[name][1]) for name in read}
        return _RowNames(population), population.ids, columns
    names = sorted(books.where, key=id_order)
    places = () if books.city is None else books.city.ids()
    numbers = {place: at for at, place in enumerate(places)}
    values: dict[str, list[int]] = {name: [] for name in read}
    for name in names:
        for key, of_all in values.items():
            path, none = _READ[key]
            value: Any = books.status_of(name)
            for part in path:
                value = (value or {}).get(part)
            value = numbers.get(value, -1) if key == "work" else value
            of_all.append(int(value) if isinstance(value, int | float) else none)
    ids = np.array([int(each) if each.isdigit() else hashed(each) for each in names], np.uint64)
    return names, ids, {name: np.array(each, np.int64) for name, each in values.items()}


class _RowNames:
    """The names of a population's citizens, by row."""

    def __init__(self, population: Any) -> None:
        self._population = population

    def __getitem__(self, row: int) -> str:
        return str(self._population.id_of(row))


def pay_citizens(
    books: Any, names: Any, some: Any, cents: Any, service: str, *, is_income: bool = True
) -> None:
    """Let a service pay citizens cents, or be paid those below 0; who pays must have the money.

    What is income of the day, as wages are, counts in what citizens spend.
    """
    if hasattr(books, "population"):
        arrays = books.population.arrays
        arrays["money"][some] += cents
        books.balances[service] -= int(cents.sum())
        if "earned" not in arrays or not is_income:  # nobody spends
            return
        agents = books.population.full[some]
        books.population.note_change()
        arrays["earned"][some[~agents]] += cents[~agents]
        some, cents = some[agents], cents[agents]
    else:
        for at, each in zip(some.tolist(), cents.tolist(), strict=True):
            pair = (service, names[at]) if each > 0 else (names[at], service)
            books.pay(*pair, abs(each))
    for at, each in zip(some.tolist(), cents.tolist(), strict=True):
        status = books.status_of(names[at])
        if is_income and "paid_day" in status:  # of those with an `EconomyBlock`
            books.set_status({"earned": status.get("earned", 0) + each}, [names[at]])
