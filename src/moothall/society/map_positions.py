"""Where citizens are and what they do, for a map that shows a running society."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from moothall.society.arrays import Array, np
from moothall.society.blocks import columns
from moothall.society.blocks.needs import NEEDS
from moothall.society.blocks.talk_block import TOPICS
from moothall.society.city.network import Network
from moothall.society.city.plane import Plane
from moothall.society.society_step import Steps

ACTS: Final = (*sorted(filter(None, columns.ACTS)), "other")
"""The acts in the order of their codes; `other` is any act that your own blocks name."""
_ACT_CODES: Final = {act: code for code, act in enumerate(ACTS)}


class Whereabouts(NamedTuple):
    """Where citizens are and what they do, at the start of a step; one item each, in id order.

    Attributes:
        step: the number of the step
        ids: their ids, as they are addressed
        x: metres to the east; on a grid columns, on a plane its units, in a network as it is drawn;
            None for a citizen at no place
        y: metres to the north, or as `x`
        place: the place's id; None for a citizen on the way, and without places
        act: what they did in the last step, as an index of `acts`; `travel` on the way
        acts: the meaning of the codes: the same names in each answer
    """

    step: int
    ids: list[str]
    x: list[float | None]
    y: list[float | None]
    place: list[str | None]
    act: list[int]
    acts: tuple[str, ...] = ACTS


def place_positions(city: Any) -> Any:
    """Return x and y of each place, in order of id; None if places have no positions."""
    if isinstance(city, Network):
        return city.drawn()[[city.row_of(each) for each in city.ids()]]
    if not hasattr(city, "position"):
        return None
    return np.array([city.position(each) for each in city.ids()], float).reshape(-1, 2)


def locate_citizens(society: Steps, places_xy: Array | None) -> Whereabouts | None:
    """Return where the citizens are, by the positions of places or their own; None without any."""
    if places_xy is None:
        return _without_places(society)
    names, ids, place, to, start, departed, arrives, (act_numbers, acts) = places_and_acts(society)
    positions = places_xy[np.maximum(place, 0)] if len(places_xy) else np.zeros((len(ids), 2))
    is_on_way = to >= 0
    if is_on_way.any():
        departed, arrives = departed[is_on_way], arrives[is_on_way]
        way_part = ((society.number - departed) / np.maximum(1, arrives - departed))[:, None]
        starts = places_xy[np.where(start[is_on_way] < 0, to[is_on_way], start[is_on_way])]
        positions[is_on_way] = starts + way_part * (places_xy[to[is_on_way]] - starts)
    x, y = (positions[:, axis].tolist() for axis in (0, 1))
    for row in np.flatnonzero((place < 0) & ~is_on_way).tolist():
        x[row] = y[row] = None
    where = [*names, None]
    codes = _act_codes(to, act_numbers, acts).tolist()
    ids = [*map(str, np.asarray(ids).tolist())]
    return Whereabouts(society.number, ids, x, y, [where[each] for each in place.tolist()], codes)


def _without_places(society: Steps) -> Whereabouts | None:
    """Return where citizens are on a plane, or in their network; None elsewhere."""
    population, city = society.rows, society.city
    if population is None:
        return None
    columns = population.columns
    if isinstance(city, Plane) and "x" in columns and "y" in columns:
        x, y = columns["x"], columns["y"]
    elif city is None and population.network is not None:
        x, y = population.network.drawn().T
    else:
        return None
    _, ids, _, to, *_, (act_numbers, acts) = places_and_acts(society)
    nowhere: list[str | None] = [None] * len(ids)
    codes = _act_codes(to, act_numbers, acts).tolist()
    return Whereabouts(
        society.number, [*map(str, ids.tolist())], x.tolist(), y.tolist(), nowhere, codes
    )


def act_counts(society: Steps) -> list[int]:
    """Return how many citizens do each of `ACTS`; who is on the way travels."""
    _, _, _, to, *_, (act_numbers, acts) = places_and_acts(society)
    counts: list[int] = np.bincount(_act_codes(to, act_numbers, acts), minlength=len(ACTS)).tolist()
    return counts


def _act_codes(to: Array, act_numbers: Array, acts: Sequence[str]) -> Array:
    """Return the index in `ACTS` of what each citizen does; who is on the way travels."""
    codes = np.array([_ACT_CODES.get(each, _ACT_CODES["other"]) for each in acts], np.int64)
    return np.where(to >= 0, _ACT_CODES["travel"], codes[act_numbers])


def places_and_acts(society: Steps) -> tuple[Any, ...]:
    """Return places, ids, the citizens' places and ways, and their acts as numbers of texts."""
    population = society.population
    columns, count = population.columns, len(population)
    act_numbers, acts = np.zeros(count, np.int64), ["idle"]
    if words := getattr(population.declared.get("act"), "words", ()):
        act_numbers, acts = columns["act"], [word or "idle" for word in words]
    own_acts = {v.row: v["act"] for v in population.views.values() if dict.__contains__(v, "act")}
    if own_acts:  # that no column has
        act_numbers, acts = act_numbers.astype(np.int64), [*acts, *own_acts.values()]
        act_numbers[[*own_acts]] = np.arange(len(acts) - len(own_acts), len(acts))
    keys = ("place", "moving_to", "moving_from", "left", "arrives")
    numbers = (columns.get(name, np.full(count, -1)) for name in keys)
    ids = population.all_ids() if population.names else population.ids
    return population.places, ids, *numbers, (act_numbers, acts)


