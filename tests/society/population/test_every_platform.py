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
money 728f1717 place 5a36ca3e home b2fca98d moving_to d1c5300f moving_from 4fb15d27 arrives
18b1de46 left 6e8bb9d2 mode 32726a47 act b224d1a7 hunger 814e8b6c energy aef50a47 safety e0625c96
social 4b429c0a item_do 1d5d8648 item_where bdd7139f item_until e42ae769 plan 8ed65f7f plan_now
9e75f83d plan_chosen da98a823 plan_avoid 39749cc0 stuck 4aae7865 day a676216a mended 0e04434c
plan_home b2fca98d plan_duty b05b0435 work 75d845c7 school cbf77bdf gender 9e667ed4 education
b51186e7 occupation 7a084de4 household bcee5599 pay d04a2526 visited_park cf333d8e visits_park
23f61177 visited_restaurant 9e87ac2c visits_restaurant 974c7891 visited_shop 8fb781c0 visits_shop
6a949ab2 age 287a0f17 opinions b458f8b9 interest_topic f547cabd interest 8c82d7f0 friends 0a2d47cd
friendship fbdfd5e5 faded a676216a skill 2b51179c earned a26f878e income dd09ff27 purse 7dc89250
savings 6da9bb1b paid_day a676216a jobless 2017aa8c errand 4aae7865 services 0fd15bff
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
    assert (rows[-1]["moving"], rows[-1]["home"], rows[-1]["messages"]) == (78, 565, 23)
    lived = told(population) | {"services": f"{zlib.crc32(state.encode()):08x}"}
    assert lived == listed(LIVED)
