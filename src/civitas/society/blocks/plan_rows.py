"""The plans of rows: `PlanBlock`, for many citizens at once; what is kept is in `columns.PLAN`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from civitas.clock import DAY_S
from civitas.errors import ConfigError
from civitas.society.arrays import numpy
from civitas.society.blocks import day_rows, town
from civitas.society.blocks.block import now_of
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
    code,
    without,
    word,
)
from civitas.society.blocks.columns import (
    items as items_at,
)
from civitas.society.wants import Move

if TYPE_CHECKING:
    from civitas.society.population.rows import Rows

_AT_ONCE: Final = 1 << 13
"""So many plans are made at a time: what it takes fits the processor's cache."""
_ROOM: Final = 4
"""An item put into a plan takes up to three more slots; the last stays empty."""
_BROKEN: Final = 6
"""So many items, and the one that is on, lie before the end of one that was broken off, at most:
of those put in for the same time only the last is left, and there are three such times."""


def before_rows(self: Any, rows: Rows) -> None:
    """`before_forward` of rows: a plan of this day that can be followed in this step."""
    np = numpy()
    plans = Plans(rows)
    day, time = divmod(now_of(rows), DAY_S)
    new = (plans.of("day") != day) | (plans.of("plan_home") != plans.home)
    new |= plans.of("plan_duty") != plans.duty
    at = np.flatnonzero(new)
    for first in range(0, len(at), _AT_ONCE):
        day_rows.make(self, rows, plans, at[first : first + _AT_ONCE])
    plans.set("day", at, day)
    over = plans.of("item_until") <= time
    over[at] = True
    plans.advance(np.flatnonzero(over), time)
    _mend(self, rows, plans, time)


def step_rows(self: Any, rows: Rows) -> None:
    """Nothing: the plan is made and mended before each step."""


class Plans:
    """The plans of some rows. Positions are those within these rows.

    Attributes:
        home: where each lives; the number of a place, −1 for None
        duty: where each works, or else goes to school
    """

    def __init__(self, rows: Rows) -> None:
        np = numpy()
        self.rows, self.arrays, self.index = rows, rows.population.arrays, rows.at
        self.home = self.duty = np.full(len(rows), -1, np.int32)
        if rows.population.places:
            self.home = rows.column("home")
            work = rows.column("work")
            self.duty = work + (work < 0) * (rows.column("school") + np.int32(1))

    def of(self, name: str) -> Any:
        """Return a column of these rows, to be read."""
        return self.rows.column(name)

    def set(self, name: str, at: Any, values: Any) -> None:
        """Write a column of some of these rows."""
        self.arrays[name][self.index[at]] = values

    def moving(self) -> Any:
        """Return which rows are on their way."""
        if not self.rows.population.places:
            return numpy().zeros(len(self.rows), bool)
        return self.of("moving_to") >= 0

    def advance(self, at: Any, time: int) -> None:
        """Have the item be on that is on at a time of the day, of rows whose last is over."""
        np, arrays = numpy(), self.arrays
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
        """Write the items that are on into their own columns."""
        np, arrays = numpy(), self.arrays
        where = (items & WHERE).astype(np.int32)
        arrays["item_do"][rows] = (items >> WHAT & 7) + 1
        arrays["item_until"][rows] = _ends(items)
        place = np.where(where >= KINDS, KINDS - 2 - where, -1)
        for meant, name in ((HOME, "plan_home"), (DUTY, "plan_duty"), (CHOSEN, "plan_chosen")):
            some = np.flatnonzero(where == meant)
            place[some] = arrays[name][rows[some]]
        arrays["item_where"][rows] = place

    def forget(self, rows: Any) -> None:
        """Forget the chosen and avoided places of items that are over."""
        np, arrays = numpy(), self.arrays
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
        """Put an item into plans, from `time` on: what was planned then is cut or left out.

        Args:
            at: whose
            do: what, by its code
            home: whether it is at home, else nowhere in particular
            time: seconds after midnight
            until: the same, of each
        """
        np, arrays = numpy(), self.arrays
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
        # Of what is not over the first that lasts longer; empty slots are after all.
        later = (ends > until[:, None]) | (ends == 0)
        goes_on = (later & (slots >= now[:, None])).argmax(axis=1)
        shift = (goes_on - first - 1).astype(np.int32)[:, None]
        source = slots + np.where(slots > first[:, None], shift, np.int32(0))
        np.minimum(source, last - 1, out=source)
        made = np.take_along_axis(old, source, axis=1)
        # The item that is on ends now, where it has begun before, and else gives its slot.
        keeps = old[cut, now[cut]] & np.uint32((1 << UNTIL) - 1)
        made[cut, now[cut]] = keeps | np.uint32(time << UNTIL)
        lives = np.asarray(home) & (self.home[at] >= 0)
        made[every, first] = word(do, np.where(lives, HOME, NONE), until)
        arrays["plan"][rows, :last] = made
        arrays["plan_now"][rows] = first
        self.show(rows, made[every, first])
        self.forget(rows)
        self.mended(rows)

    def mended(self, rows: Any) -> None:
        """Count that plans broke and were mended."""
        self.arrays["mended"][rows] += 1


