"""The ultimatum game: one offers a share of 100 points; if the other refuses, both have nothing.

After Güth, Schmittberger, Schwarze 1982, "An experimental analysis of ultimatum bargaining",
Journal of Economic Behavior and Organization 3.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from players import ALPHAS, GameBlock, group_of, mean

from moothall.society import Society

PIE = 100


class UltimatumBlock(GameBlock):
    name = "UltimatumBlock"
    description = "Offers a share of 100 points, or answers an offer"

    async def forward(self) -> None:
        status, step = self.status, self.perceived.step
        if status["role"] == "proposer" and step == 0:
            task = (
                f"You and another are given {PIE} points together, if you agree. Say how many of "
                "them you offer the other; you keep the rest. If the other refuses, neither of "
                "you has any."
            )
            status["offer"] = await self.choose(task, PIE, self._best_offer())
            self.tell(status["offer"])
        elif status["role"] == "responder" and self.moves:
            (offer,) = self.moves
            task = (
                f"You and another are given {PIE} points together, if you agree. The other offers "
                "you some of them, and keeps the rest. Say 1 to accept, or 0 to refuse: then "
                "neither of you has any."
            )
            likes = self.feels(offer, PIE - offer) >= 0
            status["accepts"] = await self.choose(task, 1, int(likes), offer=offer)

    def _best_offer(self) -> int:
        """Return the offer that is worth most, as often as people are expected to accept it."""

        def worth(offer: int) -> float:
            own, other = PIE - offer, offer
            behind = max(0, own - other)
            accepted = sum(share for alpha, share in ALPHAS if other - alpha * behind >= 0)
            return accepted * self.feels(own, other)

        return max(range(PIE + 1), key=worth)


def ultimatum(
    seed: int,
    *,
    citizens: int = 100,
    error: int = 100,
    llm: Any = None,
    answers: str | None = None,
    folder: Path = Path(),
) -> Society:
    """Pairs of a proposer and a responder; `error` is how often of 1,000 a player errs."""

    def status(place: int, draws: Any) -> dict[str, Any]:
        return {"role": ("proposer", "responder")[place], "offer": None, "accepts": None}

    options: Any = {"error": error, "llm": llm, "answers": answers, "folder": folder}
    return group_of(UltimatumBlock, seed, citizens, 2, status, **options)


def offered(society: Society) -> float | None:
    """The mean share of the points that is offered."""
    found = mean(each.status["offer"] for each in society.agents)
    return None if found is None else found / PIE


def refused(society: Society) -> float | None:
    """The share of the offers that is refused."""
    found = mean(each.status["accepts"] for each in society.agents)
    return None if found is None else 1 - found
