"""The plans of rows in their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, reduce
from operator import or_
from typing import Any, Final

from moothall import ConfigError
from moothall.society.arrays import Array, Flag, any_of, chosen_at, np
from moothall.society.blocks.columns import (
    ACTIVITIES,
    ACTS,
    AVOIDS_FLAG,
    BOUGHT_FLAG,
    CHOSEN,
    DUTY,
    FIRST_KIND,
    HOME,
    MAX_SLOTS,
    NO_PLACE,
    NOT_THERE,
    UNTIL_SHIFT,
    WHERE_MASK,
    act_code,
    activity_codes,
    clear_bits,
    ends_of,
    item_words,
    items_at,
)
from moothall.society.clock import DAY_S
from moothall.society.columns import city_queries
from moothall.society.columns.rows import Rows
from moothall.society.kernel.mind import PLAN_BROKE
from moothall.society.kernel.perception import Item, item_of
from moothall.society.kernel.wants import Move

_FREE_SLOTS: Final = 4
"""Slots kept free: an inserted item takes up to three more, and the last stays empty."""
_CHUNK: Final = 1 << 13  # plans made at a time: their arrays fit the processor's cache
_ERRAND_CODES: Final = (ACTIVITIES.index("shop") + 1, ACTIVITIES.index("eat") + 1)
_MAX_INTERRUPTED: Final = 6
"""The items, with the current one, up to the end of an interrupted item at most: of the items
inserted at the same time only the last is left, and there are three such times."""


class Plans:
    """The plans of some rows. Positions count within these rows; −1 is no home and no duty."""

    def __init__(self, rows: Rows) -> None:
        self.rows: Rows = rows
        self.arrays: dict[str, Array] = rows.population.arrays
        self.index: Array = rows.at

    @cached_property
    def home(self) -> Array:
        """The home of each."""
        return self._each(self._home)

    @cached_property
    def duty(self) -> Array:
        """The place of work of each, or else the school."""
        return self._each(self._duty)

    def _each(self, place: Any) -> Array:
        array: Array = np.asarray(place, np.int32)
        return array if array.ndim else np.full(len(self.index), array)

    @property
    def _home(self) -> Any:
        return self.rows.column("home") if self.rows.has_places else -1

    @property
    def _duty(self) -> Any:
        if not self.rows.has_places:
            return -1
        work = self.rows.column("work")
        return work + (work < 0) * (self.rows.column("school") + 1)

    def is_moving(self) -> Any:
        """Return which rows are on their way."""
        if not self.rows.has_places:
            return np.zeros(len(self.rows), bool)
        return self.rows.column("moving_to") >= 0

    def is_due(self, day: int) -> Any:
        """Return which need a plan: of a new day, or because their home or work has changed."""
        column = self.rows.column
        moved = (column("plan_home") != self._home) | (column("plan_duty") != self._duty)
        return (column("day") != day) | moved

    def make(self, block: Any, day: int, answer: list[Item] | None) -> None:
        """Make plans by rule; of one citizen take the answer of a model."""
        if answer is not None:
            status = {key: block.status.get(key) for key in ("home", "work", "school")}
            block.from_status(self.rows.population, self.index[0], {**status, "plan": answer})
        for first in range(0, len(self.index), _CHUNK) if answer is None else ():
            block.make_rows(self, np.arange(first, min(first + _CHUNK, len(self.index))))
        self.arrays["day"][self.index] = day

    def is_over(self, time: int) -> Any:
        """Return whose item is over."""
        return self.rows.column("item_until") <= time

    def is_doing(self, *activities: str) -> Any:
        """Return whose item is one of some activities."""
        do = self.rows.column("item_do")
        return reduce(or_, [do == act_code(each) for each in activities])

    def has_bought(self) -> Any:
        """Return which have bought in their items."""
        return (self._current_items()[2] & BOUGHT_FLAG) != 0

    def set_bought(self, where: Any, bought: bool) -> None:
        """Set whether some, given as booleans or positions, have bought."""
        rows, slot, items = self._current_items(where)
        items = items | BOUGHT_FLAG if bought else clear_bits(items, BOUGHT_FLAG)
        self.arrays["plan"][rows, slot] = items

    def stay_home(self, where: Any) -> None:
        """Let the items of some continue at home, without a kind of place."""
        arrays, (rows, slot, items) = self.arrays, self._current_items(where)
        arrays["item_where"][rows] = home = arrays["home"][rows]
        code = np.where(home < 0, NO_PLACE, HOME).astype(np.uint32)
        arrays["plan"][rows, slot] = clear_bits(items, WHERE_MASK | AVOIDS_FLAG) | code
        arrays["plan_chosen"][rows] = -1
        arrays["plan_avoid"][rows] = 0

    def is_at_home(self) -> Any:
        """Return whose item is at home."""
        return self.rows.column("item_where") == self._home

    def remember(self, block: Any, where: Flag) -> None:
        """Let a citizen that is led by a model remember an item that is over."""
        agent = getattr(self.rows, "agent", None)
        if agent is not None and any_of(where) and block.llm is not None:
            block.note_end(item_of(agent.memory.status))

    def advance(self, time: int) -> None:
        """Go on to the items at a time of the day."""
        arrays, rows = self.arrays, self.index
        slot = arrays["plan_now"][rows].astype(np.int64)
        items = items_at(arrays, rows, slot)
        while (is_over := ends_of(items) <= time).any():
            slot += is_over
            items = items_at(arrays, rows, slot)
        arrays["plan_now"][rows] = slot
        arrays["stuck"][rows] = False
        self.show_items(rows, items)
        self.forget_places(rows)

    def missed_errands(self, time: int, where: Flag) -> Array:
        """Return the slots of the last errands after the current items that are over, or 0."""
        return self._errands(where, lambda begins, ends: ends <= time, last=True)

    def next_errands(self, before: int, where: Flag) -> Array:
        """Return the slots of the next errands that begin before a time, or 0."""
        return self._errands(where, lambda begins, ends: begins < before)

    def _errands(
        self, where: Flag, fits: Callable[[Array, Array], Array], *, last: bool = False
    ) -> Array:
        """Return of some rows the slot of the first (last) errand that follows its current item.

        An errand is at a kind of place. The times of beginning and end of all items up to it must
        fit. 0 for none.
        """
        at, slots = chosen_at(where), np.zeros(len(self.index), np.int64)
        rows, pending = self.index[at], np.arange(len(at))
        slot = self.arrays["plan_now"][rows].astype(np.int64)
        starts = ends_of(items_at(self.arrays, rows, slot))
        while len(pending):
            slot[pending] += 1
            items = items_at(self.arrays, rows[pending], slot[pending])
            fit = (items > 0) & fits(starts[pending], ends_of(items))
            starts[pending] = ends_of(items)
            is_errand = fit & np.isin(activity_codes(items), _ERRAND_CODES)
            is_errand &= (items & WHERE_MASK >= FIRST_KIND) & (items & AVOIDS_FLAG == 0)
            slots[at[pending[is_errand]]] = slot[pending[is_errand]]
            pending = pending[fit & (last | ~is_errand) & (slot[pending] < MAX_SLOTS - 1)]
        return slots

    def is_free(self) -> Any:
        """Return which have chosen no place for an item that goes on or comes."""
        return (self.rows.column("plan_chosen") < 0) & (self.rows.column("plan_avoid")[:, 0] == 0)

    def bring_forward(self, slot: Array, time: int, until: int, where: Flag) -> None:
        """Let some do an errand now, and something else at home in its stead."""
        at = chosen_at(where)
        if len(at):
            rows, plan, slot = self.index[at], self.arrays["plan"], slot[at]
            items = plan[rows, slot]
            leisure = np.full(len(at), act_code("leisure"))
            plan[rows, slot] = item_words(leisure, self._home_codes(at, True), ends_of(items))
            ends = np.full(len(at), until)
            self._insert(at, activity_codes(items), items & WHERE_MASK, time, ends)

    def take_stuck(self, where: Flag) -> Any:
        """Return which cannot get to their items' places, and forget it."""
        stuck = self.rows.column("stuck") & where
        if not any_of(stuck):
            return stuck
        self.arrays["stuck"][self.index[chosen_at(stuck)]] = False
        for status, _ in self._remembering(stuck):
            status.broken_by = status.stuck_by or NOT_THERE
        return stuck

    def note_refused(self, refused: Flag) -> Any:
        """Note why some were turned away; return who was."""
        for status, _ in self._remembering(refused):
            status.broken_by = self.rows.reason(Move, status.row) or "it could not get there"
        return refused

    def note_closed(self, closed: Flag) -> None:
        """Note of some that their items' places are closed."""
        for status, _ in self._remembering(closed):
            place = int(self.arrays["item_where"][status.row])
            status.broken_by = f"{self.rows.population.places[place]} is closed"

    def _remembering(self, where: Any) -> Iterator[tuple[Any, int]]:
        """Yield the status of each of some rows that remembers its plans, and its position."""
        if self.rows.remembers and any_of(where):
            for at in np.broadcast_to(where, len(self.index)).nonzero()[0].tolist():
                if (agent := self.rows.who_remembers(int(self.index[at]))) is not None:
                    yield agent.memory.status, at

    def _note_mended(self, where: Any, outcome: Callable[[int], str]) -> None:
        """Have those remember that their plans broke who remember; count it for all."""
        for status, at in self._remembering(where):
            text = f"{PLAN_BROKE}{status.broken_by}; now {outcome(at)}."
            self.rows.who_remembers(status.row).memory.note(self.rows.step, text)

    def is_closed(self, time: int) -> Any:
        """Return whose item's place is closed; None if places have no hours."""
        is_open = city_queries.open_now(self.rows, time)
        place = self.rows.column("item_where")
        return None if is_open is None else (place >= 0) & ~is_open[place]

    def is_stuck(self) -> Any:
        """Return which cannot get to their items' places."""
        return self.rows.column("stuck")

    def get_stuck(self, why: str, where: Flag, place: Any = None) -> None:
        """Note of some rows that they cannot get to their items' places: they are idle."""
        if not any_of(where):
            return
        index = self.index[np.broadcast_to(where, len(self.index)).nonzero()[0]]
        for status, at in self._remembering(where):
            to = "" if place is None else self.rows.population.places[int(np.ravel(place)[at])]
            status.stuck_by = why.format(to)
        self.arrays["stuck"][index] = True
        self.arrays["act"][index] = act_code("idle")

    def avoided_places(self) -> Array:
        """Return the places that have turned each away in its item, (n, 3), −1 for none."""
        avoided = np.full((len(self.index), 3), -1, np.int32)
        avoiding = (self._current_items()[2] & AVOIDS_FLAG).nonzero()[0]
        avoided[avoiding] = self.arrays["plan_avoid"][self.index[avoiding]] - 1
        return avoided

    def avoids(self, place: Any) -> Any:
        """Return whether places have turned them away in their items."""
        return (self.avoided_places() == np.reshape(place, (-1, 1))).any(axis=1) & (place >= 0)

    def choose(self, place: Array, kind: str) -> None:
        """Take places as those of the items."""
        rows, slot, items = self._current_items()
        self.arrays["plan"][rows, slot] = clear_bits(items, WHERE_MASK) | CHOSEN
        self.arrays["plan_chosen"][rows] = place
        self.arrays["item_where"][rows] = place

    def has_others(self) -> Any:
        """Return for whom another place of the chosen place's kind may be tried."""
        avoided = (self.arrays["plan_avoid"][self.index] > 0).sum(axis=1)
        return (self._current_items()[2] & WHERE_MASK == CHOSEN) & (avoided < 3)

    def _current_items(self, where: Any = slice(None)) -> tuple[Array, Array, Array]:
        """Return some rows, and slots and items of their current items."""
        rows = self.index[where if isinstance(where, slice) else self._positions(where)]
        slot = self.arrays["plan_now"][rows]
        return rows, slot, self.arrays["plan"][rows, slot]

    def _positions(self, where: Any) -> Array:
        """Return positions, given as such or as booleans."""
        is_flag = type(where) is bool or where.dtype == bool
        return chosen_at(where) if is_flag else where

    def try_another(self) -> None:
        """Choose another place of the kind."""
        arrays, (rows, slot, items) = self.arrays, self._current_items()
        place = arrays["item_where"][rows]
        kind = city_queries.place_kinds(self.rows)[place].astype(np.int64)
        avoided = (arrays["plan_avoid"][rows] > 0).sum(axis=1)
        arrays["plan_avoid"][rows, avoided] = place + 1
        of_kind = (FIRST_KIND + kind).astype(np.uint32) | np.uint32(AVOIDS_FLAG)
        arrays["plan"][rows, slot] = clear_bits(items, WHERE_MASK) | of_kind
        arrays["plan_chosen"][rows] = -1
        arrays["item_where"][rows] = -2 - kind
        arrays["mended"][rows] += 1
        kinds = self.rows.city.kinds()
        self._note_mended(True, lambda at: f"another {kinds[int(kind[at])]}")

    def stay(self) -> None:
        """Stay wherever one is."""
        rows, slot, items = self._current_items()
        self.arrays["plan"][rows, slot] = clear_bits(items, WHERE_MASK | AVOIDS_FLAG) | NO_PLACE
        self.arrays["item_where"][rows] = -1
        self.forget_places(rows)
        self.arrays["mended"][rows] += 1
        self._note_mended(True, lambda at: "stays where it is")

    def go_home(self, time: int) -> None:
        """Have leisure at home until the ends of the items."""
        until = np.atleast_1d(self.rows.column("item_until"))
        self._put_item(slice(None), np.full(len(until), act_code("leisure")), True, time, until)

    def put_remedies(self, needs: Sequence[Any], number: Array, time: int) -> None:
        """Do from now on what helps a need, given by its number; −1: none."""
        number = np.atleast_1d(number)
        at = (number >= 0).nonzero()[0]
        if len(at):
            for status, position in self._remembering(number >= 0):
                status.broken_by = f"its {needs[int(number[position])].name} is too low"
            parts = ([act_code(n.remedy) for n in needs], [n.at_home for n in needs])
            do, home = (np.array(each)[number[at]] for each in parts)
            durations = np.array([need.seconds for need in needs])[number[at]]
            self._put_item(at, do, home, time, np.minimum(time + durations, DAY_S))

    def _put_item(self, at: Array | slice, do: Array, home: Flag, time: int, until: Array) -> None:
        self._insert(at, do, self._home_codes(at, home), time, until.astype(np.int64))
        self.arrays["mended"][self.index[at]] += 1
        put = np.zeros(len(self.index), np.uint8)
        put[at] = do
        self._note_mended(put > 0, lambda at: ACTS[int(put[at])] or "")

    def show_items(self, rows: Array, items: Array) -> None:
        """Write current items into the columns of `ITEM`."""
        arrays = self.arrays
        where = (items & WHERE_MASK).astype(np.int32)
        arrays["item_do"][rows] = activity_codes(items)
        arrays["item_until"][rows] = ends_of(items)
        place = np.where(where >= FIRST_KIND, FIRST_KIND - 2 - where, -1)
        for place_code, name in ((HOME, "plan_home"), (DUTY, "plan_duty"), (CHOSEN, "plan_chosen")):
            positions = (where == place_code).nonzero()[0]
            place[positions] = arrays[name][rows[positions]]
        arrays["item_where"][rows] = place

    def forget_places(self, rows: Array) -> None:
        """Clear the chosen and avoided places of items that are over."""
        arrays = self.arrays
        avoided = arrays["plan_avoid"][:, 0][rows] > 0
        with_places = ((arrays["plan_chosen"][rows] >= 0) | avoided).nonzero()[0]
        rows, avoided = rows[with_places], avoided[with_places]
        slot = arrays["plan_now"][rows].astype(np.int64)
        chosen, avoids = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
        pending = np.arange(len(rows))
        for _ in range(_MAX_INTERRUPTED):
            items = items_at(arrays, rows[pending], slot[pending])
            chosen[pending] = items & WHERE_MASK == CHOSEN
            avoids[pending] = (items & AVOIDS_FLAG) != 0
            slot[pending] += 1
            pending = pending[~chosen[pending] & ~avoids[pending] & (slot[pending] < MAX_SLOTS)]
            if not len(pending):
                break
        arrays["plan_chosen"][rows[~chosen]] = -1
        arrays["plan_avoid"][rows[avoided & ~avoids]] = 0

    def _home_codes(self, at: Array | slice, home: Flag) -> Array:
        """Return the place codes of items that are at home, or wherever one is."""
        return np.where(home & (self.home[at] >= 0), HOME, NO_PLACE)

    def _insert(self, at: Array | slice, do: Array, where: Array, time: int, until: Array) -> None:
        """Insert items from `time` on into plans; cut or drop the items that overlap."""
        arrays = self.arrays
        rows = self.index[at]
        last = 32
        while last < MAX_SLOTS and arrays["plan"][rows, last - _FREE_SLOTS].any():
            last = min(MAX_SLOTS, last + 16)
        if arrays["plan"][rows, last - _FREE_SLOTS].any():
            raise ConfigError(f"a plan in columns has at most {MAX_SLOTS - _FREE_SLOTS} items")
        old = arrays["plan"][rows, :last]
        now = arrays["plan_now"][rows].astype(np.int32)
        each_row = np.arange(len(rows))
        starts = np.where(now > 0, ends_of(old[each_row, now - 1]), 0)
        cut_rows = each_row[starts < time]
        first = now + (starts < time)
        ends = ends_of(old)
        slots = np.arange(last, dtype=np.int32)
        # The first remaining item that ends after `until`; empty slots follow all items.
        ends_later = (ends > until[:, None]) | (ends == 0)
        next_slot = (ends_later & (slots >= now[:, None])).argmax(axis=1)
        shift = (next_slot - first - 1).astype(np.int32)[:, None]
        source = slots + np.where(slots > first[:, None], shift, np.int32(0))
        np.minimum(source, last - 1, out=source)
        inserted = np.take_along_axis(old, source, axis=1)
        # The current item ends now if it began before; else the new item takes its slot.
        other_bits = old[cut_rows, now[cut_rows]] & np.uint32((1 << UNTIL_SHIFT) - 1)
        inserted[cut_rows, now[cut_rows]] = other_bits | np.uint32(time << UNTIL_SHIFT)
        inserted[each_row, first] = item_words(do, where, until)
        for slot in range(last):  # what stays empty is not written, so it takes no memory
            changed = (inserted[:, slot] != old[:, slot]).nonzero()[0]
            arrays["plan"][rows[changed], slot] = inserted[changed, slot]
        arrays["plan_now"][rows] = first
        self.show_items(rows, inserted[each_row, first])
        self.forget_places(rows)
