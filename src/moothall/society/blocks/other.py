"""Sleep, meals at home, school and leisure: acts that only take time."""

from __future__ import annotations

from typing import Any, ClassVar

from moothall.agents.params import BlockParams
from moothall.society.blocks.block import CitizenBlock, CitizenBlockParams
from moothall.society.blocks.columns import ACT
from moothall.society.columns.column import Column
from moothall.society.columns.rows import Rows


class OtherBlockParams(CitizenBlockParams):
    """The parameters of `OtherBlock`: only those of every citizen's block."""


class OtherBlock(CitizenBlock):
    """Sleeps, eats at home, studies and rests, where the plan says so.

    It only records the act in `status["act"]`, which changes the needs, as in AgentSociety's block
    of the same name (Piao et al. 2025, arXiv:2502.08691). A meal outside a restaurant is free: a
    household's stock is not simulated.
    """

    description = "Sleeps, eats at home, studies and rests"
    actions: dict[str, str] = {  # noqa: RUF012 - as seed 000 declares it
        "sleep": "Sleep, which restores energy",
        "eat": "Eat what is at home, which restores hunger",
        "study": "Go to school",
        "leisure": "Rest or do something pleasant",
    }
    ParamsType: ClassVar[type[BlockParams]] = OtherBlockParams
    does: ClassVar[tuple[str, ...]] = ("sleep", "eat", "study", "leisure")
    columns: ClassVar[dict[str, Column]] = ACT

    def offer(self, context: Any) -> str:
        """Return the current item of the plan; away from its place leisure alone, else empty."""
        if not isinstance(context, str) and not self.at_item(context):
            item = self.item
            if item is None or item["do"] != "leisure":
                return ""
            return "leisure here" if super().offer(context) else ""
        return super().offer(context)

    async def forward(self) -> str:
        """Do the current item of the plan; return the act."""
        item = self.item
        act = item["do"] if item is not None and item["do"] in self.does else "leisure"
        self.act(act)
        return str(act)

    def step_rows(self, rows: Rows) -> None:
        """Do `forward` for rows whose item is in `does`; an item and its act have the same code."""
        rows["act"] = rows["item_do"]
