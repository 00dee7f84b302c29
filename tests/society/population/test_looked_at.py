"""Citizens in columns whom somebody takes go on as rows, until no row could do what they do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from moothall.foundation.errors import ConfigError, StateError
from moothall.society import (
    CitizenAgent,
    CitizenMemory,
    City,
    Feed,
    Intervention,
    Move,
    NeedsBlock,
    OtherBlock,
    Population,
    Service,
    Society,
    citizens,
    make_economy,
    make_people,
)
from moothall.society.blocks import all_blocks
from moothall.society.blocks.citizen_block import CitizenBlock

COUNT = 120
CITY = City.generate(seed=5, citizens=COUNT + 10)
LOOKED = (0, 6, 50, 77, 119)


def made(start: str = "2026-01-05T09:00", **options: Any) -> Society:
    """A town whose citizens live in columns."""
    services = [*make_economy(CITY, seed=5), Feed()]
    return Society(COUNT, CITY, seed=5, services=services, start=start, **options)


def of_agents() -> Society:
    """The same town of agents: a class of one's own has no citizens in columns."""

    class Own(Society):
        pass

    services = [*make_economy(CITY, seed=5), Feed()]
    town = Own(COUNT, CITY, seed=5, services=services, start="2026-01-05T09:00")
    assert town.rows is None
    return town


def known(agent: Any) -> str:
    """All that a citizen is and remembers, byte by byte."""
    box = agent.space_mailbox
    return json.dumps([agent.id, agent.name, agent.memory.state_dict(), repr([*box.answers])])


def alike(town: Society, agents: Society, exactly: bool = True) -> None:
    """Fail where a town differs from one of agents, looking at all citizens."""
    assert town.metrics == agents.metrics
    assert town.failures == agents.failures
    assert town.books.state_dict() == agents.books.state_dict()
    for mine, theirs in zip([*town.agents], [*agents.agents], strict=True):
        for name, value in theirs.status.items():
            own = mine.status.get(name)
            if name == "plan":  # a row's does not say where it went
                own, value = (each[theirs.status["now"] :] for each in (own, value))
            elif name == "stuck":
                own, value = bool(own), bool(value)
            assert own == value, (mine.id, name)


@pytest.mark.parametrize("before", (0, 3))
async def test_taken_citizen_lives_as_in_a_town_of_agents(before: int) -> None:
    async with made() as town, made() as agents:
        for each in (town, agents):
            if before:
                await each.run(steps=before)
        every = [*agents.agents]
        some = [town.agents[number] for number in LOOKED]
        assert [each.id for each in some] == [number + 1 for number in LOOKED]
        for _ in range(6):
            for number, one in zip(LOOKED, some, strict=True):
                assert known(one) == known(every[number])
                assert town.agents[number] is one
            assert await town.step() == await agents.step()
        assert town.rows is not None
        assert town.ids() == agents.ids()
        alike(town, agents)
        assert not town.population.full.any()
        assert [town.agents[number] for number in LOOKED] == some  # they have stayed the same
        assert await town.run(steps=3) == await agents.run(steps=3)
        alike(town, agents)
        assert [known(each) for each in some] == [known(every[number]) for number in LOOKED]


@pytest.mark.parametrize("id", ("007", "1234567890123456789"))
async def test_citizen_comes_among_rows_whatever_its_number_looks_like(id: str) -> None:
    seen = []
    for town in (made(), of_agents()):
        async with town:
            town.add(CitizenAgent(id, memory=CitizenMemory({"home": "park-1"})))
            rows = await town.run(steps=2)
            seen.append((rows, town.books.where[id], town.ids()))
    assert seen[0] == seen[1]
    assert seen[0][1:] == ("park-1", [*map(str, range(1, COUNT + 1)), id])


