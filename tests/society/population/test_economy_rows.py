"""Wages, purchases, savings and the end of a day in columns: the same as citizen by citizen."""

from __future__ import annotations

import asyncio
import functools
import json
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from tests.society.blocks.living import town
from tests.society.population.pairs import Plain, all_equal

from moothall import Society
from moothall.society.blocks import all_blocks
from moothall.society.blocks.citizen_block import CitizenBlock
from moothall.society.blocks.economy import EconomyBlockParams, budget_of, to_save
from moothall.society.blocks.row_block import RowBlock
from moothall.society.city.city import City
from moothall.society.city.grid import Grid
from moothall.society.clock import Clock
from moothall.society.columns.column import Column
from moothall.society.columns.ledger import credited_interest, tax_on
from moothall.society.kernel.citizen import CitizenAgent, CitizenMemory
from moothall.society.kernel.commit import Books, Submission
from moothall.society.kernel.wants import Answer, Buy, Pay, Save, Work, id_order
from moothall.society.population.population import Population
from moothall.society.population.row_books import RowBooks
from moothall.society.services.economy import Bank, Government, make_economy
from moothall.society.services.feed import Feed
from moothall.society.services.firm import Firm
from moothall.society.services.labour import LabourMarket

CITIZENS = 10
PLACES = ("work-1", "shop-1", "shop-2", "restaurant-1", "home-1")
CITY = town(shop_2=(9, 20))


class Jobs(RowBlock):
    """What firms look at in a citizen."""

    columns = {  # noqa: RUF012
        "work": Column("place", None),
        "skill": Column("int16", 1000, key=("profile", "skill")),
    }
    words = ("food",)

    async def forward(self) -> None:
        """Nothing."""


class Alone:
    """A service that is asked one by one."""

    def settle(self, books: Books, sender: str, want: Any) -> Any:
        return super().settle(books, sender, want)  # type: ignore[misc]


class FirmAlone(Alone, Firm):
    """A firm that is asked one by one."""


class BankAlone(Alone, Bank):
    """A bank that is asked one by one."""


class Mild(Government):
    """A government with a rule of its own for the tax."""

    def due(self, rows: Any, gross: Any) -> Any:
        return super().due(rows, gross) // 2


def services(given: dict[str, Any], alone: bool) -> list[Any]:
    """A bank, a government, and a firm at each place, as drawn."""
    firms = [
        (FirmAlone if alone or place == given["strange"] else Firm)(
            f"firm-{number}",
            place,
            given["firms"][number][0],
            wage=given["firms"][number][1],
            price=1 + given["firms"][number][2] % 300,
            stock=given["firms"][number][2],
            sells=place.startswith(("shop", "rest")),
            public=given["public"] == place,
        )
        for number, place in enumerate(PLACES[:4])
    ]
    state = Mild if given["strange"] == "home-1" else Government
    bank = BankAlone if alone else Bank
    made = [bank(money=given["capital"], interest=given["interest"]), *firms]
    if not given["stateless"]:
        made.append(state(money=given["treasury"], reserve=given["capital"], month=2, seed=3))
    return made


cents = st.one_of(st.sampled_from([0, 1, 99, 100, 10**9, 2**61]), st.integers(-2_000, 60_000))
worlds = st.fixed_dictionaries(
    {
        "firms": st.lists(
            st.tuples(
                st.sampled_from([0, 500, 20_000, 10**8]),
                st.sampled_from([0, 1, 2500, 10**12]),
                st.sampled_from([0, 1, 7, 1000, 10**6]),
            ),
            min_size=4,
            max_size=4,
        ),
        "strange": st.sampled_from(["", "", "shop-1", "work-1", "home-1"]),
        "public": st.sampled_from(["", "work-1", "shop-1"]),
        "at_once": st.sampled_from([True, True, False]),
        "stateless": st.sampled_from([False, False, False, True]),
        "capital": st.sampled_from([0, 40, 10**6]),
        "interest": st.sampled_from([0, 27, 1_000_000]),
        "treasury": st.sampled_from([0, 3000, 10**7]),
        "people": st.lists(
            st.tuples(
                st.sampled_from([0, 50, 100, 5000, 10**6]),
                st.sampled_from(PLACES),
                st.sampled_from([None, *PLACES[:4]]),
                st.sampled_from([-1, 0, 592, 1000, 1550]),
            ),
            min_size=CITIZENS,
            max_size=CITIZENS,
        ),
        "steps": st.lists(
            st.lists(
                st.tuples(
                    st.integers(0, CITIZENS - 1),
                    st.sampled_from([Work, Work, Buy, Buy, Save, Pay]),
                    st.sampled_from([None, None, None, *PLACES]),
                    cents,
                ),
                max_size=24,
            ),
            min_size=1,
            max_size=6,
        ),
    }
)


