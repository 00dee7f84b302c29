"""Relations: of a population as columns, of one citizen in its status, with the same questions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from moothall.society.arrays import Array, WholeNumber, np
from moothall.society.columns.column import Column
from moothall.society.columns.row import Row
from moothall.society.columns.rows import RowOrRows, Rows

KIN: Final = (None, "partner", "parent", "child", "sibling", "relative")
"""What one is to another; their ties do not fade."""
STRENGTH, KIND = 1023, 10
"""The bits of `friendship` with the strength; from bit 10 up the code of `KIN`."""
_HASHED: Final = 1 << 16
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


def ties_of(rows: RowOrRows, most: int) -> Any:
    """Return the relations of rows or of one citizen; `most` is how many one may have."""
    return OwnTies(rows, most) if rows.is_single else Ties(rows)


class OwnTies:
    """The relations of one citizen, by id; it has the methods of `Ties`."""

    def __init__(self, row: Row, most: int) -> None:
        self._row = row
        self._most = most
        self._status: dict[str, Any] = row.status

    @property
    def _relations(self) -> dict[str, int]:
        relations: dict[str, int] = self._status.get("relations") or {}
        return relations

    def total(self, where: bool) -> int:
        """Return the sum of the strengths, 0 elsewhere."""
        return sum(self._relations.values()) if where else 0

    def friend(self, share: int, where: bool) -> str | None:
        """Return the friend where the summed strength first exceeds `share`; elsewhere None."""
        for id, strength in self._relations.items() if where else ():
            share -= strength
            if share < 0:
                return id
        return None

    def strength(self, ids: Iterable[str]) -> list[int]:
        """Return the strengths with others; 0 without a relation."""
        relations = self._relations
        return [relations.get(id, 0) for id in ids]

    def closer(self, id: str, change: Callable[[int], int], where: bool = True) -> None:
        """Change or add one relation; of too many drop the (first) weakest other that is no kin."""
        if not where:
            return
        relations = self._status.setdefault("relations", {})
        relations[id] = change(relations.get(id, 0))
        if len(relations) > self._most:
            kin = self._status.get("kin", {})
            candidates = [each for each in relations if each != id]
            dropped = min(
                candidates, key=lambda each: relations[each] + (STRENGTH + 1) * (each in kin)
            )
            del relations[dropped]
            kin.pop(dropped, None)

    def fade(self, fade: Callable[[int], int]) -> None:
        """Change the strengths of all but kin and who was heard; who has 0 is forgotten."""
        relations, kin, senders = self._relations, self._status.get("kin", {}), self._row.senders()
        for id in [each for each in relations if each not in senders and each not in kin]:
            relations[id] = fade(relations[id])
            if not relations[id]:
                del relations[id]


class Ties:
    """Reads and changes the relations of rows; they fill the first slots, which walks rely on."""

    def __init__(
        self,
        rows: Rows,
        at: Array | None = None,
        names: tuple[str, str] = ("friends", "friendship"),
    ) -> None:
        self._rows = rows
        self._friends, self._friendship = (rows.population.arrays[name] for name in names)
        self._index = rows.at if at is None else rows.at[at]
        self._mask = STRENGTH if names[0] == "friends" else 0xFFFF

    def slots(self, at: Any = ...) -> Iterator[tuple[int, Array, Array, Array]]:
        """Yield each slot, positions and population rows of those that use it, and their codes."""
        index = self._index[at]
        positions = np.arange(len(index))
        for slot in range(self._friends.shape[1]):
            codes = self._friends[:, slot][index]
            some = codes.nonzero()[0]
            if len(some) < len(codes):
                if not len(some):
                    return
                positions, index, codes = positions[some], index[some], codes[some]
            yield slot, positions, index, codes

    def strengths(self, slot: int, index: Array | slice) -> Array:
        """Return the strengths of rows of the population in a slot."""
        return self._friendship[:, slot][index] & self._mask

    def total(self, where: Array) -> Array:
        """Return the sum of the strengths of some rows, 0 elsewhere; int64."""
        at, sums = np.flatnonzero(where), np.zeros(len(self._index), np.int64)
        for slot, positions, index, _ in self.slots(at):
            sums[at[positions]] += self.strengths(slot, index)
        return sums

    def friend(self, share: Array, where: Array) -> Array:
        """Return the friend of some rows where the summed strength first exceeds `share`, or −1."""
        at, friends = np.flatnonzero(where), np.zeros(len(share), np.int64)
        rest = share[at]
        for slot, positions, index, codes in self.slots(at):
            before = rest[positions]
            after = before - self.strengths(slot, index)
            rest[positions] = after
            now = ((before >= 0) & (after < 0)).nonzero()[0]
            friends[at[positions[now]]] = codes[now]
        return np.where(friends >= 0, friends - 1, friends)

    def strength(self, codes: Array) -> Array:
        """Return the strengths with others, (n, others) as their codes; 0 without a relation."""
        strengths = np.zeros(codes.shape, np.int64)
        maybe = np.zeros(_HASHED, bool)
        maybe[codes & (_HASHED - 1)] = True
        for slot, positions, index, friends in self.slots():
            some = maybe[friends & (_HASHED - 1)].nonzero()[0]
            if len(some):
                at, which = np.nonzero(codes[positions[some]] == friends[some, None])
                strengths[positions[some[at]], which] = self.strengths(slot, index[some[at]])
        return strengths

    def closer(self, targets: Any, change: Callable[[Array], Array], where: Any = ...) -> None:
        """Change or add one relation of each row; if full, drop the (first) weakest other."""
        index, codes, most = self._index[where], code_of(targets)[where], self._friends.shape[1]
        slot = self._slot_of(index, codes)
        relation = np.zeros(len(index), np.int64)
        has = np.flatnonzero(slot < most)
        relation[has] = self._friendship[index[has], slot[has]]
        full = index[slot == most]
        if len(full):
            weakest = self._friendship[full].argmin(1)
            other_slots = np.arange(most - 1) + (np.arange(most - 1) >= weakest[:, None])
            for column in (self._friends, self._friendship):
                column[full, : most - 1] = np.take_along_axis(column[full], other_slots, 1)
            slot = np.minimum(slot, most - 1)
        self._friends[index, slot] = codes
        self._friendship[index, slot] = change(relation & self._mask) | relation & ~self._mask

    def _slot_of(self, index: Array, codes: Array) -> Array:
        """Return each row's slot of a code, else its first empty slot, else the number of slots."""
        most = self._friends.shape[1]
        slots, positions = np.full(len(index), most), np.arange(len(index))
        for slot in range(most):
            here = self._friends[:, slot][index]
            slots[positions] = slot
            some = ((here != codes) & (here != 0)).nonzero()[0]
            positions, index, codes = positions[some], index[some], codes[some]
            if not len(positions):
                break
        slots[positions] = most
        return slots

    def fade(self, fade: Callable[[Array], Array]) -> None:
        """Change the strengths of all but kin and who was heard; who has 0 is forgotten."""
        at, sender_rows = self._rows.senders()
        met_rows = self._index[at]
        slots = self._slot_of(met_rows, code_of(sender_rows))
        spared = np.zeros(len(self._friends), bool)
        up_to = np.zeros(len(self._index), np.int64)  # the slot that the next one kept gets
        for slot, positions, index, codes in self.slots():
            met = met_rows[slots == slot]
            spared[met] = True
            before = self._friendship[:, slot][index].astype(np.int64)
            stays = (before > STRENGTH) | spared[index]
            spared[met] = False
            after = np.where(stays, before, fade(before))
            keeps = stays | (after > 0)
            to = up_to[positions]
            up_to[positions] = to + keeps
            if keeps.all() and (to == slot).all():
                self._friendship[:, slot][index] = after
                continue
            self._friends[index, slot] = self._friendship[index, slot] = 0
            place = index[keeps], to[keeps]
            self._friends[place], self._friendship[place] = codes[keeps], after[keeps]


def code_of(number: WholeNumber) -> Array:
    """Return the codes in `friends` of agents numbered as in wants."""
    return np.where(number >= 0, number + 1, number)
