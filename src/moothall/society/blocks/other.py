"""Sleep, meals at home, school and leisure: acts that only take time."""

from __future__ import annotations

from typing import ClassVar, Final

from moothall import BlockParams
from moothall.society.arrays import Numbers
from moothall.society.blocks.citizen_block import CitizenBlock, CitizenBlockParams
from moothall.society.blocks.columns import ACT, ACTS, act_code
from moothall.society.columns.column import Column
from moothall.society.columns.rows import Rows
from moothall.society.kernel.perception import Perception

_DOES: Final = ("sleep", "eat", "study", "leisure")
_ITEM_ACTS: Final = Numbers([act_code(act if act in _DOES else "leisure") for act in ACTS], "uint8")
"""The act of each activity, by code: itself, or leisure."""


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
    does: ClassVar[tuple[str, ...]] = _DOES
    columns: ClassVar[dict[str, Column]] = ACT

    def offer(self, context: Perception) -> str:
        """Return the current item of the plan; away from its place leisure alone, else empty."""
        if not isinstance(context, str) and not self.at_item(context):
            item = self.item
            if item is None or item["do"] != "leisure":
                return ""
            return "leisure here" if super().offer(context) else ""
        return super().offer(context)

    def step_rows(self, rows: Rows) -> None:
        """Do the current item of the plan; what is not in `does` is leisure."""
        rows["act"] = _ITEM_ACTS[rows["item_do"]]
