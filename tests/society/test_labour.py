"""The labour market: layoffs, benefits and the share of the jobless."""

from __future__ import annotations

from typing import Any

import pytest
from tests.society.population.lives import promoted
from tests.society.test_economy import books

from moothall.foundation.errors import ConfigError
from moothall.society import (
    CitizenAgent,
    CitizenMemory,
    City,
    Experiment,
    Firm,
    Government,
    LabourMarket,
    Place,
    Population,
    Question,
    Society,
    Survey,
    all_blocks,
    make_economy,
)

CITIZENS = 400


async def days(count: int, **rates: Any) -> tuple[LabourMarket, list[dict[str, Any]]]:
    """Let a town live so many days in steps of 12 hours; return its labour market and metrics."""
    city = City.generate(seed=3, citizens=CITIZENS)
    market = LabourMarket(**{"leaves": 0, "moves": 0, "fires": 0, "finds": 0, **rates})
    services = make_economy(city, seed=3, labour=market)
    population = Population(CITIZENS, city, all_blocks(), seed=3)
    async with Society(population, services=services) as society:
        return market, await society.run(days=count, step="12h")


async def test_firms_lay_off_on_one_evening_only() -> None:
    market, rows = await days(3, layoff_day=2, layoffs=300)
    shares = [row["unemployment"] for row in rows[1::2]]
    assert shares[0] < 0.08
    assert 0.2 < shares[1] - shares[0] < 0.4
    assert shares[1] == shares[2] == market.unemployment


async def test_labour_jobless_without_benefits_find_work_sooner() -> None:
    usual = {"layoff_day": 1, "layoffs": 600, "finds": 400_000}
    paid, _ = await days(2, **usual)
    unpaid, _ = await days(2, **usual, benefit=0)
    twice, _ = await days(2, **usual, benefit=800)
    assert unpaid.counts["hired"] > paid.counts["hired"] > twice.counts["hired"] > 0
    assert unpaid.counts["paid"] == 0 < paid.counts["paid"] < twice.counts["paid"]


def test_labour_benefits_leave_the_government_a_day_of_public_wages() -> None:
    city = City([Place("office", "work", 0, 0, capacity=9)])
    wages, kept = 8 * 2500, 700
    made = books(
        LabourMarket(leaves=0, moves=0, finds=0, fires=0),
        Firm("firm", "office", public=True),
        Government(money=2 * wages + kept),
        city=city,
        hour=23,
        **{f"c{n}": {"work": "office", "profile": {"age": 30, "skill": 1000}} for n in (1, 2)},
        c3={"jobless": 0, "profile": {"age": 30, "skill": 1000}},
    )
    made.seconds = 3600
    market = made.services["labour"]
    market.after_step(made)
    assert 2 * wages <= made.balances["government"] <= 2 * wages + 1  # each benefit is rounded down
    assert market.counts["unpaid"] > market.counts["paid"] == made.balances["c3"] > 0


def experiment(**society: Any) -> Experiment:
    return Experiment(
        name="labour",
        society={"citizens": 40, "columns": True, "feed": False, "step": "12h", **society},
        metrics=["unemployment"],
        workflow=[{"run": {"days": 1}}],
        conditions={"calm": {}, "crisis": {"parameters": {"labour.layoffs": 1000}}},
    )


def test_labour_rates_are_set_by_an_experiment() -> None:
    results = experiment(labour={"layoff_day": 1, "finds": 0}).run_sync(jobs=0)
    (calm,) = results.values("unemployment", "calm").values()
    assert calm < 0.3
    assert [*results.values("unemployment", "crisis").values()] == [1.0]


