"""Rules that a citizen and rows share: how places attract, and what a day is filled with."""

from __future__ import annotations

from typing import Any, Final

from civitas.society import math
from civitas.society.arrays import larger, smaller

_SCALE: Final = 10**9
_LARGEST: Final = 2**24
REMEDIES: Final = {
    "hunger": ("eat", 1800),
    "energy": ("sleep", 7200),
    "safety": ("leisure", 3600),
    "social": ("social", 3600),
}
"""What a need that is too low puts into the plan, and for how many seconds."""
LEISURE: Final = (
    ("leisure", "home", 50),
    ("browse", "home", 18),
    ("social", "restaurant", 5),
    ("social", "park", 12),
    ("leisure", "park", 10),
    ("shop", "shop", 5),
)
"""What free time is filled with: what, where, and how often of a hundred."""


def gravity(attraction: Any, seconds: Any, wait: int = 300) -> Any:
    """Return the weight of a place, a whole number: attraction ÷ (seconds + wait)², 1 or more.

    Args:
        attraction: how many the place holds; a number, or an int64 array, as of `seconds`
        seconds: how long it takes to get there
        wait: seconds that every trip costs besides, so that next door is not everything
    """
    return larger(1, smaller(_LARGEST, attraction * _SCALE // (seconds + wait) ** 2))


def explores(known: int, rho: int = 600, gamma: int = 210) -> int:
    """Return by which probability, in thousandths, one goes to a new place: rho · known^(−gamma).

    `known` is how many places of the kind one has been to; rho and gamma are in thousandths.
    """
    return 1000 if known == 0 else int(rho * math.power(known, -gamma / 1000))
