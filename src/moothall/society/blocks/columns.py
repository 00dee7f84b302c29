"""The columns of a citizen's act and plan, and their conversion to and from its status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moothall import ConfigError
from moothall.society.arrays import Array, WholeNumber, np
from moothall.society.columns.column import Column
from moothall.society.columns.register import Register
from moothall.society.columns.status import Status
from moothall.society.kernel.perception import Item, item_of
from moothall.society.kernel.wants import PLACE

DO_BITS: Final = 3
"""The bits of an activity in a plan item. With one more, states of societies in columns that were
saved before are read wrongly."""


def checked_activities(activities: tuple[str, ...]) -> tuple[str, ...]:
    """Return activities; raise ConfigError if a plan item has no bits for so many."""
    if len(activities) > 1 << DO_BITS:
        raise ConfigError(
            f"there must be at most {1 << DO_BITS} activities, since a plan item in columns has "
            f"{DO_BITS} bits for one, got {len(activities)}: raise DO_BITS"
        )
    return activities


ACTIVITIES: Final[tuple[str, ...]] = checked_activities(
    ("sleep", "eat", "work", "study", "shop", "social", "leisure", "browse")
)
"""The activities of plan items; a code is 1 + the index here, so `sleep` is 1."""
ACTS: Final[tuple[str | None, ...]] = (None, *ACTIVITIES, "travel", "idle")
"""The acts of a citizen, by code: `ACTIVITIES`, `travel`, `idle`; 0 before its first step."""
MAX_SLOTS: Final = 100  # the slots of a plan in columns; slots that no plan uses take no memory
NO_PLACE, HOME, DUTY, CHOSEN, FIRST_KIND = range(5)
"""Codes of an item's place: no place, home, work (or school), a chosen place (`plan_chosen`);
from 4 up, a kind of place: 4 + its index in `city.kinds()`."""
WHERE_MASK, ACTIVITY_SHIFT, BOUGHT_FLAG = 0xFF, 8, 1 << 8 + DO_BITS
AVOIDS_FLAG, UNTIL_SHIFT = BOUGHT_FLAG << 1, 8 + DO_BITS + 2
"""The bits of a plan item in one number: the place code; from bit 8, the index in `ACTIVITIES`; the
flags `bought` and `avoid`; then the end in seconds after midnight. 0 follows the last item."""
NOT_THERE: Final = "it does not get where its plan wants"
"""Why a row is stuck, of which no column says more."""
_OWN_PLACES: Final = {HOME: "plan_home", DUTY: "plan_duty"}


def codes_renumbered(codes: Array, numbers: Any) -> Array:
    """Return places, each as its number + 1, by the numbers of another city."""
    renumbered: Array = numbers.places(codes.astype(np.int64) - 1) + 1
    return renumbered


def _item_where_renumbered(where: Array, numbers: Any) -> Array:
    """Return places of items, or −2 − k for the kind k, by the numbers of another city."""
    places = numbers.places(where)
    renumbered: Array = np.where(where < -1, -2 - numbers.kinds(-2 - where), places)
    return renumbered


def _items_renumbered(words: Array, numbers: Any) -> Array:
    """Return a plan's items, some at a kind of place, by the numbers of another city."""
    where = words.astype(np.int64) & WHERE_MASK
    kinds = numbers.kinds(where - FIRST_KIND)
    moved: Array = clear_bits(words, WHERE_MASK) | kinds + FIRST_KIND
    renumbered: Array = np.where(where < FIRST_KIND, words, moved)
    return renumbered


ACT: Final[dict[str, Column]] = {"act": Column("uint8", words=ACTS)}
ERRAND: Final[dict[str, Column]] = {"errand": Column("uint8", words=(None, *ACTIVITIES))}
"""What a citizen buys in passing in this step: its errand was over when it arrived."""
AGE: Final[dict[str, Column]] = {"age": Column("uint8", 18, key=("profile", "age"))}
ITEM: Final[dict[str, Column]] = {
    "item_do": Column("uint8", own=True),
    # A place; or −2 − k for the kind k of `city.kinds()`, of which the mobility block chooses one.
    "item_where": Column("int32", -1, own=True, renumbered=_item_where_renumbered),
    "item_until": Column("int32", own=True),
}
"""The current item of the plan: its activity (0: none), its place (−1: none) and its end."""
PLAN: Final[dict[str, Column]] = {
    **ITEM,
    # Items, see the bits above.
    "plan": Column("uint32", width=MAX_SLOTS, own=True, slots=True, renumbered=_items_renumbered),
    "plan_now": Column("uint8", own=True),  # the slot of the current item
    # The place chosen for the current item, or for an interrupted one that continues later.
    "plan_chosen": Column("place", None, own=True),
    # Places that turned this citizen away in that item, each as its number + 1.
    "plan_avoid": Column("int32", width=3, own=True, slots=True, renumbered=codes_renumbered),
    "stuck": Column("bool", own=True),  # whether the citizen cannot get to its item's place
}
"""The plan: consecutive items that cover the whole day, in slots."""