async def test_agents_of_columns_are_a_sequence() -> None:
    async with made() as town:
        agents: Any = town.agents
        assert len(agents) == COUNT
        assert agents[-1].id == COUNT
        assert [each.id for each in agents[2:5]] == [3, 4, 5]
        assert town.agents[0].space is town
        with pytest.raises(IndexError):
            agents[COUNT]
        with pytest.raises(TypeError):
            agents["1"]
        assert [each.id for each in agents] == [*range(1, COUNT + 1)]
        assert town.rows is not None
        assert not town.population.full.any()


def hungry(town: Society) -> None:
    """Change a need of one."""
    town.agents[8].status["needs"]["hunger"] = 100


def remembering(town: Society) -> None:
    """Have one remember something."""
    town.agents[8].memory.note(town.number, "Heard: the mill burns")


def attributed(town: Society) -> None:
    """Give one an attribute that no column has."""
    town.agents[8].status["profile"]["hobby"] = "chess"


def going(town: Society) -> None:
    """Have one want to go to a place."""
    town.agents[8].want(Move("park-1"))


def telling(town: Society) -> None:
    """Have one tell another, who is a row, what a row says."""
    other = town.agents[8].status["relations"]
    args = {"content": "Good to see you.", "topic": "music", "opinion": 900}
    town.agents[8].send({"to": next(iter(other)), "action": {"name": "say", "args": args}})


def lettered(town: Society) -> None:
    """Have one tell another, who is a row, what no row can keep."""
    args = {"content": "Meet me at the old mill, as we said."}
    town.agents[8].send({"to": "21", "action": {"name": "say", "args": args}})


def asking(town: Society) -> None:
    """Have one send a row something that is not said."""
    town.agents[8].send({"to": "22", "action": {"name": "help", "args": {}}})


def shouting(town: Society) -> None:
    """Have one tell all what no row can keep."""
    args = {"content": "The mill burns!"}
    town.agents[8].send({"to": "*", "action": {"name": "say", "args": args}})


async def test_taken_citizen_changed_by_a_program_has_the_effect_it_has_among_agents() -> None:
    async with made() as town, of_agents() as agents:
        every = [*agents.agents]
        for each in (town, agents):
            await each.run(steps=2)
            for write in (hungry, remembering, attributed, going, telling):
                write(each)
            await each.run(steps=1)
        assert town.rows is not None
        assert not town.population.full.any()
        for each in (town, agents):
            lettered(each)
            asking(each)
            await each.run(steps=1)
        assert town.population.full.sum() == 3  # the asking one has an answer
        for number in (20, 21):
            one, other = town.agents[number], every[number]
            assert one.perceived.messages == other.perceived.messages
            assert number != 20 or one.perceived.messages
        for each in (town, agents):
            await each.run(steps=2)
        assert town.population.full.sum() == 3
        alike(town, agents)


@pytest.mark.parametrize(
    ("path", "value", "why"),
    (
        ("money", 10**9, "only the commit stage changes its 'money'"),
        ("moving", {}, "only the commit stage changes its 'moving'"),
        ("home", "the moon", 'there is no place "the moon"'),
        ("opinions", {"chess": 5}, "the topic 'chess' is not one of the block's topics"),
        ("plan", [{"do": "eat", "where": None, "from": 9, "until": 99}], "must follow one another"),
        ("needs.hunger", "much", "hunger must fit its column of int16"),
    ),
)
async def test_status_of_a_taken_citizen_refuses_what_no_column_can_have_and_stays(
    path: str, value: object, why: str
) -> None:
    async with made() as town:
        await town.run(steps=1)
        status = town.agents[8].status
        before = status.copy()
        *parts, key = path.split(".")
        with pytest.raises(ConfigError, match=f"citizen 9: .*{why}"):
            (status[parts[0]] if parts else status)[key] = value
        assert status == before
        assert json.loads(json.dumps(status)) == before


