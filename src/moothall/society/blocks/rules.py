"""Rules that a citizen and rows share: the weights of places, free time; items of a plan."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

from moothall.society import math
from moothall.society.arrays import larger, np, smaller
from moothall.society.blocks.columns import AVOIDS, BOUGHT, HOME, NONE, WHERE, without

_SCALE: Final = 10**9
_LARGEST: Final = 2**24
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


def gravity(attraction: Any, seconds: Any, wait: int = 300) -> Any:
    """Return the weight of a place, 1 or more: attraction ÷ (seconds + wait)²."""
    return larger(1, smaller(_LARGEST, attraction * _SCALE // (seconds + wait) ** 2))


@functools.cache
def explores(known: int, rho: int = 600, gamma: int = 210) -> int:
    """Return the thousandths of going to a new place: rho · known^(−gamma), in thousandths."""
    return 1000 if known == 0 else int(rho * math.power(known, -gamma / 1000))


def with_item(plan: Sequence[dict[str, Any]], item: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a plan with an item inserted; cut or drop the items that overlap it."""
    if item["from"] >= item["until"]:
        return list(plan)
    made: list[dict[str, Any]] = []
    for each in plan:
        if each["from"] < item["from"]:
            made.append({**each, "until": min(each["until"], item["from"])})
        if each["until"] > item["until"]:
            made.append({**each, "from": max(each["from"], item["until"])})
    made.append(item)
    return sorted(made, key=lambda each: each["from"])


def item_at(plan: Sequence[dict[str, Any]], time: int) -> int:
    """Return the index of the item at a second of the day; −1 for none."""
    for index, item in enumerate(plan):
        if item["from"] <= time < item["until"]:
            return index
    return -1


def bought(rows: Any, where: Any = slice(None)) -> Any:
    """Return whether citizens have bought in their current item: `item["bought"]`."""
    if rows.one:
        return bool((rows.item or {}).get("bought"))
    arrays, index = rows.population.arrays, rows.at[where]
    return (arrays["plan"][index, arrays["plan_now"][index]] & BOUGHT) != 0


def set_bought(rows: Any, where: Any, bought: bool) -> None:
    """Set whether some citizens, given as booleans or positions, have bought."""
    if rows.one:
        if where and rows.item is not None:
            rows.item.pop("bought", None)
            rows.item.update({"bought": True} if bought else {})
        return
    arrays, index = rows.population.arrays, rows.at[where]
    at = (index, arrays["plan_now"][index])
    item = arrays["plan"][at]
    arrays["plan"][at] = item | BOUGHT if bought else without(item, BOUGHT)


def stay_home(rows: Any, where: Any) -> None:
    """Let the current items of some citizens continue at home, without a kind of place."""
    if rows.one:
        if where:
            rows.item.pop("kind", None)
            rows.item["where"] = rows["home"]
        return
    arrays, index = rows.population.arrays, rows.at[where]
    at = (index, arrays["plan_now"][index])
    home = arrays["home"][index]
    arrays["item_where"][index] = home
    where = np.where(home < 0, NONE, HOME).astype(np.uint32)
    arrays["plan"][at] = without(arrays["plan"][at], WHERE | AVOIDS) | where
    arrays["plan_chosen"][index] = -1
    arrays["plan_avoid"][index] = 0
