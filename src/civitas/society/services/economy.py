"""The bank and the government, and what ends each day.

Money only moves, in whole cents, and no account is ever below 0: who cannot pay in full pays
nothing. Who works where is what the citizens' states say: hiring and dismissal are not simulated,
and nor are loans. One good, wages before purchases, firms that keep a buffer and pay out what is
above it, and that adapt to excess demand, are the baseline of agent-based economics: Lengnick 2013,
"Agent-based macroeconomics: a baseline model", JEBO 86; Delli Gatti et al. 2011, "Macroeconomics
from the Bottom-up". The rule of adaptation and equal redistribution are those of EconAgent (Li et
al. 2024, ACL, arXiv:2310.10436) and AgentSociety (Piao et al. 2025, arXiv:2502.08691). Suppliers
paid by payroll are an input-output table of one row (Leontief 1936, "Quantitative input and output
relations", Review of Economics and Statistics 18).
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any, ClassVar, Final

from civitas.clock import DAY_S
from civitas.errors import ConfigError
from civitas.society.city.map import check_integer
from civitas.society.commit import Books, Service
from civitas.society.draw import Draws
from civitas.society.places import Places, needs
from civitas.society.services.firm import STAFF, Firm
from civitas.society.services.ledger import (
    BRACKETS,
    ByRow,
    credited,
    shares,
    small,
    withheld,
)
from civitas.society.wants import Answer, Save, Want, id_order

SELLS: Final = ("restaurant", "shop")
PUBLIC: Final = ("hospital", "school")


def adapted(value: int, demand: int, supply: int, most: int, share: int) -> int:
    """Return a price or wage after a month, at least 1; the change is rounded towards 0.

    It changes by the share of excess demand, (demand − supply) / max(demand, supply), times `most`
    thousandths, times `share` thousandths, a random share of it (EconAgent, section 3).
    """
    larger = max(demand, supply)
    if larger == 0:
        return value
    change = value * abs(demand - supply) * most * share // (larger * 1_000_000)
    return max(1, value + change if demand > supply else value - change)


class Bank(Service):
    """Keeps the savings of citizens, all of them in cash; interest comes out of its own capital.

    Args:
        money: its own capital at the start, in cents
        interest: parts of a million that a deposit earns a day; 27 is one percent a year

    Attributes:
        deposits: what each citizen has saved, in cents
    """

    takes: ClassVar[tuple[type[Want], ...]] = (Save,)

    def __init__(self, id: str = "bank", money: int = 0, interest: int = 27) -> None:
        super().__init__(id, None, money)
        check_integer(f"{id}: interest", interest, 0, 1_000_000)
        self.interest = interest
        self.deposits: MutableMapping[str, int] = {}

    def of_population(self, population: Any) -> None:
        """Keep the deposits of a population in an array."""
        self.deposits = ByRow(population)

    @property
    def owed(self) -> int:
        """The sum of all deposits, in cents."""
        kept = self.deposits
        return int(kept.array.sum()) if isinstance(kept, ByRow) else sum(kept.values())

    def settle(self, books: Books, sender: str, want: Want) -> Answer:
        """Take money, or give it back."""
        assert type(want) is Save
        cents, has = want.cents, self.deposits.get(sender, 0)
        if type(cents) is not int or cents == 0:
            return Answer(want, False, f"cents must be a whole number but 0, got {cents!r:.40}")
        if cents < 0 and has < -cents:
            return Answer(want, False, f"{sender} has saved {has} cents, not {-cents}")
        payer, payee = (sender, self.id) if cents > 0 else (self.id, sender)
        reason = books.pay(payer, payee, abs(cents))
        if reason:
            return Answer(want, False, reason)
        self.deposits[sender] = has + cents
        return Answer(want, True, value=has + cents)

    def settle_rows(self, books: Any, table: Any, entries: Any) -> None:
        """The same for many, each of whom wants it once."""
        kept: Any = self.deposits
        sender, cents = table.sender[entries], table.fields["cents"][entries]
        money = books.population.arrays["money"]
        fine = (cents > 0) & (cents <= money[sender])
        fine |= (cents < 0) & (kept.array[sender] + cents >= 0)
        moved = cents * fine
        again = bool((sender[1:] == sender[:-1]).any())
        if again or not small(cents) or -moved[moved < 0].sum() > books.balances[self.id]:
            books.one_by_one(self, table, entries)
            return
        money[sender] -= moved
        kept.array[sender] += moved
        books.balances[self.id] += int(moved.sum())
        table.done(entries, fine, kept.array[sender])

    def credit(self, books: Books) -> None:
        """Credit a day's interest, in id order, while the bank's own capital lasts."""
        own = books.balances[self.id] - self.owed
        if isinstance(self.deposits, ByRow):
            self.deposits.array += credited(self.deposits.array, self.interest, own)
            return
        for id in sorted(self.deposits, key=id_order):
            earned = self.deposits[id] * self.interest // 1_000_000
            if earned <= own:
                self.deposits[id] += earned
                own -= earned

    def state_dict(self) -> dict[str, Any]:
        """The deposits."""
        return {"deposits": dict(self.deposits.items())}

    def load_state_dict(self, given: dict[str, Any]) -> None:
        """Go on where another was."""
        self.deposits.clear()
        self.deposits.update(given["deposits"])


class Government(Service):
    """Taxes the income of each day by brackets, pays public wages, and shares out the rest.

    The tax is withheld from each wage: what is due on the day's income so far, less what was
    withheld already.

    Args:
        money: its cents at the start
        brackets: (from cents of a day's income, thousandths of what is above), from (0, …) up
        reserve: the cents that it does not share out
        seed: of the random shares of adaptation
        most_price: thousandths by which a price changes a month at most
        most_wage: thousandths by which a wage changes a month at most
        month: after how many days prices and wages change

    Attributes:
        taxed: the income of the day and the tax withheld from it, of each citizen
        days: how many days were closed
    """

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
    ) -> None:
        super().__init__(id, None, money)
        self.reserve = money if reserve is None else reserve
        check_integer(f"{id}: reserve", self.reserve, 0, None)
        check_integer(f"{id}: most_price", most_price, 0, 1000)
        check_integer(f"{id}: most_wage", most_wage, 0, 1000)
        check_integer(f"{id}: month", month, 1, None)
        self.brackets = _checked(brackets)
        self.seed = seed
        self.most_price, self.most_wage = most_price, most_wage
        self.taxed: MutableMapping[str, list[int]] = {}
        self.month, self.days = month, 0

    def of_population(self, population: Any) -> None:
        """Keep what a population was taxed in an array."""
        self.taxed = ByRow(population, 2)

    def due(self, id: str, gross: int) -> int:
        """Return the tax to withhold from a wage; never more than the wage."""
        income, paid = self.taxed.get(id, (0, 0))
        return int(withheld(gross, income, paid, self.brackets))

    def collected(self, id: str, gross: int, tax: int) -> None:
        """Note a wage and the tax that was withheld from it."""
        income, paid = self.taxed.get(id, (0, 0))
        self.taxed[id] = [income + gross, paid + tax]

    def due_rows(self, rows: Any, gross: Any) -> Any:
        """`due` of citizens of a population."""
        income, paid = self.taxed.array.T  # type: ignore[attr-defined]
        return withheld(gross, income[rows], paid[rows], self.brackets)

    def collected_rows(self, rows: Any, gross: Any, tax: Any) -> None:
        """`collected` of citizens of a population, each once."""
        kept: Any = self.taxed
        income, paid = kept.array.T
        income[rows] += gross
        paid[rows] += tax

    def after_step(self, books: Books) -> None:
        """Close the day, if this step is its last."""
        if books.clock is not None and books.clock.time + books.seconds >= DAY_S:
            close_day(books, self)

    def state_dict(self) -> dict[str, Any]:
        """How many days were closed, and what was taxed today."""
        return {"days": self.days, "taxed": {id: list(each) for id, each in self.taxed.items()}}

    def load_state_dict(self, given: dict[str, Any]) -> None:
        """Go on where another was."""
        self.days = given["days"]
        self.taxed.clear()
        self.taxed.update({id: list(each) for id, each in given["taxed"].items()})


def close_day(books: Books, government: Government) -> None:
    """Do what ends each day.

    First what sellers have above their buffers, the money that each began with, goes to the firms
    that only produce, in proportion to the wages paid there, and the day's product to the sellers,
    in proportion to what they were asked for. What a producer has above its buffer goes to the
    citizens, in equal parts; then the bank credits interest, and the government shares out what it
    has above its reserve. Every month sellers change their price, private firms their wage.
    """
    firms = [each for each in books.services.values() if isinstance(each, Firm)]
    sellers = [firm for firm in firms if firm.sells]
    makers = [firm for firm in firms if not firm.sells and not firm.public]
    paid = [firm.paid for firm in makers]
    product = sum(firm.worked * firm.output // 3600 for firm in firms if not firm.public)
    for seller, units in zip(sellers, shares(product, [s.asked for s in sellers]), strict=True):
        seller.stock += units
    if any(paid):
        spare = [max(0, books.balances[seller.id] - seller.money) for seller in sellers]
        for seller, cents in zip(sellers, spare, strict=True):
            books.balances[seller.id] -= cents
        for maker, cents in zip(makers, shares(sum(spare), paid), strict=True):
            books.balances[maker.id] += cents
    _share_out(books, {maker.id: maker.money for maker in makers})
    for service in books.services.values():
        if isinstance(service, Bank):
            service.credit(books)
    _share_out(books, {government.id: government.reserve})
    for firm in firms:
        firm.end_day()
    government.days += 1
    if government.days % government.month == 0:
        _adapt(firms, government, books.step)
    government.taxed.clear()


def _share_out(books: Any, buffers: dict[str, int]) -> None:
    """Have services pay what they have above a buffer to all citizens, in equal parts."""
    count = max(1, len(books.where))
    each = {id: (books.balances[id] - buffer) // count for id, buffer in buffers.items()}
    each = {id: cents for id, cents in each.items() if cents > 0}
    if hasattr(books, "pay_everybody"):
        books.pay_everybody(each)
        return
    citizens = sorted(books.where, key=id_order)
    for payer, cents in each.items():
        for id in citizens:
            books.pay(payer, id, cents)


def _adapt(firms: list[Firm], government: Government, step: int) -> None:
    """Have firms change prices, by their own sales, and wages, by those of all."""
    asked = sum(firm.month_asked for firm in firms)
    offered = sum(firm.month_sold + firm.stock for firm in firms if firm.sells)
    for firm in firms:
        share = Draws(government.seed, firm.id, step).below(1001, "economy.adapt")
        supply = firm.month_sold + firm.stock
        if firm.sells:
            firm.price = adapted(firm.price, firm.month_asked, supply, government.most_price, share)
        if not firm.public:
            firm.wage = adapted(firm.wage, asked, offered, government.most_wage, share)
        firm.month_asked = firm.month_sold = 0


def make_economy(city: Any, *, seed: int = 0, days: int = 10, wage: int = 2500) -> list[Service]:
    """Return the bank, the government and a firm `firm-1` … for each place that employs or sells.

    Places of kind `work` produce, `shop` and `restaurant` sell, `school` and `hospital` are public.
    A firm starts with the money for `days` days of 8 hours at this wage of all whom the place
    employs (`STAFF`), a seller also with goods of that price in stock.

    Args:
        city: the places
        seed: of the random shares of adaptation
        days: how long firms can pay without selling
        wage: cents an hour

    Raises:
        ConfigError: the city has no such places
    """
    needs(city, Places, who="make_economy")
    firms: list[Service] = []
    public = 0
    for place in sorted(place for kind in STAFF for place in city.by_kind(kind)):
        kind = city.kind(place)
        holds = city.capacity(place) if hasattr(city, "capacity") else 10
        staff = 10 if holds is None else max(1, holds * STAFF[kind] // 1000)
        money = staff * 8 * wage * days
        if kind in PUBLIC:
            public += money
        firms.append(
            Firm(
                f"firm-{len(firms) + 1}",
                place,
                0 if kind in PUBLIC else money,
                wage=wage,
                sells=kind in SELLS,
                public=kind in PUBLIC,
                stock=money // 100 if kind in SELLS else 0,
            )
        )
    if not firms:
        raise ConfigError(f"make_economy needs a place of kind {', '.join(STAFF)}")
    return [Bank(money=wage * 100), Government(money=public, seed=seed), *firms]


def _checked(brackets: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Brackets, if they begin at 0, rise, and take between nothing and all."""
    given = tuple((start, rate) for start, rate in brackets)
    starts = [start for start, _ in given]
    whole = all(type(number) is int for each in given for number in each)
    rises = whole and starts[:1] == [0] and starts == sorted(set(starts))
    if not rises or any(not 0 <= rate <= 1000 for _, rate in given):
        raise ConfigError(
            "brackets must be (cents, thousandths), from (0, …) up, each thousandths 0 … 1000, got "
            f"{given!r:.200}"
        )
    return given
