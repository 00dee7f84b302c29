"""A plan in a citizen's status and in the columns of a population, each from the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from civitas.errors import ConfigError
from civitas.society.blocks.columns import (
    ACT,
    AVOIDS,
    BOUGHT,
    CHOSEN,
    DOES,
    DUTY,
    HOME,
    KINDS,
    NONE,
    PLAN,
    SLOTS,
    UNTIL,
    WHAT,
    WHERE,
    code,
    word,
)
from civitas.society.population.column import Column

if TYPE_CHECKING:
    from civitas.society.population.population import Population

EDUCATION: Final = ("none", "secondary", "vocational", "bachelor", "master")
COLUMNS: Final = {
    **ACT,
    **PLAN,
    "day": Column("int32", -1),
    "mended": Column("int32"),
    "plan_home": Column("place", None),
    "plan_duty": Column("place", None),
    "work": Column("place", None),
    "school": Column("place", None),
    "gender": Column("uint8", words=(None, "female", "male"), key=("profile", "gender")),
    "education": Column("uint8", words=(None, *EDUCATION), key=("profile", "education")),
}
"""What `PlanBlock` keeps of each citizen."""
_PAST: Final = {"where": None, "kind": None}
"""An item that is over, at a place that was chosen: which one is not kept."""


def to_status(self: Any, population: Population, row: int, status: dict[str, Any]) -> None:
    """Write a row's plan into a status."""
    arrays = population.arrays
    now = int(arrays["plan_now"][row])
    kinds = () if population.city is None else population.city.kinds()
    plan: list[dict[str, Any]] = []
    begins, live = 0, False
    own = {HOME: "plan_home", DUTY: "plan_duty"}
    for slot in range(SLOTS):
        packed = int(arrays["plan"][row, slot])
        if not packed:
            break
        where, until, do = packed & WHERE, packed >> UNTIL, DOES[packed >> WHAT & 7]
        item: dict[str, Any] = {"do": do, "where": None, "from": begins, "until": until}
        begins = until
        if where >= KINDS:
            item["where"] = kinds[where - KINDS]
        elif where in own:
            item["where"] = _name(population, arrays[own[where]][row])
        present = slot >= now and not live and (where == CHOSEN or packed & AVOIDS)
        if present:
            live = True
            if where == CHOSEN:
                item["where"] = _name(population, arrays["plan_chosen"][row])
                item["kind"] = population.city.kind(item["where"])
            elif where >= KINDS:
                item["kind"] = item["where"]
        elif where == CHOSEN:
            item.update(_PAST)
        if packed & AVOIDS:
            avoided = [each for each in arrays["plan_avoid"][row].tolist() if each] or [0]
            item["avoid"] = [_name(population, each - 1) for each in avoided if present] or [None]
        if packed & BOUGHT:
            item["bought"] = True
        plan.append(item)
    if plan:
        status["plan"], status["now"] = plan, now
    if arrays["stuck"][row]:
        status["stuck"] = "it does not get where its plan wants"


def from_status(self: Any, population: Population, row: int, status: dict[str, Any]) -> None:
    """Write a status' plan into a row.

    Raises:
        ConfigError: its items do not follow one another through the day, or are too many
    """
    arrays = population.arrays
    plan, now = status.get("plan") or [], status.get("now", 0)
    arrays["stuck"][row] = bool(status.get("stuck"))
    arrays["plan"][row], arrays["plan_avoid"][row] = 0, 0
    arrays["plan_now"][row], arrays["plan_chosen"][row] = now, -1
    arrays["item_do"][row], arrays["item_where"][row], arrays["item_until"][row] = 0, -1, 0
    if not plan:
        return
    if len(plan) >= SLOTS:
        raise ConfigError(f"citizen {population.id_of(row)}: a plan has at most {SLOTS - 1} items")
    duty = status.get("work") or status.get("school")
    for key, at in (("plan_home", status.get("home")), ("plan_duty", duty)):
        arrays[key][row] = population.place_number(status.get(key, at) or None)
    kinds = {} if population.city is None else _numbers(population.city.kinds())
    begins, live = 0, False
    for slot, item in enumerate(plan):
        if item["from"] != begins or item["until"] <= begins:
            raise ConfigError(
                f"citizen {population.id_of(row)}: the items of its plan must follow one another"
            )
        begins = item["until"]
        where, place = _where(population, row, item, kinds)
        avoid = item.get("avoid") if where == CHOSEN or where >= KINDS else None
        flags = bool(item.get("bought")) * BOUGHT | bool(avoid) * AVOIDS
        if slot >= now and not live and (where == CHOSEN or avoid):
            live = True
            arrays["plan_chosen"][row] = place if where == CHOSEN else -1
            for rank, each in enumerate(avoid or ()):
                arrays["plan_avoid"][row, rank] = population.place_number(each) + 1
        arrays["plan"][row, slot] = word(code(item["do"]), where, begins) | flags
        if slot == now:
            arrays["item_do"][row] = code(item["do"])
            arrays["item_where"][row] = KINDS - 2 - where if where >= KINDS else place
            arrays["item_until"][row] = begins


def _where(
    population: Population, row: int, item: dict[str, Any], kinds: dict[str, int]
) -> tuple[int, int]:
    """The code of where an item is, and the number of the place."""
    where = item["where"]
    if where is None:
        over = "kind" in item and item["kind"] is None
        return (CHOSEN, -1) if over else (NONE, -1)
    if where in kinds:
        return KINDS + kinds[where], -1
    place = population.place_number(where) if population.places else -1
    if item.get("kind") is not None:
        return CHOSEN, place
    for meant, name in ((HOME, "plan_home"), (DUTY, "plan_duty")):
        if place == population.arrays[name][row]:
            return meant, place
    return CHOSEN, place


def _name(population: Population, place: int) -> str | None:
    return None if place < 0 else population.places[place]


def _numbers(names: tuple[str, ...]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}
