"""Firms: they pay wages for work at their place, and sell from their stock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final

from moothall.build import check_integer
from moothall.society.arrays import np
from moothall.society.columns import town
from moothall.society.columns.ledger import LARGE, LedgerField, ServiceLedger, afforded, in_rows
from moothall.society.kernel.commit import Books, Service
from moothall.society.kernel.wants import Answer, Buy, Want, Work

STAFF: Final = {"hospital": 500, "restaurant": 100, "school": 100, "shop": 100, "work": 1000}
"""The kinds of places that employ, with their staff in thousandths of the capacity."""


def wage_for(cents_an_hour: int, skill: int, seconds: int) -> int:
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
            check_integer(f"{id}: {name}", value, 0, None)
        check_integer(f"{id}: price", price, 1, None)
        self.wage = wage
        self.price = price
        self.stock = stock
        self.sells: bool = sells
        self.public: bool = public
        self.output: int = output
        self.asked = self.sold = self.paid = self.worked = 0
        self.month_asked = self.month_sold = 0

    def settle(self, books: Books, sender: str, want: Want) -> Answer:
        """Pay a wage, or sell goods."""
        if isinstance(want, Work):
            return self._work(books, sender, want)
        assert isinstance(want, Buy)
        return self._sell(books, sender, want)

    def _work(self, books: Books, sender: str, want: Work) -> Answer:
        status = books.status_of(sender)
        seconds = want.seconds
        if status.get("work") != self.place:
            return Answer(want, False, f"{sender} is not employed at {self.place}")
        at_home = status.get("home") is not None and books.where.get(sender) == status["home"]
        reason = self._barred(books, sender, at_home)
        if reason:
            return Answer(want, False, reason)
        seconds_left = books.seconds - books.worked[sender]
        if type(seconds) is not int or not 1 <= seconds <= seconds_left:
            most = f"the {seconds_left} left of this step"
            reason = f"seconds must be from 1 to {most}, got {seconds!r:.40}"
            return Answer(want, False, reason)
        skill = (status.get("profile") or {}).get("skill", 1000)
        gross = wage_for(self.wage, skill if type(skill) is int and skill >= 0 else 1000, seconds)
        government: Any = books.services.get("government")
        taxes = hasattr(government, "due")
        payer = "government" if self.public and government is not None else self.id
        if books.balances[payer] < gross:
            return Answer(want, False, f"{payer} has {books.balances[payer]} cents, not {gross}")
        tax = government.due(sender, gross) if taxes else 0
        if tax:
            books.pay(payer, "government", tax)
        if gross > tax:
            books.pay(payer, sender, gross - tax)
        if taxes:
            government.collected(sender, gross, tax)
        self.worked += seconds
        self.paid += gross
        books.worked[sender] += seconds
        return Answer(want, True, value=gross - tax)

    def _sell(self, books: Books, sender: str, want: Buy) -> Answer:
        if not self.sells:
            return Answer(want, False, f"{self.id} sells nothing")
        reason = self._barred(books, sender)
        if reason:
            return Answer(want, False, reason)
        if type(want.cents) is not int or want.cents < 1:
            return Answer(want, False, f"cents must be 1 or more, got {want.cents!r:.40}")
        demand = want.cents // self.price
        self.asked += demand
        units = min(demand, self.stock)
        if not units:
            short = f"{self.id} has sold out" if demand else f"a unit costs {self.price} cents"
            return Answer(want, False, short)
        cents = units * self.price
        reason = books.pay(sender, self.id, cents)
        if reason:
            return Answer(want, False, reason)
        self.stock -= units
        self.sold += units
        return Answer(want, True, value=cents)

    @classmethod
    def keep_together(cls, services: Iterable[Service], books: Any) -> None:
        """Store the numbers of firms that settle as `Firm` does in arrays, if int64 has room."""
        firms = [each for each in services if type(each).settle is cls.settle]
        try:
            ledger = ServiceLedger(firms, cls.state_names, books)
        except OverflowError:
            return
        for name in ("sells", "public"):
            ledger.arrays[name] = np.array([getattr(each, name) for each in firms])

    @staticmethod
    def settle_together(books: Any, table: Any, entries: Any, ledger: Any, of: Any) -> None:
        """Do `settle` for many wants, entry k with the firm `of[k]` of the ledger."""
        sender, place = table.sender[entries], table.fields["place"][entries]
        here = np.ones(len(sender), bool)
        if books.city is not None:
            arrays = books.population.arrays
            at = arrays["place"][sender]
            here &= at == place
            if table.kind is Work and "home" in arrays:  # one may work from home
                here |= (at >= 0) & (at == books.column("home", sender, -1))
        here &= town.open_at(books, ledger.place, books.clock.time)[of]
        rule = _work_rows if table.kind is Work else _sell_rows
        again = bool((sender[1:] == sender[:-1]).any())
        if again or not rule(books, table, entries, ledger, of, here):
            firms = [ledger.services[number] for number in of.tolist()]
            books.one_by_one(firms, table, entries)

    def _barred(self, books: Books, sender: str, at_home: bool = False) -> str:
        """Return why a citizen cannot act here, or for it at home; empty if it can."""
        city = books.city
        if city is not None and not at_home and books.where.get(sender) != self.place:
            return f"{sender} is not at {self.place}"
        is_open = not hasattr(city, "is_open") or city.is_open(self.place, books.clock.time)
        return "" if is_open else f"{self.place} is closed"

    def end_day(self) -> None:
        """Add the day's counts to the month's, and reset them."""
        self.month_asked += self.asked
        self.month_sold += self.sold
        self.asked = self.sold = self.paid = self.worked = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the price, wage and stock, and the counts of the day and month."""
        return {name: getattr(self, name) for name in self.state_names}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        for name in self.state_names:
            setattr(self, name, state[name])


