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
from moothall.society.kernel.wants import Buy, Want, Work

STAFF: Final = {"hospital": 500, "restaurant": 100, "school": 100, "shop": 100, "work": 1000}
"""The kinds of places that employ, with their staff in thousandths of the capacity."""

MOST: Final = 10**12
"""The largest wage, price, stock and output of a firm: columns have room for what it comes to."""


def wage_for(cents_an_hour: WholeNumber, skill: WholeNumber, seconds: WholeNumber) -> Any:
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
    at: int = 0
    state_names: ClassVar[tuple[str, ...]]

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
        self.at = 0
        for name, value in (("wage", wage), ("stock", stock), ("output", output)):
            check_integer(f"{id}: {name}", value, 0, MOST)
        check_integer(f"{id}: price", price, 1, MOST)
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
        self.settle_together(books, table, entries, self.ledger, np.full(len(entries), self.at))

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
        spare = books.seconds - books.worked.item(books.population.row_of(sender))
        if type(want.seconds) is not int or not 1 <= want.seconds <= spare:
            return (
                f"seconds must be from 1 to the {spare} left of this step, got {want.seconds!r:.40}"
            )
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
    def settle_together(books: Any, table: Table, entries: Array, ledger: Any, of: Array) -> None:
        """Do `settle` for many wants, entry k with the firm `of[k]` of the ledger."""
        sender, place = table.sender[entries], ledger.place[of]
        here = np.ones(len(sender), bool)
        if books.city is not None:
            arrays = books.population.arrays
            at = arrays["place"][sender]
            here &= at == place
            if table.kind is Work and "home" in arrays:  # one may work from home
                here |= (at >= 0) & (at == books.column("home", sender, -1))
        here &= city_queries.open_at(books, ledger.place, books.clock.time)[of]
        rule = _work_rows if table.kind is Work else _sell_rows
        again = bool((sender[1:] == sender[:-1]).any())
        if (again or not rule(books, table, entries, ledger, of, here)) and len(sender) > 1:
            firms = [ledger.services[number] for number in of.tolist()]
            books.one_by_one(firms, table, entries)

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
    books: Any, table: Table, entries: Array, ledger: ServiceLedger, of: Array, here: Array
) -> bool:
    """Pay wages; return False, without effect, if columns cannot compute them."""
    sender, seconds = table.sender[entries], table.fields["seconds"][entries]
    government = books.services.get("government")
    taxes = hasattr(government, "due")
    if taxes:
        government.wage_days = max(1, books.days_ended)
    wages, purses = ledger.arrays["wage"], books.balances.cents

    def earned(first: int, until: int) -> tuple[Array, ...]:
        """Return the positions that work in a part, gross wages, taxes, and the largest skill."""
        part = slice(first, until)
        workers, place = sender[part], ledger.place[of[part]]
        fine = here[part] & (books.column("work", workers, -1) == place)
        fine &= (seconds[part] >= 1) & (seconds[part] <= books.seconds - books.worked[workers])
        at = np.flatnonzero(fine)
        workers = workers[at]
        skill = books.column("skill", workers, 1000)
        np.putmask(skill, skill < 0, 1000)
        gross = wage_for(wages[of[part][at]], skill, seconds[part][at])
        tax = government.due(workers, gross) if taxes else np.zeros(len(at), np.int64)
        return at + first, gross, tax, skill.max(initial=0, keepdims=True)

    parts = books.population.apply(earned, len(sender))
    at, gross, tax, skills = (np.concatenate(each) for each in zip(*parts, strict=True))
    del parts
    most = float(wages.max(initial=0)) * int(skills.max()) * books.seconds * (len(at) + 1)
    if most >= MAX_SUM:
        return False
    sender, seconds, firm = sender[at], seconds[at], of[at]
    public = ledger.arrays["public"][firm] & (government is not None)
    able = public | affordable(
        np.where(public, 0, gross),
        firm,
        purses[ledger.money_index],
        lambda at: books.hearing_order(sender[at]),
    )
    if public.any() and gross[public].sum() > books.balances["government"]:
        cash = books.balances["government"]
        _pay_in_turn(able, cash, public, gross, tax, books.hearing_order(sender))
    if not able.all():
        paid = np.flatnonzero(able)
        at, sender, firm, seconds = at[paid], sender[paid], firm[paid], seconds[paid]
        gross, tax, public = gross[paid], tax[paid], public[paid]
    books.worked[sender] += seconds
    books.population.arrays["money"][sender] += gross - tax
    np.subtract.at(purses, ledger.money_index[firm], np.where(public, 0, gross))
    np.add.at(ledger.arrays["worked"], firm, seconds)
    np.add.at(ledger.arrays["paid"], firm, gross)
    if government is not None:
        books.balances["government"] += int(tax.sum() - gross[public].sum())
    if taxes:
        government.collected(sender, gross, tax)
    done, net = np.zeros(len(entries), bool), np.zeros(len(entries), np.int64)
    done[at], net[at] = True, gross - tax
    table.done(entries, done, net)
    return True


def _pay_in_turn(
    able: Array, cash: int, public: Array, gross: Array, tax: Array, order: Array
) -> None:
    """Clear `able` for public wages above the government's money in their turn, taxes included."""
    rows = zip(*(each[order].tolist() for each in (able, public, gross, tax)), strict=True)
    for at, (paid, by_government, wage, withheld) in zip(order.tolist(), rows, strict=True):
        if not by_government:
            cash += withheld if paid else 0
        elif wage <= cash:
            cash -= wage - withheld
        else:
            able[at] = False


def _sell_rows(
    books: Any, table: Table, entries: Array, ledger: ServiceLedger, of: Array, here: Array
) -> bool:
    """Sell; return False, without effect, if the numbers are too large for columns."""
    cents, sender = table.fields["cents"][entries], table.sender[entries]
    columns = ledger.arrays
    price, money = columns["price"][of], books.population.arrays["money"]
    if np.abs(cents, dtype=np.float64).sum() >= MAX_SUM:
        return False
    fine = here & (cents >= 1) & columns["sells"][of]
    demand = np.where(fine, cents // price, 0)
    demand_by_firm = np.zeros(len(columns["stock"]), np.int64)
    np.add.at(demand_by_firm, of, demand)
    units = demand.copy()
    at = np.flatnonzero((demand_by_firm > columns["stock"])[of])
    if len(at):
        at = at[books.hearing_order(sender[at])]
        stock_left = dict(zip(of[at].tolist(), columns["stock"][of[at]].tolist(), strict=True))
        units_sold, asking = [], (of[at], demand[at], money[sender[at]], price[at])
        for firm, most, cash, each in zip(*(column.tolist() for column in asking), strict=True):
            units_sold.append(min(most, stock_left[firm]))
            if units_sold[-1] * each <= cash:
                stock_left[firm] -= units_sold[-1]
        units[at] = units_sold
    cost = units * price
    done = (units > 0) & (cost <= money[sender])
    money[sender] -= cost * done
    sold = np.zeros(len(demand_by_firm), np.int64)
    np.add.at(sold, of, units * done)
    columns["asked"] += demand_by_firm
    columns["sold"] += sold
    columns["stock"] -= sold
    np.add.at(books.balances.cents, ledger.money_index[of], cost * done)
    table.done(entries, done, cost)
    return True
