"""The constants that persons are drawn from can be those of another country."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from moothall import Agent, ConfigError, Society
from moothall.society import City, Experiment, PeopleParams, Population, make_people

ELSEWHERE = PeopleParams(
    employed=40,
    head_ages=((0, 0, 1, 1, 1, 0, 0, 0),) * 6,
    births=(0,) * 14 + (1,) * 14,
    occupations=((1, 0, 0, 0, 0),) * 5,
    household_kinds=(
        (1, 0, 0, 0, 0),
        (0, 0, 1, 0, 0),
        (0, 0, 1, 0, 0),
        (0, 0, 1, 0, 0),
        (0, 0, 1, 0, 0),
    ),
    near=200,
    offers=40,
    wage=10,
    friends=(300, 300, 300, 300, 300, 300),
)


@pytest.fixture(scope="module")
def city() -> City:
    return City.generate(seed=5, citizens=400)


def test_people_are_drawn_from_the_given_constants(city: City) -> None:
    usual = make_people(city, 400, seed=5)
    other = make_people(city, 400, seed=5, params=ELSEWHERE)
    work = [sum(person["work"] is not None for person in each) for each in (usual, other)]
    assert work[1] < 0.65 * work[0]
    profiles = [person["profile"] for person in other]
    assert {each["household"] for each in profiles} == {"alone", "lone parent"}
    trades = {each["occupation"] for each in profiles if each["age"] >= 18}
    assert trades == {"management or a profession"}
    by_home: dict[str, list[int]] = {}
    for person in other:
        by_home.setdefault(person["home"], []).append(person["profile"]["age"])
    apart = [ages[0] - max(ages[1:]) for ages in by_home.values() if len(ages) in (2, 3)]
    assert apart
    assert min(apart) >= 32  # no mother was younger at a birth


def test_columns_have_the_same_persons_as_objects(city: City) -> None:
    people = make_people(city, 400, seed=5, params=ELSEWHERE)
    population = Population(400, city, seed=5, people=ELSEWHERE)
    for row, person in enumerate(people):
        status = population.status_of(row)
        assert status["profile"]["age"] == person["profile"]["age"]
        assert status["work"] == person["work"]
        assert status["income"] == person["income"]
        assert status["relations"] == person["relations"]


@pytest.mark.parametrize("citizens", (60, 1_000))
def test_people_params_are_what_a_society_draws_its_citizens_from(citizens: int) -> None:
    city = City.generate(seed=2, citizens=citizens)
    none = PeopleParams(employed=0, jobless=0)
    with Society(citizens, city, seed=2, people=none) as society:
        agents: Any = society.agents
        assert not any(agent.status["work"] for agent in agents)


def test_people_of_a_table_or_agents_are_not_drawn() -> None:
    with pytest.raises(ConfigError, match="give it to make_people"):
        Society([Agent("1")], people=PeopleParams(employed=0))
    given: Any = {"employed": 0}
    with pytest.raises(ConfigError, match=r"params= must be PeopleParams"):
        make_people(None, 3, params=given)
    with pytest.raises(ConfigError, match=r"people= must be PeopleParams"):
        Population(3, people=given)


@pytest.mark.parametrize(
    ("given", "told"),
    (
        ({"employed": 101}, "less than or equal to 100"),
        ({"education": (1, 2)}, "must be 5 whole numbers"),
        ({"education": (0, 0, 0, 0, 0)}, "one of the weights must be above 0"),
        ({"household_kinds": ((1, 0, 0, 0, 0),)}, "must be 5 rows of 5 weights, got 1"),
        ({"stays": ((18, 640),)}, "rising from age 0"),
        ({"births": "often"}, "valid tuple"),
        ({"salary": 3}, "Extra inputs"),
    ),
)
def test_people_params_that_cannot_be_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        PeopleParams(**given)


async def test_people_params_are_swept_by_an_experiment(tmp_path: Path) -> None:
    (tmp_path / "work.yaml").write_text(
        """
name: work
society: {citizens: 60, people: {jobless: 0}}
metrics: [working]
workflow: [step: 40]
parameters: {people.employed: [0, 100]}
"""
    )
    results = await Experiment.from_yaml(tmp_path / "work.yaml").run(out=tmp_path / "out", jobs=0)
    working = [results.values("working", parameters=each)[0] for each in results.grid]
    assert working[0] == 0 < working[1]
    (tmp_path / "work.yaml").write_text(
        "name: work\nworkflow: [step: 1]\nsociety: {people: {employed: many}}\n"
    )
    with pytest.raises(ConfigError, match="people"):
        Experiment.from_yaml(tmp_path / "work.yaml")
