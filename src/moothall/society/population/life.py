"""How a population lives in its society: what it perceives, its step, its metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

from moothall import ConfigError
from moothall.society.arrays import np
from moothall.society.blocks.row_block import missing_method
from moothall.society.city.network import Network
from moothall.society.columns.column import COMMIT_COLUMNS
from moothall.society.columns.row_part import Moment
from moothall.society.columns.rows import Rows
from moothall.society.columns.want_table import Say, Table
from moothall.society.kernel.perception import View
from moothall.society.kernel.wants import Answer, Want
from moothall.society.population.engine import Engine
from moothall.society.population.population import Population
from moothall.society.population.row_books import RowBooks
from moothall.society.population.row_messages import (
    deliver_to_rows,
    messages_heard,
    messages_of,
    sent_message,
)
from moothall.society.population.step import Wants, call_rule, merge_wants


class PopulationView:
    """A full agent's view of a population: columns as they were before the step."""

    def __init__(self, population: Population, moment: Moment) -> None:
        self._population = population
        self._moment = moment
        self._columns: Mapping[str, Any] = moment.visible
        self.network: Network | None = population.network

    def __len__(self) -> int:
        return len(self._population)

    def id_of(self, row: int) -> str:
        """Return the id of a row."""
        return self._population.id_of(row)

    def neighbours(self, id: str) -> Iterable[str]:
        """Return the ids of a citizen's neighbours in the network."""
        network = self._population.network
        if network is None:
            raise ConfigError("there is no network: Population(…, network=…)")
        starts, ends = network.links
        row = self._population.row_of(id)
        return [self.id_of(int(each)) for each in ends[starts[row] : starts[row + 1]]]

    def column(self, name: str, id: str | None) -> Any:
        """Return a citizen's value of a column, or all of the column."""
        values = self._columns.get(name)
        if values is None:
            raise ConfigError(f"declare the column {name!r} with seen=True, so that others see it")
        return values if id is None else values[self._population.row_of(id)].item()

    def by_rows(self, block: Any, hook: str, agent: Any) -> Any:
        """Run a rule for rows for one full agent; return what it returns."""
        population, row = self._population, agent.memory.status.row
        messages = messages_heard(population, row, agent.perceived.messages)
        wants: Wants = {}
        rows = Rows(population, replace(self._moment, messages=messages), row, row + 1, wants)
        death_count = len(population.changes.deaths)
        result = call_rule(rows, block, hook)
        if len(population.changes.deaths) > death_count:
            del population.changes.deaths[death_count:]
            raise ConfigError(f"citizen {agent.id} is a full agent, and cannot leave: demote it")
        for kind, table in merge_wants([wants]).items():
            for entry in range(len(table)):
                if kind is Say:
                    envelope = sent_message(population, table, entry).envelope
                    agent.send(
                        {
                            "to": envelope.to,
                            "action": {"name": envelope.name, "args": envelope.args},
                        }
                    )
                else:
                    block.want(table.want(entry, population))
        return result


def begin_life(society: Any, population: Population) -> None:
    """Place a population in a society. ConfigError: a block cannot run as rows."""
    for block in population.blocks:
        missing = missing_method(block)
        if missing:
            raise ConfigError(
                f"block {block.name!r} has no `{missing}` of its own, and cannot run as rows: give "
                "it to agents, Society([…]), or to full agents, promote(id, blocks=[…])"
            )
    for id in society.services:
        if population.find_row(id) is not None:
            raise ConfigError(f"{id!r} is the id of a service: give the citizen another")
    population.enter(society, society.services)
    for row, agent in population.agents.items() if population.is_given else ():
        society.add_row_agent(agent, row)


async def run_population(
    population: Population, view: View, books: RowBooks, engine: Engine
) -> dict[type[Want], Table]:
    """Run the rows of a population for a step; return their wants."""
    columns = {
        name: population.pull_column(name).copy()
        for name, column in population.declared.items()
        if column.seen
    } | {
        name: population.arrays[name].view() for name in COMMIT_COLUMNS if name in population.arrays
    }
    for each in columns.values():
        each.flags.writeable = False
    moment = Moment(
        view,
        visible=columns,
        answers=books.answers,
        messages=books.messages,
        feed=books.services.get("feed"),
    )
    view.others = PopulationView(population, moment)
    if len(population.agents) == len(population):
        return {}
    return merge_wants(await engine.run_rows(population, moment))


def answers_of(books: RowBooks, row: int) -> list[Answer]:
    """Return the answers to a citizen's wants, by kind in the order of settling."""
    return [
        answer
        for table in books.answers.values()
        for answer in table.answers(row, books.population)
    ]


def population_measures(population: Population) -> tuple[int, int, dict[str, Any]]:
    """Return how many rows are at home and at work, and the own metrics."""
    columns = population.columns
    home = work = 0
    if population.places:
        place = population.pull_column("place")
        is_there = place >= 0
        at_home = is_there & (place == population.pull_column("home"))
        home = int(np.count_nonzero(at_home))
        if "work" in columns:
            work = int(
                np.count_nonzero(is_there & (place == population.pull_column("work")) & ~at_home)
            )
    own_metrics = {}
    for name, function in population.metrics.items():
        try:
            value: Any = function(columns)
        except Exception as error:
            error.add_note(f"in metric {name!r} of the population")
            raise
        value = value.item() if getattr(value, "ndim", None) == 0 else value
        own_metrics[name] = int(value) if type(value) is bool else value  # tables have numbers
        if not isinstance(own_metrics[name], Real):
            raise ConfigError(f"metric {name!r} must be a number, got {value!r:.80}")
    return home, work, own_metrics


def set_step_length(society: Any, new_length: int) -> None:
    """Let steps be `new_length` seconds from now on; who is on the way arrives when it was to."""
    old_length, step_now = society.clock.step_s, society.number
    if old_length == new_length:
        return
    society.clock = society.clock.with_step(new_length)

    def rescaled(step: object) -> Any:
        return step_now - (step_now - step) * old_length // new_length

    population = society.population
    if population.places:
        on_way = population.arrays["moving_to"] >= 0
        for column in (population.arrays["arrives"], population.arrays["left"]):
            column[on_way] = rescaled(column[on_way].astype("int64"))


def take_mailbox(society: Any, agent: Any, row: int) -> None:
    """Give a promoted citizen the answers and messages of its row."""
    agent.space_mailbox.answers = answers_of(society.books, row)
    agent.space_mailbox.mail = messages_of(society, row)
    if agent.space_mailbox.mail:
        messages = society.books.messages
        society.books.messages = messages.select(messages.receiver != row)


def leave_mailbox(society: Any, agent: Any, row: int) -> Any:
    """Give a demoted agent's messages to its row; return the agent's mailbox."""
    society.population.full[row] = False
    deliver_to_rows(society, list(agent.space_mailbox.mail), True)
    return agent.space_mailbox
