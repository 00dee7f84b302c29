"""Setting out, and children under 12, who go along with a parent after all have set out.

A parent who has set out, but not for work, takes a child along that is where it was: from home, if
the child neither sleeps nor learns; a coin decides where the other parent stays with it. A child
away from home goes along with the last parent there. If that one goes to work, the child goes where
its own plan says. Who finds no room stays. `population/moves.py` has the rule for rows.
"""

from __future__ import annotations

from typing import Any, Final

from moothall.society.kernel.draw import Draws, number_of, turn_key
from moothall.society.kernel.perception import item_of
from moothall.society.kernel.wants import id_order

CHILD: Final = 12  # who is younger goes out with a parent, or to school, or stays
ADULT: Final = 18
BUSY: Final = ("sleep", "study")
ALONG: Final = "mobility.along"


def has_room(books: Any, place: str) -> bool:
    """Return whether a place of a city with capacities has room for one more."""
    capacity = books.city.capacity(place)
    return capacity is None or len(books.at.get(place, ())) + books.coming[place] < capacity


def depart(
    books: Any, id: str, status: dict[str, Any], to: str, arrives: int, mode: str | None
) -> None:
    """Let a citizen set out."""
    place = books.where[id]
    if place is not None:
        del books.at[place][id]
    books.where[id] = None
    moving = {"to": to, "arrives": arrives, "mode": mode, "from": place, "left": books.step}
    status.update(place=None, moving=moving)
    books.moving[id] = (to, arrives, place or to, books.step)
    books.coming[to] += 1


def take_along(books: Any, statuses: dict[str, dict[str, Any]]) -> None:
    """Let the children of citizens who have set out in this step go along."""
    leaving = [id for id, way in books.moving.items() if way[3] == books.step]
    movers = {id for id in leaving if _age(statuses[id]) >= ADULT}
    if not movers:
        return
    homes = {statuses[id].get("home") for id in movers} - {None}
    kids = [
        id
        for id, status in statuses.items()
        if _age(status) < CHILD and status.get("home") in homes and books.where[id] is not None
    ]
    joins: dict[str, str] = {}
    for id in kids:
        status, here = statuses[id], books.where[id]
        parents = [
            other
            for other, kin in (status.get("kin") or {}).items()
            if kin == "parent" and other in statuses
        ]
        leavers = [e for e in parents if e in movers and statuses[e]["moving"]["from"] == here]
        takes = [e for e in leavers if books.moving[e][0] != statuses[e].get("work")]
        stays = any(books.where[other] == here for other in parents)
        along, item = bool(status.get("along")), item_of(status)
        free = here == status.get("home") and (item is None or item["do"] not in BUSY)
        coin = Draws(books.seed, number_of(id), books.step).below(2, ALONG) == 0
        if takes and (not stays if along else free and (not stays or coin)):
            joins[id] = min(takes, key=id_order)
        elif along and leavers and not stays:
            status["along"] = False
    for id in sorted(joins, key=lambda id: turn_key(books.seed, id, books.step)):
        status, (to, arrives, _, _) = statuses[id], books.moving[joins[id]]
        if not hasattr(books.city, "capacity") or has_room(books, to):
            mode = statuses[joins[id]]["moving"]["mode"]
            depart(books, id, status, to, arrives, mode)
            status["along"] = to != status.get("home")


def _age(status: dict[str, Any]) -> int:
    age = (status.get("profile") or {}).get("age", ADULT)
    return int(age) if isinstance(age, int | float) else ADULT
