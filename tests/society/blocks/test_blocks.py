"""Blocks together: the example of seed 000, a block of one's own, and a day of a town."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from tests.society.blocks.living import HOUR, citizen, live, shown, town

from moothall import ScriptedModel
from moothall.agents.dispatch import AgentToolbox
from moothall.society.blocks import EconomyBlock, FeedBlock, OtherBlock, all_blocks
from moothall.society.blocks.citizen_block import CitizenBlock, CitizenBlockParams
from moothall.society.blocks.mobility import MobilityBlock, MobilityBlockParams
from moothall.society.blocks.plan import PlanBlock
from moothall.society.blocks.social import SocialBlock, SocialBlockParams
from moothall.society.city.city import City
from moothall.society.kernel.citizen import (
    AgentType,
    CitizenAgent,
    CitizenAgentParams,
    CitizenMemory,
)
from moothall.society.kernel.wants import Move
from moothall.society.people.generator import citizens, make_people
from moothall.society.services.economy import make_economy
from moothall.society.services.feed import Feed
from moothall.society.society import Society


def test_citizen_agent_of_the_first_example_runs_as_printed() -> None:
    llm = ScriptedModel(['{"block": "MobilityBlock", "reason": "to the park"}'])
    env = town()
    toolbox = AgentToolbox(llm, env)
    plan = [{"do": "leisure", "where": "park-1", "from": 0, "until": 24 * HOUR}]
    memory = CitizenMemory({"plan": plan, "now": 0})

    # Create blocks
    mobility_block = MobilityBlock(llm=llm, environment=env, block_params=MobilityBlockParams())
    social_block = SocialBlock(llm=llm, environment=env, block_params=SocialBlockParams())

    # Create agent with blocks
    agent = CitizenAgent(
        id=1,
        name="John",
        type=AgentType.Citizen,
        toolbox=toolbox,
        memory=memory,
        agent_params=CitizenAgentParams(enable_mobility=True),
        blocks=[mobility_block, social_block],
    )

    # Run agent (called by the simulation engine)
    asyncio.run(agent.run())

    assert agent.dispatcher.decisions[-1].block == "MobilityBlock"
    assert agent.wants == [Move("park-1")]


def test_citizen_with_nothing_but_blocks_lives_a_step() -> None:
    agent = CitizenAgent(1, blocks=all_blocks())
    asyncio.run(agent.run())
    assert agent.status["needs"]["hunger"] == 1000
    assert agent.status["act"] == "sleep"


def test_citizen_step_returns_the_act() -> None:
    for block, do, where, did in (
        (SocialBlock(), "social", None, "social"),
        (MobilityBlock(), "leisure", "park-1", "travel"),
        (EconomyBlock(), "work", "home-1", "work"),
        (OtherBlock(), "sleep", None, "sleep"),
        (FeedBlock(), "browse", None, "browse"),
    ):
        plan = [{"do": do, "where": where, "from": 0, "until": 24 * HOUR}]
        agent = citizen([block], plan=plan, now=0)
        live(agent, others=("2",), city=town())
        assert asyncio.run(agent.run()) == did


def test_block_of_ones_own_takes_twenty_lines() -> None:
    class PrayParams(CitizenBlockParams):
        minutes: int = 10

    class PrayBlock(CitizenBlock):
        """Prays where the plan says so."""

        name = "PrayBlock"
        description = "Prays"
        ParamsType = PrayParams
        does = ("pray",)

        async def forward(self) -> None:
            self.act("pray")
            self.note(f"It prayed for {self.params.minutes} minutes.")

    plan = [{"do": "pray", "where": None, "from": 0, "until": 24 * HOUR}]
    agent = citizen([PrayBlock(), MobilityBlock()], plan=plan, now=0)
    live(agent, 6)
    assert agent.status["act"] == "pray"
    assert agent.memory.stream == [(24, "It prayed for 10 minutes.")]


def test_parameters_are_checked_described_and_do_not_change() -> None:
    for block in all_blocks():
        schema = type(block.params).model_json_schema()
        assert all(field["description"] for field in schema["properties"].values())
        assert block.name
        assert block.description
        assert block.actions
        with pytest.raises(ValueError, match="frozen"):
            block.params.by_model = False
        with pytest.raises(ValueError, match="unknown"):
            type(block.params)(unknown=1)


DAY = 24 * HOUR
LIMITS = {
    "NeedsBlock.hunger": (200, 0, 1000),
    "NeedsBlock.energy": (200, 0, 1000),
    "NeedsBlock.safety": (200, 0, 1000),
    "NeedsBlock.social": (300, 0, 1000),
    "NeedsBlock.speed": (1000, 0, 10_000),
    "PlanBlock.wake": (7.25 * HOUR, 0, DAY),
    "PlanBlock.bed": (22.25 * HOUR, 0, DAY),
    "PlanBlock.spread": (HOUR / 2, 0, 6 * HOUR),
    "PlanBlock.habit": (2.5 * HOUR, 0, 6 * HOUR),
    "PlanBlock.lie_in": (HOUR, 0, DAY),
    "PlanBlock.weekday": (830, 0, 1000),
    "PlanBlock.weekend": (340, 0, 1000),
    "PlanBlock.remote": (560, 0, 1000),
    "PlanBlock.lessons": (8 * HOUR, 0, DAY),
    "PlanBlock.attends": (940, 0, 1000),
    "PlanBlock.breakfast": (HOUR / 2, 0, DAY),
    "PlanBlock.lunch": (HOUR / 2, 0, DAY),
    "PlanBlock.lunch_time": (12.5 * HOUR, 0, DAY),
    "PlanBlock.dinner_time": (18.5 * HOUR, 0, DAY),
    "PlanBlock.dinner": (0.75 * HOUR, 0, DAY),
    "PlanBlock.dines": (80, 0, 1000),
    "MobilityBlock.candidates": (10, 1, 1000),
    "MobilityBlock.wait": (300, 1, DAY),
    "MobilityBlock.rho": (600, 0, 1000),
    "MobilityBlock.gamma": (210, 0, 5000),
    "MobilityBlock.habit": (700, 0, 1000),
    "SocialBlock.here": (600, 0, 1000),
    "SocialBlock.contact": (2, 1, 1000),
    "SocialBlock.fading": (1, 0, 1000),
    "SocialBlock.friends": (150, 1, 10_000),
    "SocialBlock.bound": (400, 0, 2000),
    "SocialBlock.pull": (100, 0, 1000),
    "EconomyBlock.of_income": (900, 0, 1000),
    "EconomyBlock.of_wealth": (600, 0, 1_000_000),
    "EconomyBlock.meal": (250, 0, 1000),
    "EconomyBlock.least": (500, 1, None),
    "EconomyBlock.cash_days": (14, 0, 3650),
    "SocialBlock.replies": (3, 0, 100),
    "FeedBlock.shown": (5, 1, 100),
    "FeedBlock.posts": (100, 0, 1000),
    "FeedBlock.likes": (500, 0, 1000),
    "FeedBlock.follows": (200, 0, 1000),
    "FeedBlock.youngest": (13, 0, 150),
    "SocialBlock.youngest": (3, 0, 150),
}
"""Each number that a block's rule takes: its default, and from where to where it may be."""


