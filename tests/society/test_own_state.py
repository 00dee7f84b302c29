"""What a model keeps beside blocks is part of a society's state, whoever keeps it, or is refused.

Each owner counts, and a citizen's column or the step's row says how far; one society goes on, and
another, built in the same way, begins in its state.
"""

from __future__ import annotations

import copy
import functools
import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from moothall import Clock, Journal, Society
from moothall.foundation.errors import ConfigError, StateError
from moothall.society import (
    Answer,
    CitizenAgent,
    CitizenBlock,
    CitizenMemory,
    Column,
    Experiment,
    Grid,
    Intervention,
    Network,
    OtherBlock,
    Pay,
    Population,
    RowBlock,
    Service,
    Weather,
)


class Counts(RowBlock):
    """A rule of all rows, which writes a number into the column `n`."""

    columns: ClassVar[dict[str, Column]] = {"n": Column("float64")}
    whole = True

    def step_rows(self, rows: Any) -> None:
        rows["n"] = np.full(len(rows), float(self.number(rows)))

    def number(self, rows: Any) -> float:
        return 0.0


class Layer(Counts):
    def number(self, rows: Any) -> float:
        rows.layers["sugar"][rows.step % 16] += 1 + rows.layers["sugar"].sum()
        return float(rows.layers["sugar"].sum())


class Lawn(Grid):
    """A grid that keeps what a rule sets on it."""

    keeps = ("sugar",)


class OnGrid(Counts):
    def number(self, rows: Any) -> float:
        if not hasattr(rows.city, "sugar"):
            rows.city.sugar = np.zeros((4, 4))
        rows.city.sugar += 1
        return float(rows.city.sugar.sum())


class Rewires(Counts):
    def number(self, rows: Any) -> float:
        starts, others = rows.links()
        source = np.repeat(np.arange(rows.citizens), np.diff(starts))
        once = np.flatnonzero(source < others)[1:]  # one edge goes in each step
        rows.network = Network.from_numbers(rows.citizens, source[once], others[once])
        return float(rows.links()[1].sum())


class OnNetwork(Counts):
    def number(self, rows: Any) -> float:
        rows.network.weights = getattr(rows.network, "weights", np.zeros(3)) + 1
        return float(rows.network.weights.sum())


class OfFacts(Counts):
    def number(self, rows: Any) -> float:
        return float(rows.facts["n"])


class OfService(Counts):
    def number(self, rows: Any) -> float:
        rows.want(Pay, to=-1, cents=1)
        return float((rows["money"]).sum())


class Facts:
    keeps = ("asked",)

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, clock: Any) -> dict[str, Any]:
        self.asked += 1
        return {"n": self.asked}


def counting() -> Callable[[Any], dict[str, Any]]:
    asked = 0

    def facts(clock: Any) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return {"n": asked}

    return facts


class Slotted(Counts):
    """A number in a slot of the block."""

    __slots__ = ("counted",)
    keeps = ("counted",)

    def number(self, rows: Any) -> float:
        self.counted = getattr(self, "counted", 0) + 1
        return self.counted


class Toll(Service):
    """Gives back what was paid to it, in every third step."""

    takes = (Pay,)
    keeps = ("steps", "paid")

    def __init__(self) -> None:
        super().__init__("toll")
        self.steps = 0
        self.paid: list[str] = []

    def settle(self, books: Any, sender: str, want: Any) -> Answer:
        self.paid.append(sender)
        return Answer(want, not books.pay(sender, self.id, want.cents))

    def after_step(self, books: Any) -> None:
        self.steps += 1
        if self.steps % 3 == 0:
            for each in self.paid:
                books.pay(self.id, each, 1)
            self.paid.clear()


class Peak:
    keeps = ("seen",)

    def __init__(self) -> None:
        self.seen = 0.0

    def __call__(self, columns: Any) -> float:
        self.seen += float(columns["money"].sum())
        return self.seen


class Town(Society):
    """Counts its steps on itself, before and after its own parts are there."""

    keeps = ("early", "tally")

    def __init__(self, *args: Any, **options: Any) -> None:
        self.early = 0
        super().__init__(*args, **options)
        self.tally = 0

    def announce(self, news: Any) -> None:
        self.tally += 1
        self.early += 2
        super().announce(self.tally + self.early)


