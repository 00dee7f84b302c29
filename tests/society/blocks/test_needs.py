"""Needs: they fall with time, rise by acts, and the first that is too low is urgent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.society.blocks.living import citizen, live, said

from civitas.society.blocks.needs import NEEDS, NeedsBlock, NeedsBlockParams, change_of
from civitas.society.wants import Answer, Buy, Work


@given(st.integers(-300, 300), st.integers(0, 10**6), st.lists(st.integers(1, 5000), max_size=20))
def test_many_short_steps_change_a_need_as_one_long_one(
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
def test_a_need_stays_from_0_to_1000(act: str, before: int, after: int) -> None:
    agent = citizen([NeedsBlock()], needs=dict.fromkeys(NEEDS, before), act=act)
    live(agent)
    assert agent.status["needs"]["hunger"] == after


def test_the_first_need_at_its_threshold_is_urgent() -> None:
    for levels, urgent in (([500, 100, 100, 100], "energy"), ([201, 201, 201, 301], "")):
        block = NeedsBlock()
        citizen([block], needs=dict(zip(NEEDS, levels, strict=True)))
        assert block.urgent == urgent


@pytest.mark.parametrize(
    ("act", "rises", "falls"),
    (("sleep", "energy", "hunger"), ("eat", "hunger", "energy"), ("social", "social", "hunger")),
)
def test_an_act_raises_one_need_while_others_fall(act: str, rises: str, falls: str) -> None:
    needs = dict.fromkeys(("hunger", "energy", "safety", "social"), 500)
    agent = citizen([NeedsBlock()], needs=dict(needs), act=act)
    live(agent)
    assert agent.status["needs"][rises] > 500 > agent.status["needs"][falls]


def test_what_was_done_before_the_first_step_changes_nothing() -> None:
    agent = citizen([NeedsBlock()], act="eat")
    live(agent, step=0)
    assert agent.status["needs"]["hunger"] == 900


def test_a_meal_that_was_refused_feeds_nobody() -> None:
    agent = citizen([NeedsBlock()], act="eat")
    refused = Answer(Buy("restaurant-1", "food", 500), False, "sold out")
    before = agent.status["needs"]["hunger"]
    live(agent, answers=[refused])
    assert agent.status["needs"]["hunger"] < before
    agent = citizen([NeedsBlock()], act="work")
    live(agent, answers=[Answer(Work("work-1", 900), True, value=500)])
    assert agent.status["needs"]["social"] >= 900


def test_a_message_is_company() -> None:
    needs = dict.fromkeys(("hunger", "energy", "safety", "social"), 500)
    alone, told = (citizen([NeedsBlock()], needs=dict(needs), act="leisure") for _ in range(2))
    live(alone)
    live(told, messages=[said("2"), said("3")])
    assert told.status["needs"]["social"] == alone.status["needs"]["social"] + 120
    crowd = citizen([NeedsBlock()], needs=dict(needs), act="leisure")
    live(crowd, messages=[said(str(number)) for number in range(2, 9)])
    assert crowd.status["needs"]["social"] == alone.status["needs"]["social"] + 240


def test_who_lives_faster_hungers_faster() -> None:
    fast = NeedsBlockParams(speed=3000)
    slow, quick = (
        citizen([NeedsBlock()], act="idle"),
        citizen([NeedsBlock(block_params=fast)], act="idle"),
    )
    live(slow)
    live(quick)
    assert quick.status["needs"]["hunger"] < slow.status["needs"]["hunger"]
