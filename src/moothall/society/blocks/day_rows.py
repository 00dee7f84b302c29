"""The rule of `PlanBlock` that makes a day's plan, for many citizens at once."""

from __future__ import annotations

from typing import Any, Final

from moothall.clock import DAY_S
from moothall.society.arrays import np
from moothall.society.blocks.columns import DUTY, HOME, KINDS, NONE, SLOTS, Plans, code, word
from moothall.society.blocks.rules import LEISURE
from moothall.society.columns import town
from moothall.society.columns.rows import Rows
from moothall.society.kernel.draw import belows

_HOUR: Final = 3600
_SLOT: Final = 900
_FREE: Final = 6  # the number of an elementary span of the day outside the six set items


def make(self: Any, rows: Rows, plans: Plans, at: Any) -> None:
    """Write this day's plans of some of the rows, as `PlanBlock._by_rule` does."""
    arrays = plans.arrays
    index = plans.index[at]
    home, duty = plans.home[at], plans.duty[at]
    ends, which, does, wheres = _skeleton(self, rows, plans, at)
    ids, every = rows.ids[at], np.arange(len(at))
    # Without a home, items at home have no place (NONE); a duty at home is coded as HOME.
    homeless = (home < 0).astype(np.uint8) * np.uint8(HOME - NONE)
    at_home = (duty == home) * (np.uint8(DUTY - HOME) + homeless)
    left, key, start = every, every.copy(), np.zeros(len(at), np.int32)
    weights = _weights(rows)
    slot = 0
    while len(left):
        end, item = ends.take(key), which.take(key)
        own = item * len(at) + left
        do, kind, stop = does.take(own), wheres.take(own), end.copy()
        open_ = np.flatnonzero((item == _FREE) & (end - start >= 1800))
        if len(open_):
            do[open_], kind[open_], stop[open_] = _piece(
                rows, ids[left[open_]], start[open_], end[open_], weights
            )
        where = kind - (kind == HOME) * homeless[left] - (kind == DUTY) * at_home[left]
        arrays["plan"][:, slot][index[left]] = word(do, where, stop)
        key += (stop == end) * len(at)
        slot += 1
        _clear(arrays, index[left[np.flatnonzero(stop >= DAY_S)]], slot)
        on = np.flatnonzero(stop < DAY_S)
        left, key, start = left[on], key[on], stop[on]
        while len(later := np.flatnonzero(ends.take(key) <= start)):
            key[later] += len(at)  # skip spans that belong to an earlier item
    arrays["plan_now"][index] = 0
    arrays["plan_chosen"][index] = -1
    avoided = arrays["plan_avoid"]
    avoided[index[np.flatnonzero(avoided[:, 0][index])]] = 0  # writing all would take memory
    arrays["plan_home"][index] = home
    arrays["plan_duty"][index] = duty


def _clear(arrays: Any, rows: Any, slot: int) -> None:
    """Clear the slots from `slot` on that the previous plans used."""
    while slot < SLOTS and len(rows):
        column = arrays["plan"][:, slot]
        rows = rows[np.flatnonzero(column[rows])]
        column[rows] = 0
        slot += 1


