"""Mobility: which place, by which mode, and never to one that is closed."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from tests.society.blocks.living import HOUR, citizen, live, town

from moothall import ConfigError, NativeSpace, ScriptedModel
from moothall.society.blocks.mobility import MobilityBlock, MobilityBlockParams
from moothall.society.blocks.plan import PlanBlock
from moothall.society.blocks.rules import explore_chance, gravity
from moothall.society.city.city import City
from moothall.society.city.map import Place
from moothall.society.city.network import Network
from moothall.society.kernel.wants import Move


def going(where: str, block: MobilityBlock | None = None, **status: Any) -> Any:
    plan = [{"do": "leisure", "where": where, "from": 0, "until": 24 * HOUR}]
    return citizen([PlanBlock(), block or MobilityBlock()], plan=plan, day=0, **status)


def test_mobility_chooses_near_and_large_places_more_often() -> None:
    assert gravity(10, 300) > gravity(10, 600) > gravity(10, 6000)
    assert gravity(20, 600) > gravity(10, 600)
    assert (gravity(10, 300), gravity(10, 300, 700)) == (10**10 // 600**2, 10**10 // 1000**2)
    assert (gravity(1, 10**9), gravity(10**6, 0, 1)) == (1, 2**24)
    chosen = []
    for params in (MobilityBlockParams(), MobilityBlockParams(wait=86_400)):
        made = (going("shop", MobilityBlock(block_params=params), id=id) for id in range(1, 101))
        chosen.append(Counter(live(each, 10, city=town())[0].to for each in made))
    assert chosen[0]["shop-1"] > 2 * chosen[0]["shop-2"] > 0
    assert chosen[1]["shop-1"] < 1.5 * chosen[1]["shop-2"]  # each trip costs a day besides


def test_mobility_explores_less_with_more_known_places() -> None:
    assert explore_chance(0) == 1000
    assert explore_chance(1) == 600
    usual = MobilityBlockParams()
    assert [explore_chance(known, usual.rho, usual.gamma) for known in (2, 4, 8)] == [518, 448, 387]
    # Known ways: who never explores goes back where it was.
    never = MobilityBlockParams(rho=0)
    for number in range(1, 11):
        agent = going(
            "shop", MobilityBlock(block_params=never), id=number, visits={"shop": {"shop-2": 3}}
        )
        (move,) = live(agent, 10, city=town())
        assert move.to == "shop-2"
        assert agent.status["visits"]["shop"]["shop-2"] == 4
    # Places that it knows count, also where they are not near.
    steep = MobilityBlockParams(rho=1000, gamma=5000)
    for others, to in (((), "shop-1"), (("park-1", "work-1", "restaurant-1"), "shop-2")):
        known = {"shop": dict.fromkeys((*others, "shop-2"), 1)}
        agent = going("shop", MobilityBlock(block_params=steep), visits=known)
        assert live(agent, 10, city=town())[0].to == to


def test_mobility_forgets_the_least_visited_of_nine_places_unless_it_is_new() -> None:
    known = {f"shop-{number}": number for number in range(3, 11)}
    agent = going("shop", visits={"shop": dict(known)}, place="home-1")
    far = [Place(id, "shop", 9, 9) for id in known]
    (move,) = live(agent, 10, city=City([*town().places, *far], town().roads))
    del known["shop-3"]
    assert agent.status["visits"]["shop"] == {**known, move.to: 1}


def test_mobility_fits_a_citizen_away_from_its_plans_place() -> None:
    block = MobilityBlock()
    fits = [block.fits(each) for each in ("go home", "Move on", "travel", "work at office-1", "")]
    assert fits == [2, 2, 2, 0, 0]
    for where, place, status, score in (
        ("park-1", "home-1", {}, 2),
        ("park-1", "park-1", {}, 0),
        (None, "home-1", {}, 0),
        ("park-1", "home-1", {"stuck": "closed"}, 0),
        ("park-1", None, {"moving": {"to": "park-1"}, "stuck": "closed"}, 2),
    ):
        agent = going("park-1")
        live(agent, 9, city=town(), place=place)
        agent.status["plan"][0]["where"] = where
        agent.status.update(status)
        assert agent.blocks[1].fits(agent.perceived) == score


@pytest.mark.parametrize(
    ("where", "hours", "why"),
    (
        ("park-1", {"park_1": (20, 22)}, "park-1 is closed"),
        ("shop", {"shop_1": (20, 22), "shop_2": (20, 22)}, "no shop within reach is open"),
        ("island", {}, "there is no way to island"),
    ),
)
def test_mobility_citizen_without_a_way_stays_and_says_why(
    where: str, hours: Any, why: str
) -> None:
    city = town(**hours)
    if where == "island":
        city = City([*city.places, Place("island", "park", 9, 9)], city.roads)
    plan = [{"do": "leisure", "where": where, "from": 0, "until": 24 * HOUR}]
    agent = citizen([MobilityBlock()], plan=plan, now=0)
    assert live(agent, 9, city=city) == []
    assert agent.status["stuck"].startswith(why)
    assert agent.status["act"] == "idle"


def test_mobility_citizen_without_a_place_chooses_from_home() -> None:
    assert live(going("park"), 9, city=town(), place=None) == [Move("park-1")]


def test_mobility_avoids_places_closed_on_arrival() -> None:
    city = town(shop_1=(12, 18), shop_2=(12, 18))
    assert live(going("shop"), 9, city=city) == []
    assert live(going("shop"), 18, city=city) == []
    # It opens on the way: at 11:45 it is still closed, and open when one is there.
    assert len(live(going("shop"), 11.75, city=city)) == 1
    assert live(going("shop"), 17.75, city=city) == []


def modes(where: str = "park-1", city: City | None = None, **profile: Any) -> Counter[str]:
    """How 100 citizens of a kind leave home."""
    profile = {"age": 40, "cars": 2, "licence": True, "bicycles": 1, **profile}
    made = (going(where, id=id, profile=profile) for id in range(1, 101))
    city = city or town()
    return Counter(live(each, 9, city=city)[0].mode for each in made)


def test_mobility_chooses_the_mode_by_distance_age_licence_cars_and_bicycles() -> None:
    usual, without = modes(), modes(cars=0)
    assert usual["drive"] > 80 > 20 > usual["walk"] > 2
    assert without["drive"] < 50 < without["walk"] + without["transit"]
    passenger = modes(licence=False)
    assert usual["walk"] < passenger["walk"] < without["walk"]
    assert modes(age=15) == passenger  # who is below 16 is driven
    alone, shared = modes(cars=1, household="alone"), modes(cars=1, household="couple")
    assert alone == usual
    assert usual["drive"] > shared["drive"] > passenger["drive"]
    assert sum(modes(bicycles=none, cars=0)["cycle"] > 0 for none in (0, 1)) == 1
    assert modes(age=4, cars=0)["cycle"] == 0
    far = City(
        [Place("home-1", "home", 0, 0), Place("park-1", "park", 9_000, 0, 99)],
        [("home-1", "park-1", 9_000)],
    )
    assert modes(city=far)["walk"] == 0
    walks = MobilityBlock(block_params=MobilityBlockParams(mode="walk"))
    assert live(going("park-1", walks), 9, city=far) == [Move("park-1", "walk")]


def test_mobility_citizen_keeps_its_mode_until_it_is_home() -> None:
    for mode in ("walk", "cycle", "drive"):
        agent = going("park-1", tour=mode)
        assert live(agent, 9, city=town(), place="shop-1") == [Move("park-1", mode)]
    agent = going("park-1", tour="cycle", profile={"age": 40, "bicycles": 0, "cars": 2})
    (move,) = live(agent, 9, city=town())
    assert move.mode == agent.status["tour"] == "drive"


@pytest.mark.parametrize(("habit", "most"), ((1000, 1), (0, 4)))
def test_mobility_citizen_of_habit_takes_the_same_mode_each_day(habit: int, most: int) -> None:
    block, city = MobilityBlock(block_params=MobilityBlockParams(habit=habit)), town()
    plan = [{"do": "leisure", "where": "park-1", "from": 0, "until": 24 * HOUR}]
    agent = citizen([block], plan=plan, now=0, profile={"age": 40, "cars": 0, "bicycles": 1})
    ways = [live(agent, step=36 + 96 * day, city=city)[0].mode for day in range(40)]
    assert min(most, 3) <= len(set(ways)) <= most


def test_mobility_citizen_at_its_place_stays_and_a_traveller_goes_on() -> None:
    assert live(going("park-1"), 9, city=town(), place="park-1") == []
    agent = going("park", moving={"to": "park-1", "arrives": 40, "mode": "walk"})
    assert live(agent, 9, city=town(), place=None) == []
    assert agent.status["act"] == "travel"


def test_mobility_model_chooses_among_the_places() -> None:
    block = MobilityBlock(llm=ScriptedModel([json.dumps({"place": "shop-2"})]))
    assert live(going("shop", block), 10, city=town())[0].to == "shop-2"
    assert block.fallbacks == 0


def test_mobility_model_is_not_asked_where_there_is_one_place() -> None:
    block = MobilityBlock(llm=ScriptedModel([]))
    assert live(going("restaurant", block), 12, city=town())[0].to == "restaurant-1"
    assert (block.fallbacks, block.llm.received) == (0, [])


@pytest.mark.parametrize("answer", ("the shop", json.dumps({"place": "the moon"}), OSError("gone")))
def test_nonsense_of_a_model_falls_back_to_the_rule_and_is_counted(answer: Any) -> None:
    block = MobilityBlock(llm=ScriptedModel([answer]))
    assert live(going("shop", block), 10, city=town()) == live(going("shop"), 10, city=town())
    assert block.fallbacks == 1


def test_mobility_works_in_a_network_without_hours() -> None:
    city: Any = Network({"home-1": "home", "a": "club", "b": "club"}, [("home-1", "a"), ("a", "b")])
    (move,) = live(going("club"), 3, city=city)
    assert move.to in ("a", "b")


def test_mobility_actions_need_a_city_and_say_so() -> None:
    bare: Any = SimpleNamespace(by_kind=lambda kind: ())
    plan = [{"do": "leisure", "where": "park-1", "from": 0, "until": 24 * HOUR}]
    with pytest.raises(ConfigError, match="MobilityBlock needs places, travel times to places"):
        live(citizen([MobilityBlock()], plan=plan, now=0), 8, city=bare)
    block = MobilityBlock()
    agent = citizen([block])
    live(agent, 8, place=None)
    with pytest.raises(ConfigError, match="MobilityBlock needs"):
        asyncio.run(block.go("park-1"))
    live(agent, 8, city=town(park_1=(10, 20)))
    assert asyncio.run(block.go("park-1")) is False
    with NativeSpace() as space:  # which is no society
        space.add(agent)
        assert asyncio.run(block.go("shop-1")) is True
    assert [want.to for want in agent.wants] == ["shop-1"]
    assert asyncio.run(block.places("shop")) == ["shop-1", "shop-2"]
    shops = [Place(f"shop-{number:02}", "shop", 10 * number, 0) for number in range(12)]
    ways = [("home-1", shop.id, shop.x + 1) for shop in shops]
    live(agent, 8, city=City([Place("home-1", "home", 0, 0), *shops], ways))
    assert asyncio.run(block.places("shop")) == [shop.id for shop in shops[:10]]
