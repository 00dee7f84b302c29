"""The tables of a run: written as it lives, whole however it ends, with memory that stays flat."""

from __future__ import annotations

import asyncio
import csv
import gc
import json
import resource
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from examples.models.wealth import wealth

from moothall import Agent, Journal
from moothall.foundation.errors import ConfigError, FileError
from moothall.society import (
    CitizenAgent,
    City,
    Population,
    Society,
    Trajectories,
    citizens,
    make_people,
    read_people,
)
from society.life import Bank, busy, town

NAMES = ("metrics", "messages", "citizens")


class Stop(Exception):
    pass


def stop(row: dict[str, Any]) -> None:
    raise Stop


def made(journal: Journal | None = None) -> Society:
    return Society(busy(5), town(), services=[Bank()], seed=4, journal=journal)


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pyarrow.parquet.read_table(folder / f"{name}.parquet").to_pylist()
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_tables_of_a_run_have_its_rows_messages_and_citizens(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    sent: list[tuple[Any, ...]] = []
    with made() as society:
        society.observe(lambda m: sent.append((society.number, m["from"], m["to"])))
        last = asyncio.run(society.run(steps=6, progress=told.append, out=tmp_path / "out"))
        assert last == told[-1:] == society.metrics
        assert asyncio.run(society.step())["messages"]
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".parquet", ".json"}
    assert rows(tmp_path / "out", "metrics") == told
    shown = rows(tmp_path / "out", "messages")
    assert [(m["step"], m["from"], m["to"]) for m in shown] == [s for s in sent if s[0] < 6]
    assert len(read_people(tmp_path / "out" / "citizens.parquet")) == 5


def test_tables_without_pyarrow_are_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with made() as society:
        asyncio.run(society.run(steps=6, out=tmp_path / "parquet"))
    options: Any = {"steps": 6, "run_id": "r", "out": tmp_path / "csv"}
    with (
        Journal(tmp_path / "journal") as journal,
        made(journal) as society,
        pytest.raises(Stop),
    ):
        asyncio.run(society.run(progress=stop, **options))
    assert (tmp_path / "csv" / "metrics.parquet").exists()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with Journal(tmp_path / "journal") as journal, made(journal) as society:
        asyncio.run(society.run(**options))
    # No table from before the interruption is left beside these.
    assert {path.suffix for path in (tmp_path / "csv").iterdir()} == {".csv", ".json"}
    for name in NAMES:
        with (tmp_path / "csv" / f"{name}.csv").open(newline="") as lines:
            shown = list(csv.DictReader(lines))
        whole = rows(tmp_path / "parquet", name)
        assert shown == [{k: "" if v is None else str(v) for k, v in r.items()} for r in whole]


def test_tables_give_back_whatever_is_said(tmp_path: Path) -> None:
    said = 'half a "word",\nand a line'

    class Says(Agent):
        async def forward(self) -> None:
            self.send({"to": "b", "action": {"name": "say", "args": {"content": said}}})

    def live(stop: int | None) -> None:
        def progress(row: dict[str, Any]) -> None:
            if row["step"] == stop:
                raise Stop

        options: Any = {"out": tmp_path, "progress": progress, "run_id": "r", "save_every": 2}
        people = [Says("a\n7,x"), Agent("b")]
        journal = Journal(tmp_path / "journal")
        with journal, Society(people, journal=journal) as society:
            asyncio.run(society.run(steps=4, **options))

    with pytest.raises(Stop):
        live(2)
    live(None)  # goes on after step 1
    found = [row for row in rows(tmp_path, "messages") if row["action"] == "say"]
    assert [(row["step"], row["from"], json.loads(row["args"])) for row in found] == [
        (step, "a\n7,x", {"content": said}) for step in range(4)
    ]


def test_tables_are_whole_after_an_error_and_when_the_run_has_gone_on(tmp_path: Path) -> None:
    def live(steps: int, out: Path | None, stop: int | None = None) -> None:
        def progress(row: dict[str, Any]) -> None:
            if row["step"] == stop:
                raise Stop

        with Journal(tmp_path / "journal") as journal, made(journal) as society:
            run = society.run(steps=steps, run_id="r", save_every=4, progress=progress, out=out)
            asyncio.run(run)

    with made() as society:
        asyncio.run(society.run(steps=12, out=tmp_path / "whole"))
    whole, out = tmp_path / "whole", tmp_path / "out"
    with pytest.raises(Stop):
        live(12, out, stop=5)
    for name in ("metrics", "messages"):
        assert rows(out, name) == [row for row in rows(whole, name) if row["step"] < 6]
    live(12, out)
    assert contents(out) == contents(whole)
    live(12, out)  # it has ended: nothing is lived
    assert contents(out) == contents(whole)
    live(12, tmp_path / "late")
    assert contents(tmp_path / "late").keys() == {
        "metrics.parquet",
        "citizens.parquet",
        "manifest.json",
    }
    assert rows(tmp_path / "late", "metrics") == rows(whole, "metrics")


