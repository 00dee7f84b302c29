"""A citizen's money: work, purchases within a budget, savings."""

from __future__ import annotations

import json

import pytest
from tests.society.blocks.living import HOUR, citizen, live, shown, town

from civitas import ScriptedModel
from civitas.society.blocks.economy import (
    EconomyBlock,
    EconomyBlockParams,
    budget_of,
    income_after,
    to_save,
)
from civitas.society.wants import Answer, Buy, Save, Work


def plan(do: str, where: str, until: float = 24) -> list[dict[str, object]]:
    return [{"do": do, "where": where, "from": 0, "until": int(until * HOUR)}]


def test_the_budget_is_a_share_of_income_and_wealth_and_never_more_than_there_is() -> None:
    assert budget_of(20_000, 1_000_000, 900, 2) == 20_000
    assert budget_of(20_000, 5_000, 900, 2) == 5_000
    assert budget_of(0, 0, 900, 2) == 0


def test_usual_income_is_an_average_and_cash_beyond_two_weeks_is_saved() -> None:
    assert income_after(7000, 0) == 6000
    assert income_after(0, 7000) == 1000
    assert to_save(100_000, 0, 1000, 14) == 86_000
    assert to_save(10_000, 9000, 1000, 14) == -4000
    assert to_save(10_000, 1000, 1000, 14) == -1000


def test_work_is_wanted_for_the_time_that_is_left() -> None:
    agent = citizen([EconomyBlock()], plan=plan("work", "work-1", 8.1))
    assert live(agent, 8, city=town(), place="work-1") == [Work("work-1", 360)]
    assert agent.status["act"] == "work"


def test_in_a_shop_it_spends_what_the_budget_has_and_only_once() -> None:
    agent = citizen([EconomyBlock()], plan=plan("shop", "shop-1"), income=10_000)
    (buy,) = live(agent, 10, city=town(), place="shop-1")
    assert buy == Buy("shop-1", "goods", 9200)
    assert (
        live(agent, 10.25, city=town(), place="shop-1", answers=[Answer(buy, True, value=9200)])
        == []
    )
    assert agent.status["purse"] == 0


def test_a_meal_out_costs_a_quarter_and_who_cannot_pay_it_goes_home() -> None:
    agent = citizen([EconomyBlock()], plan=plan("eat", "restaurant-1"), income=10_000)
    (buy,) = live(agent, 12, city=town(), place="restaurant-1")
    assert buy == Buy("restaurant-1", "food", 2300)
    poor = citizen([EconomyBlock()], plan=plan("eat", "restaurant-1"), money=0)
    assert live(poor, 12, city=town(), place="restaurant-1") == []
    assert poor.status["plan"][0]["where"] == "home-1"


def test_money_goes_to_the_bank_in_the_morning() -> None:
    agent = citizen([EconomyBlock()], plan=plan("sleep", "home-1"), income=0)
    live(agent, step=0, city=town())
    (save,) = live(agent, step=96, city=town())
    assert save == Save(100_000 - 14 * 200)
    live(agent, step=97, city=town(), answers=[Answer(save, True, value=97_200)])
    assert agent.status["savings"] == 97_200


def test_a_model_says_how_much_it_spends() -> None:
    half = EconomyBlock(llm=ScriptedModel([json.dumps({"thousandths": 500})]))
    agent = citizen([half], plan=plan("shop", "shop-1"), income=10_000)
    assert live(agent, 10, city=town(), place="shop-1") == [Buy("shop-1", "goods", 4600)]
    assert shown(half.llm)["could_spend_cents"] == 9200
    poor = EconomyBlock(llm=ScriptedModel([]))
    agent = citizen([poor], plan=plan("shop", "shop-1"), money=499)
    assert live(agent, 10, city=town(), place="shop-1") == []  # it is not asked about so little
    assert (poor.llm.received, poor.fallbacks) == ([], 0)
    wild = EconomyBlock(llm=ScriptedModel([json.dumps({"thousandths": 5000})]))
    agent = citizen([wild], plan=plan("shop", "shop-1"), income=10_000)
    assert live(agent, 10, city=town(), place="shop-1") == [Buy("shop-1", "goods", 9200)]
    assert wild.fallbacks == 1


@pytest.mark.parametrize("field", ("of_income", "of_wealth", "meal"))
def test_a_share_is_from_0_to_1000(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        EconomyBlockParams(**{field: 1001})
    with pytest.raises(ValueError, match=field):
        EconomyBlockParams(**{field: -1})
