"""Moves of a population in the commit stage: room first for who is there, then as heard."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from moothall import ConfigError
from moothall.society.arrays import np
from moothall.society.columns import town
from moothall.society.columns import want_table as wants
from moothall.society.columns.lists import turn_of
from moothall.society.columns.want_table import Table
from moothall.society.kernel.wants import WORD


def settle(books: Any, table: Table) -> None:
    """Let citizens set out, with the outcome of `Books`; a citizen that is refused stays."""
    planned(books, table)()


def planned(books: Any, table: Table) -> Callable[[], None]:
    """Work out who sets out, by where citizens are now; return the function that lets them."""
    arrays = books.population.arrays
    reason = np.zeros(len(table), np.int8)
    value = np.full(len(table), books.step, np.int64)
    if books.city is None:
        return partial(table.set_outcomes, wants.NO_PLACE)
    sender, to = table.sender, table.fields["to"]
    if (sender[1:] == sender[:-1]).any():
        return partial(_one_by_one, books, table, reason, value)
    place = arrays["place"][sender]
    reason[(to < 0) | (to >= len(books.population.places))] = wants.NO_PLACE
    reason[arrays["moving_to"][sender] >= 0] = wants.ON_WAY
    going = np.flatnonzero((reason == 0) & (place != to))
    seconds = seconds_of(books, place[going], to[going], table.fields["mode"][going])
    reachable = seconds >= 0
    accepted = _with_room(books, sender[going], place[going], to[going], reachable)
    reason[going] = np.where(accepted, np.where(reachable, 0, wants.NO_WAY), wants.FULL)
    sets = accepted & reachable
    out = going[sets]
    arrives = books.step + np.maximum(1, -(-seconds[sets] // books.seconds))
    value[out] = arrives

    def set_out() -> None:
        _depart(books, sender[out], to[out], arrives, table.fields["mode"][out])
        table.set_outcomes(reason, value)

    return set_out


def _with_room(books: Any, sender: Any, place: Any, to: Any, reachable: Any) -> Any:
    """Return who finds room, as they are heard; who leaves makes room for later ones."""
    accepted = np.ones(len(to), bool)
    if books.capacity is None:
        return accepted
    room = books.capacity - books.at_place - books.coming_to
    tight = np.bincount(to, minlength=len(room)) > room
    comes = np.flatnonzero(tight[to])
    goes = np.flatnonzero((place >= 0) & reachable & tight[place])
    if not len(goes) and reachable[comes].all():
        comes = comes[books.hearing_order(sender[comes])]
        comes = comes[np.argsort(to[comes], kind="stable")]
        accepted[comes] = turn_of(to[comes]) < room[to[comes]]
        return accepted
    # Whether one leaves a place depends on whether it finds room elsewhere: one after the other.
    room_left = {at: int(room[at]) for at in tight.nonzero()[0].tolist()}
    rows = np.union1d(comes, goes)
    rows = rows[books.hearing_order(sender[rows])]
    ways = zip(*(each[rows].tolist() for each in (to, place, reachable)), strict=True)
    for index, (there, here, is_way) in zip(rows.tolist(), ways, strict=True):
        if there in room_left and room_left[there] <= 0:
            accepted[index] = False
        elif is_way:
            if there in room_left:
                room_left[there] -= 1
            if here in room_left:
                room_left[here] += 1
    return accepted


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
    seconds = np.where(place < 0, 0, np.int64(-1))
    is_same = (mode == mode[:1]).all()
    for by in (mode[:1] if is_same else np.unique(mode)).tolist():
        at, name = np.flatnonzero((mode == by) & (place >= 0)), books.population.decoded(WORD, by)
        with suppress(ConfigError):  # there is no such mode
            seconds[at] = town.ways(books, place[at], to[at], [name])[:, 0]
    return seconds


def _one_by_one(books: Any, table: Table, reason: Any, value: Any) -> None:
    """Settle several moves of one citizen in order."""
    for at in books.hearing_order(table.sender).tolist():
        single = Table(
            table.kind,
            table.sender[at : at + 1],
            {name: values[at : at + 1] for name, values in table.fields.items()},
        )
        settle(books, single)
        reason[at], value[at] = single.reason[0], single.value[0]
    table.set_outcomes(reason, value)
