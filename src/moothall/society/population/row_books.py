"""The commit stage of a population: the rules of `society/kernel/commit.py`, for columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from moothall import ConfigError, StateError
from moothall.society.arrays import Array, np
from moothall.society.columns import city_queries
from moothall.society.columns import want_table as wants
from moothall.society.columns.register import FIRST_STRANGER
from moothall.society.columns.views import Balances, RowsHere, Where
from moothall.society.columns.want_table import Table, encode_want, join_wants
from moothall.society.kernel.commit import Service, Submission, call_after_step
from moothall.society.kernel.intervention import has_values, nobody_has, say_unknown, set_values
from moothall.society.kernel.wants import (
    Answer,
    Move,
    Pay,
    Want,
    field_kinds,
    id_order,
    sort_by_turn,
    wants_by_kind,
)
from moothall.society.population import moves
from moothall.society.population.agent_books import AgentBooks, answers_of_agents
from moothall.society.population.row_messages import Messages
from moothall.society.population.settling import Settlers, keep_rows, settle_alone, settle_each


class RowBooks(AgentBooks):
    """The money and places of a population, and `Books`' commit stage for the wants of its rows."""

    def __init__(
        self, city: object, services: dict[str, Service], population: Any = None, seed: int = 0
    ) -> None:
        super().__init__(city, services, population, seed)
        population = self.register
        self.balances: Balances = Balances(self, {id: each.money for id, each in services.items()})
        self.where: Mapping[str, str | None] = Where(self)
        self.answers: dict[type[Want], Table] = {}
        self.settlers: dict[type[Want], Settlers] = {}
        ordered = sorted(services.values(), key=lambda each: id_order(each.id))
        self._after_step_services = [
            s for s in ordered if type(s).after_step is not Service.after_step
        ]
        self.row_services: list[Any] = [each for each in ordered if hasattr(each, "of_population")]
        self.keep_rows()
        self.messages: Messages | None = None
        arrays, count = population.arrays, len(population.places)
        self.at_place: Array = np.zeros(count, np.int64)
        self.coming_to: Array = np.zeros(count, np.int64)
        if count:
            capacity: Array = city_queries.capacities_of(population, slice(None), 2**62)
            self.capacity: Array | None = capacity if capacity.min() < 2**62 else None
            home, place = arrays["home"], arrays["place"]
            nowhere = (place < 0) & (arrays["moving_to"] < 0)
            place[nowhere] = home[nowhere]
            self.count_places()
            present = self.at_place + self.coming_to
            overfull = (present > capacity).nonzero()[0]
            if len(overfull):
                raise ConfigError(
                    f"{present[overfull[0]]} citizens start at {population.places[overfull[0]]!r}, "
                    f"which holds {capacity[overfull[0]]}: give them other places or homes"
                )

    def count_places(self) -> None:
        """Count the citizens at each place and on the way to it."""
        arrays, count = self.population.arrays, len(self.population.places)
        place, to = arrays["place"], arrays["moving_to"]
        self.at_place = np.bincount(place[place >= 0], minlength=count)
        self.coming_to = np.bincount(to[to >= 0], minlength=count)

    # -- who is there ------------------------------------------------------------------------------

    def status_of(self, id: str) -> dict[str, Any]:
        """Return a citizen's status, read-only; {} for others."""
        row = self.population.find_row(id)
        return {} if row is None else self.population.status_of(row)

    @property
    def at(self) -> Mapping[str, Any]:
        """The citizens at each place, as they are when it is asked first."""
        return RowsHere(self.population)

    @property
    def total(self) -> int:
        """All money, in cents."""
        service_cents = int(self.balances.cents.sum()) if self.services else 0
        return int(self.population.arrays["money"].sum()) + service_cents

    # -- wants -------------------------------------------------------------------------------------

    def settle(
        self,
        submitted: Iterable[Submission],
        tables: Mapping[type[Want], Table] = MappingProxyType({}),
    ) -> list[tuple[Any, Answer]]:
        """Settle wants of full agents and messages, and `tables` of rows; answer the former."""
        by_kind = wants_by_kind(submitted, self.seed, self.step)
        self.answers, outcomes = {}, list[tuple[Any, Answer]]()
        self.worked: Array = np.zeros(len(self.population), np.int64)  # seconds in this step
        views, find_row = self.population.views, self.population.find_row
        pool, pooled, set_out = self.population.pool, [], None
        if pool is not None:
            # What full agents want of the same service is settled here, in its place among these.
            if Move in tables and Move not in by_kind and hasattr(self.city, "ways_rows"):
                set_out = pool.submit(moves.plan_departures, self, tables[Move])
            pooled = [k for k in sort_by_turn({**tables, **by_kind}) if self._settlers_of(k).alone]
            pooled = [] if any(map(by_kind.get, pooled)) else pooled
            future = pool.submit(list, map(self.settle_table, [tables[kind] for kind in pooled]))
        for kind in sort_by_turn({**tables, **by_kind}):
            if kind in pooled:
                self.answers[kind] = tables[kind]
                continue
            from_agents, alone = list[tuple[int, Submission]](), []
            in_table = bool(self.population.blocks) or (
                self._has_ways if kind is Move else self._settlers_of(kind).in_tables
            )
            self.refusals: dict[int, str] = {}  # of entries of the table, in words
            numbers: list[list[int]] = []
            for each in by_kind[kind]:
                view = views.get(each.sender)
                row = find_row(each.sender) if view is None else view.row
                encoding = None
                if row is not None and each.service is None and in_table:
                    encoding = encode_want(each.want, self.population)
                if row is None or encoding is None:
                    alone.append(each)
                    continue
                from_agents.append((row, each))
                numbers.append(encoding)
            combined = tables.get(kind)
            if from_agents:
                parts = [] if combined is None else [(combined.sender, combined.fields)]
                fields = zip(field_kinds(kind), np.array(numbers, np.int64).T, strict=True)
                parts.append((np.array([row for row, _ in from_agents]), dict(fields)))
                combined = join_wants(kind, parts)
            if combined is not None:
                if kind is Move and set_out is not None:
                    set_out.result()()
                else:
                    self.settle_table(combined)
                self.answers[kind] = combined
                outcomes += answers_of_agents(self, combined, from_agents)
            for each in alone:  # nobody of the population: they come last
                outcomes.append((each.token, self.settle_one(each)))
        if pool is not None:
            future.result()
        return outcomes

    @property
    def _has_ways(self) -> bool:
        return hasattr(self.city, "seconds") or hasattr(self.city, "ways_rows")

    def settle_one(self, submitted: Submission) -> Answer:
        """Settle a want that stands for itself, and not in a table."""
        if isinstance(want := submitted.want, Move):
            return Answer(want, False, self._why_unmoved(submitted.sender, want))
        return super().settle_one(submitted)

    def _why_unmoved(self, sender: str, want: Move) -> str:
        """Return why a citizen cannot go where no number stands for the place."""
        if self.city is None:
            return "there is no city"
        if sender not in self.where:
            return f"{sender} is not a citizen"
        if not self._has_ways:
            return f"{type(self.city).__name__} has no travel times: no `seconds`"
        if moving := self.population.settled_status(self.population.row_of(sender))["moving"]:
            return f"on the way to {moving['to']}"
        return f"there is no place {want.to!r:.80}"

    def settle_table(self, table: Table) -> None:
        """Settle wants of one kind; where their order decides, it is that of `turn_key`."""
        if table.kind is Pay:
            try:
                self._pay_all(table)
            except IndexError:
                high, low, to = len(self.population), -len(self.balances.cents), table.fields["to"]
                entry = ((to < low) | (to >= high)).argmax()
                citizen = self.population.id_of(int(table.sender[entry]))
                raise ConfigError(
                    f"step {self.step}: citizen {citizen} wants Pay to={to[entry]}, which is no "
                    "row and no service"
                ) from None
        elif table.kind is Move:
            moves.settle(self, table)
        else:
            self._settlers_of(table.kind).settle(self, table)

    def _settlers_of(self, kind: type[Want]) -> Settlers:
        if kind not in self.settlers:
            self.settlers[kind] = Settlers(self, kind)
        return self.settlers[kind]

    def _pay_all(self, table: Table) -> None:
        """Settle payments in order; one that the sender cannot afford in its turn is refused."""
        sender, to, cents = table.sender, table.fields["to"], table.fields["cents"]
        reason = np.zeros(len(table), np.int8)
        reason[to <= FIRST_STRANGER] = wants.NO_AGENT
        reason[cents < 1] = wants.NO_CENTS
        money = self.population.arrays["money"]
        is_valid, total = reason == 0, cents
        if (sender[1:] == sender[:-1]).any():
            total = np.bincount(sender, np.where(is_valid, cents, 0), len(money))[sender]
        if ((money[sender] < total) & is_valid).any():
            self._pay_in_turn(table, reason)
        else:
            self._move_money(sender[is_valid], to[is_valid], cents[is_valid])
        table.set_outcomes(reason)

    def _pay_in_turn(self, table: Table, reason: Array) -> None:
        """Settle payments one by one, because some senders may have too little."""
        money = self.population.arrays["money"]
        services = self.balances.cents
        to, cents = table.fields["to"], table.fields["cents"]
        order = self.hearing_order(table.sender)
        entries = zip(*(each[order].tolist() for each in (table.sender, to, cents)), strict=True)
        for entry, (payer, other, amount) in zip(order.tolist(), entries, strict=True):
            if reason[entry] == 0 and money[payer] < amount:
                reason[entry] = wants.TOO_POOR
            if reason[entry] == 0:
                money[payer] -= amount
                receiving, index = (money, other) if other >= 0 else (services, -1 - other)
                receiving[index] += amount

    def _move_money(self, sender: Array, to: Array, cents: Array) -> None:
        money = self.population.arrays["money"]
        np.subtract.at(money, sender, cents)
        is_row = to >= 0
        if is_row.all():
            np.add.at(money, to, cents)
            return
        np.add.at(money, to[is_row], cents[is_row])
        np.add.at(self.balances.cents, -1 - to[~is_row], cents[~is_row])

    def stranded_count(self) -> int:
        """Return how many citizens cannot get home."""
        return moves.stranded_count(self)

    keep_rows = keep_rows
    one_by_one = settle_each
    settle_alone = settle_alone

    def column(self, name: str, rows: Array, default: int) -> Array:
        """Return a column of some citizens as it is now; `default` if there is no such column."""
        population = self.population
        if name not in population.declared:
            return np.full(len(rows), default)
        values: Array = population.pull_column(name)[rows].astype(np.int64)
        return values

    def end_step(self) -> None:
        """Run the services' end of step, and let citizens arrive who are due by the next step."""
        call_after_step(self._after_step_services, self)
        if self.population.places:
            moves.arrive(self)

    def set_status(self, values: Mapping[str, Any], citizens: Any) -> list[str]:
        """Set values in the status of citizens for an intervention; return what failed."""
        population, all_fit, failed = self.population, True, list[str]()
        if isinstance(citizens, list):
            rows_by_id = {id: population.find_row(id) for id in citizens}
            failed = [
                f"status: there is no citizen {id!r}" for id in rows_by_id if rows_by_id[id] is None
            ]
            rows: Any = [row for row in rows_by_id.values() if row is not None]
        else:
            try:
                rows = self.rows_with(citizens or {})
            except ConfigError as error:
                return [f"citizens: {error}"]
            if citizens and not len(rows):
                has_rows = len(population.agents) < len(population)
                statuses = population.views.values()
                return [nobody_has(citizens)] if has_rows else say_unknown(citizens, statuses)
        population.note_change()
        other_paths: list[tuple[str, ...]] = []
        plain_rows = [int(each) for each in rows if not population.full[each]]
        for path, value in nested_values(values) if plain_rows else ():
            if not (name := self.column_at(path)):
                other_paths.append(path)
                continue
            try:
                population.set_value(name, plain_rows, self.number(name, value))
            except ConfigError as error:
                failed.append(f"status: {error}")
                all_fit = False
        if all_fit:
            failed += [
                f"status: {why}" for why in self._set_by_blocks(values, plain_rows, other_paths)
            ]
        for row in set(rows) & {*population.agents} if all_fit else ():
            failed += set_values(population.agents[row].memory.status, values)
        return failed

    def _set_by_blocks(
        self, values: Mapping[str, Any], rows: Any, paths: list[tuple[str, ...]]
    ) -> list[str]:
        """Set what blocks write into columns of their own, such as opinions; return what failed."""
        population, handled, blocks = self.population, set[tuple[str, ...]](), []
        for block in population.blocks if rows else ():
            if hasattr(block, "to_status"):
                sample: dict[str, Any] = {}
                block.to_status(population, rows[0], sample)
                if sample_paths := {path for path in paths if path[0] in sample}:
                    handled |= sample_paths
                    blocks.append(block)
        for row in rows if blocks else ():
            status = population.status_of(row)
            set_values(status, values)
            try:
                for block in blocks:
                    block.from_status(population, row, status)
            except ConfigError as error:
                return [str(error)]
        missing = (".".join(path) for path in paths if rows and path not in handled)
        return [f"the population has no column for {each}" for each in missing]

    def rows_with(self, values: Mapping[str, object]) -> Array:
        """Return the rows whose status has these values. ConfigError: no status can."""
        population = self.population
        fits = ~population.full
        for path, value in nested_values(values) if fits.any() else ():
            if not (name := self.column_at(path)):
                raise ConfigError(f"the population has no column for {'.'.join(path)}")
            column, number = population.pull_column(name), self.number(name, value)
            is_same_shape = np.shape(number) == column.shape[1:]
            fits &= is_same_shape and (column == number).reshape(len(column), -1).all(axis=1)
        for row, agent in population.agents.items():
            fits[row] = has_values(agent.memory.status, values)
        return np.flatnonzero(fits)

    def column_at(self, path: tuple[str, ...]) -> str:
        """Return the name of the column that has a value of a status; it may be empty."""
        columns = ((name, each) for name, each in self.population.declared.items() if not each.own)
        return next((name for name, each in columns if (each.key or (name,)) == path), "")

    def number(self, name: str, value: object) -> Any:
        """Return what stands for a value in a column. Raises ConfigError if nothing does."""
        population = self.population
        return population.declared[name].number_of(name, value, population.place_number)

    # -- what is checked, and kept -----------------------------------------------------------------

    def check(self, total: int) -> None:
        """Raise StateError unless money is conserved and places hold who is there."""
        if self.total != total:
            raise StateError(
                f"step {self.step}: there were {total} cents and now there are {self.total}: a "
                "service must move money by books.pay alone"
            )
        citizens, balances = self.population, self.balances
        for id_of, cents in (
            ([*balances.index].__getitem__, balances.cents),
            (citizens.id_of, citizens.arrays["money"]),
        ):
            if len(cents) and cents.min() < 0:
                index = int(cents.argmin())
                raise StateError(f"step {self.step}: {id_of(index)} has {cents[index]} cents")
        if self.capacity is not None:
            for index in np.flatnonzero(self.at_place > self.capacity)[:1]:
                raise StateError(
                    f"step {self.step}: {self.at_place[index]} are at "
                    f"{self.population.places[index]}, which holds {self.capacity[index]}"
                )

    def load_state_dict(self, state: object) -> None:
        """Restore the services, and count the places again."""
        super().load_state_dict(state)
        if self.population.places:
            self.count_places()


def nested_values(
    values: Mapping[str, object], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the values within nested dicts, each with its path."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from nested_values(value, (*path, name))
        else:
            yield (*path, name), value
