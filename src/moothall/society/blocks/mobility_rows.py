"""The rules of `MobilityBlock` for rows: choosing places and setting out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from moothall.society.arrays import Array, WholeNumber, any_of, chosen_at, larger, np
from moothall.society.blocks import columns
from moothall.society.blocks.citizen_block import CitizenBlock, now_of
from moothall.society.blocks.columns import HOUSEHOLDS, PLAN_BLOCK_COLUMNS, act_code
from moothall.society.blocks.plans import Plans
from moothall.society.blocks.rules import explore_chance, gravity
from moothall.society.blocks.ties import Ties
from moothall.society.clock import DAY_S
from moothall.society.columns import city_queries
from moothall.society.columns.column import Column, fill
from moothall.society.columns.register import Register
from moothall.society.columns.rows import Rows
from moothall.society.kernel.draw import draw_below
from moothall.society.kernel.wants import Move

MAX_VISITED: Final = 8  # the places of a kind that a citizen remembers at most
VISITED_KINDS: Final = ("park", "restaurant", "shop")
"""The kinds whose visited places rows remember: those that plans name."""
MODES: Final = ("walk", "cycle", "drive", "transit")
"""The modes whose choice is fitted; one of another name is chosen as `transit` is."""
_NO_CAR, _RIDES, _SHARES, _DRIVES = range(4)
_MODE_WEIGHTS: Final = np.array(  # weights of `MODES` on a way of no time, by what one has of a car
    (
        (600, 50, 330, 160),
        (220, 24, 740, 40),
        (180, 18, 840, 15),
        (142, 13, 900, 4),
    )
)
"""Of all trips nine of ten are by car, van or truck, 6.9 of 100 on foot, 1.4 by bus or train, 0.9
by bicycle (National Household Travel Survey 2022). Without a car in the household 37 are on foot,
20 by transit, and fewer than 40 by a car of others; with one 8, 1 and nearly 90 (the same survey of
2001, in Bureau of Transportation Statistics 2003). Of trips of at most a mile adults walk 21 of 100
(2001: Ham, Macera, Lindley 2005, Preventing Chronic Disease 2). The weights are fitted to these in
a generated town of 100,000.
"""
_FADE_TIMES: Final = (9, 12, 60, 60)  # minutes in which a mode's weight falls to some 1/e; fitted
_MAX_MINUTES: Final = 256  # from so many minutes on, a weight stays as it is
_STUDY: Final = act_code("study")
_DRIVING_AGE: Final = 16  # who is younger drives no car, whatever a table says
_CYCLING_AGE: Final = 5  # who is younger rides no bicycle
_CHUNK: Final = 1 << 14
"""Rows that choose a place at a time: their arrays fit the processor's cache."""
# The numbers of known places, each + 1, in the order of the first visits; and how many visits.
_VISITS: Final = {
    f"{name}_{kind}": Column(dtype, width=MAX_VISITED, own=True, slots=True, renumbered=change)
    for kind in VISITED_KINDS
    for name, dtype, change in (
        ("visited", "int32", columns.codes_renumbered),
        ("visits", "uint16", None),
    )
}
COLUMNS: Final[dict[str, Column]] = {
    **columns.ACT,
    **columns.PLAN,
    **_VISITS,
    **columns.AGE,
    "household": PLAN_BLOCK_COLUMNS["household"],
    "licence": Column("bool", True, key=("profile", "licence")),
    "cars": Column("uint8", 1, key=("profile", "cars")),
    "bicycles": Column("uint8", 1, key=("profile", "bicycles")),
    # The mode by which it left home: it has the car or the bicycle with it until it is back.
    "tour": Column("uint8", words=(None, *MODES, "other")),
    "along": Column("bool"),  # a child that a parent has taken along, until they are home
}
"""The columns of `MobilityBlock`."""
_OWNED: Final = ("licence", "cars", "bicycles")
_ALONE: Final = np.array([each in (None, "alone", "lone parent") for each in (None, *HOUSEHOLDS)])
"""Whether the only car of a household, by its kind, is of one alone."""