def want(kind: Any, place: str, number: int) -> Any:
    if kind is Work:
        return Work(place, number if number < 2000 else 900)
    if kind is Buy:
        return Buy(place, "food", number)
    return Save(number) if kind is Save else Pay("bank", number)


def lived(given: dict[str, Any], alone: bool) -> list[Any]:
    """Money, states and answers after each step; all wants at once, or each `alone`."""
    city: Any = CITY if given["at_once"] else Plain(CITY)
    them = services(given, alone)
    by_id = {each.id: each for each in sorted(them, key=lambda each: id_order(each.id))}
    people = given["people"]
    population = Population(
        {
            "money": np.array([each[0] for each in people]),
            "home": np.array([each[1] for each in people]),
            "work": np.array([-1 if p[2] is None else city.ids().index(p[2]) for p in people]),
            "skill": np.array([each[3] for each in people], np.int16),
        },
        city,
        [Jobs()],
    )
    books = RowBooks(city, by_id)
    for row in range(CITIZENS):
        books.enter(CitizenAgent(row + 1, memory=CitizenMemory(population.status_of(row))))
    seen = []
    for step, wants in enumerate(given["steps"]):
        books.step = 48 if step % 3 < 2 else 95  # the last of the day closes it
        books.clock = Clock(step="15min").at(books.step)
        wanted = [
            Submission(str(row + 1), want(kind, place or people[row][1], number), at)
            for at, (row, kind, place, number) in enumerate(wants)
        ]
        answers = dict(books.settle(wanted))
        books.end_step()
        total = books.total
        books.check(total)
        state = json.loads(json.dumps(books.state_dict()))
        kept = state["bank"]["state"]["deposits"]
        state["bank"]["state"]["deposits"] = {id: n for id, n in kept.items() if n}
        if "government" in state:
            taxed = state["government"]["state"]["taxed"]
            state["government"]["state"]["taxed"] = {id: n for id, n in taxed.items() if any(n)}
        money = [books.balances[str(row + 1)] for row in range(CITIZENS)]
        outcomes = [(answers[n].done, answers[n].value or 0) for n in range(len(wants))]
        assert all(each.done or each.reason for each in answers.values())
        seen.append((money, state, outcomes))
    return seen


SHORT = {
    "firms": [(0, 3600, 0), (10**8, 10**5, 7), (500, 2500, 7), (0, 0, 0)],
    "strange": "",
    "public": "work-1",
    "at_once": True,
    "stateless": False,
    "capital": 40,
    "interest": 27,
    "treasury": 3000,
    # The government pays three wages, and some more after the taxes of those at the shop.
    "people": [
        *[(0, "work-1", "work-1", 1000)] * 5,
        (50, "shop-1", None, 1000),
        *[(0, "shop-1", "shop-1", 1000), (0, "work-1", "work-1", 1000)] * 2,
    ],
    "steps": [
        [(row, Work, None, 900) for row in range(CITIZENS)],
        [(row, Buy, None, 5000) for row in (5, 6, 8)],
    ],
}


def test_wages_and_goods_that_do_not_suffice_for_all_go_to_some_in_columns_too() -> None:
    found = []
    for alone in (True, False):
        (_, _, wages), (_, _, goods) = lived(SHORT, alone)
        found.append((wages, goods))
        assert {done for done, _ in wages} == {True, False}
        assert sorted(value for _, value in goods) == [0, 0, 56]
    assert found[0] == found[1]


