"""The days of a drawn town, in columns: the same bytes on every platform, and in every release.

Whoever changes a rule changes these numbers, and tells users in the CHANGELOG that results differ.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np

from moothall.society import City, Mode, Population, Society
from moothall.society.blocks import all_blocks
from moothall.society.services.economy import make_economy
from moothall.society.services.feed import Feed

DRAWN = """
money 0482626e place 0e743a2d home b2fca98d moving_to 0e743a2d moving_from 0e743a2d arrives
d93bbc7d left d93bbc7d mode 813889c0 act 4aae7865 hunger c4ca5fad energy 563dd333 safety 9d104b5b
social 5995ae35 item_do 4aae7865 item_where 0e743a2d item_until d93bbc7d plan 80232c61 plan_now
4aae7865 plan_chosen 0e743a2d plan_avoid f28384bc stuck 4aae7865 day 0e743a2d mended d93bbc7d
plan_home 0e743a2d plan_duty 0e743a2d work e7b33ed2 school cbf77bdf gender 9e667ed4 education
b51186e7 occupation 7a084de4 household bcee5599 pay d04a2526 visited_park 464c2e44 visits_park
707bbff6 visited_restaurant 464c2e44 visits_restaurant 707bbff6 visited_shop 464c2e44 visits_shop
707bbff6 age 287a0f17 opinions 022a76fe friends f3fb4229 friendship 1f136af5 faded 0e743a2d skill
2b51179c earned 5fee3eb0 income 03eefbe4 purse 5fee3eb0 savings 5fee3eb0 paid_day 0e743a2d
"""
LIVED = """
money 6bd03ad9 place 4cd8a03b home b2fca98d moving_to 1d1b33fb moving_from 1f0ea58d arrives bb169524
left 2c44f57e mode 342681d5 act d20ddcf9 hunger 281577a4 energy 60046a8b safety bf133e04 social
a0fb9f6b item_do b6e1a391 item_where 996a418c item_until 003982c9 plan 1e4f2223 plan_now 58c8eebc
plan_chosen 6b08e9ea plan_avoid c7b35b87 stuck 4aae7865 day a676216a mended 6582726c plan_home
b2fca98d plan_duty b05b0435 work 75d845c7 school cbf77bdf gender 9e667ed4 education b51186e7
occupation 7a084de4 household bcee5599 pay d04a2526 visited_park cf333d8e visits_park 23f61177
visited_restaurant 9e87ac2c visits_restaurant 974c7891 visited_shop 64e193f2 visits_shop 6a3bdd08
age 287a0f17 opinions 2391ac5f interest_topic f547cabd interest 8c82d7f0 friends 232a30be friendship
e9485378 faded a676216a skill 2b51179c earned ace119a1 income dd09ff27 purse aacfc51c savings
56da9a96 paid_day a676216a jobless 2017aa8c errand 4aae7865 services 1a396720
"""


def told(population: Population) -> dict[str, str]:
    """What tells each column from another, by its name."""
    columns = {name: np.ascontiguousarray(each) for name, each in population.columns.items()}
    return {name: f"{zlib.crc32(each):08x}" for name, each in columns.items()}


def listed(text: str) -> dict[str, str]:
    """The same as it is listed here."""
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=True))


async def test_town_of_two_days_is_the_same_on_every_platform() -> None:
    # So slow that ways take several steps.
    modes = [Mode("walk", metres=1, seconds=5), Mode("drive", metres=1, seconds=2, wait=300)]
    city = City.generate(seed=5, citizens=700, modes=modes)
    population = Population(700, city, all_blocks(), 5)
    drawn = told(population)
    assert drawn | listed(DRAWN) == drawn
    services: Any = [*make_economy(city, seed=5), Feed(most=300)]
    async with Society(population, services=services) as society:
        rows = await society.run(steps=174)  # until a quarter to eight in the evening
        state = json.dumps(society.books.state_dict(), sort_keys=True)
    assert (rows[-1]["moving"], rows[-1]["home"], rows[-1]["messages"]) == (81, 567, 23)
    lived = told(population) | {"services": f"{zlib.crc32(state.encode()):08x}"}
    assert lived == listed(LIVED)
