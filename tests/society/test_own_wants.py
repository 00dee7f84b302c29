"""A kind of want, the service that settles it and the block that wants it, all of a user's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import pytest

from moothall import Action, Society
from moothall.foundation.errors import ConfigError
from moothall.society import (
    Answer,
    Books,
    CitizenAgent,
    CitizenBlock,
    CitizenMemory,
    Column,
    Feed,
    Pay,
    Population,
    Post,
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


@dataclass(frozen=True, slots=True)
class Mute(Want):
    """See a citizen's posts no longer.

    Attributes:
        id: the citizen's id
    """

    id: Annotated[str, "who"]


class MutingFeed(Feed):
    """Shows nobody the posts of whom they muted."""

    takes: ClassVar = (*Feed.takes, Mute)
    muted: frozenset[tuple[str, str]] = frozenset()

    def settle(self, books: Books, sender: str, want: Any) -> Answer:
        """Mute a citizen, or do what every feed does."""
        if not isinstance(want, Mute):
            return super().settle(books, sender, want)
        self.muted |= {(sender, want.id)}
        return Answer(want, True)

    def shown(self, id: str, interests: Any = None, limit: int = 10) -> list[Any]:
        """Show the posts of others alone."""
        posts = super().shown(id, interests, limit)
        return [each for each in posts if (id, each.author) not in self.muted]


class MutingBlock(CitizenBlock):
    """Posts, and mutes citizen 1 by the action that the want is."""

    want_actions: ClassVar = (Mute,)

    def fits(self, context: Any) -> float:
        """It always acts."""
        return 1.0

    async def forward(self) -> None:
        """Do it."""
        self.want(Post("Hello."))
        await self.mute("1")  # type: ignore[attr-defined]


@pytest.mark.parametrize("rows", (False, True), ids=("agents", "of-rows"))
def test_want_of_a_users_own_is_settled_by_a_feed_of_ones_own(rows: bool) -> None:
    feed, population = MutingFeed(), Population(2, seed=7)
    made = population.promote if rows else CitizenAgent
    agents = [made(id, blocks=[MutingBlock()]) for id in (1, 2)]
    with Society(population if rows else agents, services=[feed], seed=7) as town:
        town.run_sync(steps=2)
        assert [[each.author for each in feed.shown(id)] for id in "12"] == [["2", "2"], []]
        assert Answer(Mute("1"), True) in agents[0].perceived.answers
        assert town.metrics[-1]["failures"] == 0


class AccountBlock(CitizenBlock):
    """Pays a month's rent and writes down what came of it, by one rule for agents and rows."""

    columns: ClassVar = {"value": Column("int64", 7), "gained": Column("int64", 7)}

    def fits(self, context: Any) -> float:
        """It always acts."""
        return 1.0

    def fits_rows(self, rows: Rows) -> float:
        """It always acts."""
        return 1.0

    def step_rows(self, rows: Any) -> None:
        """Pay and write."""
        rows.want(Rent, months=1)
        gained = rows.gained(Rent)
        rows["value"] = rows.answers(Rent)[1]
        rows["gained"] = -1 if gained is None else gained


@pytest.mark.parametrize("rows", (False, True), ids=("agent", "rows"))
def test_want_of_a_users_own_without_a_value_counts_as_0_for_agents_and_rows(rows: bool) -> None:
    status = {"money": 200_000}
    one: Any = [CitizenAgent(1, memory=CitizenMemory(status), blocks=[AccountBlock()])]
    if rows:
        one = Population({"money": [200_000]}, None, [AccountBlock()], seed=7)
    with Society(one, services=[Landlord("landlord")], seed=7) as town:
        town.run_sync(steps=2)
        kept = one.status_of(0) if rows else one[0].status
        assert (kept["value"], kept["gained"], town.metrics[-1]["failures"]) == (0, 0, 0)


def test_want_of_a_users_own_describes_the_action_of_its_block() -> None:
    block = MutingBlock()
    assert block.actions == {"mute": "See a citizen's posts no longer."}
    mute = Action("mute", block.mute)  # type: ignore[attr-defined]
    assert mute.help["args"] == {"id": {"type": "string", "description": "the citizen's id"}}