def test_numbers_of_blocks_have_their_defaults_and_limits() -> None:
    found = {}
    for block in all_blocks():
        for name, field in type(block.params).model_json_schema()["properties"].items():
            if field.get("type") in ("integer", "number"):
                limits = (field["default"], field["minimum"], field.get("maximum"))
                found[f"{block.name}.{name}"] = limits
    assert found == LIMITS
    every = {block.name: block.params for block in all_blocks()}
    assert all(params.by_model is True for params in every.values())
    assert (every["PlanBlock"].begins, every["MobilityBlock"].mode) == (None, None)
    assert len(every["FeedBlock"].topics) == len(every["SocialBlock"].topics) == 8


def test_block_may_leave_out_the_model() -> None:
    llm = ScriptedModel([])
    block = PlanBlock(llm=llm, block_params=PlanBlock.ParamsType(by_model=False))
    agent = citizen([block])
    asyncio.run(agent.run())
    assert agent.status["plan"]
    assert llm.received == []
    assert block.fallbacks == 0


def test_block_tells_its_model_for_whom_it_decides() -> None:
    model = ScriptedModel([json.dumps({"place": "shop-2"})] * 2)
    for name, told in (("Ada", "Ada"), (None, "citizen 1")):
        plan = [{"do": "shop", "where": "shop", "from": 0, "until": 24 * HOUR}]
        agent = citizen([MobilityBlock(llm=model)], plan=plan, now=0)
        agent.name = name
        live(agent, 10, city=town())
        assert shown(model)["you"]["name"] == told
    said = shown(model)
    own = {each: agent.status[each] for each in ("profile", "home", "needs", "money", "opinions")}
    assert said["you"] == {"name": "citizen 1", **own}
    assert model.received[0][0] == model.received[1][0]  # the same for all
    assert [each["place"] for each in said["places"]] == ["shop-1", "shop-2"]


# -- a day of a town -------------------------------------------------------------------------------


