"""A town in which everyone may get a basic income, what they spend, and how they feel.

Citizens spend out of what they expect to have: a part of usual income, of which a promised basic
income is one, and a small part of wealth (Friedman 1957, "A theory of the consumption function").
How they feel is a rule on the scale of the CES-D, 0 to 60 (Radloff 1977, Applied Psychological
Measurement 1): money that will not last, days without, and needs that are not met. It is no CES-D.
"""

from __future__ import annotations

from pathlib import Path

from moothall.society import (
    Buy,
    City,
    EconomyBlock,
    Feed,
    Pay,
    Respondent,
    Service,
    Society,
    make_economy,
    make_people,
)
from moothall.society import citizens as agents_of
from moothall.society.blocks import all_blocks
from moothall.society.blocks.economy import budget_of
from moothall.society.blocks.rules import with_item
from moothall.society.experiments.models import model_of

A_DAY = 3000
"""Cents that one must have for a day."""


class Spends(EconomyBlock):
    name = "EconomyBlock"

    async def before_forward(self) -> None:
        status = self.status
        for answer in self.perceived.answers:
            if isinstance(answer.want, Buy) and answer.done:
                status["spent"] += answer.value
            if isinstance(answer.want, Pay) and answer.done:
                status["paid"] = 0
        if status["paid"] and not status["keeps"]:
            self.want(Pay("fund", status["paid"]))
        await super().before_forward()
        # A day's shopping after work: free time alone has few.
        day, time = self.now // 86_400, self.perceived.time
        if status.get("errand") != day and 9 * 3600 <= time < 16 * 3600 and status.get("plan"):
            status["errand"] = day
            errand = {"do": "shop", "where": "shop", "from": 17 * 3600, "until": 19 * 3600}
            status["plan"] = with_item(status["plan"], errand)

    @property
    def budget(self) -> int:
        status, params = self.status, self.params
        wealth, income = wealth_of(status), max(status.get("income", 0), status.get("earned", 0))
        if status["keeps"]:
            income += status["support"]
        else:
            wealth -= status["paid"]
        return budget_of(income, wealth, params.of_income, params.of_wealth)


def wealth_of(status: dict) -> int:
    return status["money"] + status.get("savings", 0)


def society(
    seed: int,
    *,
    citizens: int = 60,
    keeps: bool = True,
    llm: str | None = None,
    answers: str | None = None,
    folder: Path = Path(),
) -> Society:
    """A town with a fund that can pay a basic income.

    Args:
        keeps: whether citizens keep what they get; the mechanism is ablated without: it goes
            back to the fund at once
    """
    city = City.generate(seed=seed, citizens=citizens)
    people = make_people(city, citizens, seed=seed)
    for person in people:
        person |= {"keeps": keeps, "support": 0, "paid": 0, "spent": 0}

    def blocks() -> list[object]:
        return [Spends() if isinstance(each, EconomyBlock) else each for each in all_blocks()]

    fund = Service("fund", None, citizens * 1_000_000)
    return Society(
        agents_of(people, blocks),
        city,
        seed=seed,
        model=model_of(llm, None if answers is None else folder / answers, folder),
        model_timeout_s=600,  # a model of this machine takes its time
        services=[*make_economy(city, seed=seed, days=60), Feed(), fund],
    )


def spent(society: Society) -> float | None:
    """What a citizen has spent a day so far, in dollars."""
    days = society.clock.elapsed / 86_400
    if not days:
        return None
    statuses = [each.memory.status for each in society.agents]
    return sum(each["spent"] for each in statuses) / len(statuses) / days / 100


def depression(respondent: Respondent) -> int:
    """The answer by rule: 0 to 60; 16 or more counts as at risk."""
    status = respondent.status
    lasts = wealth_of(status) // A_DAY
    strain = sum(lasts < days for days in (3, 14, 60))
    poor = sum(status.get("purse", 0) < cents for cents in (500, 1000, 2000))
    unmet = sum(min(3, (1000 - need) // 250) for need in status["needs"].values())
    return 6 * strain + 4 * poor + 10 * unmet // 4
