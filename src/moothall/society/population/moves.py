"""Moves of a population in the commit stage: room first for who is there, then in id order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from moothall.society.arrays import np
from moothall.society.columns import town
from moothall.society.columns import want_table as wants
from moothall.society.columns.want_table import Table
from moothall.society.kernel.wants import WORD

_ROUNDS: Final = 20  # after so many rounds, who finds room is worked out one after the other


def settle(books: Any, table: Table) -> None:
    """Let citizens set out, with the outcome of `Books`; a citizen that is refused stays."""
    planned(books, table)()


def planned(books: Any, table: Table) -> Callable[[], None]:
    """Work out who sets out, by where citizens are now; return the function that lets them."""
    arrays = books.population.arrays
    reason = np.zeros(len(table), np.int8)
    value = np.full(len(table), books.step, np.int64)
    if books.city is None:
        return partial(table.settled, wants.NO_PLACE)
    sender, to = table.sender, table.fields["to"]
    if (sender[1:] == sender[:-1]).any():
        return partial(_one_by_one, books, table, reason, value)
    place = arrays["place"][sender]
    reason[(to < 0) | (to >= len(books.population.places))] = wants.NO_PLACE
    reason[arrays["moving_to"][sender] >= 0] = wants.ON_WAY
    going = np.flatnonzero((reason == 0) & (place != to))
    seconds = seconds_of(books, place[going], to[going], table.fields["mode"][going])
    reachable = seconds >= 0
    accepted = _with_room(books, place[going], to[going], reachable)
    reason[going] = np.where(accepted, np.where(reachable, 0, wants.NO_WAY), wants.FULL)
    sets = accepted & reachable
    out = going[sets]
    arrives = books.step + np.maximum(1, -(-seconds[sets] // books.seconds))
    value[out] = arrives

    def set_out() -> None:
        _depart(books, sender[out], to[out], arrives, table.fields["mode"][out])
        table.settled(reason, value)

    return set_out


def _with_room(books: Any, place: Any, to: Any, reachable: Any) -> Any:
    """Return who finds room, in order; a citizen that leaves makes room for later ones.

    Whether somebody leaves a place depends on whether it finds room elsewhere, so what each finds
    is worked out again until nothing changes.
    """
    accepted = np.ones(len(to), bool)
    if books.capacity is None:
        return accepted
    room = books.capacity - books.at_place - books.coming_to
    tight = np.bincount(to, minlength=len(room)) > room
    comes = np.flatnonzero(tight[to])
    if not len(comes):
        return accepted
    goes = np.flatnonzero((place >= 0) & reachable & tight[place])
    who, at = np.concatenate([goes, comes]), np.concatenate([place[goes], to[comes]])
    order = np.lexsort((who, at))
    coming = order >= len(goes)
    who, at = who[order], at[order]
    first = np.r_[True, at[1:] != at[:-1]]
    starts, of = np.flatnonzero(first), np.cumsum(first) - 1
    has = room[at[starts]]
    apart = of * (4 * (len(who) + int(has.max())) + 4)
    takes = reachable[who].astype(np.int64)
    accepted[comes] = False
    for _ in range(_ROUNDS):
        change = np.where(coming, -takes, accepted[who])
        after = np.cumsum(change)
        after -= (after[starts] - change[starts] - has)[of]
        # Who finds no room takes none: what was missing so far is there all the same.
        missed = np.maximum.accumulate(apart - after) - apart
        missed = np.where(first, 0, np.maximum(0, np.r_[0, missed[:-1]]))
        found = (after - change + missed > 0)[coming]
        if np.array_equal(found, accepted[who[coming]]):
            return accepted
        accepted[who[coming]] = found
    _one_after_another(accepted, np.unique(who), room, tight, place, to, reachable)
    return accepted


def _one_after_another(
    accepted: Any, who: Any, room: Any, tight: Any, place: Any, to: Any, reachable: Any
) -> None:
    """The same for long chains, in which each goes where the one before has been."""
    left = {at: int(room[at]) for at in tight.nonzero()[0].tolist()}
    for one in who.tolist():
        goes, leaves = int(to[one]), int(place[one])
        if goes in left:
            accepted[one] = left[goes] > 0
        if accepted[one] and reachable[one]:
            if goes in left:
                left[goes] -= 1
            if leaves in left:
                left[leaves] += 1


def _depart(books: Any, rows: Any, to: Any, arrives: Any, mode: Any) -> None:
    arrays = books.population.arrays
    place = arrays["place"][rows]
    count = len(books.population.places)
    books.at_place -= np.bincount(place[place >= 0], minlength=count)
    books.coming_to += np.bincount(to, minlength=count)
    arrays["moving_from"][rows] = place
    arrays["place"][rows] = -1
    arrays["moving_to"][rows] = to
    arrays["arrives"][rows] = arrives
    arrays["left"][rows] = books.step
    arrays["mode"][rows] = mode


def arrive(books: Any) -> None:
    """Let citizens arrive whose way ends by the next step."""
    arrays = books.population.arrays
    on_way = np.flatnonzero(arrays["moving_to"] >= 0)
    books.travelled = len(on_way)
    there = on_way[arrays["arrives"][on_way] <= books.step + 1]
    if not len(there):
        return
    to, count = arrays["moving_to"][there], len(books.population.places)
    arrived = np.bincount(to, minlength=count)
    books.coming_to -= arrived
    books.at_place += arrived
    arrays["place"][there] = to
    for name in ("moving_to", "moving_from", "mode"):
        arrays[name][there] = -1
    for name in ("arrives", "left"):
        arrays[name][there] = 0


def seconds_of(books: Any, place: Any, to: Any, mode: Any) -> Any:
    """Return the seconds of each way; −1 without a way, 0 from nowhere."""
    rows = getattr(books.city, "seconds_rows", None)
    if rows is not None:
        return rows(place, to, mode, books.population.words)
    found = np.zeros(len(place), np.int64)
    for by in np.unique(mode).tolist():
        at, name = np.flatnonzero((mode == by) & (place >= 0)), books.population.decoded(WORD, by)
        pairs, back = np.unique(np.stack([place[at], to[at]]), axis=1, return_inverse=True)
        found[at] = town.ways(books, pairs[0], pairs[1], [name])[back.reshape(-1), 0]
    return found


def _one_by_one(books: Any, table: Table, reason: Any, value: Any) -> None:
    """Settle several moves of one citizen in order."""
    for at in range(len(table)):
        one = Table(
            table.kind,
            table.sender[at : at + 1],
            {name: values[at : at + 1] for name, values in table.fields.items()},
        )
        settle(books, one)
        reason[at], value[at] = one.reason[0], one.value[0]
    table.settled(reason, value)
