"""Who lives with whom: couples, parents, children; the same in objects and in columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moothall.foundation.errors import ConfigError
from moothall.society import City, Place, Population, all_blocks
from moothall.society.blocks.ties import KIN as CODES
from moothall.society.blocks.ties import KIN_BIT
from moothall.society.people.generator import completed, make_people

KIN = {"partner": "partner", "parent": "child", "child": "parent", "sibling": "sibling"}


@pytest.fixture(scope="module")
def people() -> dict[str, dict[str, Any]]:
    made = make_people(City.generate(seed=8, citizens=1500), 1500, seed=8)
    return {str(person["id"]): person for person in made}


def pairs(people: dict[str, dict[str, Any]], what: str) -> list[tuple[dict[str, Any], ...]]:
    """Each person's profile and that of those who are its partner, parent, …"""
    return [
        (person["profile"], people[id]["profile"])
        for person in people.values()
        for id, kin in person.get("kin", {}).items()
        if kin == what
    ]


def test_couples_are_of_an_age_and_most_of_two_genders(people: dict[str, dict[str, Any]]) -> None:
    couples = pairs(people, "partner")
    gaps = [abs(one["age"] - other["age"]) for one, other in couples]
    assert 2 <= np.median(gaps) <= 3
    assert np.mean([gap > 15 for gap in gaps]) < 0.04
    assert np.mean([one["gender"] == other["gender"] for one, other in couples]) < 0.06
    older = [
        a["age"] - b["age"] for a, b in couples if (a["gender"], b["gender"]) == ("male", "female")
    ]
    assert 1.5 < np.mean(older) < 3


def test_children_live_with_a_parent_of_a_parents_age(people: dict[str, dict[str, Any]]) -> None:
    for child, parent in pairs(people, "parent"):
        assert 14 <= parent["age"] - child["age"] <= 66
    # A mother was 18 to 45; in a couple of two women it may be the other one.
    mothers = [(b["age"] - a["age"]) for a, b in pairs(people, "parent") if b["gender"] == "female"]
    assert np.mean([18 <= age <= 45 for age in mothers]) > 0.98
    for person in people.values():
        if person["profile"]["age"] < 18:
            assert "parent" in person["kin"].values()


def test_kin_are_mutual_and_of_one_household(people: dict[str, dict[str, Any]]) -> None:
    for id, person in people.items():
        for other, kin in person.get("kin", {}).items():
            assert people[other]["home"] == person["home"]
            assert people[other]["kin"][id] == KIN.get(kin, kin)
            assert person["relations"][other] == 800
    alone = [each for each in people.values() if each["profile"]["household"] == "alone"]
    assert 0.2 < len(alone) / len({each["home"] for each in people.values()}) < 0.4
    assert not any("kin" in each for each in alone)


def test_work_has_an_occupation_and_an_income(people: dict[str, dict[str, Any]]) -> None:
    for person in people.values():
        profile = person["profile"]
        assert ("occupation" in profile) == (profile["age"] >= 18)
        assert (profile["income"] > 0) == (person["work"] is not None)
    low, median, high = np.percentile(
        [each["profile"]["income"] for each in people.values() if each["work"]], (10, 50, 90)
    )
    assert 3.5 < high / low < 5.5
    assert 40_000 < median < 60_000


@pytest.mark.parametrize("given", ("", "age", "gender"))
def test_household_is_the_same_in_columns(given: str) -> None:
    city = City.generate(seed=4, citizens=300)
    numbers = np.random.default_rng(1).permutation(
        np.repeat([city.ids().index(home) for home in city.by_kind("home")], 3)[:300]
    )
    numbers[:30] = numbers[0]  # a home of very many
    table: dict[str, Any] = {"home": numbers}
    rows = [{"id": at + 1, "home": city.ids()[home]} for at, home in enumerate(numbers.tolist())]
    if given:
        ages = np.arange(300) % 90 if given == "age" else 1 + np.arange(300) % 2
        table[given] = ages
        for row, age in zip(rows, ages.tolist(), strict=True):
            row["profile"] = {given: age if given == "age" else (None, "female", "male")[age]}
    city.capacity_rows = lambda: np.full(len(city), -1)  # type: ignore[method-assign]
    population = Population(table, city, all_blocks(), 4)
    for at, person in enumerate(completed(rows, city, seed=4)):
        status = population.status_of(at)
        for key in ("age", "gender", "education", "skill", "occupation", "household"):
            assert status["profile"].get(key) == person["profile"].get(key), key
        assert status.get("kin") == person.get("kin")


FAMILIES: dict[int, list[tuple[int, str]]] = {
    1: [(70, "male")],
    2: [(35, "female"), (37, "male"), (5, "male"), (1, "male")],
    3: [(28, "male"), (29, "female")],
    4: [(41, "female"), (12, "male"), (3, "male")],
    5: [(72, "female"), (44, "female"), (45, "male"), (9, "female")],
    6: [(21, "male"), (22, "male")],
    7: [(19, "female"), *[(20 + each, "male") for each in range(9)]],
    8: [(25, "female"), (17, "male")],
}
KINDS = {
    1: "alone",
    2: "couple with children",
    3: "couple",
    4: "lone parent",
    5: "three generations",
    6: "other",
    7: "other",
    8: "other",
}