def test_messages_of_steps_that_another_folder_has_are_none_of_this_one(tmp_path: Path) -> None:
    def live(out: str, stop: int | None = None) -> None:
        def progress(row: dict[str, Any]) -> None:
            if row["step"] == stop:
                raise Stop

        with Journal(tmp_path / "journal") as journal, made(journal) as society:
            options: Any = {"save_every": 4, "progress": progress, "out": tmp_path / out}
            asyncio.run(society.run(steps=12, run_id="r", **options))

    for out, stop in (("a", 4), ("b", 8)):
        with pytest.raises(Stop):
            live(out, stop)
    live("a")
    assert {row["step"] for row in rows(tmp_path / "a", "messages")} == set(range(8, 12))
    assert b'"messages_from_step": 8' in (tmp_path / "a" / "manifest.json").read_bytes()
    assert [row["step"] for row in rows(tmp_path / "a", "metrics")] == list(range(12))


def test_tables_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    refused = pytest.raises(ConfigError, match=r"out/\S+ is of another run, whose tables would be")
    with made() as society:
        asyncio.run(society.run(steps=3, out=out))
        before = contents(out)
        with refused:  # it goes on, but these are another run's three steps
            asyncio.run(society.run(steps=3, out=out))
        assert society.number == 3
        assert contents(out) == before
        asyncio.run(
            society.run(steps=3, out=tmp_path / "more")
        )  # and the society is none the worse
    with refused, made() as society:
        asyncio.run(society.run(steps=4, out=out))
    with refused, Journal(tmp_path / "journal") as journal, made(journal) as society:
        asyncio.run(society.run(steps=3, out=out, run_id="r"))
    assert contents(out) == before
    (out / "manifest.json").unlink()
    with refused, made() as society:
        asyncio.run(society.run(steps=3, out=out))
    for path in out.iterdir():
        path.unlink()
    (out / "notes.txt").write_text("mine")
    with made() as society:
        asyncio.run(society.run(steps=3, out=out))
    assert contents(out) == before | {"notes.txt": b"mine"}


def test_tables_that_a_run_has_left_are_its_own(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for run in ("first", "second", "first"):
        with Journal(tmp_path / "journal") as journal, made(journal) as society:
            wrong = ConfigError if run == "second" else Stop
            with pytest.raises(wrong):
                asyncio.run(society.run(steps=3, run_id=run, out=out, progress=stop))
    with made() as society, pytest.raises(ConfigError, match=r"manifest\.json is of another run"):
        asyncio.run(society.run(steps=3, out=out))


@pytest.mark.parametrize("is_recorded", (pytest.param(False, marks=pytest.mark.long), True))
async def test_memory_stays_flat_over_time(tmp_path: Path, is_recorded: bool) -> None:
    found: list[int] = []

    def progress(row: dict[str, Any]) -> None:
        if row["step"] in (20, 60):
            gc.collect()
            found.append(tracemalloc.get_traced_memory()[0])

    def money(number: int) -> Any:
        return lambda columns: float(columns["money"][0]) + number / 7

    population = wealth(1, citizens=20)
    population.metrics.update({f"m{number}": money(number) for number in range(250)})
    tracemalloc.start()
    try:
        with Journal(tmp_path / "journal") as journal:
            given = journal if is_recorded else None
            async with Society(population, journal=given) as society:
                options: Any = {"progress": progress} | ({"save_every": 5} if is_recorded else {})
                await society.run(steps=61, out=tmp_path / "out", **options)
    finally:
        tracemalloc.stop()
    assert found[1] - found[0] < 250_000, found  # 40 rows would take a million


def test_tables_on_a_full_disk_have_whole_rows(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with made() as society:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))
        try:
            with pytest.raises(FileError, match="csv cannot be written: File too large"):
                asyncio.run(society.run(steps=200, out=tmp_path))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    for name in ("metrics", "messages"):
        assert (tmp_path / f"{name}.csv").read_text().endswith("\n")
        with (tmp_path / f"{name}.csv").open(newline="") as lines:
            assert all(None not in row.values() for row in csv.DictReader(lines))


def lived(folder: Path, citizens: Any, journal: Journal | None = None, **options: Any) -> None:
    """Live half a day of a town with trajectories, in objects or, of a population, in columns."""
    city = City.generate(seed=5, citizens=20)
    people = citizens if isinstance(citizens, int) else citizens(city)
    place = city if isinstance(citizens, int) else None
    with Society(people, place, seed=5, journal=journal) as society:
        asyncio.run(society.run(0.5, "1h", out=folder, trajectories=True, **options))