async def test_status_of_a_taken_citizen_is_read_and_written_as_a_dict() -> None:
    async with made() as town:
        status = town.agents[8].status
        status.update(hobby="chess", needs={"hunger": 400})
        status["needs"]["energy"] -= 1
        friend, *_ = status["relations"]
        status["relations"][friend] = 321
        status["plan"] = [{"do": "sleep", "where": None, "from": 0, "until": 86_400}]
        status["plan"][0]["do"] = "eat"
        assert status.pop("hobby") == "chess"
        assert status.setdefault("hat", "red") == "red"
        del status["opinions"][next(iter(status["opinions"]))]
        again = town.population.status_of(8)  # type: ignore[union-attr]
        assert again["needs"]["hunger"] == 400
        assert again["needs"]["energy"] == status["needs"]["energy"]
        assert again["relations"][friend] == 321
        assert again["plan"][0]["do"] == "eat"
        assert {*again} - {*status} == {*status} - {*again} - {"hat"} == set()
        assert status.get("none") is None
        assert "none" not in status


@pytest.mark.parametrize("write", (shouting,))
async def test_agent_among_rows_shows_and_says_what_no_row_can_as_in_a_town_of_agents(
    write: Callable[[Society], None],
) -> None:
    async with made() as town, of_agents() as agents:
        assert len([*agents.agents]) == COUNT
        for each in (town, agents):
            await each.run(steps=1)
            write(each)
            await each.run(steps=2)
        alike(town, agents)


class Emigrates(OtherBlock):
    """Leaves the town in step 3, says so to somebody, and lets another come."""

    def fits(self, context: Any) -> float:
        return 9.0

    async def forward(self) -> None:
        town: Any = self.agent.space
        if town.number == 2:
            args = {"content": "I leave tomorrow"}
            self.agent.send({"to": "30", "action": {"name": "say", "args": args}})
        if town.number == 3:
            town.add(CitizenAgent("ada"))
            town.remove(self.agent)


async def test_taken_citizen_with_a_block_of_ones_own_lives_among_rows_until_it_leaves() -> None:
    async with made() as town, of_agents() as agents:
        every = [*agents.agents]
        for each in (town, agents):
            block = Emigrates()
            block.agent = each.agents[8]
            each.agents[8].blocks.append(block)
        await town.run(steps=2)
        await agents.run(steps=2)
        assert town.rows is not None
        assert town.population.full.sum() == 1
        await town.run(steps=1)
        await agents.run(steps=1)
        assert town.rows is not None
        assert town.population.full.sum() == 2  # whom it has told something
        assert town.agents[29].id == 30
        assert [each.envelope.args for each in town.agents[29].space_mailbox.mail] == [
            each.envelope.args for each in every[29].space_mailbox.mail
        ]
        for each in (town, agents):
            await each.run(steps=3)
            assert "9" not in each.ids()
            assert "ada" in each.ids()
        assert len(town.agents) == COUNT
        alike(town, agents)


async def test_intervention_changes_rows_and_makes_agents_of_those_who_could_not_be() -> None:
    changes: list[tuple[dict[str, Any], int]] = [
        ({"status": {"needs": {"hunger": 50}}, "citizens": [3, 4]}, 0),
        ({"status": {"needs": {"hunger": 450}}}, 0),
        ({"status": {"opinions": {"music": 777}}, "citizens": [3, 4]}, 2),
        ({"status": {"work": None}, "citizens": {"profile": {"occupation": "service"}}}, 2),
        ({"status": {"vaccinated": True}, "citizens": [3, 4]}, 2),
        ({"status": {"needs": {"hunger": 50.0}}, "citizens": [3, 5]}, 3),
        ({"tell": ["the mill burns"], "citizens": [5, 6, 99999]}, 3),
    ]
    async with made() as town, of_agents() as agents:
        every = [*agents.agents]
        for step, (each, full) in enumerate(changes, 1):
            for one in (town, agents):
                one.intervene(Intervention(step, **each))
                await one.run(steps=2 if step == 1 else 1)
            assert town.rows is not None
            assert town.population.full.sum() == full
        for number in (4, 5):  # who were told it
            assert town.agents[number].memory.stream[-1:] == every[number].memory.stream[-1:]
        alike(town, agents)


