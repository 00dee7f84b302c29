"""Persons and tables given to a population: their names mean what they mean for agents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Final

from moothall import ConfigError
from moothall.society.arrays import Array, np, table_suffix
from moothall.society.columns.column import COMMIT_COLUMNS, Column
from moothall.society.columns.table import columns_of, extra_column
from moothall.society.people.census_columns import NUMBERS, standard_columns
from moothall.society.people.generator import NEEDS, completed
from moothall.society.people.means import UNKNOWN_INCOME
from moothall.society.people.params import PeopleParams
from moothall.society.people.table import NUMBER, read_people

Table = dict[str, Any]
Persons = list[dict[str, Any]]
_DRAWN_COLUMNS: Final = (
    *("home", "work", "age", "gender", "education", "household", "skill", "pay"),
    *NEEDS,
)
"""Columns that are drawn where nobody has a value."""
_WORD_COLUMNS: Final = ("gender", "education")  # whose last word stands for no other
_SOCIAL_COLUMNS: Final = ("friends", "friendship", "interest", "interest_topic", "opinions")


def read_citizens(
    citizens: Any, city: Any, seed: int, params: PeopleParams
) -> tuple[Any, Table, Persons]:
    """Return the ids, and the columns or the persons, of a table or of `make_people`.

    Raises:
        ConfigError: they are neither, or a value is wrong
    """
    if isinstance(citizens, str | PathLike) and table_suffix(citizens) in (".csv", ".tsv"):
        citizens = completed(read_people(Path(citizens), city), city, seed=seed, params=params)
    is_rows = isinstance(citizens, list | tuple) and len(citizens) > 0
    if not is_rows or not all(isinstance(each, Mapping) and "id" in each for each in citizens):
        ids, table = columns_of(citizens)
        return ids, _read_columns(table), []
    if wrong := [each["id"] for each in citizens if type(each["id"]) is not int]:
        raise ConfigError(f"the ids of a population must be whole numbers, got {wrong[0]!r:.80}")
    persons = sorted(citizens, key=lambda each: each["id"])
    ids = np.array([each["id"] for each in persons], np.uint64)
    if (ids[1:] == ids[:-1]).any():
        raise ConfigError(f"id {int(ids[1:][ids[1:] == ids[:-1]][0])} appears twice")
    return ids, {}, persons


def _read_columns(table: Table) -> Table:
    """Return the columns of a table by moothall's names, as arrays."""
    arrays: Table = {}
    for name, cells in standard_columns(table, "the table").items():
        if name == "id":
            continue
        arrays[name] = _to_array(cells, name)
        if name in NUMBERS and arrays[name].dtype.kind not in "biuf":
            raise ConfigError(f"column {name!r} must be of numbers, got {arrays[name].dtype}")
        if name == "household_id" and arrays[name].dtype.kind not in "biuf":
            numbers = {"": -1, None: -1}
            household_numbers = (
                numbers.setdefault(each, len(numbers) - 2) for each in arrays[name].tolist()
            )
            arrays[name] = np.fromiter(household_numbers, np.int64, len(cells))
    return arrays


def _to_array(cells: Any, name: str) -> Array:
    """Return cells as an array: of numbers, empty ones as NaN, if they are numbers or their texts.

    What stands for a whole number is one, as in a table of agents.
    """
    values = np.asarray(cells)
    if values.dtype.kind in "biuf" or name == "household_id":
        return values
    cells = [None if each is None or each == "" else each for each in values.tolist()]
    filled = [each for each in cells if each is not None]
    if not filled or not all(isinstance(e, int | float) or _is_number(e) for e in filled):
        return np.array(cells, object)
    if len(filled) == len(cells) and all(type(e) is int or "." not in str(e) for e in cells):
        integers = [int(each) for each in cells]  # a float has 53 bits
        if max(map(abs, integers)) < 1 << 63:
            return np.array(integers, np.int64)
    numbers = np.array(["nan" if each is None else each for each in cells], np.float64)
    is_whole = ((numbers % 1 == 0) & (abs(numbers) < 1 << 63)).all()
    return numbers.astype(np.int64) if is_whole else numbers