class Diary(CitizenMemory):
    keeps = ("pages",)
    pages = 0

    def note(self, step: int, text: str) -> None:
        self.pages += 1
        super().note(step, f"{self.pages}: {text}")


class Walker(CitizenAgent):
    keeps = ("walked",)

    def __init__(self, id: str) -> None:
        super().__init__(id, memory=Diary())
        self.walked = 0

    async def forward(self) -> None:
        self.walked += 1
        self.memory.note(self.perceived.step, "walked")
        town: Any = self.space
        town.announce("walked")
        self.status["news"] = [*self.perceived.news]
        self.status["walked"] = self.walked


def rows(
    block: RowBlock, *, money: int = 50, kind: type[Society] = Society, **more: Any
) -> Society:
    table = {"place": np.arange(6), "money": np.full(6, money)}
    of_society = {name: more.pop(name) for name in ("facts", "services", "journal") if name in more}
    return kind(Population(table, Lawn(4, 4), [block], 1, **more), **of_society)


ALL = Network.from_numbers(6, *np.triu_indices(6, 1))


def weighed() -> Network:
    """Return a network that keeps the weights that a rule sets on it."""
    network: Any = Network.from_numbers(6, [0], [1])
    network.keeps = ("weights",)
    return network  # type: ignore[no-any-return]


MAKE: dict[str, Callable[..., Society]] = {
    "a layer": lambda **j: rows(Layer(), layers={"sugar": Column("float64", 1)}, **j),
    "a slot": lambda **j: rows(Slotted(), **j),
    "an array on a grid": lambda **j: rows(OnGrid(), **j),
    "a network that changes": lambda **j: rows(Rewires(), network=ALL, **j),
    "an array on a network": lambda **j: rows(OnNetwork(), network=weighed(), **j),
    "an object of facts": lambda **j: rows(OfFacts(), facts=Facts(), **j),
    "a service": lambda **j: rows(OfService(), services=[Toll()], **j),
    "a metric": lambda **j: rows(Counts(), metrics={"peak": Peak()}, **j),
    "an agent, its memory, a society": lambda **j: Town([Walker("a"), Walker("b")], **j),
}


def end(society: Society) -> Any:
    """What differs if anything was lost: the state of all, and the last row."""
    state = society.state_dict()
    return state, society.metrics[-1]


@pytest.mark.parametrize("kind", MAKE)
async def test_state_of_a_society_has_what_each_owner_keeps(kind: str) -> None:
    async with MAKE[kind]() as first, MAKE[kind]() as second:
        await first.run(steps=4)
        second.load_state_dict(first.state_dict())
        for each in (first, second):
            await each.run(steps=5)
        assert end(first) == end(second)
        async with MAKE[kind]() as whole:
            await whole.run(steps=9)
            assert end(whole) == end(first)


@pytest.mark.parametrize("forked", (False, True))
@pytest.mark.parametrize("kind", MAKE)
async def test_run_that_failed_and_is_resumed_has_what_each_owner_keeps(
    kind: str, forked: bool, journal: Journal
) -> None:
    def fail(row: dict[str, Any]) -> None:
        if row["step"] == 6:
            raise RuntimeError("amid")

    async with MAKE[kind]() as whole:
        await whole.run(steps=9)
        then = end(whole)
    async with MAKE[kind](journal=journal) as broken:
        with pytest.raises(RuntimeError, match="amid"):
            await broken.run(steps=9, run_id="b", save_every=4, progress=fail)
    async with MAKE[kind](journal=journal) as resumed:
        id = journal.fork("b", "c") if forked else "b"
        await resumed.run(steps=9, run_id=id, save_every=4)
        assert end(resumed) == then


@pytest.mark.parametrize("kind", MAKE)
async def test_state_that_is_loaded_into_a_society_that_has_run_on_is_the_whole_state(
    kind: str,
) -> None:
    async with MAKE[kind]() as one:
        first = one.state_dict()
        await one.run(steps=4)
        then = end(one)
        one.load_state_dict(first)
        await one.run(steps=4)
        assert end(one) == then


async def test_state_has_what_a_rule_keeps_on_a_grid_of_which_a_cell_is_closed() -> None:
    async with rows(OnGrid()) as one:
        one.intervene(Intervention(1, close=[one.city.ids()[0]]))
        await one.run(steps=4)
        state = one.state_dict()
        await one.run(steps=4)
        then = end(one)
        one.load_state_dict(state)
        assert one.state_dict() == state
        await one.run(steps=4)
        assert end(one) == then