async def test_intervention_that_tells_all_leaves_the_loop_to_others_meanwhile() -> None:
    async with made() as town:
        population, seen, tasks = town.population, set[int](), list[asyncio.Task[None]]()
        assert population is not None

        async def watch() -> None:
            while len(population.handles) < COUNT:
                seen.add(len(population.handles))
                await asyncio.sleep(0)

        async def begin(row: dict[str, Any]) -> None:
            tasks[:] = tasks or [asyncio.create_task(watch())]

        town.intervene(Intervention(1, tell=["the mill burns"]))
        await town.run(steps=2, progress=begin)
        assert len(seen) > 2


@pytest.mark.parametrize(
    "changes",
    (
        {"status": {"vaccinated": True}},
        {"tell": ["the mill burns"]},
        {"status": {"home": "the moon"}, "citizens": [3]},
        {"status": {"needs": {"hunger": 50}}, "citizens": {"work": "the moon"}},
    ),
)
async def test_intervention_that_no_column_holds_is_that_of_agents(
    changes: dict[str, Any],
) -> None:
    async with made() as town, of_agents() as agents:
        assert len([*agents.agents]) == COUNT
        for each in (town, agents):
            each.intervene(Intervention(0, **changes))
            await each.run(steps=1)
        alike(town, agents)


@pytest.mark.parametrize("before", (0, 1, 5))
async def test_state_of_a_town_in_columns_is_taken_by_one_of_agents_and_the_other_way(
    before: int,
) -> None:
    async with made() as town, of_agents() as agents, made() as fork:
        assert town.agents[8].id == 9
        if before:
            await town.run(steps=before)
        state = json.loads(json.dumps(town.state_dict()))
        assert not state["agents"]
        agents.load_state_dict(state)
        fork.load_state_dict(agents.state_dict())
        for each in (town, agents, fork):
            await each.run(steps=4)
        assert town.rows is not None
        assert not town.population.agents
        assert agents.metrics == fork.metrics == town.metrics[before:]
        alike(fork, agents)
        town.metrics = town.metrics[before:]
        alike(town, agents)


async def test_state_of_other_columns_is_refused_by_a_town_of_agents() -> None:
    population = Population(COUNT, CITY, [OtherBlock()], seed=5)
    async with Society(population) as town, of_agents() as agents:
        with pytest.raises(StateError, match="of a Population, and the society has none"):
            agents.load_state_dict({**town.state_dict(), "services": agents.books.state_dict()})
        await agents.run(steps=1)  # nothing was loaded


@pytest.mark.parametrize("looks", (False, True))
async def test_town_in_columns_that_was_killed_and_resumed_is_as_one_that_was_not(
    tmp_path: Path, looks: bool
) -> None:
    journal = tmp_path / "runs.db"

    async with made() as whole, made(journal=journal) as first, made(journal=journal) as again:

        def look(row: dict[str, Any], town: Society) -> None:
            if looks:
                assert town.agents[row["step"]].id == row["step"] + 1

        def fail(row: dict[str, Any]) -> None:
            look(row, first)
            if row["step"] == 4:
                raise RuntimeError

        await whole.run(steps=6, progress=lambda row: look(row, whole))
        with pytest.raises(RuntimeError):
            await first.run(steps=6, run_id="r", save_every=2, progress=fail)
        first.close()
        await again.run(steps=6, run_id="r", save_every=2, progress=lambda row: look(row, again))
        for town in (whole, again):
            assert town.rows is not None
            assert not town.population.agents
        assert again.state_dict() == whole.state_dict()


async def test_progress_may_look_at_another_citizen_in_each_step() -> None:
    async with made() as town, of_agents() as agents:
        assert len([*agents.agents]) == COUNT
        seen: dict[str, list[Any]] = {"town": [], "agents": []}
        for name, each in (("town", town), ("agents", agents)):

            def look(row: dict[str, Any], name: str = name, each: Society = each) -> None:
                one = each.agents[row["step"]]
                seen[name].append([one.id, dict(one.status["needs"]), one.status["place"]])

            await each.run(steps=4, progress=look)
        assert seen["town"] == seen["agents"]
        assert town.rows is not None
        assert town.population.full.sum() == 0
        alike(town, agents)


