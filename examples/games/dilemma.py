"""The prisoner's dilemma, once: to defect is better for either, to cooperate better for both.

After Charness, Rigotti, Rustichini 2016, "Social surplus determines cooperation rates in the
one-shot prisoner's dilemma", Games and Economic Behavior 100: the more is gained together, the more
cooperate.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from players import GameBlock, group_of, mean

from moothall.society import Society

TEMPTED, BOTH_DEFECT, CHEATED = 7, 2, 1


class DilemmaBlock(GameBlock):
    name = "DilemmaBlock"
    description = "Cooperates or defects"

    async def forward(self) -> None:
        status = self.status
        if self.perceived.step == 0:
            both = status["together"]
            task = (
                "You and another choose at the same time, 1 or 0. Say what you choose. If both "
                f"choose 1, each gets {both} points; if both choose 0, {BOTH_DEFECT}. If one "
                f"chooses 1 and the other 0, the first gets {CHEATED}, the other {TEMPTED}."
            )
            kind = status["belief"]
            cooperate = kind * both + (1 - kind) * self.feels(CHEATED, TEMPTED)
            defect = kind * self.feels(TEMPTED, CHEATED) + (1 - kind) * BOTH_DEFECT
            status["choice"] = await self.choose(task, 1, int(cooperate > defect))
            self.tell(status["choice"])
        elif self.moves:
            table = ((BOTH_DEFECT, TEMPTED), (CHEATED, status["together"]))
            status["points"] = table[status["choice"]][self.moves[0]]


def dilemma(
    seed: int,
    *,
    citizens: int = 100,
    together: int = 5,
    error: int = 100,
    llm: Any = None,
    answers: str | None = None,
    folder: Path = Path(),
) -> Society:
    """Pairs of players; `together` are the points of each if both cooperate, 3 to 6."""

    def status(place: int, draws: Any) -> dict[str, Any]:
        return {"together": together, "choice": None, "points": None}

    options: Any = {"error": error, "llm": llm, "answers": answers, "folder": folder}
    return group_of(DilemmaBlock, seed, citizens, 2, status, **options)


def cooperate(society: Society) -> float | None:
    """The share of players who cooperate."""
    return mean(each.status["choice"] for each in society.agents)


def earned(society: Society) -> float | None:
    """The mean points of a player."""
    return mean(each.status["points"] for each in society.agents)
