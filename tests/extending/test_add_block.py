"""A block of a user's own: one file says all of it, for agents and for the rows of a population."""

from __future__ import annotations

from typing import ClassVar

import pytest
from pydantic import Field

from moothall import BlockParams, Society
from moothall.foundation.errors import ConfigError
from moothall.society import (
    CitizenAgent,
    CitizenMemory,
    Column,
    Population,
    RowBlock,
    Rows,
)


class ReadingParams(BlockParams):
    """How much a citizen reads."""

    most: int = Field(default=9, ge=1, description="pages in a step at most")


class ReadingBlock(RowBlock):
    """A citizen reads some pages in each step."""

    ParamsType: ClassVar[type[BlockParams]] = ReadingParams
    params: ReadingParams
    columns: ClassVar[dict[str, Column]] = {"pages": Column("int32", seen=True)}

    async def forward(self) -> None:
        """Read."""
        pages = self.draws.below(self.params.most, "reading.pages") + 1
        self.status["pages"] = self.status.get("pages", 0) + pages

    def step_rows(self, rows: Rows) -> None:
        """Do `forward` for rows."""
        rows["pages"] += (rows.below(self.params.most, "reading.pages") + 1).astype("int32")


def test_block_of_a_users_own_does_the_same_to_agents_and_to_rows() -> None:
    agents = [
        CitizenAgent(id, memory=CitizenMemory({}), blocks=[ReadingBlock()]) for id in range(1, 21)
    ]
    with Society(agents, seed=7) as town:
        town.run_sync(steps=5)
    population = Population(20, None, [ReadingBlock()], seed=7)
    with Society(population, seed=7) as town:
        town.run_sync(steps=5)
    pages = population.columns["pages"].tolist()
    assert pages == [agent.status["pages"] for agent in agents]
    assert population.status_of(3)["pages"] == pages[3]
    assert len({*pages}) > 5


def test_block_of_a_users_own_has_checked_parameters() -> None:
    block = ReadingBlock(block_params={"most": 1})
    population = Population(3, None, [block], seed=7)
    with Society(population, seed=7) as town:
        town.run_sync(steps=5)
    assert population.columns["pages"].tolist() == [5, 5, 5]
    with pytest.raises(ConfigError, match=r"ReadingParams.most: .* greater than or equal to 1"):
        ReadingBlock(block_params={"most": 0})
