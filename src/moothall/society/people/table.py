"""Citizens from a table, CSV or Parquet: each cell is checked; an error names row and column."""

from __future__ import annotations

import difflib
import logging
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final, NamedTuple

from moothall import ConfigError, MoothallError
from moothall.build import address, check_integer, error_text, excerpt
from moothall.society.arrays import csv_rows, import_package, kind_in_words, table_suffix
from moothall.society.blocks.columns import HOUSEHOLDS
from moothall.society.blocks.needs import NEEDS
from moothall.society.city.places import Places
from moothall.society.people.census_columns import CENSUS_COLUMN_NAMES, NUMBERS, standard_columns

logger: logging.Logger = logging.getLogger("moothall.society")
PROFILE_COLUMNS: Final = ("age", "skill", "gender", "education", "interests")
"""The columns that stand in a citizen's `profile`."""
_MAX_MONEY = 10**15
_INTEGER: Final = re.compile(r"(-?[0-9]{1,19})(\.0)?")  # pandas writes `.0` where cells are empty
_CODE: Final = re.compile(r"0[0-9]+")
_PERSON_IDS: Final = ("person_id", "perid")  # of ActivitySim and PopulationSim
_ID: Final = re.compile("0|[1-9][0-9]{,18}")
_NUMBER_RANGES: Final = {
    "age": (0, 120),
    "skill": (0, 100_000),
    "money": (0, _MAX_MONEY),
    **dict.fromkeys(NEEDS, (0, 1000)),
}
_WEIGHT_RANGES: Final = {"interests": (0, 1000), "opinions": (-1000, 1000), "relations": (0, 1000)}
_TEXT_COLUMNS: Final = ("name", "home", "work", "school", "gender", "education")
COLUMNS: Final = ("id", *_TEXT_COLUMNS, *_NUMBER_RANGES, *_WEIGHT_RANGES)
"""The columns that have a meaning of their own; all others are attributes of the profile."""
NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{,17})(\.[0-9]+)?")  # `007` is a text
_MAX_TEXT: Final = 2000  # the characters of an attribute, at most


def read_people(
    path: str | Path, city: Places | None = None, *, households: str | Path | None = None
) -> list[dict[str, Any]]:
    """Return the citizens of a table, as input of `completed`, which draws what is missing.

    A row is a citizen. `id` is required; other columns and cells may be missing. The columns:

    * `id` (a whole number, or a text), `name`, `home`, `work`, `school` (ids of places)
    * `age` 0–120, `gender`, `education`, `skill` 0–100,000
    * `money` (cents, 0 or more)
    * each of `NEEDS` (`blocks/needs.py`), such as `hunger`: 0–1000
    * `interests` (`music:800;sport:500`, 0–1000), `opinions` (−1000–1000) and `relations` (by id of
      others, 0–1000)
    * `household_id`, or `household` with whole numbers: who has the same lives in one home, and is
      kin, whatever the order of rows. It stands in the citizen's `profile`
    * `income`, dollars a year, and `weight`: numbers. `occupation`: one of the six groups of
      `blocks.columns.OCCUPATIONS`; rules take any other text as `other`
    * `licence` and `rents` (yes or no), `cars` and `bicycles` of the household, `values`: two of
      `blocks.columns.VALUES`, such as `security, tradition`
    * any others: attributes of one's own, which stand in the citizen's `profile`; a number, or a
      text of up to 2,000 characters. A name that is nearly one of the above is refused as a slip

    Names and codes of the U.S. Census Bureau's PUMS, of IPUMS USA and of the NHTS are read, too
    (`people/census_columns.py`), and numbers as `52,000`, `1,25` or `52.000,50`.

    Args:
        path: a `.parquet` file, or a `.csv` or `.tsv` one with a header, in UTF-8, or UTF-16 with
            its mark; with commas, semicolons or tabs; also packed, as `.csv.gz`. Lines of a remark
            begin with `# `
        city: the city that must have `home`, `work` and `school`; None skips this check
        households: a table of their households, each with its `household_id`: its `home` and its
            other columns are those of its persons, unless these have their own

    Raises:
        ConfigError: the file cannot be read, or a column, a cell or an id is wrong
        MissingExtra: the file is Parquet, and pyarrow is not installed
    """
    table = read_table(path)
    people = checked_people(table.rows, table.columns, city, table.name, comma=table.comma)
    if households is not None:
        _join_households(people, read_table(households), city)
    return people


