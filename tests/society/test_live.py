"""A run under way is watched, asked and paused, and lives as it would have without that."""

from __future__ import annotations

import asyncio
import os
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.society.population.lives import promoted

from moothall import City, Journal, ScriptedModel
from moothall.foundation.errors import ConfigError, DefinitionError, FileError
from moothall.society import (
    Column,
    Grid,
    Mode,
    Move,
    Network,
    Place,
    Plane,
    Population,
    Question,
    Road,
    RowBlock,
    Rows,
    Society,
    Survey,
    draw_day,
    draw_map,
)
from society.life import Bank, Busy, busy, living, state_of, town


class Paused:
    """Holds a run after a step until it is let go on."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def progress(self, row: dict[str, Any]) -> None:
        if row["step"] == self.step:
            self._loop.call_soon_threadsafe(self.reached.set)
            await asyncio.wrap_future(
                asyncio.run_coroutine_threadsafe(self.go_on.wait(), self._loop)
            )


async def test_live_run_pauses_between_two_steps_and_is_asked_then(journal: Journal) -> None:
    survey = Survey("mood", [Question("money", "How much?", "number", by=lambda r: 1)])

    def made(journal: Journal | None = None) -> Society:
        return Society(busy(5), town(), services=[Bank()], seed=4, journal=journal)

    async with made() as society:
        await society.run(steps=5)
        whole = state_of(society)
    society = made(journal)
    paused = Paused(1)
    run = asyncio.create_task(society.run(steps=5, progress=paused.progress))
    await paused.reached.wait()
    assert society.number == 2
    said = await society.interview(1, "How are you?")
    answers = await asyncio.gather(*(society.survey(survey) for _ in range(2)))
    assert "I am" in said
    assert [len(each) for each in answers] == [5, 5]
    assert {each.step for each in answers[0]} == {2}
    with pytest.raises(DefinitionError, match="running already"):
        await society.step()
    paused.go_on.set()
    await run
    assert state_of(society) == whole
    society.close()


class Thinks(Busy):
    model_asked = True


async def test_live_survey_waits_for_the_step_and_the_step_for_the_survey() -> None:
    order: list[str] = []

    class Slow(ScriptedModel):
        async def complete(self, messages: list[Any], *_: Any, **__: Any) -> Any:
            asked = "survey" if "questions" in messages[-1]["content"] else f"{society.number}"
            if asked not in order:
                order.append(asked)
            if not asked_for.is_set():
                loop.call_soon_threadsafe(asked_for.set)
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(let.wait(), loop))
            return await super().complete(messages)

    loop, asked_for, let = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    model = Slow(["{}"] * 100)
    async with Society(busy(9, Thinks), town(), services=[Bank()], model=model) as society:
        run = asyncio.create_task(society.run(steps=2))
        await asked_for.wait()
        asked = asyncio.create_task(society.interview(1, "How are you?"))
        await society_has(society, asked)
        let.set()
        said = await asked
        await run
    assert order == ["0", "survey", "1"]
    assert said.source == "rule"


async def society_has(society: Society, asked: asyncio.Task[Any]) -> None:
    """Wait until the society's loop has taken in what a task has asked it."""
    await asyncio.sleep(0)
    await asyncio.to_thread(society.positions)


def road() -> City:
    places = [Place("a", "home", 0, 0), Place("b", "shop", 6000, 3000, capacity=9)]
    return City(places, [Road("a", "b", 9000)], modes=[Mode("walk", metres=1)])


async def test_positions_say_where_citizens_are_and_what_they_do() -> None:
    def walks(me: Any) -> None:
        me.status["act"] = "juggle" if me.perceived.step else "work"
        me.want(Move("b"))

    def walks_back(me: Any) -> None:
        if me.perceived.step == 2:
            me.want(Move("a"))

    citizens = [
        *(living(walks, home="a"), living(lambda me: None, id=10, home="b"), living(walks, id=2)),
        living(walks_back, id=11, home="b"),
    ]
    async with Society(citizens, road()) as society:
        seen = [society.positions()]
        await society.run(
            steps=12, step="15min", progress=lambda _: seen.append(society.positions())
        )
    assert [each.step for each in seen] == list(range(13))
    assert all(each.ids == ["1", "2", "10", "11"] for each in seen)
    assert all((each.x[2], each.y[2]) == (6000, 3000) for each in seen)
    assert (seen[0].x[1], seen[0].y[1]) == (None, None)
    walked = [(each.x[0], each.y[0]) for each in seen]
    assert walked == [(600 * n, 300 * n) for n in range(11)] + [(6000, 3000)] * 2
    back = [(each.x[3], each.y[3]) for each in seen]
    assert back == [(6000, 3000)] * 2 + [(6000 - 600 * n, 3000 - 300 * n) for n in range(11)]
    assert [each.place[0] for each in seen] == ["a", *[None] * 9, *["b"] * 3]
    doing = [each.acts[each.act[0]] for each in seen]
    assert doing == ["idle", *["travel"] * 9, *["other"] * 3]