# What the blocks keep in a citizen's status for themselves.
_INTERNAL_NAMES: Final = (
    "day mended now faded paid_day jobless purse earned stuck place home work school plan act "
    "plan_home plan_duty plan_now plan_chosen moving_to moving_from arrives left mode item_do "
    "item_where item_until pay skill"
)
_HIDDEN: Final = frozenset(_INTERNAL_NAMES.split())


def topics_of(society: Steps) -> Sequence[str]:
    """Return the topics of which citizens have opinions."""
    blocks = society.population.blocks
    return next((b.params.topics for b in blocks if hasattr(b.params, "topics")), TOPICS)


def status_numbers(society: Steps) -> dict[str, str]:
    """Return what of a citizen's status is a number, by its path: a name for people."""
    names = {"money": "money", "savings": "savings", "income": "income", "profile.age": "age"}
    names |= {f"needs.{each}": f"{each}, how far it is met" for each in NEEDS}
    names |= {f"opinions.{each}": f"opinion of {each}" for each in topics_of(society)}
    if society.rows is not None:
        declared = society.rows.declared
        number_names = [
            name
            for name, each in society.rows.columns.items()
            if each.ndim == 1
            and each.dtype.kind in "iufb"
            and not declared[name].words
            and ".".join(declared[name].key or (name,)) not in names
        ]
    else:
        status = (
            society.citizen_mailboxes[0].agent.memory.status if society.citizen_mailboxes else {}
        )
        number_names = [name for name, value in status.items() if isinstance(value, int | float)]
    return names | {
        name: name.replace("_", " ") for name in number_names if name not in _HIDDEN | names.keys()
    }


def status_levels(society: Steps, path: str) -> Array:
    """Return a number of each citizen's status, in id order; NaN where there is none."""
    owner, _, name = path.rpartition(".")
    if society.rows is not None:
        columns, count = society.rows.columns, len(society.rows)
        topics = topics_of(society)
        if owner == "opinions":
            column = columns["opinions"] if "opinions" in columns and name in topics else None
            return np.full(count, np.nan) if column is None else column[:, topics.index(name)] + 0.0
        column = columns.get(name)
        # A column with several numbers of each citizen has none that could be shown.
        return np.full(count, np.nan) if column is None or column.ndim > 1 else column + 0.0
    values = []
    for mailbox in society.citizen_mailboxes:
        value = mailbox.agent.memory.status
        for each in path.split("."):
            value = value.get(each) if isinstance(value, dict) else None
        values.append(float(value) if isinstance(value, int | float) else np.nan)
    return np.array(values)