class PeopleTable(NamedTuple):
    """A file's name, its columns and rows, and whether its numbers may have a decimal comma."""

    name: str
    columns: list[str]
    rows: list[dict[str, Any]]
    comma: bool


def read_table(path: str | PathLike[str]) -> PeopleTable:
    """Return what a `.csv`, `.tsv` or `.parquet` file has."""
    if not isinstance(path, str | PathLike):
        raise ConfigError(f"a table must be the path of a file, got {kind_in_words(path)}")
    file = Path(path)
    read = {".parquet": _parquet, ".csv": _csv, ".tsv": _csv}.get(table_suffix(file))
    if read is None:
        raise ConfigError(f"{file.name}: a table must be .csv, .csv.gz, .tsv or .parquet")
    try:
        return PeopleTable(file.name, *read(file))
    except MoothallError:
        raise
    except Exception as error:  # pyarrow has its own error types
        raise ConfigError(f"{file.name} cannot be read: {error_text(error)}") from error


def checked_people(
    rows: Iterable[Mapping[str, object]],
    columns: Iterable[str] = COLUMNS,
    city: Places | None = None,
    source: str = "table",
    *,
    comma: bool = False,
) -> list[dict[str, Any]]:
    """Return the citizens of rows, checked; see `read_people`."""
    rows = list(rows)
    table = _standard_table(rows, columns, source, comma=comma)
    names = [*table]
    for column in names:
        if column not in COLUMNS:
            _check_attribute(column, source)
    if "id" not in names:
        raise ConfigError(f"{source} has no column 'id', a number or text of each person")
    attributes = [each for each in names if each not in COLUMNS]
    if attributes and "age" not in names and "gender" not in names:
        logger.warning(
            "%s has neither 'age' nor 'gender', which are drawn; attributes of your own: %s",
            source,
            ", ".join(attributes[:20]),
        )
    people: list[dict[str, object]] = []
    row_by_id: dict[int | str, int] = {}
    for number, cells in enumerate(zip(*table.values(), strict=True), 1):
        row = dict(zip(names, cells, strict=True))
        label = f"{source}, row {number}"
        person = _read_person(row, label, city, attributes)
        first_row = row_by_id.setdefault(person["id"], number)
        if first_row != number:
            raise ConfigError(
                f"{label}, column 'id': {person['id']!r} is the id of row {first_row} too"
            )
        if str(person["id"]) in person.get("relations", ()):
            raise ConfigError(f"{label}, column 'relations' names the citizen itself")
        people.append(person)
    if not people:
        raise ConfigError(f"{source} has no rows")
    return people


def _standard_table(
    rows: list[Mapping[str, Any]], columns: Iterable[str], source: str, *, comma: bool
) -> dict[str, Any]:
    """Return rows as columns of moothall's names. ConfigError: one appears twice."""
    names = list(columns)
    for column in names:
        if names.count(column) > 1:
            raise ConfigError(f"{source}: column {column!r} appears twice")
        if not isinstance(column, str):
            _check_attribute(column, source)
    cells = {name: [row.get(name) for row in rows] for name in names}
    id_column = next((name for name in names if name.lower() in _PERSON_IDS), "id")
    if "id" not in cells and id_column in cells:
        cells["id"] = cells.pop(id_column)
    standard = dict(standard_columns(cells, source, comma=comma))
    return {n: each if n in COLUMNS else _read_numbers(each) for n, each in standard.items()}