class Dances(RowBlock):
    """Has acts of its own, and a text in a column."""

    columns: ClassVar[Any] = {
        "act": Column("uint8", words=(None, "dance")),
        "mood": Column("uint8", words=("glad", "sad")),
        "joy": Column("int16"),
    }

    def step_rows(self, rows: Any) -> None:
        rows["act"][...] = 1


@pytest.mark.parametrize("rows", (True, False))
async def test_positions_and_metrics_name_an_act_of_ones_own_as_other(rows: bool) -> None:
    city = City.generate(seed=1, citizens=20)
    people = Population(20, city, [Dances()], 1)
    async with Society(people if rows else promoted(people)) as society:
        (row,) = await society.run(steps=1)
        seen = society.positions()
        assert {seen.acts[each] for each in seen.act} == {"other"}
        assert row["working"] == 0
        told = society.status_numbers()
        assert "joy" in told
        assert "mood" not in told  # a text is no number


def test_curves_of_any_days_are_drawn_without_a_warning(tmp_path: Path) -> None:
    for hours in (1, 24, 96, 24 * 30):
        row = {"home": 1, "work": 1, "moving": 0, "owned": 500}
        moments = (datetime(2026, 1, 5) + timedelta(hours=n) for n in range(hours))
        draw_day([{"time": each.isoformat(), **row} for each in moments], tmp_path / "day.png")
        assert (tmp_path / "day.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ConfigError, match=r"rows must be of Society.run: one has no 'time'"):
        draw_day([{}], tmp_path / "day.png")


async def test_map_says_what_is_where(tmp_path: Path) -> None:
    def walks(me: Any) -> None:
        me.want(Move("b"))

    citizens = [
        living(walks, home="a"),
        *(living(lambda me: None, id=id, home="b") for id in (2, 3)),
    ]
    async with Society(citizens, road()) as society:
        await society.run(steps=2, step="15min")
        draw_map(society, tmp_path / "map.svg")
    texts = set(re.findall("<!-- (.*?) -->", (tmp_path / "map.svg").read_text()))
    assert {"home", "shop", "citizen on the way", "metres to the east"} <= texts
    assert "citizens at a place, by area (at most 2)" in texts
    assert any(each.startswith("3 citizens, ") for each in texts)
    assert {*road().ids()} <= texts  # of few places, their ids


def test_map_of_many_homes_is_not_hidden_by_their_citizens() -> None:
    city = City.generate(seed=1, citizens=3000)
    with Society(3000, city, seed=1) as society:
        axes = draw_map(society).axes[0]
    circles = next(each for each in axes.collections if "by area" in str(each.get_label()))
    assert len(circles.get_sizes()) > 1000
    width, height = (each * 72 for each in axes.figure.get_size_inches())
    assert circles.get_sizes().sum() < width * height / 15
    assert not axes.texts


def texts_of(file: Path) -> set[str]:
    """Return the texts of a picture."""
    return set(re.findall("<!-- (.*?) -->", file.read_text()))


@pytest.mark.parametrize(
    ("by", "expected"),
    (
        ("side", {"side 0", "side 1", "column", "row", "12 citizens, Monday 2026-01-05 00:00:00"}),
        ("mood", {"glad", "sad"}),
        ("money", {"money", "column"}),
    ),
)
def test_map_by_a_column_colours_the_citizens_of_a_grid(
    by: str, expected: set[str], tmp_path: Path
) -> None:
    class Feels(RowBlock):
        columns: ClassVar = {"mood": Column("uint8", words=("glad", "sad"))}

        def step_rows(self, rows: Rows) -> None:
            """Nothing."""

    every = np.arange(12)
    table = {"place": every, "side": every % 2, "money": every * 7, "mood": every % 2}
    with Society(Population(table, Grid(4, 4), [Feels()])) as society:
        draw_map(society, tmp_path / "map.svg", by=by)
        assert expected <= texts_of(tmp_path / "map.svg")
        with pytest.raises(ConfigError, match="no citizen has a number 'colour'"):
            draw_map(society, by="colour")


def test_map_of_a_plane_shows_citizens_where_their_columns_say(tmp_path: Path) -> None:
    spots = {"x": np.array([1.0, 2.0, 9.0]), "y": np.array([3.0, 3.0, 8.0])}
    with Society(Population(spots, Plane(10), ())) as society:
        draw_map(society, tmp_path / "map.svg")
        assert "3 citizens, Monday 2026-01-05 00:00:00" in texts_of(tmp_path / "map.svg")
    with (
        Society(Population(3, Plane(10), ())) as society,
        pytest.raises(ConfigError, match="columns 'x' and 'y'"),
    ):
        draw_map(society)


def test_map_of_a_layer_shows_what_places_have(tmp_path: Path) -> None:
    table = {"place": np.arange(3), "side": np.arange(3)}
    layers = {"sugar": Column("float64", 2)}
    with Society(Population(table, Grid(4, 4), (), layers=layers)) as society:
        draw_map(society, tmp_path / "map.svg", layer="sugar", by="side")
        assert {"sugar", "side 2"} <= texts_of(tmp_path / "map.svg")
        with pytest.raises(ConfigError, match="there is no layer 'spice'"):
            draw_map(society, layer="spice")


def test_map_by_a_column_of_several_numbers_or_without_a_city_is_refused() -> None:
    table = {"place": np.arange(3), "side": np.ones((3, 2))}
    with (
        Society(Population(table, Grid(4, 4), ())) as society,
        pytest.raises(ConfigError, match="no citizen has a number 'side'"),
    ):
        draw_map(society, by="side")
    with (
        Society(Population({"side": np.arange(3)}, None, ())) as society,
        pytest.raises(ConfigError, match=r"^a map needs a city whose places have positions"),
    ):
        draw_map(society, by="side")


@pytest.mark.parametrize("city", (False, True))
def test_map_of_a_network_shows_citizens_at_its_nodes_and_its_edges(
    city: bool, tmp_path: Path
) -> None:
    network = Network.from_numbers(4, [0, 1, 2], [1, 2, 3])
    table = {"mood": np.array([0, 1, 1])} if city else {"mood": np.array([0, 1, 1, 0])}
    more: dict[str, Any] = {} if city else {"network": network}
    if city:
        table["place"] = np.array([0, 1, 1])
    with Society(Population(table, network if city else None, (), **more)) as society:
        figure = draw_map(society, tmp_path / "map.svg", by="mood")
    assert {"mood 0", "mood 1"} <= texts_of(tmp_path / "map.svg")
    (edges,) = (each for each in figure.axes[0].collections if hasattr(each, "get_segments"))
    assert len(edges.get_segments()) == 3
    spots = np.unique(np.array(edges.get_segments()).reshape(-1, 2), axis=0)
    apart = np.sqrt(((spots[:, None] - spots) ** 2).sum(axis=2))
    assert len(spots) == 4
    assert apart[np.triu_indices(4, 1)].min() > 0.1


async def test_map_by_a_need_colours_agents(tmp_path: Path) -> None:
    citizens = [
        living(lambda me: None, id=id, home="b", needs={"hunger": 100 * id}) for id in range(1, 10)
    ]
    async with Society(citizens, road()) as society:
        draw_map(society, tmp_path / "map.svg", by="needs.hunger")
    assert {"needs.hunger", "metres to the east"} <= texts_of(tmp_path / "map.svg")


async def test_live_citizen_is_looked_at_while_a_run_is_under_way() -> None:
    seen = []
    async with Society(busy(3), town(), services=[Bank()]) as society:
        await society.run(steps=2, progress=lambda _: seen.append(society.respondent(2)))
        assert [(each.id, each.perceived.step) for each in seen] == [("2", 1), ("2", 2)]
        seen[1].status["money"] = "changed"
        assert society.respondent("2").status["money"] != "changed"
        with pytest.raises(ConfigError, match="no citizen '4'"):
            society.respondent(4)


async def test_map_of_a_society_without_positions_is_refused() -> None:
    for city in (None, town()):
        async with Society(busy(2), city) as society:
            assert society.positions() is None
            with pytest.raises(ConfigError, match="positions"):
                draw_map(society, "map.png")


async def test_map_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "map.png"
    path.write_bytes(b"before")
    city = City.generate(seed=1, citizens=10)
    async with Society(10, city, seed=1) as society:
        with pytest.raises(FileError, match=r"none/map\.png cannot be written: No such file"):
            draw_map(society, tmp_path / "none" / "map.png")
        with pytest.raises(ConfigError, match="no citizen has a number"):
            draw_map(society, path, by="nothing")
        assert path.read_bytes() == b"before"
        draw_map(society, path)
        assert path.read_bytes().startswith(b"\x89PNG")
    assert os.listdir(tmp_path) == ["map.png"]


async def test_live_positions_of_travellers_survive_a_resume(tmp_path: Path) -> None:
    def stop(row: Any) -> None:
        if row["step"] == 5:
            seen.append(society.positions())
            raise ZeroDivisionError

    seen: list[Any] = []
    with Journal(tmp_path / "journal") as journal:
        for _ in range(2):
            walker = living(lambda me: me.want(Move("b")), home="a")
            async with Society([walker], road(), journal=journal) as society:
                with pytest.raises(ZeroDivisionError):
                    await society.run(steps=7, run_id="R", save_every=4, progress=stop)
    assert seen[0] == seen[1]
    assert seen[0].x == [3600]
