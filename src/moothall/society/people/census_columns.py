"""What offices call things in their tables of persons, and how they write numbers: one reader.

A known name has a meaning: that of moothall, or that of the Public Use Microdata Sample (PUMS) or
of IPUMS USA. Codes mean what their dictionaries say:

* U.S. Census Bureau, "2019–2023 ACS PUMS Data Dictionary": SEX, AGEP, SCHL, PINCP, PERNP, WAGP,
  HINCP, VEH, PWGTP, SERIALNO, SPORDER
* U.S. Census Bureau, "2018 Census Occupation Code List", by its five major groups and the armed
  forces: OCCP; and the 2018 Standard Occupational Classification: SOCP
* IPUMS USA, Codes and Frequencies: SEX, AGE, EDUC, EDUCD, INCTOT, INCEARN, INCWAGE, HHINCOME,
  VEHICLES, PERWT, HHWT, SERIAL, PERNUM, OCC; and IPUMS CPS: ASECWT (WTSUPP before), WTFINL, and
  EDUC with codes of its own. Amounts of nines, of 6 digits or more, are codes for none
* Federal Highway Administration, "2017 NHTS Codebook": HOUSEID, PERSONID, R_AGE, R_SEX, EDUC (its
  code 3 is also of associates), DRIVER, WTPERFIN, HHVEHCNT; below 0 nothing is known
* U.S. Census Bureau, PUMS of its data API: what is not known is `N`, −1, or in PINCP −19999, in
  PERNP −10001, in HINCP −60000. A dictionary writes `b` for a blank, R writes `NA`, and planners'
  samples −9: no code and no rounded amount of the PUMS is from −9 to −1
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from moothall import ConfigError
from moothall.build import excerpt
from moothall.society.blocks.columns import EDUCATION, GENDERS, OCCUPATIONS
from moothall.society.people.written_numbers import (
    NOT_KNOWN,
    is_numeric,
    plain_numbers,
    without_zeros,
)

_Meaning: TypeAlias = Callable[[object], object]
_NO_CODES: Final = range(-9, 0)
_INDEX_LEVEL: Final = "__index_level_0__"
_INDEX_NAMES: Final = ("", "unnamed: 0", _INDEX_LEVEL)
"""What pandas calls its index, where it has no name: in CSV the first column."""
_TEXTS: Final = ("id", "name", "home", "work", "school", "interests", "opinions", "relations")
NUMBERS: Final[tuple[str, ...]] = ("income", "household_income", "weight", "cars", "bicycles")
"""Columns beside those of a citizen that must be numbers: dollars a year, of how many persons a row
stands for, and what its household has."""


def _by_code(code_list: str, codes: Mapping[int, object]) -> _Meaning:
    """Return what tells the meaning of a code; a range of codes is named by its first."""

    def meaning(value: object) -> object:
        text = str(value).strip().removesuffix(".0")
        try:
            code = int(text)
        except ValueError:
            code = min(*codes, -9) - 1
        if NOT_KNOWN.fullmatch(text) or (code in _NO_CODES and min(codes) >= 0):
            return None
        starts = [each for each in codes if each <= code]
        entry = codes[max(starts)] if starts else ...
        if entry is ...:
            raise ConfigError(f"must be a code of {code_list}, got {excerpt(value)}")
        return entry

    return meaning


def _by_word(words: Sequence[str | None], spellings: Mapping[str, str]) -> _Meaning:
    """Return what tells the meaning of a text: a word, or another for it."""
    meanings = {word: word for word in words if word} | dict(spellings)

    def meaning(value: object) -> str | None:
        text = " ".join(str(value).lower().replace("’", "'").split()).rstrip(".")
        if text not in meanings:
            options = ", ".join(word for word in words if word)
            raise ConfigError(f"must be one of {options}, got {excerpt(value)}")
        return meanings[text]

    return meaning


_NO_SCHOOL, _SECONDARY, _VOCATIONAL, _BACHELOR, _MASTER = EDUCATION
_OFFICE, _SERVICE, _SALES, _CONSTRUCTION, _PRODUCTION, _OTHER = OCCUPATIONS
_SCHL: Final = {1: _NO_SCHOOL, 16: _SECONDARY, 20: _VOCATIONAL, 21: _BACHELOR, 22: _MASTER, 25: ...}
_EDUC: Final = {0: _NO_SCHOOL, 6: _SECONDARY, 8: _VOCATIONAL, 10: _BACHELOR, 11: _MASTER, 12: ...}
_EDUC_MISSING: Final = {99: None, 100: ...}
_EDUCD: Final = {
    0: _NO_SCHOOL,
    62: _SECONDARY,
    80: _VOCATIONAL,
    100: _BACHELOR,
    110: _MASTER,
    117: ...,
    999: None,
    1000: ...,
}
_OCCP: Final = {
    0: None,
    10: _OFFICE,
    3601: _SERVICE,
    4700: _SALES,
    6000: _CONSTRUCTION,
    7700: _PRODUCTION,
    9800: _OTHER,
    9920: None,
    9921: ...,
}
_SOCP: Final = {
    11: _OFFICE,
    31: _SERVICE,
    41: _SALES,
    45: _CONSTRUCTION,
    51: _PRODUCTION,
    55: _OTHER,
    56: ...,
    99: None,
    100: ...,
}
_VEHICLES: Final = {0: None, **{cars: cars for cars in range(1, 8)}, 8: ..., 9: 0, 10: ...}
_SEX: Final = {1: "male", 2: "female", 3: ..., 9: None, 10: ...}
_UNKNOWN: Final = {-9: None, 0: ...}
_NHTS_EDUC: Final = {1: _NO_SCHOOL, 2: _SECONDARY, 4: _BACHELOR, 5: _MASTER, 6: ...}
_CPS_EDUC: Final = {
    0: None,
    2: _NO_SCHOOL,
    72: _SECONDARY,
    90: _VOCATIONAL,
    110: _BACHELOR,
    120: _MASTER,
    126: ...,
    999: None,
    1000: ...,
}
_GENDER_SPELLINGS: Final = {
    **dict.fromkeys(("f", "w", "woman", "women", "girl", "females"), "female"),
    **dict.fromkeys(("m", "man", "men", "boy", "males"), "male"),
}
_EDUCATION_SPELLINGS: Final = {
    **dict.fromkeys(("no schooling", "primary", "less than high school"), _NO_SCHOOL),
    **dict.fromkeys(("high school", "high school diploma", "ged", "some college"), _SECONDARY),
    **dict.fromkeys(("associate", "associate's degree", "apprenticeship"), _VOCATIONAL),
    **dict.fromkeys(("bachelor's degree", "bachelors", "ba", "bsc", "college"), _BACHELOR),
    **dict.fromkeys(("master's degree", "masters", "ma", "msc", "mba"), _MASTER),
    **dict.fromkeys(("phd", "ph.d", "doctorate", "doctorate degree", "professional"), _MASTER),
}


def _soc(value: object) -> object:
    return _by_code("the Standard Occupational Classification", _SOCP)(str(value).strip()[:2])


def _sex(value: object) -> object:
    digit = str(value).strip().removesuffix(".0")
    is_code = digit.lstrip("-").isdecimal() or NOT_KNOWN.fullmatch(digit)
    return _by_code("SEX: 1 male, 2 female", _SEX)(digit) if is_code else _gender(value)


def _yes_or_no(value: object) -> bool:
    text = str(value).strip().lower().removesuffix(".0")
    if text not in _FLAGS:
        raise ConfigError(f"must be yes or no, got {excerpt(value)}")
    return _FLAGS[text]


_FLAGS: Final = {
    **dict.fromkeys(("1", "yes", "true"), True),
    **dict.fromkeys(("0", "no", "false"), False),
}
_gender: Final = _by_word(GENDERS, _GENDER_SPELLINGS)


def _missing_codes(*codes: int) -> _Meaning:
    """Return what leaves out the codes for no number."""

    def meaning(value: object) -> object:
        text = str(value).strip().removesuffix(".0")
        return None if text.lstrip("-").isdecimal() and int(text) in codes else value

    return meaning


def _none_of_nines(digits: int) -> _Meaning:
    """Return what leaves out amounts of so many nines, of which the last may be an 8."""
    nines = re.compile(rf"9{{{digits - 1},}}[89]")

    def meaning(value: object) -> object:
        return None if nines.fullmatch(str(value).strip().removesuffix(".0")) else value

    return meaning


def _same_value(value: object) -> object:
    return value


_MEANINGS: Final[dict[str, dict[str, _Meaning]]] = {
    "age": {"age": _missing_codes(999), "agep": _missing_codes(*_NO_CODES)},
    "gender": {"gender": _gender, "sex": _sex},
    "education": {
        "education": _by_word(EDUCATION, _EDUCATION_SPELLINGS),
        "schl": _by_code("SCHL of the ACS", _SCHL),
        "educd": _by_code("EDUCD of IPUMS", _EDUCD),
        "educ": _by_code("EDUC of IPUMS", _EDUC | _EDUC_MISSING),
    },
    "income": {
        "income": _same_value,
        "pincp": _missing_codes(-19_999, *_NO_CODES),
        "pernp": _missing_codes(-10_001, *_NO_CODES),
        "wagp": _missing_codes(*_NO_CODES),
        "inctot": _none_of_nines(7),
        "incearn": _none_of_nines(7),
        "incwage": _none_of_nines(6),
    },
    "household_income": {
        "hincp": _missing_codes(-60_000, *_NO_CODES),
        "hhincome": _none_of_nines(7),
    },
    "occupation": {
        "occp": _by_code("the 2018 Census Occupation Code List", _OCCP),
        "occ": _by_code("the 2018 Census Occupation Code List", _OCCP),
        "socp": _soc,
    },
    "cars": {
        "cars": _same_value,
        "veh": _missing_codes(*_NO_CODES),
        "vehicles": _by_code("VEHICLES of IPUMS", _VEHICLES),
    },
    "licence": {"licence": _yes_or_no},
    "rents": {"rents": _yes_or_no},
    "weight": dict.fromkeys(
        ("weight", "pwgtp", "perwt", "asecwt", "wtsupp", "wtfinl", "hhwt"), _same_value
    ),
    "household_id": dict.fromkeys(
        ("household_id", "houseid", "hhid", "hh_id", "serialno", "serial"), _same_value
    ),
}
"""What names mean, the one that is taken first; each with what tells the meaning of a value."""
_NHTS: Final[dict[str, dict[str, _Meaning]]] = {
    "age": {"r_age": _missing_codes(-1, -7, -8, -9)},
    "gender": {"r_sex": _by_code("R_SEX of the NHTS", _UNKNOWN | {1: "male", 2: "female", 3: ...})},
    "education": {"educ": _by_code("EDUC of the NHTS", _UNKNOWN | _NHTS_EDUC)},
    "cars": {"hhvehcnt": _missing_codes(-1, -7, -8, -9)},
    "licence": {"driver": _by_code("DRIVER of the NHTS", _UNKNOWN | {1: True, 2: False, 3: ...})},
    "weight": {"wtperfin": _same_value},
}
"""What else they mean in a table of the travel survey, which has a HOUSEID."""
_CPS: Final[dict[str, dict[str, _Meaning]]] = {
    "education": {"educ": _by_code("EDUC of IPUMS CPS", _CPS_EDUC)}
}
"""What else they mean in one of the Current Population Survey, by the names of its weights."""
CENSUS_COLUMN_NAMES: Final = frozenset(name for parsers in _MEANINGS.values() for name in parsers)
"""The names that offices have, in small letters."""
_CASE_SENSITIVE_NAMES: Final = (
    *("gender", "education", "income", "weight", "household_id", "occupation"),
    *("cars", "licence", "rents"),
)
_OF_SAMPLES: Final = ("sample", "year", "month")
_PERSON_ID_COLUMNS: Final = (
    ("serialno", "sporder"),
    ("serialno", "pnum"),
    ("serial", "pernum"),
    ("houseid", "personid"),
)
_PLANNERS_COLUMNS: Final = ("hh_id", "perid")
"""Of samples of ActivitySim and PopulationSim, in which EDUC has codes of other lists."""


def standard_columns(
    columns: Mapping[str, Sequence[object]], source: str, *, comma: bool = False
) -> dict[str, Sequence[object]]:
    """Return a table's columns by moothall's names, with their meanings and plain numbers.

    Args:
        columns: the cells of each column
        source: the name of the table, for errors
        comma: whether a comma that could be either is the decimal mark

    Raises:
        ConfigError: a cell of a known name has no meaning; the text names row and column
    """
    meanings: dict[str, tuple[str, _Meaning]] = {}
    is_of_cps = any(_has_columns(columns, name) for name in ("cpsid", "asecwt", "wtsupp", "wtfinl"))
    columns, index = _without_index(columns)
    is_of_planners = any(_has_columns(columns, name) for name in _PLANNERS_COLUMNS)
    survey_parsers = _NHTS if _has_columns(columns, "houseid") else _CPS if is_of_cps else {}
    for name, parsers in _MEANINGS.items():
        parsers = parsers | survey_parsers.get(name, {})
        if is_of_planners:
            parsers = {each: parsers[each] for each in parsers if each != "educ"}
        by_lower_name: dict[str, str] = {}
        for each in sorted(columns, key=lambda each: each != each.lower()):  # our own name first
            if (lower := each.lower()) in parsers and (
                each == lower or lower not in _CASE_SENSITIVE_NAMES
            ):
                by_lower_name.setdefault(lower, each)
        first = next((lower_name for lower_name in parsers if lower_name in by_lower_name), None)
        if first is not None:
            meanings[by_lower_name[first]] = (name, parsers[first])
    result: dict[str, Sequence[object]] = {}
    for column, cells in columns.items():
        name, meaning = meanings.get(column, (column, _same_value))
        if name == column and is_numeric(cells):
            meaning = _same_value  # our own codes
        if name not in _TEXTS and name != "household_id":
            cells = plain_numbers(cells, f"{source}, column {column!r}", comma=comma)
        if name in NUMBERS or name == "age":
            cells = without_zeros(cells)
        result[name] = _cell_meanings(cells, meaning, f"{source}, row %s, column {column!r}")
        if column.lower() == "serial" and name == "household_id":
            result[name] = _within_samples(columns, result[name])
    if "id" not in result and any(_has_columns(columns, *pair) for pair in _PERSON_ID_COLUMNS):
        result["id"] = range(1, len(next(iter(columns.values()))) + 1)
    if "id" not in result and ("age" in result or "gender" in result):  # rows are persons
        count = len(next(iter(columns.values())))
        if index is not None:
            result["id"] = index
        elif _has_columns(columns, "serialno"):
            result["id"] = range(1, count + 1)
    return result


def _without_index(
    columns: Mapping[str, Sequence[object]],
) -> tuple[Mapping[str, Sequence[object]], Sequence[object] | None]:
    """Return the columns without pandas' index, and it: another whole number in each row."""
    first, *other_names = columns or ("id",)
    name = _INDEX_LEVEL if _INDEX_LEVEL in other_names else first
    is_index = isinstance(name, str) and name.strip().lower() in _INDEX_NAMES
    if not is_index or not other_names:
        return columns, None
    index = [str(each).strip().removesuffix(".0") for each in columns[name]]
    if len({*index}) < len(index) or not all(each.isdecimal() for each in index):
        return columns, None
    rest = {each: cells for each, cells in columns.items() if each != name}
    return rest, [int(each) for each in index]


def _within_samples(columns: Mapping[str, Sequence[object]], serials: Any) -> Any:
    """Return the ids of IPUMS's households, whose numbers begin anew in each sample of a table."""
    samples = [each for name, each in columns.items() if name.lower() in _OF_SAMPLES]
    samples = [[*each] for each in samples if len({*each}) > 1]
    if not samples:
        return serials
    return [" ".join(map(str, each)) for each in zip(*samples, serials, strict=True)]


def _has_columns(columns: Iterable[str], *names: str) -> bool:
    return {*names} <= {each.lower() for each in columns}


def _cell_meanings(cells: Sequence[object], meaning: _Meaning, title: str) -> Sequence[object]:
    """Return the meaning of each cell; an empty one has none."""
    if meaning is _same_value:
        return cells
    meanings: dict[object, object] = {"": None, None: None}
    values = []
    for number, cell in enumerate(cells.tolist() if hasattr(cells, "tolist") else cells, 1):
        if cell != cell:  # NaN, an empty cell of a column of numbers
            cell = None
        if cell not in meanings:
            try:
                meanings[cell] = meaning(cell)
            except ConfigError as error:
                raise ConfigError(f"{title % number} {error}") from None
        values.append(meanings[cell])
    return values
