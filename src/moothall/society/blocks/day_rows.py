"""The rule of `PlanBlock` that makes a day's plan, for rows or one citizen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from moothall.society.arrays import Array, np
from moothall.society.blocks.citizen_block import CitizenBlock
from moothall.society.blocks.columns import (
    ACTS,
    DESKS,
    DUTY,
    HOME,
    KINDS,
    NONE,
    OCCUPATIONS,
    SLOTS,
    UNTIL,
    code,
    item_words,
)
from moothall.society.blocks.hours import NONE as NO_DUTY
from moothall.society.blocks.hours import SLOT, STUDY, WORK, Day, day_of, windows
from moothall.society.blocks.plans import Plans
from moothall.society.blocks.rules import LEISURE
from moothall.society.clock import DAY_S
from moothall.society.columns import city_queries
from moothall.society.columns.rows import Rows
from moothall.society.kernel.care import CHILD
from moothall.society.kernel.draw import draw_below

_DUTIES: Final = (0, ACTS.index("work"), ACTS.index("study"))
_DESKS: Final = [1 + OCCUPATIONS.index(each) for each in DESKS]
_FREE: Final = 6  # the number of an elementary span of the day outside the six set items


def make(self: CitizenBlock, rows: Rows, plans: Plans, at: Array) -> None:
    """Write this day's plans of some of the rows."""
    arrays = plans.arrays
    index = plans.index[at]
    home, duty = plans.home[at], plans.duty[at]
    day = _hours(self, rows, plans, at)
    is_child = arrays["age"][index] < CHILD
    by_slot = items_of(self, rows, rows.ids[at], day, home, duty, is_child)
    for slot, (some, items) in enumerate(by_slot):
        arrays["plan"][:, slot][index[some]] = items
        _clear(arrays, index[some[np.flatnonzero(items >> UNTIL >= DAY_S)]], slot + 1)
    arrays["plan_now"][index] = 0
    arrays["plan_chosen"][index] = -1
    avoided = arrays["plan_avoid"]
    avoided[index[np.flatnonzero(avoided[:, 0][index])]] = 0  # writing all would take memory
    arrays["plan_home"][index] = home
    arrays["plan_duty"][index] = duty


def items_of(
    self: CitizenBlock, rows: Rows, ids: Array, day: Day, home: Array, duty: Array, is_child: Array
) -> Iterator[tuple[Array, Array]]:
    """Yield the items of a day's plans, by slots: who has an item there, and the items.

    Sleep, meals, work or school at their hours, and drawn pieces in the time that is left: a
    child's at home.
    """
    ends, which, does, wheres = _skeleton(self, rows, ids, day, is_child)
    count = len(ids)
    # Without a home, items at home have no place (NONE); a duty at home is coded as HOME.
    homeless = (home < 0).astype(np.uint8) * np.uint8(HOME - NONE)
    at_home = ((duty == home) | day.remote) * (np.uint8(DUTY - HOME) + homeless)
    pending, start = np.arange(count), np.zeros(count, np.int32)
    key = pending.copy()
    weights = _weights(rows, self.params.leisure)
    while len(pending):
        end, item = ends.take(key), which.take(key)
        own = item * count + pending
        do, kind, stop = does.take(own), wheres.take(own), end.copy()
        open_ = ((item == _FREE) & (end - start >= 1800)).nonzero()[0]
        if len(open_):
            do[open_], kind[open_], stop[open_] = _draw_free_time(
                self.params,
                rows,
                ids[pending[open_]],
                start[open_],
                end[open_],
                weights,
                is_child[pending[open_]],
            )
        where = kind - (kind == HOME) * homeless[pending] - (kind == DUTY) * at_home[pending]
        yield pending, item_words(do, where, stop)
        key += (stop == end) * count
        on = (stop < DAY_S).nonzero()[0]
        pending, key, start = pending[on], key[on], stop[on]
        while len(later := (ends.take(key) <= start).nonzero()[0]):
            key[later] += count  # skip spans that belong to an earlier item


def _clear(arrays: dict[str, Array], rows: Array, slot: int) -> None:
    """Clear the slots from `slot` on that the previous plans used."""
    while slot < SLOTS and len(rows):
        column = arrays["plan"][:, slot]
        rows = rows[np.flatnonzero(column[rows])]
        column[rows] = 0
        slot += 1


