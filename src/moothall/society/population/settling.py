"""What services settle of the wants of a population: many at a time, or one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from moothall.society.arrays import Array, np
from moothall.society.columns import want_table as wants
from moothall.society.columns.ledger import ServiceLedger, has_rows_rule
from moothall.society.columns.want_table import Table, encode_want
from moothall.society.kernel.commit import Service, ask_service
from moothall.society.kernel.wants import Answer, Want, Work, field_kinds, id_order
from moothall.society.population.agent_books import AgentBooks
from moothall.society.population.changing import rows_renumbered
from moothall.society.services.feed import Feed
from moothall.society.services.firm import Firm


class Settlers:
    """The services that settle a kind of want: together, by `settle_rows`, or one by one."""

    def __init__(self, books: AgentBooks, kind: type[Want]) -> None:
        population = books.population
        self.services: list[Service] = []
        self.service_by_place: Array | None = None
        if any(each.name == "place" for each in fields(kind)):
            self.service_by_place = np.full(len(population.places) + 1, -1, np.int32)
            for place, service in books.by_place[kind].items():
                number = population.place_numbers.get(place)
                if number is not None:
                    self.service_by_place[number] = len(self.services)
                    self.services.append(service)
        elif kind in books.by_kind:
            self.services.append(books.by_kind[kind])
        kinds = {type(each) for each in self.services}
        self._takes_rows = {each: has_rows_rule(each, "settle", "settle_rows") for each in kinds}
        # They neither read nor change what others do, and may settle beside them.
        self.alone: bool = kinds == {Feed}
        # Where all are agents too; but the texts of their posts would stay for ever.
        self.in_tables: bool = bool(self.services) and not self.alone
        self.in_tables &= all(self._takes_rows.values())
        groups: dict[object, int] = {}
        self.groups: Array = np.array(
            [
                groups.setdefault(self._ledger_of(each) or each, len(groups))
                for each in self.services
            ],
            np.int32,
        )
        self.indices: Array = np.array(
            [getattr(each, "index", 0) for each in self.services], np.int32
        )

    def _ledger_of(self, service: Any) -> ServiceLedger | None:
        is_firm = isinstance(service, Firm) and self._takes_rows[type(service)]
        return service.ledger if is_firm else None

    def settle(self, books: AgentBooks, table: Table) -> None:
        """Have each service settle the wants addressed to it."""
        table.set_outcomes(wants.NO_SERVICE)
        if not self.services:
            return
        if self.service_by_place is None:
            owner = np.zeros(len(table), np.int32)
        else:
            place = table.fields["place"]
            is_place = (place >= 0) & (place < len(self.service_by_place))
            owner = self.service_by_place[np.where(is_place, place, -1)]
        entries = (owner >= 0).nonzero()[0]
        owner = owner[entries]
        entry_groups = self.groups[owner]
        groups = np.bincount(entry_groups).nonzero()[0]
        if len(groups) > 1 and (
            table.kind is Work or ((senders := table.sender[entries])[1:] == senders[:-1]).any()
        ):
            # A citizen that wants something of several, or the government that pays for several,
            # may have too little for all: then the order decides.
            settle_each(books, [self.services[n] for n in owner.tolist()], table, entries)
            return
        for group in groups.tolist():
            hit = slice(None) if len(groups) == 1 else (entry_groups == group).nonzero()[0]
            first: Any = self.services[int(owner[hit][0])]
            if (ledger := self._ledger_of(first)) is not None:
                Firm.settle_together(books, table, entries[hit], ledger, self.indices[owner[hit]])
            elif self._takes_rows[type(first)]:
                chosen = entries[hit]
                first.settle_rows(books, table, chosen[books.hearing_order(table.sender[chosen])])
            else:
                settle_each(books, first, table, entries[hit])


def keep_rows(books: AgentBooks) -> None:
    """Have the services keep rows of these books' population, and no more those of others."""
    with rows_renumbered(books.row_services, books.population):
        pass  # of services that have something already
    services = sorted(books.services.values(), key=lambda each: id_order(each.id))
    Firm.keep_together(services, books)
    books.settlers.clear()
    for service in services:
        vars(service)["_register_id"] = id(books.population)


def settle_alone(books: Any, service: Any, sender: str, want: Want) -> Answer:
    """Settle one want by a service's rule for the wants of many."""
    population, row = books.population, books.population.find_row(sender)
    numbers = encode_want(want, population, texts=False)
    if row is not None and numbers is not None:
        values = np.array([numbers], np.int64).T
        table = Table(
            type(want), np.array([row]), dict(zip(field_kinds(type(want)), values, strict=True))
        )
        table.set_outcomes(wants.SERVICE_REFUSED)
        service.settle_rows(books, table, np.array([0]))
        if not table.reason[0]:
            return Answer(want, True, value=table.value.item(0) if table.has_value else None)
    reason = service.refusal(books, sender, want) or wants.REFUSAL_REASONS[wants.SERVICE_REFUSED]
    return Answer(want, False, reason)


def settle_each(
    books: AgentBooks, services: Service | Sequence[Service], table: Table, entries: Array
) -> None:
    """Have a service, or one per entry, settle wants one by one with `settle`, as heard."""
    population = books.population
    for index in books.hearing_order(table.sender[entries]).tolist():
        entry = entries[index]
        service = services if isinstance(services, Service) else services[index]
        sender = population.id_of(int(table.sender[entry]))
        answer = ask_service(service, books, sender, table.want(entry, population))
        table.reason[entry] = 0 if answer.done else wants.SERVICE_REFUSED
        books.refusals[int(entry)] = answer.reason
        if answer.done and type(answer.value) is int:
            table.value[entry], table.has_value = answer.value, True