@pytest.mark.parametrize(
    ("labour", "why"),
    (
        ({"benefits": 0}, "labour.benefits: there is no such field.*benefit"),
        ({"benefit": -1}, "labour.benefit"),
        ({"layoffs": 2000}, "layoffs must be a whole number from 0 to 1000"),
    ),
)
def test_labour_rates_that_are_wrong_are_refused_by_an_experiment(
    labour: dict[str, int], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        experiment(labour=labour).run_sync(jobs=0)


async def test_labour_the_jobless_are_counted_from_the_first_step_on() -> None:
    market, rows = await days(1)
    assert rows[0]["unemployment"] == rows[1]["unemployment"] == market.unemployment > 0


async def test_labour_firms_lay_off_nobody_for_want_of_sales_in_steps_too_long_to_shop() -> None:
    city = City.generate(seed=3, citizens=CITIZENS)
    market = LabourMarket(leaves=0, moves=0, finds=0, fires=1000)
    services = make_economy(city, seed=3, labour=market, days=1)  # firms have money for a day
    population = Population(CITIZENS, city, all_blocks(), seed=3)
    async with Society(population, services=services) as society:
        rows = await society.run(days=7, step="2h")
        assert rows[-1]["unemployment"] == rows[0]["unemployment"] < 0.08
        rows = await society.run(days=1, step="1h")
        assert rows[-1]["unemployment"] > rows[0]["unemployment"]  # in these they could have sold


@pytest.mark.long
@pytest.mark.parametrize("rows", (True, False))
async def test_labour_benefits_are_income_of_which_the_jobless_spend(rows: bool) -> None:
    async def income(benefit: int) -> tuple[float, float]:
        city = City.generate(seed=3, citizens=60)
        market = LabourMarket(leaves=500_000, moves=0, fires=0, finds=0, benefit=benefit)
        services = make_economy(city, seed=3, labour=market)
        population = Population(60, city, all_blocks(), seed=3)
        population = population if rows else promoted(population)
        async with Society(population, services=services) as society:
            await society.run(days=4, step="30min")
            kept = [
                Question(name, name, "number", by=lambda each, name=name: each.status[name])
                for name in ("income", "purse")
            ]
            answers = await society.survey(
                Survey("all", kept), lambda each: 0 < each.status["jobless"] <= 2
            )
            means = []
            for name in ("income", "purse"):
                of = [each.value for each in answers if each.question == name]
                assert len(of) > 10
                means.append(sum(of) / len(of))
            return means[0], means[1]

    (none, poor), (high, rich) = await income(0), await income(800)
    assert high > 1.2 * none
    assert rich > poor


@pytest.mark.parametrize("rows", (True, pytest.param(False, marks=pytest.mark.long)))
async def test_labour_benefits_are_cut_evenly_where_the_government_has_too_little(
    rows: bool,
) -> None:
    city = City.generate(seed=3, citizens=60)
    rates = {"leaves": 500_000, "moves": 0, "fires": 0, "finds": 0, "benefit": 1000}
    market = LabourMarket(**rates)
    services = [s for s in make_economy(city, seed=3, labour=market) if s.id != "transfers"]
    government = next(each for each in services if each.id == "government")
    government.money = 500_000
    population = Population(60, city, all_blocks(), seed=3)
    population = population if rows else promoted(population)
    async with Society(population, services=services) as society:
        kept: list[int] = []
        for _ in range(4):
            lived = await society.run(days=1, step="30min")
            kept.append(society.books.balances["government"])
            counts = market.counts
            assert lived[-1]["unpaid"] == counts["unpaid"]
            assert lived[-1]["money"] == lived[0]["money"]
            if counts["unpaid"]:
                break
        assert counts["unpaid"] > 0 < counts["paid"]
        public = [f.place for f in services if isinstance(f, Firm) and f.public]
        columns, names = society.population.columns, city.ids()
        staff = [names[at] in public for at in columns["work"].tolist() if at >= 0]
        assert kept[-1] >= sum(staff) * 8 * 2500 // 3  # of the wages of a day: skills differ
        told = await society.survey(
            Survey("all", [Question("earned", "?", "number", by=lambda me: me.status["earned"])]),
            lambda me: me.status["jobless"] not in (-1, market.days) and not me.status["work"],
        )
        skill = {str(at + 1): each for at, each in enumerate(columns["skill"].tolist())}
        shares = [each.value / skill[each.citizen] for each in told]
        assert len(shares) > 5
        assert max(shares) - min(shares) < 0.01 * max(shares)
        assert government.money > kept[-1]


async def test_labour_who_seeks_work_at_the_start_has_sought_it_for_some_time() -> None:
    city = City.generate(seed=3, citizens=30_000)
    services = make_economy(city, seed=3, labour=LabourMarket(weeks=4, leaves=0, finds=0, moves=0))
    population = Population(30_000, city, all_blocks(), seed=3)
    since = population.columns["jobless"]
    weeks = -since[since != -1] / 7
    assert len(weeks) > 300
    found = [
        ((least <= weeks) & (weeks < until)).mean()
        for least, until in ((0, 5), (5, 15), (15, 27), (27, 121))
    ]
    assert found == pytest.approx([0.370, 0.285, 0.126, 0.219], abs=0.05)
    assert weeks.mean() == pytest.approx(22.6, abs=4)
    paid = []
    async with Society(population, services=services) as society:
        for _ in range(5):
            await society.run(days=1, step="12h")
            paid.append(society.services["labour"].counts["paid"])  # type: ignore[attr-defined]
        (one,) = await society.survey(
            Survey("one", [Question("since", "?", "number", by=lambda me: me.status["jobless"])]),
            [population.id_of(int((since < -1).argmax()))],
        )
    assert one.value < -1
    assert paid == sorted(paid, reverse=True)  # some have been paid for four weeks in each of them
    assert paid[0] > paid[4] > 0.7 * paid[0]


async def test_labour_benefits_are_a_part_of_what_five_days_of_work_a_week_pay() -> None:
    market, _ = await days(1, benefit=1000)
    paid = market.counts["paid"] / market.counts["jobless"]
    week = 5 * 8 * 2500  # cents, at the usual skill
    assert 0.5 * week < 7 * paid < 1.5 * week


async def test_labour_benefits_are_due_for_so_many_weeks() -> None:
    city = City.generate(seed=3, citizens=40)
    market = LabourMarket(leaves=0, moves=0, fires=0, finds=0, layoff_day=1, layoffs=1000, weeks=1)
    services = make_economy(city, seed=3, labour=market)
    due: list[int] = []
    async with Society(40, city, seed=3, services=services) as society:
        for _ in range(9):
            await society.run(days=1, step="24h")
            due.append(market.counts["paid"] + market.counts["unpaid"])
    assert min(due[1:8]) > 0 == due[8]


async def test_labour_step_of_several_days_ends_each_of_them() -> None:
    city = City.generate(seed=3, citizens=40)
    market = LabourMarket(leaves=0, moves=0, fires=0, finds=0, layoff_day=3, layoffs=1000)
    services = make_economy(city, seed=3, labour=market)
    async with Society(40, city, seed=3, services=services) as society:
        await society.run(days=2, step="2d")
        assert (market.days, market.counts["left"]) == (2, 0)
        await society.run(days=2, step="2d")
        assert (market.days, market.counts["employed"]) == (4, 0)
        assert society.services["government"].state_dict()["days"] == 4


async def test_labour_of_two_firms_at_a_place_counts_the_one_that_pays_there() -> None:
    city = City.generate(seed=3, citizens=40)
    place = city.by_kind("work")[0]
    market = LabourMarket(leaves=0, moves=0, fires=1000, finds=0)
    firms = [Firm("a-firm", place), Firm("b-firm", place, 10**9)]  # the first settles there
    worker = CitizenAgent(1, memory=CitizenMemory({"work": place}))
    async with Society([worker], city, services=[*firms, market]) as society:
        await society.run(days=1, step="1h")
    assert (market.counts["left"], worker.status["work"]) == (1, None)
