"""Who lives with whom: couples, parents, children; the same in objects and in columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moothall.society import City, Population, all_blocks
from moothall.society.people.drawn import completed, make_people

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
def test_a_household_is_the_same_in_columns(given: str) -> None:
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
    city.capacity = lambda place: None  # type: ignore[method-assign,assignment,return-value]
    population = Population(table, city, all_blocks(), 4)
    for at, person in enumerate(completed(rows, city, seed=4)):
        status = population.status_of(at)
        for key in ("age", "gender", "education", "skill", "occupation", "household"):
            assert status["profile"].get(key) == person["profile"].get(key), key
        assert status.get("kin") == person.get("kin")
