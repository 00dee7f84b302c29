"""Firms: they pay wages for work at their place, and sell from their stock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from moothall.build import check_integer
from moothall.society.arrays import Array, WholeNumber, np
from moothall.society.columns import city_queries
from moothall.society.columns.ledger import MAX_SUM, LedgerField, ServiceLedger, affordable
from moothall.society.columns.want_table import Table
from moothall.society.kernel.commit import Books, Service
from moothall.society.kernel.kept import sets_own
from moothall.society.kernel.wants import Buy, Want, Work

STAFF: Final = {"hospital": 500, "restaurant": 100, "school": 100, "shop": 100, "work": 1000}
"""The kinds of places that employ, with their staff in thousandths of the capacity."""

MAX_AMOUNT: Final = 10**12
"""The largest wage, price, stock and output of a firm: columns have room for what it comes to."""


def gross_wage(cents_an_hour: WholeNumber, skill: WholeNumber, seconds: WholeNumber) -> Any:
    """Return the gross wage of `seconds` of work, in cents; 1000 is the usual skill."""
    return cents_an_hour * skill * seconds // 3_600_000


class Firm(Service):
    """An employer at a place; a firm that `sells` has a good, a price and a stock.

    Args:
        id: the firm's id, such as `firm-3`
        place: the firm's place
        money: the firm's cents at the start, which are also its buffer
        wage: cents an hour at a skill of 1000
        price: cents a unit of the good
        stock: units at the start
        sells: whether the firm sells to citizens
        public: whether the government pays its wages
        output: units that an hour of work here adds to the product of all firms

    Attributes:
        asked: units asked for today
        sold: units sold today
        paid: wages paid today, in cents
        worked: seconds worked here today
        month_asked: units asked for since the last adaptation, without today's
        month_sold: units sold since the last adaptation, without today's
    """

    takes: ClassVar[tuple[type[Want], ...]] = (Work, Buy)
    wage: LedgerField = LedgerField()
    price: LedgerField = LedgerField()
    stock: LedgerField = LedgerField()
    asked: LedgerField = LedgerField()
    sold: LedgerField = LedgerField()
    paid: LedgerField = LedgerField()
    worked: LedgerField = LedgerField()
    month_asked: LedgerField = LedgerField()
    month_sold: LedgerField = LedgerField()
    ledger: ServiceLedger | None = None
    index: int = 0
    state_names: ClassVar[tuple[str, ...]]

    @sets_own
    def __init__(
        self,
        id: str,
        place: str,
        money: int = 0,
        *,
        wage: int = 2500,
        price: int = 100,
        stock: int = 0,
        sells: bool = False,
        public: bool = False,
        output: int = 25,
    ) -> None:
        super().__init__(id, place, money)
        self.ledger = None  # first, so that firms share the keys of their `__dict__`
        self.index = 0
        for name, value in (("wage", wage), ("stock", stock), ("output", output)):
            check_integer(f"{id}: {name}", value, 0, MAX_AMOUNT)
        check_integer(f"{id}: price", price, 1, MAX_AMOUNT)
        self.wage = wage
        self.price = price
        self.stock = stock
        self.sells: bool = sells
        self.public: bool = public
        self.output: int = output
        self.asked = self.sold = self.paid = self.worked = 0
        self.month_asked = self.month_sold = 0

    def settle_rows(self, books: Any, table: Table, entries: Array) -> None:
        """Pay wages, or sell goods."""
        self.settle_together(books, table, entries, self.ledger, np.full(len(entries), self.index))

    def refusal(self, books: Books, sender: str, want: Want) -> str:
        """Return why a wage is not paid, or nothing sold."""
        status, place, works = books.status_of(sender), books.where.get(sender), type(want) is Work
        if works and status.get("work") != self.place:
            return f"{sender} is not employed at {self.place}"
        if not works and not self.sells:
            return f"{self.id} sells nothing"
        at_home = works and place is not None and place == status.get("home")
        if books.city is not None and not at_home and place != self.place:
            return f"{sender} is not at {self.place}"
        if hasattr(books.city, "is_open") and not books.city.is_open(self.place, books.clock.time):
            return f"{self.place} is closed"
        return self._unpaid(books, sender, want) if works else self._unsold(books, sender, want)

    def _unpaid(self, books: Any, sender: str, want: Any) -> str:
        seconds_left = books.seconds - books.worked.item(books.population.row_of(sender))
        if type(want.seconds) is not int or not 1 <= want.seconds <= seconds_left:
            rule = f"seconds must be from 1 to the {seconds_left} left of this step"
            return f"{rule}, got {want.seconds!r:.40}"
        payer = "government" if self.public and "government" in books.services else self.id
        return f"{payer} has {books.balances[payer]} cents, and the wage is more"

    def _unsold(self, books: Any, sender: str, want: Any) -> str:
        if type(want.cents) is not int or want.cents < 1:
            return f"cents must be 1 or more, got {want.cents!r:.40}"
        if not (units := min(want.cents // self.price, self.stock)):
            is_short = want.cents >= self.price
            return f"{self.id} has sold out" if is_short else f"a unit costs {self.price} cents"
        return f"{sender} has {books.balances.get(sender, 0)} cents, not {units * self.price}"

    @classmethod
    def keep_together(cls, services: Iterable[Service], books: object) -> None:
        """Store the numbers of firms in arrays."""
        firms = [each for each in services if isinstance(each, cls)]
        ledger = ServiceLedger(firms, cls.state_names, books)
        for name in ("sells", "public"):
            ledger.arrays[name] = np.array([getattr(each, name) for each in firms], bool)

    @staticmethod
    def settle_together(books: Any, table: Table, entries: Array, ledger: Any, firm: Array) -> None:
        """Do `settle` for many wants, entry k with the firm `firm[k]` of the ledger."""
        sender, place = table.sender[entries], ledger.place[firm]
        is_here = np.ones(len(sender), bool)
        if books.city is not None:
            arrays = books.population.arrays
            location = arrays["place"][sender]
            is_here &= location == place
            if table.kind is Work and "home" in arrays:  # one may work from home
                is_here |= (location >= 0) & (location == books.column("home", sender, -1))
        is_here &= city_queries.open_at(books, ledger.place, books.clock.time)[firm]
        rule = _work_rows if table.kind is Work else _sell_rows
        repeats = bool((sender[1:] == sender[:-1]).any())
        if (repeats or not rule(books, table, entries, ledger, firm, is_here)) and len(sender) > 1:
            services = [ledger.services[number] for number in firm.tolist()]
            books.one_by_one(services, table, entries)

    def set_sales(self, demand: int, sales: int) -> None:
        """Set the units that are asked for and sold today."""
        self.asked, self.sold = demand, sales

    def end_day(self) -> None:
        """Add the day's counts to the month's, and reset them."""
        self.month_asked += self.asked
        self.month_sold += self.sold
        self.asked = self.sold = self.paid = self.worked = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the price, wage and stock, and the counts of the day and month."""
        return {name: getattr(self, name) for name in self.state_names}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Restore a state of `state_dict`."""
        for name in self.state_names:
            setattr(self, name, state[name])


def _work_rows(
    books: Any, table: Table, entries: Array, ledger: ServiceLedger, firms: Array, is_here: Array
) -> bool:
    """Pay wages; return False, without effect, if columns cannot compute them."""
    sender, seconds = table.sender[entries], table.fields["seconds"][entries]
    government = books.services.get("government")
    has_taxes = hasattr(government, "due")
    if has_taxes:
        government.wage_days = max(1, books.days_ended)
    wages, purses = ledger.arrays["wage"], books.balances.cents

    def wages_of_part(first: int, until: int) -> tuple[Array, ...]:
        """Return the positions that work in a part, gross wages, taxes, and the largest skill."""
        part = slice(first, until)
        workers, place = sender[part], ledger.place[firms[part]]
        can_work = is_here[part] & (books.column("work", workers, -1) == place)
        can_work &= (seconds[part] >= 1) & (seconds[part] <= books.seconds - books.worked[workers])
        entry = np.flatnonzero(can_work)
        workers = workers[entry]
        skill = books.column("skill", workers, 1000)
        np.putmask(skill, skill < 0, 1000)
        gross = gross_wage(wages[firms[part][entry]], skill, seconds[part][entry])
        tax = government.due(workers, gross) if has_taxes else np.zeros(len(entry), np.int64)
        return entry + first, gross, tax, skill.max(initial=0, keepdims=True)

    parts = books.population.apply(wages_of_part, len(sender))
    entry, gross, tax, skills = (np.concatenate(each) for each in zip(*parts, strict=True))
    del parts
    largest_sum = float(wages.max(initial=0)) * int(skills.max()) * books.seconds * (len(entry) + 1)
    if largest_sum >= MAX_SUM:
        return False
    sender, seconds, firm = sender[entry], seconds[entry], firms[entry]
    is_public = ledger.arrays["public"][firm] & (government is not None)
    is_paid = is_public | affordable(
        np.where(is_public, 0, gross),
        firm,
        purses[ledger.money_index],
        lambda entry: books.hearing_order(sender[entry]),
    )
    if is_public.any() and gross[is_public].sum() > books.balances["government"]:
        cash = books.balances["government"]
        _pay_in_turn(is_paid, cash, is_public, gross, tax, books.hearing_order(sender))
    if not is_paid.all():
        paid = np.flatnonzero(is_paid)
        entry, sender, firm, seconds = entry[paid], sender[paid], firm[paid], seconds[paid]
        gross, tax, is_public = gross[paid], tax[paid], is_public[paid]
    books.worked[sender] += seconds
    books.population.arrays["money"][sender] += gross - tax
    np.subtract.at(purses, ledger.money_index[firm], np.where(is_public, 0, gross))
    np.add.at(ledger.arrays["worked"], firm, seconds)
    np.add.at(ledger.arrays["paid"], firm, gross)
    if government is not None:
        books.balances["government"] += int(tax.sum() - gross[is_public].sum())
    if has_taxes:
        government.record_tax(sender, gross, tax)
    is_done, net = np.zeros(len(entries), bool), np.zeros(len(entries), np.int64)
    is_done[entry], net[entry] = True, gross - tax
    table.done(entries, is_done, net)
    return True


def _pay_in_turn(
    is_paid: Array, cash: int, is_public: Array, gross: Array, tax: Array, order: Array
) -> None:
    """Clear `is_paid` of public wages above the government's money in turn, taxes included."""
    rows = zip(*(each[order].tolist() for each in (is_paid, is_public, gross, tax)), strict=True)
    for entry, (paid, by_government, wage, wage_tax) in zip(order.tolist(), rows, strict=True):
        if not by_government:
            cash += wage_tax if paid else 0
        elif wage <= cash:
            cash -= wage - wage_tax
        else:
            is_paid[entry] = False


