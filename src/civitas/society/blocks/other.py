"""Sleep, meals at home, school and leisure: what needs no rule but time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from civitas.society.blocks import columns
from civitas.society.blocks.block import CitizenBlock, CitizenBlockParams

if TYPE_CHECKING:
    from civitas.society.population.rows import Rows


class OtherBlockParams(CitizenBlockParams):
    """It has none of its own."""


class OtherBlock(CitizenBlock):
    """Sleeps, eats what is at home, studies and rests, where the plan says so.

    It only notes what is done (`status["act"]`): time and needs do the rest, as in the block of the
    same name of AgentSociety (Piao et al. 2025, arXiv:2502.08691). A meal elsewhere than in a
    restaurant costs nothing: a household's stock is not simulated.
    """

    description = "Sleeps, eats at home, studies and rests"
    actions: dict[str, str] = {  # noqa: RUF012 - as seed 000 declares it
        "sleep": "Sleep, which restores energy",
        "eat": "Eat what is at home, which restores hunger",
        "study": "Go to school",
        "leisure": "Rest or do something pleasant",
    }
    ParamsType = OtherBlockParams
    does = ("sleep", "eat", "study", "leisure")
    columns = columns.ACT

    async def forward(self) -> str:
        """Do what the plan wants; gives what was done."""
        item = self.item
        act = item["do"] if item is not None and item["do"] in self.does else "leisure"
        self.act(act)
        return str(act)

    def step_rows(self, rows: Rows) -> None:
        """`forward`: it runs only for those whose item it does, whose code is that of the act."""
        rows["act"] = rows["item_do"]
