"""The days of a drawn town, in columns: the same bytes on every platform, and in every release.

Whoever changes a rule changes these numbers, and tells users in the CHANGELOG that results differ.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np

from civitas.society import City, Population, Society
from civitas.society.blocks import all_blocks
from civitas.society.services.economy import make_economy
from civitas.society.services.feed import Feed

DRAWN = """
money bba786cf place 0e743a2d home b2fca98d act 4aae7865 hunger c4ca5fad energy 563dd333
safety 9d104b5b social 5995ae35 item_do 4aae7865 item_where 0e743a2d item_until d93bbc7d
plan 80232c61 plan_now 4aae7865 plan_chosen 0e743a2d plan_avoid f28384bc stuck 4aae7865
day 0e743a2d mended d93bbc7d plan_home 0e743a2d plan_duty 0e743a2d work ebc380b3 school 1bcba679
gender 285e9496 education f07f922b visited_park 464c2e44 visits_park 707bbff6
visited_restaurant 464c2e44 visits_restaurant 707bbff6 visited_shop 464c2e44 visits_shop 707bbff6
age 854c8c54 opinions 022a76fe friends 4a804c05 friendship 7f9564ba faded 0e743a2d skill 12ec732c
earned 5fee3eb0 income 5fee3eb0 purse 5fee3eb0 savings 5fee3eb0 paid_day 0e743a2d
"""
LIVED = """
money ff7f66ce place e3f93637 home b2fca98d moving_to 0e743a2d moving_from 0e743a2d
arrives d93bbc7d left d93bbc7d mode 813889c0 act 3fe15175 hunger f99a1752 energy 0aa53503
safety 007df3fe social a5cb31b5 item_do 5fd91a12 item_where 418cd80a item_until c4c4963d
plan 2ee6f6d0 plan_now f5b9f0e7 plan_chosen a5b214fc plan_avoid 19ee1760 stuck 028c6897
day a676216a mended a5f5c366 plan_home b2fca98d plan_duty fe7c1ce7 work ebc380b3 school 1bcba679
gender 285e9496 education f07f922b visited_park 21ca7c27 visits_park 61eb81ef
visited_restaurant 0474d5a0 visits_restaurant fe46bff0 visited_shop 256be1d3 visits_shop 1de67242
age 854c8c54 opinions 385ae03e interest_topic f547cabd interest 8c82d7f0 friends 5aa4bc57
friendship 6f5a16c8 faded a676216a skill 12ec732c earned 4a103aaa income 9616b1c4 purse 723cfe6a
savings 50d97d9e paid_day a676216a services fccdcc53
"""


def told(population: Population) -> dict[str, str]:
    """What tells each column from another, by its name."""
    columns = {name: np.ascontiguousarray(each) for name, each in population.columns.items()}
    return {name: f"{zlib.crc32(each):08x}" for name, each in columns.items()}


def listed(text: str) -> dict[str, str]:
    """The same as it is listed here."""
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=True))


async def test_two_days_of_a_town_are_those_of_every_platform() -> None:
    city = City.generate(seed=5, citizens=700)
    population = Population(700, city, all_blocks(), 5)
    drawn = told(population)
    assert drawn | listed(DRAWN) == drawn
    services: Any = [*make_economy(city, seed=5), Feed(most=300)]
    async with Society(population, services=services) as society:
        rows = await society.run(steps=174)  # until a quarter to eight in the evening
        state = json.dumps(society.books.state_dict(), sort_keys=True)
    assert (rows[-1]["moving"], rows[-1]["home"], rows[-1]["messages"]) == (83, 548, 42)
    lived = told(population) | {"services": f"{zlib.crc32(state.encode()):08x}"}
    assert lived == listed(LIVED)
