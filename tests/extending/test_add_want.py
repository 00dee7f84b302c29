"""A kind of want, the service that settles it and the block that wants it, all of a user's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from moothall import Society
from moothall.foundation.errors import ConfigError
from moothall.society import (
    Answer,
    Books,
    CitizenAgent,
    CitizenMemory,
    Column,
    Pay,
    Population,
    RowBlock,
    Rows,
    Service,
    Want,
)


@dataclass(frozen=True, slots=True)
class Rent(Want):
    """Pay a month's rent, before the payments of the step."""

    turn: ClassVar[int] = 15
    months: int


class Landlord(Service):
    """Takes the rent."""

    takes: ClassVar = (Rent,)

    def settle(self, books: Books, sender: str, want: Any) -> Answer:
        """Take it from the tenant, who may have too little."""
        reason = books.pay(sender, self.id, want.months * 50_000)
        return Answer(want, not reason, reason)


class TenantBlock(RowBlock):
    """Pays a month's rent in each step."""

    columns: ClassVar = {"paid": Column("int32")}

    async def forward(self) -> None:
        """Want to pay it."""
        self.want(Rent(1))
        done = sum(answer.done for answer in self.perceived.answers)
        self.status["paid"] = self.status.get("paid", 0) + done

    def step_rows(self, rows: Rows) -> None:
        """Want to pay it, by rows."""
        rows.want(Rent, months=1)
        rows["paid"] += rows.answers(Rent)[0] == 1


def test_want_of_a_users_own_is_settled_by_the_service_that_takes_it() -> None:
    tenant = CitizenAgent("ada", memory=CitizenMemory({"money": 80_000}), blocks=[TenantBlock()])
    with Society([tenant], services=[Landlord("landlord")], seed=7) as town:
        town.run_sync(steps=3)
        assert tenant.status["paid"] == 1  # only the first month could be paid
        assert (tenant.status["money"], town.books.balances["landlord"]) == (30_000, 50_000)
        assert town.metrics[-1]["failures"] == 0


def test_want_of_a_users_own_is_settled_for_rows_as_for_agents() -> None:
    population = Population({"money": [80_000, 120_000, 10_000]}, None, [TenantBlock()], seed=7)
    with Society(population, services=[Landlord("landlord")], seed=7) as town:
        town.run_sync(steps=4)
        assert population.columns["paid"].tolist() == [1, 2, 0]
        assert population.columns["money"].tolist() == [30_000, 20_000, 10_000]
        assert town.books.balances["landlord"] == 150_000


class GenerousBlock(RowBlock):
    """Gives all away, and pays its rent."""

    async def forward(self) -> None:
        """Want both, the rent last."""
        self.want(Pay("landlord", self.status["money"]))
        self.want(Rent(1))

    def step_rows(self, rows: Rows) -> None:
        """Want both, the rent last."""
        rows.want(Pay, to=-1, cents=rows["money"])
        rows.want(Rent, months=1)


@pytest.mark.parametrize("rows", (False, True), ids=("agent", "rows"))
def test_want_of_a_users_own_is_settled_in_its_turn(rows: bool) -> None:
    """`Pay` has the turn 20 and `Rent` 15, so that too little is left to give."""
    memory = CitizenMemory({"money": 60_000})
    one: Any = [CitizenAgent(1, memory=memory, blocks=[GenerousBlock()])]
    if rows:
        one = Population({"money": [60_000]}, None, [GenerousBlock()], seed=7)
    with Society(one, services=[Landlord("landlord")], seed=7) as town:
        town.run_sync(steps=1)
        assert (town.books.balances["1"], town.books.balances["landlord"]) == (10_000, 50_000)


def test_rows_refuse_a_want_of_a_users_own_with_a_field_that_is_no_number() -> None:
    @dataclass(frozen=True, slots=True)
    class Wish(Want):
        strength: float

    class WishBlock(RowBlock):
        def step_rows(self, rows: Rows) -> None:
            rows.want(Wish, strength=1)

    with (
        Society(Population(1, None, [WishBlock()], seed=7), seed=7) as town,
        pytest.raises(ConfigError, match="Wish: its field 'strength' must be int or str, got"),
    ):
        town.run_sync(steps=1)
