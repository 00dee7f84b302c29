"""Persons and tables given to a population mean what they mean for agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moothall import City, Society
from moothall.foundation.errors import ConfigError
from moothall.society import (
    Population,
    citizens,
    completed,
    make_economy,
    make_people,
    read_people,
)

MARGINS = {
    "age": {"0-17": 15, "18-64": 55, "65+": 30},
    "owns": {"car": 3, "bicycle": 1},
}


@pytest.fixture(scope="module")
def city() -> City:
    return City.generate(seed=1, citizens=80)


async def same_day(people: list[dict[str, Any]], rows: Population, city: City) -> None:
    """Fail unless agents and columns live the same day."""
    services = [make_economy(city, seed=1) for _ in "ab"]
    async with (
        Society(citizens(people), city, seed=1, services=services[0]) as agents,
        Society(rows, services=services[1]) as columns,
    ):
        for _ in range(96):
            assert await agents.step() == await columns.step()
        assert agents.books.state_dict() == columns.books.state_dict()


@pytest.mark.long
async def test_persons_fitted_to_margins_live_in_columns_as_they_do_as_agents(city: City) -> None:
    people = make_people(city, 80, seed=1, margins=MARGINS)
    rows = Population(people, city, seed=1)
    assert (rows.columns["age"] >= 65).sum() == 24
    owns = rows.to_arrow()["owns"].to_pylist()
    assert owns == [each["profile"]["owns"] for each in people]
    assert rows.status_of(3)["profile"]["owns"] == people[3]["profile"]["owns"]
    await same_day(people, rows, city)


async def test_table_of_persons_is_the_same_for_agents_and_columns(
    city: City, tmp_path: Path
) -> None:
    file = tmp_path / "p.csv"
    lines = [f'{at},{20 + at},{"mf"[at % 2]},PhD,"{40 + at},000",nurse' for at in range(1, 41)]
    file.write_text("id,age,gender,education,income,occupation\n" + "\n".join(lines))
    people = completed(read_people(file, city), city, seed=1)
    rows = Population(file, city, seed=1)
    assert rows.columns["pay"][:2].tolist() == [41000, 42000]
    assert rows.status_of(0)["profile"]["occupation"] == "other"
    await same_day(people, rows, city)


def test_arrays_of_an_office_have_their_meaning(city: City) -> None:
    table = {
        "SERIALNO": np.array(["b", "b", "a"]),
        "SPORDER": np.array([1, 2, 1]),
        "AGEP": np.array([41, 12, 70]),
        "SEX": np.array([2, 1, 1]),
        "SCHL": np.array([22.0, 9.0, 16.0]),
        "PINCP": np.array([82000.0, np.nan, -500.0]),
        "PWGTP": np.array(["1,25", "2,5", "3"]),
        "PUMA": np.array(["00301", "00301", "00302"]),
    }
    made = Population(table, city, seed=1)
    first = made.status_of(0)["profile"]
    assert (first["age"], first["gender"], first["education"]) == (41, "female", "master")
    assert made.columns["pay"].tolist() == [82000, 0, -500]
    assert made.columns["weight"].tolist() == [1.25, 2.5, 3]
    assert made.columns["home"][0] == made.columns["home"][1]
    assert made.to_arrow()["PUMA"].to_pylist() == ["00301", "00301", "00302"]
    again = Population(made.to_arrow(), city, seed=1)
    assert again.columns["PUMA"].tolist() == made.columns["PUMA"].tolist()


@pytest.mark.parametrize(("gender", "taken"), (("f", True), ("2", False)))
def test_agents_and_columns_take_and_refuse_the_same_words(
    city: City, tmp_path: Path, gender: str, taken: bool
) -> None:
    file = tmp_path / "g.csv"
    file.write_text(f"id,age,gender\n1,34,f\n2,40,{gender}\n")
    table = {"age": np.array([34, 40]), "gender": np.array(["f", gender])}
    for make in (lambda: read_people(file), lambda: Population(table, city, seed=1)):
        if taken:
            make()
            continue
        with pytest.raises(ConfigError, match=r"column 'gender' must be one of female, male"):
            make()


def test_persons_with_gaps_are_refused_in_columns_and_attributes_may_have_some(
    city: City,
) -> None:
    for rows in (
        [{"id": 1}, {"id": 2, "profile": {"age": 50}}],
        [{"id": 2, "home": "home-1"}, {"id": 1}],
    ):
        name = "home" if "home" in rows[0] else "age"
        with pytest.raises(ConfigError, match=f"citizen 1 has no '{name}', and others have one"):
            Population(rows, city)
    people = make_people(city, 20, seed=3)
    people[4]["profile"]["owns"] = "car"
    made = Population(people, city, seed=4)  # of another seed: no value is drawn again
    assert [made.status_of(row)["profile"].get("values") for row in range(20)] == [
        each["profile"].get("values") for each in people
    ]
    assert made.status_of(4)["profile"]["owns"] == "car"


@pytest.mark.parametrize(("name", "word"), (("gender", "diverse"), ("education", "phd")))
def test_person_with_a_word_that_no_column_has_is_refused(city: City, name: str, word: str) -> None:
    people = make_people(city, 3, seed=1)
    people[1]["profile"][name] = word
    with pytest.raises(ConfigError, match=f'citizen 2: {name} must be one of .*, got "{word}"'):
        Population(people, city)


def test_whole_numbers_of_an_attribute_keep_all_their_digits() -> None:
    made = Population({"parcel": np.array(["123456789012345678", "5"])}, blocks=[])
    assert made.columns["parcel"].tolist() == [123456789012345678, 5]


def test_persons_with_text_ids_are_refused_in_columns(city: City) -> None:
    with pytest.raises(ConfigError, match="ids of a population must be whole numbers, got 'ada'"):
        Population(completed([{"id": "ada"}], city, seed=1), city)
