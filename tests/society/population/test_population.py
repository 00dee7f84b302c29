"""A population: what it is made of, full agents in it, and what a block may not do."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from examples.models.opinions import opinions
from examples.models.wealth import WealthBlock
from tests.society.population.lives import differing, lived, promoted, same

from moothall import Agent, City, Society
from moothall.foundation.errors import ConfigError, DefinitionError, DuplicateAgent, StateError
from moothall.society import (
    Answer,
    Buy,
    Column,
    Grid,
    Intervention,
    LocalEngine,
    Move,
    Network,
    Pay,
    Population,
    Question,
    RowBlock,
    Rows,
    Save,
    Service,
    Survey,
    Want,
    all_blocks,
)
from moothall.society.blocks.citizen_block import CitizenBlock
from moothall.society.kernel.citizen import CitizenAgent


class Thrift(RowBlock):
    """Counts what it has given, and says whom it last saw with more."""

    columns: ClassVar = {
        "given": Column("int32"),
        "hope": Column("float64", 0.5, key=("mind", "hope")),
        "richer": Column("int64", -1, seen=True),
    }

    def step_rows(self, rows: Rows) -> None:
        """Give to the next citizen, and look at the one after."""
        state, _ = rows.answers(Pay)
        rows["given"] += state == 1
        other = (rows.index + 2) % rows.citizens
        rows["richer"] = np.where(rows.seen("money")[other] > rows["money"], other, -1)
        rows["hope"] = rows.uniform("thrift.hope")
        gives = rows.below(3, "thrift.gives") > 0
        rows.want(Pay, gives, to=(rows.index + 1) % rows.citizens, cents=2)


def thrifty(count: int = 30) -> Population:
    return Population({"money": np.arange(count) % 3}, None, [Thrift()], 11)


def test_block_of_ones_own_is_the_same_in_rows() -> None:
    """Some have too little when it is their turn, and some only then enough."""
    asyncio.run(same(thrifty, 40))


async def test_full_agents_live_among_the_rows() -> None:
    expected = (await lived(thrifty(), 20, LocalEngine()))[-1]
    population = thrifty()
    population.promote(3)
    async with Society(population) as society:
        await society.run(steps=6)
        agent = population.promote("9")
        assert agent.status["mind"]["hope"] == population.columns["hope"][8]
        await society.run(steps=7)
        population.demote(3)
        await society.run(steps=7)
        assert society.ids() == ["9"]
        assert agent.status["given"] == population.columns["given"][8]
    assert differing([expected], [dict(population.columns)]) == []


async def test_promote_twice_or_unknown_is_refused() -> None:
    population = thrifty()
    population.promote(1)
    # `007` is another id than 7, as it is among agents.
    for wrong in (1, 99, "007", 2**64, "1" * 5000):
        with pytest.raises(ConfigError):
            population.promote(wrong)
    with pytest.raises(ConfigError, match="not a full agent"):
        population.demote(2)
    async with Society(population) as society:
        with pytest.raises(DefinitionError, match="is in a society already"):
            Society(population)
        society.add(Agent("2"))
        with pytest.raises(DuplicateAgent):
            population.promote(2)
        assert population.full.tolist() == [id == 0 for id in range(30)]
        society.remove("2")
        assert population.promote(2).id == "2"


async def test_intervention_payment_reaches_a_promoted_agent_in_its_step() -> None:
    had = []

    class Looking(WealthBlock):
        async def forward(self) -> None:
            had.append(self.status["money"])

    population = Population({"money": np.array([10, 20, 30])}, None, [WealthBlock()])
    agent = population.promote(2, blocks=[Looking()])
    async with Society(population) as society:
        with pytest.raises(ConfigError, match="takes an Intervention, got 'rain'"):
            society.intervene("rain")  # type: ignore[arg-type]
        society.intervene(Intervention(0, pay=[(2, 1, 5), (3, 2, 7), (1, 2, 99)]))
        row = await society.step()
        assert had == [22]
        assert agent.status["money"] == population.columns["money"][1] >= 22
        assert [why for _, _, why in society.failures] == ["pay: 1 has 15 cents, not 99"]
        assert (row["failures"], row["owned"]) == (1, 60)


@pytest.mark.parametrize("form", ("dict", "arrow", "parquet"))
def test_population_is_made_of_a_table(form: str, tmp_path: Path) -> None:
    table: Any = {"id": np.array([7, 3]), "money": np.array([70, 30]), "age": np.array([40, 20])}
    if form != "dict":
        table = pa.table(table)
    if form == "parquet":
        pq.write_table(table, tmp_path / "people.parquet")
        table = tmp_path / "people.parquet"
    population = Population(table, None, [WealthBlock()])
    assert population.ids.tolist() == [3, 7]
    assert Population({"id": np.array([2**64 - 1, 5], np.uint64)}).row_of(2**64 - 1) == 1
    assert population.columns["money"].tolist() == [30, 70]
    assert population.status_of(population.row_of(7))["age"] == 40
    assert population.to_arrow().to_pydict()["id"] == [3, 7]


def test_population_table_names_places_and_has_lists_of_several_values() -> None:
    class Kept(RowBlock):
        columns: ClassVar = {
            "two": Column("int8", width=2),
            "home": Column("place", None),
            "mood": Column("int8", words=(None, "low", "high")),
            "part": Column("float32"),
        }

    homes = np.array(["1,0", None, "0,0"], object)
    moods = np.array(["high", None, "low"], object)
    table = {"home": homes, "two": np.array([[1, 2], [3, 4], [5, 6]]), "mood": moods}
    made = Population(table, Grid(2, 1), [Kept()])
    read = Population(made.to_arrow(), Grid(2, 1), [Kept()])
    for each in (made.to_arrow(), read.to_arrow()):
        assert each.to_pydict()["home"] == ["1,0", None, "0,0"]
        assert each.to_pydict()["two"] == [[1, 2], [3, 4], [5, 6]]
        assert each.to_pydict()["mood"] == ["high", None, "low"]
    with pytest.raises(ConfigError, match='mood must be one of low, high, got "mad"'):
        Population({"mood": np.array(["low", "mad"])}, Grid(2, 1), [Kept()])
    for name, wrong, why in (
        ("home", -2, "texts, or numbers from -1 to 1"),
        ("home", 2, "texts, or numbers from -1 to 1"),
        ("mood", -1, "texts, or numbers from 0 to 2"),
        ("mood", 3, "texts, or numbers from 0 to 2"),
        ("part", 1e300, "finite numbers of float32"),
    ):
        with pytest.raises(ConfigError, match=f"column '{name}' must be {why}"):
            Population({name: np.array([wrong])}, Grid(2, 1), [Kept()])
    with pytest.raises(ConfigError, match="column 'two' must have lists of one length"):
        Population(pa.table({"two": [[1, 2], [3]]}), Grid(2, 1), [Kept()])


@pytest.mark.parametrize(
    ("table", "why"),
    (
        ({"id": np.array([1, 1]), "money": np.zeros(2, int)}, "id 1 appears twice"),
        ({"money": np.array([1.5])}, "column 'money' must be int64"),
        ({"money": np.array([-1])}, "0 or more"),
        ({"a": np.zeros(2), "b": np.zeros(3)}, "has 3 entries, another 2"),
        ({"id": np.array([-1])}, "whole numbers from 0 up"),
        ({"name": np.array([b"Ada"])}, "must be of numbers or of texts"),
        ({"hope": np.array([np.nan]), "money": np.array([1])}, "must be finite"),
        ({"money": np.zeros((1, 2), int)}, r"must have the shape \(1,\), got \(1, 2\)"),
        (2**31, "1 to 2,147,483,647 citizens"),
        ({"given": np.array([1 << 40])}, "column 'given' has values that are not of int32"),
        ({"money": np.array([], int)}, "column 'money' must have an entry for each citizen"),
        (0, "1 to"),
        ("people.txt", "must be .parquet, .csv or .tsv"),
        ("people.parquet", "people.parquet cannot be read: FileNotFoundError"),
        ([1, 2], "citizens must be how many"),
    ),
)
def test_population_refuses_a_wrong_table(table: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Population(table, None, [Thrift()])


@pytest.mark.parametrize("rows", (True, False))
async def test_population_tables_empty_cell_is_none_in_a_status(rows: bool) -> None:
    population = Population({"income": [np.nan, 2.5]}, None, [Thrift()])
    question = Question("income", "?", "number", by=lambda one: one.status["income"])
    async with Society(population if rows else promoted(population)) as society:
        if rows:
            assert population.promote(1).status["income"] is None
        await society.run(steps=2)
        answers = await society.survey(Survey("s", [question]))
        assert [answer.value for answer in answers] == [None, 2.5]
        if rows:
            population.demote(1)
    assert np.array_equal(population.columns["income"], [np.nan, 2.5], equal_nan=True)


@pytest.mark.parametrize("wrong", ("x", 1.5, None, 1 << 40, [1, 2]))
async def test_intervention_value_that_does_not_fit_its_column_changes_nothing(wrong: Any) -> None:
    population = thrifty()
    ada, values = population.promote(1), {"given": wrong}
    async with Society(population) as society:
        before = population.columns["given"].tolist()
        society.intervene(Intervention(0, status=values))
        row = await society.step()
        assert row["failures"] == 1
        assert "given must fit its column of int32" in society.failures[0][2]
        assert ada.status["given"] == before[0] == 0
        if wrong is not None:  # which says nothing of it
            with pytest.raises(ConfigError, match="citizen 1: given must fit its column of int32"):
                ada.status["given"] = wrong


async def test_want_that_names_nobody_and_nowhere_costs_its_answer_alone() -> None:
    class Odd(WealthBlock):
        """Wants what cannot be."""

        async def forward(self) -> None:
            for to in (["x"], {}):
                self.want(Pay(to, 1))  # type: ignore[arg-type]
                self.want(Move(to))  # type: ignore[arg-type]

    city = City.generate(seed=1, citizens=10)
    population = Population(3, city, [WealthBlock()])
    ada = population.promote(2, blocks=[Odd()])
    async with Society(population) as society:
        rows = await society.run(steps=2)
        assert [row["failures"] for row in rows] == [0, 0]
        told = [answer.reason for answer in ada.perceived.answers]
    assert sorted(told) == [
        "there is no ['x'] to pay",
        "there is no place ['x']",
        "there is no place {}",
        "there is no {} to pay",
    ]


@pytest.mark.parametrize("city", (None, Grid(2, 1, capacity=None)), ids=("no city", "a grid"))
async def test_rows_that_cannot_go_are_refused_and_the_others_stay(city: Any) -> None:
    class Goes(RowBlock):
        """Goes to the place of its column."""

        columns: ClassVar = {"to": Column("int64"), "done": Column("int8")}

        def step_rows(self, rows: Rows) -> None:
            """Go."""
            rows["done"] = rows.answers(Move)[0]
            rows.want(Move, to=rows["to"])

    table = {"to": np.array([0, 5, -1])} | ({"place": np.zeros(3, int)} if city else {})
    population = Population(table, city, [Goes()])
    async with Society(population) as society:
        rows = await society.run(steps=2)
    assert population.columns["done"].tolist() == [1 if city else -1, -1, -1]
    assert [row["moving"] for row in rows] == [0, 0]


@pytest.mark.parametrize("count", (1, 2))
async def test_population_of_one_or_two_citizens_lives(count: int) -> None:
    city = City.generate(seed=1, citizens=10)
    async with Society(Population(count, city, all_blocks(), seed=1)) as society:
        rows = await society.run(steps=30)
    assert rows[0]["home"] == count


def test_population_network_has_as_many_nodes_as_citizens() -> None:
    with pytest.raises(ConfigError, match="4 nodes, and there are 5 citizens"):
        Population(5, network=Network.small_world(4, neighbours=2, seed=0))


async def test_rows_beside_a_full_agent_count_their_neighbours() -> None:
    class Counting(RowBlock):
        """Counts what its neighbours have."""

        columns: ClassVar = {"has": Column("int64", seen=True), "near": Column("int64")}

        def step_rows(self, rows: Rows) -> None:
            """Count."""
            assert (rows.params, rows.citizens) == (self.params, 8)
            rows["near"] = rows.neighbour_sum(rows.seen("has"))

    near, seen = [], []
    for full in ((), (3,)):
        network = Network.small_world(8, neighbours=2, seed=0)
        population = Population({"has": np.arange(8)}, None, [Counting()], network=network)
        agents = [population.promote(id) for id in full]
        async with Society(population) as society:
            await society.run(steps=1)
        near.append(population.columns["near"].tolist())
        seen += [
            sum(agent.perceived.seen("has", id) for id in agent.perceived.neighbours)
            for agent in agents
        ]
    assert near[1] == near[0]
    assert seen == [near[0][2]]


class Wrong(RowBlock):
    """Does what its test has it do."""

    columns: ClassVar = {
        "mine": Column("float64"),
        "seen": Column("int64", seen=True),
        "tiny": Column("int8"),
    }
    what: Callable[[Any], object]

    def step_rows(self, rows: Rows) -> None:
        """Whatever the test says."""
        type(self).what(rows)


@pytest.mark.parametrize(
    ("what", "why"),
    (
        (lambda rows: rows.__setitem__("mine", np.zeros(3)), r"must have the shape \(8,\), got"),
        (lambda rows: rows.__setitem__("mine", np.full(8, np.nan)), "not finite, of citizen 1"),
        (lambda rows: rows.__setitem__("seen", np.full(8, 0.5)), "column 'seen' is int64"),
        (lambda rows: rows.__setitem__("money", np.ones(8, int)), "does not declare"),
        (lambda rows: rows["nothing"], "there is no column 'nothing'"),
        (lambda rows: rows["money"].__setitem__(0, 1), "read-only"),
        (lambda rows: rows.seen("money").__setitem__(0, 1), "read-only"),
        (lambda rows: rows.seen("seen").sort(), "read-only"),
        (lambda rows: rows.ids.__setitem__(0, 9), "read-only"),
        (
            lambda rows: rows.__setitem__("tiny", 100 * rows.index),
            "'tiny' that does not fit int8, of citizen 3 in step 0",
        ),
        (lambda rows: rows.__setitem__("tiny", -129), "does not fit int8, of citizen 1"),
        (lambda rows: rows.seen("mine"), "seen=True"),
        (lambda rows: rows.want(Pay, np.array([8]), to=0, cents=1), "rows of other people"),
        (lambda rows: rows.want(Pay, to=np.zeros(3, int), cents=1), "one for each of 8 rows"),
        (lambda rows: rows.want(Pay, to=0, cent=1), "Pay has no field 'cent'"),
        (lambda rows: rows.want(Move, to="nowhere"), 'no place "nowhere"'),
        (lambda rows: rows.neighbour("p"), "needs a network"),
        (lambda rows: rows.neighbour_sum(np.zeros(8)), "sums integers"),
        (lambda rows: rows.neighbour_sum(rows["seen"]), "takes a column of all 8 citizens"),
        (lambda rows: rows.__setitem__("mine", None), "'mine' is float64, got object"),
        (lambda rows: rows.want(Pay, np.array([-1]), to=0, cents=1), "rows of other people"),
        (lambda rows: rows.want_each(Pay, [0, 8], to=0, cents=1), "rows of other people"),
        (lambda rows: rows.want_each(Pay, np.array([-1]), to=0, cents=1), "rows of other people"),
        (lambda rows: rows.want(Pay, np.ones(3, bool), to=0, cents=1), "must have 8 entries"),
        (lambda rows: rows.want(Pay, to=0), "Pay needs cents="),
        (lambda rows: rows.want(Pay, to=0, cents=0.5), "must be whole numbers"),
        (lambda rows: rows.want(Want), "rows can want Move, Pay"),
        (lambda rows: rows.want(Pay, to=0, cents=1, what="x"), '"x" must be declared in a block'),
        (lambda rows: rows.say(np.full(8, 8), ""), "say names a row beyond 7"),
        (lambda rows: rows.__setitem__("mine", np.ones(8, complex)), "'mine' is float64"),
    ),
)
async def test_row_block_mistake_is_named(what: Callable[[Any], object], why: str) -> None:
    Wrong.what = staticmethod(what)
    async with Society(Population(8, None, [Wrong()])) as society:
        with pytest.raises((ConfigError, ValueError), match=why) as caught:
            await society.step()
    assert "in block 'Wrong' of the population: step_rows" in caught.value.__notes__[0]


async def test_promote_within_a_step_is_refused() -> None:
    Wrong.what = staticmethod(lambda rows: population.promote(3))
    population = Population(8, None, [Wrong()])
    async with Society(population) as society:
        with pytest.raises(StateError, match="step 0 is under way: wait for it"):
            await society.step()
        assert not society.ids()


@pytest.mark.parametrize(("to", "money"), ((2, (9, 9)), (-1, (9, 9)), (-1, (0, 9))))
async def test_row_payment_to_no_row_and_no_service_is_said(
    to: int, money: tuple[int, int]
) -> None:
    Wrong.what = staticmethod(lambda rows: rows.want(Pay, to=[1, to], cents=1))
    async with Society(Population({"money": money}, None, [Wrong()])) as society:
        with pytest.raises(ConfigError, match=f"citizen 2 wants Pay to={to}, which is no row"):
            await society.step()


@pytest.mark.parametrize("hook", ("begin_rows", "step_rows", "fits_rows", "after_rows"))
def test_rule_for_rows_that_is_async_is_refused_since_nothing_awaits_it(hook: str) -> None:
    async def rule(self: RowBlock, rows: Rows) -> None:
        """Do nothing, ever."""

    block = type("Slow", (Thrift,), {hook: rule})()
    with pytest.raises(ConfigError, match=f"block 'Slow': {hook} must be a plain function"):
        Population(3, None, [block])
    block = type("Bare", (Thrift,), {hook: lambda self: None})()
    with pytest.raises(ConfigError, match=rf"block 'Bare': {hook} must be a function of \(rows\)"):
        Population(3, None, [block])


def test_column_declared_in_two_ways_is_refused() -> None:
    class Other(RowBlock):
        columns: ClassVar = {"mine": Column("int32")}

    with pytest.raises(ConfigError, match="declares the column 'mine' otherwise"):
        Population(3, None, [Wrong(), Other()])
    with pytest.raises(ConfigError, match="blocks must be citizens' blocks, got 3"):
        Population(3, None, [3])
    for wrong in ({"width": 0}, {"dtype": "text"}):
        with pytest.raises(ConfigError, match="a column's"):
            Column(**wrong)


@pytest.mark.parametrize(
    "wrong",
    (
        {"dtype": "int8", "default": 300},
        {"dtype": "uint8", "default": -1},
        {"dtype": "int32", "default": 1.5},
        {"dtype": "int8", "default": math.nan},
        {"dtype": "bool", "default": 2},
        {"dtype": "float32", "default": "x"},
        {"dtype": "place", "default": -5},
        {"dtype": "int8", "default": 1, "width": 3, "slots": True},
    ),
)
def test_column_default_that_its_type_does_not_hold_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="a column's default must be"):
        Column(**wrong)


async def test_block_without_a_rule_for_rows_lives_in_agents_alone() -> None:
    class Alone(CitizenBlock):
        """Has a rule for one citizen."""

        async def forward(self) -> None:
            """Nothing."""

    with pytest.raises(ConfigError, match="'Alone' has no `step_rows` of its own, and cannot"):
        Society(Population(3, None, [Alone()]))
    population = Population(3, None, [])
    population.promote(2, blocks=[Alone()])
    async with Society(population) as society:
        assert (await society.step())["failures"] == 0


async def test_row_block_with_no_rule_at_all_says_what_it_must_define() -> None:
    class Empty(RowBlock):
        """Has no rule."""

    async with Society(Population(3, None, [Empty()])) as society:
        with pytest.raises(NotImplementedError, match="Empty must define `def step_rows"):
            await society.step()


async def test_full_agent_follows_rules_before_and_after_and_how_well_they_fit() -> None:
    class Rests(RowBlock):
        """Rests after every third step, and says so to the next citizen."""

        columns: ClassVar = {"tired": Column("int8"), "rests": Column("int8"), "told": Column()}
        words = ("rest",)

        def before_rows(self, rows: Rows) -> None:
            """Count what is heard, and grow tired."""
            rows["told"] += rows.heard_count()
            rows["tired"] += 1

        def fits_rows(self, rows: Rows) -> Any:
            """It fits who is tired."""
            return (rows["tired"] > rows.ids % np.uint64(3)).astype("float32")

        def step_rows(self, rows: Rows) -> None:
            """Rest, and tell the next."""
            rows["rests"] += 1
            rows.say((rows.index + 1) % rows.citizens, "rest")

        def after_rows(self, rows: Rows) -> None:
            """Be awake again."""
            rows["tired"][rows["tired"] > 2] = 0

    def made() -> Population:
        return Population(9, None, [Rests()])

    rows = await lived(made(), 8, LocalEngine())
    assert differing(rows, await lived(made(), 8, LocalEngine(apart=True))) == []
    assert differing(rows, await lived(promoted(made()), 8, LocalEngine())) == []
    some = made()
    for id in (2, 3, 9):
        some.promote(id)
    assert differing(rows, await lived(some, 8, LocalEngine())) == []
    assert len({*rows[-1]["rests"].tolist()}) > 1
    assert rows[-1]["told"].any()


async def test_full_agent_cannot_leave(caplog: pytest.LogCaptureFixture) -> None:
    class Leaves(RowBlock):
        """Leaves in the second step."""

        def step_rows(self, rows: Rows) -> None:
            """Leave."""
            if rows.step == 1:
                rows.remove()

    population = Population(4, None, [Leaves()])
    population.promote(2)
    async with Society(population) as society:
        await society.run(steps=2)
        what = {who: text for _, who, text in society.failures}
    assert "demote it" in what["2"]
    assert population.ids.tolist() == [2]


def test_rule_for_rows_says_that_it_needs_a_population() -> None:
    agent = CitizenAgent(1, blocks=[Thrift()])
    with pytest.raises(ConfigError, match="citizen 1 is not of a Population"):
        asyncio.run(agent.run())


async def test_full_agent_sees_what_is_declared_and_leaves_what_fits() -> None:
    population = thrifty()
    async with Society(population) as society:
        agent = population.promote(3)
        await society.step()
        assert agent.perceived.citizens == 30
        seen = agent.perceived.seen("richer", agent.perceived.citizen(4))
        assert seen == -1  # as before the step
        with pytest.raises(ConfigError, match="'given' with seen=True"):
            agent.perceived.seen("given")
        with pytest.raises(ConfigError, match="there is no network"):
            agent.perceived.neighbours  # noqa: B018 - it is looked for then
        for wrong in ("many", 2**70, [1, 2]):
            with pytest.raises(ConfigError, match="citizen 3: given must fit its column"):
                agent.status["given"] = wrong
        agent.status["given"] = 1
        for unsure in (math.nan, math.inf, [0.5]):
            with pytest.raises(ConfigError, match="citizen 3: hope must fit its column"):
                agent.status["mind"]["hope"] = unsure


async def test_service_knows_a_citizen_as_it_is_now_whether_agent_or_row() -> None:
    class Asks(Service):
        takes = (Save,)

        def settle(self, books: Any, sender: str, want: Want) -> Answer:
            asked.append((sender, books.status_of(sender)["count"]))
            return Answer(want, True)

    class Counts(RowBlock):
        """Counts the steps, and asks."""

        columns: ClassVar = {"count": Column("int64")}

        def step_rows(self, rows: Rows) -> None:
            """The same for rows."""
            rows["count"] += 1
            rows.want(Save, cents=1)

    asked: list[tuple[str, int]] = []
    population = Population(3, None, [Counts()])
    population.promote(2)
    async with Society(population, services=[Asks("bank")]) as society:
        await society.run(steps=2)
        one, two = (society.respondent(id).perceived.answers for id in (1, 2))
        assert [(each.want, each.done) for each in one] == [(Save(1), True)]
        assert one[0].want == two[0].want
    assert sorted(asked, key=lambda each: each[::-1]) == [
        (id, step) for step in (1, 2) for id in "123"
    ]


async def test_row_that_wants_several_ways_takes_the_first_that_is_free() -> None:
    class Tries(RowBlock):
        """Tries two cells."""

        columns: ClassVar = {"one": Column("int64"), "two": Column("int64")}

        def step_rows(self, rows: Rows) -> None:
            """The same for rows."""
            for name in ("one", "two"):
                rows.want(Move, to=rows[name])

    made: list[Population] = []

    def three() -> Population:
        table = {"place": np.arange(3), "one": [1, 4, 0], "two": [3, 3, 4]}
        made.append(Population(table, Grid(5, 1), [Tries()]))
        return made[-1]

    await same(three, 1)
    # The first finds cell 1 taken; the others are on their way once they try again.
    assert [each.columns["place"].tolist() for each in made] == [[3, 4, 0]] * 3


async def test_services_at_several_places_settle_many_at_a_time_each_its_own() -> None:
    class Stall(Service):
        takes = (Buy,)

        def settle(self, books: Any, sender: str, want: Want) -> Answer:
            raise AssertionError("they are settled together")

        def settle_rows(self, books: Any, table: Any, entries: Any) -> None:
            came[self.id] = sorted((table.sender[entries] + 1).tolist())
            table.done(entries, np.ones(len(entries), bool), table.fields["cents"][entries] * 10)

    class Buys(RowBlock):
        """Buys for as many cents as its number, where it is."""

        columns: ClassVar = {"got": Column("int64")}
        words = ("tea",)

        def step_rows(self, rows: Rows) -> None:
            """Buy."""
            rows["got"] = rows.answers(Buy)[1]
            rows.want(Buy, place=rows["place"], kind="tea", cents=rows.index + 1)

    came: dict[str, list[int]] = {}
    grid = Grid(3, 1, capacity=None)
    population = Population({"place": np.arange(7) % 3}, grid, [Buys()])
    stalls = [Stall("firm-1", place="0,0"), Stall("firm-2", place="2,0")]
    async with Society(population, services=stalls) as society:
        await society.run(steps=2)
    assert came == {"firm-1": [1, 4, 7], "firm-2": [3, 6]}
    assert population.columns["got"].tolist() == [10, 0, 30, 40, 0, 60, 70]


async def test_row_block_is_given_rows_or_is_not_called() -> None:
    class Most(RowBlock):
        """Needs somebody to take the most of."""

        columns: ClassVar = {"most": Column("int64")}

        def step_rows(self, rows: Rows) -> None:
            """Fail without rows."""
            rows["most"] = rows.index.max()

    population = Population(4, None, [Most()])
    async with Society(population, engine=LocalEngine(threads=2)) as society:
        population.promote(1)
        population.promote(2)  # all that the first thread would have
        await society.step()
    assert population.columns["most"].tolist() == [0, 1, 3, 3]


async def test_population_refuses_the_state_of_another() -> None:
    async with Society(thrifty()) as society:
        await society.step()
        state = society.state_dict()
        columns = {each[0]: each for each in state["columns"]}
        columns["column.given"][1] = "|O"
        with pytest.raises(StateError, match="is damaged: ValueError"):
            society.load_state_dict(state)
        columns["column.given"][1] = "<i4"
        society.load_state_dict(state)
    fewer = Population({"money": np.arange(20) % 3}, None, [Thrift()], 11)
    async with Society(fewer) as society:
        with pytest.raises(StateError, match=r"of shape \(30,\), and the population's .* \(20,\)"):
            society.load_state_dict(state)
    async with Society(Population(30, None, [], 11)) as society:
        with pytest.raises(StateError, match="and the population differ by the column 'given'"):
            society.load_state_dict(state)


async def test_interventions_and_surveys_reach_rows() -> None:
    population = opinions(2, citizens=50)
    async with Society(population) as society:
        society.intervene(Intervention(1, status={"opinion": 0.25}, citizens=["4", "99"]))
        society.intervene(Intervention(1, pay=[("1", "2", 1), ("1", "99", 1)]))
        society.intervene(Intervention(1, status={"mood": {"now": 1}}))
        await society.run(steps=2)
        assert [failure[2] for failure in society.failures] == [
            "status: there is no citizen '99'",
            "pay: 1 has 0 cents, not 1",
            "pay: there is no 99 who could be paid",
            "status: the population has no column for mood.now",
        ]
        mean = Question(
            "hope", "How hopeful are you?", "number", by=lambda one: one.status["opinion"]
        )
        answers = await society.survey(Survey("hope", [mean]), ["4", 30])
        assert [(answer.citizen, answer.source) for answer in answers] == [
            ("4", "rule"),
            ("30", "rule"),
        ]
        assert society.respondent(4).status["opinion"] == population.columns["opinion"][3]


async def test_rows_move_through_a_city_and_are_on_its_map() -> None:
    city = City.generate(seed=1, citizens=40)
    park = city.by_kind("park")[0]
    goal = city.ids().index(park)

    class Commute(RowBlock):
        """Goes to a park, and home again."""

        columns: ClassVar = {"home": Column("place", None)}

        def step_rows(self, rows: Rows) -> None:
            """The same for rows."""
            at, home = rows["place"], rows["home"]
            rows.want(Move, at >= 0, to=np.where(at != home, home, goal))

    homes = [city.ids().index(home) for home in city.by_kind("home")]
    homes = np.repeat(homes, [city.capacity(home) or 1 for home in city.by_kind("home")])

    def town() -> Population:
        return Population({"home": homes[:40].astype(np.int32)}, city, [Commute()], 3)

    await same(town, 30)
    async with Society(town()) as society:
        rows = await society.run(steps=3)
        assert rows[0]["moving"] == 40
        here = society.positions()
        assert here is not None
        assert len(here.ids) == 40
        assert None not in here.x


async def test_column_of_slots_keeps_what_is_written_for_all() -> None:
    class Notes(RowBlock):
        """Counts in each of six places."""

        columns: ClassVar = {"notes": Column("int16", width=6, slots=True)}

        def step_rows(self, rows: Rows) -> None:
            rows["notes"] += np.int16(1)

    population = Population(3, None, [Notes()])
    async with Society(population) as society:
        await society.run(steps=2)
        state = society.state_dict()
    assert population.columns["notes"].tolist() == [[2] * 6] * 3
    again = Population(3, None, [Notes()])
    async with Society(again) as society:
        society.load_state_dict(state)
    assert again.columns["notes"].tolist() == [[2] * 6] * 3


async def test_intervention_reaches_rows_with_all_of_its_values() -> None:
    class Marked(RowBlock):
        """Does nothing."""

        columns: ClassVar = {
            **{name: Column("int64") for name in ("a", "b", "mark")},
            "pair": Column("int16", width=2),
        }

        def step_rows(self, rows: Rows) -> None:
            """Nothing."""

    population = Population({"a": np.array([1, 1, 2]), "b": np.array([2, 3, 2])}, None, [Marked()])
    async with Society(population) as society:
        society.intervene(Intervention(0, status={"mark": 7}, citizens={"a": 1, "b": 2}))
        agent, other = population.promote(1), population.promote(2)
        await society.run(steps=1)
        assert (agent.status["mark"], other.status["mark"]) == (7, 0)
        for pair, whose in (([3, 4], [2, 3]), ([5, 5], {"pair": [3, 4]}), (6, [3]), ([6], [3])):
            society.intervene(Intervention(1, status={"pair": pair}, citizens=whose))
        for pair in (0, [0], [0, 0, 0]):  # nobody has this
            society.intervene(Intervention(1, status={"mark": 8}, citizens={"pair": pair}))
        await society.run(steps=1)
        told = [failure[2] for failure in society.failures]
        assert told == [
            *(f"status: pair must fit its column of int16, got {n}" for n in ("6", "array")),
            *(f"citizens: nobody has pair {n}" for n in ("0", "array", "array")),
        ]
    assert population.columns["mark"].tolist() == [7, 0, 0]
    assert population.columns["pair"].tolist() == [[0, 0], [5, 5], [5, 5]]


@pytest.mark.parametrize("order", ("in a row", "mixed"))
async def test_rows_moving_into_places_that_others_leave_equal_objects(order: str) -> None:
    """Cells hold one each, and all go on: who is heard before one makes room or not."""
    city = Grid(60, 1, torus=True)
    homes = {
        "in a row": np.arange(50),
        "mixed": np.random.default_rng(1).permutation(60)[:50],
    }[order]

    class Crowd(RowBlock):
        """Goes on, or at random elsewhere."""

        columns: ClassVar = {"home": Column("place", None)}

        def step_rows(self, rows: Rows) -> None:
            """The same for rows."""
            at = rows["place"]
            to = (at + 1 + rows.below(2 if order == "mixed" else 1, "far")) % 60
            rows.want(Move, at >= 0, to=to)

    def crowd() -> Population:
        return Population({"home": homes.astype(np.int32)}, city, [Crowd()], 3)

    await same(crowd, 12)
    async with Society(crowd()) as society:
        moved = (await society.run(steps=1))[0]["moving"]
    assert 1 < moved < 50


async def test_rows_on_the_way_keep_their_reservation() -> None:
    """The second sets out when the first, who has the only place, has not arrived."""
    city = Grid(5, 1, cell_seconds=2000)
    middle = city.ids().index("2,0")

    class Late(RowBlock):
        """Sets out in the step that has its number."""

        columns: ClassVar = {"home": Column("place", None)}

        def step_rows(self, rows: Rows) -> None:
            """The same for rows."""
            rows.want(Move, rows.ids == rows.step, to=middle)

    def two() -> Population:
        return Population({"home": np.array([0, 4], np.int32)}, city, [Late()])

    await same(two, 9)
    population = two()
    async with Society(population) as society:
        await society.run(steps=3)
        moving = population.status_of(0)["moving"]
        assert moving == {"to": "2,0", "arrives": 6, "mode": None, "from": "0,0", "left": 1}
        await society.run(steps=6)
    assert population.columns["place"].tolist() == [middle, 4]
    first, second = two(), two()
    async with Society(first) as society, Society(second) as branch:
        await society.run(steps=2)
        branch.load_state_dict(society.state_dict())  # the first is on the way
        await branch.run(steps=7)
    assert second.columns["place"].tolist() == [middle, 4]


def test_place_holds_its_number_at_the_start_or_any_without_a_number() -> None:
    many = {"place": np.full(9, 1)}
    with pytest.raises(ConfigError, match="9 citizens start at '0,1', which holds 8"):
        Society(Population(many, Grid(2, 2, capacity=8)))
    for capacity in (9, None):
        Society(Population(many, Grid(2, 2, capacity=capacity))).close()


async def test_metrics_are_functions_of_the_columns() -> None:
    population = Population(
        {"money": np.array([1, 5])},
        None,
        [WealthBlock()],
        metrics={"most": lambda c: c["money"].max()},
    )
    async with Society(population) as society:
        row = await society.step()
        with pytest.raises(ValueError, match="read-only"):  # what a metric sorts stays in place
            population.columns["money"].sort()
    assert row["money"] == 6
    assert row["most"] in range(3, 7)


@pytest.mark.parametrize(
    ("metric", "why"),
    (
        (lambda c: c["money"], r"metric 'own' must be a number, got array\(\[1, 5\]\)"),
        (lambda c: str(c["money"]), "metric 'own' must be a number, got '"),
        (lambda c: c["purse"], "'purse'"),
    ),
)
async def test_population_metric_that_measures_nothing_is_named(metric: Any, why: str) -> None:
    population = Population({"money": np.array([1, 5])}, blocks=(), metrics={"own": metric})
    async with Society(population) as society:
        with pytest.raises((ConfigError, KeyError), match=why) as raised:
            await society.step()
    assert "'own'" in f"{raised.value} {getattr(raised.value, '__notes__', '')}"


async def test_population_metric_that_holds_or_not_is_a_number_in_a_table(tmp_path: Path) -> None:
    population = Population(2, blocks=(), metrics={"poor": lambda c: (c["money"] < 1).all()})
    async with Society(population) as society:
        (row,) = await society.run(steps=1, out=tmp_path / "out")
    assert row["poor"] == 1


async def test_population_metric_replaces_no_column_of_the_row() -> None:
    async with Society(Population(2)) as society:
        measured = await society.step()
    for name in measured:
        with pytest.raises(ConfigError, match=f"metric '{name}' must have another name: each row"):
            Population(2, metrics={name: lambda columns: 1.0})


@pytest.mark.parametrize(
    ("given", "why"),
    (
        ({"metrics": [len]}, "metrics= must be a dict of functions by name, got \\[<built-in"),
        ({"metrics": {"own": 5}}, "metric 'own' must be a function of the columns, got 5"),
        ({"network": "random"}, "network= must be a Network, got 'random'"),
        ({"blocks": Thrift()}, "blocks must be a list of citizens' blocks, got <"),
    ),
)
def test_population_refuses_a_wrong_argument(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Population(3, **given)


@pytest.mark.parametrize("kind", ("rows", "agents", "full agents among the rows"))
async def test_intervention_says_the_same_to_rows_and_to_agents(kind: str) -> None:
    async def lived_with(*interventions: Intervention) -> tuple[list[Any], list[str]]:
        city = City.generate(seed=1, citizens=20)
        population = Population(20, city, all_blocks(), seed=1)
        population = promoted(population) if kind == "agents" else population
        async with Society(population, seed=1) as society:
            if kind == "full agents among the rows":
                population.promote(3)
            for each in interventions:
                society.intervene(each)
            await society.step()
            people = [society.respondent(id).status for id in range(1, 21)]
            return people, [failure[2] for failure in society.failures]

    before, _ = await lived_with()
    hungry = {"needs": {"hunger": 100}}
    women = {"profile": {"gender": "female"}}
    after, failures = await lived_with(Intervention(0, status=hungry, citizens=women))
    assert failures == []
    for was, now in zip(before, after, strict=True):
        is_chosen = was["profile"]["gender"] == "female"
        assert (now["needs"]["hunger"] <= 100) == is_chosen
        assert now["needs"]["safety"] == was["needs"]["safety"]
        assert now["profile"] == was["profile"]
    master = {"profile": {"education": "master"}}
    after, failures = await lived_with(Intervention(0, status=master))
    assert failures == []
    assert [each["profile"] for each in after] == [
        {**each["profile"], "education": "master"} for each in before
    ]
    minds = {"opinions": {"sport": 777}, "relations": {"9": 990}}
    after, failures = await lived_with(Intervention(0, status=minds, citizens=[3, 5]))
    assert failures == []
    for was, now, id in zip(before, after, range(1, 21), strict=True):
        changed = was["opinions"] | ({"sport": 777} if id in (3, 5) else {})
        assert now["opinions"] == changed
        assert (now["relations"].get("9", 0) >= 990) == (id in (3, 5))


async def test_intervention_for_those_that_no_column_can_tell_is_a_failure() -> None:
    async with Society(thrifty()) as society:
        society.intervene(Intervention(0, status={"given": 1}, citizens={"mood": "low"}))
        assert (await society.step())["failures"] == 1
        assert society.failures[0][2] == "citizens: the population has no column for mood"
    city = City.generate(seed=1, citizens=20)
    async with Society(Population(20, city, all_blocks(), seed=1)) as society:
        strange = {"opinions": {"sport": 5}, "mood": {"now": 1}, "hope": 2}
        society.intervene(Intervention(0, status=strange))
        assert (await society.step())["failures"] == 2
        told = {failure[2].rpartition(" ")[2] for failure in society.failures}
        assert told == {"mood.now", "hope"}


async def test_ways_of_rows_keep_their_time_if_steps_change_their_length() -> None:
    city = City.generate(seed=1, citizens=200)

    async def after(population: Population) -> dict[str, Any]:
        async with Society(population, start="2026-01-05T08:00") as society:
            await society.run(steps=2, step="20s")
            on_way = population.columns["moving_to"] >= 0
            due = (population.columns["arrives"][on_way] - society.number) * 20
            await society.run(steps=0, step="5s")
            assert on_way.any()
            assert (due == (population.columns["arrives"][on_way] - society.number) * 5).all()
            await society.run(steps=9, step="5s")
            ways = [society.respondent(id).status["moving"] for id in range(1, 201)]
            assert {way["mode"] for way in ways if way} <= {"walk", "cycle", "drive", "transit"}
            await society.run(steps=2, step="2h")
            columns = {name: np.array(each).tolist() for name, each in population.columns.items()}
            return {**columns, "ways": ways}

    def made() -> Population:
        return Population(200, city, all_blocks(), seed=1)

    assert await after(made()) == await after(promoted(made()))
