"""`Society(n, city)` and `Population(n, city)`: the same persons, who live the same day."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.society.life import Shuffled

from moothall import ScriptedModel
from moothall.society import (
    CitizenAgent,
    City,
    Feed,
    Intervention,
    Network,
    Population,
    Society,
    citizens,
    make_economy,
    make_people,
)
from moothall.society.columns.column import COMMIT_COLUMNS


@pytest.mark.parametrize("seed", (1, 2))
def test_society_and_population_draw_the_same_persons(seed: int) -> None:
    city = City.generate(seed=seed, citizens=2000)
    population = Population(2000, city, seed=seed)
    for row, person in enumerate(make_people(city, 2000, seed=seed)):
        drawn = population.status_of(row)
        assert person["id"] == row + 1
        # The order counts too: a friend is drawn by it.
        assert [*person["relations"].items()] == [*drawn["relations"].items()], row
        profile = {name: drawn["profile"].get(name) for name in person["profile"]}
        drawn |= {"profile": profile, "id": row + 1, "name": person["name"]}
        for name, value in person.items():
            assert drawn.get(name) == value, (row, name)


def test_society_and_population_draw_the_same_persons_where_places_have_no_limit() -> None:
    homes = {f"home-{number}": "home" for number in range(8)}
    places = {**homes, "mill": "work", "class": "school"}
    network = Network(places, [(each, place) for each in homes for place in ("mill", "class")])
    population = Population(90, network, seed=1)
    for row, person in enumerate(make_people(network, 90, seed=1)):
        drawn = population.status_of(row)
        for name in ("home", "work", "school", "relations"):
            assert drawn.get(name) == person.get(name), (row, name)


async def live_the_same(count: int, seed: int, steps: int, every: int) -> None:
    """Fail where citizens as objects and as rows differ after a step; all each `every` steps."""
    city = City.generate(seed=seed, citizens=count)
    rows, mirror = Population(count, city, seed=seed), Population(count, city, seed=seed)
    first, second = make_economy(city, seed=seed), make_economy(city, seed=seed)
    async with (
        Society(count, city, seed=seed, services=first) as objects,
        Society(rows, services=second) as columns,
    ):
        for step in range(steps):
            assert await objects.step() == await columns.step()
            agents = objects.agents
            for row, agent in enumerate(agents):
                own = rows.settled_status(row)
                assert own == {name: agent.status[name] for name in own}, (step, row)
            if step % every < every - 1:
                continue
            assert objects.books.state_dict() == columns.books.state_dict()
            for row, agent in enumerate(agents):
                mirror.pull(row, agent.status)
            for name, values in mirror.arrays.items():
                differ: Any = np.flatnonzero(
                    (values != rows.arrays[name]).reshape(count, -1).any(axis=1)
                )
                assert name in COMMIT_COLUMNS or not len(differ), (step, name, differ[:9])


async def test_society_and_population_live_the_same_day() -> None:
    await live_the_same(40, 3, 96, 24)


# -- citizens in columns by the society's own choice -----------------------------------------------


def same_agents(one: Society, other: Society) -> None:
    """Fail where two societies differ, but in what citizens did before they were agents."""
    assert one.metrics == other.metrics
    assert one.books.state_dict() == other.books.state_dict()
    for mine, theirs in zip(one.agents, other.agents, strict=True):
        assert (mine.id, mine.name) == (theirs.id, theirs.name)
        for name, value in theirs.status.items():
            own = mine.status.get(name)
            if name == "plan":  # of a row, it does not say where it went
                own, value = (each[theirs.status["now"] :] for each in (own, value))
            elif name == "stuck":  # nor why it does not get there
                own, value = bool(own), bool(value)
            assert own == value, (mine.id, name)


async def test_citizens_that_somebody_looks_at_live_as_others_do() -> None:
    city = City.generate(seed=5, citizens=120)
    first, second = ([*make_economy(city, seed=5), Feed()] for _ in range(2))
    async with (
        Society(120, city, seed=5, services=first, start="2026-01-05T11:00") as one,
        Society(120, city, seed=5, services=second, start="2026-01-05T11:00") as other,
    ):
        assert len(other.agents) == 120  # looked at before the first step
        assert one.ids() == other.ids()
        for town in (one, other):
            town.intervene(Intervention(3, close=["park"], pay=[["government", "everyone", 100]]))
        await one.run(steps=6)
        await other.run(steps=6)
        assert one.rows is not None
        assert one.respondent(7).name == other.respondent(7).name
        assert one.rows is not None  # who is asked something need not be an agent
        for _ in range(2):
            same_agents(one, other)
            assert not one.population.agents
            await one.run(steps=4)
            await other.run(steps=4)


async def test_citizens_of_ones_own_come_to_a_town_that_lived_in_columns() -> None:
    city = City.generate(seed=5, citizens=130)
    async with Society(120, city, seed=5, services=make_economy(city, seed=5)) as town:
        await town.run(steps=2)
        town.add(CitizenAgent("ada"))
        await town.run(steps=2)
        assert len(town.ids()) == len(town.agents) == 121
        town.remove("5")
        state = town.state_dict()
    async with Society(120, city, seed=5, services=make_economy(city, seed=5)) as again:
        again.add(CitizenAgent("ada"))
        again.load_state_dict(state)
        assert again.state_dict() == state


def test_model_makes_citizens_agents() -> None:
    city = City.generate(seed=5, citizens=120)
    with Society(120, city, seed=5, model=ScriptedModel([])) as town:
        assert town.rows is None


@pytest.mark.parametrize("what", ("journal", "engine", "mailbox"))
async def test_journal_engine_and_mailbox_leave_citizens_in_columns(
    what: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {
        "journal": tmp_path / "runs.db",
        "engine": Shuffled(1),
        "mailbox": 200,
    }
    city = City.generate(seed=5, citizens=120)
    async with (
        Society(120, city, seed=5, **{what: options[what]}) as town,
        Society(120, city, seed=5) as plain,
    ):
        assert await town.run(steps=5) == await plain.run(steps=5)
        assert town.rows is not None
        assert not town.population.agents
        assert town.state_dict() == plain.state_dict()


async def test_interview_by_rule_says_the_same_of_a_row_and_of_an_agent() -> None:
    city = City.generate(seed=3, citizens=120)
    agents = citizens(make_people(city, 120, seed=3))
    said = []
    async with Society(120, city, seed=3) as rows, Society(agents, city, seed=3) as objects:
        for town in (rows, objects):
            texts = [await town.interview(id, "How are you?") for id in (1, 2, 60, 120)]
            said.append([text.partition(" My plan")[0] for text in texts])
        assert rows.rows is not None
    assert said[0] == said[1]
    assert "age: " in said[0][0].partition("gender: ")[0]
