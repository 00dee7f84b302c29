"""`MobilityBlock` for many citizens at once: choosing places and setting out."""

from __future__ import annotations

from typing import Any, Final

from moothall.society.arrays import np
from moothall.society.blocks import columns
from moothall.society.blocks.block import now_of
from moothall.society.blocks.columns import AVOIDS, CHOSEN, WHERE, code, without
from moothall.society.blocks.rules import explores, gravity
from moothall.society.blocks.ties import Ties
from moothall.society.clock import DAY_S
from moothall.society.columns import town
from moothall.society.columns.column import Column, fill
from moothall.society.columns.register import Register
from moothall.society.columns.rows import Rows
from moothall.society.kernel.draw import belows
from moothall.society.kernel.wants import Move

VISITED: Final = 8  # the places of a kind that a citizen remembers at most
KINDS: Final = ("park", "restaurant", "shop")
"""The kinds whose visited places rows remember: those that plans name."""
_NEVER: Final = 1 << 40  # seconds for "no way": more than any way takes
_AT_ONCE: Final = 1 << 14
"""Rows that choose a place at a time: their arrays fit the processor's cache."""
# The numbers of known places, each + 1, in the order of the first visits; and how many visits.
_VISITS: Final = {
    f"{what}_{kind}": Column(dtype, width=VISITED, own=True, slots=True)
    for kind in KINDS
    for what, dtype in (("visited", "int32"), ("visits", "uint16"))
}
COLUMNS: Final = {
    **columns.ACT,
    **columns.PLAN,
    **_VISITS,
    **columns.AGE,
}
"""The columns of `MobilityBlock`."""


def fits_rows(self: Any, rows: Rows) -> Any:
    """Return `fits` of rows: 2 for rows on their way or not at their item's place."""
    if rows.city is None:
        return 0.0
    where = rows["item_where"]
    goes = (rows["item_do"] > 0) & (where != -1) & ~rows["stuck"] & (where != rows["place"])
    return (goes | (rows["moving_to"] >= 0)).astype(np.float32) * np.float32(2)


def step_rows(self: Any, rows: Rows) -> None:
    """Do `forward` for rows: set out, or continue on the way."""
    arrays, index = rows.population.arrays, rows.at
    arrays["act"][index] = code("travel")
    at = np.flatnonzero(rows["moving_to"] < 0)
    where = rows.column("item_where")  # `rows[…]` would be written back
    place = rows["place"]
    goes = np.where(where >= 0, where, -1).astype(np.int64)
    seeks = at[where[at] < -1]
    for number, kind in enumerate(rows.city.kinds()):
        some = seeks[where[seeks] == -2 - number]
        for first in range(0, len(some), _AT_ONCE):
            part = some[first : first + _AT_ONCE]
            goes[part] = _choose(self, rows, part, kind, number)
    at = at[goes[at] >= 0]
    there = goes[at] == place[at]
    arrays["act"][index[at[there]]] = code("idle")
    at = at[~there]
    if len(at):
        _set_out(self, rows, at, goes)


def _stuck(rows: Rows, at: Any) -> None:
    index = rows.at[at]
    rows.population.arrays["stuck"][index] = True
    rows.population.arrays["act"][index] = code("idle")


