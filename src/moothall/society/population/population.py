"""A population: citizens as columns, of whom some may be full agents."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from moothall import ConfigError, DefinitionError
from moothall.build import check_function, check_integer, excerpt
from moothall.society.arrays import Array, np, sha256_of
from moothall.society.blocks import all_blocks
from moothall.society.blocks.citizen_block import blocks_with_columns
from moothall.society.blocks.mobility_rows import COLUMNS
from moothall.society.blocks.row_block import check_block_set
from moothall.society.city.network import Network
from moothall.society.columns.column import COMMIT_COLUMNS, PLACES, Column
from moothall.society.columns.layers import Layers
from moothall.society.columns.lives import Changes
from moothall.society.columns.own_status import Kind, OwnStatus
from moothall.society.columns.register import Register, is_number
from moothall.society.columns.status import Status, layout_of
from moothall.society.columns.table import arrow_of, fill_from_table
from moothall.society.columns.views import Columns
from moothall.society.kernel.care import ADULT_AGE
from moothall.society.kernel.citizen import CitizenAgent, CitizenMemory
from moothall.society.kernel.draw import id_words, number_or_text
from moothall.society.kernel.wants import PLACE, id_order
from moothall.society.metrics import METRICS
from moothall.society.people.params import USUAL_PEOPLE, PeopleParams
from moothall.society.population.initial_values import read_citizens, with_pay, write_persons
from moothall.society.population.step import fill_rest

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from moothall.agents import AgentOptions

logger: logging.Logger = logging.getLogger("moothall.society")

LIMIT: Final = 2**31 - 1
_MAX_KINDS: Final = 8
"""So many kinds of agents are looked at: of very many, each has parameters of its own."""
_DTYPES: Final[dict[type, str]] = {bool: "bool", int: "int64", float: "float64"}

TOWN_COLUMNS: Final = {
    "work": Column(PLACE, None),
    "age": Column(default=ADULT_AGE, key=("profile", "age")),
    "jobless": Column(default=-1),
    "skill": Column(default=1000, key=("profile", "skill")),
    "income": Column(),
    "rents": Column(key=("profile", "rents")),
    "along": Column("bool"),
    "tour": COLUMNS["tour"],
    "item_do": Column("uint8", own=True),
}
"""What rules of the town read of a citizen, whatever its blocks are."""
_METRIC_NAMES: Final = ("step", "time", *(each.name for each in METRICS))


class Population(Register):
    """Citizens in columns, for a `Society`: `Society(Population(1_000_000, city, blocks, seed=7))`.

    Each block declares its columns; a table may bring more. The blocks run by `step_rows`, and by
    `forward` in those citizens who were promoted to full agents: both do the same, citizen by
    citizen.

    Args:
        citizens: how many there are, their ids 1 … n; or persons, as `make_people` returns them;
            or a table of them: a dict of arrays, a pyarrow Table, or the path of a Parquet file or
            of a `.csv`, whose gaps are drawn, with whole numbers as `id` or without; who has the
            same `household_id`, 0 or more, lives in one home, and is kin
        city: the places: a `City`, a `Network`, a `Grid`, or None
        blocks: the blocks of every citizen; those of `all_blocks()` if left out, as in a `Society`
            of so many
        seed: what all random numbers are made from
        network: who knows whom: a `Network` whose node k is the citizen of row k; a rule of all
            rows may give another
        layers: what each place has, by name: a `Column` of one value for each of `city.ids()`, such
            as `{"sugar": Column("float64", 4)}`
        metrics: functions of the columns (a dict of arrays), by name, whose value stands in each
            row of the society's metrics
        citizen: the class of full agents; its `memory_config` has numbers and booleans alone, each
            a column
        people: the constants that citizens are drawn from, those of the United States if left out

    Attributes:
        ids: the ids of the citizens, rising; uint64
        full: which citizens are full agents; booleans
        words: the texts that wants and messages use
        layers: the arrays of the places, by name, which change in place

    Raises:
        ConfigError: an argument is wrong
        MissingExtra: numpy or pyarrow is needed and missing
    """

    is_given: bool = True  # whether a user has made it: its rows stay rows, and no agent comes
    metrics: dict[str, Callable[[Mapping[str, Any]], float]]

    def __init__(
        self,
        citizens: int | str | PathLike[str] | Mapping[str, object] | object,
        city: Any = None,
        blocks: Iterable[object] | None = None,
        seed: int = 0,
        *,
        network: Network | None = None,
        layers: Mapping[str, Column] | None = None,
        metrics: Mapping[str, Callable[[Mapping[str, Any]], float]] | None = None,
        citizen: type[CitizenAgent] = CitizenAgent,
        people: PeopleParams = USUAL_PEOPLE,
    ) -> None:
        check_integer("seed", seed, 0, (1 << 64) - 1)
        checked_blocks = check_block_set(all_blocks() if blocks is None else blocks)
        if not (isinstance(citizen, type) and issubclass(citizen, CitizenAgent)):
            raise ConfigError(f"citizen= must be a class of CitizenAgent, got {citizen!r:.80}")
        if not isinstance(people, PeopleParams):
            raise ConfigError(f"people= must be PeopleParams(…), got {people!r:.80}")
        if not isinstance(metrics, Mapping | None):
            raise ConfigError(f"metrics= must be a dict of functions by name, got {metrics!r:.80}")
        self.metrics = dict(metrics or {})
        for name, metric in self.metrics.items():
            if not callable(metric):
                rule = f"must be a function of the columns, got {metric!r:.80}"
                raise ConfigError(f"metric {name!r} {rule}")
            check_function(f"metric {name!r}", metric, "columns")
            if name in _METRIC_NAMES:
                rule = f"must have another name: each row of metrics has a {name!r}"
                raise ConfigError(f"metric {name!r} {rule}")
        table: dict[str, Any] = {}
        persons: list[dict[str, object]] = []
        if type(citizens) is int:
            if not 1 <= citizens <= LIMIT:
                raise ConfigError(f"a population must have 1 to {LIMIT:,} citizens, got {citizens}")
            ids = np.arange(1, citizens + 1, dtype=np.uint64)
        else:
            ids, table, persons = read_citizens(citizens, city, seed, people)
        self._begin(ids, city, checked_blocks, seed, network, layers, citizen)
        table = with_pay(table, self.declared)
        fill_from_table(self, table)
        fill_rest(self, people, filled={*table, *(write_persons(self, persons) if persons else ())})

    def _begin(
        self,
        ids: Array,
        city: Any,
        blocks: tuple[Any, ...],
        seed: int,
        network: Network | None = None,
        layers: Mapping[str, Column] | None = None,
        citizen: type[CitizenAgent] = CitizenAgent,
    ) -> None:
        """Begin with citizens who all have the defaults of the columns."""
        ids.flags.writeable = False
        super().__init__(ids, city, blocks, seed, network)
        self.first_network: Network | None = network
        self.layers: Layers = Layers(layers, self.places, self.declared)
        self.citizen: type[CitizenAgent] = citizen
        self._declare_memory(citizen)
        self.agents: dict[int, CitizenAgent] = {}  # the full agents, by row
        self.views: dict[str, OwnStatus] = {}  # the statuses of the full agents, by id
        self._kinds: list[Kind] = []
        self.handles: dict[int, Any] = {}  # rows that somebody has taken, by row
        self.new_views: dict[int, Status] = {}  # of given agents that are yet to be added
        self.coming: dict[str, CitizenAgent] = {}  # agents that are yet to have a row
        self.leaving: list[int] = []  # the rows of agents that have left
        self._rows: dict[str, int] | None = None  # by id, where all are full agents
        self.society: Any = None
        self.first_ids: Array = ids  # of those that it began with
        self.next_id: int = int(ids[-1]) + 1 if len(ids) else 1
        self.changes: Changes = Changes()

    @classmethod
    def of_agents(cls, city: Any, services: Mapping[str, Any], seed: int) -> Population:
        """Return a population without blocks, whose citizens come as agents."""
        population = cls.__new__(cls)
        population._begin(np.zeros(0, np.uint64), city, (), seed)
        population.metrics, population.is_given, population.takes_names = {}, False, True
        population.declared |= {**PLACES, **TOWN_COLUMNS}
        population.arrays = {name: each.new_array(0) for name, each in population.declared.items()}
        population.services = sorted(services, key=id_order)
        for each in services.values() if city is None else ():
            population.place_number(each.place)
        return population

    @classmethod
    def of_statuses(
        cls, statuses: Mapping[str, dict[str, Any]], city: Any, blocks: Iterable[object], seed: int
    ) -> Population:
        """Return a population of citizens by id. ConfigError: a value does not fit its column."""
        names = sorted(statuses, key=id_order)
        population = cls.__new__(cls)
        ids = id_words(map(number_or_text, names))
        population._begin(ids, city, check_block_set(blocks), seed)
        population.metrics, population.is_given = {}, False
        population.names = [each for each in names if not is_number(each)]
        numbers = ids[: len(ids) - len(population.names)]
        population.next_id = int(numbers[-1]) + 1 if len(numbers) else 1
        for row, id in enumerate(names):
            status = statuses[id]
            population.pull(row, status)
            population.set_value("money", row, status.get("money", 0))
            population.arrays["place"][row] = population.place_number(status.get("place"))
        return population

    def _declare_memory(self, citizen: type[CitizenAgent]) -> None:
        """Declare a column for each name of a class's `memory_config` that no block declares."""
        for name, value in citizen.first_status().items():
            if type(value) not in _DTYPES:
                raise ConfigError(
                    f"{citizen.__name__}.memory_config[{name!r}] must be a number or a boolean in "
                    f"a population, got {excerpt(value)}: declare a Column of a block instead"
                )
            if name in self.arrays:
                raise ConfigError(
                    f"{citizen.__name__}.memory_config[{name!r}]: give it another name: a "
                    "population has a column of that name already"
                )
            column = self.declared[name] = Column(_DTYPES[type(value)], value)
            self.arrays[name] = column.new_array(len(self))

    @property
    def network(self) -> Network | None:
        """Who knows whom; a new one holds from then on, and is part of a society's state."""
        return self._network

    @network.setter
    def network(self, network: Network | None) -> None:
        if network is not None and not isinstance(network, Network):
            raise ConfigError(f"network= must be a Network, got {network!r:.80}")
        if network is not None and len(network) != len(self):
            raise ConfigError(
                f"the network has {len(network):,} nodes, and there are {len(self):,} citizens"
            )
        self.note_change()
        self._network = network

    @property
    def later_network(self) -> Network | None:
        """The network that a step has put in the place of the first; None if there is none."""
        return None if self._network is self.first_network else self._network

    def __repr__(self) -> str:
        return f"<Population of {len(self):,}, {len(self.arrays)} columns>"

    # -- who is who, and what stands for what ------------------------------------------------------

    def settle_ids(self, ids: Array, coming: Iterable[CitizenAgent] = ()) -> None:
        """Take these ids, rising, one for each row; full agents keep theirs, or have come."""
        ids.flags.writeable = False
        agents = [*self.agents.values(), *coming]
        handles, self.handles, self._rows = [*self.handles.values()], {}, None
        self.ids: Array = ids
        self.until: int = len(ids)
        self.full: Array = np.zeros(len(ids), bool)
        if len(agents) == len(ids):
            self._rows = {id: row for row, id in enumerate(self.all_ids())}
        self.agents = {self.row_of(agent.id): agent for agent in agents}
        self.full[list(self.agents)] = True
        for row, agent in self.agents.items():
            if (view := self.views.get(str(agent.id))) is not None:
                view.row = row
        for agent in handles:
            if (new_row := self.find_row(str(agent.id))) is not None:
                self.handles[new_row] = agent
                agent.memory.status.row = new_row

    def find_row(self, id: str) -> int | None:
        """Return the row of a citizen; None if no citizen has that id."""
        return super().find_row(id) if self._rows is None else self._rows.get(id)

    @property
    def columns(self) -> Mapping[str, Any]:
        """The arrays by name, one entry per citizen by rising id, full agents included."""
        return Columns(self)

    # -- full agents -------------------------------------------------------------------------------

    def promote(self, id: str | int, **options: Unpack[AgentOptions]) -> CitizenAgent:
        """Make a citizen a full agent, with a model and a memory, seen by the others like anyone.

        Args:
            id: whose
            options: of `CitizenAgent`: `toolbox=`, `name=`, `agent_params=`, and `blocks=`, which
                are copies of the population's if left out

        Returns:
            the agent; it is in the population's society, if there is one

        Raises:
            ConfigError: there is no such citizen, or it is a full agent
        """
        row = self.row_of(id)
        if row in self.agents:
            raise ConfigError(f"citizen {id} is a full agent already")
        agent: CitizenAgent = self._on_loop(self._promote, row, {**options})
        return agent

    def _promote(self, row: int, options: dict[str, Any]) -> CitizenAgent:
        agent = self._make_agent(row, options)
        if self.society is not None:
            try:
                self.society.add_row_agent(agent, row)
            except BaseException:
                if row in self.agents:
                    self.let_go(row)
                raise
        return agent

    def _make_agent(self, row: int, options: dict[str, Any]) -> CitizenAgent:
        self.note_change()
        options = dict(options)
        blocks = options.pop("blocks", None)
        if blocks is None:
            blocks = [copy.copy(each) for each in self.blocks]
            for each in blocks:
                each.actions = dict(each.actions)
        agent = self.citizen(
            self.id_of(row), memory=CitizenMemory(self.view_of(row)), blocks=blocks, **options
        )
        self.take_in(agent, row)
        return agent

    def kind_of(self, blocks: Iterable[Any]) -> Kind:
        """Return what statuses of agents with these blocks have in columns, which are there then.

        Raises:
            ConfigError: a block declares a column otherwise than another's
        """
        chosen = blocks_with_columns(blocks)
        keys = {key for each in chosen for key in getattr(each, "status_keys", ())}
        for each in self.blocks if self.is_given else ():
            if type(each) not in map(type, chosen) and not keys >= {
                *getattr(each, "status_keys", ())
            }:
                chosen.append(each)
        kind = next((each for each in self._kinds[-_MAX_KINDS:] if each.is_of(chosen)), None)
        if kind is None:
            self.declare(chosen, TOWN_COLUMNS)
            columns = {n: self.declared[n] for b in chosen for n in getattr(b, "columns", ())}
            usual = {"home", *TOWN_COLUMNS} & {*self.declared} - {*columns}
            if self.is_given:
                kind = Kind(chosen, self.declared)
            else:
                kind = Kind(chosen, columns | {n: self.declared[n] for n in usual}, usual)
            self._kinds.append(kind)
        return kind

    def take_in(
        self,
        agent: CitizenAgent,
        row: int,
        values: Mapping[str, Any] | None = None,
        *,
        is_new: bool = False,
    ) -> None:
        """Make an agent the full agent of a row, of which its status is a view from then on.

        Args:
            agent: the agent
            row: its row
            values: what its status is to say; what it says if left out
            is_new: whether nobody has had the row

        Raises:
            ConfigError: a value does not fit its column
        """
        status: Any = agent.memory.status
        view = OwnStatus(self, self.kind_of(agent.blocks), row)
        if values is None and getattr(status, "register", None) is self:
            view.take_extras(status.extras())
            view.keep_beside(status.plain())
        else:
            view.take(status.copy() if values is None else values, is_new=is_new)
        if agent.perceived.status is status:
            agent.perceived.status = view
        agent.memory.status = self.views[str(agent.id)] = view
        self.agents[row] = agent
        self.full[row] = True

    def let_go(self, row: int) -> CitizenAgent:
        """Have a row without its full agent, whose status is a dict of its own from then on."""
        agent = self.agents.pop(row)
        self.full[row] = False
        if (view := self.views.pop(str(agent.id), None)) is not None:
            agent.memory.status = view.plain()
        return agent

    def demote(self, id: str | int) -> None:
        """Make a full agent a row again; what its status holds beyond the columns is lost.

        Raises:
            ConfigError: there is no such full agent
        """
        row = self.row_of(id)
        if row not in self.agents:
            raise ConfigError(f"citizen {id} is not a full agent")
        if self.takes_names:
            raise ConfigError(f"citizen {id} came as an agent: there are no blocks to be a row by")
        self._on_loop(self.demote_row, row)

    def _on_loop(self, function: Callable[..., object], *args: object) -> Any:
        return function(*args) if self.society is None else self.society.on_loop(function, *args)

    def demote_row(self, row: int) -> None:
        """Make the full agent of a row a row again."""
        self.note_change()
        agent = self.agents[row]
        self.pull(row, agent.memory.status)
        if self.society is not None:
            self.society.remove_row_agent(agent, row)
        self.let_go(row)

    def release(self, row: int) -> None:
        """Make a row again of a citizen whose full agent was removed."""
        self.note_change()
        status = self.let_go(row).memory.status
        try:
            self.pull(row, status)
        except ConfigError as error:
            logger.warning("what the agent of a row that was removed has is lost: %s", error)

    def view_of(self, row: int) -> Status:
        """Return a row's status as a view, which reads and writes its columns."""
        return Status(self, layout_of(self.declared, self.blocks), row)

    def status_of(self, row: int) -> dict[str, Any]:
        """Return a citizen's status, made from its columns."""
        if row in self.agents:
            return self.agents[row].memory.status
        if row in self.handles:
            copy_of_view: dict[str, Any] = self.handles[row].memory.status.copy()
            return copy_of_view
        if self.source is not None:
            self.source.pull(self.arrays)
        status: dict[str, object] = {}
        arrays, places = self.arrays, self.places
        for name, column in self.declared.items():
            if name not in COMMIT_COLUMNS and not column.own:
                array = arrays[name]
                value = array.item(row) if array.ndim == 1 else array[row]
                column.to_status(name, status, value, places)
        for block in self.blocks:
            if hasattr(block, "to_status"):
                block.to_status(self, row, status)
        return {**status, **self.settled_status(row)}

    @property
    def fixed_by(self) -> str:
        """Why nobody can come or leave; empty if anybody can."""
        if self.network is not None:
            return "it has a network"
        return super().fixed_by if self.is_part or self.source is not None else ""

    @property
    def has_ended(self) -> bool:
        """Whether its society is closed, so that each citizen goes on alone."""
        return self.society is not None and bool(self.society.is_closed)

    # -- its society -------------------------------------------------------------------------------

    def enter(self, society: object, services: Iterable[str]) -> None:
        """Join a society. Raises DefinitionError: it lives in another."""
        if self.society is not None:
            raise DefinitionError("the population is in a society already: make another")
        self.society = society
        self.services: list[str] = sorted(services, key=id_order)

    def program(self) -> dict[str, Any]:
        """Return what must be equal for a society to resume a run: first citizens, and blocks."""
        network = self.first_network
        return {
            "citizens": len(self.first_ids),
            "ids": sha256_of(self.first_ids),
            "blocks": [[type(b).__name__, b.params.model_dump(mode="json")] for b in self.blocks],
            "network": network and [sha256_of(each) for each in network.links],
        }

    def to_arrow(self) -> Any:
        """Return the citizens as a pyarrow Table, `id` first; places by their ids."""
        return arrow_of(self, self.columns)
