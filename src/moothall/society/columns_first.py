"""Drawn citizens by rules live in columns, also those that somebody takes, `agents[n]`.

The agent is a handle on the row: its status is a view of it. Who does or hears what rows cannot
lives among the rows as a population's full agents do, within a step too, once these have had their
turn.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from moothall import BROADCAST, Agent, ConfigError
from moothall.build import is_ours
from moothall.society import arguments
from moothall.society.arrays import np
from moothall.society.city.city import City
from moothall.society.column_state import status_of_row
from moothall.society.columns import city_queries
from moothall.society.kernel.citizen import CitizenAgent, CitizenAgentParams, CitizenMemory
from moothall.society.kernel.commit import Service
from moothall.society.kernel.draw import Draws
from moothall.society.kernel.intervention import Intervention
from moothall.society.kernel.router import SocietyMailbox
from moothall.society.people import generator
from moothall.society.people.params import PeopleParams
from moothall.society.population.population import TOWN_COLUMNS, Population
from moothall.society.population.row_books import nested_values
from moothall.society.population.row_messages import is_heard_in_full
from moothall.society.society_step import Steps

MIN_DRAWN: Final = 100
"""So many drawn citizens are no agents, which would remember what they did, until one is taken."""
_AGENTS_PER_YIELD: Final = 32  # agents are made while others wait for the loop


def population_of(
    society: Any,
    citizens: object,
    city: Any,
    seed: int,
    people: PeopleParams,
    model: object,
    engine: object,
) -> tuple[Population, tuple[Agent, ...]]:
    """Return the citizens of a society as a population, and the agents that are to be added.

    Those that live by the same shipped rules are rows, which nobody can tell; none if columns do
    not have all that their statuses say.
    """
    may_be_rows = _takes_rows(society, city, model)
    if may_be_rows and (drawn := _drawn_rows(citizens, city, seed, people)) is not None:
        return drawn, ()
    source = () if isinstance(citizens, Population) else citizens
    agents: tuple[Agent, ...] = tuple(arguments.agents_from(source, city, seed, people))
    if isinstance(citizens, Population):
        return citizens, ()
    # Workers in other processes would not tell what citizens remember.
    may_be_rows &= not hasattr(engine, "workers")
    population = _with_rows(agents, city, society.services, seed) if may_be_rows else None
    return population or Population.of_agents(city, society.services, seed), agents


def _drawn_rows(citizens: object, city: Any, seed: int, people: PeopleParams) -> Population | None:
    """Return many drawn citizens as rows; None if they are few, or have what rows have not."""
    drawn_by = citizen_draw(citizens)
    if drawn_by is None or drawn_by.count < MIN_DRAWN:
        return None
    blocks = drawn_by.blocks()
    if drawn_by.agent_params != CitizenAgentParams() or not all(map(_is_for_rows, blocks)):
        return None
    population = Population(drawn_by.count, city, blocks, seed, people=people)
    population.is_given = False
    return population


def _takes_rows(society: Any, city: object, model: object) -> bool:
    """Return whether citizens that live by shipped rules may be rows."""
    return model is None and type(city) is City and is_ours(type(society))


def _is_for_rows(block: object) -> bool:
    """Return whether a block is a shipped one with a rule for rows."""
    return is_ours(type(block)) and hasattr(block, "step_rows")


def _with_rows(
    citizens: Iterable[Agent], city: City, services: Mapping[str, Service], seed: int
) -> Population | None:
    """Return agents as rows, and beside them those that are none; None if none would be a row."""
    agents = [each for each in citizens if isinstance(each, CitizenAgent)]
    kinds = Counter(_kind_of(each) for each in agents if _has_only_rules(each))
    if not kinds:
        return None
    kind = max(kinds, key=kinds.__getitem__)
    statuses = {str(each.id): each.memory.status for each in agents}
    is_shared = len({id(each) for each in statuses.values()}) < len(agents)
    if is_shared or any(id in services or "moving" in each for id, each in statuses.items()):
        return None
    blocks = [block_type(block_params=params) for block_type, params in kind]
    try:
        population = Population.of_statuses(statuses, city, blocks, seed)
    except (ConfigError, TypeError, KeyError, ValueError, AttributeError):
        return None
    if not population.declared.keys() >= TOWN_COLUMNS.keys() or not _have_room(population):
        return None
    for agent in agents:
        row = population.row_of(str(agent.id))
        view = population.view_of(row)
        is_row = _has_only_rules(agent) and _lives_as_row(population, agent)
        if is_row and view.takes(agent.memory.status):
            population.handles[row], population.new_views[row] = agent, view
        else:
            population.agents[row], population.full[row] = agent, True
    population.remembers = True
    return population if population.handles else None


def _kind_of(agent: CitizenAgent) -> tuple[tuple[type[Any], Any], ...]:
    """Return an agent's blocks, as what must be equal for it to be a row like another."""
    return tuple((type(each), each.params) for each in agent.blocks)


