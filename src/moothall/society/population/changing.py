"""Births and deaths in a population, after the commit stage of a step: ids are never used twice.

Rows close up: a row's number changes when one before it leaves, its id never. So what refers to
citizens from one step to the next, in columns of one's own too, holds ids.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

from moothall import ConfigError
from moothall.society.arrays import Array, np
from moothall.society.columns.column import Column, lazy_zeros
from moothall.society.columns.lives import Changes
from moothall.society.columns.register import is_number
from moothall.society.kernel.commit import Books
from moothall.society.kernel.draw import id_words, number_or_text
from moothall.society.kernel.wants import AGENT_ID, PLACE, field_kinds, id_order
from moothall.society.population.population import Population
from moothall.society.population.row_messages import PARTS, Messages

_NO_COLUMNS: Final[Mapping[str, Any]] = MappingProxyType({})


def change_rows(society: Any) -> None:
    """Let rows leave and come, as the step has asked."""
    population: Population = society.population
    changes, population.changes = population.changes, Changes()
    if not changes.births and not changes.deaths:
        return
    population.note_change()
    is_leaving = _remove_dead(population, changes, society.books)
    born = _newborn_columns(population, changes)
    staying = np.flatnonzero(~is_leaving)
    count = len(born[""]) if born else 0
    with_room = _those_with_room(society.books, population, staying, born, count)
    new_columns = {name: values[with_room] for name, values in born.items() if name}
    new_ids = np.array(_new_ids(population, len(with_room), society.services), np.uint64)
    rearrange(society.books, staying, new_ids, new_columns)


def _new_ids(population: Population, count: int, services: Mapping[str, object]) -> list[int]:
    """Return ids above all that there have been, but none of a service."""
    ids = itertools.count(population.next_id)
    return [*itertools.islice((id for id in ids if str(id) not in services), count)]


def renew(books: Any) -> None:
    """Give a row to each agent that has come, and take those of who has left, all at once."""
    population: Population = books.register
    coming, population.coming, books.holders = population.coming, {}, {}
    leaving, population.leaving = population.leaving, []
    staying = np.delete(np.arange(len(population)), np.array(leaving, np.int64))
    rearrange(books, staying, id_words(map(number_or_text, coming)), coming=coming)
    for id, agent in coming.items():
        status = agent.memory.status
        population.take_in(agent, population.row_of(id), is_new=True)
        books.write_settled(id, status)
    if population.places:
        books.count_places()


@contextmanager
def rows_renumbered(services: Iterable[Any], population: object) -> Iterator[None]:
    """Have services keep what they have of each citizen where citizens get other rows."""
    states = [(each, each.state_dict()) for each in services]
    yield
    for service, state in states:
        service.of_population(population)
        vars(service)["_register_id"] = id(population)
        service.load_state_dict(state)


def rearrange(
    books: Any,
    staying: Array,
    new_ids: Any,
    new_columns: Mapping[str, object] = _NO_COLUMNS,
    coming: Mapping[str, Any] = _NO_COLUMNS,
) -> None:
    """Let all rows leave but those that stay, and new ones come: some are agents, by id."""
    population: Population = books.population
    population.note_change()
    ids = np.concatenate([population.ids[staying], np.array(new_ids, np.uint64)])
    first, count = len(population) - len(population.names), len(staying)
    names = {
        at: population.id_of(int(staying[at])) for at in np.flatnonzero(staying >= first).tolist()
    }
    names |= {count + number: id for number, id in enumerate(coming) if not is_number(id)}
    by_name = sorted(names, key=lambda at: id_order(names[at]))
    order: Any = slice(None)
    if names or (ids[1:] < ids[:-1]).any():
        numeric = np.delete(np.arange(len(ids)), by_name)
        order = np.append(numeric[np.argsort(ids[numeric], kind="stable")], by_name).astype(
            np.int64
        )
    new_rows = np.full(len(population) + 1, -1, np.int64)  # the last: of −1
    new_rows[staying] = np.argsort(np.arange(len(ids))[order], kind="stable")[:count]
    new_codes = _codes_of_strangers(population, coming)
    with rows_renumbered(books.row_services, population):
        _renumber_references(books, new_rows)
        for column_name, column in population.declared.items():
            values, new_values = population.arrays[column_name], column.new_array(len(new_ids))
            if column_name in new_columns:
                new_values[...] = new_columns[column_name]
            if column.citizen:
                positions = values.nonzero()
                values[positions] = _renumbered_codes(population, values[positions], new_rows)
            population.arrays[column_name] = _rearranged(column, values, staying, new_values, order)
        population.names = [names[at] for at in by_name]
        numbers = ids[order][: len(ids) - len(names)]
        population.next_id = max(population.next_id, *map(int, numbers[-1:] + np.uint64(1)), 0)
        population.settle_ids(ids[order], coming.values())
        _recognize(population, new_codes)
    if population.places:
        books.count_places()
    if (society := population.society) is not None:
        agent_rows = new_rows[np.array(society.new_agent_rows, np.int64)]
        society.new_agent_rows = agent_rows[agent_rows >= 0].tolist()


def _codes_of_strangers(population: Population, coming: Iterable[str]) -> dict[int, str]:
    """Return the codes in columns by which those who come were known before, with their ids."""
    return {population.stranger(id): id for id in {*population.strangers} & {*coming}}


def _recognize(population: Population, strangers: Mapping[int, str]) -> None:
    """Have columns name those who have come by their rows, and no more as strangers."""
    for name, column in population.declared.items() if strangers else ():
        if column.citizen:
            values = population.arrays[name]
            for code, id in strangers.items():
                values[values == code] = population.row_of(id) + 1


def _rearranged(column: Column, values: Array, staying: Array, new: Array, order: Array) -> Array:
    """Return a column of those that stay and of new citizens."""
    if not column.slots:
        return np.concatenate([values[staying], new])[order]
    array = lazy_zeros((len(staying) + len(new), *values.shape[1:]), values.dtype)
    for slot in range(values.shape[1]):  # what is not written takes no memory
        new_slot = new[:, slot] if slot < new.shape[1] else np.zeros(len(new), values.dtype)
        values_in_slot = np.concatenate([values[staying, slot], new_slot])
        if values_in_slot.any():
            array[:, slot] = values_in_slot[order]
    return array


def _remove_dead(population: Population, changes: Changes, books: Books) -> Array:
    """Return which rows leave, after their money and savings have gone to heirs."""
    is_leaving = np.zeros(len(population), bool)
    for rows, _ in changes.deaths:
        is_leaving[rows] = True
    for rows, heirs in changes.deaths:
        for row, heir in zip(rows.tolist(), heirs.tolist(), strict=True):
            citizen = population.id_of(row)
            if not (cents := books.owned(citizen)):
                continue
            if not 0 <= heir < len(is_leaving) or is_leaving[heir]:
                raise ConfigError(
                    f"citizen {citizen} leaves with {cents} cents: remove(heirs=) must name rows "
                    "that stay"
                )
            books.bequeath(citizen, population.id_of(heir))
    return is_leaving


def _newborn_columns(population: Population, changes: Changes) -> dict[str, Any]:
    """Return the columns of all that are born, in the order of blocks, calls and parents."""
    if not changes.births:
        return {}
    order = {block.name: number for number, block in enumerate(population.blocks)}
    names = dict.fromkeys(name for *_, columns in changes.births for name in columns)
    parts = changes.births
    keys = [
        np.concatenate([np.full(len(each[2]), value(each)) for each in parts])
        for value in (lambda each: order[each[0]], lambda each: each[1])
    ]
    parents = np.concatenate([each[2] for each in parts])
    order_of_births = np.lexsort((parents, keys[1], keys[0]))
    born = {"": parents[order_of_births]}
    for name in names:
        column = population.declared[name]
        values = [
            columns[name] if name in columns else column.new_array(len(rows))
            for _, _, rows, columns in parts
        ]
        born[name] = _in_column_type(population, name, np.concatenate(values)[order_of_births])
    return born


def _in_column_type(population: Population, name: str, values: Array) -> Array:
    """Return values in the type of a column. Raises ConfigError: one does not fit."""
    dtype = population.arrays[name].dtype
    with np.errstate(invalid="ignore", over="ignore"):
        array = values.astype(dtype)
    fits = np.isfinite(array) if dtype.kind == "f" else array == values
    if not fits.all():
        raise ConfigError(f"add: {name} must fit its column of {dtype}")
    is_place = population.declared[name].dtype == PLACE
    if is_place and len(array) and not -1 <= array.min() <= array.max() < len(population.places):
        raise ConfigError(f"add: {name} must be the number of a place, or -1")
    return array


def _those_with_room(
    books: Any, population: Population, staying: Array, born: dict[str, Any], count: int
) -> Array:
    """Return who of those that are born has room, by number; without a place they are at home."""
    everyone = np.arange(count)
    if not count or not population.places:
        return everyone
    if "home" in born:
        place = born.setdefault("place", born["home"].copy())
        is_nowhere = place < 0
        place[is_nowhere] = born["home"][is_nowhere]
    if "place" not in born or books.capacity is None:
        return everyone
    arrays, place_count = population.arrays, len(population.places)
    occupied = np.zeros(place_count, np.int64)
    for name in ("place", "moving_to"):
        places = arrays[name][staying]
        occupied += np.bincount(places[places >= 0], minlength=place_count)
    chosen = []
    for number, place in enumerate(born["place"].tolist()):
        if place >= 0:
            if occupied[place] >= books.capacity[place]:
                continue
            occupied[place] += 1
        chosen.append(number)
    return np.array(chosen, np.int64)


def _renumbered_rows(population: Population, rows: Array, new_rows: Array) -> Array:
    """Return rows, or services below 0, by their new numbers; who leaves is a stranger."""
    renumbered = np.where(rows >= 0, new_rows[np.maximum(rows, 0)], rows)
    for cell in zip(*((rows >= 0) & (renumbered < 0)).nonzero(), strict=True):
        renumbered[cell] = population.stranger(population.id_of(int(rows[cell])))
    return renumbered


def _renumbered_codes(population: Population, codes: Array, new_rows: Array) -> Array:
    """Return rows + 1, or agents that are no rows, by their new numbers."""
    rows = _renumbered_rows(population, np.where(codes > 0, codes - np.int64(1), codes), new_rows)
    return np.where(codes > 0, rows + (rows >= 0), codes)


def _renumber_references(books: Any, new_rows: Array) -> None:
    """Have answers, messages and wants name rows by their new numbers; those of who leaves go."""
    population = books.population
    wants = getattr(population.society, "want_tables", None) or {}
    tables = (*books.answers.values(), *wants.values())
    for table in {id(each): each for each in tables}.values():  # settled wants are answers
        is_staying = new_rows[table.sender] >= 0
        kinds = field_kinds(table.kind)
        table.fields = {
            name: _renumbered_rows(population, values[is_staying], new_rows)
            if kinds[name] == AGENT_ID
            else values[is_staying]
            for name, values in table.fields.items()
        }
        table.sender = new_rows[table.sender[is_staying]]
        if table.reason is not None:
            table.reason, table.value = table.reason[is_staying], table.value[is_staying]
    if books.messages is not None:
        is_staying = new_rows[books.messages.receiver] >= 0
        parts = {name: getattr(books.messages, name)[is_staying] for name in PARTS}
        parts["receiver"] = new_rows[parts["receiver"]]
        parts["sender"] = _renumbered_rows(population, parts["sender"], new_rows)
        books.messages = Messages(**parts)
