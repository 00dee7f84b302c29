"""Every engine comes to the same bytes, also where a worker is killed or the process ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from examples.models.epidemic import EpidemicBlock
from examples.models.opinions import opinions
from examples.models.virus import virus
from examples.models.wealth import WealthBlock, wealth
from tests.society.population.lives import differing, lived

from moothall import Journal, Society
from moothall.foundation.errors import ConfigError
from moothall.society import (
    City,
    Column,
    Engine,
    Intervention,
    LocalEngine,
    Network,
    Population,
    Question,
    RayEngine,
    RowBlock,
    Rows,
    Survey,
    all_blocks,
    make_economy,
)

ENGINES = {
    "two threads": lambda: LocalEngine(threads=2),
    "each row alone": lambda: LocalEngine(apart=True),
    "rows alone on two threads": lambda: LocalEngine(threads=2, apart=True),
}


def town(count: int = 400) -> Population:
    """A population whose blocks see each other, pay and draw; with a column of no block."""
    table = {"money": np.full(count, 3), "health": (np.arange(count) < 20).astype(np.int8)}
    table["traits"] = np.arange(2 * count).reshape(count, 2)
    network = Network.small_world(count, seed=1)
    return Population(table, None, [EpidemicBlock()], 5, network=network)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
async def test_engines_come_to_the_same_columns(engine: Callable[[], Engine]) -> None:
    expected = await lived(town(), 12, LocalEngine())
    assert differing(expected, await lived(town(), 12, engine())) == []


async def test_engine_may_have_more_threads_than_citizens() -> None:
    def alone() -> Population:
        return Population(1, None, all_blocks(), 5)

    expected = await lived(alone(), 3, LocalEngine())
    assert differing(expected, await lived(alone(), 3, LocalEngine(threads=2))) == []


class Held(RowBlock):
    """Counts steps, and in the first one waits until it is let go."""

    name = "Held"
    description = "Counts"
    columns: ClassVar[dict[str, Column]] = {"steps": Column("int64")}

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.let_go = threading.Event(), threading.Event()

    def step_rows(self, rows: Rows) -> None:
        if not self.entered.is_set():
            self.entered.set()
            self.let_go.wait()
        rows["steps"] += 1


@pytest.mark.parametrize("threads", (1, 2))
async def test_cancelled_run_ends_when_its_rows_have_ended(threads: int) -> None:
    block = Held()
    population = Population(3, blocks=[block])
    async with Society(population, engine=LocalEngine(threads=threads)) as society:
        state = society.state_dict()
        running = asyncio.ensure_future(society.run(steps=1))
        await asyncio.to_thread(block.entered.wait)
        running.cancel()
        try:
            for _ in range(20):
                await asyncio.to_thread(society.positions)  # the society's loop has turned
            assert not running.done()
        finally:
            block.let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        society.load_state_dict(state)
        assert population.columns["steps"].tolist() == [0, 0, 0]


async def test_chunks_many_or_few_come_to_the_same_bytes() -> None:
    one = await lived(wealth(3, citizens=100_000, mean=2), 3, LocalEngine())
    two = await lived(wealth(3, citizens=100_000, mean=2), 3, LocalEngine(threads=2))
    assert differing(one, two) == []


class RunsALoop(RowBlock):
    """Counts in a coroutine, on a loop of its own."""

    columns: ClassVar = {"n": Column("int64")}

    async def more(self, n: Any) -> Any:
        await asyncio.sleep(0)
        return n + 1

    def step_rows(self, rows: Rows) -> None:
        rows["n"] = asyncio.run(self.more(rows["n"]))


async def test_block_of_few_rows_may_run_a_loop_while_its_society_answers() -> None:
    population = Population(3, blocks=[RunsALoop()])
    async with Society(population) as society:
        running = asyncio.create_task(society.run(steps=2_000))
        question = Question("n", "How many?", by=lambda asked: str(asked.status["n"]))
        answers = await society.survey(Survey("counts", [question]))
        assert int(str(answers[0].value)) < 2_000
        await running
    assert population.columns["n"].tolist() == [2_000] * 3


@pytest.mark.long
@pytest.mark.timeout(120)
async def test_ray_replaces_a_killed_worker() -> None:
    expected = (await lived(town(), 14, LocalEngine()))[-1]
    population, engine = town(), RayEngine(workers=2)
    engine.close()  # as the society does that had it before
    other = Society(town(), engine=engine)
    async with other, Society(population, engine=engine) as society:
        await society.run(steps=11)
        with pytest.raises(ConfigError, match="the engine runs another population"):
            await other.run(steps=1)
        os.kill(engine.pids()[1], signal.SIGKILL)
        await society.run(steps=2)
        asked = [society.respondent(id).status["health"] for id in range(1, 401)]
        assert asked == population.columns["health"].tolist()
        # A full agent lives here, and its row there.
        population.promote(7)
        await society.run(steps=1)
    # The columns are here when the workers are gone.
    assert differing([expected], [dict(population.columns)]) == []


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_population_has_its_columns_when_ray_is_gone() -> None:
    city = City.generate(seed=1, citizens=130_000)  # too large for a table of all ways
    others, population, expected = (Population(50, city, all_blocks(), n) for n in (2, 1, 1))
    engines = LocalEngine(), RayEngine(workers=1), LocalEngine()
    # The others have found ways in the same city, and these find some more.
    for each, engine in zip((others, population, expected), engines, strict=True):
        async with Society(each, engine=engine) as society:
            await society.run(steps=36)
    assert differing([dict(expected.columns)], [dict(population.columns)]) == []


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_ray_towns_have_the_same_day_as_towns_here_where_a_state_is_loaded_too() -> None:
    city = City.generate(seed=7, citizens=150)

    async def states(engine: Engine, *, loads: bool = False) -> list[dict[str, Any]]:
        services = make_economy(city, seed=5)
        people = Population(120, city, seed=5)
        async with Society(
            people, services=services, engine=engine, start="2026-01-05T06:00"
        ) as society:
            await society.run(steps=20, step="1h")  # children go along, and rents are paid
            before = society.state_dict()
            if loads:
                await society.run(steps=3, step="1h")  # of which the state leaves nothing
                society.load_state_dict(json.loads(json.dumps(before)))
            await society.run(steps=10, step="30min")
            return [before, society.state_dict()]

    assert await states(RayEngine(workers=2), loads=True) == await states(LocalEngine())


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_citizens_in_columns_who_become_agents_on_ray_live_as_they_do_here() -> None:
    city = City.generate(seed=5, citizens=120)

    async def lived_with(engine: Engine) -> dict[str, Any]:
        async with Society(120, city, seed=5, engine=engine) as town:
            town.intervene(Intervention(4, tell=["The mill burns."], citizens=[3, 90]))
            await town.run(steps=3, step="1h")
            taken = town.agents[7]
            taken.status["needs"]["hunger"] = 100
            args = {"content": "Meet me at the old mill."}
            taken.send({"to": "3", "action": {"name": "say", "args": args}})
            await town.run(steps=3, step="1h")
            taken.status["needs"]["energy"] -= 5
            await town.run(steps=3, step="1h")
            assert [each.id for each in town.population.agents.values()] == [3]
            return town.state_dict()

    assert await lived_with(RayEngine(workers=2)) == await lived_with(LocalEngine())


async def test_ray_engine_says_that_there_is_no_ray_at_an_address() -> None:
    engine = RayEngine(workers=1, address="127.0.0.1:1")
    async with Society(wealth(citizens=10), engine=engine) as society:
        with pytest.raises(ConfigError, match=r"there is no Ray at '127\.0\.0\.1:1'"):
            await society.step()


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_ray_refuses_births_and_deaths_which_its_workers_would_lose() -> None:
    class Cells(RowBlock):
        columns: ClassVar[dict[str, Column]] = {"age": Column("int32")}

        def step_rows(self, rows: Rows) -> None:
            """Split in the second step."""
            if rows.step == 1:
                rows.add(rows.ids == 2)

    async with Society(Population(4, None, [Cells()]), engine=RayEngine(workers=1)) as society:
        await society.step()
        with pytest.raises(ConfigError, match="cannot change: it runs on several processes"):
            await society.step()


async def test_ray_refuses_a_block_that_needs_all_rows_in_one_process() -> None:
    engine = RayEngine(workers=1, address="127.0.0.1:1")
    async with Society(virus(1), engine=engine) as society:
        with pytest.raises(ConfigError, match="'VirusBlock' needs all rows in one process"):
            await society.step()


@pytest.mark.parametrize("wrong", ({"threads": 0}, {"threads": 1.5}, {"apart": 1}))
def test_local_engine_checks_its_arguments(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} must be"):
        LocalEngine(**wrong)  # type: ignore[arg-type]


async def test_recorded_population_continues_from_its_last_checkpoint(tmp_path: Path) -> None:
    expected = (await lived(wealth(9, citizens=3_000, mean=2), 12, LocalEngine()))[-1]

    def stop(row: dict[str, object]) -> None:
        if row["step"] == 8:
            raise KeyboardInterrupt

    with Journal(tmp_path / "runs.db") as journal:
        with pytest.raises(KeyboardInterrupt):
            async with Society(wealth(9, citizens=3_000, mean=2), journal=journal) as society:
                await society.run(steps=12, run_id="w", save_every=3, progress=stop)
        population = wealth(9, citizens=3_000, mean=2)
        async with Society(population, journal=journal) as society:
            rows = await society.run(steps=12, run_id="w", save_every=3)
        assert journal.replay("w")["begun"]["task"] == "12 steps of 900 s, 3,000 agents"
    assert [row["step"] for row in rows] == list(range(12))
    assert differing([expected], [dict(population.columns)]) == []


async def test_population_state_branches() -> None:
    first = opinions(1, citizens=200, network=Network.small_world(200, seed=1))
    async with Society(first) as society:
        await society.run(steps=5)
        state = society.state_dict()
        await society.run(steps=5)
    second = opinions(1, citizens=200, network=Network.small_world(200, seed=1))
    async with Society(second) as society:
        society.load_state_dict(state)
        assert society.number == 5
        await society.run(steps=5)
    assert np.array_equal(first.columns["opinion"], second.columns["opinion"])


async def test_population_state_has_all_of_very_many_in_their_order() -> None:
    many = 300_000  # more than are stored under one hash
    rich, poor = (Population({"money": np.arange(many) * way}, None, []) for way in (1, 0))
    async with Society(rich) as society, Society(poor) as other:
        other.load_state_dict(society.state_dict())
    assert np.array_equal(poor.columns["money"], np.arange(many))


async def test_rows_want_blocks_that_can() -> None:
    class Half(WealthBlock):
        async def forward(self) -> None:
            """Another rule than the rows'."""

    with pytest.raises(ConfigError, match="has no `step_rows` of its own"):
        Society(Population(10, None, [Half()]))
    population = Population(10, None, [WealthBlock()])
    population.promote(3, blocks=[Half()])
    async with Society(population) as society:
        assert (await society.step())["failures"] == 0
