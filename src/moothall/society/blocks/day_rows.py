"""The rule of `PlanBlock` that makes a day's plan, for rows or one citizen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from moothall.society.arrays import Array, np
from moothall.society.blocks.citizen_block import CitizenBlock
from moothall.society.blocks.columns import (
    ACTS,
    DESK_JOBS,
    DUTY,
    FIRST_KIND,
    HOME,
    MAX_SLOTS,
    NO_PLACE,
    OCCUPATIONS,
    UNTIL_SHIFT,
    act_code,
    item_words,
)
from moothall.society.blocks.hours import NO_DUTY, SLOT_S, STUDY, WORK, Day, day_of, windows_of
from moothall.society.blocks.plans import Plans
from moothall.society.blocks.rules import LEISURE
from moothall.society.clock import DAY_S
from moothall.society.columns import city_queries
from moothall.society.columns.rows import Rows
from moothall.society.kernel.care import MIN_AGE_ALONE
from moothall.society.kernel.draw import draw_below

_DUTIES: Final = (0, ACTS.index("work"), ACTS.index("study"))
_DESKS: Final = [1 + OCCUPATIONS.index(each) for each in DESK_JOBS]
_FREE: Final = 6  # the number of an elementary span of the day outside the six set items


def make_plans(block: CitizenBlock, rows: Rows, plans: Plans, plan_indices: Array) -> None:
    """Write this day's plans of some of the rows."""
    arrays = plans.arrays
    index = plans.index[plan_indices]
    home, duty = plans.home[plan_indices], plans.duty[plan_indices]
    day = _hours_of_rows(block, rows, plans, plan_indices)
    is_child = arrays["age"][index] < MIN_AGE_ALONE
    by_slot = items_of(block, rows, rows.ids[plan_indices], day, home, duty, is_child)
    for slot, (positions, items) in enumerate(by_slot):
        arrays["plan"][:, slot][index[positions]] = items
        _clear(arrays, index[positions[np.flatnonzero(items >> UNTIL_SHIFT >= DAY_S)]], slot + 1)
    arrays["plan_now"][index] = 0
    arrays["plan_chosen"][index] = -1
    avoided = arrays["plan_avoid"]
    avoided[index[np.flatnonzero(avoided[:, 0][index])]] = 0  # writing all would take memory
    arrays["plan_home"][index] = home
    arrays["plan_duty"][index] = duty


def items_of(
    block: CitizenBlock, rows: Rows, ids: Array, day: Day, home: Array, duty: Array, is_child: Array
) -> Iterator[tuple[Array, Array]]:
    """Yield the items of a day's plans, by slots: who has an item there, and the items.

    Sleep, meals, work or school at their hours, and drawn pieces in the time that is left: a
    child's at home.
    """
    span_ends, item_numbers, activities, place_codes = _fixed_items(block, rows, ids, day, is_child)
    count = len(ids)
    # Without a home, items at home have no place (NONE); a duty at home is coded as HOME.
    homeless_offset = (home < 0).astype(np.uint8) * np.uint8(HOME - NO_PLACE)
    home_duty_offset = ((duty == home) | day.remote) * (np.uint8(DUTY - HOME) + homeless_offset)
    pending, start = np.arange(count), np.zeros(count, np.int32)
    span_index = pending.copy()
    leisure_tables = _leisure_tables(rows, block.params.leisure)
    while len(pending):
        end, item = span_ends.take(span_index), item_numbers.take(span_index)
        item_index = item * count + pending
        act, code, stop = activities.take(item_index), place_codes.take(item_index), end.copy()
        free = ((item == _FREE) & (end - start >= 1800)).nonzero()[0]
        if len(free):
            act[free], code[free], stop[free] = _draw_free_time(
                block.params,
                rows,
                ids[pending[free]],
                start[free],
                end[free],
                leisure_tables,
                is_child[pending[free]],
            )
        where = (
            code
            - (code == HOME) * homeless_offset[pending]
            - (code == DUTY) * home_duty_offset[pending]
        )
        yield pending, item_words(act, where, stop)
        span_index += (stop == end) * count
        going_on = (stop < DAY_S).nonzero()[0]
        pending, span_index, start = pending[going_on], span_index[going_on], stop[going_on]
        while len(covered := (span_ends.take(span_index) <= start).nonzero()[0]):
            span_index[covered] += count  # skip spans that belong to an earlier item