async def test_state_is_loaded_without_a_metric_that_keeps_nothing_others_are_named() -> None:
    def most(columns: Any) -> float:
        return float(columns["money"].max())

    async with rows(Counts(), metrics={"most": most}) as one, rows(Counts()) as other:
        await one.run(steps=2)
        other.load_state_dict(one.state_dict())
        assert (await other.step())["step"] == 2
    async with rows(Counts(), metrics={"peak": Peak()}) as one, rows(Counts()) as other:
        await one.run(steps=2)
        with pytest.raises(StateError, match="has what metric 'peak' kept, and the society has no"):
            other.load_state_dict(one.state_dict())


class Queue:
    def __init__(self) -> None:
        self.waiting: deque[int] = deque()

    def __call__(self, given: Any) -> Any:
        self.waiting.append(1)
        return {"n": 1} if hasattr(given, "moment") else 1.0


class QueueService(Service):
    def __init__(self) -> None:
        super().__init__("queue")
        self.waiting: deque[int] = deque()

    def after_step(self, books: Any) -> None:
        self.waiting.append(1)


class QueueAgent(CitizenAgent):
    async def forward(self) -> None:
        vars(self).setdefault("waiting", deque()).append(1)


class QueueTown(Society):
    def announce(self, news: Any) -> None:
        vars(self).setdefault("waiting", deque()).append(1)


class QueueGrid(Counts):
    def number(self, rows: Any) -> float:
        vars(rows.city).setdefault("waiting", deque()).append(1)
        return 0.0


def with_default() -> Callable[..., dict[str, int]]:
    def facts(clock: Any, waiting: list[int] = []) -> dict[str, int]:  # noqa: B006
        waiting.append(1)
        return {"n": 1}

    return facts


REFUSED: list[tuple[str, Callable[[], Society]]] = [
    ("facts", lambda: rows(Counts(), facts=Queue())),
    ("facts", lambda: rows(OfFacts(), facts=counting())),
    ("facts", lambda: rows(Counts(), facts=with_default())),
    ("facts", lambda: rows(Counts(), facts=functools.partial(with_default(), waiting=[]))),
    ("service 'queue'", lambda: rows(Counts(), services=[QueueService()])),
    ("metric 'm'", lambda: rows(Counts(), metrics={"m": Queue()})),
    ("agent 'a'", lambda: Society([QueueAgent("a")])),
    ("the society", lambda: QueueTown([Walker("a")])),
    ("the places", lambda: rows(QueueGrid())),
]


@pytest.mark.parametrize(("owner", "make"), REFUSED)
async def test_state_of_an_owner_that_changed_what_it_does_not_keep_is_refused_by_name(
    owner: str, make: Callable[[], Society]
) -> None:
    async with make() as society:
        await society.run(steps=2)
        with pytest.raises(StateError, match=f"^{owner} has changed its '(waiting|asked)'"):
            society.state_dict()


