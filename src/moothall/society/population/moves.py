"""Moves of a population in the commit stage: room first for who is there, then as heard."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from moothall import ConfigError
from moothall.society.arrays import Array, np
from moothall.society.blocks.columns import act_code
from moothall.society.blocks.ties import KIN, KIN_BIT
from moothall.society.columns import city_queries
from moothall.society.columns import want_table as wants
from moothall.society.columns.lists import occurrence_of
from moothall.society.columns.want_table import Table
from moothall.society.kernel.care import ADULT_AGE, ALONG_PURPOSE, BUSY_ACTS, MIN_AGE_ALONE
from moothall.society.kernel.draw import draw_below
from moothall.society.kernel.wants import TEXT
from moothall.society.population.agent_books import AgentBooks

_CARE_COLUMNS: Final = {"age", "along", "item_do", "tour", "work"}
_PARENT: Final = KIN.index("parent")
_IS_BUSY: Final = np.isin(np.arange(256), [act_code(each) for each in BUSY_ACTS])  # by `item_do`


def settle(books: AgentBooks, table: Table) -> None:
    """Let citizens set out; a citizen that is refused stays."""
    plan_departures(books, table)()


def plan_departures(books: AgentBooks, table: Table) -> Callable[[], None]:
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
    going = ((reason == 0) & (place != to)).nonzero()[0]
    seconds = travel_seconds(books, place[going], to[going], table.fields["mode"][going])
    reachable = seconds >= 0
    accepted = _with_room(books, sender[going], place[going], to[going], reachable)
    reason[going] = np.where(accepted, np.where(reachable, 0, wants.NO_WAY), wants.PLACE_FULL)
    sets_out = accepted & reachable
    leaving = going[sets_out]
    arrives = books.step + np.maximum(1, -(-seconds[sets_out] // books.seconds))
    value[leaving] = arrives

    def set_out() -> None:
        _depart(books, sender[leaving], to[leaving], arrives, table.fields["mode"][leaving])
        table.set_outcomes(reason, value)

    return set_out


def _with_room(
    books: AgentBooks, sender: Array, place: Array, to: Array, reachable: Array
) -> Array:
    """Return who finds room, as they are heard; who leaves makes room for later ones."""
    accepted = np.ones(len(to), bool)
    if books.capacity is None:
        return accepted
    room = books.capacity - books.at_place - books.coming_to
    is_tight = np.bincount(to, minlength=len(room)) > room
    comers = is_tight[to].nonzero()[0]
    goers = ((place >= 0) & reachable & is_tight[place]).nonzero()[0]
    if not len(goers) and reachable[comers].all():
        return _first_heard(books, sender, to, room)
    # Whether one leaves a place depends on whether it finds room elsewhere: one after the other.
    room_left = {number: int(room[number]) for number in is_tight.nonzero()[0].tolist()}
    rows = np.union1d(comers, goers)
    rows = rows[books.hearing_order(sender[rows])]
    trips = zip(*(each[rows].tolist() for each in (to, place, reachable)), strict=True)
    for index, (goal, start, is_way) in zip(rows.tolist(), trips, strict=True):
        if goal in room_left and room_left[goal] <= 0:
            accepted[index] = False
        elif is_way:
            if goal in room_left:
                room_left[goal] -= 1
            if start in room_left:
                room_left[start] += 1
    return accepted


def _first_heard(books: AgentBooks, rows: Array, to: Array, room: Array) -> Array:
    """Return who finds room where nobody leaves: at each place those who are heard first."""
    accepted = np.ones(len(to), bool)
    comers = ((np.bincount(to, minlength=len(room)) > room)[to]).nonzero()[0]
    comers = comers[books.hearing_order(rows[comers])]
    comers = comers[np.argsort(to[comers], kind="stable")]
    accepted[comers] = occurrence_of(to[comers]) < room[to[comers]]
    return accepted


def _depart(books: AgentBooks, rows: Array, to: Array, arrives: Array, mode: Array) -> None:
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


def arrive(books: AgentBooks) -> None:
    """Let parents take children along, and citizens arrive whose way ends by the next step."""
    arrays = books.population.arrays
    on_way = (arrays["moving_to"] >= 0).nonzero()[0]
    if arrays.keys() >= _CARE_COLUMNS and len(on_way):
        _take_along(books, on_way[arrays["left"][on_way] == books.step])
        on_way = (arrays["moving_to"] >= 0).nonzero()[0]
    books.travelled = len(on_way)
    arriving = on_way[arrays["arrives"][on_way] <= books.step + 1]
    if not len(arriving):
        return
    to, count = arrays["moving_to"][arriving], len(books.at_place)
    counts = np.bincount(to, minlength=count)
    books.coming_to -= counts
    books.at_place += counts
    arrays["place"][arriving] = to
    for name in ("moving_to", "moving_from", "mode"):
        arrays[name][arriving] = -1
    for name in ("arrives", "left"):
        arrays[name][arriving] = 0


def _take_along(books: Any, movers: Array) -> None:
    """Let children go along, as `kernel/care.py` says: `movers` have set out in this step."""
    arrays, population = books.population.arrays, books.population
    age, home = map(population.pull_column, ("age", "home"))
    place, to = arrays["place"], arrays["moving_to"]
    movers = movers[age[movers] >= ADULT_AGE]
    if not len(movers):
        return
    origin = arrays["moving_from"]
    errand = np.zeros(len(age), np.int8)  # 1 who takes children along, 2 who goes to work
    errand[movers] = 1 + (to[movers] == books.column("work", movers, -1))
    has_mover, is_left, is_taken = np.zeros(
        (3, len(population.places) + 1), bool
    )  # the last: nowhere
    has_mover[home[movers]] = is_left[origin[movers]] = True
    is_taken[origin[movers[errand[movers] == 1]]] = True
    has_mover[-1] = is_left[-1] = is_taken[-1] = False
    kids = (age < MIN_AGE_ALONE).nonzero()[0]
    kids = kids[is_left[place[kids]]]
    kids = kids[has_mover[home[kids]]]
    if not len(kids):
        return
    do, is_along = (population.pull_column(name)[kids] for name in ("item_do", "along"))
    is_free = ~_IS_BUSY[do]
    here = place[kids]
    is_free &= (here == home[kids]) & is_taken[here]
    may_go = is_along | is_free
    if not may_go.any():
        return
    kids, is_free, is_along, here = (each[may_go] for each in (kids, is_free, is_along, here))
    kid, parent = _parents(population, kids)

    def has_parent(is_chosen: Array) -> Array:
        return np.bincount(kid[is_chosen], minlength=len(kids)) > 0

    has_left = (errand[parent] > 0) & (origin[parent] == here[kid])
    takes_along = has_left & (errand[parent] == 1)
    stays = has_parent(place[parent] == here[kid])
    coin = draw_below(2, books.seed, population.ids[kids], books.step, ALONG_PURPOSE) == 0
    goes_along = has_parent(takes_along) & np.where(is_along, ~stays, is_free & (~stays | coin))
    # Its parent has gone to work.
    _set_column(books, "along", kids[is_along & ~goes_along & ~stays & has_parent(has_left)], False)
    if not goes_along.any():
        return
    escort = np.full(len(kids), len(age))
    np.minimum.at(escort, kid[takes_along], parent[takes_along])
    kids, escort = kids[goes_along], escort[goes_along]
    goal = to[escort].astype(np.int64)
    if books.capacity is not None:
        fits = _first_heard(books, kids, goal, books.capacity - books.at_place - books.coming_to)
        kids, escort, goal = kids[fits], escort[fits], goal[fits]
    modes = arrays["mode"][escort]
    _depart(books, kids, goal, arrays["arrives"][escort], modes)
    _set_column(books, "along", kids, goal != home[kids])
    tours = population.declared["tour"].words
    names = (*population.words[1:], None)
    codes = [tours.index(each if each in tours else tours[-1]) for each in names]
    _set_column(books, "tour", kids, np.array(codes)[np.maximum(modes, 0) - 1])


def _parents(population: Any, kids: Array) -> tuple[Array, Array]:
    """Return pairs of a position in `kids` and the row of a parent."""
    arrays, pairs = population.arrays, [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    if "friends" not in arrays:
        for position, row in enumerate(kids.tolist()):
            kin = (population.status_of(row).get("kin") or {}).items()
            rows = [population.find_row(id) for id, each in kin if each == "parent"]
            rows = [each for each in rows if each is not None]
            pairs.append((np.full(len(rows), position), np.array(rows, np.int64)))
    else:
        friends, friendship = map(population.pull_column, ("friends", "friendship"))
    for slot in range(friends.shape[1] if "friends" in arrays else 0):
        bonds, friend = friendship[:, slot][kids], friends[:, slot]
        at = (bonds >> KIN_BIT == _PARENT).nonzero()[0]
        if len(at):
            codes = friend[kids[at]].astype(np.int64)
            pairs.append((at[codes > 0], codes[codes > 0] - 1))  # others are no citizens
        elif not bonds.any() and not friend[kids].any():  # relations fill the first slots
            break
    kid, parent = (np.concatenate(each) for each in zip(*pairs, strict=True))
    return kid, parent


def _set_column(books: Any, name: str, rows: Array, values: Array | bool) -> None:
    population = books.population
    population.pull_column(name)[rows] = values
    population.note_written(name)


def travel_seconds(books: Any, place: Array, to: Array, mode: Array) -> Array:
    """Return the seconds of each way; −1 without a way, 0 from nowhere."""
    seconds = np.where(place < 0, 0, np.int64(-1))
    is_same = (mode == mode[:1]).all()
    for by in (mode[:1] if is_same else np.unique(mode)).tolist():
        at, name = ((mode == by) & (place >= 0)).nonzero()[0], books.population.decode(TEXT, by)
        with suppress(ConfigError):  # there is no such mode
            seconds[at] = city_queries.travel_seconds(books, place[at], to[at], [name])[:, 0]
    return seconds


def _one_by_one(books: AgentBooks, table: Table, reason: Array, value: Array) -> None:
    """Settle several moves of one citizen in order."""
    for entry in books.hearing_order(table.sender).tolist():
        single = Table(
            table.kind,
            table.sender[entry : entry + 1],
            {name: values[entry : entry + 1] for name, values in table.fields.items()},
        )
        settle(books, single)
        reason[entry], value[entry] = single.reason[0], single.value[0]
    table.set_outcomes(reason, value)


def stranded_count(books: Any) -> int:
    """Return how many are elsewhere and have no way home by any mode, while roads are closed."""
    if not getattr(books.city, "closed_roads", ()):
        return 0
    where = books.population.arrays["place"]
    rows = (where >= 0).nonzero()[0]
    place, home = where[rows], books.column("home", rows, -1)
    is_known = home >= 0
    return int((~books.city.have_ways(place[is_known], home[is_known])).sum())