@pytest.fixture(scope="module")
def of_table() -> tuple[City, list[dict[str, Any]]]:
    """Rows of a table whose households are mixed, and two persons of none."""
    rows = [
        {"profile": {"household_id": household, "age": age, "gender": gender}}
        for household, members in FAMILIES.items()
        for age, gender in members
    ] + [{"profile": {}}] * 2
    order = np.random.default_rng(3).permutation(len(rows)).tolist()
    sizes = [*map(len, FAMILIES.values()), 1, 1]
    city = City.generate(seed=2, citizens=len(rows), households=sizes)
    return city, [{"id": id, **rows[at]} for id, at in enumerate(order, 1)]


def test_households_of_a_table_share_a_home_and_are_kin_by_their_ages(
    of_table: tuple[City, list[dict[str, Any]]],
) -> None:
    city, rows = of_table
    people = {str(each["id"]): each for each in completed(rows, city, seed=2)}
    households: dict[Any, list[dict[str, Any]]] = {}
    for person in people.values():
        households.setdefault(person["profile"].get("household_id"), []).append(person)
    assert len({person["home"] for person in people.values()}) == len(FAMILIES) + 2
    for number, members in households.items():
        if number is None:
            assert not any("kin" in each for each in members)
            continue
        assert len({each["home"] for each in members}) == 1
        assert {each["profile"]["household"] for each in members} == {KINDS[number]}
        ids = {str(each["id"]) for each in members}
        assert all(each.get("kin", {}).keys() == ids - {str(each["id"])} for each in members)

    def kin(household: int, age: int) -> dict[int, str]:
        (one,) = (e for e in households[household] if e["profile"]["age"] == age)
        return {people[id]["profile"]["age"]: what for id, what in one["kin"].items()}

    assert kin(2, 35) == {37: "partner", 5: "child", 1: "child"}
    assert kin(4, 3) == {41: "parent", 12: "sibling"}
    assert kin(5, 45) == {44: "partner", 72: "parent", 9: "child"}
    assert kin(6, 21) == {22: "relative"}


def test_households_of_a_table_are_the_same_in_columns(
    of_table: tuple[City, list[dict[str, Any]]],
) -> None:
    city, rows = of_table
    for known in (("age", "gender"), ("age",), ()):
        given = [
            each
            | {
                "profile": {
                    k: v for k, v in each["profile"].items() if k in (*known, "household_id")
                }
            }
            for each in rows
            if each["profile"] or not known
        ]
        people = completed(given, city, seed=2)
        profiles = [each["profile"] for each in given]
        table: dict[str, Any] = {"id": [each["id"] for each in given]}
        table["household_id"] = [each.get("household_id", -1) for each in profiles]
        table |= {name: [each[name] for each in profiles] for name in known}
        population = Population(table, city, all_blocks(), 2)
        columns = population.columns
        for row, person in enumerate(people):
            ties = zip(columns["friends"][row], columns["friendship"][row] >> KIN_BIT, strict=True)
            kin = {population.id_of(who - 1): CODES[what] for who, what in ties if what}
            assert kin == person.get("kin", {})
            assert city.ids()[columns["home"][row]] == person["home"]
            assert columns["age"][row] == person["profile"]["age"]


def test_household_of_a_table_larger_than_every_home_is_named() -> None:
    city = City([Place("home", "home", 0, 0, capacity=3)])
    rows = [{"id": id, "profile": {"household": 7}} for id in range(4)]
    with pytest.raises(ConfigError, match="household of row 1 finds no home with room for 4: 1 of"):
        completed(rows, city)
    (there, *others) = completed([rows[0] | {"home": "home"}, *rows[1:3]], city)
    assert {each["home"] for each in others} == {there["home"]}
    with pytest.raises(ConfigError, match="households must have 20 members, got 3"):
        City.generate(seed=1, citizens=20, households=[1, 2])


def test_homes_of_few_people_are_all_over_a_city_and_large_ones_have_few_seats_taken() -> None:
    large = City([Place(f"home-{n}", "home", 100 * n, 0, capacity=1000) for n in range(20)])
    many = np.unique([each["home"] for each in make_people(large, 800)], return_counts=True)[1]
    assert len(many) == 20
    assert many.max() < 2 * many.min()
    city = City.generate(seed=2, citizens=2000)
    homes = Population(200, city, all_blocks(), 4).columns["home"]
    sizes = np.bincount(homes)
    lived_in = np.flatnonzero(sizes)
    assert (sizes == city.capacity_rows()[: len(sizes)])[lived_in].mean() > 0.95
    x = np.array([city.position(each)[0] for each in city.ids()])
    assert np.ptp(x[homes]) > 0.8 * np.ptp(x)