class Tally:
    """A number in a slot."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0.0

    def random(self) -> float:
        self.number += 1
        return self.number


def numbers() -> Iterator[float]:
    """Yields numbers without an end."""
    number = 0.0
    while True:
        number += 1
        yield number


class Drawn:
    """Draws the numbers of an iterator."""

    def __init__(self, values: Iterator[float]) -> None:
        self.values = values

    def random(self) -> float:
        return next(self.values)


class Draws(Counts):
    """Draws from a generator of its own."""

    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__()
        self.generator = make()

    def number(self, rows: Any) -> float:
        return float(self.generator.random())


GENERATORS: dict[str, Callable[[], Any]] = {
    "random": lambda: random.Random(7),
    "RandomState": lambda: np.random.RandomState(7),
    "Generator": lambda: np.random.default_rng(7),
    "slots": Tally,
    "generator function": lambda: Drawn(numbers()),
    "generator expression": lambda: Drawn(each for each in [1.0, 1.0]),
    "list iterator": lambda: Drawn(iter([1.0, 2.0])),
    "map": lambda: Drawn(map(float, [1, 2])),
}


@pytest.mark.parametrize("kind", GENERATORS)
async def test_state_of_a_block_that_has_drawn_from_a_generator_is_refused(kind: str) -> None:
    async with rows(Draws(GENERATORS[kind])) as society:
        await society.run(steps=1)
        with pytest.raises(StateError, match=r"^block 'Draws' has (changed its|in) 'generator'"):
            society.state_dict()


async def test_state_of_a_service_is_what_its_own_state_dict_says() -> None:
    class Says(QueueService):
        def state_dict(self) -> dict[str, Any]:
            return {"n": len(self.waiting)}

        def load_state_dict(self, given: dict[str, Any]) -> None:
            self.waiting = deque([1] * given["n"])

    services = [Says(), Says()]
    first, second = (rows(Counts(), services=[each]) for each in services)
    async with first, second:
        await first.run(steps=3)
        second.load_state_dict(first.state_dict())
        assert len(services[1].waiting) == 3


async def test_state_of_a_town_whose_parts_say_nothing_keeps_nothing_of_them() -> None:
    async with rows(Counts()) as society:
        await society.run(steps=2)
        assert not any(society.state_dict()["kept"].values())


def test_block_that_kept_something_in_a_society_begins_no_other() -> None:
    class Sums(Counts):
        keeps = ("begin",)

        def __init__(self, begin: int) -> None:
            super().__init__()
            self.begin = begin

        def number(self, rows: Any) -> float:
            return float(self.begin)

    class Adds(Sums):
        def number(self, rows: Any) -> float:
            self.begin += 1
            return float(self.begin)

    same, grows = Sums(3), Adds(3)
    with rows(same) as first, rows(same) as second:
        for society in (first, second, first):  # what it was made with it has everywhere
            society.run_sync(steps=2)
    with rows(grows) as society:
        society.run_sync(steps=2)
        state = society.state_dict()
        society.run_sync(steps=2)
    with rows(grows) as society:
        with pytest.raises(ConfigError, match="block 'Adds' has lived in another society"):
            society.run_sync(steps=1)
        society.load_state_dict(state)  # all that it keeps is of this society
        society.run_sync(steps=1)
        assert grows.begin == 6


@pytest.mark.parametrize("kind", ("facts", "a metric", "places", "a network"))
def test_part_of_a_model_that_kept_something_begins_no_other_society(kind: str) -> None:
    block: Counts = Counts()
    parts: dict[str, Any] = {}
    grid = Lawn(4, 4)
    if kind == "facts":
        block, parts = OfFacts(), {"facts": Facts()}
    elif kind == "a metric":
        parts = {"metrics": {"peak": Peak()}}
    elif kind == "places":
        block = OnGrid()
    else:
        block, parts = OnNetwork(), {"network": weighed()}

    def made() -> Society:
        options = {name: parts[name] for name in parts if name != "facts"}
        table = {"place": np.arange(6), "money": np.full(6, 1)}
        facts = parts.get("facts")
        return Society(Population(table, grid, [type(block)()], 1, **options), facts=facts)

    with made() as first, made() as second:
        first.run_sync(steps=2)
        state = first.state_dict()
        with pytest.raises(ConfigError, match="has lived in another society"):
            second.run_sync(steps=2)
        second.load_state_dict(state)
        second.run_sync(steps=1)
        assert second.number == 3


def test_part_of_a_model_that_kept_nothing_begins_other_societies() -> None:
    weather, grid, metrics = Weather(3), Grid(4, 4), {"sum": lambda columns: columns["n"].sum()}
    for _ in range(2):
        with rows(Counts(), facts=weather.facts, metrics=metrics) as society:
            society.run_sync(steps=1)
        with Society(Population(3, grid, [Counts()])) as society:
            society.run_sync(steps=1)
    assert copy.deepcopy(grid).ids() == grid.ids()


def test_service_whose_method_gives_the_facts_lives_in_several_runs() -> None:
    class Board(Service):
        def facts(self, clock: Clock) -> dict[str, Any]:
            return {"news": f"step {clock.index}"}

    board = Board("board")
    with rows(Counts(), facts=board.facts, services=[board]) as society:
        society.run_sync(steps=2)
        society.run_sync(steps=1)
        assert society.number == 3


def test_state_with_a_full_agent_of_other_blocks_is_refused() -> None:
    class Rests(OtherBlock):
        """Another block."""

    def promoted(*blocks: Any) -> Society:
        society = rows(Counts())
        people: Any = society.population
        people.promote(2, blocks=[*blocks])
        return society

    with (
        promoted(OtherBlock()) as first,
        promoted(OtherBlock()) as same,
        promoted(Rests()) as other,
    ):
        state = first.state_dict()
        same.load_state_dict(state)
        with pytest.raises(StateError, match="the state is of CitizenAgent, OtherBlock"):
            other.load_state_dict(state)


def test_layer_has_a_value_for_each_place_and_a_name_of_its_own() -> None:
    made = Population(3, Grid(4, 2), [Counts()], layers={"sugar": Column("int8", 3)})
    assert made.layers["sugar"].tolist() == [3] * 8
    for layers in ({"n": Column()}, {"sugar": "int8"}, ["sugar"], {"sugar": Column(slots=True)}):
        with pytest.raises(ConfigError, match="layer"):
            Population(3, Grid(4, 2), [Counts()], layers=layers)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="places"):
        Population(3, None, [Counts()], layers={"sugar": Column()})


async def test_layer_is_read_by_metrics_but_written_by_a_rule_of_all_rows_alone() -> None:
    class Writes(RowBlock):
        columns: ClassVar[dict[str, Column]] = {"n": Column("float64")}

        def step_rows(self, rows: Any) -> None:
            rows.layers["sugar"][0] = 1

    layers = {"sugar": Column("float64", 2)}
    metrics = {"sugar": lambda columns: columns.layers["sugar"].sum()}
    async with rows(Counts(), layers=layers, metrics=metrics) as society:
        assert (await society.step())["sugar"] == 32
    async with rows(Writes(), layers=layers) as society:
        with pytest.raises(ValueError, match="read-only"):
            await society.step()


async def test_network_is_not_changed_by_a_rule_that_does_not_see_all_rows() -> None:
    class Cuts(RowBlock):
        columns: ClassVar[dict[str, Column]] = {"n": Column("float64")}

        def step_rows(self, rows: Any) -> None:
            rows.network = ALL

    async with rows(Cuts(), network=ALL) as society:
        with pytest.raises(ConfigError, match="whole = True"):
            await society.step()


@pytest.mark.parametrize("kind", [kind for kind in MAKE if not kind.startswith("an agent")])
async def test_branch_of_an_experiment_goes_on_with_what_each_owner_keeps(kind: str) -> None:
    def so_far(society: Society) -> float:
        rows = society.population
        assert rows is not None
        peak = society.metrics[-1].get("peak", 0) if society.metrics else 0
        return float(rows.columns["n"].sum() + rows.columns["money"] @ np.arange(6) + peak)

    def make(seed: int) -> Society:
        return MAKE[kind]()

    branch = {"of": "half", "name": "on", "workflow": [{"step": 5}]}
    experiment = Experiment(
        name="e",
        society={"make": make},
        metrics=[{"name": "so far", "by": so_far}],
        workflow=[{"step": 4}, {"save": "half"}, {"branch": branch}, {"step": 5}],
    )
    results = await experiment.run(jobs=0, report=False)
    assert results.values("so far", "base") == results.values("so far", "base/on")


class Sits(CitizenBlock):
    """A block of agents."""

    description = "Sits"


class Stands(Sits):
    """Another."""


def test_state_is_refused_by_a_society_of_other_blocks_or_without_its_population() -> None:
    def of(block: type[Sits]) -> Society:
        return Society([CitizenAgent(id, blocks=[block()]) for id in (1, 2, 3)])

    def rows() -> Society:
        return Society(Population({"id": np.array([1, 2, 3])}, blocks=[Counts()]))

    for one, other, why in (
        (of(Sits), of(Stands), "agent '1' of the state is of CitizenAgent, Sits, and the society"),
        (of(Sits), rows(), "the state is of no Population, and the society has one"),
        (rows(), of(Sits), "the state is of a Population, and the society has none"),
    ):
        with one, other:
            one.run_sync(steps=1)
            with pytest.raises(StateError, match=why):
                other.load_state_dict(one.state_dict())
            assert len(other.run_sync(steps=1)) == 1  # nobody has left


def test_citizen_with_a_block_of_rows_is_refused_without_a_population() -> None:
    with pytest.raises(ConfigError, match="'Counts' runs for rows, and citizen 1 is not of a Pop"):
        Society([CitizenAgent(1, blocks=[Counts()])])
    with pytest.raises(ConfigError, match=r"people such as make_people.* got \[<CitizenAgent 1>"):
        Population([CitizenAgent(1)])
