"""Pensions, rents and contributions: who pays and who is paid, as agents and in columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.society.test_economy import books

from moothall import ConfigError
from moothall.society import City, Government, Population, Society, Transfers, make_economy
from moothall.society.columns.ledger import BRACKETS, pension_of, tax_on


def old(**status: Any) -> dict[str, Any]:
    """The status of a pensioner."""
    return {"profile": {"age": 70, "skill": 1000}, **status}


def closed(service: Transfers, *others: Any, **citizens: dict[str, Any]) -> Any:
    """Books after the last step of a day."""
    made = books(service, *others, hour=23, **citizens)
    made.seconds = 3600
    service.after_step(made)
    return made


def test_pension_follows_the_bends_of_social_security() -> None:
    month = 25 * 2080 / 12 * 0.75  # dollars
    by_hand = (0.9 * 1024 + 0.32 * (month - 1024)) * 12 / 365
    assert pension_of(1000, 2500) == pytest.approx(100 * by_hand, abs=2)
    high = 4 * month
    by_hand = (0.9 * 1024 + 0.32 * (6172 - 1024) + 0.15 * (high - 6172)) * 12 / 365
    assert pension_of(4000, 2500) == pytest.approx(100 * by_hand, abs=2)
    assert pension_of(0, 2500) == 0
    assert pension_of(np.array([0, 1000]), 2500).tolist() == [0, pension_of(1000, 2500)]


def test_pension_is_paid_to_who_is_67_and_does_not_work() -> None:
    due = pension_of(1000, 2500)
    made = closed(
        Transfers(),
        Government(money=10 * due),
        c1=old(),
        c2={"profile": {"age": 66, "skill": 1000}},
        c3=old(earned=5, paid_day=0),
    )
    assert [made.balances[f"c{n}"] for n in (1, 2, 3)] == [due, 0, due]
    assert made.status_of("c3")["earned"] == 5 + due
    assert made.services["transfers"].counts == {"pensions": 2 * due, "unpaid": 0, "rents": 0}


def test_pensions_are_cut_alike_if_the_government_has_too_little() -> None:
    due = pension_of(1000, 2500)
    made = closed(Transfers(), Government(money=due), c1=old(), c2=old())
    assert made.balances["c1"] == made.balances["c2"]
    assert made.balances["government"] <= 2
    assert made.services["transfers"].counts["unpaid"] >= due


def test_rent_goes_from_tenants_to_owners_as_far_as_money_lasts() -> None:
    def person(age: int, rents: bool, money: int, income: int = 1000) -> dict[str, Any]:
        return {"profile": {"age": age, "rents": rents}, "money": money, "income": income}

    made = closed(
        Transfers(rent=500),
        c1=person(40, True, 9000),
        c2=person(40, True, 100),
        c3=person(40, False, 0),
        c4=person(50, False, 0),
        c5=person(9, False, 0),
    )
    assert [made.balances[f"c{n}"] for n in range(1, 6)] == [8500, 0, 300, 300, 0]
    assert made.services["transfers"].counts["rents"] == 600
    assert made.total == 9100


def test_transfers_may_have_neither_pensions_nor_rents() -> None:
    tenant = {"profile": {"age": 40, "rents": True}, "money": 9000, "income": 1000}
    owner = {"profile": {"age": 40, "rents": False}, "money": 0}
    without = Transfers(pension=0, rent=0)
    made = closed(without, Government(money=1_000_000), c1=old(), c2=tenant, c3=owner)
    assert [made.balances[f"c{n}"] for n in (1, 2, 3)] == [0, 9000, 0]


def test_transfers_check_their_arguments() -> None:
    for name in ("wage", "pension", "rent"):
        with pytest.raises(ConfigError, match=f"transfers: {name}"):
            Transfers(**{name: -1})
    with pytest.raises(ConfigError, match="contribution"):
        Government(contribution=1001)


def test_contribution_is_withheld_beside_the_tax() -> None:
    government = Government(contribution=124)
    government.of_population(Population(10, City.generate(seed=1, citizens=10), seed=1))
    gross = np.array([1000, 20_000])
    plain = np.array([tax_on(each, BRACKETS) for each in gross.tolist()])
    withheld = government.due(np.array([0, 1]), gross) - plain
    assert withheld.tolist() == pytest.approx((gross * 124 // 1000).tolist(), abs=2)


async def test_poor_and_old_of_a_drawn_town_have_what_the_census_says() -> None:
    city = City.generate(seed=1, citizens=4000)
    population = Population(4000, city, seed=1)
    columns = population.columns
    old = (columns["age"] >= 67) & (columns["work"] < 0)
    start = columns["income"].copy()
    assert (start[old] > 0).all()
    assert 0.25 < columns["rents"].mean() < 0.45
    async with Society(population, services=make_economy(city, seed=1)) as society:
        await society.run(days=2)
        counts = society.services["transfers"].counts  # type: ignore[attr-defined]
    assert counts["unpaid"] == 0
    assert 4000 < counts["pensions"] / old.sum() < 7000  # 1,200 to 2,100 dollars a month
    assert counts["rents"] > 0
