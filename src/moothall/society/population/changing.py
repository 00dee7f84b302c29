"""Births and deaths in a population, after the commit stage of a step: ids are never used twice.

Rows close up: a row's number changes when one before it leaves, its id never. So what refers to
citizens from one step to the next, in columns of one's own too, holds ids.
"""

from __future__ import annotations

from typing import Any

from moothall import ConfigError
from moothall.society.arrays import np
from moothall.society.columns.lives import Changes
from moothall.society.kernel.wants import PARTY, fields_in_rows
from moothall.society.population.messages import PARTS, Messages
from moothall.society.population.population import Population


def change_rows(society: Any) -> None:
    """Let rows leave and come, as the step has asked."""
    population: Population = society.population
    changes, population.changes = population.changes, Changes()
    if not changes.births and not changes.deaths:
        return
    population.note_change()
    is_leaving = _buried(population, changes)
    born = _born(population, changes)
    staying = np.flatnonzero(~is_leaving)
    moved = np.full(len(population) + 1, -1, np.int64)  # the last: of −1
    moved[staying] = np.arange(len(staying))
    _close_up(society.books, population, moved)
    count = len(born[""]) if born else 0
    arrays = population.arrays
    room = _room(society.books, population, staying, born, count)
    for name, column in population.declared.items():
        new = column.new_array(len(room))
        if name in born:
            new[...] = born[name][room]
        arrays[name] = np.concatenate([column.array_of(arrays[name][staying]), new])
    first = population.next_id
    ids = np.arange(first, first + len(room), dtype=np.uint64)
    population.next_id = first + len(room)
    settle_ids(population, np.concatenate([population.ids[staying], ids]))
    if population.places:
        society.books.count_places()


def settle_ids(population: Population, ids: Any) -> None:
    """Give a population these ids, rising, one for each row; full agents keep theirs."""
    ids.flags.writeable = False
    agents = {str(agent.id): agent for agent in population.agents.values()}
    population.ids, population.until = ids, len(ids)
    population.full = np.zeros(len(ids), bool)
    population.agents = {population.row_of(id): agent for id, agent in agents.items()}
    population.full[list(population.agents)] = True


def _buried(population: Population, changes: Changes) -> Any:
    """Return which rows leave, after their money has gone to heirs."""
    is_leaving = np.zeros(len(population), bool)
    for rows, _ in changes.deaths:
        is_leaving[rows] = True
    money = population.arrays["money"]
    for rows, heirs in changes.deaths:
        for row, heir in zip(rows.tolist(), heirs.tolist(), strict=True):
            cents = int(money[row])
            if not cents:
                continue
            if not 0 <= heir < len(is_leaving) or is_leaving[heir]:
                citizen = population.id_of(row)
                raise ConfigError(
                    f"citizen {citizen} leaves with {cents} cents: remove(heirs=) must name rows "
                    "that stay"
                )
            money[row] -= cents
            money[heir] += cents
    return is_leaving


def _born(population: Population, changes: Changes) -> dict[str, Any]:
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
    born: dict[str, Any] = {"": parents[at]}
    for name in names:
        column = population.declared[name]
        values = [
            columns[name] if name in columns else column.new_array(len(rows))
            for _, _, rows, columns in parts
        ]
        born[name] = _fitting(population, name, np.concatenate(values)[at])
    return born


def _fitting(population: Population, name: str, values: Any) -> Any:
    """Return values in the type of a column. Raises ConfigError: one does not fit."""
    own = population.arrays[name].dtype
    with np.errstate(invalid="ignore", over="ignore"):
        cast = values.astype(own)
    fits = np.isfinite(cast) if own.kind == "f" else cast == values
    if not fits.all():
        raise ConfigError(f"add: {name} must fit its column of {own}")
    is_place = name in ("place", "home") and len(cast)
    if is_place and not -1 <= cast.min() <= cast.max() < len(population.places):
        raise ConfigError(f"add: {name} must be the number of a place, or -1")
    return cast


def _room(
    books: Any, population: Population, staying: Any, born: dict[str, Any], count: int
) -> Any:
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


def _close_up(books: Any, population: Population, moved: Any) -> None:
    """Have answers and messages name rows by their new numbers; those of who left go."""

    def renamed(rows: Any) -> Any:
        """Return rows, or services below 0, by their new numbers; who left is a stranger."""
        new = np.where(rows >= 0, moved[np.maximum(rows, 0)], rows)
        for at in np.flatnonzero((rows >= 0) & (new < 0)).tolist():
            new[at] = population.stranger(population.id_of(int(rows[at])))
        return new

    for table in books.answers.values():
        stays = moved[table.sender] >= 0
        kinds = fields_in_rows(table.kind)
        table.fields = {
            name: renamed(values[stays]) if kinds[name] == PARTY else values[stays]
            for name, values in table.fields.items()
        }
        table.sender = moved[table.sender[stays]]
        table.reason, table.value = table.reason[stays], table.value[stays]
    if books.messages is not None:
        stays = moved[books.messages.receiver] >= 0
        parts = {name: getattr(books.messages, name)[stays] for name in PARTS}
        parts["receiver"] = moved[parts["receiver"]]
        parts["sender"] = renamed(parts["sender"])
        books.messages = Messages(**parts)