@given(worlds)
@example(SHORT)
@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_services_settle_many_wants_as_they_settle_one_by_one(given: dict[str, Any]) -> None:
    for many, one_by_one in zip(lived(given, False), lived(given, True), strict=True):
        for found, expected in zip(many, one_by_one, strict=True):
            assert found == expected


async def test_firm_with_a_rule_of_its_own_keeps_it_beside_others() -> None:
    class Strict(Firm):
        """Sells nothing to one."""

        def settle(self, books: Books, sender: str, want: Any) -> Any:
            if sender == "2":
                return Answer(want, False, "not to this one")
            return super().settle(books, sender, want)

    class Buys(RowBlock):
        """Buys where it is."""

        columns = {"got": Column("int8")}  # noqa: RUF012
        words = ("food",)

        def step_rows(self, rows: Any) -> None:
            rows["got"] = rows.answers(Buy)[0]
            rows.want(Buy, place=rows["place"], kind="food", cents=100)

    places = np.array([0, 0, 1])
    table = {"place": places, "money": np.full(3, 200)}
    population = Population(table, Grid(2, 1, capacity=None), [Buys()])
    goods: dict[str, Any] = {"price": 100, "stock": 9, "sells": True}
    firms = [Strict("firm-1", "0,0", 0, **goods), Firm("firm-2", "1,0", 0, **goods)]
    async with Society(population, services=firms) as society:
        await society.run(steps=2)
    assert population.columns["got"].tolist() == [1, -1, 1]
    assert population.columns["money"].tolist() == [0, 200, 0]


def test_row_books_pass_on_all_that_one_has_in_turn() -> None:
    population = Population({"money": np.array([100, 0, 0])}, None, [])
    books = RowBooks(None, {}, population)
    pays = enumerate([("1", "2", 100), ("2", "3", 100), ("3", "1", 101)])
    wanted = [Submission(id, Pay(to, cents), at) for at, (id, to, cents) in pays]
    answers = dict(books.settle(wanted))
    assert [answers[at].done for at in range(3)] == [True, True, False]
    assert population.columns["money"].tolist() == [0, 0, 100]


def test_savings_in_rows_are_taken_out_once() -> None:
    bank = Bank()
    bank.of_population(Population(3, None, []))
    bank.deposits["2"] = 500
    assert bank.deposits.pop("2") == 500
    assert not bank.deposits
    assert bank.owed == 0


@pytest.mark.parametrize("own", (0, 10**12, 3 * 10**12, 10**14))
def test_interest_of_large_deposits_is_paid_while_capital_lasts(own: int) -> None:
    kept = [10**13, 10**12, 5, 0, 10**13]
    left, expected = own, []
    for each in kept:
        earned = each * 999_999 // 1_000_000
        expected.append(earned if earned <= left else 0)
        left -= expected[-1]
    assert credited_interest(np.array(kept), 999_999, own, np.argsort).tolist() == expected


@given(st.lists(st.integers(0, 10**9), max_size=20))
def test_taxes_of_many_are_those_of_each(incomes: list[int]) -> None:
    brackets = ((0, 100), (2_610, 120), (10_603, 1000))
    found = tax_on(np.array(incomes, np.int64), brackets)
    assert found.tolist() == [tax_on(each, brackets) for each in incomes]


@given(
    *[st.sampled_from([0, 1, 499, 500, 10**6, 10**12])] * 3,
    st.integers(0, 1000),
    st.integers(0, 3650),
)
@settings(max_examples=30, deadline=None)
def test_budgets_and_savings_of_many_are_those_of_each(
    income: int, wealth: int, savings: int, share: int, days: int
) -> None:
    several = [np.array([each, 7]) for each in (income, wealth, savings)]
    budget = budget_of(income, wealth, share, 600)
    assert budget_of(several[0], several[1], share, 600)[0] == budget
    found = to_save(several[1], several[2], np.array([budget, 1]), days)
    assert found[0] == to_save(wealth, savings, budget, days)


# -- the day of a town -----------------------------------------------------------------------------


@functools.cache
def small_town() -> City:
    return City.generate(seed=3, citizens=40)