def _clear(arrays: dict[str, Array], row_indices: Array, slot: int) -> None:
    """Clear the slots from `slot` on that the previous plans used."""
    while slot < MAX_SLOTS and len(row_indices):
        column = arrays["plan"][:, slot]
        row_indices = row_indices[np.flatnonzero(column[row_indices])]
        column[row_indices] = 0
        slot += 1


def _fixed_items(
    block: CitizenBlock, rows: Rows, ids: Array, day: Day, is_child: Array
) -> tuple[Array, Array, Array, Array]:
    """Return the set items of each day: sleep, meals, and work or school."""
    seed, count = rows.population.seed, len(ids)
    dinner_place = np.full(count, HOME, np.uint8)
    kinds = city_queries.kind_numbers(rows)
    lunch, dinner, begins, duty_ends = day.lunch_at, day.dinner_at, day.duty_start, day.duty_end
    if "restaurant" in kinds:
        dines_out = draw_below(1000, seed, ids, rows.step, "plan.dine") < block.params.dines
        dines_out &= ~is_child
        is_open = city_queries.any_open(rows, "restaurant", dinner) > 0
        dinner_place[dines_out & is_open] = FIRST_KIND + kinds["restaurant"]
    has_duty, act = day.duty != NO_DUTY, np.array(_DUTIES)[day.duty]
    lunch_end, dinner_end = lunch + day.lunch, dinner + day.dinner
    lunch_place = np.where(has_duty & (begins <= lunch) & (lunch < duty_ends), DUTY, HOME)
    # A duty continues after lunch; dinner during a duty is eaten there.
    dines_before = (begins < np.minimum(duty_ends, lunch)) & (begins < dinner_end)
    dines_before &= dinner < np.minimum(duty_ends, lunch)
    afternoon_start = np.maximum(begins, lunch_end)
    dines_after = (
        (afternoon_start < duty_ends) & (afternoon_start < dinner_end) & (dinner < duty_ends)
    )
    dinner_place = np.where(has_duty & (dines_before | dines_after), DUTY, dinner_place)
    eat, sleep = act_code("eat"), act_code("sleep")
    items: tuple[tuple[Any, ...], ...] = (  # later items cover earlier ones
        (act, DUTY, np.where(has_duty, begins, DAY_S), np.where(has_duty, duty_ends, DAY_S)),
        (eat, lunch_place, lunch, lunch_end),
        (eat, dinner_place, dinner, dinner_end),
        (eat, HOME, day.wake, day.wake + day.breakfast),
        (sleep, HOME, day.sleep_start, day.wake),
        (sleep, HOME, day.bed, DAY_S),
    )
    limits = np.zeros((count, 14), np.int32)
    limits[:, 13] = DAY_S
    for number, (*_, start, until) in enumerate(items):
        limits[:, 1 + 2 * number], limits[:, 2 + 2 * number] = start, until
    limits.sort(axis=1)
    limits = limits.T.copy()
    item_numbers = np.zeros((13, count), np.int8)  # 1 + the number of the item
    for number, (*_, start, until) in enumerate(items):
        inside = (limits[:-1] >= start) & (limits[:-1] < until)
        np.maximum(item_numbers, inside * np.int8(number + 1), out=item_numbers)
    item_numbers += (item_numbers == 0) * np.int8(_FREE + 1) - np.int8(1)
    # Merge adjacent spans of the same item; an empty span takes the item of the next span.
    span_ends = limits[1:].copy()
    empty = limits[1:] == limits[:-1]
    item_numbers[12] += empty[12] * (np.int8(_FREE + 1) - item_numbers[12])
    for number in range(11, -1, -1):
        item_numbers[number] += empty[number] * (item_numbers[number + 1] - item_numbers[number])
        same = item_numbers[number] == item_numbers[number + 1]
        span_ends[number] += same * (span_ends[number + 1] - span_ends[number])
    activities = np.full((_FREE + 1, count), act_code("leisure"), np.uint8)
    place_codes = np.full((_FREE + 1, count), HOME, np.uint8)
    for number, (activity, place, *_) in enumerate(items):
        activities[number], place_codes[number] = activity, place
    # The rising ends of a day's spans and their items, (13, n); what items are, (7, n).
    return span_ends, item_numbers.astype(np.int64), activities, place_codes


