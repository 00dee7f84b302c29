"""A citizen's money: work, purchases within a budget, savings."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.society.blocks.living import HOUR, citizen, live, shown, town

from moothall import ScriptedModel
from moothall.society.blocks.economy import (
    EconomyBlock,
    EconomyBlockParams,
    budget_of,
    income_after,
    to_save,
)
from moothall.society.kernel.wants import Answer, Buy, Save, Work


def spender() -> EconomyBlock:
    """One who spends two thousandths of its wealth in a day."""
    return EconomyBlock(block_params=EconomyBlockParams(of_wealth=2000))


def plan(do: str, where: str, until: float = 24) -> list[dict[str, object]]:
    return [{"do": do, "where": where, "from": 0, "until": int(until * HOUR)}]


def test_economy_block_budget_is_a_share_of_income_and_wealth_up_to_what_there_is() -> None:
    assert budget_of(20_000, 1_000_000, 900, 2000) == 20_000
    assert budget_of(20_000, 5_000, 900, 2000) == 5_000
    assert budget_of(0, 0, 900, 2000) == 0


def test_usual_income_is_an_average_and_cash_beyond_two_weeks_is_saved() -> None:
    assert income_after(7000, 0) == 6000
    assert income_after(0, 7000) == 1000
    assert to_save(100_000, 0, 1000, 14) == 86_000
    assert to_save(10_000, 9000, 1000, 14) == -4000
    assert to_save(10_000, 1000, 1000, 14) == -1000


def test_work_is_wanted_for_the_time_that_is_left() -> None:
    agent = citizen([spender()], plan=plan("work", "work-1", 8.1))
    assert live(agent, 8, city=town(), place="work-1") == [Work("work-1", 360)]
    assert agent.status["act"] == "work"
    *_, tomorrow = live(agent, 24 + 8, city=town(), place="work-1")
    assert tomorrow == Work("work-1", 360)
    away = citizen([spender()], plan=plan("work", "work-1"))
    assert live(away, 8, city=town(), place=None) == []
    assert "act" not in away.status
    anywhere = citizen([spender()], plan=plan("work", "work-1"))  # without a city
    assert live(anywhere, 8, place=None) == [Work("work-1", 900)]


def test_economy_block_spends_its_budget_in_a_shop_once() -> None:
    agent = citizen([spender()], plan=plan("shop", "shop-1"), income=10_000)
    (buy,) = live(agent, 10, city=town(), place="shop-1")
    assert buy == Buy("shop-1", "goods", 9200)
    assert (
        live(agent, 10.25, city=town(), place="shop-1", answers=[Answer(buy, True, value=9200)])
        == []
    )
    assert agent.status["purse"] == 0


def test_economy_block_pays_a_quarter_for_a_meal_out_or_goes_home() -> None:
    agent = citizen([spender()], plan=plan("eat", "restaurant-1"), income=10_000)
    (buy,) = live(agent, 12, city=town(), place="restaurant-1")
    assert buy == Buy("restaurant-1", "food", 2300)
    poor = citizen([spender()], plan=plan("eat", "restaurant-1"), money=0)
    assert live(poor, 12, city=town(), place="restaurant-1") == []
    assert poor.status["plan"][0]["where"] == "home-1"


def test_money_goes_to_the_bank_in_the_morning() -> None:
    agent = citizen([spender()], plan=plan("sleep", "home-1"), income=0)
    live(agent, step=0, city=town())
    (save,) = live(agent, step=96, city=town())
    assert save == Save(100_000 - 14 * 200)
    live(agent, step=97, city=town(), answers=[Answer(save, True, value=97_200)])
    assert agent.status["savings"] == 97_200


def test_economy_block_keeps_a_week_of_budget_and_saves_the_rest() -> None:
    for purse, after in ((0, 9200), (1000, 10_200), (60_000, 64_400)):
        agent = citizen([spender()], income=10_000, purse=purse)  # a budget of 9,200 a day
        live(agent, step=96, city=town())
        assert agent.status["purse"] == after
    wages = [Answer(Work("work-1", 900), done, value=7000) for done in (True, False, True)]
    agent = citizen([spender()], earned=700, income=10_000, paid_day=0)
    live(agent, 10, city=town(), answers=wages)
    assert (agent.status["earned"], agent.status["income"]) == (14_700, 10_000)
    assert agent.blocks[0].budget == 14_700 * 900 // 1000 + 200
    live(agent, step=96, city=town())
    assert (agent.status["earned"], agent.status["income"]) == (0, (60_000 + 14_700) // 7)
    live(agent, step=97, city=town(), answers=[Answer(Save(5), False, "no bank", 99)])
    assert agent.status.get("savings") is None


@pytest.mark.parametrize(
    ("do", "status", "bought", "act"),
    (
        ("shop", {"purse": 500}, Buy("shop-1", "goods", 500), "shop"),
        ("shop", {"purse": 499}, None, "shop"),
        (
            "shop",
            {"purse": 9000, "money": 700, "savings": 9000},
            Buy("shop-1", "goods", 700),
            "shop",
        ),
        ("eat", {"purse": 9000}, Buy("shop-1", "food", 2300), "eat"),
        ("eat", {"purse": 600}, Buy("shop-1", "food", 600), "eat"),
        ("eat", {"purse": 499}, None, "idle"),
    ),
)
def test_economy_block_purchase_is_bounded_by_purse_money_and_budget(
    do: str, status: dict[str, int], bought: Buy | None, act: str
) -> None:
    agent = citizen([spender()], plan=plan(do, "shop-1"), income=10_000, paid_day=0, **status)
    agent.blocks[0].fits = lambda context: 1.0
    assert live(agent, 12, city=town(), place="shop-1") == ([] if bought is None else [bought])
    assert agent.status["act"] == act
    if bought is not None:  # refused, it tries again
        again = live(agent, 12, city=town(), place="shop-1", answers=[Answer(bought, False, "no")])
        assert again == [bought]


def test_economy_block_fits_work_purchases_and_restaurant_meals() -> None:
    block = spender()
    for words, score in (
        ("work at office-3", 1.5),
        ("shop at market-2", 1.5),
        ("eat at restaurant-1", 1.5),
        ("eat at home-1", 0),
        ("sleep at home-1", 0),
    ):
        assert block.fits(words) == score
    for where, place, reason in (
        ("restaurant-1", "restaurant-1", "by rule, 1.5"),
        ("home-1", "home-1", "no block fits by rule"),
        ("restaurant-1", "home-1", "no block fits by rule"),
    ):
        agent = citizen([spender()], plan=plan("eat", where))
        live(agent, 12, city=town(), place=place)
        assert agent.dispatcher.decisions[-1].reason == reason


def test_economy_block_actions_are_wants() -> None:
    agent = citizen([spender()])
    live(agent, 12, city=town(), place="shop-1")
    (block,) = agent.blocks
    assert asyncio.run(block.buy("food", 300))
    asyncio.run(block.save(-200))
    live(agent, 12, city=town(), place=None)
    assert not asyncio.run(block.buy("food", 300))
    assert agent.wants == [Buy("shop-1", "food", 300), Save(-200)]


def test_economy_block_model_says_how_much_it_spends() -> None:
    spends = EconomyBlockParams(of_wealth=2000)
    half = EconomyBlock(llm=ScriptedModel([json.dumps({"thousandths": 500})]), block_params=spends)
    agent = citizen([half], plan=plan("shop", "shop-1"), income=10_000)
    assert live(agent, 10, city=town(), place="shop-1") == [Buy("shop-1", "goods", 4600)]
    assert shown(half.llm)["could_spend_cents"] == 9200
    poor = EconomyBlock(llm=ScriptedModel([]))
    agent = citizen([poor], plan=plan("shop", "shop-1"), money=499)
    assert live(agent, 10, city=town(), place="shop-1") == []  # it is not asked about so little
    assert (poor.llm.received, poor.fallbacks) == ([], 0)
    answers = [json.dumps({"thousandths": 5000})]
    wild = EconomyBlock(llm=ScriptedModel(answers), block_params=spends)
    agent = citizen([wild], plan=plan("shop", "shop-1"), income=10_000)
    assert live(agent, 10, city=town(), place="shop-1") == [Buy("shop-1", "goods", 9200)]
    assert wild.fallbacks == 1


@pytest.mark.parametrize("field", ("of_income", "meal"))
def test_economy_block_share_is_from_0_to_1000(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        EconomyBlockParams(**{field: 1001})
    with pytest.raises(ValueError, match=field):
        EconomyBlockParams(**{field: -1})
