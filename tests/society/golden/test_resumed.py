"""Recorded towns go on from a state and from a journal in a society that was made anew."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.society.golden.towns import TOWNS, Town

from moothall import Journal
from moothall.society import Society

NAMES = ("economy and feed", "own blocks", "minds", "names")


def end(society: Society) -> Any:
    """What differs if anything was lost: the state of all, and the last row."""
    return json.loads(json.dumps(society.state_dict())), society.metrics[-1]


async def lived(town: Town, steps: int) -> Any:
    async with town.made() as society:
        await society.run(steps=steps, step=town.step)
        return end(society)


@pytest.mark.parametrize("name", NAMES)
async def test_recorded_town_goes_on_from_its_state_in_another_society(name: str) -> None:
    town = TOWNS[name]
    async with town.made() as first, town.made() as second:
        await first.run(steps=30, step=town.step)
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        await second.run(steps=30, step=town.step)
        assert end(second) == await lived(town, 60)


@pytest.mark.parametrize("name", NAMES)
async def test_recorded_town_that_stopped_goes_on_from_its_journal_in_another_society(
    name: str, journal: Journal
) -> None:
    town = TOWNS[name]

    def fail(row: dict[str, Any]) -> None:
        if row["step"] == 40:
            raise RuntimeError("amid")

    options: dict[str, Any] = {"run_id": "r", "save_every": 16, "steps": 60, "step": town.step}
    async with town.made(journal=journal) as broken:
        with pytest.raises(RuntimeError, match="amid"):
            await broken.run(progress=fail, **options)
    async with town.made(journal=journal) as resumed:
        await resumed.run(**options)
        assert end(resumed) == await lived(town, 60)