async def test_tables_of_a_town_in_columns_are_those_of_agents_and_leave_rows_as_they_are(
    tmp_path: Path,
) -> None:
    async with made() as town, of_agents() as agents:
        assert len([*agents.agents]) == COUNT
        assert town.agents[8].id == 9
        heard: dict[str, list[Any]] = {"town": [], "agents": []}
        for name, each in (("town", town), ("agents", agents)):
            each.observe(heard[name].append)
            await each.run(steps=6, out=tmp_path / name, trajectories=True)
        assert town.rows is not None
        assert heard["town"] == heard["agents"] != []
        for table in ("metrics", "messages", "trajectories", "citizens"):
            one, other = (
                pyarrow.parquet.read_table(tmp_path / name / f"{table}.parquet")
                for name in ("town", "agents")
            )
            assert one.equals(other), table
        await town.run(steps=1, out=tmp_path / "values", trajectories=["needs.hunger"])
        assert len(town.population.agents) == COUNT  # a status may lack a value that columns have


async def test_newcomers_to_a_town_in_columns_find_no_more_room_than_there_is() -> None:
    async with made() as town:
        place = min(CITY.by_kind("shop"), key=CITY.capacity)
        assert place not in town.books.where.values()
        newcomers = [
            CitizenAgent(f"new-{number}", memory=CitizenMemory({"home": place}))
            for number in range(CITY.capacity(place) + 1)
        ]
        for each in newcomers[:-1]:
            town.add(each)
        with pytest.raises(ConfigError, match=f"cannot start at '{place}', which holds"):
            town.add(newcomers[-1])
        assert (await town.step())["failures"] == 0


# -- given agents ----------------------------------------------------------------------------------


def plain_people() -> list[CitizenAgent]:
    """Citizens with all blocks."""
    return citizens(make_people(CITY, COUNT, seed=5))


def given(
    kind: type[Society] = Society,
    people: Callable[[], list[CitizenAgent]] = plain_people,
    **options: Any,
) -> Society:
    """The town of agents that were made one by one."""
    services = [*make_economy(CITY, seed=5), Feed()]
    return kind(people(), CITY, seed=5, services=services, start="2026-01-05T09:00", **options)


class OwnKind(Society):
    """A class of one's own, whose citizens have turns."""


def remembered(town: Society) -> list[Any]:
    """What each citizen remembers, and why it does not get to its place."""
    return [[each.id, [*each.memory.stream], each.status.get("stuck")] for each in town.agents]


async def test_given_agents_that_live_by_rules_are_rows_and_remember_as_agents_do() -> None:
    async with given() as town, given(OwnKind) as agents:
        taken = town.agents[3]
        for each in (town, agents):
            each.intervene(Intervention(12, close=["park", "shop"]))
        for _ in range(8):
            assert await town.run(steps=6) == await agents.run(steps=6)
            assert remembered(town) == remembered(agents)
        assert town.rows is not None
        assert not town.population.full.any()
        alike(town, agents)
        assert any(
            "Its plan broke" in text for each in town.agents for _, text in each.memory.stream
        )
        assert town.agents[3] is taken
        town.remove(taken)
        assert type(taken.status) is dict
        assert taken.status["money"] == agents.agents[3].status["money"]


async def test_state_of_given_agents_goes_on_in_another_town_of_them_with_what_they_remember() -> (
    None
):
    async with given() as first, given() as second:
        await first.run(steps=20)
        first.agents[5].status["hobby"] = "chess"
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        for each in (first, second):
            await each.run(steps=8)
        assert second.state_dict() == first.state_dict()
        assert remembered(second) == remembered(first)
        assert second.agents[5].status["hobby"] == "chess"


