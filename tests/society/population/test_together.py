"""Citizens with turns whose shipped blocks prepare together live as if each prepared alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from moothall.society import CitizenAgent, City, Feed, Society, citizens, make_economy, make_people
from moothall.society.blocks import all_blocks
from moothall.society.blocks.citizen_block import CitizenBlock
from moothall.society.blocks.needs import NeedsBlock, NeedsBlockParams
from moothall.society.blocks.plan import PlanBlock, PlanBlockParams

COUNT = 12


class Apart(CitizenAgent):
    """A citizen whose blocks prepare in its turn, since its class says how."""

    async def before_blocks(self) -> None:
        """Prepare as every citizen does."""
        await super().before_blocks()


class Dances(CitizenBlock):
    """A block of one's own that reads and changes needs, and has an act that no column knows."""

    async def before_forward(self) -> None:
        """Tire, and note how hungry it is."""
        self.status["needs"]["energy"] -= 1
        self.status["hungry"] = self.status.get("hungry", 0) + self.status["needs"]["hunger"]

    async def forward(self) -> None:
        """Dance."""
        self.act("dances")

    def fits(self, context: Any) -> float:
        """It fits best in the first hour of an afternoon."""
        return 9.0 if 13 * 3600 <= self.perceived.time < 14 * 3600 else 0.0


def with_dances(place: int) -> Callable[[int], list[Any]]:
    """Return a function that makes all blocks, with an own one at a place among them."""

    def made(number: int) -> list[Any]:
        blocks: list[Any] = all_blocks()
        blocks.insert(place, Dances())
        return blocks

    return made


def all_different(number: int) -> list[Any]:
    """Return all blocks, with thresholds of each citizen's own, and two kinds of days."""
    blocks: list[Any] = all_blocks()
    blocks[0] = NeedsBlock(block_params=NeedsBlockParams(hunger=150 + 50 * number, social=900))
    if number % 2:
        blocks[1] = PlanBlock(block_params=PlanBlockParams(wake=6 * 3600))
    return [*blocks, Dances()]


async def statuses(
    kind: type[CitizenAgent], blocks: Callable[[int], list[Any]], city: City, steps: int = 60
) -> tuple[list[Any], list[Any]]:
    """Return what citizens are after some steps, and whose turns were lost."""
    people = make_people(city, COUNT, seed=5)
    made = [citizens([row], lambda n=n: blocks(n), citizen=kind)[0] for n, row in enumerate(people)]  # type: ignore[misc]
    services = [*make_economy(city, seed=5), Feed()]
    async with Society(made, city, seed=5, services=services, start="2026-01-05T05:00") as society:
        await society.run(steps=steps)
        return [dict(each.status.plain()) for each in society.agents], [*society.failures]


@pytest.mark.parametrize(
    "blocks",
    (with_dances(0), with_dances(2), with_dances(7), all_different),
    ids=["first", "in the midst", "last", "parameters that differ"],
)
async def test_citizens_live_as_if_each_prepared_in_its_turn(
    blocks: Callable[[int], list[Any]],
) -> None:
    city = City.generate(seed=5, citizens=COUNT)
    together = await statuses(CitizenAgent, blocks, city)
    assert together == await statuses(Apart, blocks, city)
    assert not together[1]
    assert all(status["hungry"] for status in together[0])


class Breaks(City):
    """A city that cannot say after nine o'clock what is open."""

    def open_rows(self, *args: Any) -> Any:
        """Fail after nine."""
        if np.ndim(args[0]) == 0 and args[0] >= 9 * 3600:
            raise RuntimeError("the opening hours are lost")
        return super().open_rows(*args)


async def test_citizens_whose_blocks_cannot_prepare_lose_their_turns() -> None:
    city = Breaks.generate(seed=5, citizens=COUNT)
    _, failures = await statuses(CitizenAgent, with_dances(7), city, 17)
    assert {id for _, id, _ in failures} == {str(number) for number in range(1, COUNT + 1)}
    assert all("the opening hours are lost" in text for *_, text in failures)
    assert min(step for step, *_ in failures) == 16
