"""A day's plan: what it has, how it breaks, and how it is mended."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.society.blocks.living import HOUR, STEADY, citizen, live, said, steady, town

from moothall import ConfigError, ScriptedModel
from moothall.society.blocks.mobility import MobilityBlock
from moothall.society.blocks.needs import NeedsBlock
from moothall.society.blocks.other import OtherBlock
from moothall.society.blocks.plan import PlanBlock, PlanBlockParams
from moothall.society.city.city import City
from moothall.society.city.map import Place
from moothall.society.clock import DAY_S
from moothall.society.kernel.wants import Answer, Move


def item(do: str, where: str | None, start: float, until: float) -> dict[str, Any]:
    return {"do": do, "where": where, "from": int(start * HOUR), "until": int(until * HOUR)}


def blocks() -> list[Any]:
    return [NeedsBlock(), steady(), MobilityBlock(), OtherBlock()]


def test_free_time_without_anything_at_home_is_refused() -> None:
    with pytest.raises(ValueError, match="done at home must have a weight above 0"):
        PlanBlockParams(leisure=(0, 0, 0, 1, 1, 2, 15))
    with pytest.raises(ValueError, match="one of the weights must be above 0"):
        PlanBlockParams(starts=(0, 0))


@pytest.mark.parametrize("id", range(1, 21))
def test_plan_of_a_day_has_sleep_three_meals_and_work_without_a_gap(id: int) -> None:
    block = PlanBlock(block_params=PlanBlockParams(weekday=1000, hours=8 * HOUR + 1800))
    agent = citizen([block], id=id, work="work-1")
    live(agent, 0, city=town(work_1=(7, 19)))
    plan = agent.status["plan"]
    assert plan[0]["from"] == 0
    assert plan[-1]["until"] == DAY_S
    assert all(one["until"] == other["from"] for one, other in itertools.pairwise(plan))
    spent: dict[str, int] = {}
    for each in plan:
        spent[each["do"]] = spent.get(each["do"], 0) + each["until"] - each["from"]
    assert sum(each["do"] == "eat" for each in plan) == 3
    assert 5 * HOUR <= spent["sleep"] <= 12 * HOUR
    assert 6 * HOUR <= spent["work"] <= 9 * HOUR


@pytest.mark.parametrize(
    ("status", "params", "weekend", "plan"),
    (
        (
            {"work": "work-1"},
            {},
            False,
            [
                item("sleep", "home-1", 0, 6.5),
                item("eat", "home-1", 6.5, 7),
                item("work", "work-1", 8, 12.5),
                item("eat", "work-1", 12.5, 13),
                item("work", "work-1", 13, 16.5),
                item("eat", "home-1", 18.5, 19.25),
                item("sleep", "home-1", 22.5, 24),
            ],
        ),
        (
            {"school": "work-1"},
            {"dines": 1000},
            False,
            [
                item("sleep", "home-1", 0, 6.5),
                item("eat", "home-1", 6.5, 7),
                item("study", "work-1", 8, 12.5),
                item("eat", "work-1", 12.5, 13),
                item("study", "work-1", 13, 15),
                item("eat", "restaurant", 18.5, 19.25),
                item("sleep", "home-1", 22.5, 24),
            ],
        ),
        (  # who sleeps long is up an hour before work, which lasts until bedtime: it dines there
            {"work": "work-1"},
            {"wake": 11 * HOUR, "bed": 20 * HOUR, "hours": 20 * HOUR},
            False,
            [
                item("sleep", "home-1", 0, 7),
                item("eat", "home-1", 7, 7.5),
                item("work", "work-1", 8, 12.5),
                item("eat", "work-1", 12.5, 13),
                item("work", "work-1", 13, 18.5),
                item("eat", "work-1", 18.5, 19.25),
                item("work", "work-1", 19.25, 20),
                item("sleep", "home-1", 20, 24),
            ],
        ),
        (
            {"work": "work-1", "home": None},
            {},
            True,
            [
                item("sleep", None, 0, 6.5),
                item("eat", None, 6.5, 7),
                item("eat", None, 12.5, 13),
                item("eat", None, 18.5, 19.25),
                item("sleep", None, 22.5, 24),
            ],
        ),
    ),
)
def test_sleep_meals_and_work_have_their_times(
    status: dict[str, Any], params: dict[str, int], weekend: bool, plan: list[Any]
) -> None:
    agent = citizen([steady(**params)], **status)
    live(agent, step=5 * 96 if weekend else 0, city=town())
    set_items = [each for each in agent.status["plan"] if each["do"] in SET]
    assert set_items == plan


SET = ("sleep", "eat", "work", "study")


def test_free_time_has_pieces_of_half_an_hour_to_two_and_a_purchase_takes_one_at_most() -> None:
    done: dict[str, set[str | None]] = {}
    for id in range(1, 60):
        agent = citizen([steady(dines=1000)], id=id)
        live(agent, 0, city=town(park_1=(8, 9), restaurant_1=(6, 10)))
        plan = agent.status["plan"]
        for one, other in itertools.pairwise(plan):
            if one["do"] not in SET:
                done.setdefault(one["do"], set()).add(one["where"])
                most = HOUR if one["do"] == "shop" else 2 * HOUR
                assert one["until"] - one["from"] <= most
                assert one["until"] - one["from"] >= HOUR // 2 or other["do"] in SET
            elif one["do"] == "eat":
                assert one["where"] == "home-1"  # the restaurant is closed in the evening
    # The park is open for an hour after breakfast only, and closed half an hour later.
    assert done["shop"] == {"shop"}
    assert done["browse"] == {"home-1"}
    assert done["leisure"] <= {"home-1", "park"}
    assert done["social"] <= {"restaurant", "park", "home-1"}


def test_plan_is_made_anew_after_a_change_of_home_or_work() -> None:
    agent = citizen([steady()], work="work-1")
    live(agent, 9, city=town())
    for key, value in (("home", "park-1"), ("work", "shop-1"), ("work", None)):
        agent.status.update({key: value}, plan=[item("browse", None, 0, 24)], stuck="there")
        live(agent, 10, city=town())
        plan = agent.status["plan"]
        assert len(plan) > 1
        assert plan[0]["where"] == agent.status["home"]
        assert agent.status["work"] in {None, *(each["where"] for each in plan)}
        assert "stuck" not in agent.status
        assert "mended" not in agent.status


@given(
    st.integers(0, DAY_S),
    st.integers(0, DAY_S),
    st.integers(0, 6 * HOUR),
    st.integers(0, DAY_S),
    st.integers(0, DAY_S),
    st.integers(0, 95),
)
def test_plan_of_any_parameters_has_no_gap_or_overlap(
    wake: int, bed: int, spread: int, begins: int, hours: int, step: int
) -> None:
    params = PlanBlockParams(wake=wake, bed=bed, spread=spread, begins=begins, hours=hours)
    agent = citizen([PlanBlock(block_params=params)], work="work-1", id=wake)
    live(agent, step=step, city=town(work_1=(6, 22), shop_1=(8, 20), restaurant_1=(17, 2)))
    plan = agent.status["plan"]
    assert plan[0]["from"] == 0
    assert plan[-1]["until"] == DAY_S
    assert all(one["until"] == other["from"] for one, other in itertools.pairwise(plan))
    assert all(each["from"] < each["until"] for each in plan)
    on = plan[agent.status["now"]]
    assert on["from"] <= step * 900 < on["until"]


def test_work_is_within_the_hours_of_its_place_and_not_at_weekends() -> None:
    agent = citizen([steady()], work="work-1")
    live(agent, 0, city=town(work_1=(10, 15)))
    work = [each for each in agent.status["plan"] if each["do"] == "work"]
    assert work[0]["from"] == 10 * HOUR
    assert work[-1]["until"] == 15 * HOUR
    live(agent, step=5 * 96, city=town(work_1=(10, 15)))  # Saturday
    assert "work" not in {each["do"] for each in agent.status["plan"]}
    always = steady(weekend=1000)
    agent = citizen([always], work="work-1")
    live(agent, step=5 * 96, city=town())
    assert "work" in {each["do"] for each in agent.status["plan"]}


def test_plan_breaks_at_a_closed_place_and_the_citizen_stays_at_home() -> None:
    plan = [item("work", "work-1", 0, 24)]
    agent = citizen(blocks(), plan=plan, day=0, work="work-1")
    wants = live(agent, 8, city=town(work_1=(10, 18)))
    assert wants == []
    assert agent.status["plan"][agent.status["now"]]["where"] == "home-1"
    assert agent.status["mended"] == 1
    assert "work-1 is closed" in agent.memory.stream[-1][1]


def test_plan_with_an_unknown_place_is_refused_by_its_name() -> None:
    agent = citizen(blocks(), plan=[item("leisure", "atlantis", 0, 24)], day=0)
    with pytest.raises(ConfigError, match='citizen 1: there is no place "atlantis"'):
        live(agent, 8, city=town())


def test_plan_replaces_a_full_place_by_another_of_its_kind() -> None:
    city = town()
    agent = citizen(blocks(), plan=[item("leisure", "shop", 0, 24)], day=0)
    (first,) = live(agent, 8, city=city)
    refused = Answer(first, False, f"{first.to} is full")
    (second,) = live(agent, 8.25, city=city, answers=[refused])
    assert {first.to, second.to} == {"shop-1", "shop-2"}
    refused = Answer(second, False, f"{second.to} is full")
    assert live(agent, 8.5, city=city, answers=[refused]) == []
    assert live(agent, 8.75, city=city) == []  # there is no third: it rests at home
    assert agent.status["plan"][agent.status["now"]]["where"] == "home-1"


def test_plan_item_after_a_full_place_is_not_broken() -> None:
    plan = [item("leisure", "shop", 0, 9), item("work", "work-1", 9, 24)]
    agent = citizen(blocks(), plan=plan, day=0, work="work-1", plan_duty="work-1")
    (move,) = live(agent, 8.75, city=town(work_1=(0, 24)))
    refused = Answer(move, False, f"{move.to} is full")
    (there,) = live(agent, 9, city=town(work_1=(0, 24)), answers=[refused])
    assert there.to == "work-1"
    assert agent.status.get("mended", 0) == 0
    # Nor does it when no shop is open any more.
    plan[0] = item("leisure", "shop", 0, 9)
    agent = citizen(blocks(), plan=plan, day=0, work="work-1", plan_duty="work-1")
    closed = town(work_1=(0, 24), shop_1=(1, 2), shop_2=(1, 2))
    assert live(agent, 8.75, city=closed) == []
    assert agent.status["stuck"]
    assert live(agent, 9, city=closed)[0].to == "work-1"
    assert agent.status.get("mended", 0) == 0


def test_plan_stays_at_home_after_four_full_places() -> None:
    shops = [Place(f"shop-{number}", "shop", 10 * number, 0) for number in range(6)]
    ways = [("home-1", shop.id, shop.x + 1) for shop in shops]
    city = City([Place("home-1", "home", 0, 0), *shops], ways)
    agent = citizen(blocks(), plan=[item("leisure", "shop", 0, 24)], day=0)
    tried, answers = set(), []
    for step in range(4):
        (move,) = live(agent, 8 + step / 4, city=city, answers=answers)
        tried.add(move.to)
        answers = [Answer(move, False, f"{move.to} is full")]
    assert len(tried) == 4
    assert live(agent, 9, city=city, answers=answers) == []
    assert agent.status["plan"][agent.status["now"]]["where"] == "home-1"


@pytest.mark.parametrize(
    ("need", "do", "where", "hours"),
    (
        ("hunger", "eat", None, 0.5),
        ("energy", "sleep", "home-1", 2),
        ("safety", "leisure", "home-1", 1),
        ("social", "social", None, 1),
    ),
)
def test_plan_breaks_for_a_need_that_is_too_low(
    need: str, do: str, where: str | None, hours: float
) -> None:
    needs = dict.fromkeys(("hunger", "energy", "safety", "social"), 900) | {need: 100}

    def hungry(doing: str, at: str) -> Any:
        plan = [item(doing, at, 0, 24)]
        return citizen([NeedsBlock(), PlanBlock()], needs=dict(needs), plan=plan, day=0)

    agent = hungry("browse", "park-1")
    live(agent, 15, city=town(), place="park-1")
    before, remedy, after = agent.status["plan"]
    assert (before["do"], before["until"]) == ("browse", 15 * HOUR)
    assert remedy == item(do, where, 15, 15 + hours)
    assert after == {**item("browse", "park-1", 15 + hours, 24), "kind": "park"}
    assert (agent.status["now"], agent.status["mended"]) == (1, 1)
    assert agent.memory.stream == [(60, f"Its plan broke: its {need} is too low; now {do}.")]
    late = hungry("browse", "park-1")
    live(late, 23.75, city=town(), place="park-1")
    assert late.status["plan"][-1] == item(do, where, 23.75, 24)
    there = hungry(do, "home-1")  # what it does helps already
    live(there, 15, city=town())
    assert "mended" not in there.status


def test_plan_breaks_for_safety_but_not_for_company() -> None:
    for need, do, place, breaks in (
        ("safety", "leisure", "park-1", True),
        ("social", "study", "work-1", False),
        ("hunger", "study", "work-1", True),
        ("hunger", "sleep", "home-1", False),
        ("energy", "eat", "home-1", False),
    ):
        needs = dict.fromkeys(("hunger", "energy", "safety", "social"), 900) | {need: 100}
        plan = [item(do, place, 0, 24)]
        agent = citizen([NeedsBlock(), PlanBlock()], needs=needs, plan=plan, day=0)
        live(agent, 15, city=town(), place=place)
        assert ("mended" in agent.status) is breaks


def test_plan_before_the_needs_has_none_that_is_too_low() -> None:
    agent = citizen([PlanBlock(), NeedsBlock()], plan=[item("browse", None, 0, 24)], day=0)
    del agent.status["needs"]
    live(agent, 15)
    assert "mended" not in agent.status
    assert agent.status["needs"]["hunger"] == 1000


def test_company_waits_until_work_is_over_and_nothing_breaks_sleep() -> None:
    needs = dict.fromkeys(("hunger", "energy", "safety", "social"), 900) | {"social": 100}
    agent = citizen(
        [NeedsBlock(), PlanBlock()], needs=needs, plan=[item("work", "work-1", 0, 24)], day=0
    )
    live(agent, 10, city=town(), place="work-1")
    assert "mended" not in agent.status
    needs = dict.fromkeys(("hunger", "energy", "safety", "social"), 50)
    agent = citizen(
        [NeedsBlock(), PlanBlock()], needs=needs, plan=[item("sleep", "home-1", 0, 24)], day=0
    )
    live(agent, 3, city=town(), messages=[said("2")])
    assert "mended" not in agent.status


def test_plan_of_a_model_is_by_starts_and_put_in_order() -> None:
    answer = {
        "plan": [
            {"from": "09:00", "do": "work", "where": "work"},
            {"from": "07:00", "do": "eat", "where": "home"},
            {"from": "07:00", "do": "social", "where": "home"},
            {"from": "22:00", "do": "sleep", "where": "home"},
        ]
    }
    model = ScriptedModel([json.dumps(answer)])
    block = PlanBlock(llm=model)
    agent = citizen([block], work="work-1")
    live(agent, 0, city=town())
    assert [(each["from"] // HOUR, each["do"], each["where"]) for each in agent.status["plan"]] == [
        (0, "sleep", "home-1"),
        (7, "eat", "home-1"),
        (9, "work", "work-1"),
        (22, "sleep", "home-1"),
    ]
    assert [each["until"] for each in agent.status["plan"]][-1] == DAY_S
    assert block.fallbacks == 0
    assert '"an example": [{"from": "00:00", "do": "sleep"' in model.received[0][-1]["content"]


def test_plan_of_a_model_is_remembered_as_what_the_citizen_did() -> None:
    pieces = [("00:00", "sleep", "home"), ("00:30", "leisure", "home"), ("08:00", "work", "work")]
    answer = {"plan": [{"from": at, "do": do, "where": where} for at, do, where in pieces]}
    agent = citizen([PlanBlock(llm=ScriptedModel([json.dumps(answer)]))], work="work-1")
    for step in (0, 2):
        live(agent, step, city=town())
    assert any("From 00:00 to 00:30 its plan was: sleep" in str(e) for e in agent.memory.stream)


@pytest.mark.parametrize(
    "answer",
    (
        "I would rather not.",
        json.dumps({"plan": []}),
        json.dumps({"plan": [{"from": "00:00", "do": "fly", "where": "home"}]}),
        json.dumps({"plan": [{"from": "24:00", "do": "eat", "where": "home"}]}),
        json.dumps({"plan": [{"from": "25:00", "do": "eat", "where": "home"}]}),
        ValueError("the model is out of order"),
    ),
)
def test_nonsense_of_a_model_falls_back_to_the_rule_and_is_counted(answer: Any) -> None:
    block = PlanBlock(llm=ScriptedModel([answer]), block_params=PlanBlockParams(**STEADY))
    agent, by_rule = citizen([block], work="work-1"), citizen([steady()], work="work-1")
    for each in (agent, by_rule):
        live(each, 0, city=town())
    assert agent.status["plan"] == by_rule.status["plan"]
    assert block.fallbacks == 1


def test_plan_block_tells_its_model_the_fault_and_asks_once_more() -> None:
    late = {"from": "24:30", "do": "eat", "where": "home"}
    good = {**late, "from": "08:00"}
    model = ScriptedModel([json.dumps({"plan": [each]}) for each in (late, good)])
    block = PlanBlock(llm=model)
    agent = citizen([block], work="work-1")
    live(agent, 0, city=town())
    assert 'Your answer has no item whose "from" is before' in model.received[1][-1]["content"]
    assert [each["do"] for each in agent.status["plan"]] == ["sleep", "eat"]
    assert block.fallbacks == 0


def test_plan_without_a_way_home_leaves_the_citizen_where_it_is() -> None:
    agent = citizen(blocks(), plan=[item("leisure", "home-1", 0, 24)], day=0)
    (move,) = live(agent, 8, city=town(), place="park-1")
    assert move == Move("home-1", move.mode)
    live(agent, 8.25, city=town(), place="park-1", answers=[Answer(move, False, "home-1 is full")])
    assert agent.status["plan"][agent.status["now"]]["where"] is None
