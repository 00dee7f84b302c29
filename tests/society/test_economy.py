"""Firms, bank and government: who is paid first, and that money only moves."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall import ConfigError, Journal
from moothall.society.blocks.economy import EconomyBlock
from moothall.society.blocks.row_block import RowBlock
from moothall.society.city.city import City
from moothall.society.city.grid import Grid
from moothall.society.clock import Clock
from moothall.society.columns.column import Column
from moothall.society.columns.ledger import divide, tax_on
from moothall.society.kernel.citizen import CitizenAgent, CitizenMemory
from moothall.society.kernel.commit import Books, Submission
from moothall.society.kernel.wants import Answer, Buy, Pay, Save, Want, Work
from moothall.society.population.population import Population
from moothall.society.population.row_books import RowBooks
from moothall.society.services.economy import (
    BRACKETS,
    Bank,
    Government,
    adapted_price,
    make_economy,
)
from moothall.society.services.feed import Feed
from moothall.society.services.firm import Firm, gross_wage
from moothall.society.services.labour import LabourMarket
from moothall.society.services.transfers import Transfers
from moothall.society.society import Society


def books(*services: Any, city: Any = None, hour: int = 10, **citizens: dict[str, Any]) -> Books:
    """Books of citizens `c1`, … at a time of the first day."""
    made = RowBooks(city, {each.id: each for each in services})
    made.clock = Clock(step="15min").at(hour * 4)
    made.step = hour * 4
    for id, status in citizens.items():
        blocks = [EconomyBlock()] if "earned" in status else []
        made.enter(CitizenAgent(id, memory=CitizenMemory(status), blocks=blocks))
    return made


class Jobs(RowBlock):
    """Where a citizen works."""

    columns = {"work": Column("place", None)}  # noqa: RUF012


def settled(made: Books, *wanted: tuple[str, Want]) -> list[Answer]:
    """The answers in the order of what was wanted."""
    by_token = dict(made.settle([Submission(id, want, n) for n, (id, want) in enumerate(wanted)]))
    return [by_token[number] for number in range(len(wanted))]


# -- the rules -------------------------------------------------------------------------------------


def test_tax_is_by_brackets() -> None:
    assert tax_on(0) == 0
    assert tax_on(2_610) == 261
    # The usual brackets, by hand: each one's part is rounded down.
    assert tax_on(10_603) == 261 + 959
    incomes = (22_603, 43_151, 54_795, 136_986, 236_986)
    assert [tax_on(each) for each in incomes] == [3860, 8791, 12_517, 41_283, 78_283]
    yearly = (0, 9_525, 38_700, 82_500, 157_500, 200_000, 500_000)
    assert [start for start, _ in BRACKETS] == [round(each * 100 / 365) for each in yearly]
    assert tax_on(20_000, ((0, 0), (10_000, 500))) == 5_000


@given(st.integers(0, 10**9), st.integers(0, 10**6))
def test_tax_grows_with_the_income_and_by_no_more_than_it(income: int, more: int) -> None:
    assert 0 <= tax_on(income) <= tax_on(income + more)
    assert tax_on(income + more) - tax_on(income) <= more


@given(st.integers(0, 10**9), st.lists(st.integers(0, 10**6), max_size=20))
def test_shares_leave_no_rest_and_are_fair_to_a_unit(total: int, weights: list[int]) -> None:
    parts = divide(total, weights)
    assert sum(parts) == (total if sum(weights) else 0)
    for part, weight in zip(parts, weights, strict=True):
        exact = total * weight / sum(weights) if sum(weights) else 0
        assert abs(part - exact) <= 1


def test_shares_remainder_goes_to_the_largest_rests() -> None:
    assert divide(10, [5, 3, 3]) == [4, 3, 3]
    assert divide(5, [1, 1, 1]) == [2, 2, 1]
    assert divide(5, [0, 0]) == [0, 0]


def test_prices_rise_with_demand_fall_without_it_and_never_jump() -> None:
    assert adapted_price(1000, 200, 100, 50, 1000) == 1025
    assert adapted_price(1000, 100, 200, 50, 1000) == 975
    assert adapted_price(1000, 100, 0, 50, 1000) == 1050
    assert adapted_price(1000, 100, 0, 50, 0) == 1000
    assert adapted_price(1, 0, 100, 1000, 1000) == 1
    assert adapted_price(1000, 0, 0, 50, 1000) == 1000
    assert adapted_price(1000, 7, 7, 50, 1000) == 1000
    assert (adapted_price(999, 100, 0, 50, 500), adapted_price(999, 0, 100, 50, 500)) == (1023, 975)


def test_wage_is_for_seconds_and_skill() -> None:
    assert gross_wage(2500, 1000, 3600) == 2500
    assert gross_wage(2500, 1550, 900) == 968


# -- the services ----------------------------------------------------------------------------------


def test_wage_is_taxed_at_its_source_by_the_income_of_the_day() -> None:
    firm, state = Firm("firm-1", "work-1", 100_000, wage=20_000), Government()
    made = books(firm, state, c1={"work": "work-1", "place": "work-1"})
    net = [settled(made, ("c1", Work("work-1", 900)))[0].value for _ in range(4)]
    assert made.balances["c1"] == sum(net) == 20_000 - tax_on(20_000)
    assert made.balances["government"] == tax_on(20_000)
    assert net == sorted(net, reverse=True)
    state = Government(brackets=[(0, 0), (6_000, 500)])  # the first wages are free of tax
    made = books(firm, state, c1={"work": "work-1", "place": "work-1"})
    net = [settled(made, ("c1", Work("work-1", 900)))[0].value for _ in range(3)]
    assert net == [5_000, 3_000, 2_500]


def test_firm_pays_at_most_the_seconds_of_a_step() -> None:
    made = books(Firm("firm-1", "work-1", 9_000), c1={"work": "work-1"})
    for _ in range(2):
        answers = settled(made, *(("c1", Work("work-1", each)) for each in (600, 600, 300, 1)))
        assert [each.done for each in answers] == [True, False, True, False]
        assert answers[1].reason == "seconds must be from 1 to the 300 left of this step, got 600"
    assert made.balances["c1"] == 2 * (416 + 208)


def test_firm_pays_no_second_of_a_step_twice_by_a_message_either() -> None:
    firm = Firm("firm-1", "0,0", 10_000)
    people = Population(
        {"place": [0, 0], "work": [0, 0], "home": [1, 1]}, Grid(2, 1, capacity=None), [Jobs()]
    )
    people.services = ["firm-1"]
    agent = people.promote(1)
    made = RowBooks(people.city, {"firm-1": firm}, people)
    made.enter(agent)
    work = Work("0,0", 900)
    answers = made.settle([Submission("1", work, "want"), Submission("1", work, "message", firm)])
    assert [each.done for _, each in answers] == [True, False]
    assert made.balances["1"] == 625


def test_wages_come_before_purchases_and_who_is_heard_later_may_get_less() -> None:
    firm = Firm("firm-1", "shop-1", 1000, wage=4000, price=100, stock=15, sells=True)
    worker, buyer = {"work": "shop-1"}, {"money": 900}
    made = books(firm, c1={**worker}, c2={**worker}, c3={**buyer}, c4={**buyer})
    answers = settled(
        made,
        ("c1", Work("shop-1", 900)),
        ("c2", Work("shop-1", 900)),
        ("c3", Buy("shop-1", "goods", 900)),
        ("c4", Buy("shop-1", "goods", 900)),
    )
    assert [each.done for each in answers[2:]] == [True, True]
    (unpaid,) = (each for each in answers[:2] if not each.done)
    assert "firm-1 has 0 cents, and the wage is more" in unpaid.reason
    assert {each.value for each in answers[2:]} == {900, 600}
    assert (firm.stock, firm.asked, firm.sold) == (0, 18, 15)
    assert "sold out" in settled(made, ("c3", Buy("shop-1", "goods", 900)))[0].reason


@pytest.mark.parametrize(
    ("want", "reason"),
    (
        (Work("work-1", 900), "not employed"),
        (Work("shop-1", 901), "seconds must be from 1 to the 900 left of this step, got 901"),
        (Work("shop-1", 0), "seconds must be"),
        (Buy("work-1", "goods", 900), "sells nothing"),
        (Buy("shop-1", "goods", 0), "cents must be"),
        (Buy("shop-1", "goods", 99), "a unit costs 100"),
        (Buy("shop-1", "goods", 10**9), "not"),
        (Buy("nowhere", "goods", 900), "no service"),
        (Save(0), "cents must be"),
        (Save(-1), "has saved 0"),
        (Save(10**9), "not"),
        (Pay("nobody", 1), "there is no nobody"),
    ),
)
def test_economy_impossible_want_is_refused_and_moves_nothing(want: Want, reason: str) -> None:
    shop = Firm("firm-1", "shop-1", 10_000, stock=10**8, sells=True)
    made = books(shop, Firm("firm-2", "work-1"), Bank(), c1={"work": "shop-1", "money": 1000})
    before = dict(made.balances)
    (answer,) = settled(made, ("c1", want))
    assert not answer.done
    assert reason in answer.reason
    assert made.balances == before


def test_economy_work_and_purchases_need_an_open_place_and_presence() -> None:
    city = City.generate(seed=1, citizens=50)
    shop = city.by_kind("shop")[0]
    firm = Firm("firm-1", shop, 10_000, stock=100, sells=True)
    home = city.by_kind("home")[0]
    away = {"work": shop, "money": 1000, "place": home}
    made = books(firm, city=city, c1=dict(away), c2={**away, "place": shop})
    wants = [("c1", Work(shop, 900)), ("c1", Buy(shop, "", 500)), ("c2", Buy(shop, "", 500))]
    assert [each.done for each in settled(made, *wants)] == [False, False, True]
    made.clock = Clock().at(3 * 4)
    assert "closed" in settled(made, ("c2", Buy(shop, "", 500)))[0].reason


@pytest.mark.parametrize("skill", ("high", -5, math.nan, 10**30, None))
def test_wage_of_an_unusable_skill_is_that_of_the_common_one(skill: Any) -> None:
    firm = Firm("firm-1", "work-1", 1000, wage=4000)
    made = books(firm, c1={"work": "work-1", "profile": {"skill": skill}})
    assert settled(made, ("c1", Work("work-1", 900)))[0].value == 1000


def test_public_wages_come_from_the_government() -> None:
    school, state = Firm("firm-1", "school-1", public=True), Government(money=5000)
    made = books(school, state, c1={"work": "school-1"})
    (answer,) = settled(made, ("c1", Work("school-1", 900)))
    assert answer.done
    assert made.balances["government"] == 5000 - answer.value
    made = books(Firm("firm-1", "school-1", 5000, public=True), c1={"work": "school-1"})
    (answer,) = settled(made, ("c1", Work("school-1", 900)))
    assert made.balances["firm-1"] == 5000 - answer.value  # there is no government


def test_bank_keeps_gives_back_and_pays_interest_out_of_its_own() -> None:
    bank = Bank(money=30, interest=1000)
    made = books(bank, c1={"money": 50_000}, c2={"money": 50_000})
    settled(made, ("c2", Save(50_000)))
    settled(made, ("c1", Save(20_000)))
    bank.credit(made)
    assert bank.deposits == {"c1": 20_020, "c2": 50_000}  # 50 cents more than it has
    (answer,) = settled(made, ("c1", Save(-20_020)))
    assert (answer.value, made.balances["c1"]) == (0, 50_020)
    (answer,) = settled(made, ("c2", Save(-1)))
    assert (answer.value, made.balances["c2"]) == (49_999, 1)
    assert made.total == 100_030


def test_interest_is_credited_in_the_order_of_ids_while_the_bank_has_some() -> None:
    bank = Bank(money=30, interest=1000)
    made = books(bank, **{"10": {"money": 20_000}, "2": {"money": 20_000}})
    settled(made, ("10", Save(20_000)))
    settled(made, ("2", Save(20_000)))
    bank.credit(made)
    assert bank.deposits == {"10": 20_000, "2": 20_020}
    bank.credit(made)  # and its last 10 cents are too few
    assert bank.deposits == {"10": 20_000, "2": 20_020}
    made.enter(CitizenAgent("3", memory=CitizenMemory({"money": 10_000})))
    settled(made, ("3", Save(10_000)))
    bank.credit(made)
    assert bank.deposits["3"] == 10_010


def test_step_of_several_days_pays_what_steps_of_a_day_pay() -> None:
    city = City.generate(seed=1, citizens=20)
    statuses: dict[int, dict[str, Any]] = {
        1: {"money": 50_000, "profile": {"age": 70, "skill": 1000}},
        2: {"jobless": 0, "income": 9_000, "profile": {"age": 40, "skill": 900, "rents": True}},
        3: {"work": city.by_kind("work")[0], "profile": {"age": 50}},
    }

    def paid(step: str) -> Any:
        bank = Bank(money=10**7, interest=100_000)
        bank.deposits["3"] = 1_000_000
        market = LabourMarket(leaves=0, moves=0, fires=0, finds=0)
        services = [bank, Government(money=10**8), market, Transfers()]
        people = [CitizenAgent(n, memory=CitizenMemory({**each})) for n, each in statuses.items()]
        with Society(people, city, services=services) as society:
            society.run_sync(days=3, step=step)
            return society.books.state_dict(), [each.status["money"] for each in people]

    assert paid("3d") == paid("1d")
    assert paid("3d")[0]["bank"]["state"]["deposits"] == {"3": 1_331_000}


def test_wages_of_a_step_of_several_days_are_taxed_as_those_of_each_day() -> None:
    class Works(EconomyBlock):
        """Works eight hours a day, and saves nothing."""

        def fits_rows(self, rows: Any) -> Any:
            return 1.0

        def step_rows(self, rows: Any) -> None:
            days = rows.seconds // 86_400
            rows.want(Work, rows["work"] >= 0, place=rows["work"], seconds=8 * 3600 * days)

    city = City.generate(seed=1, citizens=200)
    places = [*city.by_kind("work")[:2]]

    def lived(step: str) -> Any:
        firms = [Firm(f"firm-{n}", place, 10**7, wage=3_000) for n, place in enumerate(places)]
        table = {"place": places, "work": places, "income": [0, 24_000]}
        block = Works(block_params={"cash_days": 3650})
        people = Population({name: np.array(each) for name, each in table.items()}, city, [block])
        with Society(
            people, services=[*firms, Government(reserve=10**9)], start="2026-01-05T10:00"
        ) as society:
            society.run_sync(days=14, step=step)
            society.run_sync(steps=1)
            columns = people.columns
            names = ("money", "income", "earned")
            return society.books.balances["government"], {
                name: columns[name].tolist() for name in names
            }

    assert lived("7d") == lived("1d")


def test_prices_and_wages_adapt_in_a_step_of_several_days_as_in_each_of_them() -> None:
    def lived(step: str) -> tuple[float, float, int]:
        firms = [Firm(str(n), f"s{n}", 0, stock=1000, sells=True, price=10**9) for n in range(300)]
        for each in firms:
            each.wage = 10**9
        government = Government(daily=20, most_price=0, most_wage=100)
        with Society([], services=[*firms, government]) as society:
            society.run_sync(days=90, step=step)
        prices, wages = ([getattr(f, name) for f in firms] for name in ("price", "wage"))
        return sum(prices) / 3e11, sum(wages) / 3e11, government.days

    for price, wage, days in (lived("1d"), lived("30d"), lived("90d")):
        assert price == pytest.approx(0.99**90, rel=0.01)  # goods lie there, and nobody asks
        assert wage == pytest.approx(0.95**3, rel=0.01)
        assert days == 90


def test_services_keep_what_each_has_where_others_come_and_leave() -> None:
    bank, state = Bank(interest=1000), Government()
    bank.deposits["8"] = 70  # before any citizen is there
    firm = Firm("firm-1", "work-1", 10_000)
    made = books(bank, state, firm, **{id: {"money": 900, "work": "work-1"} for id in "2579"})
    settled(made, ("5", Save(500)), ("7", Save(700)), ("7", Work("work-1", 900)))
    made.remove_row("5")
    made.remove_row("2")
    made.enter(CitizenAgent("1", memory=CitizenMemory({"money": 10})))
    made.enter(CitizenAgent("8"))
    settled(made, ("1", Save(1)))
    assert bank.deposits == {"1": 1, "5": 500, "7": 700, "8": 70}
    assert state.taxed == {"7": [625, 62]}
    made.enter(CitizenAgent("5"))
    assert settled(made, ("5", Save(-400)))[0].value == 100


def test_economy_day_ends_with_inputs_profits_transfers_and_new_prices() -> None:
    shop = Firm("firm-1", "shop-1", 10_000, price=100, stock=50, sells=True)
    works = Firm("firm-2", "work-1", 100_000, wage=4000)
    state = Government(most_price=1000, month=1, daily=0)
    made = books(shop, works, state, hour=23, c1={"work": "work-1"}, c2={"money": 10_000})
    total = made.total
    settled(made, ("c1", Work("work-1", 900)), ("c2", Buy("shop-1", "goods", 9000)))
    assert made.balances["firm-1"] == 15_000
    tax = made.balances["government"]
    made.step = 95
    made.clock = Clock().at(95)
    made.end_step()
    assert made.total == total
    assert shop.stock == 25 * 900 // 3600  # what was made in a quarter of an hour
    # The shop paid 50.00 to the works, which had paid a wage of 10.00 and so has 40.00 of profit.
    assert made.balances["firm-1"] == 10_000
    assert made.balances["firm-2"] == 100_000
    assert made.balances["c1"] == 1000 - tax + 2000 + tax // 2
    assert made.balances["government"] == tax % 2
    assert shop.price > 100
    assert (shop.asked, works.paid, works.worked, state.taxed) == (0, 0, 0, {})


def test_private_firms_alone_make_goods_and_change_wages_and_a_seller_keeps_its_buffer() -> None:
    shop = Firm("firm-1", "shop-1", 10_000, wage=4000, price=100, stock=50, sells=True)
    school = Firm("firm-2", "school-1", wage=4000, public=True)
    works = Firm("firm-3", "work-1", 100_000, wage=4000)
    state = Government(money=50_000, most_price=1000, most_wage=1000, month=2, daily=0)
    citizens = {"c1": {"work": "shop-1"}, "c2": {"work": "school-1"}, "c3": {"work": "work-1"}}
    made = books(shop, school, works, state, hour=23, **citizens)
    wages = {id: Work(status["work"], 900) for id, status in citizens.items()}
    settled(made, *wages.items(), ("c1", Buy("shop-1", "goods", 500)))
    made.step = 95
    made.clock = Clock().at(95)
    made.end_step()
    # 6 goods of each quarter of an hour's work at the shop and at the works.
    assert shop.stock == 50 - 5 + 12
    assert made.balances["firm-1"] == 10_000 - 1000 + 500
    assert (shop.price, works.wage, state.days) == (100, 4000, 1)
    assert (shop.month_asked, shop.month_sold) == (5, 5)
    settled(made, ("c1", Buy("shop-1", "goods", 300)))
    assert (shop.asked, shop.month_asked) == (3, 5)
    made.step = 191
    made.clock = Clock().at(191)
    made.end_step()
    assert shop.price < 100
    assert works.wage < 4000
    assert school.wage == 4000
    assert (shop.month_asked, shop.month_sold, state.days) == (0, 0, 2)
    shop.month_asked, wage = 10_000, works.wage
    for made.step in (287, 383):
        made.clock = Clock().at(made.step)
        made.end_step()
    assert works.wage > wage  # by what is asked of all firms


def test_economy_month_counts_what_each_of_its_days_sold() -> None:
    shop = Firm("firm-1", "shop-1", sells=True)
    for asked, sold in ((5, 4), (3, 1)):
        shop.asked, shop.sold = asked, sold
        shop.end_day()
    assert (shop.month_asked, shop.month_sold, shop.asked, shop.sold) == (8, 5, 0, 0)


def test_economy_day_ends_in_its_last_step_and_the_government_keeps_its_reserve() -> None:
    state, bank = Government(money=1000, reserve=400), Bank(money=100)
    made = books(state, bank, c1={"money": 2_000_000}, c2={})
    settled(made, ("c1", Save(1_000_000)))
    for step, days in ((94, 0), (95, 1), (96, 1)):
        made.step, made.clock = step, Clock().at(step)
        made.end_step()
        assert state.days == days
    # 600 above the reserve in equal parts, and interest of 27 millionths: one percent a year.
    assert (made.balances["government"], made.balances["c2"]) == (400, 300)
    assert bank.deposits["c1"] == 1_000_027
    odd = Government(money=5, reserve=0)
    assert (odd.month, odd.most_price, odd.most_wage, odd.brackets) == (30, 50, 50, BRACKETS)
    made = books(odd, c1={}, c2={})
    made.step, made.clock = 95, Clock().at(95)
    made.end_step()
    assert (made.balances["government"], made.balances["c1"], made.balances["c2"]) == (1, 2, 2)


def test_services_go_on_from_their_state() -> None:
    shop, bank, state = Firm("firm-1", "s", 10_000, sells=True), Bank(), Government()
    made = books(shop, bank, state, c1={"work": "s", "money": 500})
    assert all(each.done for each in settled(made, ("c1", Work("s", 900)), ("c1", Save(100))))
    assert state.taxed == {"c1": [625, 62]}
    again = books(Firm("firm-1", "s", 100, sells=True), Bank(), Government())
    again.load_state_dict(made.state_dict())
    assert again.state_dict() == made.state_dict()
    shop.worked += 1
    settled(made, ("c1", Work("s", 100)))
    assert again.state_dict() != made.state_dict()


def test_economy_is_made_for_a_city() -> None:
    city = City.generate(seed=1, citizens=200)
    services = make_economy(city)
    firms = [each for each in services if isinstance(each, Firm)]
    assert [each.id for each in services[:3]] == ["bank", "government", "firm-1"]
    assert {each.place for each in firms if each.sells} == {
        *city.by_kind("shop"),
        *city.by_kind("restaurant"),
    }
    assert all(each.money == 0 for each in firms if each.public)
    # The wages of ten days of eight hours of all who work there, at least one.
    makers = [each for each in firms if not each.sells and not each.public]
    assert {city.capacity(each.place) for each in makers} >= {1, 2}
    assert all(each.money == city.capacity(each.place) * 8 * 10 * 2500 for each in makers)
    assert {each.stock for each in firms if each.sells} == {4 * 8 * 10 * 25, 5 * 8 * 10 * 25}
    share = {"school": 100, "hospital": 500}  # staff, of a thousand that the place holds
    public = [each.place for each in firms if each.public]
    staff = sum(city.capacity(id) * share[city.kind(id)] // 1000 for id in public)
    assert (services[0].money, services[1].money) == (250_000, staff * 200_000)
    assert {(each.wage, each.price) for each in firms} == {(2500, 100)}
    firm = [s for s in make_economy(city, days=1, wage=100) if isinstance(s, Firm)][-1]
    assert firm.money == city.capacity(firm.place) * 8 * 100
    assert {each.seed for each in make_economy(city, seed=7) if isinstance(each, Government)} == {7}
    with pytest.raises(ConfigError, match="make_economy needs"):
        make_economy(None)
    with pytest.raises(ConfigError, match="a place of kind"):
        make_economy(Grid(3, 3))


@pytest.mark.parametrize(
    "make",
    (
        lambda: Government(brackets=((0, 1.5),)),  # type: ignore[arg-type]
        lambda: Government(brackets=((0, -1),)),
        lambda: Government(brackets=()),
        lambda: Government(brackets=((5, 100),)),
        lambda: Government(brackets=((0, 100), (0, 200))),
        lambda: Government(brackets=((0, 1001),)),
    ),
)
def test_wrong_brackets_of_a_tax_are_refused(make: Any) -> None:
    with pytest.raises(ConfigError):
        make()
    assert BRACKETS[0][0] == 0


@pytest.mark.parametrize("wrong", ({"seed": "x"}, {"days": -1}, {"wage": "x"}, {"labour": 5}))
def test_economy_of_wrong_arguments_is_refused(wrong: Any) -> None:
    (name,) = wrong
    with pytest.raises(ConfigError, match=f"^{name}=? must be .*, got"):
        make_economy(City.generate(seed=1, citizens=20), **wrong)


def test_service_is_asked_by_messages_too() -> None:
    heard: list[Any] = []

    class Saver(CitizenAgent):
        async def response(self, data: Any, original_message_id: str | None = None) -> None:
            heard.append((self.perceived.step, data))

        async def forward(self) -> None:
            if self.perceived.step == 0:
                self.send({"to": "bank", "action": {"name": "save", "args": {"cents": 300}}})

    saver = Saver(1, memory=CitizenMemory({"money": 1000}))
    society = Society([saver], services=[Bank()])
    asyncio.run(society.run(steps=2))
    assert heard == [(1, {"done": True, "reason": "", "value": 300})]
    assert (saver.status["money"], society.books.balances["bank"]) == (700, 300)
    society.close()


def test_services_that_lived_in_another_society_are_refused_unless_a_state_is_loaded() -> None:
    city = City.generate(seed=1, citizens=20)
    services = make_economy(city, seed=1)

    def town() -> Society:
        return Society(20, city, seed=1, services=services)

    with town() as first, town() as second:
        first.run_sync(steps=2)
        state = first.state_dict()
        with pytest.raises(ConfigError, match=r"service '.*' has lived in another society"):
            second.run_sync(steps=1)
        second.load_state_dict(state)
        with pytest.raises(ConfigError, match=r"service '.*' has lived in another society"):
            first.run_sync(steps=1)
        second.run_sync(steps=1)
        assert second.number == 3


def test_services_of_another_society_are_refused_in_each_call_of_a_recorded_run(
    tmp_path: Path,
) -> None:
    bank, unused = Bank("a"), Bank("z")
    with Society([], services=[unused]) as first:
        first.run_sync(steps=1)
    with Journal(tmp_path / "journal") as journal:
        for _ in range(2):
            with (
                Society([], services=[bank, unused], journal=journal) as second,
                pytest.raises(ConfigError, match="service 'z' has lived in another society"),
            ):
                second.run_sync(steps=1, run_id="R")
    with Society([], services=[bank]) as third:
        third.run_sync(steps=1)  # it has lived in none


def test_services_settle_in_the_rows_of_the_society_that_lives_not_of_the_one_made_last() -> None:
    city = City.generate(seed=1, citizens=40)
    shared, separate = ([*make_economy(city, seed=1), Feed()] for _ in range(2))
    with (
        Society(40, city, services=shared) as society,
        Society(40, city, services=separate) as alone,
    ):
        for hours in (9, 15):
            with Society(5, city, services=shared):
                assert society.run_sync(steps=hours, step="1h") == alone.run_sync(
                    steps=hours, step="1h"
                )
        assert society.state_dict() == alone.state_dict()


def test_service_of_the_id_of_a_citizen_is_refused() -> None:
    for citizens in ([CitizenAgent(3)], Population(5, blocks=[])):
        with pytest.raises(ConfigError, match=r"^'?3'? is the id of a service"):
            Society(citizens, services=[Bank("3")])


@pytest.mark.parametrize(
    ("service", "said"),
    (
        (Bank(""), "a service's id must be 1–255 printable characters"),
        (Bank("city"), "must not have the id 'city'"),
        (Firm("firm-1", "work-99"), "'firm-1' is at 'work-99', which the city has not"),
    ),
)
def test_service_of_a_wrong_id_or_in_another_city_is_refused(service: Any, said: str) -> None:
    city = City.generate(seed=1, citizens=20)
    with pytest.raises(ConfigError, match=said):
        Society(2, city, seed=1, services=[service])