@pytest.mark.parametrize("citizens", (20, lambda city: Population(20, city, seed=5)))
def test_trajectories_are_read_again_after_a_kill(tmp_path: Path, citizens: Any) -> None:
    def stop(row: dict[str, Any]) -> None:
        if row["step"] == 9:
            raise Stop

    whole, out = tmp_path / "whole", tmp_path / "out"
    with Journal(tmp_path / "one") as journal:
        lived(whole, citizens, journal, run_id="r")
    with Journal(tmp_path / "two") as journal:
        with pytest.raises(Stop):
            lived(out, citizens, journal, run_id="r", save_every=4, progress=stop)
        assert {row["step"] for row in Trajectories(out)} == set(range(10))
    so_far: list[int] = []
    with Journal(tmp_path / "two") as journal:
        lived(
            out,
            citizens,
            journal,
            run_id="r",
            save_every=4,
            progress=lambda row: so_far.append(max(each["step"] for each in Trajectories(out))),
        )
    assert so_far == [7, 8, 9, 10, 11]
    assert list(Trajectories(out)) == list(Trajectories(whole))
    table = Trajectories(out)
    assert [(row["step"], row["citizen"]) for row in table][:3] == [(0, "1"), (0, "2"), (0, "3")]
    assert [row["step"] for row in table.of(7)] == list(range(12))
    home = [row["home"] for row in rows(out, "metrics")]
    assert table.of(7)[2]["act"] == "sleep"
    placed = [sum((at or "").startswith("home") for at in table.at(n).values()) for n in range(12)]
    assert all(each >= at_home for each, at_home in zip(placed, home, strict=True))


def test_trajectories_leave_out_a_row_that_a_kill_has_cut(tmp_path: Path) -> None:
    file = tmp_path / "trajectories.csv"
    for cut in ("0,2,home-1,,sle", "0,2", "0"):
        file.write_text(f"step,citizen,place,to,act\n0,1,home-1,,sleep\n{cut}")
        assert [row["citizen"] for row in Trajectories(tmp_path)] == ["1"]


def test_objects_and_columns_write_the_same_trajectories_as_parquet_and_csv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    city = City.generate(seed=5, citizens=20)
    agents = citizens(make_people(city, 20, seed=5))
    for name, each in (("rows", Population(20, city, seed=5)), ("agents", agents)):
        with Society(each, city, seed=5) as society:
            asyncio.run(society.run(0.5, "1h", out=tmp_path / name, trajectories=True))
    table = Trajectories(tmp_path / "rows")
    assert list(table) == list(Trajectories(tmp_path / "agents"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    lived(tmp_path / "csv", lambda city: Population(20, city, seed=5))
    monkeypatch.undo()
    assert Trajectories(tmp_path / "csv").path.suffix == ".csv"
    assert list(Trajectories(tmp_path / "csv")) == list(table)
    assert Trajectories(tmp_path / "csv").of(7) == table.of(7)


def test_trajectories_without_a_folder_and_a_folder_without_them_are_refused(
    tmp_path: Path,
) -> None:
    with made() as society, pytest.raises(ConfigError, match="give out="):
        asyncio.run(society.run(steps=1, trajectories=True))
    with pytest.raises(ConfigError, match="has no table trajectories"):
        Trajectories(tmp_path)
    (tmp_path / "notes.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ConfigError, match="is not a table of trajectories: it has a, b"):
        Trajectories(tmp_path / "notes.csv")


@pytest.mark.parametrize("step", ("x", 1.5, -1))
def test_trajectories_at_no_step_are_refused(step: Any, tmp_path: Path) -> None:
    with made() as society:
        society.run_sync(steps=1, out=tmp_path, trajectories=True)
    with pytest.raises(ConfigError, match="step must be a whole number from 0 up"):
        Trajectories(tmp_path).at(step)


class Saver(CitizenAgent):
    async def forward(self) -> None:
        self.status["wealth"] = self.perceived.step * int(self.id)
        self.status["mind"] = {"mood": "calm" if self.perceived.step else None}


@pytest.mark.parametrize("without_pyarrow", (False, True))
async def test_trajectories_have_the_values_of_citizens_that_were_asked_for(
    tmp_path: Path, without_pyarrow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if without_pyarrow:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    async with Society([Saver("1"), Saver("2")]) as society:
        await society.run(steps=3, out=tmp_path, trajectories=["wealth", "mind.mood"])
    rows = [*Trajectories(tmp_path)]
    assert [(e["step"], e["citizen"], e["wealth"]) for e in rows] == [
        (step, id, float(step * int(id))) for step in range(3) for id in "12"
    ]
    assert [each["mind.mood"] for each in rows] == [None] * 2 + ["calm"] * 4


async def test_trajectories_of_rows_have_columns_as_numbers_and_words(tmp_path: Path) -> None:
    city = City.generate(seed=1, citizens=20)
    population = Population(20, city, seed=1)
    async with Society(population) as society:
        await society.run(steps=2, out=tmp_path, trajectories=("hunger", "gender"))
        last = [each for each in Trajectories(tmp_path) if each["step"] == 1]
        assert [each["hunger"] for each in last] == population.columns["hunger"].tolist()
        assert {each["gender"] for each in last} == {"female", "male"}
        for wrong, why in (("hungr", "a list"), (["hungr"], "no column 'hungr'"), (["place"], "p")):
            with pytest.raises(ConfigError, match=why):
                await society.run(steps=1, out=tmp_path / "b", trajectories=wrong)