def _fading_weights(minutes: int) -> list[int]:
    weights = [1 << 20]
    while len(weights) < _MAX_MINUTES:
        weights.append(weights[-1] * minutes // (minutes + 1))
    return weights


_FADED: Final = np.array([_fading_weights(minutes) for minutes in _FADE_TIMES])


def fits_rows(self: CitizenBlock, rows: Rows) -> Any:
    """Return `fits` of rows: 2 for rows on their way or not at their item's place."""
    if rows.city is None:
        return 0.0
    where = rows["item_where"]
    goes = (rows["item_do"] > 0) & (where != -1) & ~rows["stuck"] & (where != rows["place"])
    goes &= ~rows["along"] | (rows["item_do"] == _STUDY)
    return (goes | (rows["moving_to"] >= 0)).astype(np.float32) * np.float32(2)


def step_rows(self: CitizenBlock, rows: Rows) -> None:
    """Set out to the places of the plans' items, or go on; choose a place of a kind first."""
    rows["act"] = act_code("travel")
    for walkers in rows.only(Plans(rows).is_moving() != True):  # noqa: E712 - of arrays, too
        for seekers, kind in _seekers(walkers):
            _choose_places(self, seekers, kind)
        to = walkers.column("item_where")
        goes, here = (to >= 0) & (Plans(walkers).is_stuck() != True), to == walkers["place"]  # noqa: E712
        for movers in walkers.only(goes & here):
            movers["act"] = act_code("idle")
        for movers in walkers.only(goes & (here != True)):  # noqa: E712
            set_out(self, movers, movers.column("item_where"))


def _seekers(rows: Rows) -> Iterator[tuple[Rows, str]]:
    """Yield rows whose item is at a kind of place, and the kind."""
    where = rows.column("item_where")
    for number, kind in enumerate(rows.city.kinds()) if any_of(where < -1) else ():
        seeking = chosen_at(where == -2 - number)
        for first in range(0, len(seeking), _CHUNK):
            for seekers in rows.some(seeking[first : first + _CHUNK]):
                yield seekers, kind


def _is_open_on_arrival(rows: Rows, place: Any, seconds: WholeNumber) -> Any:
    """Return whether places are open on arrival, which is at the beginning of a step."""
    steps = larger(1, -(-seconds // rows.seconds))
    arrives = now_of(rows) % DAY_S + steps * rows.seconds
    return city_queries.open_at(rows, place, arrives)


# -- setting out -----------------------------------------------------------------------------------


def set_out(self: CitizenBlock, rows: Rows, to: Any) -> Any:
    """Ask to move to places; return who does: none to whom a way is missing, or closed."""
    mode, seconds = _mode_and_seconds(self, rows, to)
    is_open = _is_open_on_arrival(rows, to, larger(seconds, 0))
    rows.want(Move, (seconds >= 0) & is_open, to=to, mode=mode)
    rows["along"] = False
    plan = Plans(rows)
    plan.get_stuck("there is no way to {}", seconds < 0, to)
    plan.get_stuck("{} is closed", (seconds >= 0) & (is_open != True), to)  # noqa: E712
    return (seconds >= 0) & is_open


def _mode_and_seconds(self: CitizenBlock, rows: Rows, to: Any) -> tuple[Any, WholeNumber]:
    """Return the mode of travel to places and its seconds, −1 where there is no way."""
    city, mode = rows.city, self.params.mode
    here, to = np.atleast_1d(rows.column("place")), np.atleast_1d(to)
    is_fixed = mode is not None or not hasattr(city, "modes")
    names = [mode] if is_fixed else [each.name for each in city.modes]
    numbers = np.array(
        [-1 if name is None else rows.population.words.index(name) for name in names]
    )
    modes, seconds = np.full(len(rows), -1, np.int64), np.zeros(len(rows), np.int64)
    for part in rows.only(here >= 0):
        index = slice(None) if len(part) == len(rows) else (here >= 0).nonzero()[0]
        times = city_queries.travel_seconds(part, here[index].astype(np.int64), to[index], names)
        number = _pick_modes(self.params, part, names, times)
        seconds[index] = times[np.arange(len(part)), number]
        modes[index] = np.where(seconds[index] < 0, -1, numbers[number])
    return modes, seconds


def _pick_modes(params: object, rows: Rows, names: Sequence[str | None], times: Array) -> Any:
    """Return which of some modes each takes, of times by mode (n, modes), −1: no way.

    It is drawn where one leaves home. Until one is back, one keeps the mode, if it leads there.
    """
    if len(names) == 1:
        return np.zeros(len(times), np.int64)
    codes = np.array([MODES.index(n) if n in MODES else len(MODES) for n in names])
    number_by_code = np.full(len(MODES) + 2, -1)
    number_by_code[codes[::-1] + 1] = np.arange(len(names))[::-1]
    number = number_by_code[np.atleast_1d(rows.column("tour"))]
    is_out = np.atleast_1d(rows.column("place") != rows.column("home"))
    drawn = (~is_out | (number < 0) | (times[np.arange(len(times)), number] < 0)).nonzero()[0]
    for part in rows.some(drawn):
        number[drawn] = _draw_modes(params, part, np.minimum(codes, len(MODES) - 1), times[drawn])
        part["tour"] = (codes[number[drawn]] + 1).astype(np.uint8)
    return number


def _draw_modes(params: Any, rows: Rows, codes: Array, times: Array) -> Any:
    """Draw the mode of each from a way's times, by what one has; habit draws the same each day."""
    trait = {name: np.atleast_1d(rows.column(name)) for name in (*_OWNED, "age", "household")}
    shares = (trait["cars"] == 1) & ~_ALONE[trait["household"]]
    access = np.where(trait["licence"] & (trait["age"] >= _DRIVING_AGE), _DRIVES - shares, _RIDES)
    by_mode = _MODE_WEIGHTS[np.where(trait["cars"] > 0, access, _NO_CAR)].T.copy()
    by_mode[MODES.index("cycle")] *= (trait["bicycles"] > 0) & (trait["age"] >= _CYCLING_AGE)
    sums = np.zeros(len(times), np.int64)
    cumulative = np.empty(times.shape[::-1], np.int64)
    for column, mode in enumerate(codes.tolist()):
        seconds = times[:, column]
        weight = by_mode[mode] * _FADED[mode][np.minimum(seconds // 60, _MAX_MINUTES - 1)]
        sums += np.maximum(weight, 1) * (seconds >= 0)
        cumulative[column] = sums
    is_usual = draw_below(1000, rows.seed, rows.ids, rows.step, "mobility.habit") < params.habit
    total = np.maximum(sums, 1)
    draws = [
        draw_below(total, rows.seed, rows.ids, each, "mobility.mode") for each in (0, rows.step)
    ]
    share = np.where(is_usual, *draws)
    return np.minimum((cumulative <= share).sum(axis=0), len(codes) - 1)


# -- choosing a place ------------------------------------------------------------------------------


def may_stay(rows: Rows, kind: str) -> Any:
    """Return who is at a place of a kind, which has not turned them away and is open."""
    place = rows.column("place")
    is_there = np.atleast_1d((place >= 0) & city_queries.is_kind(rows, place, kind))
    for visitors in rows.only(is_there):
        here = visitors.column("place")
        fits = ~Plans(visitors).avoids(here) & _is_open_on_arrival(visitors, here, 0)
        is_there[is_there] = fits
    return is_there


def _choose_places(self: CitizenBlock, rows: Rows, kind: str) -> None:
    """Choose places of a kind; who finds none is stuck."""
    is_there = may_stay(rows, kind)
    for part in rows.only(is_there):
        Plans(part).choose(part.column("place"), kind)
    for part in rows.only(~is_there):
        places = near_places(self, part, kind)
        has_any = places.fits.any(axis=0)
        for finders in part.some(has_any.nonzero()[0]):
            chosen = _choose_candidates(self.params, finders, places.select(has_any))
            visit_place(finders, chosen, kind)
        for unplaced in part.some((~has_any).nonzero()[0]):
            Plans(unplaced).get_stuck(f"no {kind} within reach is open and has room", True)


def visit_place(rows: Rows, place: Any, kind: str) -> None:
    """Take places as those of the plans' items, and count the visits."""
    Plans(rows).choose(place, kind)
    if kind in VISITED_KINDS:
        _visit_ties(rows, kind).update(place, lambda times: times + 1)


class Candidates(NamedTuple):
    """Places of a kind that are near, (places, n) each, and how many of the kind are known, (n)."""

    place: Array
    seconds: Array
    fits: Any  # open on arrival, and none that has turned them away
    visits: Array
    known_count: Array

    def select(self, some: Array) -> Candidates:
        """Return those of some rows."""
        return Candidates(*(each[..., some] for each in self))


def near_places(self: CitizenBlock, rows: Rows, kind: str) -> Candidates:
    """Return the candidates of rows."""
    params = self.params
    place, home = (np.atleast_1d(rows.column(each)) for each in ("place", "home"))
    start = np.where(place < 0, home, place).astype(np.int64)
    places, seconds = (
        e.T for e in city_queries.nearest_places(rows, start, kind, params.candidates, params.mode)
    )
    fits = (places >= 0) & (start >= 0) & _is_open_on_arrival(rows, np.maximum(places, 0), seconds)
    avoided = Plans(rows).avoided_places()
    avoiding = (avoided[:, 0] >= 0).nonzero()[0]
    for each in avoided[avoiding].T if len(avoiding) else ():
        fits[:, avoiding] &= places[:, avoiding] != each
    visits, many = np.zeros(places.shape, np.int32), np.zeros(len(rows), np.int64)
    if kind in VISITED_KINDS:
        ties = _visit_ties(rows, kind)
        for slot, positions, index, codes in ties.slots():
            counts = ties.slot_strengths(slot, index)
            visits[:, positions] += (places.take(positions, axis=1) == codes - 1) * counts
            many[positions] += 1
    return Candidates(places, seconds, fits, visits, many)


def _visit_ties(rows: Rows, kind: str) -> Ties:
    return Ties(rows, None, (f"visited_{kind}", f"visits_{kind}"))


def _choose_candidates(params: Any, rows: Rows, candidates: Candidates) -> Array:
    """Choose of each row's candidates one that fits: return to a known place, or explore."""
    is_visited = candidates.fits & (candidates.visits > 0)
    chances = [
        explore_chance(n, params.rho, params.gamma) for n in range(candidates.known_count.max() + 1)
    ]
    explore = draw_below(1000, rows.seed, rows.ids, rows.step, "mobility.explore")
    returns = is_visited.any(axis=0) & (explore >= np.array(chances)[candidates.known_count])
    is_new = candidates.fits & (candidates.visits == 0)
    is_new |= candidates.fits & ~is_new.any(axis=0)
    chosen = np.empty(len(returns), np.int64)
    for purpose, mask in (("mobility.return", returns), ("mobility.place", ~returns)):
        at = mask.nonzero()[0]
        if not len(at):
            continue
        if mask is returns:
            weights = (is_visited * candidates.visits).take(at, axis=1).astype(np.int64)
        else:
            seconds = candidates.seconds.take(at, axis=1)
            capacities = city_queries.capacity(rows)[candidates.place.take(at, axis=1)]
            weights = gravity(capacities, seconds, params.wait)
            weights *= is_new.take(at, axis=1)
        for rank in range(1, len(weights)):
            weights[rank] += weights[rank - 1]
        share = draw_below(weights[-1], rows.seed, rows.ids[at], rows.step, purpose)
        chosen[at] = (weights <= share).sum(axis=0)
    return candidates.place[chosen, np.arange(len(chosen))]


def to_status(self: object, population: Register, row: int, status: dict[str, Any]) -> None:
    """Write a row's visits into a status."""
    visits = {}
    for kind in VISITED_KINDS:
        visited, counts = (
            population.arrays[f"{name}_{kind}"][row] for name in ("visited", "visits")
        )
        if visited[0]:
            pairs = zip(visited.tolist(), counts.tolist(), strict=True)
            visits[kind] = {population.places[each - 1]: count for each, count in pairs if each}
    if visits:
        status["visits"] = visits


def from_status(self: object, population: Register, row: int, status: dict[str, Any]) -> None:
    """Write a status' visits into a row."""
    for kind in VISITED_KINDS:
        visits = list(status.get("visits", {}).get(kind, {}).items())[:MAX_VISITED]
        places = [population.place_number(place) + 1 for place, _ in visits]
        fill(population.arrays[f"visited_{kind}"], row, places)
        fill(population.arrays[f"visits_{kind}"], row, [count for _, count in visits])