def item_words(do: WholeNumber, where: WholeNumber, until: WholeNumber) -> Array:
    """Return items in one number each, from arrays of activity, place and end; uint32."""
    words = np.asarray(until).astype(np.uint32) << np.uint32(UNTIL_SHIFT)
    words |= (np.asarray(do).astype(np.uint32) - np.uint32(1)) << np.uint32(ACTIVITY_SHIFT)
    words |= np.asarray(where).astype(np.uint32)
    return words


def activity_codes(words: WholeNumber) -> Any:
    """Return the codes of the activities of items."""
    return (words >> ACTIVITY_SHIFT & (1 << DO_BITS) - 1) + 1


def clear_bits(words: Array, bits: int) -> Array:
    """Return items with some bits cleared."""
    return words & (0xFFFFFFFF ^ bits)


def ends_of(items: Array) -> Array:
    """Return the ends of items: seconds after midnight; int32."""
    return (items >> UNTIL_SHIFT).astype("int32")


def items_at(arrays: dict[str, Array], rows: Array, slots: Array) -> Array:
    """Return the plan items of rows in these slots, one number each."""
    plan = arrays["plan"]
    return plan.T.reshape(-1).take(slots * len(plan) + rows)


def act_code(do: str) -> int:
    """Return the code of an activity, as in `act` and `item_do`."""
    try:
        return ACTS.index(do)
    except ValueError:
        raise ConfigError(
            f"citizens in columns have the acts {', '.join(filter(None, ACTS))}, and not {do!r}: "
            "one of your own needs citizens that are agents"
        ) from None


# -- a plan in a status ----------------------------------------------------------------------------

EDUCATION: Final[tuple[str, ...]] = ("none", "secondary", "vocational", "bachelor", "master")
GENDERS: Final[tuple[None, str, str]] = (None, "female", "male")
OCCUPATIONS: Final[tuple[str, ...]] = (
    *("management or a profession", "service", "sales or office"),
    *("construction or repair", "production or transport", "other"),
)
VALUES: Final[tuple[str, ...]] = (
    *("power", "achievement", "hedonism", "stimulation", "self-direction"),
    *("universalism", "benevolence", "tradition", "conformity", "security"),
)
"""The ten basic values of Schwartz 1992, in the order of their circle."""
FIRST_VALUES: Final[tuple[str, ...]] = tuple(f"{a}, {b}" for a in VALUES for b in VALUES if a != b)
"""What `values` may be: the two that matter most, the first before the second."""
DESK_JOBS: Final[tuple[str, ...]] = (OCCUPATIONS[0], OCCUPATIONS[2])
"""The occupations that may be followed at home."""
HOUSEHOLDS: Final[tuple[str, ...]] = (
    *("alone", "couple", "lone parent", "three generations", "shared flat"),
    *("couple with children", "other"),
)
"""The kinds of `people/household.py`, by code."""
PLAN_BLOCK_COLUMNS: Final[dict[str, Column]] = {
    **ACT,
    **AGE,
    **ERRAND,
    **PLAN,
    "day": Column("int32", -1),
    "mended": Column("int32"),
    "plan_home": Column("place", None),
    "plan_duty": Column("place", None),
    "work": Column("place", None),
    "school": Column("place", None),
    "gender": Column("uint8", words=GENDERS, key=("profile", "gender")),
    "education": Column("uint8", words=(None, *EDUCATION), key=("profile", "education")),
    "occupation": Column("uint8", words=(None, *OCCUPATIONS), key=("profile", "occupation")),
    "household": Column("uint8", words=(None, *HOUSEHOLDS), key=("profile", "household")),
    "values": Column("uint8", words=(None, *FIRST_VALUES, "other"), key=("profile", "values")),
    "pay": Column("int32", key=("profile", "income")),
}
"""The columns of `PlanBlock`."""


