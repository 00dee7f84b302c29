"""Recorded towns: citizens, services and messages are what they were, after each of 96 steps.

`python -m tests.society.golden.towns` records them anew, where a rule is meant to change.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.society.golden.towns import FILE, STEPS, TOWNS, lived

RECORDED: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


def check(name: str, now: dict[str, Any]) -> None:
    """Fail at the first step that differs, with the parts that do in any step."""
    was = RECORDED[name]
    width = len(was["steps"]) // STEPS
    for step in range(STEPS):
        at = slice(step * width, (step + 1) * width)
        if was["steps"][at] != now["steps"][at]:
            names = {**was["parts"], **now["parts"]}
            differ = [each for each in names if was["parts"].get(each) != now["parts"].get(each)]
            pytest.fail(f"town {name!r} differs from step {step} on, in {', '.join(differ)}")


@pytest.mark.parametrize("name", TOWNS)
async def test_town_of_agents_lives_as_recorded(name: str) -> None:
    check(name, await lived(TOWNS[name]))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "economy and feed" else pytest.mark.long)
        for name, town in TOWNS.items()
        if town.only_rules
    ],
)
@pytest.mark.timeout(180)  # on a machine with other work
async def test_town_of_rows_cut_anywhere_lives_as_recorded(name: str) -> None:
    town = TOWNS[name]
    for parts in (1, 3, town.count):  # all at once, in parts, and one by one
        check(name, await lived(town, rows=parts))
