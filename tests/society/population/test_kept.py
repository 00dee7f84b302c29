"""What blocks keep beside their columns is part of a society's state."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas
import pytest

from moothall import Journal, Society
from moothall.foundation.errors import StateError
from moothall.society import CitizenAgent, CitizenBlock, Column, Population, RowBlock


class Bar(RowBlock):
    """Counts who came; its history, and how full each seat was, are the model's own."""

    columns: ClassVar[dict[str, Column]] = {"n": Column("int64")}
    whole = True
    keeps = ("total", "last", "history", "seats")

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self.last = np.int64(0)
        self.history: list[dict[str, Any]] = []
        self.seats = np.zeros((2, 3))
        self.rule = max  # no state needs it

    def step_rows(self, rows: Any) -> None:
        self.total += len(rows)
        self.last = self.last + 2
        self.history.append({"total": self.total, "half": self.total / 2})
        self.seats[self.total % 2] += self.total
        so_far = sum(each["half"] for each in self.history) + self.seats.sum() + self.last
        rows["n"] = np.full(len(rows), int(so_far))


def bar() -> Society:
    return Society(Population(3, None, [Bar()], 1))


async def test_kept_attributes_of_rows_are_restored_with_a_state_as_they_were() -> None:
    async with bar() as first, bar() as second:
        await first.run(steps=5)
        second.load_state_dict(first.state_dict())
        for each in (first, second):
            await each.run(steps=3)
        own = [each.population.columns["n"].tolist() for each in (first, second)]
        assert own[0] == own[1]
        assert first.state_dict() == second.state_dict()


async def test_kept_attributes_of_rows_are_those_of_a_run_that_failed_and_is_resumed(
    tmp_path: Path,
) -> None:
    def fail(row: dict[str, Any]) -> None:
        if row["step"] == 4:
            raise RuntimeError("amid")

    with Journal(tmp_path / "j.db") as journal:
        async with bar() as whole:
            await whole.run(steps=8)
        async with Society(Population(3, None, [Bar()], 1), journal=journal) as broken:
            with pytest.raises(RuntimeError, match="amid"):
                await broken.run(steps=8, run_id="b", save_every=2, progress=fail)
        async with Society(Population(3, None, [Bar()], 1), journal=journal) as resumed:
            await resumed.run(steps=8, run_id="b", save_every=2)
    assert resumed.population.columns["n"].tolist() == whole.population.columns["n"].tolist()


class Book(RowBlock):
    """Keeps what has no JSON form."""

    columns: ClassVar[dict[str, Column]] = {"n": Column("int64")}
    whole = True

    def __init__(self, changes: str = "") -> None:
        super().__init__()
        self.orders: deque[int] = deque([1])
        self.names = {1: "a"}
        self.bank = Bank()
        self.chance = np.random.default_rng(1)
        self.table = pandas.DataFrame({"name": ["a"], "cents": [1]})
        self.rule = Rule()
        self.texts = np.array(["a", None], object)
        self.changes = changes

    def step_rows(self, rows: Any) -> None:
        if self.changes == "orders":
            self.orders.append(2)
        elif self.changes == "names":
            self.names[2] = "b"
        elif self.changes == "bank":
            self.bank.cents += 1
        elif self.changes == "chance":
            self.chance.random()
        elif self.changes == "table":
            self.table.loc[0, "cents"] += 1
        elif self.changes == "rule":
            self.rule(1)
        elif self.changes == "texts":
            self.texts[1] = "b"


class Rule:
    """A function with a memory."""

    def __init__(self) -> None:
        self.asked: deque[int] = deque()

    def __call__(self, value: int) -> int:
        self.asked.append(value)
        return value


class Bank:
    cents = 0

    def __init__(self) -> None:
        self.cents = 5


@pytest.mark.parametrize("name", ("orders", "names", "bank", "chance", "table", "rule", "texts"))
async def test_attribute_of_a_block_that_changed_and_that_it_does_not_keep_is_refused(
    name: str,
) -> None:
    async with Society(Population(3, None, [Book(name)], 1)) as society:
        await society.run(steps=2)
        with pytest.raises(StateError, match=f"'Book' has changed its '{name}'"):
            society.state_dict()


async def test_attribute_of_a_block_that_it_does_not_keep_and_that_is_unchanged_is_left_alone() -> (
    None
):
    async with Society(Population(3, None, [Book()], 1)) as society:
        await society.run(steps=2)
        assert "kept" in society.state_dict()


class Tally(CitizenBlock):
    keeps = ("days",)

    def __init__(self) -> None:
        super().__init__()
        self.days: list[int] = []

    def fits(self, context: Any) -> float:
        return 1.0

    async def forward(self) -> None:
        self.days.append(len(self.days))


async def test_kept_attributes_of_a_citizens_blocks_are_part_of_its_state() -> None:
    first, second = (Tally() for _ in "ab")
    async with Society(seed=1) as one, Society(seed=1) as other:
        one.add(CitizenAgent("ada", blocks=[first]))
        other.add(CitizenAgent("ada", blocks=[second]))
        await one.run(steps=3)
        other.load_state_dict(one.state_dict())
    assert second.days == first.days == [0, 1, 2]