class Day:
    """What a town of 80 did on a Monday, seen after each step."""

    def __init__(self, seed: int = 3) -> None:
        city = City.generate(seed=seed, citizens=80)
        self.people = citizens(make_people(city, 80, seed=seed))
        services = [*make_economy(city, seed=seed), Feed()]
        self.society = Society(self.people, city, seed=seed, services=services)
        self.money = self.society.books.total
        self.acts: list[list[str]] = [[] for _ in self.people]
        self.closed: list[str] = []
        self.before: dict[str, Any] = {}
        asyncio.run(self.society.run(days=1, progress=self.saw))
        self.status = [agent.status for agent in self.people]
        self.after = dict(self.society.books.balances)
        self.failures = list(self.society.failures)
        posts = self.society.services["feed"].posts.values()
        self.feed = (len(posts), sum(len(post.liked) for post in posts))
        self.society.close()

    def saw(self, row: dict[str, Any]) -> None:
        city, time = self.society.city, row["step"] * 900
        for acts, agent in zip(self.acts, self.people, strict=True):
            acts.append(agent.status["act"])
            place = self.before.get(agent.id, agent.status["home"])
            if (
                place is not None
                and acts[-1] in ("work", "shop", "study")
                and not city.is_open(place, time)
            ):
                self.closed.append(f"{agent.id} at {place}, {time}")
            arrived = agent.status["place"]
            if arrived not in (None, place) and not city.is_open(arrived, time + 900):
                self.closed.append(f"{agent.id} came to {arrived}, {time + 900}")
            self.before[agent.id] = arrived


@pytest.fixture(scope="module")
def day() -> Day:
    return Day()


def test_day_of_a_town_has_sleep_meals_and_work(day: Day) -> None:
    for acts in day.acts:
        spent = Counter(acts)
        assert 18 <= spent["sleep"] <= 52  # 4.5 to 13 hours
        assert spent["eat"] >= 2
    workers = [acts for acts, s in zip(day.acts, day.status, strict=True) if s["work"]]
    hours = [each / 4 for acts in workers if (each := Counter(acts)["work"])]
    assert 0.6 < len(hours) / len(workers) < 1
    assert 6 < sum(hours) / len(hours) < 9
    assert not any(
        Counter(a)["work"] for a, s in zip(day.acts, day.status, strict=True) if not s["work"]
    )


def test_blocks_closed_places_are_neither_used_nor_visited(day: Day) -> None:
    assert day.closed == []


def test_money_only_moved_and_somebody_earned_bought_and_was_taxed(day: Day) -> None:
    assert sum(day.after.values()) == day.money
    assert min(day.after.values()) >= 0
    assert {
        str(agent.id): agent.status["money"] for agent in day.people
    }.items() <= day.after.items()
    earned = [status["earned"] for status in day.status if status.get("earned")]
    assert len(earned) > 20
    firms = [each for id, each in day.society.services.items() if id.startswith("firm-")]
    assert sum(firm.month_sold for firm in firms if firm.sells) > 100
    assert day.after["government"] != day.society.services["government"].money


def test_needs_are_met_over_a_day(day: Day) -> None:
    for need in ("hunger", "energy", "safety", "social"):
        levels = [status["needs"][need] for status in day.status]
        assert sum(levels) / len(levels) > 300
    assert day.failures == []


def test_model_that_talks_nonsense_costs_no_step_but_is_counted() -> None:
    city = City.generate(seed=3, citizens=10)
    model = ScriptedModel(["I am a teapot."] * 1000)
    people = citizens(make_people(city, 10, seed=3))
    society = Society(people, city, seed=3, model=model)
    (row,) = asyncio.run(society.run(steps=1))
    assert row["failures"] == 0
    assert row["fallbacks"] == 10  # the plan's; at home asleep there is nothing to choose
    assert all(agent.status["plan"] for agent in people)
    assert all(agent.status["fallbacks"]["PlanBlock"] == 1 for agent in people)
    society.close()


def test_day_continues_from_its_state_as_json() -> None:
    def town_of_20() -> Society:
        city = City.generate(seed=3, citizens=20)
        people = citizens(make_people(city, 20, seed=3))
        return Society(people, city, seed=3, services=[*make_economy(city, seed=3), Feed()])

    whole, begun, goes_on = town_of_20(), town_of_20(), town_of_20()
    asyncio.run(whole.run(steps=60))
    asyncio.run(begun.run(steps=40))
    goes_on.load_state_dict(json.loads(json.dumps(begun.state_dict())))
    asyncio.run(goes_on.run(steps=20))
    assert json.dumps(goes_on.state_dict()) == json.dumps(whole.state_dict())
    for society in (whole, begun, goes_on):
        society.close()
