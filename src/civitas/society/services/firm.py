"""Firms: they pay wages for work at their place, and sell what they have in stock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from civitas.errors import ConfigError
from civitas.society.arrays import numpy
from civitas.society.commit import Books, Service
from civitas.society.services.ledger import afforded, in_rows, int64s, small, sums
from civitas.society.wants import Answer, Buy, Want, Work

STAFF: Final = {"hospital": 500, "restaurant": 100, "school": 100, "shop": 100, "work": 1000}
"""The kinds of places that employ: how many of a thousand whom such a place holds work there."""


def wage_for(cents_an_hour: int, skill: int, seconds: int) -> int:
    """Return the gross wage in cents of so many seconds; a skill of 1000 is the common one."""
    return cents_an_hour * skill * seconds // 3_600_000


class Firm(Service):
    """An employer at a place; one that `sells` has a good, a price and a stock.

    Args:
        id: its id, such as `firm-3`
        place: where it is
        money: its cents at the start, which are also the buffer that it keeps
        wage: cents an hour at a skill of 1000
        price: cents a unit of what it sells
        stock: units at the start
        sells: whether it sells to citizens
        public: whether the government pays its wages
        output: units of the good that an hour of work makes, of all firms together

    Attributes:
        asked: units that were asked for today
        sold: units that were sold today
        paid: wages that it paid today, in cents
        worked: seconds worked here today
        month_asked: units that were asked for since wages and prices were adapted
        month_sold: units that were sold since
    """

    takes: ClassVar[tuple[type[Want], ...]] = (Work, Buy)
    _KEPT: ClassVar[tuple[str, ...]] = (
        "wage", "price", "stock", "asked", "sold", "paid", "worked", "month_asked", "month_sold",
    )  # fmt: skip

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
        for name, value, least in (
            ("wage", wage, 0),
            ("price", price, 1),
            ("stock", stock, 0),
            ("output", output, 0),
        ):
            if type(value) is not int or value < least:
                raise ConfigError(f"{id}: {name} must be {least} or more, got {value!r:.40}")
        self.wage, self.price, self.stock = wage, price, stock
        self.sells, self.public, self.output = sells, public, output
        self.asked = self.sold = self.paid = self.worked = 0
        self.month_asked = self.month_sold = 0

    def settle(self, books: Books, sender: str, want: Want) -> Answer:
        """Pay for work, or sell."""
        if type(want) is Work:
            return self._work(books, sender, want)
        if type(want) is Buy:
            return self._sell(books, sender, want)
        return Answer(want, False, f"{self.id} does not take {type(want).__name__}")

    def _work(self, books: Books, sender: str, want: Work) -> Answer:
        status = books.status_of(sender)
        seconds = want.seconds
        if status.get("work") != self.place:
            return Answer(want, False, f"{sender} is not employed at {self.place}")
        reason = self._away(books, sender) or self._closed(books)
        if reason:
            return Answer(want, False, reason)
        if type(seconds) is not int or not 1 <= seconds <= books.seconds:
            return Answer(
                want, False, f"seconds must be from 1 to {books.seconds}, got {seconds!r:.40}"
            )
        skill = (status.get("profile") or {}).get("skill", 1000)
        gross = wage_for(self.wage, skill if type(skill) is int and skill >= 0 else 1000, seconds)
        government: Any = books.services.get("government")
        payer = "government" if self.public and government is not None else self.id
        if books.balances[payer] < gross:
            return Answer(want, False, f"{payer} has {books.balances[payer]} cents, not {gross}")
        tax = government.due(sender, gross) if hasattr(government, "due") else 0
        if tax and payer != "government":
            books.pay(payer, "government", tax)
        if gross > tax:
            books.pay(payer, sender, gross - tax)
        if hasattr(government, "due"):
            government.collected(sender, gross, tax)
        self.worked += seconds
        self.paid += gross
        return Answer(want, True, value=gross - tax)

    def _sell(self, books: Books, sender: str, want: Buy) -> Answer:
        if not self.sells:
            return Answer(want, False, f"{self.id} sells nothing")
        reason = self._away(books, sender) or self._closed(books)
        if reason:
            return Answer(want, False, reason)
        if type(want.cents) is not int or want.cents < 1:
            return Answer(want, False, f"cents must be 1 or more, got {want.cents!r:.40}")
        wanted = want.cents // self.price
        self.asked += wanted
        units = min(wanted, self.stock)
        if not units:
            short = f"{self.id} has sold out" if wanted else f"a unit costs {self.price} cents"
            return Answer(want, False, short)
        cents = units * self.price
        reason = books.pay(sender, self.id, cents)
        if reason:
            return Answer(want, False, reason)
        self.stock -= units
        self.sold += units
        return Answer(want, True, value=cents)

    @classmethod
    def settle_together(
        cls, books: Any, table: Any, entries: Any, firms: Sequence[Firm], of: Any
    ) -> None:
        """`settle` for many, entry k with the firm `firms[of[k]]`, each citizen's once."""
        np = numpy()
        sender, place = table.sender[entries], table.fields["place"][entries]
        here = books.city is None or books.population.arrays["place"][sender] == place
        here = (
            np.broadcast_to(here, len(sender))
            & np.array([not firm._closed(books) for firm in firms])[of]
        )
        rule = _work_rows if table.kind is Work else _sell_rows
        again = bool((sender[1:] == sender[:-1]).any())
        if again or not rule(books, table, entries, firms, of, here):
            books.one_by_one([firms[number] for number in of.tolist()], table, entries)

    def _away(self, books: Books, sender: str) -> str:
        """Why a citizen cannot act here; empty if it is here, or there are no places."""
        if books.city is None or books.where.get(sender) == self.place:
            return ""
        return f"{sender} is not at {self.place}"

    def _closed(self, books: Books) -> str:
        if not hasattr(books.city, "is_open") or books.clock is None:
            return ""
        return "" if books.city.is_open(self.place, books.clock.time) else f"{self.place} is closed"

    def end_day(self) -> None:
        """Begin to count anew what a day brings."""
        self.month_asked += self.asked
        self.month_sold += self.sold
        self.asked = self.sold = self.paid = self.worked = 0

    def state_dict(self) -> dict[str, Any]:
        """Its price, wage and stock, and what the day has brought."""
        return {name: getattr(self, name) for name in self._KEPT}

    def load_state_dict(self, given: dict[str, Any]) -> None:
        """Go on where another was."""
        for name in self._KEPT:
            setattr(self, name, given[name])