def _has_only_rules(agent: Any) -> bool:
    """Return whether an agent has nothing but shipped blocks, of which it says nothing else."""
    return (
        type(agent) is CitizenAgent
        and type(agent.memory) is CitizenMemory
        and type(agent.memory.status) is dict
        and (agent.params_or_none is None or agent.params_or_none == CitizenAgentParams())
        and agent.dispatcher_or_none is None
        and agent.space is None
        and all(map(_is_for_rows, agent.blocks))
    )


def _have_room(population: Population) -> bool:
    """Return whether nobody begins where there is no room, and all money is what there may be."""
    arrays, count = population.arrays, len(population.places)
    place = np.where(arrays["place"] < 0, arrays["home"], arrays["place"])
    present = np.bincount(place[place >= 0], minlength=count)
    room = city_queries.capacities_of(population, slice(None), 2**62)
    return bool((present <= room).all() and (arrays["money"] >= 0).all())


def citizen_draw(citizens: object) -> generator.CitizenDraw | None:
    """Return how citizens are drawn; None if they are not drawn."""
    if type(citizens) is int:
        return generator.CitizenDraw(citizens)
    return citizens if isinstance(citizens, generator.CitizenDraw) else None


def name_of(population: Population, row: int) -> str:
    """Return the name that a drawn citizen has as an agent."""
    column, codes = population.declared["gender"], population.arrays["gender"]
    gender = column.words[int(codes[row])]
    return generator.name_of(Draws(population.seed, int(population.ids[row]), 0), gender)


class Citizens(Sequence[Any]):
    """The citizens of a society in columns; who is taken goes on as a row, if it is one."""

    def __init__(self, society: Any) -> None:
        self._society = society

    def __len__(self) -> int:
        return len(self._society.ids())

    def __getitem__(self, key: Any) -> Any:
        index = range(len(self))[key]  # raises as a list does
        return [*map(self._agent_at, index)] if isinstance(key, slice) else self._agent_at(index)

    def _agent_at(self, row: int) -> Any:
        population = self._society.population
        for number, mailbox in enumerate(mailboxes_beside(self._society)):
            own_row = population.insertion_row(mailbox.id) + number
            if row <= own_row:
                return mailbox.agent if row == own_row else self._society.agent_of_row(row - number)
        return self._society.agent_of_row(row - len(mailboxes_beside(self._society)))

    def __iter__(self) -> Iterator[Agent]:
        self._society.take()
        return iter([mailbox.agent for mailbox in self._society.mailboxes])


def mailboxes_beside(society: Steps) -> list[SocietyMailbox]:
    """Return the mailboxes of agents that are no citizens, in order of id."""
    mailboxes = society.mailboxes
    population: Population = society.books.population
    if len(mailboxes) == len(population.agents) + len(population.handles):
        return []
    return [each for each in mailboxes if not isinstance(each.agent, CitizenAgent)]


def ids_of(society: Steps) -> list[str]:
    """Return the ids of agents as they came; or those of rows, and then of other agents."""
    if society.books.population.remembers:
        return [*society.router.mailboxes]
    return [*society.books.population.all_ids(), *(each.id for each in mailboxes_beside(society))]


# -- agents made of rows ---------------------------------------------------------------------------


def take_rows(society: Steps, rows: Iterable[int]) -> None:
    """Make handles of some rows."""
    population: Population = society.books.population
    for row in rows:
        if row not in population.agents and row not in population.handles:
            name, memory = name_of(population, row), CitizenMemory(population.view_of(row))
            agent = CitizenAgent(
                int(population.ids[row]), name, memory=memory, blocks=_blocks_of(population)
            )
            population.handles[row] = agent
            society.add_handle(agent)


def let_go(population: Population | None) -> None:
    """Leave the agents of rows, whose society is closed, what their statuses say now."""
    handles, new = {}, {}
    if population is not None:
        handles, new, population.handles = population.handles, population.new_views, {}
    for row, agent in handles.items():
        if row not in new:  # it has been in the society
            agent.memory.status = agent.memory.status.plain()


def _lives_as_row(population: Population, agent: CitizenAgent) -> bool:
    """Return whether the agent of a row has neither code nor a model of its own."""
    blocks, shared = agent.blocks, population.blocks
    has_model = agent.toolbox is not None and agent.toolbox.llm is not None
    if has_model or "forward" in vars(agent) or len(blocks) != len(shared):
        return False
    for own, each in zip(blocks, shared, strict=True):
        is_alike = own.params is each.params or own.params == each.params
        if type(own) is not type(each) or own.own_llm is not None or not is_alike:
            return False
    return True


def make_agents_of(society: Steps, rows: Iterable[int]) -> None:
    """Make some rows agents."""
    population: Population = society.books.population
    population.note_change()
    for row in dict.fromkeys(rows):
        if row in population.agents:
            continue
        take_rows(society, [row])
        agent: Any = population.handles.pop(row)
        population.take_in(agent, row)
        society.add_row_agent(agent, row)
        if society.want_tables is not None:  # the row has had its turn
            agent.space_mailbox.answers = agent.space_mailbox.mail = ()
            society.new_agent_rows.append(row)


