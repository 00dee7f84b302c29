"""The columns that blocks of a population share: what a citizen does, and the item of its plan."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from civitas.society.arrays import numpy
from civitas.society.population.column import Column

if TYPE_CHECKING:
    from civitas.society.population.rows import Rows

DOES: Final = ("sleep", "eat", "work", "study", "shop", "social", "leisure", "browse")
"""What an item of a plan may want done; its code is its place here and 1, so `sleep` is 1."""
ACTS: Final = (None, *DOES, "travel", "idle")
"""What a citizen may do in a step, by code: the same, `travel`, `idle`; 0 before its first step."""
SLOTS: Final = 100
"""So many items a plan in columns has at most; slots that nobody's plan reaches take no memory."""
NONE, HOME, DUTY, CHOSEN, KINDS = range(5)
"""Where an item of a plan is: nowhere in particular, at home, at work (or school),
at a place that was chosen (`plan_chosen`), or, from 4 up, of the kinds of `city.kinds()`."""
WHERE, WHAT, BOUGHT, AVOIDS, UNTIL = 0xFF, 8, 1 << 11, 1 << 12, 13
"""An item of a plan in one number: where it is; from bit 8, its code of `DOES` less 1; `bought` and
`avoid`; from bit 13, the second after midnight when it ends. 0 stands after the last item."""

ACT: Final = {"act": Column("uint8", words=ACTS)}
ITEM: Final = {
    "item_do": Column("uint8", own=True),
    "item_where": Column("int32", -1, own=True),
    "item_until": Column("int32", own=True),
}
"""The item of the plan that is on now: what (0: none), where and until when.

`item_where` is the number of a place, −1 for None, and −2 − k for the kind k of `city.kinds()`,
of which the mobility block chooses a place.
"""
PLAN: Final = {
    **ITEM,
    "plan": Column("uint32", width=SLOTS, own=True, slots=True),
    "plan_now": Column("uint8", own=True),
    "plan_chosen": Column("place", None, own=True),
    "plan_avoid": Column("int32", width=3, own=True, slots=True),
    "stuck": Column("bool", own=True),
}
"""The plan: items that follow one another through the whole day, in slots.

plan: each item in one number, by its parts above
plan_now: the slot of the item that is on
plan_chosen: the place chosen for the item that is on, or that is broken off and goes on later
plan_avoid: the places, each 1 more than its number, that turned this citizen away in that item
stuck: whether it does not get where its plan wants
"""


def word(do: Any, where: Any, until: Any) -> Any:
    """Return items in one number each, by arrays of what, where and until when; uint32."""
    np = numpy()
    made = np.asarray(until).astype(np.uint32) << np.uint32(UNTIL)
    made |= (np.asarray(do).astype(np.uint32) - np.uint32(1)) << np.uint32(WHAT)
    made |= np.asarray(where).astype(np.uint32)
    return made


def without(words: Any, bits: int) -> Any:
    """Return items without some bits."""
    return words & (0xFFFFFFFF ^ bits)


def code(do: str) -> int:
    """Return the code of what is done, as in `act` and `item_do`."""
    return ACTS.index(do)


def fits_rows(does: Collection[str], rows: Rows) -> Any:
    """Return 1.0 of each whose plan wants one of these done, else 0.0."""
    np = numpy()
    if not does or "item_do" not in rows.population.arrays:
        return 0.0
    do = rows.column("item_do")
    fits = np.zeros(len(do), bool)
    for each in does:
        if each in DOES:
            fits |= do == code(each)
    return fits.astype(np.float32)


def bought(rows: Rows) -> Any:
    """Return of each whether it has bought already in the item that is on: `item["bought"]`."""
    arrays, index = rows.population.arrays, rows.at
    return (arrays["plan"][index, arrays["plan_now"][index]] & BOUGHT) != 0


def set_bought(rows: Rows, where: Any, bought: bool) -> None:
    """Note of some of the rows, by booleans or positions, whether they have bought."""
    arrays, index = rows.population.arrays, rows.at[where]
    at = (index, arrays["plan_now"][index])
    item = arrays["plan"][at]
    arrays["plan"][at] = item | BOUGHT if bought else without(item, BOUGHT)


def stay_home(rows: Rows, where: Any) -> None:
    """Have the item that is on, of some of the rows, go on at home: of no kind any more."""
    np, arrays, index = numpy(), rows.population.arrays, rows.at[where]
    at = (index, arrays["plan_now"][index])
    home = arrays["home"][index]
    arrays["item_where"][index] = home
    where = np.where(home < 0, NONE, HOME).astype(np.uint32)
    arrays["plan"][at] = without(arrays["plan"][at], WHERE | AVOIDS) | where
    arrays["plan_chosen"][index] = -1
    arrays["plan_avoid"][index] = 0