def _is_number(text: object) -> bool:
    return isinstance(text, str) and NUMBER.fullmatch(text.strip()) is not None


def with_pay(table: Table, declared: Mapping[str, Column]) -> Table:
    """Return a table whose `income`, dollars a year, is the column `pay`, if it has no `pay`."""
    if "pay" not in declared or "pay" in table or "income" not in table:
        return table
    dollars = np.asarray(table["income"], np.float64)
    columns = {("pay" if name == "income" else name): each for name, each in table.items()}
    dollars = np.where(np.isnan(dollars), UNKNOWN_INCOME, dollars)
    return {**columns, "pay": np.rint(dollars).astype(np.int64)}


def write_persons(population: Any, persons: Sequence[Mapping[str, Any]]) -> set[str]:
    """Write persons into the columns; return the names of the columns that they give."""
    declared, arrays = population.declared, population.arrays
    limit = next((b.params.friends for b in population.blocks if hasattr(b.params, "friends")), 0)
    _add_attributes(population, persons)
    for row, person in enumerate(persons):
        profile = dict(person.get("profile") or {})
        for name in profile.keys() & declared.keys() & {*_WORD_COLUMNS}:
            title = f"citizen {person['id']}: {name}"
            declared[name].number_of(title, profile[name], population.place_number)
        if "pay" in declared and "income" in profile:
            profile["income"] = round(profile["income"])
        status = {**person, "profile": profile}
        if len(status.get("relations", ())) > limit:
            status["relations"] = dict([*status["relations"].items()][:limit])
        population.pull(row, status)
        arrays["money"][row] = status.get("money", 0)
        if population.places:
            arrays["place"][row] = population.place_number(status.get("place"))
    paths = {
        name: column.key or (name,)
        for name, column in declared.items()
        if name not in COMMIT_COLUMNS and not column.own
    }
    counts = _count_paths(persons, {path[0] for path in paths.values() if len(path) > 1})
    names = {name for name, path in paths.items() if path in counts}
    drawn_names = names & {*_DRAWN_COLUMNS} if hasattr(population.city, "by_kind") else ()
    for name in sorted(each for each in drawn_names if counts[paths[each]] < len(persons)):
        first_id = next(
            each["id"] for each in persons if not _count_paths([each], paths[name][:1])[paths[name]]
        )
        raise ConfigError(
            f"citizen {first_id} has no {name!r}, and others have one: completed(rows, city) draws "
            "what is missing"
        )
    return names | ({*_SOCIAL_COLUMNS, "school", "jobless", "occupation", "money"} & {*arrays})


def _count_paths(persons: Iterable[Mapping[str, Any]], parents: Collection[str]) -> Counter[Any]:
    """Return how many persons have each part of a status, by its path; parts of `parents`, too."""
    counts: Counter[object] = Counter()
    for person in persons:
        counts.update((name,) for name in person)
        for name in parents:
            counts.update((name, each) for each in person.get(name) or ())
    return counts


def _add_attributes(population: Any, persons: Sequence[Mapping[str, Any]]) -> None:
    """Declare a column for each attribute of one's own in the profiles."""
    keys = {column.key for column in population.declared.values()}
    profiles = [person.get("profile") or {} for person in persons]
    names = dict.fromkeys(name for each in profiles for name in each)
    for name in names:
        if ("profile", name) in keys or name == "interests":
            continue
        if name in population.declared:
            raise ConfigError(f"attribute {name!r} must have another name: a column has it")
        values = _to_array([each.get(name) for each in profiles], name)
        column, population.arrays[name] = extra_column(name, values)
        population.declared[name] = replace(column, key=("profile", name))
