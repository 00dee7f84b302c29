"""A kind of want, the service that settles it and the block that wants it, all of a user's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from moothall import Society
from moothall.society import Answer, Books, CitizenAgent, CitizenBlock, CitizenMemory, Service, Want


@dataclass(frozen=True, slots=True)
class Rent(Want):
    """Pay a month's rent."""

    months: int


class Landlord(Service):
    """Takes the rent."""

    takes: ClassVar = (Rent,)

    def settle(self, books: Books, sender: str, want: Any) -> Answer:
        """Take it from the tenant, who may have too little."""
        reason = books.pay(sender, self.id, want.months * 50_000)
        return Answer(want, not reason, reason)


class TenantBlock(CitizenBlock):
    """Pays a month's rent in each step."""

    name = "TenantBlock"
    description = "Pays the rent"

    def fits(self, context: Any) -> float:
        """Be the block that acts."""
        return 1.0

    async def forward(self) -> None:
        """Want to pay it."""
        self.want(Rent(1))
        self.status["told"] = [answer.done for answer in self.perceived.answers]


def test_want_of_a_users_own_is_settled_by_the_service_that_takes_it() -> None:
    tenant = CitizenAgent("ada", memory=CitizenMemory({"money": 80_000}), blocks=[TenantBlock()])
    with Society([tenant], services=[Landlord("landlord")], seed=7) as town:
        town.run_sync(steps=3)
        assert tenant.status["told"] == [False]  # only the first month could be paid
        assert (tenant.status["money"], town.books.balances["landlord"]) == (30_000, 50_000)
        assert town.metrics[-1]["failures"] == 0
