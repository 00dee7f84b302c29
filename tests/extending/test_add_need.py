"""A need of a user's own: it falls, and its remedy breaks a plan."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from moothall import City, ConfigError, Society
from moothall.society import (
    MobilityBlock,
    NeedsBlock,
    NeedsBlockParams,
    OtherBlock,
    PlanBlock,
    Population,
)
from moothall.society.blocks import Need


class ThirstParams(NeedsBlockParams):
    """When thirst breaks a plan."""

    thirst: int = 400


class ThirstBlock(NeedsBlock):
    """The four needs and thirst, which a meal quenches."""

    ParamsType: ClassVar[Any] = ThirstParams
    kinds: ClassVar = NeedsBlock.kinds | {
        "thirst": Need("thirst", "eat", 600, {"idle": -300, "eat": 4000})
    }


def test_need_of_a_users_own_falls_and_is_met_by_its_remedy() -> None:
    blocks = [ThirstBlock(), PlanBlock(), MobilityBlock(), OtherBlock()]
    people = Population(20, City.generate(seed=7, citizens=20), blocks, seed=7)
    levels = []
    with Society(people, seed=7) as town:
        for _ in range(300):
            town.run_sync(steps=1)
            levels.append(people.columns["thirst"].copy())
        resident = people.promote(1)
        assert resident.memory.status["needs"]["thirst"] == levels[-1][0]
    assert levels[0].min() > 900
    # Each citizen was thirsty, and each ate then: the level rose above the threshold again.
    lowest = [min(range(300), key=lambda step: levels[step][row]) for row in range(20)]
    assert all(levels[step][row] <= 400 for row, step in enumerate(lowest))
    assert all(max(of[row] for of in levels[step:]) > 400 for row, step in enumerate(lowest))


def test_need_whose_remedy_columns_do_not_know_says_which_they_know() -> None:
    class Bored(NeedsBlock):
        ParamsType: ClassVar[Any] = type(
            "BoredParams", (NeedsBlockParams,), {"__annotations__": {"fun": int}, "fun": 990}
        )
        kinds: ClassVar = NeedsBlock.kinds | {"fun": Need("fun", "cinema", 600, {"idle": -900})}

    blocks = [Bored(), PlanBlock(), MobilityBlock(), OtherBlock()]
    people = Population(20, City.generate(seed=7, citizens=20), blocks, seed=7)
    with (
        Society(people, seed=7) as town,
        pytest.raises(ConfigError, match=r"have the acts sleep, eat, .* and not 'cinema'"),
    ):
        town.run_sync(days=1)