def _sell_rows(
    books: Any, table: Table, entries: Array, ledger: ServiceLedger, firms: Array, is_here: Array
) -> bool:
    """Sell; return False, without effect, if the numbers are too large for columns."""
    cents, sender = table.fields["cents"][entries], table.sender[entries]
    columns = ledger.arrays
    price, money = columns["price"][firms], books.population.arrays["money"]
    if np.abs(cents, dtype=np.float64).sum() >= MAX_SUM:
        return False
    can_buy = is_here & (cents >= 1) & columns["sells"][firms]
    demand = np.where(can_buy, cents // price, 0)
    demand_by_firm = np.zeros(len(columns["stock"]), np.int64)
    np.add.at(demand_by_firm, firms, demand)
    units = demand.copy()
    at = np.flatnonzero((demand_by_firm > columns["stock"])[firms])
    if len(at):
        at = at[books.hearing_order(sender[at])]
        stocks = dict(zip(firms[at].tolist(), columns["stock"][firms[at]].tolist(), strict=True))
        units_sold, buyers = [], (firms[at], demand[at], money[sender[at]], price[at])
        for firm, limit, cash, each in zip(*(column.tolist() for column in buyers), strict=True):
            units_sold.append(min(limit, stocks[firm]))
            if units_sold[-1] * each <= cash:
                stocks[firm] -= units_sold[-1]
        units[at] = units_sold
    cost = units * price
    is_done = (units > 0) & (cost <= money[sender])
    money[sender] -= cost * is_done
    sold = np.zeros(len(demand_by_firm), np.int64)
    np.add.at(sold, firms, units * is_done)
    columns["asked"] += demand_by_firm
    columns["sold"] += sold
    columns["stock"] -= sold
    np.add.at(books.balances.cents, ledger.money_index[firms], cost * is_done)
    table.done(entries, is_done, cost)
    return True
