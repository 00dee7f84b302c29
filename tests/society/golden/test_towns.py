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


VARIED = {
    *("plain day", "weekend", "half hours", "hours", "village without services"),
    *("poor", "hungry", "diners", "explorers", "drivers"),
}
"""Towns that differ from another in what they have or in parameters alone."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[pytest.mark.long] * (each in VARIED)) for each in TOWNS],
)
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
@pytest.mark.parametrize(
    "parts",  # all at once, in parts, and one by one
    (pytest.param(1, marks=pytest.mark.long), 3, pytest.param(None, marks=pytest.mark.long)),
)
@pytest.mark.timeout(180)  # on a machine with other work
async def test_town_of_rows_cut_anywhere_lives_as_recorded(name: str, parts: int | None) -> None:
    town = TOWNS[name]
    check(name, await lived(town, rows=parts or town.count))
