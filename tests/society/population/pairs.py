"""Populations that live as rows, as full agents, and in part as each: all must be equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from tests.society.blocks.living import town

from moothall.society import Move, Society
from moothall.society.blocks.columns import ACT, ACTIVITIES, ITEM, act_code
from moothall.society.blocks.row_block import RowBlock
from moothall.society.city.city import City
from moothall.society.population.engine import LocalEngine
from moothall.society.population.population import Population

CITY = town(shop_2=(9, 20))
PLACES = CITY.ids()


class Plain:
    """A city that answers for one place at a time."""

    def __init__(self, city: City) -> None:
        self.modes = city.modes
        for name in ("ids", "kinds", "kind", "by_kind", "capacity", "is_open", "seconds", "near"):
            setattr(self, name, getattr(city, name))

    def __contains__(self, place: object) -> bool:
        return place in self.ids()  # type: ignore[attr-defined]


class Todo(RowBlock):
    """A plan of one item, drawn anew in each step, and now and then a way to another place."""

    columns = {**ACT, **ITEM}  # noqa: RUF012
    words = ("walk",)
    does: Any = ("social", "shop", "work", "eat", "leisure", "browse")

    def fits_rows(self, rows: Any) -> Any:
        return 0.0

    def before_rows(self, rows: Any) -> None:
        codes = np.array([act_code(each) for each in self.does])
        rows["item_do"] = codes[rows.below(len(codes), "todo")].astype(np.uint8)
        rows["item_where"] = np.maximum(rows["place"], 0)
        rows["item_until"][...] = 86_400
        rows["act"][...] = act_code("idle")
        to = rows.below(len(PLACES), "todo.to")
        rows.want(Move, rows.below(8, "todo.move") == 0, to=to, mode="walk")

    def step_rows(self, rows: Any) -> None:
        """Nothing."""

    def to_status(self, population: Population, row: int, status: dict[str, Any]) -> None:
        arrays = population.arrays
        do, where = int(arrays["item_do"][row]), int(arrays["item_where"][row])
        if do:
            item = {"do": ACTIVITIES[do - 1], "where": PLACES[where], "from": 0, "until": 86_400}
            status.update(plan=[item], now=0)

    def from_status(self, population: Population, row: int, status: dict[str, Any]) -> None:
        for item in status.get("plan") or ():
            population.arrays["item_do"][row] = act_code(item["do"])
            population.arrays["item_where"][row] = population.place_number(item["where"])
            population.arrays["item_until"][row] = item["until"]


Make = Callable[[], tuple[Population, Iterable[Any]]]


async def lived(
    make: Make,
    steps: int,
    *,
    promoted: Iterable[int] = (),
    threads: int = 1,
    apart: bool = False,
    step: str = "15min",
    start: str = "2026-01-05T00:00",
    interventions: Iterable[Any] = (),
) -> list[dict[str, Any]]:
    """All columns, the services' states and how many messages there were, after each step."""
    population, services = make()
    for row in promoted:
        population.promote(population.id_of(row))
    seen: list[dict[str, Any]] = []

    def look(row: dict[str, Any]) -> None:
        books = population.society.books
        for at, agent in population.agents.items():
            population.pull(at, agent.memory.status)
        columns = {name: np.array(values) for name, values in population.arrays.items()}
        seen.append(columns | {"services": books.state_dict(), "messages": row["messages"]})

    engine = LocalEngine(threads=threads, apart=apart)
    async with Society(population, services=services, engine=engine, start=start) as society:
        for each in interventions:
            society.intervene(each)
        await society.run(steps=steps, step=step, progress=look)
        assert not society.failures, list(society.failures)
    return seen


def same(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    """Fail where two lives differ, and say in which step, column and rows."""
    assert len(one) == len(other)
    for step, (mine, theirs) in enumerate(zip(one, other, strict=True)):
        assert set(mine) == set(theirs)
        for name, values in mine.items():
            if isinstance(values, np.ndarray):
                assert values.dtype == theirs[name].dtype
                differ = np.flatnonzero((values != theirs[name]).reshape(len(values), -1).any(1))
                assert not len(differ), (
                    f"step {step}, column {name}, rows {differ[:5]}: {values[differ[:3]]} and "
                    f"{theirs[name][differ[:3]]}"
                )
            else:
                assert values == theirs[name], f"step {step}: {name}"


async def all_equal(make: Make, steps: int, **options: Any) -> list[Any]:
    """Live as rows, and as agents and rows by turns, each row alone; fail if these lives differ."""
    by_rows = await lived(make, steps, **options)
    half = range(0, len(by_rows[0]["money"]), 2)
    same(by_rows, await lived(make, steps, promoted=half, threads=2, apart=True, **options))
    return by_rows