def _work_rows(books: Any, table: Any, entries: Any, ledger: Any, of: Any, here: Any) -> bool:
    """Pay wages; return False, without effect, if columns cannot compute them."""
    sender, seconds = table.sender[entries], table.fields["seconds"][entries]
    government = books.services.get("government")
    taxes = hasattr(government, "due")
    methods = (("due", "due_rows"), ("collected", "collected_rows"))
    if taxes and not all(in_rows(type(government), *each) for each in methods):
        return False
    wages, purses = ledger.arrays["wage"], books.balances.cents

    def earned(first: int, until: int) -> tuple[Any, ...]:
        """Return the positions that work in a part, gross wages, taxes, and the largest skill."""
        part = slice(first, until)
        workers, place = sender[part], table.fields["place"][entries[part]]
        fine = here[part] & (books.column("work", workers, -1) == place)
        at = np.flatnonzero(fine & (seconds[part] >= 1) & (seconds[part] <= books.seconds))
        workers = workers[at]
        skill = books.column("skill", workers, 1000)
        np.putmask(skill, skill < 0, 1000)
        gross = wage_for(wages[of[part][at]], skill, seconds[part][at])
        tax = government.due_rows(workers, gross) if taxes else np.zeros(len(at), np.int64)
        return at + first, gross, tax, skill.max(initial=0, keepdims=True)

    parts = books.population.spread(earned, len(sender))
    at, gross, tax, skills = (np.concatenate(each) for each in zip(*parts, strict=True))
    del parts
    most = float(wages.max(initial=0)) * int(skills.max()) * books.seconds * (len(at) + 1)
    if most >= LARGE:
        return False
    sender, seconds, firm = sender[at], seconds[at], of[at]
    public = ledger.arrays["public"][firm] & (government is not None)
    able = public | afforded(
        np.where(public, 0, gross),
        firm,
        purses[ledger.purse],
        lambda at: books.hearing_order(sender[at]),
    )
    if public.any() and gross[public].sum() > books.balances["government"]:
        cash = books.balances["government"]
        _pay_in_turn(able, cash, public, gross, tax, books.hearing_order(sender))
    if not able.all():
        paid = np.flatnonzero(able)
        at, sender, firm, seconds = at[paid], sender[paid], firm[paid], seconds[paid]
        gross, tax, public = gross[paid], tax[paid], public[paid]
    books.population.arrays["money"][sender] += gross - tax
    np.subtract.at(purses, ledger.purse[firm], np.where(public, 0, gross))
    np.add.at(ledger.arrays["worked"], firm, seconds)
    np.add.at(ledger.arrays["paid"], firm, gross)
    if government is not None:
        books.balances["government"] += int(tax.sum() - gross[public].sum())
    if taxes:
        government.collected_rows(sender, gross, tax)
    done, net = np.zeros(len(entries), bool), np.zeros(len(entries), np.int64)
    done[at], net[at] = True, gross - tax
    table.done(entries, done, net)
    return True


def _pay_in_turn(able: Any, cash: int, public: Any, gross: Any, tax: Any, order: Any) -> None:
    """Clear `able` for public wages above the government's money in their turn, taxes included."""
    rows = zip(*(each[order].tolist() for each in (able, public, gross, tax)), strict=True)
    for at, (paid, by_government, wage, withheld) in zip(order.tolist(), rows, strict=True):
        if not by_government:
            cash += withheld if paid else 0
        elif wage <= cash:
            cash -= wage - withheld
        else:
            able[at] = False


def _sell_rows(books: Any, table: Any, entries: Any, ledger: Any, of: Any, here: Any) -> bool:
    """Sell; return False, without effect, if the numbers are too large for columns."""
    cents, sender = table.fields["cents"][entries], table.sender[entries]
    columns = ledger.arrays
    price, money = columns["price"][of], books.population.arrays["money"]
    if np.abs(cents, dtype=np.float64).sum() >= LARGE:
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
    np.add.at(books.balances.cents, ledger.purse[of], cost * done)
    table.done(entries, done, cost)
    return True
