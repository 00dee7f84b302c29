"""Tables as offices publish them: their names, codes and numbers have a meaning, or are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moothall import City
from moothall.foundation.errors import ConfigError
from moothall.society import completed, make_people, read_people


@pytest.fixture(scope="module")
def city() -> City:
    return City.generate(seed=1, citizens=60)


def profiles(tmp_path: Path, text: str) -> list[dict[str, Any]]:
    file = tmp_path / "p.csv"
    file.write_text(text, encoding="utf-8")
    return [each.get("profile", {}) for each in read_people(file)]


PUMS = (
    "SERIALNO,SPORDER,PUMA,PWGTP,AGEP,SEX,SCHL,PINCP,WAGP,OCCP,HINCP\n"
    "2023HU01,01,00301,38,41,2,22,82000,80000,1021,131000\n"
    "2023HU01,02,00301,41,12,1,09,,,,131000\n"
    "2023HU02,01,00302,7,70,1,16,-500,0,9920,19500\n"
)
IPUMS = (
    "SERIAL,PERNUM,PERWT,AGE,SEX,EDUC,EDUCD,INCTOT,OCC,HHINCOME\n"
    "17,1,38,41,2,11,114,82000,1021,131000\n"
    "17,2,41,12,1,2,26,9999999,0,131000\n"
    "18,1,7,70,1,6,63,-500,9920,9999999\n"
)


@pytest.mark.parametrize("table", (PUMS, IPUMS), ids=("PUMS", "IPUMS"))
def test_names_and_codes_of_an_office_have_their_meaning(tmp_path: Path, table: str) -> None:
    found = profiles(tmp_path, table)
    names = ("age", "gender", "education", "income", "occupation", "household_income", "weight")
    shop, house = "management or a profession", 131000
    first, second, third = ([each.get(name) for name in names] for each in found)
    assert first == [41, "female", "master", 82000, shop, house, 38]
    assert second == [12, "male", "none", None, None, house, 41]
    assert third[:4] == [70, "male", "secondary", -500]
    assert found[0]["household_id"] == found[1]["household_id"] != found[2]["household_id"]
    made = completed(read_people(tmp_path / "p.csv"), seed=1)
    assert [each["id"] for each in made] == [1, 2, 3]
    assert made[0]["income"] > made[1]["income"] == made[2]["income"] == 0
    assert made[0]["relations"]["2"] >= 800


@pytest.mark.parametrize(
    ("between", "cells", "values"),
    (
        (",", ('"52,000"', "61000"), [52000, 61000]),
        (",", ('"$52,000.50"', '"1,000,000"'), [52000.5, 1000000]),
        (",", ('"52.000,50"', '"61,5"'), [52000.5, 61.5]),
        (";", ("52.000,50", "61.000"), [52000.5, 61000]),
        (";", ("52,5", "61,125"), [52.5, 61.125]),
        (";", ("52.000", "61.000"), [52000, 61000]),
        (";", ("52000.5", "61000"), [52000.5, 61000]),
        (",", ("52 000", "61\u202f000"), [52000, 61000]),
        (",", ("52'000", "€ 61’000"), [52000, 61000]),
    ),
)
@pytest.mark.parametrize("name", ("income", "weight", "litres"))
def test_numbers_are_read_as_offices_write_them(
    tmp_path: Path, between: str, cells: tuple[str, ...], values: list[float], name: str
) -> None:
    rows = [between.join(each) for each in (("id", name), ("1", cells[0]), ("2", cells[1]))]
    assert [each[name] for each in profiles(tmp_path, "\n".join(rows))] == values


def test_texts_that_are_no_numbers_together_stay_texts(tmp_path: Path) -> None:
    found = profiles(tmp_path, 'id,zip,ip,codes\n1,00501,10.0.0.1,"1,2"\n2,12345,10.0.0.2,b\n')
    assert [each["ip"] for each in found] == ["10.0.0.1", "10.0.0.2"]
    assert [each["codes"] for each in found] == ["1,2", "b"]
    assert found[0]["zip"] == "00501"


@pytest.mark.parametrize(
    ("head", "cell", "fault"),
    (
        ("income", "52k", "row 1, column 'income' must be a number, got '52k'"),
        ("weight", "x", "row 1, column 'weight' must be a number"),
        ("gender", "2", "row 1, column 'gender' must be one of female, male, got \"2\""),
        ("sex", "3", "row 1, column 'sex' must be a code of SEX: 1 male, 2 female, got \"3\""),
        ("education", "21", "row 1, column 'education' must be one of none, secondary"),
        ("SCHL", "25", "row 1, column 'SCHL' must be a code of SCHL of the ACS, got \"25\""),
        ("OCCP", "nurse", "row 1, column 'OCCP' must be a code of the 2018 Census Occupation"),
    ),
)
def test_a_known_name_without_a_meaning_is_refused_with_row_and_column(
    tmp_path: Path, head: str, cell: str, fault: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        profiles(tmp_path, f"id,{head}\n1,{cell}\n")
    assert fault in str(raised.value)
    assert "p.csv" in str(raised.value)


def test_words_for_gender_and_education_are_those_of_everyday(tmp_path: Path) -> None:
    found = profiles(tmp_path, "id,gender,education\n1,f,PhD\n2,Male,High school\n3,W,associate\n")
    assert [(each["gender"], each["education"]) for each in found] == [
        ("female", "master"),
        ("male", "secondary"),
        ("female", "vocational"),
    ]


def test_margins_have_counts_with_separators(tmp_path: Path, city: City) -> None:
    file = tmp_path / "m.csv"
    file.write_text('attribute,value,count\ngender,female,"2,000"\ngender,male,"1,000"\n')
    people = make_people(city, 60, seed=1, margins=file)
    assert sum(each["profile"]["gender"] == "female" for each in people) == 40
