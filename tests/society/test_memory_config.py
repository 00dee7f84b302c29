"""What a citizen's memory holds at the beginning, as its class states it: seed 000's example."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import numpy as np
import pytest
from tests.society.population.lives import promoted

from moothall import (
    Agent,
    Block,
    CitizenAgent,
    CitizenMemory,
    City,
    MemoryT,
    MobilityBlock,
    MobilityBlockParams,
    SocialBlock,
    SocialBlockParams,
    Society,
)
from moothall.foundation.errors import ConfigError, DefinitionError
from moothall.society import Population, citizens, make_people


class Dreamer(CitizenAgent):
    memory_config: dict[str, MemoryT] = {  # noqa: RUF012 - as seed 000 writes it
        "happiness": (float, 0.5),
        "trust": 7,
        "met": int,
        "awake": True,
    }


class Diarist(CitizenAgent):
    memory_config: dict[str, MemoryT] = {  # noqa: RUF012
        "job": (str, "baker"),
        "dreams": list,
        "habits": {"tea": ["at 5"]},
        "hope": (float, 1),
        "secret": None,
    }


def test_memory_config_is_what_a_citizens_status_begins_with() -> None:
    ann, ben = Dreamer(1), Dreamer(2, memory=CitizenMemory({"trust": 9}))
    assert ann.status == {"happiness": 0.5, "trust": 7, "met": 0, "awake": True}
    assert ben.status["trust"] == 9  # what it has stays
    one, other = Diarist(1), Diarist(2)
    assert one.status["job"] == "baker"
    assert one.status["hope"] == 1.0
    assert one.status["secret"] is None
    one.status["dreams"].append("of the sea")
    one.status["habits"]["tea"].append("at 8")
    assert other.status["dreams"] == []
    assert other.status["habits"] == {"tea": ["at 5"]}


async def test_memory_config_is_kept_in_the_state_of_a_society() -> None:
    async with Society([Dreamer(1, blocks=[])]) as town:
        assert '"happiness": 0.5' in json.dumps(town.state_dict())


async def test_memory_config_gives_a_population_columns_and_its_full_agents_the_values() -> None:
    people = Population(5, blocks=[], seed=1, citizen=Dreamer)
    assert people.columns["happiness"].tolist() == [0.5] * 5
    assert people.columns["trust"].dtype == np.int64
    assert people.columns["awake"].all()
    async with Society(people):
        ann = people.promote(2)
        assert isinstance(ann, Dreamer)
        assert ann.status["happiness"] == 0.5
        ann.status["happiness"] = 0.75
        people.demote(2)
    assert people.columns["happiness"].tolist() == [0.5, 0.75, 0.5, 0.5, 0.5]
    given = Population({"trust": [1, 2]}, blocks=[], citizen=Dreamer)
    assert given.columns["trust"].tolist() == [1, 2]


class Wrong(Agent):
    memory_config: dict[str, MemoryT] = {"mood": (float, "high")}  # noqa: RUF012


class Odd(CitizenAgent):
    memory_config: dict[str, Any] = {"mood": date}  # noqa: RUF012


class Triple(CitizenAgent):
    memory_config: dict[str, Any] = {"mood": (int, 1, True)}  # noqa: RUF012


def test_drawn_citizens_are_of_a_class_of_ones_own_with_what_it_states() -> None:
    rows = make_people(None, 3, seed=1)
    made = citizens(rows, citizen=Dreamer)
    assert {type(each) for each in made} == {Dreamer}
    assert [each.status["trust"] for each in made] == [7, 7, 7]
    assert [each.status["profile"] for each in made] == [row["profile"] for row in rows]
    for wrong in (Agent, Dreamer(1), "Dreamer"):
        with pytest.raises(ConfigError, match="citizen= must be a class of CitizenAgent, got"):
            citizens(rows, citizen=wrong)  # type: ignore[arg-type]


def test_memory_config_of_a_wrong_type_is_refused_by_name() -> None:
    with pytest.raises(DefinitionError, match=r"Wrong.memory_config\['mood'\] must be of float"):
        Wrong(1, memory=CitizenMemory())
    with pytest.raises(DefinitionError, match="has a memory_config, so its memory must"):
        Wrong(1)
    with pytest.raises(DefinitionError, match="the type must be one of bool, int, float"):
        Odd(1)
    with pytest.raises(DefinitionError, match=r"must be \(type, default\)"):
        Triple(1)
    with pytest.raises(ConfigError, match=r"Diarist.memory_config\['job'\] must be a number"):
        Population(2, blocks=[], citizen=Diarist)
    with pytest.raises(ConfigError, match="citizen= must be a class of CitizenAgent"):
        Population(2, citizen=Agent)  # type: ignore[type-abstract, arg-type]


def test_block_actions_belong_to_it_alone() -> None:
    one, other = SocialBlock(), SocialBlock()
    one.actions["late"] = "Stay up late"
    assert "late" not in other.actions
    assert "late" not in SocialBlock.actions

    class Own(Block):
        actions: dict[str, str] = {"walk": "Walk"}  # noqa: RUF012

    assert Own().actions == {"walk": "Walk"}


async def test_promoted_citizens_blocks_have_actions_of_their_own() -> None:
    people = Population(10, City.generate(seed=7, citizens=10), seed=7)
    one, other = people.promote(1), people.promote(2)
    one.blocks[0].actions["late"] = "Stay up late"
    assert "late" not in other.blocks[0].actions
    assert "late" not in people.blocks[0].actions


async def test_population_without_blocks_lives_as_a_society_of_as_many() -> None:
    days = []
    for rows in (True, False):
        city = City.generate(seed=7, citizens=30)
        people = Population(30, city, seed=7)
        async with Society(people if rows else promoted(people)) as town:
            days.append(await town.run(steps=40))
    assert days[0] == days[1]
    assert days[0][36]["work"] > 0
    assert sum(row["messages"] for row in days[0]) > 0
    async with Society(30, City.generate(seed=7, citizens=30), seed=7) as town:
        blocks = [type(each) for each in town.agents[0].blocks]
    assert [type(each) for each in people.blocks] == blocks


def test_package_has_the_blocks_of_the_first_example() -> None:
    assert MobilityBlock(block_params=MobilityBlockParams(rho=500)).params.rho == 500
    assert SocialBlock(block_params=SocialBlockParams(friends=20)).params.friends == 20
