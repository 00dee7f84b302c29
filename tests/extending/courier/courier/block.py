"""A block of a society, for agents and for the rows of a population."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from moothall import BlockParams
from moothall.society import Column, RowBlock, Rows


class RoundsParams(BlockParams):
    """How much a citizen delivers."""

    most: int = Field(default=9, ge=1, description="parcels in a step at most")


class RoundsBlock(RowBlock):
    """A citizen delivers some parcels in each step."""

    ParamsType: ClassVar[type[BlockParams]] = RoundsParams
    params: RoundsParams
    columns: ClassVar[dict[str, Column]] = {"parcels": Column("int32", seen=True)}

    async def forward(self) -> None:
        """Deliver."""
        parcels = self.draws.below(self.params.most, "rounds.parcels") + 1
        self.status["parcels"] = self.status.get("parcels", 0) + parcels

    def step_rows(self, rows: Rows) -> None:
        """Do `forward` for rows."""
        rows["parcels"] += (rows.below(self.params.most, "rounds.parcels") + 1).astype("int32")