def day(seed: int, rich: int, params: EconomyBlockParams, broke: str) -> Any:
    """Citizens whose money is drawn, up to `rich`, where some lack the money to pay or to sell."""

    def make() -> tuple[Population, list[Any]]:
        city = small_town()
        blocks = [
            type(each)(block_params=params) if each.name == "EconomyBlock" else each
            for each in all_blocks()
        ]
        made = Population(20, city, blocks, seed=seed)
        made.arrays["money"][:] = np.minimum(made.arrays["money"], rich)
        economy = make_economy(city, seed=seed)
        for each in economy:
            if isinstance(each, Firm) and broke in ("firms", "all"):
                each.money, each.stock = each.money % 7 * 900, each.stock % 3
            elif broke == "all":
                each.money = 0
        return made, [*economy, Feed(most=30)]

    return make


days = (
    st.integers(0, 9),
    st.sampled_from([0, 700, 10**12]),
    st.builds(
        EconomyBlockParams,
        least=st.sampled_from([1, 500, 10**6]),
        meal=st.sampled_from([0, 250, 1000]),
        cash_days=st.sampled_from([0, 14]),
    ),
    st.sampled_from(["", "firms", "all"]),
)


@given(*days)
@settings(max_examples=1, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_rows_of_a_town_have_the_same_day(
    seed: int, rich: int, params: EconomyBlockParams, broke: str
) -> None:
    asyncio.run(all_equal(day(seed, rich, params, broke), 50, step="30min"))


@pytest.mark.long
@pytest.mark.parametrize("step", ("30min", "1h"))
async def test_errands_of_long_steps_are_the_same(step: str) -> None:
    city = City.generate(seed=5, citizens=40)

    def make() -> tuple[Population, list[Any]]:
        return Population(40, city, all_blocks(), seed=5), make_economy(city, seed=5)

    await all_equal(make, 44, step=step, start="2026-01-05T06:00")


class Bought(CitizenBlock):
    """Adds up what a citizen has bought, in cents."""

    columns: ClassVar[Any] = {"bought": Column("int64")}

    def before_rows(self, rows: Any) -> None:
        done, cents = rows.answers(Buy)
        rows["bought"] += cents * (done > 0)

    def step_rows(self, rows: Any) -> None:
        """It fits no item of a plan."""


@pytest.mark.long
async def test_purchases_of_a_day_hardly_depend_on_the_step_length() -> None:
    async def bought(step: str) -> float:
        city = City.generate(seed=7, citizens=1000)
        services = make_economy(city, seed=7)
        for each in services:
            if isinstance(each, Firm) and each.sells:
                each.stock = 10**8  # nothing is sold out
        population = Population(1000, city, [*all_blocks(), Bought()], seed=7)
        async with Society(population, services=services) as society:
            await society.run(days=2, step=step)
        return population.columns["bought"].sum() / 2 / 1000 / 100

    quarter, half, hour = [await bought(step) for step in ("15min", "30min", "1h")]
    assert quarter > 30  # dollars a day
    assert half == pytest.approx(quarter, rel=0.15)
    assert hour == pytest.approx(quarter, rel=0.15)


@pytest.mark.long
async def test_jobs_end_and_begin_for_rows_as_for_agents() -> None:
    city = City.generate(seed=3, citizens=60)
    rates = {"leaves": 200_000, "moves": 200_000, "finds": 500_000, "benefit": 1000}

    def make() -> tuple[Population, list[Any]]:
        services: list[Any] = make_economy(city, seed=3, labour=LabourMarket(seed=5, **rates))
        services[1].money = 400_000  # too little for all
        made = Population(60, city, all_blocks(), seed=3)
        adult = (made.arrays["age"] >= 18) & (made.arrays["age"] < 67)
        made.arrays["jobless"][adult & (made.arrays["work"] < 0)] = 0
        return made, services

    seen = await all_equal(make, 26, step="2h")
    first, last = seen[0], seen[-1]
    assert ((first["work"] >= 0) & (last["work"] < 0) & (last["jobless"] >= 1)).any()
    assert ((first["work"] < 0) & (last["work"] >= 0) & (last["jobless"] < 0)).any()
    assert ((last["work"] != first["work"]) & (first["work"] >= 0) & (last["work"] >= 0)).any()
