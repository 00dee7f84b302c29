"""What services settle of the wants of a population: many at a time, or one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from moothall.society.arrays import Array, np
from moothall.society.columns import want_table as wants
from moothall.society.columns.ledger import ServiceLedger, in_rows
from moothall.society.columns.want_table import Table, encode_want
from moothall.society.kernel.commit import Service, ask_service
from moothall.society.kernel.wants import Answer, Want, Work, field_kinds, id_order
from moothall.society.population.agent_books import AgentBooks, rows_renumbered
from moothall.society.services.feed import Feed
from moothall.society.services.firm import Firm


class Settlers:
    """The services that settle a kind of want: together, by `settle_rows`, or one by one."""

    def __init__(self, books: AgentBooks, kind: type[Want]) -> None:
        population = books.population
        self.services: list[Service] = []
        self.of_place: Array | None = None
        if any(each.name == "place" for each in fields(kind)):
            self.of_place = np.full(len(population.places) + 1, -1, np.int32)
            for place, service in books.by_place[kind].items():
                number = population.place_numbers.get(place)
                if number is not None:
                    self.of_place[number] = len(self.services)
                    self.services.append(service)
        elif kind in books.by_kind:
            self.services.append(books.by_kind[kind])
        kinds = {type(each) for each in self.services}
        self._takes_rows = {each: in_rows(each, "settle", "settle_rows") for each in kinds}
        # They neither read nor change what others do, and may settle beside them.
        self.apart: bool = kinds == {Feed}
        # Where all are agents too; but the texts of their posts would stay for ever.
        self.in_tables: bool = bool(self.services) and not self.apart
        self.in_tables &= all(self._takes_rows.values())
        groups: dict[object, int] = {}
        self.group: Array = np.array(
            [
                groups.setdefault(self._ledger_of(each) or each, len(groups))
                for each in self.services
            ],
            np.int32,
        )
        self.at: Array = np.array([getattr(each, "at", 0) for each in self.services], np.int32)

    def _ledger_of(self, service: Any) -> ServiceLedger | None:
        is_firm = isinstance(service, Firm) and self._takes_rows[type(service)]
        return service.ledger if is_firm else None

    def settle(self, books: AgentBooks, table: Table) -> None:
        """Have each service settle the wants addressed to it."""
        table.set_outcomes(wants.NO_SERVICE)
        if not self.services:
            return
        if self.of_place is None:
            of = np.zeros(len(table), np.int32)
        else:
            place = table.fields["place"]
            is_place = (place >= 0) & (place < len(self.of_place))
            of = self.of_place[np.where(is_place, place, -1)]
        at = np.flatnonzero(of >= 0)
        of = of[at]
        group_of = self.group[of]
        groups = np.flatnonzero(np.bincount(group_of))
        if len(groups) > 1 and (
            table.kind is Work or ((senders := table.sender[at])[1:] == senders[:-1]).any()
        ):
            # A citizen that wants something of several, or the government that pays for several,
            # may have too little for all: then the order decides.
            one_by_one(books, [self.services[number] for number in of.tolist()], table, at)
            return
        for group in groups.tolist():
            mine = slice(None) if len(groups) == 1 else np.flatnonzero(group_of == group)
            first: Any = self.services[int(of[mine][0])]
            if (ledger := self._ledger_of(first)) is not None:
                Firm.settle_together(books, table, at[mine], ledger, self.at[of[mine]])
            elif self._takes_rows[type(first)]:
                some = at[mine]
                first.settle_rows(books, table, some[books.hearing_order(table.sender[some])])
            else:
                one_by_one(books, first, table, at[mine])


def keep_rows(books: AgentBooks) -> None:
    """Have the services keep rows of these books' population, and no more those of others."""
    with rows_renumbered(books.row_services, books.population):
        pass  # of services that have something already
    services = sorted(books.services.values(), key=lambda each: id_order(each.id))
    Firm.keep_together(services, books)
    books.settlers.clear()
    for service in services:
        vars(service)["_rows_of"] = id(books.population)


def settle_alone(books: Any, service: Any, sender: str, want: Want) -> Answer:
    """Settle one want by a service's rule for the wants of many."""
    population, row = books.population, books.population.find_row(sender)
    numbers = encode_want(want, population, texts=False)
    if row is not None and numbers is not None:
        values = np.array([numbers], np.int64).T
        table = Table(
            type(want), np.array([row]), dict(zip(field_kinds(type(want)), values, strict=True))
        )
        table.set_outcomes(wants.BY_SERVICE)
        service.settle_rows(books, table, np.array([0]))
        if not table.reason[0]:
            return Answer(want, True, value=table.value.item(0) if table.has_value else None)
    reason = service.refusal(books, sender, want) or wants.REFUSAL_REASONS[wants.BY_SERVICE]
    return Answer(want, False, reason)


def one_by_one(
    books: AgentBooks, services: Service | Sequence[Service], table: Table, entries: Array
) -> None:
    """Have a service, or one per entry, settle wants one by one with `settle`, as heard."""
    population = books.population
    for number in books.hearing_order(table.sender[entries]).tolist():
        at = entries[number]
        service = services if isinstance(services, Service) else services[number]
        sender = population.id_of(int(table.sender[at]))
        answer = ask_service(service, books, sender, table.want(at, population))
        table.reason[at] = 0 if answer.done else wants.BY_SERVICE
        books.refusals[int(at)] = answer.reason
        if answer.done and type(answer.value) is int:
            table.value[at], table.has_value = answer.value, True
