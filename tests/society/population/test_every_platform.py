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
money bba786cf place 0e743a2d home b2fca98d moving_to 0e743a2d moving_from 0e743a2d
arrives d93bbc7d left d93bbc7d mode 813889c0 act 4aae7865 hunger c4ca5fad energy 563dd333
safety 9d104b5b social 5995ae35 item_do 4aae7865 item_where 0e743a2d item_until d93bbc7d
plan 80232c61 plan_now 4aae7865 plan_chosen 0e743a2d plan_avoid f28384bc stuck 4aae7865
day 0e743a2d mended d93bbc7d plan_home 0e743a2d plan_duty 0e743a2d work e26a89d4 school 1bcba679
gender 285e9496 education f07f922b visited_park 464c2e44 visits_park 707bbff6
visited_restaurant 464c2e44 visits_restaurant 707bbff6 visited_shop 464c2e44 visits_shop 707bbff6
age 854c8c54 opinions 022a76fe friends 4a804c05 friendship 7f9564ba faded 0e743a2d skill 12ec732c
earned 5fee3eb0 income 5fee3eb0 purse 5fee3eb0 savings 5fee3eb0 paid_day 0e743a2d
"""
LIVED = """
money a29f9c48 place afa44af1 home b2fca98d moving_to ea707e46 moving_from 8d27e44b
arrives dc91fa19 left a8e896c5 mode 1288918c act 864d138d hunger 008ff554 energy df27abd9
safety eb5de0f2 social 84d910fb item_do 24c0b4ba item_where c800cceb item_until ac89f79a
plan e6548429 plan_now 3ce3382d plan_chosen a473d465 plan_avoid 27a23cb6 stuck 19246415
day a676216a mended 3aa09466 plan_home b2fca98d plan_duty f7d51580 work e26a89d4 school 1bcba679
gender 285e9496 education f07f922b visited_park 9b4f70f8 visits_park 2ad5bc5a
visited_restaurant 47da2a6e visits_restaurant 0d681e44 visited_shop 56b2562b visits_shop 9d884c95
age 854c8c54 opinions 76185de1 interest_topic f547cabd interest 8c82d7f0 friends 2fa4c530
friendship 054f0002 faded a676216a skill 12ec732c earned 8dfa657c income 28e4931c purse 20bfcdde
savings a1e29fcd paid_day a676216a services d66aac72
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
    assert (rows[-1]["moving"], rows[-1]["home"], rows[-1]["messages"]) == (133, 532, 33)
    lived = told(population) | {"services": f"{zlib.crc32(state.encode()):08x}"}
    assert lived == listed(LIVED)
