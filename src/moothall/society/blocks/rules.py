"""Numbers of rules: the weights of places, and of what fills free time."""

from __future__ import annotations

import functools
from typing import Any, Final

from moothall.society import math
from moothall.society.arrays import Array, larger, smaller

_SCALE: Final = 10**9
_MAX_WEIGHT: Final = 2**24
LEISURE: Final = (
    ("leisure", "home", 60),
    ("browse", "home", 20),
    ("social", "home", 1),
    ("social", "restaurant", 1),
    ("social", "park", 1),
    ("leisure", "park", 2),
    ("shop", "shop", 15),
)
"""What fills free time: an activity, its place, and its usual weight of 100.

The weights are fitted to 2.3 … 3.4 trips a day (National Household Travel Survey 2022, 2017), 34
minutes of socializing, most of them in the hours of company that a need seeks, and 20 to 40 of
purchases (American Time Use Survey 2022).
"""
PIECE: Final = (2, 7)
"""A piece of free time usually has at least 2 quarters of an hour and less than 2 + 7; assumed."""
SHOPPING: Final = (2, 3)
"""The same of shopping: half an hour to an hour, 45 minutes with the ways on a day that one shops
(the same survey)."""

ERRANDS: Final = ("shop", "eat")
"""What is bought at a place: time is made for it, if the way or the length of a step left none."""
SPARE: Final = ("social", "leisure", "browse")
"""What gives way to an errand that is late."""


def gravity(attraction: Array, seconds: Array, wait: int = 300) -> Any:
    """Return the weight of a place, 1 or more: attraction ÷ (seconds + wait)²."""
    return larger(1, smaller(_MAX_WEIGHT, attraction * _SCALE // (seconds + wait) ** 2))


@functools.cache
def explore_chance(places: int, rho: int = 600, gamma: int = 210) -> int:
    """Return the thousandths of going to a new place: rho · known^(−gamma), in thousandths."""
    return 1000 if places == 0 else int(rho * math.power(places, -gamma / 1000))