def _skeleton(
    self: CitizenBlock, rows: Rows, ids: Array, day: Day, is_child: Array
) -> tuple[Array, Array, Array, Array]:
    """Return the set items of each day: sleep, meals, and work or school."""
    seed, count = rows.population.seed, len(ids)
    table = np.full(count, HOME, np.uint8)
    kinds = city_queries.kind_numbers(rows)
    lunch, dinner, begins, ends = day.lunch_at, day.dinner_at, day.begins, day.ends
    if "restaurant" in kinds:
        dines = draw_below(1000, seed, ids, rows.step, "plan.dine") < self.params.dines
        dines &= ~is_child
        opens = city_queries.opens_at(rows, "restaurant", dinner) > 0
        table[dines & opens] = KINDS + kinds["restaurant"]
    has, do = day.duty != NO_DUTY, np.array(_DUTIES)[day.duty]
    lunch_end, late = lunch + day.lunch, dinner + day.dinner
    there = np.where(has & (begins <= lunch) & (lunch < ends), DUTY, HOME)
    # A duty continues after lunch; dinner during a duty is eaten there.
    before = (begins < np.minimum(ends, lunch)) & (begins < late)
    before &= dinner < np.minimum(ends, lunch)
    since = np.maximum(begins, lunch_end)
    after = (since < ends) & (since < late) & (dinner < ends)
    table = np.where(has & (before | after), DUTY, table)
    eat, sleep = code("eat"), code("sleep")
    items: tuple[tuple[Any, ...], ...] = (  # later items cover earlier ones
        (do, DUTY, np.where(has, begins, DAY_S), np.where(has, ends, DAY_S)),
        (eat, there, lunch, lunch_end),
        (eat, table, dinner, late),
        (eat, HOME, day.wake, day.wake + day.breakfast),
        (sleep, HOME, day.sleep_start, day.wake),
        (sleep, HOME, day.bed, DAY_S),
    )
    marks = np.zeros((count, 14), np.int32)
    marks[:, 13] = DAY_S
    for number, (*_, start, until) in enumerate(items):
        marks[:, 1 + 2 * number], marks[:, 2 + 2 * number] = start, until
    marks.sort(axis=1)
    marks = marks.T.copy()
    which = np.zeros((13, count), np.int8)  # 1 + the number of the item
    for number, (*_, start, until) in enumerate(items):
        inside = (marks[:-1] >= start) & (marks[:-1] < until)
        np.maximum(which, inside * np.int8(number + 1), out=which)
    which += (which == 0) * np.int8(_FREE + 1) - np.int8(1)
    # Merge adjacent spans of the same item; an empty span takes the item of the next span.
    ends = marks[1:].copy()
    empty = marks[1:] == marks[:-1]
    which[12] += empty[12] * (np.int8(_FREE + 1) - which[12])
    for number in range(11, -1, -1):
        which[number] += empty[number] * (which[number + 1] - which[number])
        same = which[number] == which[number + 1]
        ends[number] += same * (ends[number + 1] - ends[number])
    does = np.full((_FREE + 1, count), code("leisure"), np.uint8)
    wheres = np.full((_FREE + 1, count), HOME, np.uint8)
    for number, (doing, place, *_) in enumerate(items):
        does[number], wheres[number] = doing, place
    # The rising ends of a day's spans and their items, (13, n); what items are, (7, n).
    return ends, which.astype(np.int64), does, wheres


def _hours(self: CitizenBlock, rows: Rows, plans: Plans, at: Array) -> Day:
    """Return the hours of this day."""
    place, arrays, index = plans.duty[at].astype(np.int64), rows.population.arrays, plans.index[at]
    duty = np.where(arrays["work"][index] >= 0, WORK, STUDY) * (place >= 0)
    at_desk = np.isin(arrays["occupation"][index], _DESKS) & (plans.home[at] >= 0)
    return hours_of(self, rows, rows.ids[at], duty, at_desk, place)


def hours_of(
    self: CitizenBlock, rows: Rows, ids: Array, duty: Array, at_desk: Array, place: Array
) -> Day:
    """Return the hours of this day: of citizens by id, with duties at places (−1: none known)."""
    desk, some = np.zeros(len(ids), bool), np.flatnonzero(place >= 0)
    place_windows, which = None, np.zeros(len(ids), np.int64)
    if len(some):
        kind = city_queries.kind_numbers(rows).get("work", -1)
        desk[some] = city_queries.place_kinds(rows)[place[some]] == kind
        if hasattr(rows.city, "is_open"):
            places, which[some] = np.unique(place[some], return_inverse=True)
            place_windows = windows(
                city_queries.open_at(rows, places, np.arange(0, DAY_S, SLOT)[:, None])
            )
    return day_of(
        self.params,
        rows.population.seed,
        ids,
        rows.step,
        free=bool(getattr(rows.clock, "is_weekend", False)),
        duty=duty,
        can_work_remotely=desk & at_desk,
        place_windows=place_windows,
        place_index=which,
    )


def _weights(rows: Rows, of: tuple[int, ...]) -> tuple[list[str], Array, Array, Array]:
    """Return `LEISURE` as arrays: kinds, activities, places, cumulative weights by open kinds."""
    kinds = city_queries.kind_numbers(rows)
    away = sorted({where for _, where, _ in LEISURE} - {"home"})
    do = np.array([code(each[0]) for each in LEISURE], np.uint8)
    where = np.array(
        [HOME if each[1] == "home" else KINDS + kinds.get(each[1], 0) for each in LEISURE], np.uint8
    )
    weights = np.array(
        [
            [
                weight if kind == "home" or mask >> away.index(kind) & 1 else 0
                for (_, kind, _), weight in zip(LEISURE, of, strict=True)
            ]
            for mask in range(1 << len(away))
        ]
    )
    return away, do, where, weights.cumsum(axis=1)


def _draw_free_time(
    params: Any,
    rows: Rows,
    ids: Array,
    start: Array,
    end: Array,
    choice: tuple[list[str], Array, Array, Array],
    is_child: Array,
) -> tuple[Array, Array, Array]:
    """Draw a piece of free time for each row; return activities, places and ends."""
    seed, step = rows.population.seed, rows.step
    away, do, where, sums = choice
    open_ = sum(city_queries.opens_at(rows, kind, start) << bit for bit, kind in enumerate(away))
    open_ = open_ * ~is_child
    share = draw_below(sums[open_, -1], seed, ids, step, "plan.leisure", start)
    index = (sums.T.take(open_, axis=1) <= share).sum(axis=0)
    activity = do[index]
    shops = activity == code("shop")
    least, more = (
        np.where(shops, a, b) for a, b in zip(params.shopping, params.piece, strict=True)
    )
    drawn = least + draw_below(more, seed, ids, step, "plan.length", start)
    return activity, where[index], start + np.minimum(end - start, drawn * SLOT)
