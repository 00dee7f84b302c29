"""Rules that a citizen and rows share: the weights of places, free time."""

from __future__ import annotations

import functools
from typing import Any, Final

from moothall.society import math
from moothall.society.arrays import larger, smaller

_SCALE: Final = 10**9
_LARGEST: Final = 2**24
LEISURE: Final = (
    ("leisure", "home", 50),
    ("browse", "home", 18),
    ("social", "restaurant", 5),
    ("social", "park", 12),
    ("leisure", "park", 10),
    ("shop", "shop", 5),
)
"""What fills free time: an activity, its place, and its weight of 100."""


def gravity(attraction: Any, seconds: Any, wait: int = 300) -> Any:
    """Return the weight of a place, 1 or more: attraction ÷ (seconds + wait)²."""
    return larger(1, smaller(_LARGEST, attraction * _SCALE // (seconds + wait) ** 2))


@functools.cache
def explores(known: int, rho: int = 600, gamma: int = 210) -> int:
    """Return the probability, in thousandths, of going to a new place: rho · known^(−gamma).

    `known` is the number of places of the kind visited before; rho and gamma are in thousandths.
    """
    return 1000 if known == 0 else int(rho * math.power(known, -gamma / 1000))
