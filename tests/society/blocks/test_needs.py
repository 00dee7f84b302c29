"""Needs: they fall with time, rise by acts, and the first that is too low is urgent."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.society.blocks.living import citizen, live, said

from moothall import ConfigError, DefinitionError
from moothall.society.blocks import Need
from moothall.society.blocks.needs import NEEDS, NeedsBlock, NeedsBlockParams, change_of
from moothall.society.kernel.wants import Answer, Buy, Save, Work


@given(st.integers(-300, 300), st.integers(0, 10**6), st.lists(st.integers(1, 5000), max_size=20))
def test_need_changes_in_many_short_steps_as_in_one_long_one(
    rate: int, start: int, steps: list[int]
) -> None:
    at, change = start, 0
    for seconds in steps:
        step = change_of(rate, at, seconds)
        assert abs(step) <= abs(rate) * seconds // 3600 + 1
        change += step
        at += seconds
    assert change == change_of(rate, start, at - start)


@pytest.mark.parametrize(("act", "before", "after"), (("work", 10, 0), ("eat", 990, 1000)))
def test_need_stays_from_0_to_1000(act: str, before: int, after: int) -> None:
    agent = citizen([NeedsBlock()], needs=dict.fromkeys(NEEDS, before), act=act)
    live(agent)
    assert agent.status["needs"]["hunger"] == after


def test_need_that_is_first_at_its_threshold_is_urgent() -> None:
    for levels, urgent in (
        ([200, 200, 200, 300], "hunger"),
        ([201, 200, 200, 300], "energy"),
        ([201, 201, 200, 300], "safety"),
        ([201, 201, 201, 300], "social"),
        ([201, 201, 201, 301], ""),
    ):
        block = NeedsBlock()
        citizen([block], needs=dict(zip(NEEDS, levels, strict=True)))
        assert block.urgent == urgent


REFUSED = (Answer(Work("work-1", 900), False, "not here"),)


@pytest.mark.parametrize(
    ("act", "answers", "speed", "after"),
    (
        ("sleep", (), 1000, (270, 425, 320, 275)),
        ("work", (), 1000, (180, 250, 320, 320)),
        ("study", (), 1000, (180, 250, 320, 320)),
        ("shop", (), 1000, (180, 250, 250, 200)),
        ("social", (), 1000, (180, 250, 300, 900)),
        ("leisure", (), 1000, (180, 260, 320, 250)),
        ("browse", (), 1000, (180, 260, 320, 350)),
        ("travel", (), 1000, (180, 250, 250, 200)),
        ("idle", (), 1000, (180, 260, 250, 200)),
        ("pray", (), 1000, (180, 260, 250, 200)),
        # What was refused was not done; who rests or saves is not concerned.
        ("work", REFUSED, 1000, (180, 260, 250, 200)),
        ("leisure", REFUSED, 1000, (180, 260, 320, 250)),
        ("work", (Answer(Save(5), False, "no bank"),), 1000, (180, 250, 320, 320)),
        # A speed is that of falling alone.
        ("sleep", (), 2000, (240, 425, 320, 250)),
        ("idle", (), 0, (300, 300, 300, 300)),
    ),
)
def test_needs_change_by_an_hour_of_each_act_as_stated(
    act: str, answers: tuple[Answer, ...], speed: int, after: tuple[int, ...]
) -> None:
    block = NeedsBlock(block_params=NeedsBlockParams(speed=speed))
    agent = citizen([block], needs=dict.fromkeys(NEEDS, 300), act=act)
    live(agent, step_s=3600, answers=answers)
    assert tuple(agent.status["needs"].values()) == after
    assert agent.status["act"] == "idle"


def test_needs_meal_of_half_an_hour_is_most_of_a_days_hunger() -> None:
    agent = citizen([NeedsBlock()], needs=dict.fromkeys(NEEDS, 100), act="eat")
    live(agent, step_s=1800)
    assert agent.status["needs"] == {"hunger": 1000, "energy": 75, "safety": 100, "social": 100}


def test_needs_activity_before_the_first_step_changes_nothing() -> None:
    agent = citizen([NeedsBlock()], act="eat")
    live(agent, step=0)
    assert agent.status["needs"]["hunger"] == 900


def test_needs_meal_that_was_refused_feeds_nobody() -> None:
    agent = citizen([NeedsBlock()], act="eat")
    refused = Answer(Buy("restaurant-1", "food", 500), False, "sold out")
    before = agent.status["needs"]["hunger"]
    live(agent, answers=[refused])
    assert agent.status["needs"]["hunger"] < before
    agent = citizen([NeedsBlock()], act="work")
    live(agent, answers=[Answer(Work("work-1", 900), True, value=500)])
    assert agent.status["needs"]["social"] >= 900


def test_needs_message_is_company() -> None:
    needs = dict.fromkeys(("hunger", "energy", "safety", "social"), 500)
    alone, told = (citizen([NeedsBlock()], needs=dict(needs), act="leisure") for _ in range(2))
    live(alone)
    wave = {"from": "4", "to": "1", "action": {"name": "wave", "args": {}}}
    live(told, messages=[said("2"), wave, said("3")])
    assert told.status["needs"]["social"] == alone.status["needs"]["social"] + 120
    crowd = citizen([NeedsBlock()], needs=dict(needs), act="leisure")
    live(crowd, messages=[said(str(number)) for number in range(2, 9)])
    assert crowd.status["needs"]["social"] == alone.status["needs"]["social"] + 240


class CultureParams(NeedsBlockParams):
    """When culture is short."""

    culture: int = 300


CULTURE = Need("culture", "cinema", 7200, {"idle": -20, "cinema": 400})


def test_need_of_ones_own_rises_by_an_act_of_ones_own() -> None:
    class Culture(NeedsBlock):
        ParamsType: ClassVar[Any] = CultureParams
        kinds: ClassVar = NEEDS | {"culture": CULTURE}

    agent = citizen([Culture()], needs=dict.fromkeys(NEEDS, 500) | {"culture": 300}, act="cinema")
    live(agent)
    assert agent.status["needs"]["culture"] == 400
    assert agent.status["needs"]["hunger"] == 470  # as idle, for other needs do not name the act


@pytest.mark.parametrize(
    ("params", "kinds", "told"),
    (
        (NeedsBlockParams, NEEDS | {"culture": CULTURE}, "add culture: int to NeedsBlockParams"),
        (CultureParams, {"culture": CULTURE}, "kinds has no hunger, energy, safety, social"),
        (CultureParams, NEEDS | {"art": CULTURE}, "kinds['art'] must be the Need of that name"),
        (CultureParams, NEEDS | {"culture": "cinema"}, "must be the Need of that name"),
    ),
)
def test_needs_block_says_what_it_lacks(params: Any, kinds: Any, told: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        type("Own", (NeedsBlock,), {"ParamsType": params, "kinds": kinds})
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("seconds", "rates", "told"),
    (
        (7200, {"cinema": 400}, "need 'culture': rates must have idle"),
        (7200, {"idle": "-20"}, "need 'culture': rates must be whole numbers"),
        (0, {"idle": -20}, "need 'culture': seconds must be"),
    ),
)
def test_need_says_what_is_wrong(seconds: Any, rates: Any, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Need("culture", "leisure", seconds, rates)
    assert told in str(refused.value)