def current_item(status: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the activity of a plan's current item and its place, or kind of place; None: none."""
    register: Any = getattr(status, "register", None)
    arrays = {} if register is None else register.arrays
    if not isinstance(status, Status) or "item_do" not in arrays:
        item = item_of(status)
        return (None, None) if item is None else (item["do"], item["where"])
    where = arrays["item_where"].item(status.row)
    place = register.city.kinds()[-2 - where] if where < -1 else register.decode(PLACE, where)
    return ACTS[arrays["item_do"].item(status.row)], place


def plan_to_status(self: object, population: Register, row: int, status: dict[str, Any]) -> None:
    """Write a row's plan into a status."""
    arrays = population.arrays
    now = int(arrays["plan_now"][row])
    kinds = () if population.city is None else population.city.kinds()
    plan: list[Item] = []
    start, has_current = 0, False
    for slot in range(MAX_SLOTS):
        packed = int(arrays["plan"][row, slot])
        if not packed:
            break
        where, until, do = packed & WHERE_MASK, packed >> UNTIL_SHIFT, ACTS[activity_codes(packed)]
        item: dict[str, object] = {"do": do, "where": None, "from": start, "until": until}
        start = until
        if where >= FIRST_KIND:
            item["where"] = kinds[where - FIRST_KIND]
        elif where in _OWN_PLACES:
            item["where"] = population.decode("place", arrays[_OWN_PLACES[where]][row])
        is_current = slot >= now and not has_current and (where == CHOSEN or packed & AVOIDS_FLAG)
        if is_current:
            has_current = True
            if where == CHOSEN:
                item["where"] = population.decode("place", arrays["plan_chosen"][row])
                item["kind"] = population.city.kind(item["where"])
            elif where >= FIRST_KIND:
                item["kind"] = item["where"]
        elif where == CHOSEN:
            item["kind"] = None  # the item is over: columns do not keep its chosen place
        if packed & AVOIDS_FLAG:
            avoided = arrays["plan_avoid"][row].tolist() if is_current else ()
            names = [population.decode("place", each - 1) for each in avoided if each]
            item["avoid"] = names or [None]
        if packed & BOUGHT_FLAG:
            item["bought"] = True
        plan.append(item)
    if plan:
        status["plan"], status["now"] = plan, now
    if arrays["stuck"][row]:
        status["stuck"] = NOT_THERE


def plan_from_status(self: object, population: Register, row: int, status: dict[str, Any]) -> None:
    """Write a status' plan into a row. Raises ConfigError: it has too many items, or gaps."""
    arrays = population.arrays
    plan, now = status.get("plan") or [], status.get("now", 0)
    arrays["stuck"][row] = bool(status.get("stuck"))
    arrays["plan"][row], arrays["plan_avoid"][row] = 0, 0
    arrays["plan_now"][row], arrays["plan_chosen"][row] = now, -1
    arrays["item_do"][row], arrays["item_where"][row], arrays["item_until"][row] = 0, -1, 0
    if not plan:
        return
    if len(plan) >= MAX_SLOTS:
        raise ConfigError(
            f"citizen {population.id_of(row)}: a plan has at most {MAX_SLOTS - 1} items"
        )
    duty = status.get("work") or status.get("school")
    for key, own_place in (("plan_home", status.get("home")), ("plan_duty", duty)):
        arrays[key][row] = population.place_number(status.get(key, own_place) or None)
    names = () if population.city is None else population.city.kinds()
    kinds = {name: number for number, name in enumerate(names)}
    start, has_current = 0, False
    for slot, item in enumerate(plan):
        if item["from"] != start or item["until"] <= start:
            raise ConfigError(
                f"citizen {population.id_of(row)}: the items of its plan must follow one another"
            )
        start = item["until"]
        where, place = _place_code(population, row, item, kinds)
        avoid = item.get("avoid") if where == CHOSEN or where >= FIRST_KIND else None
        flags = bool(item.get("bought")) * BOUGHT_FLAG | bool(avoid) * AVOIDS_FLAG
        if slot >= now and not has_current and (where == CHOSEN or avoid):
            has_current = True
            arrays["plan_chosen"][row] = place if where == CHOSEN else -1
            for index, each in enumerate(avoid or ()):
                arrays["plan_avoid"][row, index] = population.place_number(each) + 1
        arrays["plan"][row, slot] = item_words(act_code(item["do"]), where, start) | flags
        if slot == now:
            arrays["item_do"][row] = act_code(item["do"])
            arrays["item_where"][row] = FIRST_KIND - 2 - where if where >= FIRST_KIND else place
            arrays["item_until"][row] = start


def _place_code(
    population: Register, row: int, item: Item, kinds: dict[str, int]
) -> tuple[int, int]:
    """Return the code of an item's place, and the number of the place (−1: none)."""
    where = item["where"]
    if where is None:
        is_chosen = "kind" in item and item["kind"] is None
        return (CHOSEN, -1) if is_chosen else (NO_PLACE, -1)
    rows = population.arrays  # home comes last: it counts where both are one place
    codes = {
        population.decode("place", rows[name][row]): k for k, name in reversed(_OWN_PLACES.items())
    }
    if where in kinds and where not in codes:
        return FIRST_KIND + kinds[where], -1
    place = population.place_number(where) if population.places else -1
    return CHOSEN if item.get("kind") is not None else codes.get(where, CHOSEN), place
