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
money 0482626e place 0e743a2d home b2fca98d moving_to 0e743a2d moving_from 0e743a2d arrives d93bbc7d
left d93bbc7d mode 813889c0 act 4aae7865 hunger c4ca5fad energy 563dd333 safety 9d104b5b social
5995ae35 item_do 4aae7865 item_where 0e743a2d item_until d93bbc7d plan 80232c61 plan_now 4aae7865
plan_chosen 0e743a2d plan_avoid f28384bc stuck 4aae7865 day 0e743a2d mended d93bbc7d plan_home
0e743a2d plan_duty 0e743a2d work 9b59a0f5 school cbf77bdf gender 9e667ed4 education b51186e7
occupation 7a084de4 household bcee5599 pay d04a2526 visited_park 464c2e44 visits_park 707bbff6
visited_restaurant 464c2e44 visits_restaurant 707bbff6 visited_shop 464c2e44 visits_shop 707bbff6
age 287a0f17 opinions 022a76fe friends f3fb4229 friendship 1f136af5 faded 0e743a2d skill 2b51179c
earned 5fee3eb0 income dbcea613 purse 5fee3eb0 savings 5fee3eb0 paid_day 0e743a2d licence c41706d6
cars 01931b1a bicycles 1268a1af rents e41b1c99 values bc29f3df
"""
LIVED = """
money 592280b5 place c6de84ff home b2fca98d moving_to 2725b88e moving_from 6e39e3ec arrives b9ffa326
left dbef6716 mode 939f3dc7 act 612ee4cb hunger 21136817 energy 46736662 safety a45b2bd1 social
e0152ef6 age 287a0f17 errand 4aae7865 item_do 41321d68 item_where 963732c2 item_until c042bbd0 plan
b1b76da3 plan_now 26f8a65e plan_chosen ffc08beb plan_avoid f28384bc stuck 4aae7865 day a676216a
mended 46e578ba plan_home b2fca98d plan_duty b9e235ef work 7c61741d school cbf77bdf gender 9e667ed4
education b51186e7 occupation 7a084de4 household bcee5599 values bc29f3df pay d04a2526 visited_park
1e4870dc visits_park 64ffe748 visited_restaurant 906a4368 visits_restaurant bd257a47 visited_shop
3aa14efd visits_shop d82a2488 licence c41706d6 cars 01931b1a bicycles 1268a1af tour 1eb392bf along
8997b12f opinions 75a76d05 interest_topic f547cabd interest 8c82d7f0 friends c368fd7e friendship
1be16650 faded a676216a skill 2b51179c earned 4e625af6 income 996181a3 purse 21b91dad savings
0a6cd246 paid_day a676216a jobless 2017aa8c rents e41b1c99 services 49db1b8f
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
    assert (rows[-1]["moving"], rows[-1]["home"], rows[-1]["messages"]) == (75, 576, 14)
    lived = told(population) | {"services": f"{zlib.crc32(state.encode()):08x}"}
    assert lived == listed(LIVED)
