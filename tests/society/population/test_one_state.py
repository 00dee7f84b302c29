"""A citizen with turns has its state in the population's columns, as a row has."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from moothall import ConfigError
from moothall.society import (
    CitizenAgent,
    CitizenMemory,
    City,
    Intervention,
    Move,
    NeedsBlock,
    Population,
    SocialBlock,
    Society,
    citizens,
    make_people,
)
from moothall.society.blocks import all_blocks
from moothall.society.blocks.citizen_block import CitizenBlock
from moothall.society.blocks.needs import NEEDS, Need, NeedsBlockParams
from moothall.society.blocks.social import SocialBlockParams

CITY = City.generate(seed=3, citizens=20)


class Watches(CitizenBlock):
    """A block of one's own, so that a citizen has turns."""

    async def after_forward(self) -> None:
        """Count."""
        self.status["watched"] = self.status.get("watched", 0) + 1

    def fits(self, context: Any) -> float:
        """It never fits."""
        return 0.0


def watching() -> list[Any]:
    return [*all_blocks(), Watches()]


def town(**options: Any) -> Society:
    people = make_people(CITY, 12, seed=3)
    return Society(citizens(people, watching), CITY, seed=3, **options)


async def test_status_of_a_citizen_with_turns_is_its_row() -> None:
    async with town() as society:
        await society.run(steps=2)
        agent, population = society.agents[4], society.population
        assert population.full.all()
        agent.status["needs"]["hunger"] = 321
        assert population.columns["hunger"][4] == 321
        population.arrays["hunger"][4] = 123
        assert agent.status["needs"]["hunger"] == 123
        assert agent.status["money"] == society.books.balances["5"]
        assert agent.status["watched"] == 2  # which no column has


async def test_relation_to_somebody_who_comes_later_is_the_one_to_whom_has_come() -> None:
    def one(id: str, *others: str) -> CitizenAgent:
        status = {"relations": dict.fromkeys(others, 500), "home": "park-1"}
        blocks = [SocialBlock(), Watches()]
        return CitizenAgent(id, memory=CitizenMemory(status), blocks=blocks)

    async with Society([one("3", "1", "7"), one("5", "3")], CITY, seed=3) as society:
        await society.run(steps=1)
        society.add(one("1", "3", "5"))  # all rows are renumbered
        society.add(one("7", "1", "9"))
        await society.run(steps=1)
        ties = {str(each.id): {*each.status["relations"]} for each in society.agents}
        assert ties == {"1": {"3", "5"}, "3": {"1", "7"}, "5": {"3"}, "7": {"1", "9"}}
        friends = society.population.arrays["friends"]
        assert sorted(friends[1][friends[1] != 0].tolist()) == [1, 4]  # rows + 1, and no strangers


async def test_status_of_an_agent_of_ones_own_may_say_anything_under_the_names_of_the_town() -> (
    None
):
    class Own(CitizenAgent):
        async def forward(self) -> None:
            self.status["skill"] = 7  # which the town reads in its profile alone

    status = {"work": ["a", 1], "profile": {"age": "old"}, "plan": "rob a bank", "home": "park-1"}
    async with Society([Own(1, memory=CitizenMemory(status))], CITY) as society:
        assert (await society.run(steps=1))[0]["failures"] == 0
        said = society.agents[0].status
        assert {key: said[key] for key in (*status, "skill")} == {**status, "skill": 7}
        assert society.population.columns["age"].tolist() == [18]
        state = society.state_dict()
    async with Society([Own(1)], CITY) as other:
        other.load_state_dict(state)
        assert other.agents[0].status == said


def test_citizens_whose_blocks_declare_a_column_otherwise_are_refused() -> None:
    def one(id: int, friends: int) -> CitizenAgent:
        params = SocialBlockParams(friends=friends)
        return CitizenAgent(id, blocks=[SocialBlock(block_params=params), Watches()])

    with pytest.raises(ConfigError, match="block 'SocialBlock' declares the column 'friends' oth"):
        Society([one(1, 150), one(2, 40)], CITY)