def _skeleton(self: Any, rows: Rows, plans: Plans, at: Any) -> tuple[Any, Any, Any, Any]:
    """Return the set items of each day, as `fixed_items` does.

    Returns:
        the ends of each day's spans, (13, n), rising; the number of each span's item, (13, n); and
        the activities and places of the items and of free time, by their codes, (7, n) each
    """
    params, seed = self.params, rows.population.seed
    ids, count = rows.ids[at], len(at)
    spread = 2 * (params.spread // _SLOT) + 1

    def vary(time: int, purpose: str) -> Any:
        shift = (belows(spread, seed, ids, rows.step, purpose) - spread // 2) * _SLOT
        return np.clip(time + shift, 0, DAY_S).astype(np.int32)

    wake = np.minimum(vary(params.wake, "plan.wake"), DAY_S - 2 * _HOUR)
    bed = np.maximum(vary(params.bed, "plan.bed"), wake + _HOUR)
    evening = vary(18 * _HOUR + 1800, "plan.dinner")
    dinner = np.minimum(np.maximum(evening, wake + _HOUR), bed - 2700)
    table = np.full(count, HOME, np.uint8)
    kinds = town.kind_numbers(rows)
    if "restaurant" in kinds:
        dines = belows(1000, seed, ids, rows.step, "plan.dine") < params.dines
        opens = town.opens_at(rows, "restaurant", dinner) > 0
        table[dines & opens] = KINDS + kinds["restaurant"]
    do, begins, ends = _duty(self, rows, plans, at)
    begins, ends = np.maximum(begins, wake + _HOUR), np.minimum(ends, bed)
    has = (do > 0) & (begins < ends)
    lunch = 12 * _HOUR + 1800
    there = np.where(has & (begins <= lunch) & (lunch < ends), DUTY, HOME)
    # A duty continues after lunch; dinner during a duty is eaten there.
    noon = has & (begins < lunch + 1800) & (lunch < ends)
    there = np.where((dinner == lunch) & noon, DUTY, there)
    before = (begins < np.minimum(ends, lunch)) & (begins < dinner + 2700)
    before &= dinner < np.minimum(ends, lunch)
    since = np.maximum(begins, lunch + 1800)
    after = (since < ends) & (since < dinner + 2700) & (dinner < ends)
    table = np.where(has & (before | after), DUTY, table)
    eat, sleep = code("eat"), code("sleep")
    items: tuple[tuple[Any, ...], ...] = (  # later items cover earlier ones
        (do, DUTY, np.where(has, begins, DAY_S), np.where(has, ends, DAY_S)),
        (eat, there, lunch, lunch + 1800),
        (eat, table, dinner, dinner + 2700),
        (eat, HOME, wake, wake + 1800),
        (sleep, HOME, 0, wake),
        (sleep, HOME, bed, DAY_S),
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
    return ends, which.astype(np.int64), does, wheres


def _duty(self: Any, rows: Rows, plans: Plans, at: Any) -> tuple[Any, Any, Any]:
    """Return today's work or school, as `PlanBlock._duty`: its code (0: none), start and end."""
    params = self.params
    place = plans.duty[at].astype(np.int64)
    do = np.zeros(len(at), np.uint8)
    begins = np.full(len(at), params.begins, np.int32)
    until = begins.copy()
    if getattr(rows.clock, "is_weekend", False) and not params.weekend:
        return do, begins, until
    some = np.flatnonzero(place >= 0)
    if not len(some):
        return do, begins, until
    works = rows.population.arrays["work"][plans.index[at[some]]] >= 0
    do[some] = np.where(works, code("work"), code("study"))
    lasts = np.where(works, params.hours, 7 * _HOUR)
    if not hasattr(rows.city, "is_open"):
        until[some] = np.minimum(begins[some] + lasts, DAY_S)
        return do, begins, until
    pairs, back = np.unique(place[some] * 2 + works, return_inverse=True)
    lasts = np.where(pairs % 2, params.hours, 7 * _HOUR)
    times = np.arange(0, DAY_S, _SLOT)
    is_open = town.open_at(rows, pairs // 2, times[:, None])
    allowed = is_open & (times >= params.begins)[:, None]
    if params.begins % _SLOT:
        allowed &= (times > params.begins)[:, None]
    first = np.where(allowed.any(axis=0), allowed.argmax(axis=0), is_open.argmax(axis=0))
    opens = first * _SLOT
    stop = opens + _SLOT
    most = np.minimum(opens + lasts, DAY_S)
    left = np.flatnonzero(stop < most)
    while len(left):
        left = left[is_open[stop[left] // _SLOT, left]]
        stop[left] += _SLOT
        left = left[stop[left] < most[left]]
    begins[some], until[some] = opens[back], stop[back]
    do[some[~is_open.any(axis=0)[back]]] = 0
    return do, begins, until


def _weights(rows: Rows) -> tuple[Any, Any, Any, Any]:
    """Return `LEISURE` as arrays: kinds, activities, places, cumulative weights by open kinds."""
    kinds = town.kind_numbers(rows)
    away = sorted({where for _, where, _ in LEISURE} - {"home"})
    do = np.array([code(each[0]) for each in LEISURE], np.uint8)
    where = np.array(
        [HOME if each[1] == "home" else KINDS + kinds.get(each[1], 0) for each in LEISURE], np.uint8
    )
    weights = np.array(
        [
            [
                weight if kind == "home" or mask >> away.index(kind) & 1 else 0
                for _, kind, weight in LEISURE
            ]
            for mask in range(1 << len(away))
        ]
    )
    return away, do, where, weights.cumsum(axis=1)


def _piece(rows: Rows, ids: Any, start: Any, end: Any, choice: Any) -> tuple[Any, Any, Any]:
    """Draw a piece of free time for each row; return activities, places and ends."""
    seed, step = rows.population.seed, rows.step
    away, do, where, sums = choice
    drawn = 2 + belows(7, seed, ids, step, "plan.length", start)
    open_ = sum(town.opens_at(rows, kind, start) << bit for bit, kind in enumerate(away))
    share = belows(sums[open_, -1], seed, ids, step, "plan.leisure", start)
    found = sum((each.take(open_) <= share).astype(np.int64) for each in sums.T)
    length, what = np.minimum(end - start, drawn * _SLOT), do[found]
    length[np.flatnonzero(what == code("shop"))] = 1800
    return what, where[found], start + length