@pytest.mark.parametrize(
    "change",
    (
        lambda agents: agents[2].status.update(work="the moon"),
        lambda agents: agents[2].status["profile"].update(age=40.5),
        lambda agents: agents[2].status.update(plan=[{"do": "pray", "where": None}]),
    ),
)
def test_given_agents_of_whom_one_has_what_no_column_can_have_are_refused_by_its_id(
    change: Callable[[list[Any]], Any],
) -> None:
    agents = citizens(make_people(CITY, COUNT, seed=5))
    change(agents)
    with pytest.raises(ConfigError, match="citizen 3: "):
        Society(agents, CITY, seed=5)


class Hums(CitizenBlock):
    """A block of one's own: it counts, and tires."""

    async def before_forward(self) -> None:
        """Count the steps, and lose energy where one is at home."""
        self.status["hummed"] = self.status.get("hummed", 0) + 1
        self.status["needs"]["energy"] -= self.perceived.place == self.status["home"]

    def fits(self, context: Any) -> float:
        """It never fits."""
        return 0.0


class Stays(CitizenAgent):
    """A citizen of a class of one's own."""

    async def forward(self) -> None:
        """Say once to all what rows have no words for: they are agents from then on."""
        if self.perceived.step == 36:
            self.send({"to": "*", "action": {"name": "say", "args": {"content": "I stay."}}})


def with_a_block() -> list[CitizenAgent]:
    """Citizens of whom two have a block of their own, and one has none of the shipped ones."""
    people = citizens(make_people(CITY, COUNT, seed=5))
    for number in (4, 60):
        blocks = [Hums(), *all_blocks()]
        people[number] = CitizenAgent(
            people[number].id, people[number].name, memory=people[number].memory, blocks=blocks
        )
    people[7] = CitizenAgent(people[7].id, people[7].name, memory=people[7].memory, blocks=[])
    return people


def with_parameters() -> list[CitizenAgent]:
    """Citizens of whom every tenth is hungry at another threshold."""
    people = citizens(make_people(CITY, COUNT, seed=5))
    for number in range(0, COUNT, 10):
        blocks: list[Any] = all_blocks()
        blocks[0] = NeedsBlock(block_params={"hunger": 300 + number})
        people[number] = CitizenAgent(
            people[number].id, people[number].name, memory=people[number].memory, blocks=blocks
        )
    return people


def with_a_class() -> list[CitizenAgent]:
    """Citizens of whom one is of a class of its own, and says something to all."""
    people = citizens(make_people(CITY, COUNT, seed=5))
    people[11] = Stays(people[11].id, people[11].name, memory=people[11].memory)
    return people


@pytest.mark.parametrize(
    ("people", "full"),
    ((with_a_block, 3), (with_parameters, 12), (with_a_class, 1)),
)
async def test_given_agents_are_rows_beside_those_with_more_and_live_as_agents_do(
    people: Callable[[], list[CitizenAgent]], full: int
) -> None:
    async with given(people=people) as town, given(OwnKind, people=people) as agents:
        assert int(town.population.full.sum()) == full
        for _ in range(4):
            assert await town.run(steps=10) == await agents.run(steps=10)
        assert town.ids() == agents.ids()
        assert remembered(town) == remembered(agents)
        alike(town, agents)


async def test_status_of_a_citizen_that_is_a_row_no_more_writes_no_columns() -> None:
    async with given() as town:
        town.intervene(Intervention(2, status={"hobby": "chess"}, citizens=[COUNT]))
        await town.run(steps=4)
        last = town.agents[-1]
        town.remove("1")
        assert len(town.population) == COUNT - 1
        relations = last.status["relations"]
        relations["5"] = 7
        assert last.status.pop("relations") == relations
        assert (await town.step())["failures"] == 0


@pytest.mark.parametrize("people", (with_a_block, with_parameters))
async def test_state_of_rows_beside_agents_with_more_goes_on_in_another_town(
    people: Callable[[], list[CitizenAgent]],
) -> None:
    async with given(people=people) as first, given(people=people) as second:
        await first.run(steps=20)
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        for each in (first, second):
            await each.run(steps=8)
        assert second.state_dict() == first.state_dict()
        assert remembered(second) == remembered(first)


