"""Work, purchases and savings of a citizen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final

from pydantic import Field

from moothall import BlockParams, action
from moothall.build import object_schema
from moothall.society.arrays import (
    Array,
    Numbers,
    WholeNumber,
    any_of,
    larger,
    np,
    smaller,
    where,
)
from moothall.society.blocks.citizen_block import CitizenBlock, CitizenBlockParams, now_of
from moothall.society.blocks.columns import ACT, ACTS, ERRAND, act_code, current_item
from moothall.society.blocks.plans import Plans
from moothall.society.clock import DAY_S
from moothall.society.columns.city_queries import kind_numbers, place_kinds
from moothall.society.columns.column import Column
from moothall.society.columns.rows import Rows
from moothall.society.kernel.perception import Perception
from moothall.society.kernel.wants import Buy, Save, Want, Work
from moothall.society.services.economy import Bank

_WEEK = 7
_CENTS: Final = Column("int64")
_WORK, _EAT = act_code("work"), act_code("eat")
_ITEM_COLUMN, _ERRAND_COLUMN = "item_do", "errand"
_BUYER_ACTS: Final = Numbers(map(act_code, ("shop", "eat", "idle")), "uint8")
"""The act of who buys: at a shop, at a table, and of who cannot pay a meal."""


def buys_after(block: object, blocks: Iterable[object]) -> bool:
    """Return whether an `EconomyBlock` comes after a block, so that it may still buy in a step."""
    block_list = [*blocks]
    return any(isinstance(each, EconomyBlock) for each in block_list[block_list.index(block) + 1 :])


# -- the rules, for whole numbers or arrays of them ------------------------------------------------


def budget_of(income: WholeNumber, wealth: WholeNumber, of_income: int, of_wealth: int) -> Any:
    """Return the cents to spend in a day: thousandths of income, millionths of wealth, or all."""
    return smaller(wealth, (income * of_income + wealth // 1000 * of_wealth) // 1000)


def income_after(income: WholeNumber, earned: WholeNumber, days: WholeNumber = 1) -> WholeNumber:
    """Return the usual income of a day after some more days: a moving average of about a week."""
    for day in range(int(np.max(days))):
        income = where(day < days, (income * (_WEEK - 1) + earned // days) // _WEEK, income)
    return income


def to_save(money: WholeNumber, savings: WholeNumber, budget: WholeNumber, cash_days: int) -> Any:
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
    want_actions: ClassVar[tuple[type[Want], ...]] = Bank.takes
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
        "rents": Column("bool", key=("profile", "rents")),
    }
    words: ClassVar[tuple[str, ...]] = ("food", "goods")

    def fits(self, context: Perception) -> float:
        """Return 1.5 for work, shopping and a meal in a restaurant, else 0."""
        if isinstance(context, str):
            dines = context.startswith("eat at") and "restaurant" in context
            return 1.5 if dines or super().fits(context) else 0.0
        do, where = current_item(context.status)
        return (
            1.5 if do in self.does or (do == "eat" and self._dines(where, context.place)) else 0.0
        )

    def offer(self, context: Perception) -> str:
        """Return the current item of the plan if the citizen is at its place; else empty."""
        return super().offer(context) if self.at_item(context) else ""

    def _dines(self, where: str | None, place: str | None) -> bool:
        if place is None or place != where:
            return False
        city = self.city
        return city is not None and city.kind(place) == "restaurant"

    async def before_forward(self) -> None:
        """Book wages and purchases; at the start of a day, deposit or withdraw money."""
        row = self.own_row()
        self._book(row)
        if row["errand"]:
            cents = 0 if row["place"] < 0 else self._spendable(row, _ERRAND_COLUMN)
            self._buy_in_passing(row, await self._cents_to_spend(cents))

    def before_rows(self, rows: Rows) -> None:
        """Do `before_forward` for rows."""
        self._book(rows)
        for buyers in rows.only(rows["errand"] > 0):
            self._buy_in_passing(buyers, self._spendable(buyers, _ERRAND_COLUMN))

    async def forward(self) -> Any:
        """Work or buy; return the act of this step."""
        row = self.own_row()
        self._work(row)
        for buyer in row.only(self._are_buying(row)):
            cents = self._spendable(buyer, _ITEM_COLUMN)
            has_bought = Plans(buyer).has_bought()
            self._buy(buyer, cents if has_bought else await self._cents_to_spend(cents))
        return ACTS[row["act"]]

    def step_rows(self, rows: Rows) -> None:
        """Do `forward` for rows."""
        self._work(rows)
        for buyers in rows.only(self._are_buying(rows)):
            self._buy(buyers, self._spendable(buyers, _ITEM_COLUMN))

    async def _cents_to_spend(self, spendable: int) -> int:
        """Return the cents that it spends of those that it could spend."""
        return (
            spendable
            if spendable < self.params.least
            else spendable * await self._share(spendable) // 1000
        )

    # -- the rules, for one row and for many -------------------------------------------------------

    def _book(self, rows: Rows) -> None:
        """Book wages, purchases and savings; fill the purse once a day, and save or withdraw."""
        if rows.is_answered:
            earned, spent, refused = rows.gained(Work), rows.gained(Buy), rows.refused(Buy)
            if earned is not None:
                rows["earned"] += earned
            if spent is not None:
                rows["purse"] = larger(0, rows["purse"] - spent)
            if refused is not None:
                Plans(rows).set_bought(refused, False)  # it may try again
            state, balance = rows.answers(Save)
            if any_of(state > 0):
                rows["savings"] = where(state > 0, balance, rows["savings"])
        day, paid_day = now_of(rows) // DAY_S, rows["paid_day"]
        is_due = paid_day != day
        if not any_of(is_due):
            return
        had_payday, income, earned = is_due & (paid_day >= 0), rows["income"], rows["earned"]
        days = where(had_payday, larger(1, day - paid_day), 1)
        rows["income"] = where(had_payday, income_after(income, earned, days), income)
        rows["earned"] = where(had_payday, 0, earned)
        budget, purse = self._budget(rows), rows["purse"]
        rows["purse"] = where(is_due, smaller(purse + budget * days, _WEEK * budget), purse)
        cents = to_save(rows["money"], rows["savings"], budget, self.params.cash_days)
        rows.want(Save, had_payday & (cents != 0), cents=cents)
        rows["paid_day"] = day

    def _buy_in_passing(self, rows: Rows, cents: WholeNumber) -> None:
        """Buy where citizens are: the time for an errand was over when they arrived."""
        good = where(rows["errand"] == _EAT, rows.word("food"), rows.word("goods"))
        rows["errand"] = 0
        place = rows["place"]
        buys = (place >= 0) & (cents >= self.params.least)
        rows.want(Buy, buys, place=place, kind=good, cents=cents)

    def _work(self, rows: Rows) -> None:
        """Let those work whose item it is."""
        for workers in rows.only((rows["item_do"] == _WORK) & (self._places_of(rows) >= 0)):
            place = self._places_of(workers)
            if workers.has_places:  # who works from home works for its employer
                remote = (place == workers["home"]) & (workers["work"] >= 0)
                place = where(remote, workers["work"], place)
            seconds_left = workers["item_until"] - now_of(workers) % DAY_S
            workers.want(
                Work, place=place, seconds=larger(1, smaller(workers.seconds, seconds_left))
            )
            workers["act"] = _WORK

    def _places_of(self, rows: Rows) -> Any:
        """Return where citizens are; without a city, where their items are."""
        in_city = rows.has_places and hasattr(rows.city, "by_kind")
        return rows["place" if in_city else "item_where"]

    def _are_buying(self, rows: Rows) -> Any:
        """Return who is at a shop or a table."""
        do = rows["item_do"]
        return (do > 0) & (do != _WORK) & (self._places_of(rows) >= 0)

    def _buy(self, rows: Rows, cents: WholeNumber) -> None:
        """Buy once in an item; who cannot pay goes home from a table, and looks around a shop."""
        is_meal, is_poor = rows["item_do"] == _EAT, cents < self.params.least
        plan = Plans(rows)
        bought = plan.has_bought()
        goes_home = is_meal & is_poor & (bought != True)  # noqa: E712 - of arrays, too
        rows["act"] = _BUYER_ACTS[is_meal + 0 + goes_home]
        plan.stay_home(goes_home)
        buys = (bought | is_poor) != True  # noqa: E712
        plan.set_bought(buys, True)
        good = where(is_meal, rows.word("food"), rows.word("goods"))
        rows.want(Buy, buys, place=self._places_of(rows), kind=good, cents=cents)

    def _spendable(self, rows: Rows, item: str) -> Any:
        """Return the cents to spend now: the rest of the budgets, at most the money at hand."""
        purse, dinner = rows["purse"], self._budget(rows) * self.params.meal // 1000
        budget = where(rows[item] == _EAT, smaller(purse, dinner), purse)
        return larger(0, smaller(budget, rows["money"]))

    def _budget(self, rows: Rows) -> Any:
        """Return the cents to spend in a day."""
        income, wealth = larger(rows["income"], rows["earned"]), rows["money"] + rows["savings"]
        return budget_of(income, wealth, self.params.of_income, self.params.of_wealth)

    @property
    def budget(self) -> int:
        """The cents to spend in a day."""
        return int(self._budget(self.own_row()))

    async def _share(self, cents: int) -> int:
        """Return how much of what it could spend it spends, in thousandths."""
        if self.llm is None:
            return 1000
        answer = await self.decide(
            "Decide how much of what you could spend here you spend, in thousandths.",
            object_schema(thousandths={"type": "integer", "minimum": 0, "maximum": 1000}),
            could_spend_cents=cents,
        )
        return 1000 if answer is None else int(answer["thousandths"])

    # -- in columns --------------------------------------------------------------------------------

    def fits_rows(self, rows: Rows) -> Array:
        """Return `fits` of rows."""
        fits = np.asarray(super().fits_rows(rows)) > 0
        if hasattr(rows.city, "by_kind") and "item_do" in rows.population.arrays:
            eats = (rows["item_do"] == act_code("eat")).nonzero()[0]
            place = rows["place"][eats]
            dines = (place >= 0) & (place == rows["item_where"][eats])
            kind = kind_numbers(rows).get("restaurant", -1)
            fits[eats] |= dines & (place_kinds(rows)[place] == kind)
        return fits * np.float32(1.5)

    # -- actions -----------------------------------------------------------------------------------

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