class VainParams(NeedsBlockParams):
    pride: int = 100


class Vain(NeedsBlock):
    """A block with an act of its own."""

    ParamsType: ClassVar[Any] = VainParams
    kinds: ClassVar[Any] = {
        **NEEDS,
        "pride": Need("pride", "leisure", 3600, {"preen": 900, "idle": -10}),
    }


async def test_act_of_ones_own_stands_beside_the_acts_of_the_others() -> None:
    class Preens(Watches):
        async def after_forward(self) -> None:
            self.act("preen")

    people = [CitizenAgent(1, blocks=[Vain(), Preens()]), CitizenAgent(2, blocks=watching())]
    async with Society(people, CITY) as society:
        await society.run(steps=2)
        assert [each.status["act"] == "preen" for each in society.agents] == [True, False]
        assert society.failures == []


async def test_promoted_citizen_without_the_blocks_of_its_population_keeps_what_they_have() -> None:
    population = Population(12, CITY, all_blocks(), seed=3)
    async with Society(population) as society:
        await society.run(steps=3)
        before = population.status_of(4)
        agent = population.promote(5, blocks=[Watches()])
        assert agent.status == before
        await society.run(steps=2)
        assert agent.status["plan"] == before["plan"]
        population.demote(5)
        assert population.status_of(4)["relations"] == before["relations"]


async def test_closed_society_leaves_its_agents_what_they_were() -> None:
    async with town() as society:
        await society.run(steps=3)
        agents = [*society.agents]
        said = [each.status.copy() for each in agents]
    assert [each.status for each in agents] == said
    agents[0].status["money"] = 7  # it goes on elsewhere
    async with Society(agents, CITY, seed=4) as other:
        assert other.books.balances["1"] == 7
        agents[1].want(Move("park-1"))
        await other.run(steps=1)
        assert [each.status["watched"] for each in agents] == [4] * 12


ODD_IDS = ("a b", "ä", "007", "1e3", "-1", "🙂", "q\"uo'te", "x/y", "12", "null")


def odd() -> Society:
    """Citizens of odd ids, every second with turns."""
    people = []
    for number, id in enumerate(ODD_IDS):
        status = {"relations": {ODD_IDS[number - 1]: 200}, "home": "park-1", "money": 900}
        blocks = watching() if number % 2 else all_blocks()
        people.append(CitizenAgent(id, memory=CitizenMemory(status), blocks=blocks))
    return Society(people, CITY, seed=3)


async def test_citizens_of_odd_ids_are_told_apart_in_interventions_and_in_a_state() -> None:
    async with odd() as society, odd() as other:
        for each in (
            Intervention(1, status={"needs": {"hunger": 44}, "hat": "red"}, citizens=["ä", "-1"]),
            Intervention(1, status={"needs": {"hunger": "x"}}, citizens=["a b", "007"]),
            Intervention(2, pay=[["🙂", "-1", 5]], tell=["Hello"], citizens=["x/y"]),
        ):
            society.intervene(each)
        await society.run(steps=3)
        assert {why for *_, why in society.failures} == {
            f'status: citizen {id}: hunger must fit its column of int16, got "x"'
            for id in ("a b", "007")
        }
        said = {str(each.id): each.status for each in society.agents}
        assert [id for id, each in said.items() if each.get("hat")] == ["-1", "ä"]
        assert (said["🙂"]["money"], said["-1"]["money"]) == (895, 905)
        hungers = [each["needs"]["hunger"] for each in said.values()]
        assert society.population.columns["hunger"].tolist() == hungers
        other.load_state_dict(society.state_dict())
        assert {str(each.id): each.status for each in other.agents} == said
        assert await other.run(steps=3) == await society.run(steps=3)
        assert other.state_dict() == society.state_dict()
