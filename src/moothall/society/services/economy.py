"""The bank, the government, and the close of each day.

Money only moves, in whole cents. No account is ever below 0: a payment is made in full or not at
all. The citizens' states say where each works; the `LabourMarket` changes it. There are no loans.
One good, wages before purchases, firms that keep a buffer, pay out the money above it and adapt to
excess demand are the baseline of agent-based economics: Lengnick 2013, "Agent-based macroeconomics:
a baseline model", JEBO 86; Delli Gatti et al. 2011, "Macroeconomics from the Bottom-up". The rule
of adaptation and equal redistribution are those of EconAgent (Li et al. 2024, ACL,
arXiv:2310.10436) and AgentSociety (Piao et al. 2025, arXiv:2502.08691). Suppliers paid in
proportion to payroll are an input-output table of one row (Leontief 1936, "Quantitative input and
output relations", Review of Economics and Statistics 18).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final

from moothall import ConfigError
from moothall.build import check_integer
from moothall.society.arrays import Array, np
from moothall.society.city.places import Places, needs
from moothall.society.columns.ledger import (
    BRACKETS,
    CONTRIBUTION,
    ByRow,
    credited_interest,
    divide,
    tax_to_withhold,
)
from moothall.society.columns.register import Register, empty_register
from moothall.society.columns.want_table import Table
from moothall.society.kernel.commit import Books, Service
from moothall.society.kernel.draw import Draws, turn_key
from moothall.society.kernel.kept import sets_own
from moothall.society.kernel.wants import Save, Want
from moothall.society.services.accounts import citizens_of, pay_citizens
from moothall.society.services.firm import STAFF, Firm
from moothall.society.services.labour import LabourMarket
from moothall.society.services.transfers import Transfers

_ADULT_AGE: Final = 18
SELLING_KINDS: Final = ("restaurant", "shop")
PUBLIC_KINDS: Final = ("hospital", "school")


# `most` and the random `share` are in thousandths; the change is rounded towards 0.
def adapted_price(value: int, demand: int, supply: int, max_change: int, share: int) -> int:
    """Return a price or wage after a month: changed by excess demand (EconAgent, section 3)."""
    larger = max(demand, supply)
    if larger == 0:
        return value
    change = value * abs(demand - supply) * max_change * share // (larger * 1_000_000)
    return max(1, value + change if demand > supply else value - change)


class Bank(Service):
    """Keeps the citizens' savings, all in cash; pays interest from its own capital.

    The `Government` closes each day: without one there is no interest.

    Args:
        id: the id that messages to the bank name
        money: the bank's own capital at the start, in cents
        interest: a day's interest on a deposit, in millionths; 27 is one percent a year

    Attributes:
        deposits: each citizen's savings, in cents
    """

    takes: ClassVar[tuple[type[Want], ...]] = (Save,)

    @sets_own
    def __init__(self, id: str = "bank", money: int = 0, interest: int = 27) -> None:
        super().__init__(id, None, money)
        check_integer(f"{id}: interest", interest, 0, 1_000_000)
        self.interest = interest
        self.deposits: ByRow = ByRow(empty_register())

    def of_population(self, population: Register) -> None:
        """Store the deposits of a population in an array."""
        self.deposits = ByRow(population)

    @property
    def owed(self) -> int:
        """The sum of all deposits, in cents."""
        return int(self.deposits.array.sum()) + sum(map(int, self.deposits.departed.values()))

    def refusal(self, books: Books, sender: str, want: Want) -> str:
        """Return why a deposit (cents above 0) or a withdrawal (below 0) is refused."""
        assert type(want) is Save
        cents, saved = want.cents, self.deposits.get(sender, 0)
        if type(cents) is not int or cents == 0:
            return f"cents must be a whole number other than 0, got {cents!r:.40}"
        if cents < 0 and saved < -cents:
            return f"{sender} has saved {saved} cents, not {-cents}"
        payer = sender if cents > 0 else self.id
        return f"{payer} has {books.balances.get(payer, 0)} cents, not {abs(cents)}"

    def settle_rows(self, books: Any, table: Table, entries: Array) -> None:
        """Settle the wants of many citizens, as heard; one by one if a citizen has several."""
        deposits = self.deposits
        sender, cents = table.sender[entries], table.fields["cents"][entries]
        money = books.population.arrays["money"]
        is_done = (cents > 0) & (cents <= money[sender])
        is_done |= (cents < 0) & (deposits.array[sender] + cents >= 0)
        if (sender[1:] == sender[:-1]).any():
            books.one_by_one(self, table, entries)
            return
        moved, cash = cents * is_done, books.balances[self.id]
        if -moved[moved < 0].sum() > cash:
            for index, amount in enumerate(moved.tolist()):
                is_done[index] &= cash + amount >= 0
                cash += amount if is_done[index] else 0
            moved *= is_done
        money[sender] -= moved
        deposits.array[sender] += moved
        books.balances[self.id] += int(moved.sum())
        table.done(entries, is_done, deposits.array[sender])

    def credit(self, books: Any) -> None:
        """Credit a day's interest, in the order of `turn_key`, as far as the own capital lasts."""
        own_cents = books.balances[self.id] - self.owed
        deposits = self.deposits.array
        deposits += credited_interest(deposits, self.interest, own_cents, books.hearing_order)

    def state_dict(self) -> dict[str, Any]:
        """Return the deposits."""
        return {"deposits": dict(self.deposits.items())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        self.deposits.clear()
        self.deposits.update(state["deposits"])


class Government(Service):
    """Taxes each day's income by brackets, pays public wages, and shares out the rest.

    The tax is withheld from each wage: the tax due on the day's income so far, less the tax
    withheld before. The wage of a step of several days is an equal part of each one's income.

    Args:
        id: the id that messages name; firms pay taxes to one called `government` alone
        money: the government's cents at the start
        brackets: (cents of a day's income, thousandths of the income above them), from (0, …) up
        reserve: the cents that the government does not share out; `money` if left out
        seed: the seed of the random shares of adaptation
        most_price: the largest change of a price in a month, in thousandths
        most_wage: the largest change of a wage in a month, in thousandths
        month: the number of days after which prices and wages change
        daily: the largest change of a seller's price in a day, in thousandths, by its own stock
        cover: the days of sales that a seller wants in stock, by which it sets its price
        contribution: thousandths of each wage that are withheld besides, for pensions

    Attributes:
        taxed: each citizen's income of the day, and the tax withheld from it
        days: the number of closed days
        wage_days: of how many days the wages of this step are
    """

    @sets_own
    def __init__(
        self,
        id: str = "government",
        money: int = 0,
        *,
        brackets: Iterable[tuple[int, int]] = BRACKETS,
        reserve: int | None = None,
        seed: int = 0,
        most_price: int = 50,
        most_wage: int = 50,
        month: int = 30,
        daily: int = 50,
        cover: int = 2,
        contribution: int = 0,
    ) -> None:
        super().__init__(id, None, money)
        self.reserve: int = money if reserve is None else reserve
        check_integer(f"{id}: reserve", self.reserve, 0, None)
        check_integer(f"{id}: most_price", most_price, 0, 1000)
        check_integer(f"{id}: most_wage", most_wage, 0, 1000)
        check_integer(f"{id}: month", month, 1, None)
        check_integer(f"{id}: daily", daily, 0, 1000)
        check_integer(f"{id}: cover", cover, 0, None)
        check_integer(f"{id}: contribution", contribution, 0, 1000)
        self.brackets: tuple[tuple[int, int], ...] = tuple(
            (start, min(1000, rate + contribution)) for start, rate in _checked_brackets(brackets)
        )
        self.seed = seed
        self.most_price: int = most_price
        self.most_wage: int = most_wage
        self.taxed: ByRow = ByRow(empty_register(), 2)
        self.month: int = month
        self.daily: int = daily
        self.cover: int = cover
        self.days: int = 0
        self.wage_days: int = 1

    def of_population(self, population: Register) -> None:
        """Store the incomes and taxes of a population in an array."""
        self.taxed = ByRow(population, 2)

    def due(self, rows: Array, gross: Array) -> Any:
        """Return the taxes to withhold from citizens' wages, each at most the wage."""
        income, paid = self.taxed.array.T
        return tax_to_withhold(gross, income[rows], paid[rows], self.brackets, self.wage_days)

    def record_tax(self, rows: Array, gross: Array, tax: Array) -> None:
        """Record wages of citizens, each once, and the taxes withheld from them."""
        income, paid = self.taxed.array.T
        income[rows] += gross
        paid[rows] += tax

    def after_step(self, books: Books) -> None:
        """Close the day, if this step is its last."""
        if books.days_ended:
            close_day(books, self)

    def state_dict(self) -> dict[str, Any]:
        """Return the number of closed days, and today's incomes and taxes."""
        return {"days": self.days, "taxed": {id: list(each) for id, each in self.taxed.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        self.days = state["days"]
        self.taxed.clear()
        self.taxed.update({id: list(each) for id, each in state["taxed"].items()})


def close_day(books: Books, government: Government) -> None:
    """Close the day.

    A firm's buffer is its money at the start. The day's product goes to the sellers, in proportion
    to the units asked of each. The sellers' money above their buffers goes to the producers (firms
    that do not sell), in proportion to the wages that each paid. The producers' money above their
    buffers goes to the adults, in equal parts. Then the bank credits interest, and the government
    shares out its money above its reserve. Every month sellers adapt prices, private firms wages.
    """
    firms = [each for each in books.services.values() if isinstance(each, Firm)]
    sellers = [firm for firm in firms if firm.sells]
    makers = [firm for firm in firms if not firm.sells and not firm.public]
    wages_paid = [firm.paid for firm in makers]
    product = sum(firm.worked * firm.output // 3600 for firm in firms if not firm.public)
    turns, maker_turns = (
        [turn_key(government.seed, firm.id, books.step) for firm in firms_of_kind]
        for firms_of_kind in (sellers, makers)
    )
    demands = [seller.asked for seller in sellers]
    for seller, units in zip(sellers, divide(product, demands, turns), strict=True):
        seller.stock += units
    if any(wages_paid):
        spare = [max(0, books.balances[seller.id] - seller.money) for seller in sellers]
        for seller, cents in zip(sellers, spare, strict=True):
            books.balances[seller.id] -= cents
        for maker, cents in zip(makers, divide(sum(spare), wages_paid, maker_turns), strict=True):
            books.balances[maker.id] += cents
    _share_out(books, {maker.id: maker.money for maker in makers})
    for service in [*books.services.values()] * books.days_ended:
        if isinstance(service, Bank):
            service.credit(books)
    _share_out(books, {government.id: government.reserve})
    _adapt_each_day(firms, government, books)
    government.taxed.clear()


def _adapt_each_day(firms: list[Firm], government: Government, books: Books) -> None:
    """Adapt prices, and each month wages too, to the days that end, of equal sales."""
    days, counts = books.days_ended, [(firm.asked, firm.sold) for firm in firms]
    for day in range(days):
        for firm, units in zip(firms, counts, strict=True):
            firm.set_sales(*(n * (day + 1) // days - n * day // days for n in units))
        _adapt_daily_prices(firms, government, books.step, day)
        for firm in firms:
            firm.end_day()
        government.days += 1
        if government.days % government.month == 0:
            _adapt_monthly(firms, government, books.step, day)


def _share_out(books: Any, buffers: dict[str, int]) -> None:
    """Let services pay their money above a buffer to all adults, in equal parts."""
    if all(books.balances[id] <= buffer for id, buffer in buffers.items()):
        return
    _, columns = citizens_of(books, ("age",))
    adults = np.flatnonzero(columns["age"] >= _ADULT_AGE)
    for payer, buffer in buffers.items():
        cents = max(0, books.balances[payer] - buffer) // max(1, len(adults))
        if cents:
            each = np.full(len(adults), cents)
            pay_citizens(books, adults, each, payer, is_income=False)


def _adapt_daily_prices(firms: list[Firm], government: Government, step: int, day: int) -> None:
    """Raise the price of a seller whose stock is short of `cover` days' sales, and lower others."""
    # That firms set prices by their inventories is assumed, as in Lengnick 2013, by the month.
    for firm in (each for each in firms if each.sells and government.daily):
        share = Draws(government.seed, firm.id, step).below(1001, "economy.price", day)
        demand, supply = firm.asked + government.cover * firm.sold, firm.sold + firm.stock
        firm.price = adapted_price(firm.price, demand, supply, government.daily, share)


def _adapt_monthly(firms: list[Firm], government: Government, step: int, day: int) -> None:
    """Adapt firms' prices to their own demand and supply, and wages to the sums of all firms."""
    demand = sum(firm.month_asked for firm in firms)
    offered = sum(firm.month_sold + firm.stock for firm in firms if firm.sells)
    for firm in firms:
        share = Draws(government.seed, firm.id, step).below(1001, "economy.adapt", day)
        supply = firm.month_sold + firm.stock
        if firm.sells:
            firm.price = adapted_price(
                firm.price, firm.month_asked, supply, government.most_price, share
            )
        if not firm.public:
            firm.wage = adapted_price(firm.wage, demand, offered, government.most_wage, share)
        firm.month_asked = firm.month_sold = 0


def make_economy(
    city: Places,
    *,
    seed: int = 0,
    days: int = 10,
    wage: int = 2500,
    labour: LabourMarket | None = None,
) -> list[Service]:
    """Return bank, government, labour market, transfers, and a firm for each place of business.

    Places of kind `work` produce, `shop` and `restaurant` sell, `school` and `hospital` are public.
    A firm starts with the wages of the place's whole staff (`STAFF`) for `days` days of 8 hours. A
    seller also starts with a stock of goods worth as much.

    Args:
        city: the city
        seed: the seed of the random shares of adaptation
        days: the number of days that firms can pay wages without sales
        wage: cents an hour
        labour: a labour market of your own; None for one with the usual rates

    Raises:
        ConfigError: the city has no such places, or an argument is wrong
    """
    needs(city, Places, who="make_economy")
    for name, value in (("seed", seed), ("days", days), ("wage", wage)):
        check_integer(name, value, 0, None)
    if not isinstance(labour, LabourMarket | None):
        raise ConfigError(f"labour= must be a LabourMarket(…), got {labour!r:.80}")
    firms: list[Service] = []
    public_money = 0
    for place in sorted(place for kind in STAFF for place in city.by_kind(kind)):
        kind = city.kind(place)
        capacity = city.capacity(place) if hasattr(city, "capacity") else 10
        staff = 10 if capacity is None else max(1, capacity * STAFF[kind] // 1000)
        money = staff * 8 * wage * days
        if kind in PUBLIC_KINDS:
            public_money += money
        firms.append(
            Firm(
                f"firm-{len(firms) + 1}",
                place,
                0 if kind in PUBLIC_KINDS else money,
                wage=wage,
                sells=kind in SELLING_KINDS,
                public=kind in PUBLIC_KINDS,
                stock=money // 100 if kind in SELLING_KINDS else 0,
            )
        )
    if not firms:
        raise ConfigError(f"make_economy needs a place of kind {', '.join(STAFF)}")
    market = LabourMarket(seed=seed, wage=wage) if labour is None else labour
    government = Government(money=public_money, seed=seed, contribution=CONTRIBUTION)
    return [Bank(money=wage * 100), government, *firms, market, Transfers(wage=wage)]


def _checked_brackets(brackets: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Check that brackets start at 0 and rise, with rates of 0 … 1000; return them as tuples."""
    rule = "brackets must be (cents, thousandths), from (0, …) up, each thousandths 0 … 1000, got "
    try:
        pairs = tuple((start, rate) for start, rate in brackets)
    except (TypeError, ValueError):
        raise ConfigError(rule + f"{brackets!r:.200}") from None
    starts = [start for start, _ in pairs]
    are_integers = all(type(number) is int for each in pairs for number in each)
    rises = are_integers and starts[:1] == [0] and starts == sorted(set(starts))
    if not rises or any(not 0 <= rate <= 1000 for _, rate in pairs):
        raise ConfigError(rule + f"{pairs!r:.200}")
    return pairs