async def make_agents_in_turn(
    society: Steps,
    ids: Iterable[str],
    make: Callable[[Steps, Iterable[int]], None] = make_agents_of,
) -> None:
    """Make agents, or handles, of some rows, where others have the loop meanwhile."""
    population: Population = society.books.population
    # By id: who leaves meanwhile renumbers the rows.
    for number, id in enumerate([*ids], 1):
        if (row := population.find_row(id)) is not None:
            make(society, [row])
        if number % _AGENTS_PER_YIELD == 0:
            await asyncio.sleep(0)


def take(society: Steps, ids: Iterable[str] | None) -> None:
    """Make handles of the rows of some ids, or of all rows."""
    take_rows(society, _rows_of(society, ids))


def _rows_of(society: Steps, ids: Iterable[str] | None) -> Iterable[int]:
    population: Population = society.books.population
    if ids is None:
        return range(len(population))
    return sorted(row for id in ids if (row := population.find_row(id)) is not None)


def make_agents_now(society: Steps, ids: Iterable[str] | None) -> None:
    """Make agents of the rows of some ids, or of all rows."""
    rows = _rows_of(society, ids)
    society.router.is_at_own_work = True  # many agents take seconds
    try:
        make_agents_of(society, rows)
    finally:
        society.router.is_at_own_work = False


def everyone(society: Steps) -> Iterator[tuple[str | int, str | None, dict[str, Any]]]:
    """Yield the id, the name and the status of each citizen, in id order."""
    population: Population = society.books.population
    for row, id in enumerate(population.ids.tolist()):
        agent = population.agents.get(row)
        handle = population.handles.get(row)
        if agent is not None:
            yield agent.id, agent.name, agent.memory.status
        elif handle is not None:
            yield handle.id, handle.name, handle.memory.status.plain()
        else:
            status = _status_of(society, row) | population.settled_status(row)
            yield id, name_of(population, row), status


def members_as_agents(society: Steps) -> Iterator[tuple[str, Agent]]:
    """Yield the id of each citizen, and the agent that it is or would be."""
    population: Population = society.books.population
    as_agent = CitizenAgent(0, blocks=_blocks_of(population))
    for row, id in enumerate(population.all_ids()):
        yield id, population.agents.get(row, as_agent)
    yield from ((each.id, each.agent) for each in mailboxes_beside(society))


def _blocks_of(population: Population) -> list[object]:
    return [type(each)(block_params=each.params) for each in population.blocks]


def _status_of(society: Steps, row: int) -> dict[str, Any]:
    """Return the status of a row."""
    population: Population = society.books.population
    is_new = society.number == 0 and society.want_tables is None
    return status_of_row(population, row, is_new=is_new)


# -- what rows cannot do ---------------------------------------------------------------------------


async def make_ready(society: Steps) -> None:
    """Make agents of rows that could not live the step, or hear what is said."""
    population: Population = society.books.population
    if society.want_tables is None:
        handles = population.handles.items()
        make_agents_of(society, [r for r, each in handles if not _lives_as_row(population, each)])
        for each in society.interventions:
            if not each.falls_in(society.number, society.clock):
                continue
            if each.status:
                await make_agents_in_turn(society, _citizens_changed(society, each))
            if each.tell:
                await make_agents_in_turn(society, _citizens_meant(society, each), take_rows)
    while society.mailboxes and len(population.agents) < len(population):
        society.router.thread.drain()
        sent = [each for each in society.router.sent if not is_heard_in_full(population, each)]
        to = {each.envelope.to for each in sent}
        if not to:
            return
        await make_agents_in_turn(society, population.all_ids() if BROADCAST in to else to)


def _citizens_changed(society: Steps, intervention: Intervention) -> list[str]:
    """Return the citizens whose columns could not hold what an intervention sets."""
    books = society.books
    population: Population = books.population
    try:
        if isinstance(intervention.citizens, dict):
            books.rows_with(intervention.citizens)
        fits = True
        for path, value in nested_values(intervention.status):
            number = books.number(name := books.column_at(path), value)
            is_float = population.declared[name].stored.startswith("float")
            fits &= type(number) is int or is_float
            population.fit_value(name, number)
    except (ConfigError, KeyError):
        fits = False
    return [] if fits else _citizens_meant(society, intervention)


def _citizens_meant(society: Steps, intervention: Intervention) -> list[str]:
    """Return the citizens whom an intervention may concern."""
    books, citizens = society.books, intervention.citizens
    population: Population = books.population
    if isinstance(citizens, list):
        return [id for id in citizens if population.find_row(id) is not None]
    with suppress(ConfigError, KeyError):
        if isinstance(citizens, dict):
            return [population.id_of(int(row)) for row in books.rows_with(citizens)]
    return population.all_ids()