def _join_households(people: list[dict[str, Any]], table: PeopleTable, city: Any) -> None:
    """Give persons what a table has of their households."""
    columns = _standard_table([*table.rows], table.columns, table.name, comma=table.comma)
    if "income" in columns:  # all of a household have it together
        columns.setdefault("household_income", columns.pop("income"))
    key = next((name for name in ("household_id", "id") if name in columns), None)
    if key is None:
        raise ConfigError(f"{table.name} has no column 'household_id'")
    households: dict[str, dict[str, object]] = {}
    for number, row in enumerate(zip(*columns.values(), strict=True), 1):
        label, values = f"{table.name}, row {number}", dict(zip(columns, row, strict=True))
        number = values.pop(key)
        id = _household("" if number is None else _attribute(number, f"{label}, column {key!r}"))
        if id in households:
            raise ConfigError(f"{label}: household {id!r} appears twice")
        households[id] = {}
        for name, value in values.items():
            if name != "home" and name in COLUMNS:
                raise ConfigError(f"{table.name}: column {name!r} is of persons, not of households")
            if value not in (None, ""):
                households[id][name] = (
                    value if name == "home" else _attribute_named(name, value, label)
                )
            if name == "home" and value and city is not None and value not in city:
                raise ConfigError(f"{label}: the city has no place {excerpt(value)}")
    for person in people:
        profile = person.get("profile") or {}
        own_household = profile.get("household_id", profile.get("household"))
        if own_household is not None and _household(own_household) not in households:
            subject = f"household {own_household!r} of citizen {person['id']!r}"
            raise ConfigError(f"{table.name} has no row of {subject}")
        for name, value in households.get(_household(own_household), {}).items():
            (person if name == "home" else profile).setdefault(name, value)


def _household(id: object) -> str:
    """Return the id of a household as a text: pandas writes `1.0` where cells are empty."""
    return str(int(id) if isinstance(id, float) and id.is_integer() else id)


def _read_person(
    row: Mapping[str, Any], label: str, city: Any, attributes: Iterable[str]
) -> dict[str, Any]:
    person: dict[str, Any] = {}
    for column in COLUMNS:
        value = row.get(column)
        if value is None or value == "":
            if column == "id":
                raise ConfigError(f"{label}, column 'id' is empty")
            continue
        at = f"{label}, column {column!r}"
        if column == "id":
            value = _read_id(value, at)
        elif column in _NUMBER_RANGES:
            value = _read_number(value, *_NUMBER_RANGES[column], at)
        elif column in _WEIGHT_RANGES:
            value = dict(_read_weights(value, *_WEIGHT_RANGES[column], at))
        elif not isinstance(value, str) or not value.isprintable() or len(value) > 255:
            raise ConfigError(f"{at} must be a text of up to 255 characters, got {excerpt(value)}")
        elif column in ("home", "work", "school") and city is not None and value not in city:
            raise ConfigError(f"{at}: the city has no place {excerpt(value)}")
        group = "needs" if column in NEEDS else "profile" if column in PROFILE_COLUMNS else ""
        (person.setdefault(group, {}) if group else person)[column] = value
    for name in attributes:
        value = row.get(name)
        if value is not None and value != "":
            value = _attribute_named(name, value, label)
            person.setdefault("profile", {})[name] = value
    return person


def _attribute_named(name: str, value: object, label: str) -> Any:
    """Return an attribute, which must be a number if it has a name that says so."""
    value = _attribute(value, f"{label}, column {excerpt(name)}")
    if name in NUMBERS and not isinstance(value, int | float):
        raise ConfigError(f"{label}, column {name!r} must be a number, got {value!r:.80}")
    if name == "household" and isinstance(value, str) and value not in HOUSEHOLDS:
        rule = f"a whole number or one of {', '.join(HOUSEHOLDS)}, got {excerpt(value)}"
        raise ConfigError(f"{label}, column {name!r} must be {rule}: other ids are `household_id`")
    if name == "occupation" and not isinstance(value, str):
        rule = f"must be a text, got {value!r:.80}: codes are read from OCCP, OCC or SOCP"
        raise ConfigError(f"{label}, column {name!r} {rule}")
    return value


