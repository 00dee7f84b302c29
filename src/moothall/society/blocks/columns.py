"""The columns of a citizen's act and plan, and their conversion to and from its status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from moothall.foundation.errors import ConfigError
from moothall.society.arrays import np
from moothall.society.columns.column import Column
from moothall.society.columns.register import Register
from moothall.society.columns.rows import Rows

DO_BITS: Final = 3
"""The bits of an activity in a plan item. With one more, states of societies in columns that were
saved before are read wrongly."""


def fitting(does: tuple[str, ...]) -> tuple[str, ...]:
    """Return activities; raise ConfigError if a plan item has no bits for so many."""
    if len(does) > 1 << DO_BITS:
        raise ConfigError(
            f"there must be at most {1 << DO_BITS} activities, since a plan item in columns has "
            f"{DO_BITS} bits for one, got {len(does)}: raise DO_BITS"
        )
    return does


DOES: Final = fitting(("sleep", "eat", "work", "study", "shop", "social", "leisure", "browse"))
"""The activities of plan items; a code is 1 + the index here, so `sleep` is 1."""
ACTS: Final = (None, *DOES, "travel", "idle")
"""The acts of a citizen, by code: those of `DOES`, `travel`, `idle`; 0 before its first step."""
SLOTS: Final = 100  # the slots of a plan in columns; slots that no plan uses take no memory
NONE, HOME, DUTY, CHOSEN, KINDS = range(5)
"""Codes of an item's place: no place, home, work (or school), a chosen place (`plan_chosen`);
from 4 up, a kind of place: 4 + its index in `city.kinds()`."""
WHERE, WHAT, BOUGHT = 0xFF, 8, 1 << 8 + DO_BITS
AVOIDS, UNTIL = BOUGHT << 1, 8 + DO_BITS + 2
"""The bits of a plan item in one number: the place code; from bit 8, the index in `DOES`; the flags
`bought` and `avoid`; then the end in seconds after midnight. 0 follows the last item."""
_OWN: Final = {HOME: "plan_home", DUTY: "plan_duty"}

ACT: Final = {"act": Column("uint8", words=ACTS)}
ERRAND: Final = {"errand": Column("uint8", words=(None, *DOES))}
"""What a citizen buys in passing in this step: its errand was over when it arrived."""
AGE: Final = {"age": Column("uint8", 18, key=("profile", "age"))}
ITEM: Final = {
    "item_do": Column("uint8", own=True),
    # A place; or −2 − k for the kind k of `city.kinds()`, of which the mobility block chooses one.
    "item_where": Column("int32", -1, own=True),
    "item_until": Column("int32", own=True),
}
"""The current item of the plan: its activity (0: none), its place (−1: none) and its end."""
PLAN: Final = {
    **ITEM,
    "plan": Column("uint32", width=SLOTS, own=True, slots=True),  # items, see the bits above
    "plan_now": Column("uint8", own=True),  # the slot of the current item
    # The place chosen for the current item, or for an interrupted one that continues later.
    "plan_chosen": Column("place", None, own=True),
    # Places that turned this citizen away in that item, each as its number + 1.
    "plan_avoid": Column("int32", width=3, own=True, slots=True),
    "stuck": Column("bool", own=True),  # whether the citizen cannot get to its item's place
}
"""The plan: consecutive items that cover the whole day, in slots."""


def word(do: Any, where: Any, until: Any) -> Any:
    """Return items in one number each, from arrays of activity, place and end; uint32."""
    made = np.asarray(until).astype(np.uint32) << np.uint32(UNTIL)
    made |= (np.asarray(do).astype(np.uint32) - np.uint32(1)) << np.uint32(WHAT)
    made |= np.asarray(where).astype(np.uint32)
    return made


def does_of(words: Any) -> Any:
    """Return the codes of the activities of items."""
    return (words >> WHAT & (1 << DO_BITS) - 1) + 1


def _items(arrays: Any, rows: Any, slots: Any) -> Any:
    """Return the plan items of rows in these slots, one number each."""
    plan = arrays["plan"]
    return plan.T.reshape(-1).take(slots * len(plan) + rows)


def without(words: Any, bits: int) -> Any:
    """Return items with some bits cleared."""
    return words & (0xFFFFFFFF ^ bits)


def code(do: str) -> int:
    """Return the code of an activity, as in `act` and `item_do`."""
    try:
        return ACTS.index(do)
    except ValueError:
        raise ConfigError(
            f"citizens in columns have the acts {', '.join(filter(None, ACTS))}, and not {do!r}: "
            "one of your own needs citizens that are agents"
        ) from None


# -- the plans of rows -----------------------------------------------------------------------------

_ROOM: Final = 4
"""Slots kept free: an inserted item takes up to three more, and the last stays empty."""
_BROKEN: Final = 6
"""The items, with the current one, up to the end of an interrupted item at most: of the items
inserted at the same time only the last is left, and there are three such times."""


class Plans:
    """The plans of some rows. Positions count within these rows; −1 is no home and no duty."""

    def __init__(self, rows: Rows) -> None:
        self.rows: Rows = rows
        self.arrays: dict[str, Any] = rows.population.arrays
        self.index: Any = rows.at
        self.home: Any
        self.duty: Any
        self.home = self.duty = np.full(len(rows), -1, np.int32)
        if rows.population.places:
            self.home = rows.column("home")
            work = rows.column("work")
            self.duty = work + (work < 0) * (rows.column("school") + np.int32(1))

    def set(self, name: str, at: Any, values: Any) -> None:
        """Write a column of some of these rows."""
        self.arrays[name][self.index[at]] = values

    def moving(self) -> Any:
        """Return which rows are on their way."""
        if not self.rows.population.places:
            return np.zeros(len(self.rows), bool)
        return self.rows.column("moving_to") >= 0

    def advance(self, at: Any, time: int) -> None:
        """Advance rows whose current item is over to their item at a time of the day."""
        arrays = self.arrays
        if not len(at):
            return
        rows = self.index[at]
        slot = arrays["plan_now"][rows].astype(np.int64)
        items = _items(arrays, rows, slot)
        while (over := _ends(items) <= time).any():
            slot += over
            items = _items(arrays, rows, slot)
        arrays["plan_now"][rows] = slot
        arrays["stuck"][rows] = False
        self.show(rows, items)
        self.forget(rows)

    def errands(self, at: Any, does: Sequence[int], fits: Any, *, last: bool = False) -> Any:
        """Return of each row the slot of the first (last) errand that follows its current item.

        An errand has one of these activities, at a kind of place. The times of beginning and end of
        all items up to it must fit. 0 for none.
        """
        rows, left = self.index[at], np.arange(len(at))
        found = np.zeros(len(at), np.int64)
        slot = self.arrays["plan_now"][rows].astype(np.int64)
        begins = _ends(_items(self.arrays, rows, slot))
        while len(left):
            slot[left] += 1
            items = _items(self.arrays, rows[left], slot[left])
            fit = (items > 0) & fits(begins[left], _ends(items))
            begins[left] = _ends(items)
            is_ = fit & np.isin(does_of(items), does)
            is_ &= (items & WHERE >= KINDS) & (items & AVOIDS == 0)
            found[left[is_]] = slot[left[is_]]
            left = left[fit & (last | ~is_) & (slot[left] < SLOTS - 1)]
        return found

    def taken(self, at: Any, slot: Any, do: int) -> Any:
        """Return the items in some slots, and let something be done at home instead."""
        rows, plan = self.index[at], self.arrays["plan"]
        items = plan[rows, slot]
        plan[rows, slot] = word(np.full(len(at), do), self.at_home(at), _ends(items))
        return items

    def show(self, rows: Any, items: Any) -> None:
        """Write current items into the columns of `ITEM`."""
        arrays = self.arrays
        where = (items & WHERE).astype(np.int32)
        arrays["item_do"][rows] = does_of(items)
        arrays["item_until"][rows] = _ends(items)
        place = np.where(where >= KINDS, KINDS - 2 - where, -1)
        for meant, name in ((HOME, "plan_home"), (DUTY, "plan_duty"), (CHOSEN, "plan_chosen")):
            some = np.flatnonzero(where == meant)
            place[some] = arrays[name][rows[some]]
        arrays["item_where"][rows] = place

    def forget(self, rows: Any) -> None:
        """Clear the chosen and avoided places of items that are over."""
        arrays = self.arrays
        avoided = arrays["plan_avoid"][:, 0][rows] > 0
        knows = ((arrays["plan_chosen"][rows] >= 0) | avoided).nonzero()[0]
        rows, avoided = rows[knows], avoided[knows]
        slot = arrays["plan_now"][rows].astype(np.int64)
        chosen, avoids = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
        left = np.arange(len(rows))
        for _ in range(_BROKEN):
            items = _items(arrays, rows[left], slot[left])
            chosen[left] = items & WHERE == CHOSEN
            avoids[left] = (items & AVOIDS) != 0
            slot[left] += 1
            left = left[~chosen[left] & ~avoids[left] & (slot[left] < SLOTS)]
            if not len(left):
                break
        arrays["plan_chosen"][rows[~chosen]] = -1
        arrays["plan_avoid"][rows[avoided & ~avoids]] = 0

    def at_home(self, at: Any, home: Any = True) -> Any:
        """Return the place codes of items that are at home, or wherever one is."""
        return np.where(np.asarray(home) & (self.home[at] >= 0), HOME, NONE)

    def put(self, at: Any, do: Any, where: Any, time: int, until: Any) -> None:
        """Insert items from `time` on into plans; cut or drop the items that overlap."""
        arrays = self.arrays
        rows = self.index[at]
        last = 32
        while last < SLOTS and arrays["plan"][rows, last - _ROOM].any():
            last = min(SLOTS, last + 16)
        if arrays["plan"][rows, last - _ROOM].any():
            raise ConfigError(f"a plan in columns has at most {SLOTS - _ROOM} items")
        old = arrays["plan"][rows, :last]
        now = arrays["plan_now"][rows].astype(np.int32)
        every = np.arange(len(rows))
        begins = np.where(now > 0, _ends(old[every, now - 1]), 0)
        cut = every[begins < time]
        first = now + (begins < time)
        ends = _ends(old)
        slots = np.arange(last, dtype=np.int32)
        # The first remaining item that ends after `until`; empty slots follow all items.
        later = (ends > until[:, None]) | (ends == 0)
        goes_on = (later & (slots >= now[:, None])).argmax(axis=1)
        shift = (goes_on - first - 1).astype(np.int32)[:, None]
        source = slots + np.where(slots > first[:, None], shift, np.int32(0))
        np.minimum(source, last - 1, out=source)
        made = np.take_along_axis(old, source, axis=1)
        # The current item ends now if it began before; else the new item takes its slot.
        keeps = old[cut, now[cut]] & np.uint32((1 << UNTIL) - 1)
        made[cut, now[cut]] = keeps | np.uint32(time << UNTIL)
        made[every, first] = word(do, where, until)
        for slot in range(last):  # what stays empty is not written, so it takes no memory
            some = np.flatnonzero(made[:, slot] != old[:, slot])
            arrays["plan"][rows[some], slot] = made[some, slot]
        arrays["plan_now"][rows] = first
        self.show(rows, made[every, first])
        self.forget(rows)

    def mended(self, rows: Any) -> None:
        """Count that plans broke and were mended."""
        self.arrays["mended"][rows] += 1


def _ends(items: Any) -> Any:
    """Return the ends of items: seconds after midnight; int32."""
    return (items >> UNTIL).astype("int32")


# -- a plan in a status ----------------------------------------------------------------------------

EDUCATION: Final = ("none", "secondary", "vocational", "bachelor", "master")
GENDERS: Final = (None, "female", "male")
OCCUPATIONS: Final = (
    *("management or a profession", "service", "sales or office"),
    *("construction or repair", "production or transport", "other"),
)
DESKS: Final = (OCCUPATIONS[0], OCCUPATIONS[2])
"""The occupations that may be followed at home."""
HOUSEHOLDS: Final = (
    *("alone", "couple", "lone parent", "three generations", "shared flat"),
    *("couple with children", "other"),
)
"""The kinds of `people/household.py`, by code."""
PLANNED: Final = {
    **ACT,
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
    "pay": Column("int32", key=("profile", "income")),
}
"""The columns of `PlanBlock`."""


def plan_to_status(self: Any, population: Register, row: int, status: dict[str, Any]) -> None:
    """Write a row's plan into a status."""
    arrays = population.arrays
    now = int(arrays["plan_now"][row])
    kinds = () if population.city is None else population.city.kinds()
    plan: list[dict[str, Any]] = []
    begins, live = 0, False
    for slot in range(SLOTS):
        packed = int(arrays["plan"][row, slot])
        if not packed:
            break
        where, until, do = packed & WHERE, packed >> UNTIL, ACTS[does_of(packed)]
        item: dict[str, Any] = {"do": do, "where": None, "from": begins, "until": until}
        begins = until
        if where >= KINDS:
            item["where"] = kinds[where - KINDS]
        elif where in _OWN:
            item["where"] = population.decoded("place", arrays[_OWN[where]][row])
        present = slot >= now and not live and (where == CHOSEN or packed & AVOIDS)
        if present:
            live = True
            if where == CHOSEN:
                item["where"] = population.decoded("place", arrays["plan_chosen"][row])
                item["kind"] = population.city.kind(item["where"])
            elif where >= KINDS:
                item["kind"] = item["where"]
        elif where == CHOSEN:
            item["kind"] = None  # the item is over: columns do not keep its chosen place
        if packed & AVOIDS:
            avoided = arrays["plan_avoid"][row].tolist() if present else ()
            names = [population.decoded("place", each - 1) for each in avoided if each]
            item["avoid"] = names or [None]
        if packed & BOUGHT:
            item["bought"] = True
        plan.append(item)
    if plan:
        status["plan"], status["now"] = plan, now
    if arrays["stuck"][row]:
        status["stuck"] = "it does not get where its plan wants"


def plan_from_status(self: Any, population: Register, row: int, status: dict[str, Any]) -> None:
    """Write a status' plan into a row. Raises ConfigError: it has too many items, or gaps."""
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
    names = () if population.city is None else population.city.kinds()
    kinds = {name: number for number, name in enumerate(names)}
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
    population: Register, row: int, item: dict[str, Any], kinds: dict[str, int]
) -> tuple[int, int]:
    """Return the code of an item's place, and the number of the place (−1: none)."""
    where = item["where"]
    if where is None:
        over = "kind" in item and item["kind"] is None
        return (CHOSEN, -1) if over else (NONE, -1)
    at = population.arrays  # home comes last: it counts where both are one place
    own = {population.decoded("place", at[name][row]): k for k, name in reversed(_OWN.items())}
    if where in kinds and where not in own:
        return KINDS + kinds[where], -1
    place = population.place_number(where) if population.places else -1
    return CHOSEN if item.get("kind") is not None else own.get(where, CHOSEN), place