def _work_rows(
    books: Any, table: Any, entries: Any, firms: Sequence[Firm], of: Any, here: Any
) -> bool:
    """Pay for work; False, and nothing is done, if the numbers are too large for columns."""
    np = numpy()
    sender, seconds = table.sender[entries], table.fields["seconds"][entries]
    government = books.services.get("government")
    taxes = hasattr(government, "due")
    known = (("due", "due_rows"), ("collected", "collected_rows"))
    if taxes and not all(in_rows(type(government), *each) for each in known):
        return False
    fine = here & (books.column("work", sender, -1) == table.fields["place"][entries])
    fine &= (seconds >= 1) & (seconds <= books.seconds)
    at = np.flatnonzero(fine)
    sender, seconds, firm = sender[at], seconds[at], of[at]
    skill = books.column("skill", sender, 1000)
    skill = np.where(skill < 0, 1000, skill)
    wage, has = int64s([f.wage for f in firms]), int64s([books.balances[f.id] for f in firms])
    if wage is None or has is None:
        return False
    large = wage.astype(float).max() * skill.max(initial=0) * seconds.max(initial=0)
    if large * (len(at) + 1) >= 2.0**62:
        return False
    gross = wage_for(wage[firm], skill, seconds)
    tax = government.due_rows(sender, gross) if taxes else np.zeros(len(at), np.int64)
    public = np.array([each.public and government is not None for each in firms])[firm]
    able = public | afforded(np.where(public, 0, gross), firm, has)
    if public.any():
        left = books.balances["government"]
        if gross[public].sum() > left:
            _pay_in_turn(able, left, public, gross, tax)
    at, sender, firm, gross, tax = at[able], sender[able], firm[able], gross[able], tax[able]
    public = public[able]
    books.population.arrays["money"][sender] += gross - tax
    seconds = sums(firm, seconds[able], len(firms))
    cost, wages = sums(firm, np.where(public, 0, gross), len(firms)), sums(firm, gross, len(firms))
    for number in np.unique(firm).tolist():
        one = firms[number]
        books.balances[one.id] -= int(cost[number])
        one.worked += int(seconds[number])
        one.paid += int(wages[number])
    if government is not None:
        books.balances["government"] += int(tax.sum() - gross[public].sum())
    if taxes:
        government.collected_rows(sender, gross, tax)
    done, net = np.zeros(len(entries), bool), np.zeros(len(entries), np.int64)
    done[at], net[at] = True, gross - tax
    table.done(entries, done, net)
    return True


def _pay_in_turn(able: Any, left: int, public: Any, gross: Any, tax: Any) -> None:
    """Find which public wages the government can pay, with the taxes that come in before each."""
    rows = zip(able.tolist(), public.tolist(), gross.tolist(), tax.tolist(), strict=True)
    for at, (paid, by_government, wage, withheld) in enumerate(rows):
        if not by_government:
            left += withheld if paid else 0
        elif wage <= left:
            left -= wage - withheld
        else:
            able[at] = False


def _sell_rows(
    books: Any, table: Any, entries: Any, firms: Sequence[Firm], of: Any, here: Any
) -> bool:
    """Sell; False, and nothing is done, if the numbers are too large for columns."""
    np = numpy()
    cents, sender = table.fields["cents"][entries], table.sender[entries]
    price, stock = int64s([f.price for f in firms]), int64s([f.stock for f in firms])
    fine = here & (cents >= 1) & np.array([firm.sells for firm in firms])[of]
    if price is None or stock is None or not small(cents):
        return False
    money = books.population.arrays["money"]
    wanted = np.where(fine, cents // price[of], 0)
    asked = sums(of, wanted, len(firms))
    units = wanted.copy()
    at = np.flatnonzero((asked > stock)[of])
    if len(at):
        left = stock.tolist()
        has, cost = money[sender[at]].tolist(), price[of[at]].tolist()
        given = []
        for firm, most, cash, each in zip(
            of[at].tolist(), wanted[at].tolist(), has, cost, strict=True
        ):
            given.append(min(most, left[firm]))
            if given[-1] * each <= cash:
                left[firm] -= given[-1]
        units[at] = given
    cost = units * price[of]
    done = (units > 0) & (cost <= money[sender])
    money[sender] -= cost * done
    sold = sums(of, units * done, len(firms))
    income = sums(of, cost * done, len(firms))
    for number, firm in enumerate(firms):
        firm.asked += int(asked[number])
        firm.sold += int(sold[number])
        firm.stock -= int(sold[number])
        books.balances[firm.id] += int(income[number])
    table.done(entries, done, cost)
    return True