def _hours_of_rows(block: CitizenBlock, rows: Rows, plans: Plans, plan_indices: Array) -> Day:
    """Return the hours of this day."""
    place, arrays, index = (
        plans.duty[plan_indices].astype(np.int64),
        rows.population.arrays,
        plans.index[plan_indices],
    )
    duty = np.where(arrays["work"][index] >= 0, WORK, STUDY) * (place >= 0)
    at_desk = np.isin(arrays["occupation"][index], _DESKS) & (plans.home[plan_indices] >= 0)
    return hours_of(block, rows, rows.ids[plan_indices], duty, at_desk, place)


def hours_of(
    block: CitizenBlock, rows: Rows, ids: Array, duty: Array, at_desk: Array, place: Array
) -> Day:
    """Return the hours of this day: of citizens by id, with duties at places (−1: none known)."""
    is_office, with_place = np.zeros(len(ids), bool), np.flatnonzero(place >= 0)
    place_windows, window_index = None, np.zeros(len(ids), np.int64)
    if len(with_place):
        kind = city_queries.kind_numbers(rows).get("work", -1)
        is_office[with_place] = city_queries.place_kinds(rows)[place[with_place]] == kind
        if hasattr(rows.city, "is_open"):
            places, window_index[with_place] = np.unique(place[with_place], return_inverse=True)
            place_windows = windows_of(
                city_queries.open_at(rows, places, np.arange(0, DAY_S, SLOT_S)[:, None])
            )
    return day_of(
        block.params,
        rows.population.seed,
        ids,
        rows.step,
        free=bool(getattr(rows.clock, "is_weekend", False)),
        duty=duty,
        can_work_remotely=is_office & at_desk,
        place_windows=place_windows,
        place_index=window_index,
    )


def _leisure_tables(rows: Rows, by_item: tuple[int, ...]) -> tuple[list[str], Array, Array, Array]:
    """Return `LEISURE` as arrays: kinds, activities, places, cumulative weights by open kinds."""
    kinds = city_queries.kind_numbers(rows)
    kinds_away = sorted({where for _, where, _ in LEISURE} - {"home"})
    act = np.array([act_code(each[0]) for each in LEISURE], np.uint8)
    where = np.array(
        [HOME if each[1] == "home" else FIRST_KIND + kinds.get(each[1], 0) for each in LEISURE],
        np.uint8,
    )
    weights = np.array(
        [
            [
                weight if kind == "home" or mask >> kinds_away.index(kind) & 1 else 0
                for (_, kind, _), weight in zip(LEISURE, by_item, strict=True)
            ]
            for mask in range(1 << len(kinds_away))
        ]
    )
    return kinds_away, act, where, weights.cumsum(axis=1)


def _draw_free_time(
    params: Any,
    rows: Rows,
    ids: Array,
    start: Array,
    end: Array,
    leisure: tuple[list[str], Array, Array, Array],
    is_child: Array,
) -> tuple[Array, Array, Array]:
    """Draw a piece of free time for each row; return activities, places and ends."""
    seed, step = rows.population.seed, rows.step
    kinds, act, where, sums = leisure
    mask = sum(city_queries.any_open(rows, kind, start) << bit for bit, kind in enumerate(kinds))
    mask = mask * ~is_child
    drawn = draw_below(sums[mask, -1], seed, ids, step, "plan.leisure", start)
    index = (sums.T.take(mask, axis=1) <= drawn).sum(axis=0)
    activity = act[index]
    shops = activity == act_code("shop")
    shortest, extra = (
        np.where(shops, a, b) for a, b in zip(params.shopping, params.piece, strict=True)
    )
    slots = shortest + draw_below(extra, seed, ids, step, "plan.length", start)
    return activity, where[index], start + np.minimum(end - start, slots * SLOT_S)