def _open(rows: Rows, places: Any, seconds: Any) -> Any:
    """Return whether places are open on arrival, which is at the beginning of a step."""
    step = rows.seconds
    arrives = now_of(rows) % DAY_S + np.maximum(1, -(-seconds // step)) * step
    return town.open_at(rows, places, arrives)


def _set_out(self: Any, rows: Rows, at: Any, goes: Any) -> None:
    """Do `_set_out` and `_mode`: ask to move, unless unreachable or closed on arrival."""
    params, words = self.params, rows.population.words
    here, to = rows["place"][at].astype(np.int64), goes[at]
    mode = np.full(len(at), -1, np.int64)
    seconds = np.zeros(len(at), np.int64)
    some = np.flatnonzero(here >= 0)
    if params.mode is not None or not hasattr(rows.city, "modes"):
        if params.mode is not None:
            mode[some] = words.index(params.mode)
        seconds[some] = town.ways(rows, here[some], to[some], [params.mode])[:, 0]
    elif len(some):
        names = [each.name for each in rows.city.modes]
        child = rows["age"][at[some]] < 18
        bits = len(names).bit_length()
        fastest = np.full(len(some), _NEVER << bits)  # seconds, and the mode in the last bits
        for number, times in enumerate(town.ways(rows, here[some], to[some], [*names]).T):
            never = (times < 0) | child if names[number] == "drive" else times < 0
            np.minimum(fastest, (times + never * _NEVER) << bits | number, out=fastest)
        numbers = np.array([words.index(name) for name in names])
        mode[some] = numbers[fastest & ((1 << bits) - 1)]
        fastest >>= bits
        seconds[some] = np.where(fastest >= _NEVER - 1, -1, fastest)
        mode[seconds < 0] = -1
    sets = seconds >= 0
    sets &= _open(rows, to, np.maximum(seconds, 0))
    _stuck(rows, at[~sets])
    every = np.full(len(rows), -1, np.int64)
    every[at] = mode
    rows.want(Move, at[sets], to=np.maximum(goes, 0), mode=every)


def _choose(self: Any, rows: Rows, at: Any, kind: str, number: int) -> Any:
    """Do `_place_of` by rule for some rows; return their places of a kind (−1, and stuck: none)."""
    params = self.params
    arrays, index = rows.population.arrays, rows.at[at]
    place = rows["place"][at].astype(np.int64)
    now = arrays["plan_now"][index]
    items = arrays["plan"][index, now]
    avoids = np.full((len(at), 3), -1, np.int32)
    wary = np.flatnonzero(items & AVOIDS)
    avoids[wary] = arrays["plan_avoid"][index[wary]] - 1
    chosen = np.full(len(at), -1, np.int64)
    stays = (place >= 0) & (town.kinds_of(rows)[place] == number)
    here = np.flatnonzero(stays)
    stays[here] &= ~(avoids[here] == place[here, None]).any(axis=1)
    stays[here] &= _open(rows, place[here], 0)
    chosen[stays] = place[stays]
    home = rows["home"][at].astype(np.int64)
    start = np.where(place < 0, home, place)
    some = np.flatnonzero(~stays & (start >= 0))
    if len(some):
        near = town.near(rows, start[some], kind, params.candidates, params.mode)
        found, seconds = near[0].T, near[1].T
        fits = (found >= 0) & _open(rows, np.maximum(found, 0), seconds)
        wary = np.flatnonzero(avoids[some, 0] >= 0)
        for each in avoids[some[wary]].T if len(wary) else ():
            fits[:, wary] &= found[:, wary] != each
        any_ = np.flatnonzero(fits.any(axis=0))
        some = some[any_]
        if len(some):
            parts = (each.take(any_, axis=1) for each in (found, seconds, fits))
            chosen[some] = _by_rule(self, rows, at[some], kind, *parts)
            if kind in KINDS:
                visits = _visits(rows, at[some], kind)
                visits.closer(chosen[some], lambda times: times + 1)
    _stuck(rows, at[chosen < 0])
    gets = chosen >= 0
    some = index[gets]
    arrays["plan"][some, now[gets]] = without(items[gets], WHERE) | CHOSEN
    arrays["plan_chosen"][some] = chosen[gets]
    arrays["item_where"][some] = chosen[gets]
    return chosen


def _visits(rows: Rows, at: Any, kind: str) -> Ties:
    return Ties(rows, at, (f"visited_{kind}", f"visits_{kind}"))


def _by_rule(self: Any, rows: Rows, at: Any, kind: str, found: Any, seconds: Any, fits: Any) -> Any:
    """Choose for each row one of the found places, (places, n), among those that fit."""
    params, seed = self.params, rows.population.seed
    ids = rows.ids[at]
    visits = np.zeros(found.shape, np.int32)
    many = np.zeros(len(at), np.int64)
    if kind in KINDS:
        before = _visits(rows, at, kind)
        for slot, left, index, places in before.slots():
            times = before.strengths(slot, index)
            visits[:, left] += (found.take(left, axis=1) == places - 1) * times
            many[left] += 1
    known = fits & (visits > 0)
    chances = [explores(known, params.rho, params.gamma) for known in range(VISITED + 1)]
    returns = known.any(axis=0)
    returns &= belows(1000, seed, ids, rows.step, "mobility.explore") >= np.array(chances)[many]
    new = fits & (visits == 0)
    new |= fits & ~new.any(axis=0)
    chosen = np.empty(len(at), np.int64)
    for purpose, part in (("mobility.return", returns), ("mobility.place", ~returns)):
        some = np.flatnonzero(part)
        if not len(some):
            continue
        if part is returns:
            weights = (known * visits).take(some, axis=1).astype(np.int64)
        else:
            wide = town.holds(rows)[found.take(some, axis=1)]
            weights = gravity(wide, seconds.take(some, axis=1), params.wait)
            weights *= new.take(some, axis=1)
        for rank in range(1, len(weights)):
            weights[rank] += weights[rank - 1]
        share = belows(weights[-1], seed, ids[some], rows.step, purpose)
        chosen[some] = (weights <= share).sum(axis=0)
    return found[chosen, np.arange(len(at))]


def to_status(self: Any, population: Register, row: int, status: dict[str, Any]) -> None:
    """Write a row's visits into a status."""
    visits = {}
    for kind in KINDS:
        names = (f"visited_{kind}", f"visits_{kind}")
        places, times = (population.arrays[name][row].tolist() for name in names)
        known = zip(places, times, strict=True)
        if places[0]:
            visits[kind] = {population.places[each - 1]: many for each, many in known if each}
    if visits:
        status["visits"] = visits


def from_status(self: Any, population: Register, row: int, status: dict[str, Any]) -> None:
    """Write a status' visits into a row."""
    for kind in KINDS:
        visits = list(status.get("visits", {}).get(kind, {}).items())[:VISITED]
        places = [population.place_number(place) + 1 for place, _ in visits]
        fill(population.arrays[f"visited_{kind}"], row, places)
        fill(population.arrays[f"visits_{kind}"], row, [many for _, many in visits])
