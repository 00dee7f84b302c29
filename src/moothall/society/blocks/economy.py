"""Work, purchases and savings of a citizen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final

from pydantic import Field

from moothall.actions import action
from moothall.actions.signature.schema import object_schema
from moothall.agents.params import BlockParams
from moothall.society.arrays import larger, np, smaller
from moothall.society.blocks.block import CitizenBlock, CitizenBlockParams, now_of
from moothall.society.blocks.columns import ACT, ERRAND, bought, code, set_bought, stay_home
from moothall.society.clock import DAY_S
from moothall.society.columns.column import Column
from moothall.society.columns.rows import Rows
from moothall.society.columns.town import kind_numbers, kinds_of
from moothall.society.kernel.wants import Buy, Save, Work

_DAYS = 7
_CENTS: Final = Column("int64")


def buys_after(block: Any, blocks: Iterable[Any]) -> bool:
    """Return whether an `EconomyBlock` comes after a block, so that it may still buy in a step."""
    made = [*blocks]
    return any(isinstance(each, EconomyBlock) for each in made[made.index(block) + 1 :])


# -- the rules, for whole numbers or arrays of them ------------------------------------------------


def budget_of(income: Any, wealth: Any, of_income: int, of_wealth: int) -> Any:
    """Return the cents to spend in a day: thousandths of income, millionths of wealth, or all."""
    return smaller(wealth, (income * of_income + wealth // 1000 * of_wealth) // 1000)


def income_after(income: Any, earned: Any) -> Any:
    """Return the usual income after one more day: a moving average over about a week."""
    return (income * (_DAYS - 1) + earned) // _DAYS


def to_save(money: Any, savings: Any, budget: Any, cash_days: int) -> Any:
    """Return the cents to deposit (below 0: withdraw) so that cash lasts for `cash_days`."""
    return larger(money - budget * cash_days, -savings)


class EconomyBlockParams(CitizenBlockParams):
    """How a citizen spends and saves."""

    of_income: int = Field(default=900, ge=0, le=1000, description="thousandths of income spent")
    of_wealth: int = Field(
        default=600, ge=0, le=1_000_000, description="millionths of wealth spent in a day"
    )
    meal: int = Field(
        default=250, ge=0, le=1000, description="thousandths of the day's budget for a meal out"
    )
    least: int = Field(default=500, ge=1, description="cents below which it buys nothing")
    cash_days: int = Field(default=14, ge=0, le=3650, description="days of spending kept at hand")


class EconomyBlock(CitizenBlock):
    """Works where the plan says so, buys at shops and restaurants, and saves spare money.

    A day's budget is a share of usual income and a small share of wealth, 0.9 and 0.0006 a day: the
    linear consumption function of agent-based macroeconomics (Delli Gatti et al. 2011,
    "Macroeconomics from the Bottom-up"; Godley, Lavoie 2007, "Monetary Economics"), whose effect is
    that of a buffer stock (Carroll 1997, QJE 112). Usual income is an average over a week; unspent
    budget remains in the purse, up to a week's. In a shop the citizen spends the whole purse, in a
    restaurant at most a quarter of a day's budget. At the start of a day it deposits the cash above
    two weeks' spending, or withdraws what is missing. A model chooses the share to spend, in
    thousandths, as EconAgent's chooses its propensity to consume (Li et al. 2024,
    arXiv:2310.10436). `moothall.society.services.economy` has wages, taxes and the order of pay.
    """

    description = "Works, earns, buys, and saves"
    actions: dict[str, str] = {  # noqa: RUF012 - as seed 000 declares it
        "work": "Work and be paid",
        "shop": "Buy what a shop sells",
        "dine": "Have a meal in a restaurant",
    }
    ParamsType: ClassVar[type[BlockParams]] = EconomyBlockParams
    params: EconomyBlockParams
    does: ClassVar[tuple[str, ...]] = ("work", "shop")
    enabled_by = "enable_economy"
    columns: ClassVar[dict[str, Column]] = {
        **ACT,
        **ERRAND,
        "work": Column("place", None),
        "skill": Column("uint16", 1000, key=("profile", "skill")),
        "earned": _CENTS,
        "income": _CENTS,
        "purse": _CENTS,
        "savings": _CENTS,
        "paid_day": Column("int32", -1),
        "jobless": Column("int32", -1),
    }
    words: ClassVar[tuple[str, ...]] = ("food", "goods")

    def fits(self, context: Any) -> float:
        """Return 1.5 for work, shopping and a meal in a restaurant, else 0."""
        if isinstance(context, str):
            dines = context.startswith("eat at") and "restaurant" in context
            return 1.5 if dines or super().fits(context) else 0.0
        return 1.5 if super().fits(context) or self._dines() else 0.0

    def offer(self, context: Any) -> str:
        """Return the current item of the plan if the citizen is at its place; else empty."""
        return super().offer(context) if self.at_item(context) else ""

    def _dines(self) -> bool:
        item, city = self.item, self.city
        if item is None or item["do"] != "eat" or city is None:
            return False
        place = self.perceived.place
        return place is not None and place == item["where"] and city.kind(place) == "restaurant"

    async def before_forward(self) -> None:
        """Book wages and purchases; at the start of a day, deposit or withdraw money."""
        status = self.status
        for answer in self.perceived.answers:
            want = answer.want
            if isinstance(want, Work) and answer.done:
                status["earned"] = status.get("earned", 0) + answer.value
            elif isinstance(want, Buy) and answer.done:
                status["purse"] = max(0, status.get("purse", 0) - answer.value)
            elif isinstance(want, Buy) and self.item is not None:
                self.item.pop("bought", None)  # it may try again
            elif isinstance(want, Save) and answer.done:
                status["savings"] = answer.value
        self._begin_day()
        if errand := status.pop("errand", None):
            await self._buy_in_passing(errand)

    def _begin_day(self) -> None:
        """Fill the purse once a day, and deposit or withdraw money."""
        status = self.status
        day = self.now // DAY_S
        paid = status.get("paid_day", -1)
        if paid == day:
            return
        if paid >= 0:
            status["income"] = income_after(status.get("income", 0), status.get("earned", 0))
            status["earned"] = 0
        budget = self.budget
        status["purse"] = min(status.get("purse", 0) + budget, _DAYS * budget)
        money, savings = status.get("money", 0), status.get("savings", 0)
        cents = to_save(money, savings, budget, self.params.cash_days)
        if cents and paid >= 0:
            self.want(Save(cents))
        status["paid_day"] = day

    async def _buy_in_passing(self, errand: str) -> None:
        """Buy where the citizen is: the time for an errand was over when it arrived."""
        place = self.perceived.place
        if place is None:
            return
        cents = await self._cents(errand == "eat")
        if cents >= self.params.least:
            self.want(Buy(place, "food" if errand == "eat" else "goods", cents))

    async def _cents(self, meal: bool) -> int:
        """Return the cents that it spends here."""
        most = self._left(meal)
        return most if most < self.params.least else most * await self._share(most) // 1000

    async def forward(self) -> str | None:
        """Work or buy; return the act."""
        item, place = self.item, self.perceived.place
        if item is not None and self.city is None:
            place = item["where"]
        if item is None or place is None:
            return None
        if item["do"] == "work":
            left = item["until"] - self.now % DAY_S
            seconds = max(1, min(self.perceived.seconds, left))
            if place == self.status.get("home"):  # it works from home
                place = self.status.get("work") or place
            self.want(Work(place, seconds))
            self.act("work")
            return "work"
        meal = item["do"] == "eat"
        done = "eat" if meal else "shop"
        if not item.get("bought"):
            cents = await self._cents(meal)
            if cents < self.params.least:
                if meal:  # it goes home; in a shop it only looks around
                    item.pop("kind", None)
                    item["where"] = self.status.get("home")
                self.act("idle" if meal else "shop")
                return None
            item["bought"] = True  # one purchase per visit
            self.want(Buy(place, "food" if meal else "goods", cents))
        self.act(done)
        return done

    @property
    def budget(self) -> int:
        """The cents to spend in a day."""
        status = self.status
        wealth = status.get("money", 0) + status.get("savings", 0)
        income = max(status.get("income", 0), status.get("earned", 0))
        return int(budget_of(income, wealth, self.params.of_income, self.params.of_wealth))

    def _left(self, meal: bool) -> int:
        """Return the cents to spend now: the rest of the budgets, at most the money at hand."""
        left = int(self.status.get("purse", 0))
        if meal:
            left = min(left, self.budget * self.params.meal // 1000)
        return max(0, min(left, int(self.status.get("money", 0))))

    async def _share(self, most: int) -> int:
        if self.llm is None:
            return 1000
        answer = await self.decide(
            "Decide how much of what you could spend here you spend, in thousandths.",
            object_schema(thousandths={"type": "integer", "minimum": 0, "maximum": 1000}),
            could_spend_cents=most,
        )
        return 1000 if answer is None else int(answer["thousandths"])

    # -- in columns --------------------------------------------------------------------------------

    def fits_rows(self, rows: Rows) -> Any:
        """Return `fits` of rows."""
        fits = np.asarray(super().fits_rows(rows)) > 0
        if hasattr(rows.city, "by_kind") and "item_do" in rows.population.arrays:
            eats = np.flatnonzero(rows["item_do"] == code("eat"))
            place = rows["place"][eats]
            dines = (place >= 0) & (place == rows["item_where"][eats])
            kind = kind_numbers(rows).get("restaurant", -1)
            fits[eats] |= dines & (kinds_of(rows)[place] == kind)
        return fits * np.float32(1.5)

    def before_rows(self, rows: Rows) -> None:
        """Do `before_forward` for rows."""
        for kind in (Work, Buy, Save):
            if kind not in rows.moment.answers:
                continue
            state, value = rows.answers(kind)
            done = state > 0
            if kind is Work:
                rows["earned"] += value * done
            elif kind is Buy:
                rows["purse"] = np.maximum(0, rows["purse"] - value * done)
                refused = np.flatnonzero(state < 0)
                if len(refused):
                    set_bought(rows, refused, False)
            else:
                rows["savings"] = np.where(done, value, rows["savings"])
        self._begin_day_rows(rows)
        at = np.flatnonzero(rows["errand"])
        if len(at):  # they buy in passing
            meal = rows["errand"][at] == code("eat")
            rows["errand"][at] = 0
            most = self._left_rows(rows, meal, at)
            some = np.flatnonzero(most >= self.params.least)
            words = rows.population._word
            what = np.where(meal, words["food"], words["goods"])[some]
            at, most = at[some], most[some]
            rows.want_each(Buy, at, place=rows["place"][at], kind=what, cents=most)

    def _begin_day_rows(self, rows: Rows) -> None:
        """Do `_begin_day` for rows."""
        day = now_of(rows) // DAY_S
        paid = rows["paid_day"]
        if (paid == day).all():
            return
        again, due = (paid != day) & (paid >= 0), paid != day
        income, earned = rows["income"], rows["earned"]
        rows["income"] = np.where(again, income_after(income, earned), income)
        rows["earned"] = np.where(again, 0, earned)
        budget = self._budget_rows(rows)
        purse = rows["purse"]
        rows["purse"] = np.where(due, np.minimum(purse + budget, _DAYS * budget), purse)
        cents = to_save(rows["money"], rows["savings"], budget, self.params.cash_days)
        rows.want(Save, again & (cents != 0), cents=cents)
        paid[...] = day

    def step_rows(self, rows: Rows) -> None:
        """Do `forward` for rows."""
        by_plan = not hasattr(rows.city, "by_kind")
        has_places = "place" in rows.population.arrays
        place = rows["item_where" if by_plan or not has_places else "place"]
        do, act = rows["item_do"], rows["act"]
        works = (do == code("work")) & (place >= 0)
        left = rows["item_until"] - now_of(rows) % DAY_S
        seconds = np.maximum(1, np.minimum(rows.seconds, left))
        if has_places:
            work = rows["work"]
            there = np.where((place == rows["home"]) & (work >= 0), work, place)
        rows.want(Work, works, place=there if has_places else place, seconds=seconds)
        act[works] = code("work")
        buys = np.flatnonzero((place >= 0) & ~works)
        if not len(buys):
            return
        meal = do == code("eat")
        most = self._left_rows(rows, meal)
        poor, before = most < self.params.least, bought(rows)
        act[buys] = np.where(meal, code("eat"), code("shop"))[buys]
        none = buys[(poor & ~before)[buys]]
        act[none] = np.where(meal, code("idle"), code("shop"))[none]
        stay_home(rows, none[meal[none]])
        some = buys[~(poor | before)[buys]]
        set_bought(rows, some, True)
        words = rows.population._word
        kind = np.where(meal, words["food"], words["goods"])
        rows.want(Buy, some, place=place, kind=kind, cents=most)

    def _left_rows(self, rows: Rows, meal: Any, at: Any = slice(None)) -> Any:
        """Return `_left` of all or some rows."""
        purse, dinner = rows["purse"][at], self._budget_rows(rows, at) * self.params.meal // 1000
        left = np.where(meal, np.minimum(purse, dinner), purse)
        return np.maximum(0, np.minimum(left, rows["money"][at]))

    def _budget_rows(self, rows: Rows, at: Any = slice(None)) -> Any:
        income = np.maximum(rows["income"][at], rows["earned"][at])
        params = self.params
        wealth = rows["money"][at] + rows["savings"][at]
        return budget_of(income, wealth, params.of_income, params.of_wealth)

    # -- actions -----------------------------------------------------------------------------------

    @action
    async def save(self, cents: int) -> None:
        """Bring money to the bank, or take it back.

        Args:
            cents: how much; below 0 takes it back
        """
        self.want(Save(cents))

    @action
    async def buy(self, kind: str, cents: int) -> bool:
        """Buy at the place where the citizen is.

        Args:
            kind: what, such as `food`
            cents: for how much at most

        Returns:
            whether it is anywhere
        """
        place = self.perceived.place
        if place is not None:
            self.want(Buy(place, kind, cents))
        return place is not None
