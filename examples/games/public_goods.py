"""The public goods game: what four give to their common pot is worth more, and is shared evenly.

The rule is that of Fischbacher, Gächter, Fehr 2001, "Are people conditionally cooperative?",
Economics Letters 71: half of people give about as much as the others do, a third give nothing, and
some give most where others give half. Fischbacher, Gächter 2010, American Economic Review 100: they
who go along give a little less than the others, which is why giving declines.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from players import GameBlock, drawn, group_of, mean

from moothall.society import Society

HAVE, GROUP, WORTH = 20, 4, 0.4
KINDS = (("conditional", 50), ("free rider", 33), ("humped", 17))
"""The kinds of people, of 100; 14 are humped in the paper, and the few others count as they do."""


class PotBlock(GameBlock):
    name = "PotBlock"
    description = "Gives points to a common pot"

    async def forward(self) -> None:
        status, moves = self.status, self.moves
        if moves:
            pot = status["gave"] + sum(moves)
            status["points"] += HAVE - status["gave"] + WORTH * pot
            status["others_gave"] = sum(moves) / len(moves)
        others = status["others_gave"]
        task = (
            f"You and {GROUP - 1} others have {HAVE} points each, again in each round. Say how "
            "many of yours you give to a common pot. You keep the rest, and each of you gets "
            f"{WORTH} points for each point in the pot, whoever gave it."
        )
        shown = {"round": self.perceived.step + 1}
        if moves:
            shown["the_others_gave_on_average_last_round"] = round(others, 1)
        status["gave"] = await self.choose(task, HAVE, self._rule(others), **shown)
        self.tell(status["gave"])

    def _rule(self, others: float) -> int:
        kind = self.status["kind"]
        if kind == "free rider":
            return 0
        if kind == "humped":
            return round(others if others <= HAVE / 2 else HAVE - others)
        return round(others * (1000 - self.status["less"]) / 1000)


def public_goods(
    seed: int,
    *,
    citizens: int = 100,
    less: int = 100,
    expected: int = 10,
    error: int = 50,
    llm: Any = None,
    answers: str | None = None,
    folder: Path = Path(),
) -> Society:
    """Groups of four, who stay together.

    Args:
        less: how much less than the others those give who go along, in thousandths
        expected: how many points of 20 they expect others to give in the first round
        error: how often of 1,000 a player errs
    """

    def status(place: int, draws: Any) -> dict[str, Any]:
        kind = drawn(draws, KINDS, "game.kind")
        made = {"kind": kind, "less": less, "others_gave": expected, "gave": None, "points": 0}
        if kind == "conditional":  # people expect different things
            made["others_gave"] = min(HAVE, max(0, expected - 5 + draws.below(11, "game.expects")))
        return made

    options: Any = {"error": error, "llm": llm, "answers": answers, "folder": folder}
    return group_of(PotBlock, seed, citizens, GROUP, status, **options)


def gave(society: Society) -> float | None:
    """The mean share of their points that players gave in this round."""
    found = mean(each.status["gave"] for each in society.agents)
    return None if found is None else found / HAVE
