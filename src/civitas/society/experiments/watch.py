"""Where citizens are and what they do, for a map that shows a society while it lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from civitas.society.arrays import numpy
from civitas.society.blocks.needs import RATES
from civitas.society.places import Positions

if TYPE_CHECKING:
    from civitas.society.steps import Steps

ACTS: Final = (*sorted(RATES), "other")
"""What a citizen does, in the order of the codes; `other` is what blocks of your own name."""
_CODES: Final = {act: code for code, act in enumerate(ACTS)}


class Whereabouts(NamedTuple):
    """Where citizens are and what they do, at the start of a step; one item each, in id order.

    Attributes:
        step: the number of the step
        ids: their ids, as they are addressed
        x: metres to the east (on a grid: columns); None for who is at no place
        y: metres to the north (on a grid: rows)
        place: the place's id; None for who is on the way
        act: what they did in the last step, as an index of `acts`; for who is on the way `travel`
        acts: what the codes mean: the same names in each answer
    """

    step: int
    ids: list[str]
    x: list[float | None]
    y: list[float | None]
    place: list[str | None]
    act: list[int]
    acts: tuple[str, ...] = ACTS


class Spots(dict[str, tuple[float, float]]):
    """The positions of places, each looked up once: a city does not move."""

    def __init__(self, city: Any) -> None:
        self.city = city

    def __missing__(self, place: str) -> tuple[float, float]:
        x, y = self.city.position(place)
        spot = self[place] = (float(x), float(y))
        return spot


def whereabouts(society: Steps, spots: Spots) -> Whereabouts | None:
    """Where the citizens are; None where places have no positions."""
    if not isinstance(spots.city, Positions):
        return None
    if society.population is not None:
        return _of_rows(society.population, society.number, spots)
    made = Whereabouts(society.number, [], [], [], [], [])
    number, where, moving = society.number, society.books.where, society.books.moving
    _ = society.seats  # puts the citizens in order
    for seat in society._citizens:
        id, status = seat.id, seat.agent.memory.status
        x = y = place = None
        if id in moving:
            code = _CODES["travel"]
            to, arrives, start, left = moving[id]
            (x0, y0), (x1, y1) = spots[start], spots[to]
            part = (number - left) / max(1, arrives - left)
            x, y = x0 + part * (x1 - x0), y0 + part * (y1 - y0)
        else:
            code = _CODES.get(status.get("act", "idle"), _CODES["other"])
            place = where.get(id)
            if place is not None:
                x, y = spots[place]
        made.place.append(place)
        made.ids.append(id)
        made.x.append(x)
        made.y.append(y)
        made.act.append(code)
    return made


def _of_rows(population: Any, step: int, spots: Spots) -> Whereabouts:
    """Where a population's citizens are."""
    np, columns = numpy(), population.columns
    spot = np.array([spots[place] for place in population.places]).reshape(-1, 2)
    place, to, start = (columns[name] for name in ("place", "moving_to", "moving_from"))
    at = spot[np.maximum(place, 0)]
    way = to >= 0
    if way.any():
        left, arrives = columns["left"][way], columns["arrives"][way]
        part = ((step - left) / np.maximum(1, arrives - left))[:, None]
        begin = spot[np.where(start[way] < 0, to[way], start[way])]
        at[way] = begin + part * (spot[to[way]] - begin)
    nowhere = (place < 0) & ~way
    act = np.full(len(population), _CODES["idle"])
    if "act" in columns:
        words = population.declared["act"].words
        meant = [_CODES.get(word or "idle", _CODES["other"]) for word in words]
        act = np.array(meant)[columns["act"]]
    act = np.where(way, _CODES["travel"], act)
    names = [*population.places, None]
    x, y = (at[:, axis].tolist() for axis in (0, 1))
    for row in np.flatnonzero(nowhere).tolist():
        x[row] = y[row] = None
    ids = list(map(str, population.ids.tolist()))
    return Whereabouts(step, ids, x, y, [names[at] for at in place.tolist()], act.tolist())
