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
money bcecb66a place 0e743a2d home b2fca98d moving_to 0e743a2d moving_from 0e743a2d arrives
d93bbc7d left d93bbc7d mode 813889c0 act 4aae7865 hunger c4ca5fad energy 563dd333 safety
9d104b5b social 5995ae35 item_do 4aae7865 item_where 0e743a2d item_until d93bbc7d plan 80232c61
plan_now 4aae7865 plan_chosen 0e743a2d plan_avoid f28384bc stuck 4aae7865 day 0e743a2d mended
d93bbc7d plan_home 0e743a2d plan_duty 0e743a2d work 5fb79dcf school a36de043 gender 2fd746a2
education 902081dc occupation 253a119b household c5a9355d pay 058a59b2 visited_park 464c2e44
visits_park 707bbff6 visited_restaurant 464c2e44 visits_restaurant 707bbff6 visited_shop
464c2e44 visits_shop 707bbff6 age 3eba8ae8 opinions 022a76fe friends f3fb4229 friendship
4e16b785 faded 0e743a2d skill 82a6b2d8 earned 5fee3eb0 income 5fee3eb0 purse 5fee3eb0 savings
5fee3eb0 paid_day 0e743a2d
"""
LIVED = """
money 7a48d5e5 place 2d64051a home b2fca98d moving_to 1832f2a0 moving_from af2e67d6 arrives
7740a5e8 left 179a6e61 mode e0b5f798 act 0813cca7 hunger 97ae3432 energy 06469f35 safety
6ad021d3 social b5adc453 item_do c365841a item_where b6a1e29a item_until 823b24bf plan fc549305
plan_now 4c828240 plan_chosen a7c03e32 plan_avoid 602afc1c stuck 4aae7865 day a676216a mended
3cabf158 plan_home b2fca98d plan_duty 1fa6cc4f work b2bf1621 school a36de043 gender 2fd746a2
education 902081dc occupation 253a119b household c5a9355d pay 058a59b2 visited_park 29eb2538
visits_park b917f12b visited_restaurant 868d013a visits_restaurant 49eeb4e1 visited_shop
750f1659 visits_shop 4889e46c age 3eba8ae8 opinions b392ee8a interest_topic f547cabd interest
8c82d7f0 friends 83635069 friendship 3fd4e8d2 faded a676216a skill 82a6b2d8 earned 799a6aaf
income aa463092 purse 994f3ab8 savings 481aecbe paid_day a676216a jobless fd009485 services
9721c0be
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
    assert (rows[-1]["moving"], rows[-1]["home"], rows[-1]["messages"]) == (86, 565, 22)
    lived = told(population) | {"services": f"{zlib.crc32(state.encode()):08x}"}
    assert lived == listed(LIVED)
