"""Rules that a citizen and rows share: the weights of places, free time; items of a plan."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, Final

from moothall.society import math
from moothall.society.arrays import Array, larger, smaller
from moothall.society.blocks.columns import (
    act_code,
)
from moothall.society.clock import DAY_S
from moothall.society.columns import city_queries
from moothall.society.columns.row import Row
from moothall.society.kernel.perception import Item
from moothall.society.kernel.wants import Move

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


def with_item(plan: Sequence[Item], item: Item) -> list[Item]:
    """Return a plan with an item inserted; cut or drop the items that overlap it."""
    if item["from"] >= item["until"]:
        return list(plan)
    items: list[Item] = []
    for each in plan:
        if each["from"] < item["from"]:
            items.append({**each, "until": min(each["until"], item["from"])})
        if each["until"] > item["until"]:
            items.append({**each, "from": max(each["from"], item["until"])})
    items.append(item)
    return sorted(items, key=lambda each: each["from"])


def item_at(plan: Sequence[Item], time: int) -> int:
    """Return the index of the item at a second of the day; −1 for none."""
    for index, item in enumerate(plan):
        if item["from"] <= time < item["until"]:
            return index
    return -1


class OwnPlan:
    """The plan of one citizen, in its status; it has the methods of `Plans`."""

    def __init__(self, row: Row) -> None:
        self._row = row
        self._status: dict[str, Any] = row.status

    @property
    def _item(self) -> Item:
        item = self._row.item
        assert item is not None
        return item

    @property
    def _duty(self) -> str | None:
        """The place of work, or else the school."""
        return self._status.get("work") or self._status.get("school")

    def is_moving(self) -> bool:
        """Return whether it is on its way."""
        return bool(self._status.get("moving"))

    def is_due(self, day: int) -> bool:
        """Return whether it needs a plan: of a new day, or because its home or work has changed."""
        status, home, duty = self._status, self._status.get("home"), self._duty
        moved = status.get("plan_home", home) != home or status.get("plan_duty", duty) != duty
        return status.get("day") != day or not status.get("plan") or moved

    def make(self, block: Any, day: int, answer: list[Item] | None) -> None:
        """Take the answer of a model as the plan, or make one by rule."""
        self._status["plan"] = answer or block.by_rule()
        self._status.update(day=day, plan_home=self._status.get("home"), plan_duty=self._duty)
        self._status.pop("stuck", None)

    def is_over(self, time: int) -> bool:
        """Return whether its item is over."""
        if "now" not in self._status:
            self.advance(time)
        item = self._row.item
        return item is None or not item["from"] <= time < item["until"]

    def is_doing(self, *activities: str) -> bool:
        """Return whether its item is one of some activities."""
        item = self._row.item
        return item is not None and item["do"] in activities

    def has_bought(self) -> bool:
        """Return whether it has bought in its item: `item["bought"]`."""
        return bool((self._row.item or {}).get("bought"))

    def set_bought(self, where: bool, bought: bool) -> None:
        """Set whether it has bought."""
        if where and (item := self._row.item) is not None:
            item.pop("bought", None)
            item.update({"bought": True} if bought else {})

    def stay_home(self, where: bool) -> None:
        """Let its item continue at home, without a kind of place."""
        if where and (item := self._row.item) is not None:
            item.pop("kind", None)
            item["where"] = self._row["home"]

    def is_at_home(self) -> bool:
        """Return whether its item is at home."""
        item = self._row.item
        return item is not None and item["where"] == self._status.get("home")

    def remember(self, block: Any, where: bool) -> None:
        """Remember an item that is over."""
        if where and self._row.item is not None:
            block.note_end(self._row.item)

    def advance(self, time: int) -> None:
        """Go on to the item at a time of the day."""
        status = self._status
        previous, status["now"] = status.get("now"), max(0, item_at(status["plan"], time))
        if status["now"] != previous:
            status.pop("stuck", None)

    def _errand(self, slots: Iterable[int]) -> int:
        """Return the first of these slots with an errand at a kind of place; 0 for none."""
        status, plan = self._status, self._status["plan"]
        kinds = {*self._row.city.kinds()} - {*map(status.get, ("home", "work", "school"))}
        for slot in slots:
            item = plan[slot]
            if item["do"] in ERRANDS and item["where"] in kinds and "kind" not in item:
                return slot
        return 0

    def missed_errands(self, time: int, where: bool) -> int:
        """Return the slot of the last errand after the current item that is over by then, or 0."""
        now, plan = self._status.get("now") or 0, self._status["plan"]
        return self._errand(reversed(range(now + 1, max(0, item_at(plan, time))))) if where else 0

    def next_errands(self, before: int, where: bool) -> int:
        """Return the slot of the next errand that begins before a time, or 0."""
        now, plan = self._status["now"], self._status["plan"]
        slots = (slot for slot in range(now + 1, len(plan)) if plan[slot]["from"] < before)
        return self._errand(slots) if where else 0

    def is_free(self) -> bool:
        """Return whether it has chosen no place for an item that goes on or comes."""
        return not any("kind" in each for each in self._status["plan"][self._status["now"] :])

    def bring_forward(self, slot: int, time: int, until: int, where: bool) -> None:
        """Do an errand now, and something else at home in its stead."""
        if where:
            item = self._status["plan"][slot]
            errand = {**item, "from": time, "until": until}
            item.update(do="leisure", where=self._status.get("home"))
            self._insert(errand)

    def take_stuck(self, where: bool) -> bool:
        """Return whether it could not get to its item's place, and forget it."""
        self._row.broken_by = (self._status.pop("stuck", None) or "") if where else ""
        return bool(self._row.broken_by)

    def note_refused(self, refused: bool) -> bool:
        """Note why it was turned away; return whether it was."""
        if refused:
            self._row.broken_by = self._row.reason(Move) or "it could not get there"
        return refused

    def note_closed(self, closed: bool) -> None:
        """Do nothing: it is noted where the place is looked at."""

    def is_closed(self, time: int) -> bool:
        """Return whether its item's place is closed."""
        item, city = self._row.item, self._row.city
        place = None if item is None else item["where"]
        if city is None or place is None or place not in city:
            return False
        is_closed = not city_queries.is_open(self._row, place, time)
        if is_closed and not self._row.broken_by:
            self._row.broken_by = f"{place} is closed"
        return is_closed

    def is_stuck(self) -> bool:
        """Return whether it cannot get to its item's place."""
        return bool(self._status.get("stuck"))

    def get_stuck(self, why: str, where: bool, place: str = "") -> None:
        """Note why it cannot get to its item's place: it is idle."""
        if where:
            self._status["stuck"] = why.format(place)
            self._row["act"] = act_code("idle")

    def avoids(self, place: str | None) -> bool:
        """Return whether a place has turned it away in its item."""
        return place in (self._row.item or {}).get("avoid", ())

    def choose(self, place: str, kind: str) -> None:
        """Take a place as that of its item."""
        self._item.update(kind=kind, where=place)

    def kind_sought(self) -> str:
        """Return the kind of place where its item is; "" if it is at a place."""
        item, status, city = self._row.item, self._status, self._row.city
        place: str = "" if item is None else item["where"] or ""
        own_places = map(status.get, ("home", "work", "school"))
        return place if place in city.kinds() and place not in own_places else ""

    def has_others(self) -> bool:
        """Return whether another place of the chosen place's kind may be tried."""
        item = self._item
        is_chosen = item.get("kind") is not None and item["where"] != item["kind"]
        return is_chosen and len(item.get("avoid", ())) < 3

    def try_another(self) -> None:
        """Choose another place of the kind."""
        item = self._item
        item.update(where=item["kind"], avoid=[*item.get("avoid", ()), item["where"]])
        self._note_mended(f"another {item['kind']}")

    def stay(self) -> None:
        """Stay wherever it is."""
        self._item["where"] = None
        self._note_mended("stays where it is")

    def go_home(self, time: int) -> None:
        """Have leisure at home until the end of the item."""
        self._put_item("leisure", self._status.get("home"), time, self._item["until"])

    def put_remedies(self, needs: Sequence[Any], number: int, time: int) -> None:
        """Do from now on what helps a need, given by its number; −1: none."""
        if number >= 0:
            need = needs[number]
            self._row.broken_by = f"its {need.name} is too low"
            place = self._status.get("home") if need.at_home else None
            self._put_item(need.remedy, place, time, min(time + need.seconds, DAY_S))

    def _put_item(self, do: str, place: str | None, time: int, until: int) -> None:
        self._insert({"do": do, "where": place, "from": time, "until": until})
        self._note_mended(do)

    def _insert(self, item: Item) -> None:
        self._status["plan"] = with_item(self._status["plan"], item)
        self._status["now"] = item_at(self._status["plan"], item["from"])

    def _note_mended(self, outcome: str) -> None:
        self._status["mended"] = self._status.get("mended", 0) + 1
        self._row.note(f"Its plan broke: {self._row.broken_by}; now {outcome}.")
