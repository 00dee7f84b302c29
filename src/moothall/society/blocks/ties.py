"""Relations in columns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

from moothall.society.arrays import Array, Flag, WholeNumber, chosen_at, np
from moothall.society.columns.column import Column
from moothall.society.columns.rows import Rows

KIN: Final = (None, "partner", "parent", "child", "sibling", "relative")
"""What one is to another; their ties do not fade."""
STRENGTH, KIN_BIT = 1023, 10
"""The bits of `friendship` with the strength; from bit 10 up the code of `KIN`."""
_FEW: Final = 256
"""Of so many rows at most all slots are looked at at once: calls of numpy cost more than those."""
_HASH_SIZE: Final = 1 << 16
"""Codes are first compared modulo this: different last bits mean different agents."""


@functools.cache
def friend_columns(friends: int) -> dict[str, Column]:
    """Return the columns of relations, in the order of the first contacts."""
    return {
        # The friend's row + 1; 0 for none; below 0 an agent that is not a citizen.
        "friends": Column("int32", width=friends, own=True, slots=True, citizen=True),
        # The strength, 0 … 1000, and from bit 10 what the friend is to the citizen: see `KIN`.
        "friendship": Column("int16", width=friends, own=True, slots=True),
        "faded": Column("int32", -1),  # the day on which they last faded
    }


class Ties:
    """Reads and changes the relations of rows; they fill the first slots, which walks rely on."""

    def __init__(
        self,
        rows: Rows,
        selection: Array | None = None,
        names: tuple[str, str] = ("friends", "friendship"),
    ) -> None:
        self._rows = rows
        self._friends, self._friendship = (rows.population.arrays[name] for name in names)
        self._index = rows.at if selection is None else rows.at[selection]
        self._mask = STRENGTH if names[0] == "friends" else 0xFFFF

    def slots(self, selection: Any = ...) -> Iterator[tuple[int, Array, Array, Array]]:
        """Yield each slot, positions and population rows of those that use it, and their codes."""
        index = self._index[selection]
        positions = np.arange(len(index))
        for slot in range(self._friends.shape[1]):
            codes = self._friends[:, slot][index]
            used = codes.nonzero()[0]
            if len(used) < len(codes):
                if not len(used):
                    return
                positions, index, codes = positions[used], index[used], codes[used]
            yield slot, positions, index, codes

    def slot_strengths(self, slot: int, index: Array | slice) -> Array:
        """Return the strengths of rows of the population in a slot."""
        return self._friendship[:, slot][index] & self._mask

    def total(self, where: Flag) -> Array:
        """Return the sum of the strengths of some rows, 0 elsewhere; int64."""
        selected, sums = chosen_at(where), np.zeros(len(self._index), np.int64)
        if len(selected) <= _FEW:
            sums[selected] = (self._friendship[self._index[selected]] & self._mask).sum(1)
            return sums
        for slot, positions, index, _ in self.slots(selected):
            sums[selected[positions]] += self.slot_strengths(slot, index)
        return sums

    def friend_at(self, share: Array, where: Flag) -> Array:
        """Return the friend of some rows where the summed strength first exceeds `share`, or −1."""
        selected, friends = chosen_at(where), np.zeros(len(share), np.int64)
        if len(selected) <= _FEW:
            index = self._index[selected]
            sums = (self._friendship[index] & self._mask).cumsum(1)
            slot = (sums > share[selected, None]).argmax(1)
            is_friend = sums[:, -1] > share[selected]
            friends[selected[is_friend]] = self._friends[index, slot][is_friend]
            return np.where(friends >= 0, friends - 1, friends)
        remaining = share[selected]
        for slot, positions, index, codes in self.slots(selected):
            before = remaining[positions]
            after = before - self.slot_strengths(slot, index)
            remaining[positions] = after
            crossing = ((before >= 0) & (after < 0)).nonzero()[0]
            friends[selected[positions[crossing]]] = codes[crossing]
        return np.where(friends >= 0, friends - 1, friends)

    def strength_to(self, codes: Array) -> Array:
        """Return the strengths with others, (n, others) as their codes; 0 without a relation."""
        strengths = np.zeros(codes.shape, np.int64)
        may_match = np.zeros(_HASH_SIZE, bool)
        may_match[codes & (_HASH_SIZE - 1)] = True
        for slot, positions, index, slot_codes in self.slots():
            hits = may_match[slot_codes & (_HASH_SIZE - 1)].nonzero()[0]
            if len(hits):
                i, j = np.nonzero(codes[positions[hits]] == slot_codes[hits, None])
                strengths[positions[hits[i]], j] = self.slot_strengths(slot, index[hits[i]])
        return strengths

    def update(self, targets: Any, change: Callable[[Array], Any], where: Any = ...) -> None:
        """Change or add one relation of each row; if full, drop the (first) weakest other."""
        where = chosen_at(where) if type(where) is bool else where
        index, limit = self._index[where], self._friends.shape[1]
        codes = np.atleast_1d(code_of(targets))[where]
        slot = self._slot_of(index, codes)
        relation = np.zeros(len(index), np.int64)
        present = (slot < limit).nonzero()[0]
        relation[present] = self._friendship[index[present], slot[present]]
        filled = index[slot == limit]
        if len(filled):
            weakest = self._friendship[filled].argmin(1)
            other_slots = np.arange(limit - 1) + (np.arange(limit - 1) >= weakest[:, None])
            for column in (self._friends, self._friendship):
                column[filled, : limit - 1] = np.take_along_axis(column[filled], other_slots, 1)
            slot = np.minimum(slot, limit - 1)
        self._friends[index, slot] = codes
        self._friendship[index, slot] = change(relation & self._mask) | relation & ~self._mask

    def _slot_of(self, index: Array, codes: Array) -> Array:
        """Return each row's slot of a code, else its first empty slot, else the number of slots."""
        limit = self._friends.shape[1]
        if len(index) <= _FEW:
            of_rows = self._friends[index]
            fits = (of_rows == codes[:, None]) | (of_rows == 0)
            first: Array = np.where(fits.any(1), fits.argmax(1), limit)
            return first
        slots, positions = np.full(len(index), limit), np.arange(len(index))
        for slot in range(limit):
            slot_codes = self._friends[:, slot][index]
            slots[positions] = slot
            pending = ((slot_codes != codes) & (slot_codes != 0)).nonzero()[0]
            positions, index, codes = positions[pending], index[pending], codes[pending]
            if not len(positions):
                break
        slots[positions] = limit
        return slots

    def fade(self, change: Callable[[Array], Any]) -> None:
        """Change the strengths of all but kin and who was heard; who has 0 is forgotten."""
        receivers, sender_rows = self._rows.senders()
        met_rows = self._index[receivers]
        slots = self._slot_of(met_rows, code_of(sender_rows))
        spared = np.zeros(len(self._friends), bool)
        next_slots = np.zeros(len(self._index), np.int64)  # the slot that the next one kept gets
        for slot, positions, index, codes in self.slots():
            met = met_rows[slots == slot]
            spared[met] = True
            before = self._friendship[:, slot][index].astype(np.int64)
            is_spared = (before > STRENGTH) | spared[index]
            spared[met] = False
            after = np.where(is_spared, before, change(before))
            keeps = is_spared | (after > 0)
            targets = next_slots[positions]
            next_slots[positions] = targets + keeps
            if keeps.all() and (targets == slot).all():
                self._friendship[:, slot][index] = after
                continue
            self._friends[index, slot] = self._friendship[index, slot] = 0
            cells = index[keeps], targets[keeps]
            self._friends[cells], self._friendship[cells] = codes[keeps], after[keeps]


def code_of(number: WholeNumber) -> Array:
    """Return the codes in `friends` of agents numbered as in wants."""
    return np.where(number >= 0, number + 1, number)
