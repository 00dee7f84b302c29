"""The hours of a day: when people sleep, eat, work and learn; one rule for one and for rows.

What belongs to a person (its shift, how long it works, how early it is up) is drawn once, from the
seed and its id; what belongs to a day, in each step that makes a plan. `HoursParams` has the
constants. Their sources ("ATUS" is the U.S. Bureau of Labor Statistics' American Time Use Survey):

* `starts`: when work begins, by the half hour: half an hour after people leave home (Census 2000,
  Summary File 3, table P31: by the half hour from 5:00 to 9:00, then by longer spans, within which
  the split is assumed). A start from 22:00 on is a night shift. Two of three workplaces of a
  generated city are closed at night, and their share begins at 8:00 or 9:00: so these starts have
  thrice their weight, and 8:00 and 9:00 that much less.
* `departures`: with "survey", people leave for work by the quarter of an hour as that table has it
  (in percent at http://www.sccommunityprofiles.org/tables/timewk00p.asp). Its spans are split
  evenly, but two of three who leave after 16:00 have night shifts, which is assumed. The weights
  from 6:00 to 10:00 are fitted to it in generated towns. Where the workplace is closed then, a time
  is drawn again. Pupils leave as schools begin: of 100, 4.3 before 7:30, 27.5, 40.3 and 19.8 in the
  half hours until 9:00, 8.2 later (National Center for Education Statistics, 2017–18, at
  https://nces.ed.gov/surveys/ntps/ntpsdashboard/Dashboard/US).
* `lengths`: how long it lasts, with the meal, of 1,000, by the half hour: 7.7 hours of work on days
  worked (ATUS 2022), 17 of 100 employed part time (Current Population Survey 2022).
* `weekday`, `weekend`: who works on such a day, of 1,000: 83 and 34 of 100 (ATUS 2012).
* `remote`: who works at home on a day, of 1,000 in offices and professions; of all employed 31 of
  100 are not at their workplace on a day that they work (ATUS 2022), and those few others.
* `wake`, `bed`, `habit`, `lie_in`: 9.0 hours of sleep in the mean (ATUS 2022); people differ by
  hours, and sleep longer on free days (Roenneberg et al. 2007, "Epidemiology of the human circadian
  clock", Sleep Medicine Reviews 11).
* `breakfast`, `lunch`, `dinner`: 1.23 hours a day of eating and drinking (ATUS 2022); a meal is
  shorter than its longest by any number of quarters of an hour. `lunch_time`: at noon 18 of 100
  eat, more than at any other time (ATUS 2003 to 2007, in Demo Memo, July 7, 2008); `dinner_time` is
  assumed.
* `lessons`: schools begin at about 8 (National Center for Education Statistics 2020, School and
  Staffing: 8:07); `attends`: 94 of 100 are there on a day (the same, before 2020).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, Field

from moothall.society.arrays import Array, np
from moothall.society.blocks.citizen_block import CitizenBlockParams
from moothall.society.clock import DAY_S
from moothall.society.kernel.draw import draw_below
from moothall.society.kernel.perception import Item

HOUR: Final = 3600
SLOT_S: Final = 900
DAY_SLOTS: Final = DAY_S // SLOT_S
NO_DUTY, WORK, STUDY = range(3)
_HALF_HOUR: Final = 1800
_NIGHT: Final = 22 * HOUR
_SCHOOL_DAY: Final = 7 * HOUR
_NIGHT_SLEEP: Final = 7 * HOUR + _HALF_HOUR  # a night worker's sleep
_STARTS: Final = (
    *(0, 0, 0, 0, 0, 0, 0, 0, 8, 10, 15, 29),  # until 5:30
    *(44, 84, 104, 145, 123, 105, 25, 28, 25, 12, 10, 5),  # 6:00 to 11:30
    *(6, 6, 7, 7, 8, 10, 10, 9, 9, 8, 10, 4),  # 12:00 to 17:30
    *(8, 3, 5, 0, 0, 0, 0, 0, 45, 0, 39, 0),  # 18:00 to 23:30
)
_DEPARTURES: Final = (  # by the quarter of an hour, 12 for each thousandth of the table
    *(*[0] * 16, *[100] * 4, 174, 174, 264, 264),  # until 5:45
    *(548, 544, 692, 713, 786, 892, 885, 974),  # 6:00 to 7:45
    *(574, 646, 249, 312, 129, 145, 145, 172),  # 8:00 to 9:45, fitted
    *(*[66] * 4, *[33] * 4, *[50] * 16, *[10] * 24, *[68] * 8),  # 10:00 to 23:45
)
_TO_SCHOOL: Final = (*[0] * 28, 22, 21, 138, 137, 202, 201, 99, 99, 41, 41)  # from 7:00 to 9:15
_TRIES: Final = 8  # the first time at which the place is open, of so many drawn
_LENGTHS: Final = (
    *(0, 0, 0, 0, 0, 5, 15, 35, 20, 40, 20, 45, 20, 20, 30, 110, 330),  # until 8:30
    *(130, 80, 30, 30, 10, 20, 5, 5),
)


def _check_weights(weights: tuple[int, ...]) -> tuple[int, ...]:
    """Check that a weight is above 0."""
    if not any(weights):
        raise ValueError("one of the weights must be above 0")
    return weights


_Weight = Annotated[int, Field(ge=0)]
_Weights = Annotated[tuple[_Weight, ...], AfterValidator(_check_weights)]


def _time_field(value: int, description: str) -> Any:
    return Field(default=value, ge=0, le=DAY_S, description=description)


def _share_field(value: int, description: str) -> Any:
    return Field(default=value, ge=0, le=1000, description=f"{description}, of a thousand")


class HoursParams(CitizenBlockParams):
    """The times of a day, in seconds after midnight."""

    wake: int = _time_field(7 * HOUR + SLOT_S, "when it gets up")
    bed: int = _time_field(22 * HOUR + SLOT_S, "when it goes to bed")
    spread: int = Field(default=1800, ge=0, le=6 * HOUR, description="by how much these vary")
    habit: int = Field(
        default=9000, ge=0, le=6 * HOUR, description="by how much people are early or late at most"
    )
    lie_in: int = _time_field(3600, "how much longer it sleeps on free days")
    begins: int | None = Field(
        default=None, ge=0, le=DAY_S, description="when all work begins; None: by `starts`"
    )
    starts: _Weights = Field(
        default=_STARTS,
        min_length=1,
        max_length=48,
        description="weights of the half hours when work begins",
    )
    departures: Literal["starts", "survey"] = Field(
        default="starts",
        description='whether people leave by `starts` and `lessons`, or as in a "survey"',
    )
    hours: int | None = Field(
        default=None, ge=0, le=DAY_S, description="seconds of work of all; None: by `lengths`"
    )
    lengths: _Weights = Field(
        default=_LENGTHS,
        min_length=1,
        max_length=48,
        description="weights of half an hour, an hour, … of work, with the meal",
    )
    weekday: int = _share_field(830, "who works on a weekday")
    weekend: int = _share_field(340, "who works on a day of a weekend")
    remote: int = _share_field(560, "who works at home on a day, in offices and professions")
    lessons: int = _time_field(8 * HOUR, "when school begins")
    attends: int = _share_field(940, "who is at school on a weekday")
    lunch_time: int = _time_field(12 * HOUR + _HALF_HOUR, "when it has lunch")
    dinner_time: int = _time_field(18 * HOUR + _HALF_HOUR, "when it has dinner")
    breakfast: int = _time_field(1800, "the longest breakfast")
    lunch: int = _time_field(1800, "the longest lunch")
    dinner: int = _time_field(2700, "the longest dinner")


class Windows(NamedTuple):
    """The open quarters of an hour of places, (quarters, places)."""

    next_open: Array  # the next open quarter; the day's first if there is no later one
    open_ahead: Array  # how many open ones follow, itself included
    open_before: Array  # how many open ones go before it
    opens: Any  # whether the place opens at all


def windows_of(is_open: Array) -> Windows:
    """Return the windows of places from whether they are open, (quarters of an hour, places)."""
    slots = np.arange(DAY_SLOTS)[:, None]
    next_open = np.minimum.accumulate(np.where(is_open, slots, DAY_SLOTS)[::-1], axis=0)[::-1]
    next_closed = np.minimum.accumulate(np.where(is_open, DAY_SLOTS, slots)[::-1], axis=0)[::-1]
    last_closed = np.maximum.accumulate(np.where(is_open, -1, slots), axis=0)
    first_open = is_open.argmax(axis=0)
    return Windows(
        np.where(next_open == DAY_SLOTS, first_open, next_open),
        next_closed - slots,
        slots - last_closed - 1,
        is_open.any(0),
    )


class Day(NamedTuple):
    """The hours of a day, an array each, in seconds after midnight."""

    sleep_start: Array  # when sleep begins that ends with `wake`
    wake: Array
    bed: Array
    duty: Array  # NONE, WORK or STUDY
    duty_start: Array
    duty_end: Array
    remote: Array  # whether the duty is done at home
    breakfast: Array  # how long it lasts, as the other meals
    lunch_at: Array
    lunch: Array
    dinner_at: Array
    dinner: Array


def _draw_weighted(weights: Any, seed: int, ids: Array, purpose: str) -> Array:
    sums = np.cumsum(weights)
    drawn = draw_below(int(sums[-1]), seed, ids, 0, f"plan.{purpose}")
    return np.searchsorted(sums, drawn, side="right")


def _departures(seed: int, ids: Array, windows: Windows | None, place_index: Array) -> Array:
    """Return when each leaves for work: the first of some drawn quarters when the place is open."""
    slot = _draw_weighted(_DEPARTURES, seed, ids, "departure")
    for attempt in range(1, _TRIES if windows is not None else 1):
        # A night shift is from midnight on.
        opens = np.where(slot * SLOT_S >= _NIGHT, 0, slot)
        is_closed = windows.open_ahead[opens, place_index] == 0  # type: ignore[union-attr]
        later = _draw_weighted(_DEPARTURES, seed, ids, f"departure.{attempt}")
        slot = np.where(is_closed, later, slot)
    return slot * SLOT_S


def day_of(
    params: HoursParams,
    seed: int,
    ids: Array,  # as numbers, uint64
    step: int,  # in which the plan is made
    *,
    free: bool,  # whether it is a day of a weekend
    duty: Array,  # what each has: NONE, WORK or STUDY
    can_work_remotely: Array,  # who may work at home
    place_windows: Windows | None,  # of the places of duty; None if places have no hours
    place_index: Array,  # which of these is of the person's place; anything without a duty
) -> Day:
    """Return the hours of a day."""

    def below(n: int, purpose: str, draw_step: int = step) -> Array:
        return draw_below(n, seed, ids, draw_step, f"plan.{purpose}")

    def vary(time: int, spread: int, purpose: str) -> Array:
        return time + (below(2 * (spread // SLOT_S) + 1, purpose) - spread // SLOT_S) * SLOT_S

    def meal(longest: int, purpose: str) -> Array:
        """Return how long a meal lasts: any number of slots, up to the longest."""
        slots = max(1, longest // SLOT_S) if params.spread else 1
        return longest - below(slots, purpose) * SLOT_S

    goes_to_work = below(1000, "off") < (params.weekend if free else params.weekday)
    goes_to_school = (below(1000, "attends") < params.attends) & (not free)
    duty = np.where(np.where(duty == WORK, goes_to_work, goes_to_school), duty, NO_DUTY)
    works = duty == WORK
    begins = np.full(len(ids), params.begins or 0)
    if params.begins is None:
        begins = _draw_weighted(params.starts, seed, ids, "starts") * _HALF_HOUR
    span = np.full(len(ids), params.hours or 0)
    if params.hours is None:
        span = (_draw_weighted(params.lengths, seed, ids, "lengths") + 1) * _HALF_HOUR
    lessons: Array | int = params.lessons
    if params.departures == "survey":
        lessons = _draw_weighted(_TO_SCHOOL, seed, ids, "to_school") * SLOT_S
        if params.begins is None:
            begins = _departures(seed, ids, place_windows, place_index)
    begins, span = np.where(works, begins, lessons), np.where(works, span, _SCHOOL_DAY)
    night = works & (begins >= _NIGHT) & (params.begins is None)
    begins = np.where(night, begins - _NIGHT + 8 * HOUR, begins)  # by day, where that is closed
    if place_windows is not None:
        night &= place_windows.open_ahead[0, place_index] > 0
    begins = np.where(night, 0, begins)
    ends = np.minimum(begins + span, DAY_S)
    if place_windows is not None:
        slot = place_windows.next_open[np.minimum(-(-begins // SLOT_S), DAY_SLOTS - 1), place_index]
        slots_needed = np.maximum(1, -(-span // SLOT_S))
        if params.begins is None:  # a shift that would end after the place closes begins earlier
            slots_ahead = place_windows.open_ahead[slot, place_index]
            slots_short = np.where(works, np.maximum(slots_needed - slots_ahead, 0), 0)
            slot = slot - np.minimum(place_windows.open_before[slot, place_index], slots_short)
        slots = np.minimum(slots_needed, place_windows.open_ahead[slot, place_index])
        begins, ends = slot * SLOT_S, (slot + slots) * SLOT_S
        duty = np.where(place_windows.opens[place_index], duty, NO_DUTY)
    night &= duty != NO_DUTY
    has_day_duty = (duty != NO_DUTY) & ~night
    remote = (duty == WORK) & can_work_remotely & (below(1000, "remote") < params.remote)
    half = params.habit // SLOT_S
    chronotype_shift = (below(half + 1, "owl", 0) + below(half + 1, "lark", 0) - half) * SLOT_S
    wake = vary(params.wake, params.spread, "wake") + chronotype_shift
    wake = np.where(has_day_duty, np.minimum(wake, begins - HOUR), wake + params.lie_in)
    wake = np.clip(wake, 0, DAY_S - 2 * HOUR)
    bed = np.maximum(vary(params.bed, params.spread, "bed") + chronotype_shift, wake + HOUR)
    if params.hours is None:  # after a late shift
        bed = np.where(has_day_duty & (ends > bed - HOUR), ends + HOUR, bed)
    sleep_start = np.minimum(np.maximum(bed - DAY_S, 0), wake)
    bed = np.minimum(bed, DAY_S)
    sleep_start = np.where(night, np.minimum(ends + HOUR, 12 * HOUR), sleep_start)
    wake, bed = np.where(night, sleep_start + _NIGHT_SLEEP, wake), np.where(night, DAY_S, bed)
    begins = np.where(night, begins, np.maximum(begins, wake + HOUR))
    ends = np.minimum(ends, bed)
    duty = np.where(begins < ends, duty, NO_DUTY)
    lunch_at = np.clip(vary(params.lunch_time, 2 * params.spread, "lunch"), 0, DAY_S - HOUR)
    lunch_at = np.where(night, 4 * HOUR, lunch_at)
    dinner = meal(params.dinner, "dinner.length")
    dinner_at = vary(params.dinner_time, 2 * params.spread, "dinner")
    dinner_at = np.minimum(np.maximum(dinner_at, wake + HOUR), np.maximum(bed - dinner, 0))
    return Day(
        sleep_start,
        wake,
        bed,
        duty,
        begins,
        ends,
        remote & (duty != NO_DUTY),
        np.minimum(meal(params.breakfast, "breakfast"), DAY_S - wake),
        lunch_at,
        np.minimum(meal(params.lunch, "lunch.length"), DAY_S - lunch_at),
        dinner_at,
        dinner,
    )


# -- the items of a plan --------------------------------------------------------------------------


def item_of_plan(do: str, where: str | None, start: int, until: int) -> Item:
    """Return an item of a plan, from and until a second of the day."""
    return {"do": do, "where": where, "from": start, "until": until}
