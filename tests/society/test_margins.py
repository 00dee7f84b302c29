"""People who meet a census's margins: persons are drawn by households, and counted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from moothall.foundation.errors import ConfigError
from moothall.society import City, completed, make_people

CITIZENS = 300
CENSUS: dict[str, dict[Any, float]] = {
    "age": {"0-17": 15, "18-64": 60, "65+": 25},
    "gender": {"female": 55, "male": 45},
    "education": {"none": 25, "secondary": 30, "vocational": 20, "bachelor": 15, "master": 10},
    "faith": {"one": 1, "other": 2},
}


@pytest.fixture(scope="module")
def city() -> City:
    return City.generate(seed=8, citizens=CITIZENS)


def test_margins_are_met_and_households_stay_households(city: City) -> None:
    people = make_people(city, CITIZENS, seed=8, margins=CENSUS)
    ages = [each["profile"]["age"] for each in people]
    assert [sum(low <= age <= high for age in ages) for low, high in ((0, 17), (65, 120))] == [
        45,
        75,
    ]
    for name in ("gender", "education", "faith"):
        counts = Counter(each["profile"][name] for each in people)
        total = sum(CENSUS[name].values())
        assert counts == {v: 300 * share / total for v, share in CENSUS[name].items()}
    for person in people:
        assert person["profile"]["age"] >= 18 or "parent" in person["kin"].values()
    assert people == make_people(city, CITIZENS, seed=8, margins=CENSUS)
    assert people != make_people(city, CITIZENS, seed=9, margins=CENSUS)


def test_margins_of_a_table_may_be_of_several_attributes_together(
    city: City, tmp_path: Path
) -> None:
    table = tmp_path / "census.csv"
    table.write_text(
        "attribute,value,count\n"
        '"age, gender","0-17, female",11\n"age, gender","0-17, male",12\n'
        '"age, gender","18+, female",40\n"age, gender","18+, male",37\n'
    )
    people = make_people(city, CITIZENS, seed=8, margins=table)
    counts = Counter((p["profile"]["age"] >= 18, p["profile"]["gender"]) for p in people)
    assert counts == {
        (False, "female"): 33,
        (False, "male"): 36,
        (True, "female"): 120,
        (True, "male"): 111,
    }


def test_margins_of_cars_and_of_ones_own_attribute_together_with_others(city: City) -> None:
    census: dict[str, dict[Any, float]] = {
        "cars": {"0": 20, "1": 30, "2+": 50},
        "faith": {"one": 1, "other": 1},
        "age, faith": {"0-17, one": 0, "0-17, other": 20, "18+, one": 50, "18+, other": 30},
    }
    people = make_people(city, CITIZENS, seed=8, margins=census)
    cars = Counter(min(2, each["profile"]["cars"]) for each in people)
    assert all(abs(cars[n] - want) <= 3 for n, want in enumerate((60, 90, 150)))
    both = Counter((p["profile"]["age"] >= 18, p["profile"]["faith"]) for p in people)
    assert both == {(False, "other"): 60, (True, "one"): 150, (True, "other"): 90}
    by_id = {str(each["id"]): each["profile"] for each in people}
    couples = [
        (each, by_id[id])
        for each in people
        for id, kin in each.get("kin", {}).items()
        if kin == "partner"
    ]
    assert couples
    assert all(each["profile"]["cars"] == other["cars"] for each, other in couples)


def test_margins_count_what_rows_have(city: City) -> None:
    rows = [{"id": n, "profile": {"gender": "male"} if n < 50 else {}} for n in range(CITIZENS)]
    people = completed(rows, city, seed=8, margins={"gender": {"female": 1, "male": 1}})
    genders = [each["profile"]["gender"] for each in people]
    assert set(genders[:50]) == {"male"}
    assert abs(genders.count("male") - 150) <= 3


def test_margins_of_an_attribute_of_ones_own_count_what_rows_have(city: City) -> None:
    rows = [{"id": n, "profile": {"owns": 1} if n < 100 else {}} for n in range(CITIZENS)]
    people = completed(rows, city, seed=8, margins={"owns": {"1": 120, "none": 180}})
    assert Counter(str(each["profile"]["owns"]) for each in people) == {"1": 120, "none": 180}
    assert people == completed(people, city, seed=8, margins={"owns": {"1": 2, "none": 3}})
    for wrong in ({"1": 50, "none": 250}, {"2": 120, "none": 180}):
        with pytest.raises(ConfigError, match=r"owns: asked for .*, and the rows have {'1': 100}"):
            completed(rows, city, seed=8, margins={"owns": wrong})


@pytest.mark.parametrize(
    ("margins", "why"),
    (
        ({}, "a dict such as"),
        ({"age": {}}, "must have a dict"),
        ({"age": {"young": 1}}, "age must be such as 0-17, 18 or 65"),
        ({"gender": {"femal": 1}}, 'gender must be one of female, male, got "femal"'),
        ({"age": {"0-20": 1, "18+": 2}}, "'0-20' and '18[+]' overlap"),
        ({"age": {"0-20": 1, "21+": -2}}, "must be a count or a share"),
        ({"gender": {"female": 0}}, "all counts are 0"),
        ({"money": {"1": 1}}, "margins of .money. cannot be met; there are: age"),
        ({"occupation": {"office": 1}}, "margins of .occupation. cannot be met; there are: age"),
        ({"faith, pet": {"a, b": 1}}, "cannot be met"),
        ({"age, faith": {"0-17, a": 1, "0-20, b": 1}}, "'0-17' and '0-20' overlap"),
        ({"age, gender": {"0-17": 1}}, "must have a value for age, gender"),
        ({"age": {"0-17": 90, "18+": 10}}, "age 0-17: asked for 270, found"),
        ("none.csv", "none.csv cannot be read"),
    ),
)
def test_margins_that_cannot_be_met_are_refused(city: City, margins: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        make_people(city, CITIZENS, seed=8, margins=margins)
