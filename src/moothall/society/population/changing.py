"""Births and deaths in a population, after the commit stage of a step: ids are never used twice.

Rows close up: a row's number changes when one before it leaves, its id never. So what refers to
citizens from one step to the next, in columns of one's own too, holds ids.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from moothall import ConfigError
from moothall.society.arrays import Array, np
from moothall.society.columns.column import Column, lazy_zeros
from moothall.society.columns.lives import Changes
from moothall.society.columns.register import is_number
from moothall.society.kernel.commit import Books
from moothall.society.kernel.draw import id_words, number_of
from moothall.society.kernel.wants import AGENT_ID, PLACE, field_kinds, id_order
from moothall.society.population.agent_books import rows_renumbered
from moothall.society.population.population import Population
from moothall.society.population.row_messages import PARTS, Messages

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


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
    room = _room(society.books, population, staying, born, count)
    new = {name: values[room] for name, values in born.items() if name}
    words = np.array(_new_ids(population, len(room), society.services), np.uint64)
    rearrange(society, staying, words, new)


def _new_ids(population: Population, count: int, services: Mapping[str, object]) -> list[int]:
    """Return ids above all that there have been, but none of a service."""
    ids = itertools.count(population.next_id)
    return [*itertools.islice((id for id in ids if str(id) not in services), count)]


def enter_row(society: Any, agent: Any) -> None:
    """Give a citizen that comes into a town of rows a row of its own, if it has none."""
    population: Population = society.population
    id, status = str(agent.id), agent.memory.status
    if id not in society.books.where:
        society.books.check_newcomer(id, status)
        everyone = np.arange(len(population))
        rearrange(
            society, everyone, [id_words([number_of(id)])[0]], name="" if is_number(id) else id
        )
        row = population.row_of(id)
        population.agents[row] = agent
        population.full[row] = True
        society.books.write_settled(id, status)
        if population.places:
            society.books.count_places()


def leave_row(society: Any, id: str) -> None:
    """Remove the row of a citizen that has left a town of rows."""
    population: Population = society.population
    if id in society.books.where:
        row = population.row_of(id)
        population.agents.pop(row, None)
        rearrange(society, np.delete(np.arange(len(population)), row))


def rearrange(
    society: Any,
    staying: Array,
    new_ids: Any = (),
    new: Mapping[str, object] = _NONE,
    name: str = "",
) -> None:
    """Let all rows leave but those that stay, and new ones come, one of them under a name."""
    population: Population = society.population
    population.note_change()
    ids = np.concatenate([population.ids[staying], np.array(new_ids, np.uint64)])
    first, count = len(population) - len(population.names), len(staying)
    names = {
        at: population.id_of(int(staying[at])) for at in np.flatnonzero(staying >= first).tolist()
    }
    names |= {len(ids) - 1: name} if name else {}
    last_rows = sorted(names, key=lambda at: id_order(names[at]))
    order: Any = slice(None)
    if names or (ids[1:] < ids[:-1]).any():
        plain = np.delete(np.arange(len(ids)), last_rows)
        order = np.append(plain[np.argsort(ids[plain], kind="stable")], last_rows).astype(np.int64)
    moved = np.full(len(population) + 1, -1, np.int64)  # the last: of −1
    moved[staying] = np.argsort(np.arange(len(ids))[order], kind="stable")[:count]
    with rows_renumbered(society.books.row_services, population):
        _renumber(society, moved)
        for column_name, column in population.declared.items():
            values, of_new = population.arrays[column_name], column.new_array(len(new_ids))
            if column_name in new:
                of_new[...] = new[column_name]
            if column.citizen:
                some = values.nonzero()
                values[some] = _codes(population, values[some], moved)
            population.arrays[column_name] = _column_after(column, values, staying, of_new, order)
        population.names = [names[at] for at in last_rows]
        numbers = ids[order][: len(ids) - len(names)]
        population.next_id = max(population.next_id, *map(int, numbers[-1:] + np.uint64(1)), 0)
        settle_ids(population, ids[order])
    if population.places:
        society.books.count_places()
    turned = moved[np.array(society.new_agent_rows, np.int64)]
    society.new_agent_rows = turned[turned >= 0].tolist()


def _column_after(column: Column, values: Array, staying: Array, new: Array, order: Array) -> Array:
    """Return a column of those that stay and of new citizens."""
    if not column.slots:
        return np.concatenate([values[staying], new])[order]
    array = lazy_zeros((len(staying) + len(new), *values.shape[1:]), values.dtype)
    for slot in range(values.shape[1]):  # what is not written takes no memory
        of_new = new[:, slot] if slot < new.shape[1] else np.zeros(len(new), values.dtype)
        values_in_slot = np.concatenate([values[staying, slot], of_new])
        if values_in_slot.any():
            array[:, slot] = values_in_slot[order]
    return array


def settle_ids(population: Population, ids: Array) -> None:
    """Give a population these ids, rising, one for each row; full agents keep theirs."""
    ids.flags.writeable = False
    agents = {str(agent.id): agent for agent in population.agents.values()}
    population.ids, population.until = ids, len(ids)
    population.full = np.zeros(len(ids), bool)
    population.agents = {population.row_of(id): agent for id, agent in agents.items()}
    population.full[list(population.agents)] = True


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
    at = np.lexsort((parents, keys[1], keys[0]))
    born = {"": parents[at]}
    for name in names:
        column = population.declared[name]
        values = [
            columns[name] if name in columns else column.new_array(len(rows))
            for _, _, rows, columns in parts
        ]
        born[name] = _in_column_type(population, name, np.concatenate(values)[at])
    return born


def _in_column_type(population: Population, name: str, values: Array) -> Array:
    """Return values in the type of a column. Raises ConfigError: one does not fit."""
    dtype = population.arrays[name].dtype
    with np.errstate(invalid="ignore", over="ignore"):
        cast = values.astype(dtype)
    fits = np.isfinite(cast) if dtype.kind == "f" else cast == values
    if not fits.all():
        raise ConfigError(f"add: {name} must fit its column of {dtype}")
    is_place = population.declared[name].dtype == PLACE
    if is_place and len(cast) and not -1 <= cast.min() <= cast.max() < len(population.places):
        raise ConfigError(f"add: {name} must be the number of a place, or -1")
    return cast


def _room(
    books: Any, population: Population, staying: Array, born: dict[str, Any], count: int
) -> Array:
    """Return who of those that are born has room, by number; without a place they are at home."""
    everyone = np.arange(count)
    if not count or not population.places:
        return everyone
    if "home" in born:
        place = born.setdefault("place", born["home"].copy())
        nowhere = place < 0
        place[nowhere] = born["home"][nowhere]
    if "place" not in born or books.capacity is None:
        return everyone
    arrays, many = population.arrays, len(population.places)
    occupied = np.zeros(many, np.int64)
    for name in ("place", "moving_to"):
        at = arrays[name][staying]
        occupied += np.bincount(at[at >= 0], minlength=many)
    chosen = []
    for number, place in enumerate(born["place"].tolist()):
        if place >= 0:
            if occupied[place] >= books.capacity[place]:
                continue
            occupied[place] += 1
        chosen.append(number)
    return np.array(chosen, np.int64)


def _renumbered_rows(population: Population, rows: Array, moved: Array) -> Array:
    """Return rows, or services below 0, by their new numbers; who leaves is a stranger."""
    new = np.where(rows >= 0, moved[np.maximum(rows, 0)], rows)
    for at in zip(*((rows >= 0) & (new < 0)).nonzero(), strict=True):
        new[at] = population.stranger(population.id_of(int(rows[at])))
    return new


def _codes(population: Population, codes: Array, moved: Array) -> Array:
    """Return rows + 1, or agents that are no rows, by their new numbers."""
    new = _renumbered_rows(population, np.where(codes > 0, codes - np.int64(1), codes), moved)
    return np.where(codes > 0, new + (new >= 0), codes)


def _renumber(society: Any, moved: Array) -> None:
    """Have answers, messages and wants name rows by their new numbers; those of who leaves go."""
    population, books = society.population, society.books
    tables = (*books.answers.values(), *(society.want_tables or {}).values())
    for table in {id(each): each for each in tables}.values():  # settled wants are answers
        stays = moved[table.sender] >= 0
        kinds = field_kinds(table.kind)
        table.fields = {
            name: _renumbered_rows(population, values[stays], moved)
            if kinds[name] == AGENT_ID
            else values[stays]
            for name, values in table.fields.items()
        }
        table.sender = moved[table.sender[stays]]
        if table.reason is not None:
            table.reason, table.value = table.reason[stays], table.value[stays]
    if books.messages is not None:
        stays = moved[books.messages.receiver] >= 0
        parts = {name: getattr(books.messages, name)[stays] for name in PARTS}
        parts["receiver"] = moved[parts["receiver"]]
        parts["sender"] = _renumbered_rows(population, parts["sender"], moved)
        books.messages = Messages(**parts)
