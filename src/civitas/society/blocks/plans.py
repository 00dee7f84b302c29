"""The plans of rows: advancing to the current item, and inserting items."""

from __future__ import annotations

from typing import Any, Final

from civitas.errors import ConfigError
from civitas.society.arrays import np
from civitas.society.blocks.columns import (
    AVOIDS,
    CHOSEN,
    DUTY,
    HOME,
    KINDS,
    NONE,
    SLOTS,
    UNTIL,
    WHAT,
    WHERE,
    word,
)
from civitas.society.blocks.columns import items as items_at
from civitas.society.population.rows import Rows

_ROOM: Final = 4
"""Slots kept free: an inserted item takes up to three more, and the last stays empty."""
_BROKEN: Final = 6
"""The items, with the current one, up to the end of an interrupted item at most: of the items
inserted at the same time only the last is left, and there are three such times."""


class Plans:
    """The plans of some rows. Positions count within these rows; −1 is no home and no duty."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.arrays, self.index = rows, rows.population.arrays, rows.at
        self.home = self.duty = np.full(len(rows), -1, np.int32)
        if rows.population.places:
            self.home = rows.column("home")
            work = rows.column("work")
            self.duty = work + (work < 0) * (rows.column("school") + np.int32(1))

    def of(self, name: str) -> Any:
        """Return a column of these rows, for reading."""
        return self.rows.column(name)

    def set(self, name: str, at: Any, values: Any) -> None:
        """Write a column of some of these rows."""
        self.arrays[name][self.index[at]] = values

    def moving(self) -> Any:
        """Return which rows are on their way."""
        if not self.rows.population.places:
            return np.zeros(len(self.rows), bool)
        return self.of("moving_to") >= 0

    def advance(self, at: Any, time: int) -> None:
        """Advance rows whose current item is over to their item at a time of the day."""
        arrays = self.arrays
        if not len(at):
            return
        rows = self.index[at]
        slot = arrays["plan_now"][rows].astype(np.int64)
        items = items_at(arrays, rows, slot)
        while (over := _ends(items) <= time).any():
            slot += over
            items = items_at(arrays, rows, slot)
        arrays["plan_now"][rows] = slot
        arrays["stuck"][rows] = False
        self.show(rows, items)
        self.forget(rows)

    def show(self, rows: Any, items: Any) -> None:
        """Write current items into the columns of `ITEM`."""
        arrays = self.arrays
        where = (items & WHERE).astype(np.int32)
        arrays["item_do"][rows] = (items >> WHAT & 7) + 1
        arrays["item_until"][rows] = _ends(items)
        place = np.where(where >= KINDS, KINDS - 2 - where, -1)
        for meant, name in ((HOME, "plan_home"), (DUTY, "plan_duty"), (CHOSEN, "plan_chosen")):
            some = np.flatnonzero(where == meant)
            place[some] = arrays[name][rows[some]]
        arrays["item_where"][rows] = place

    def forget(self, rows: Any) -> None:
        """Clear the chosen and avoided places of items that are over."""
        arrays = self.arrays
        avoided = arrays["plan_avoid"][:, 0][rows] > 0
        knows = ((arrays["plan_chosen"][rows] >= 0) | avoided).nonzero()[0]
        rows, avoided = rows[knows], avoided[knows]
        slot = arrays["plan_now"][rows].astype(np.int64)
        chosen, avoids = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
        left = np.arange(len(rows))
        for _ in range(_BROKEN):
            items = items_at(arrays, rows[left], slot[left])
            chosen[left] = items & WHERE == CHOSEN
            avoids[left] = (items & AVOIDS) != 0
            slot[left] += 1
            left = left[~chosen[left] & ~avoids[left] & (slot[left] < SLOTS)]
            if not len(left):
                break
        arrays["plan_chosen"][rows[~chosen]] = -1
        arrays["plan_avoid"][rows[avoided & ~avoids]] = 0

    def put(self, at: Any, do: Any, home: Any, time: int, until: Any) -> None:
        """Insert items from `time` on into plans; cut or drop the items that overlap."""
        arrays = self.arrays
        rows = self.index[at]
        last = 32
        while last < SLOTS and arrays["plan"][rows, last - _ROOM].any():
            last = min(SLOTS, last + 16)
        if arrays["plan"][rows, last - _ROOM].any():
            raise ConfigError(f"a plan in columns has at most {SLOTS - _ROOM} items")
        old = arrays["plan"][rows, :last]
        now = arrays["plan_now"][rows].astype(np.int32)
        every = np.arange(len(rows))
        begins = np.where(now > 0, _ends(old[every, now - 1]), 0)
        cut = every[begins < time]
        first = now + (begins < time)
        ends = _ends(old)
        slots = np.arange(last, dtype=np.int32)
        # The first remaining item that ends after `until`; empty slots follow all items.
        later = (ends > until[:, None]) | (ends == 0)
        goes_on = (later & (slots >= now[:, None])).argmax(axis=1)
        shift = (goes_on - first - 1).astype(np.int32)[:, None]
        source = slots + np.where(slots > first[:, None], shift, np.int32(0))
        np.minimum(source, last - 1, out=source)
        made = np.take_along_axis(old, source, axis=1)
        # The current item ends now if it began before; else the new item takes its slot.
        keeps = old[cut, now[cut]] & np.uint32((1 << UNTIL) - 1)
        made[cut, now[cut]] = keeps | np.uint32(time << UNTIL)
        lives = np.asarray(home) & (self.home[at] >= 0)
        made[every, first] = word(do, np.where(lives, HOME, NONE), until)
        for slot in range(last):  # what stays empty is not written, so it takes no memory
            some = np.flatnonzero(made[:, slot] != old[:, slot])
            arrays["plan"][rows[some], slot] = made[some, slot]
        arrays["plan_now"][rows] = first
        self.show(rows, made[every, first])
        self.forget(rows)
        self.mended(rows)

    def mended(self, rows: Any) -> None:
        """Count that plans broke and were mended."""
        self.arrays["mended"][rows] += 1


def _ends(items: Any) -> Any:
    """Return the ends of items: seconds after midnight; int32."""
    return (items >> UNTIL).astype("int32")
