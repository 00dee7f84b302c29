"""Who is heard where several citizens want the same: drawn anew in each step, not by their ids."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import numpy as np
import pytest

from moothall.society import (
    Buy,
    CitizenAgent,
    Column,
    Firm,
    Grid,
    Move,
    Population,
    RowBlock,
    Rows,
    Society,
    Want,
    Work,
)
from society.life import Noting, living, said

CITIZENS = 6
SEEDS, STEPS = 48, 150
UNEVEN = 20.5
"""The chi-square of 5 degrees of freedom that one of a thousand fair draws exceeds."""

HERE, THERE = "0,0", "1,0"
WANTS: dict[str, Want] = {
    "a place": Move(THERE),
    "goods": Buy(HERE, "food", 100),
    "wages": Work(HERE, 900),
}


class OneFor(Grid):
    """Two cells: one for all, and one with room for a single citizen."""

    def __init__(self) -> None:
        super().__init__(2, 1, capacity=CITIZENS)

    def capacity(self, place: str) -> int:
        return 1 if place == THERE else CITIZENS


class WantsOne(RowBlock):
    """Wants the same as all others, and keeps the step in which it got it."""

    columns: ClassVar = {"got": Column("int8")}
    words = ("food",)

    def __init__(self, want: Want) -> None:
        super().__init__()
        self.wanted = want

    def step_rows(self, rows: Rows) -> None:
        """Note the answer of the step before; want it in the first step."""
        kind = type(self.wanted)
        rows["got"] = rows.answers(kind)[0]
        if rows.step == 0:
            of: dict[str, Any] = {name: getattr(self.wanted, name) for name in kind.__slots__}
            for name in {"to", "place"} & of.keys():
                of[name] = rows.city.ids().index(of[name])
            rows.want(kind, **of)


def firm() -> Firm:
    """A firm with one unit to sell, and money for one quarter of an hour of work."""
    return Firm("firm", HERE, 625, wage=2500, price=100, stock=1, sells=True)


def agent(id: int, want: Want) -> CitizenAgent:
    def live(me: CitizenAgent) -> None:
        if me.perceived.step == 0:
            me.want(want)
        me.status["got"] = [each.done for each in me.perceived.answers]

    return living(live, id=id, place=HERE, home=THERE, work=HERE, money=100)


async def winner_of_agents(want: Want, seed: int) -> int:
    people = [agent(1 + number, want) for number in range(CITIZENS)]
    async with Society(people, OneFor(), services=[firm()], seed=seed) as society:
        await society.run(steps=2)
    (winner,) = (each.id for each in people if each.status["got"] == [True])
    return int(winner)


async def winner_of_rows(want: Want, seed: int, full: int = 0) -> int:
    table = {name: np.zeros(CITIZENS, np.int64) for name in ("place", "work")}
    table |= {"money": np.full(CITIZENS, 100), "home": np.full(CITIZENS, 1)}
    population = Population(table, OneFor(), [WantsOne(want)], seed)
    for id in range(1, 1 + full):
        population.promote(id)
    async with Society(population, services=[firm()]) as society:
        await society.run(steps=2)
        (row,) = (each for each in range(CITIZENS) if population.status_of(each)["got"] == 1)
    return 1 + row


def uneven(winners: Counter[int]) -> float:
    """The chi-square of how often each won."""
    mean = winners.total() / CITIZENS
    return sum((winners[1 + number] - mean) ** 2 / mean for number in range(CITIZENS))


@pytest.mark.parametrize("thing", WANTS)
async def test_heard_citizen_gets_the_only_one_as_often_as_any_other(thing: str) -> None:
    want = WANTS[thing]
    winners = [await winner_of_agents(want, seed) for seed in range(SEEDS)]
    assert uneven(Counter(winners)) < UNEVEN
    for seed in range(0, SEEDS, 16):
        found = [await winner_of_rows(want, seed, full) for full in (0, 3)]
        assert found == [winners[seed]] * 2, "agents and rows are heard in one order"


@pytest.mark.parametrize("rows", (False, True))
async def test_heard_writers_to_a_full_mailbox_take_turns(rows: bool) -> None:
    class Writes(RowBlock):
        """Writes to the mayor in each step."""

        words = ("Hello",)

        def step_rows(self, rows: Rows) -> None:
            rows.say(rows.population.stranger("mayor"), "Hello")

    def write(me: CitizenAgent) -> None:
        me.send(said("mayor", content="Hello"))

    people: Any = [living(write, id=1 + number) for number in range(CITIZENS)]
    if rows:
        people = Population(CITIZENS, None, [Writes()], 7)
    async with Society(people, seed=7, mailbox=2) as society:
        mayor = Noting("mayor")
        society.add(mayor)
        await society.run(steps=STEPS)
    heard = Counter(int(sender) for sender, _, _ in mayor.heard)
    assert heard.total() == 2 * (STEPS - 1)
    assert uneven(heard) < UNEVEN
