"""What services read of all citizens at once, and how they pay them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from moothall.society.arrays import Array, np

_DEFAULTS: Final = {
    "work": -1,
    "age": 18,
    "jobless": -1,
    "skill": 1000,
    "income": 0,
    "money": 0,
    "rents": 0,
}
"""What stands for nothing in what is read."""


def citizens_of(books: Any, names: Iterable[str]) -> tuple[Array, dict[str, Array]]:
    """Return all citizens in order of id: ids as numbers, and what is read of them."""
    population = books.population
    rows = np.arange(len(population))
    columns = {name: books.column(name, rows, _DEFAULTS[name]) for name in names}
    return population.ids, columns


def pay_citizens(
    books: Any, rows: Array, cents: Array, service: str, *, is_income: bool = True
) -> None:
    """Let a service pay citizens cents, or be paid those below 0; who pays must have the money.

    What is income of the day, as wages are, counts in what citizens spend.
    """
    population, arrays = books.population, books.population.arrays
    arrays["money"][rows] += cents
    books.balances[service] -= int(cents.sum())
    if not is_income:
        return
    if "earned" in arrays:
        population.pull_column("earned")[rows] += cents
        population.note_written("earned")