async def test_citizens_of_a_table_and_few_drawn_ones_are_rows_that_remember(
    tmp_path: Path,
) -> None:
    table = tmp_path / "people.csv"
    lines = [f"{number},{20 + number}" for number in range(1, 41)]
    table.write_text("\n".join(["id,age", *lines]), encoding="utf-8")
    for people in (40, table):
        async with Society(people, CITY, seed=5) as town, OwnKind(people, CITY, seed=5) as agents:
            assert town.rows is not None
            assert await town.run(steps=60) == await agents.run(steps=60)
            alike(town, agents)
            assert remembered(town) == remembered(agents)


def test_population_of_agents_has_columns_of_what_the_town_reads_of_them() -> None:
    incomes: dict[Any, int] = {3: 30, "x": 0, 1: 10}
    people = [CitizenAgent(n, memory=CitizenMemory({"income": i})) for n, i in incomes.items()]
    with Society(people) as town:
        assert town.population.columns["income"].tolist() == [10, 30, 0]
        town.remove("1")
        assert town.population.columns["money"].tolist() == [0, 0]
        assert town.population.all_ids() == ["3", "x"]
        with pytest.raises(ConfigError, match="citizen 3 came as an agent"):
            town.population.demote(3)


class Census(Service):
    """A service of one's own: it reads what all have, feeds the hungry, and marks whom it fed."""

    def after_step(self, books: Any) -> None:
        for id, status in books.statuses.items():
            if status["needs"]["hunger"] < 500:
                status["needs"]["hunger"] += 100
                status["fed"] = status.get("fed", 0) + 1
                books.pay("government", id, 5)


@pytest.mark.parametrize("make", (made, given))
async def test_service_and_facts_of_ones_own_find_in_columns_what_agents_have(make: Any) -> None:
    def facts(clock: Any) -> dict[str, Any]:
        return {"noon": clock.hour == 12}

    seen = []
    for kind in (Society, OwnKind):
        services = [*make_economy(CITY, seed=5), Feed(), Census("census")]
        people: Any = COUNT if make is made else citizens(make_people(CITY, COUNT, seed=5))
        options: dict[str, Any] = {"services": services, "start": "2026-01-05T09:00"}
        async with kind(people, CITY, seed=5, facts=facts, **options) as town:
            assert (town.rows is None) == (kind is OwnKind)
            rows = await town.run(steps=30)
            fed = [each.status.get("fed") for each in town.agents]
            seen.append((rows, fed, [each.status["needs"] for each in town.agents]))
    assert seen[0] == seen[1]
    assert sum(filter(None, seen[0][1])) > 100


async def test_agents_of_a_closed_town_of_rows_have_what_they_had_and_live_in_another() -> None:
    agents = citizens(make_people(CITY, COUNT, seed=5))
    async with Society(agents, CITY, seed=5) as first:
        await first.run(steps=20)
        then = [each.status.copy() for each in agents]
        assert first.ids() == [str(each.id) for each in agents]
    assert [each.status for each in agents] == then
    assert all(type(each.status) is dict for each in agents)
    async with Society(agents, CITY, seed=5) as second:
        assert [each.status["money"] for each in second.agents] == [one["money"] for one in then]
        await second.run(steps=2)


async def test_citizen_of_ones_own_takes_the_place_of_one_that_was_taken() -> None:
    class Own(CitizenAgent):
        pass

    async with made() as town:
        await town.run(steps=2)
        taken = town.agents[8]
        taken.status["hobby"] = "chess"
        new = Own(9, memory=CitizenMemory({"hat": "red"}))
        await asyncio.to_thread(town.replace, taken, new)
        assert town.agents[8] is new
        assert new.status["hobby"] == "chess"
        assert new.status["needs"] == taken.status["needs"]
        await town.run(steps=1)
        assert not town.failures


async def test_attribute_set_on_a_taken_citizen_is_refused_by_a_state() -> None:
    async with made() as town:
        one: Any = town.agents[8]
        await town.run(steps=1)
        one.mood = 5
        with pytest.raises(StateError, match="agent '9' has changed its 'mood', which is in no st"):
            town.state_dict()