def _ends(items: Any) -> Any:
    """When items end: seconds after midnight; int32."""
    return (items >> UNTIL).astype("int32")


# -- mending ---------------------------------------------------------------------------------------


def _mend(self: Any, rows: Rows, plans: Plans, time: int) -> None:
    """`PlanBlock._mend`: the world first, then the needs."""
    np = numpy()
    stays = ~plans.moving()
    why = plans.of("stuck") & stays
    stuck = np.flatnonzero(why)
    plans.set("stuck", stuck, False)
    refused = rows.refused(Move)
    if refused is not None:
        why |= refused & stays
    is_open = town.open_now(rows, time)
    if is_open is not None:
        where = plans.of("item_where")
        why |= ~is_open[where] & (where >= 0) & stays
    at = np.flatnonzero(why)
    if len(at):
        _elsewhere(plans, at, time)
    _urgent(rows, plans, stays, time)


def _elsewhere(plans: Plans, at: Any, time: int) -> None:
    """`PlanBlock._elsewhere`: another place of the kind, or at home."""
    np, arrays = numpy(), plans.arrays
    rows = plans.index[at]
    slot = arrays["plan_now"][rows]
    place = arrays["item_where"][rows]
    avoided = (arrays["plan_avoid"][rows] > 0).sum(axis=1)
    items = arrays["plan"][rows, slot]
    again = (items & WHERE == CHOSEN) & (avoided < 3)
    some, which = rows[again], slot[again]
    if len(some):
        kind = town.kinds_of(plans.rows)[place[again]].astype(np.int64)
        arrays["plan_avoid"][some, avoided[again]] = place[again] + 1
        of_kind = (KINDS + kind).astype(np.uint32) | np.uint32(AVOIDS)
        arrays["plan"][some, which] = without(items[again], WHERE) | of_kind
        arrays["plan_chosen"][some] = -1
        arrays["item_where"][some] = -2 - kind
        plans.mended(some)
    barred = ~again & (place == plans.home[at])  # the way home is: one stays where one is
    some, which = rows[barred], slot[barred]
    if len(some):
        arrays["plan"][some, which] = without(items[barred], WHERE | AVOIDS) | NONE
        arrays["item_where"][some] = -1
        plans.forget(some)
        plans.mended(some)
    back = at[~again & ~barred]
    if len(back):
        until = arrays["item_until"][plans.index[back]]
        plans.put(back, np.full(len(back), code("leisure")), True, time, until.astype(np.int64))


def _urgent(rows: Rows, plans: Plans, stays: Any, time: int) -> None:
    """`PlanBlock._urgent`: what a need at its threshold calls for."""
    from civitas.society.blocks.needs import NEEDS, NeedsBlock
    from civitas.society.blocks.plan import REMEDIES

    np = numpy()
    needs = next((each for each in rows.population.blocks if isinstance(each, NeedsBlock)), None)
    if needs is None:
        return
    low = np.zeros(len(rows), bool)
    for need in NEEDS:
        low |= plans.of(need) <= getattr(needs.params, need)
    do = plans.of("item_do")
    low &= stays & (do != code("sleep")) & (do != code("eat"))
    at = np.flatnonzero(low)
    if not len(at):
        return
    do, left = do[at], np.ones(len(at), bool)
    remedy, lasts = np.zeros(len(at), np.uint8), np.zeros(len(at), np.int64)
    home = np.zeros(len(at), bool)
    for need in NEEDS:
        urgent = left & (plans.of(need)[at] <= getattr(needs.params, need))
        left &= ~urgent
        what, seconds = REMEDIES[need]
        if need == "social":
            urgent &= (do != code("work")) & (do != code("study"))
        if need == "safety":
            there = plans.of("item_where")[at] == plans.home[at]
            urgent &= (do != code("leisure")) | ~there
        else:
            urgent &= do != code(what)
        remedy[urgent], lasts[urgent] = code(what), seconds
        home[urgent] = need in ("energy", "safety")
    some = np.flatnonzero(remedy)
    if len(some):
        until = np.minimum(time + lasts[some], DAY_S)
        plans.put(at[some], remedy[some], home[some], time, until)
