"""`PlanBlock` for many citizens at once; `columns.PLAN` has its columns."""

from __future__ import annotations

from typing import Any, Final

from moothall.society.arrays import np
from moothall.society.blocks import day_rows
from moothall.society.blocks.block import now_of
from moothall.society.blocks.columns import (
    AVOIDS,
    CHOSEN,
    KINDS,
    NONE,
    WHERE,
    Plans,
    code,
    does_of,
    without,
)
from moothall.society.blocks.economy import buys_after
from moothall.society.blocks.hours import SLOT
from moothall.society.blocks.needs import NeedsBlock
from moothall.society.blocks.rules import ERRANDS, SPARE, bought
from moothall.society.clock import DAY_S
from moothall.society.columns import town
from moothall.society.columns.rows import Rows
from moothall.society.kernel.wants import Move

_AT_ONCE: Final = 1 << 13  # plans made at a time: their arrays fit the processor's cache


def before_rows(self: Any, rows: Rows) -> None:
    """Do `before_forward` for rows: make missing plans of this day, advance and mend plans."""
    plans = Plans(rows)
    day, time = divmod(now_of(rows), DAY_S)
    new = (rows.column("day") != day) | (rows.column("plan_home") != plans.home)
    new |= rows.column("plan_duty") != plans.duty
    at = np.flatnonzero(new)
    for first in range(0, len(at), _AT_ONCE):
        day_rows.make(self, rows, plans, at[first : first + _AT_ONCE])
    plans.set("day", at, day)
    over = rows.column("item_until") <= time
    over[at] = True
    if hasattr(rows.city, "by_kind") and buys_after(self, rows.population.blocks):
        _find_late(rows, np.flatnonzero(over & ~new), time)
        _advance(rows, plans, np.flatnonzero(over), new, time)
    else:
        plans.advance(np.flatnonzero(over), time)
    _mend(self, rows, plans, time, ~over)


def step_rows(self: Any, rows: Rows) -> None:
    """Do nothing: the plan is made and mended before each step."""


# -- errands ---------------------------------------------------------------------------------------


def _find_late(rows: Rows, at: Any, time: int) -> None:
    """Set the errands of rows whose item is over and who buy in passing, as `_is_late` does."""
    arrays, index = rows.population.arrays, rows.at[at]
    do = arrays["item_do"][index]
    some = np.flatnonzero((do == code("shop")) | (do == code("eat")))
    at, index, do = at[some], index[some], do[some]
    place = arrays["place"][index]
    kinds, numbers = town.kinds_of(rows)[place], town.kind_numbers(rows)
    late = (place >= 0) & (arrays["item_where"][index] == place)
    late &= (do == code("shop")) | (kinds == numbers.get("restaurant", -1))
    some = np.flatnonzero(late)
    is_open = town.open_now(rows, time)
    if is_open is not None:
        some = some[is_open[place[some]]]
    some = some[~bought(rows, at[some])]
    arrays["errand"][index[some]] = do[some]


def _advance(rows: Rows, plans: Plans, at: Any, new: Any, time: int) -> None:
    """Advance rows whose item is over, and bring errands forward, as `_bring_forward`."""
    if rows.seconds <= SLOT:
        plans.advance(at, time)
        return
    does, until = [code(each) for each in ERRANDS], time + rows.seconds
    slot = np.zeros(len(rows), np.int64)
    since = at[~new[at]]
    slot[since] = plans.errands(since, does, lambda begins, ends: ends <= time, last=True)
    plans.advance(at, time)
    spare = np.isin(rows.column("item_do"), [code(each) for each in SPARE]) & ~plans.moving()
    spare &= (rows.column("plan_chosen") < 0) & (rows.column("plan_avoid")[:, 0] == 0)
    some = np.flatnonzero(spare & (slot == 0))
    slot[some] = plans.errands(some, does, lambda begins, ends: begins < until + rows.seconds)
    some = np.flatnonzero(spare & (slot > 0))
    if len(some):
        what = plans.taken(some, slot[some], code("leisure"))
        ends = np.full(len(some), min(until, DAY_S))
        plans.put(some, does_of(what), what & WHERE, time, ends)


# -- mending ---------------------------------------------------------------------------------------


def _mend(self: Any, rows: Rows, plans: Plans, time: int, goes_on: Any) -> None:
    """Do `PlanBlock._mend`: first what the world broke, then the needs."""
    stays = ~plans.moving()
    why = rows.column("stuck") & stays
    stuck = np.flatnonzero(why)
    plans.set("stuck", stuck, False)
    refused = rows.refused(Move)
    if refused is not None:
        why |= refused & stays & goes_on
    is_open = town.open_now(rows, time)
    if is_open is not None:
        where = rows.column("item_where")
        why |= ~is_open[where] & (where >= 0) & stays
    at = np.flatnonzero(why)
    if len(at):
        _elsewhere(plans, at, time)
    _urgent(rows, plans, stays, time)


def _elsewhere(plans: Plans, at: Any, time: int) -> None:
    """Do `PlanBlock._elsewhere`: another place of the kind, or else home."""
    arrays = plans.arrays
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
    barred = ~again & (place == plans.home[at])  # from home: it stays where it is
    some, which = rows[barred], slot[barred]
    if len(some):
        arrays["plan"][some, which] = without(items[barred], WHERE | AVOIDS) | NONE
        arrays["item_where"][some] = -1
        plans.forget(some)
        plans.mended(some)
    back = at[~again & ~barred]
    if len(back):
        until = arrays["item_until"][plans.index[back]]
        do, where = np.full(len(back), code("leisure")), plans.at_home(back)
        plans.put(back, do, where, time, until.astype(np.int64))
        plans.mended(plans.index[back])


def _urgent(rows: Rows, plans: Plans, stays: Any, time: int) -> None:
    """Do `PlanBlock._urgent`: insert the remedy of a need at its threshold."""
    needs = next((each for each in rows.population.blocks if isinstance(each, NeedsBlock)), None)
    if needs is None:
        return
    low = np.zeros(len(rows), bool)
    for need in needs.kinds.values():
        low |= rows.column(need.name) <= getattr(needs.params, need.name)
    do = rows.column("item_do")
    low &= stays & (do != code("sleep")) & (do != code("eat"))
    at = np.flatnonzero(low)
    if not len(at):
        return
    do, left = do[at], np.ones(len(at), bool)
    remedy, lasts = np.zeros(len(at), np.uint8), np.zeros(len(at), np.int64)
    home = np.zeros(len(at), bool)
    for need in needs.kinds.values():
        urgent = left & (rows.column(need.name)[at] <= getattr(needs.params, need.name))
        left &= ~urgent
        if not need.in_duty:
            urgent &= (do != code("work")) & (do != code("study"))
        if need.at_home:
            there = rows.column("item_where")[at] == plans.home[at]
            urgent &= (do != code(need.remedy)) | ~there
        else:
            urgent &= do != code(need.remedy)
        remedy[urgent], lasts[urgent] = code(need.remedy), need.seconds
        home[urgent] = need.at_home
    some = np.flatnonzero(remedy)
    if len(some):
        until = np.minimum(time + lasts[some], DAY_S)
        plans.put(at[some], remedy[some], plans.at_home(at[some], home[some]), time, until)
        plans.mended(plans.index[at[some]])
