"""A service of a user's own settles wants in the commit stage and keeps its state."""

from __future__ import annotations

from typing import Any, ClassVar

from moothall import Society
from moothall.society import Answer, Books, Buy, CitizenAgent, CitizenBlock, CitizenMemory, Service


class Baker(Service):
    """Sells bread, while there is some."""

    takes: ClassVar = (Buy,)
    loaves = 2

    def settle(self, books: Books, sender: str, want: Any) -> Answer:
        """Sell it, if there is enough and it is paid."""
        if not self.loaves:
            return Answer(want, False, "there is no bread left")
        reason = books.pay(sender, self.id, want.cents)
        self.loaves -= not reason
        return Answer(want, not reason, reason)


class EaterBlock(CitizenBlock):
    """Wants a loaf in each step."""

    name = "EaterBlock"
    description = "Buys bread"

    def fits(self, context: Any) -> float:
        """Be the block that acts."""
        return 1.0

    async def forward(self) -> None:
        """Want one, and note how it went."""
        self.status["told"] = [answer.reason for answer in self.perceived.answers]
        self.want(Buy("bakery", "food", 300))


def test_service_of_a_users_own_settles_wants() -> None:
    eater = CitizenAgent("ada", memory=CitizenMemory({"money": 1000}), blocks=[EaterBlock()])
    with Society([eater], services=[Baker("baker", "bakery")], seed=7) as town:
        town.run_sync(steps=4)
        assert (eater.status["money"], town.books.balances["baker"]) == (400, 600)
        assert eater.status["told"] == ["there is no bread left"]