def _check_attribute(name: str, source: str) -> None:
    """Check the name of an attribute of one's own; one that is nearly a known column is a slip."""
    if not isinstance(name, str) or not 0 < len(name) <= 100 or not name.isprintable():
        rule = f"the name of a column must be a text of 1 to 100 characters, got {excerpt(name)}"
        hint = "" if name else ": pandas writes its index so, without to_csv(…, index=False)"
        raise ConfigError(f"{source}: {rule}{hint}")
    if name.lower() in CENSUS_COLUMN_NAMES:  # another column of its meaning came first
        return
    if near := difflib.get_close_matches(name.lower(), COLUMNS, 1, 0.8):
        raise ConfigError(
            f"{source}: unknown column {excerpt(name)}: did you mean {near[0]!r}? If it is an "
            "attribute of your own, give it another name"
        )


def _read_numbers(cells: Sequence[object]) -> Sequence[Any]:
    """Return texts that are numbers as such; where codes begin with 0, as `01`, all are texts."""
    texts = {cell: cell.strip() for cell in cells if isinstance(cell, str)}
    if any(_CODE.fullmatch(text) for text in texts.values()):
        return cells
    numbers = {
        cell: (float if match[2] else int)(text)
        for cell, text in texts.items()
        if (match := NUMBER.fullmatch(text))
    }
    return [numbers.get(cell, cell) if isinstance(cell, str) else cell for cell in cells]


def _attribute(value: object, at: str) -> str | int | float:
    """Return an attribute: a number, a boolean, or a text."""
    if isinstance(value, str):
        value = value.strip()
        if len(value) <= _MAX_TEXT and value.isprintable():
            return value
    elif isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    expected = f"a number, or a printable text of up to {_MAX_TEXT:,} characters"
    raise ConfigError(f"{at} must be {expected}, got {excerpt(value)}")


def _read_id(value: Any, at: str) -> int | str:
    if isinstance(value, str) and _ID.fullmatch(value):
        value = int(value)
    try:
        address(value)
    except Exception as error:
        raise ConfigError(f"{at}: {error}") from None
    return value  # type: ignore[no-any-return]


def _read_number(value: Any, low: int, high: int, at: str) -> int:
    number = value
    if isinstance(value, str) and (match := _INTEGER.fullmatch(value.strip())):
        number = int(match[1])
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    check_integer(at, number, low, high)
    return number  # type: ignore[no-any-return]


def _read_weights(value: object, low: int, high: int, at: str) -> Iterator[tuple[str, int]]:
    if not isinstance(value, str):
        raise ConfigError(f"{at} must be text such as 'music:800;sport:500', got {excerpt(value)}")
    for part in filter(None, map(str.strip, value.split(";"))):
        name, colon, number = part.rpartition(":")
        if not colon or not name.strip():
            raise ConfigError(f"{at} must be name:number;…, got {excerpt(part)}")
        yield name.strip(), _read_number(number.strip(), low, high, f"{at}, {name.strip()!r}")


def _csv(file: Path) -> tuple[list[str], list[dict[str, Any]], bool]:
    with csv_rows(file) as lines:
        columns = [column.strip() for column in next(lines, [])]
        rows: list[dict[str, object]] = []
        for cells in filter(None, lines):
            if len(cells) == 1 < len(columns) and cells[0].startswith("# "):
                continue  # a remark
            if len(cells) != len(columns):
                raise ConfigError(
                    f"{file.name}, row {len(rows) + 1} (line {lines.line_num}) must have "
                    f"{len(columns)} cells, got {len(cells)}"
                )
            rows.append(dict(zip(columns, map(str.strip, cells), strict=True)))
        return columns, rows, lines.dialect.delimiter == ";"


def _parquet(file: Path) -> tuple[list[str], list[dict[str, Any]], bool]:
    table = import_package("pyarrow.parquet", "Parquet", "tables").read_table(file)
    rows = [{k: None if v != v else v for k, v in row.items()} for row in table.to_pylist()]
    return list(table.column_names), rows, False  # NaN is an empty cell
