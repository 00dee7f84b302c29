"""Births and deaths in columns: ids are never used twice, and nothing else is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.society.life import living

from moothall import Journal
from moothall.foundation.errors import ConfigError, StateError
from moothall.society import (
    Bank,
    CitizenAgent,
    City,
    Column,
    Feed,
    Grid,
    LocalEngine,
    Network,
    OtherBlock,
    Pay,
    Plane,
    Population,
    RowBlock,
    Save,
    Service,
    Society,
    Trajectories,
    make_economy,
)
from moothall.society.blocks import all_blocks


class Breeds(RowBlock):
    """One in three has a child; who is old dies, and leaves its money."""

    columns = {"age": Column("int32"), "kind": Column("int8")}  # noqa: RUF012

    def step_rows(self, rows: Any) -> None:
        age = rows["age"] + 1
        rows["age"] = age
        rows.add(rows.below(3, "breeds") == 0, kind=rows["kind"], age=0)
        old = (age > 3) & (rows.index > 0)
        rows.remove(old, heirs=0)


def lives(threads: int = 1, **options: Any) -> Society:
    table = {"kind": np.arange(60) % 5, "age": np.arange(60) % 4, "money": np.full(60, 7)}
    table["id"] = np.arange(60) + 10
    people = Population(table, blocks=[Breeds()], seed=3)
    return Society(people, engine=LocalEngine(threads=threads), **options)


def columns(society: Society) -> dict[str, Any]:
    made = {name: values.tolist() for name, values in society.population.columns.items()}
    return {"id": society.population.ids.tolist(), **made}


async def test_rows_added_have_new_ids_and_removed_leave_their_money() -> None:
    async with lives() as society:
        people = society.population
        assert people is not None
        known = set(people.ids.tolist())
        ever, total = max(known), society.books.total
        gone: set[int] = set()
        for _ in range(12):
            await society.step()
            now = set(people.ids.tolist())
            new = now - known
            assert all(each > ever for each in new)
            assert not now & gone
            gone |= known - now
            known, ever = now, max([ever, *new])
            assert (np.diff(people.ids.astype("int64")) > 0).all()
            assert society.books.total == total
            assert people.columns["age"].max(initial=0, where=people.ids != 10) <= 3
        assert gone
        assert len(people.columns["kind"]) == len(people) == len(known)
        with pytest.raises(ConfigError, match="there is no citizen"):
            people.row_of(min(gone))


async def test_births_are_the_same_on_threads_and_after_a_saved_state() -> None:
    async with lives() as one, lives(threads=3) as other, lives() as third:
        await one.run(steps=4)
        state = one.state_dict()
        first = columns(one)
        await one.run(steps=5)
        await other.run(steps=9)
        assert columns(one) == columns(other)
        third.load_state_dict(state)
        assert columns(third) == first
        await third.run(steps=5)
        assert third.state_dict() == one.state_dict()
        one.load_state_dict(state)
        assert columns(one) == first
        start = lives()
        one.load_state_dict(start.state_dict())
        assert columns(one) == columns(start)
        start.close()


def test_killed_run_with_births_continues_with_those_that_were_there(tmp_path: Path) -> None:
    def stop(row: dict[str, Any]) -> None:
        if row["step"] == 6:
            raise RuntimeError

    options: Any = {"steps": 9, "run_id": "r", "save_every": 2, "trajectories": True}
    with Journal(tmp_path / "one") as journal, lives(journal=journal) as society:
        asyncio.run(society.run(out=tmp_path / "whole", **options))
        whole = columns(society)
    with Journal(tmp_path / "two") as journal:
        with lives(journal=journal) as society, pytest.raises(RuntimeError):
            asyncio.run(society.run(out=tmp_path / "out", progress=stop, **options))
        with lives(journal=journal) as society:
            asyncio.run(society.run(out=tmp_path / "out", **options))
            assert columns(society) == whole
    with Journal(tmp_path / "three") as journal, lives(journal=journal) as society:
        del options["trajectories"]
        with pytest.raises(RuntimeError):
            society.run_sync(progress=stop, **options)
        society.run_sync(**options)  # the same society goes on
        assert columns(society) == whole
    table = list(Trajectories(tmp_path / "out"))
    assert table == list(Trajectories(tmp_path / "whole"))
    assert len({row["citizen"] for row in table}) > 60


@pytest.mark.parametrize("heir", (0, -1))
def test_rows_removed_leave_their_savings_too(heir: int) -> None:
    class Saves(RowBlock):
        def step_rows(self, rows: Any) -> None:
            if rows.step == 0:
                rows.want(Save, rows.ids == 2, cents=100)
            if rows.step == 2:
                rows.remove(rows.ids == 2, heirs=heir)

    people = Population([{"id": 1, "money": 0}, {"id": 2, "money": 100}], None, [Saves()], seed=1)
    with Society(people, services=[Bank()]) as society:
        if heir < 0:
            with pytest.raises(ConfigError, match="citizen 2 leaves with 100 cents"):
                society.run_sync(steps=4)
        else:
            society.run_sync(steps=4)
            bank: Any = society.services["bank"]
            assert dict(bank.deposits) == {"1": 100}
            assert bank.owed == society.books.total == 100


def test_rows_removed_leave_what_a_service_of_ones_own_owes_them() -> None:
    class Club(Service):
        def __init__(self) -> None:
            super().__init__("club", money=90)
            self.deposits = {"1": 30, "2": 60}

    class Dies(RowBlock):
        def step_rows(self, rows: Any) -> None:
            rows.remove(rows.ids == 2, heirs=0)

    people = Population([{"id": 1, "money": 0}, {"id": 2, "money": 100}], None, [Dies()], seed=1)
    with Society(people, services=[Club()]) as society:
        society.run_sync(steps=3)
        assert people.columns["money"].tolist() == [100]
        assert society.services["club"].deposits == {"1": 90}


@pytest.mark.parametrize("kind", ("agents", "columns", "a full agent"))
def test_citizen_removed_leaves_its_money_and_savings_to_an_heir(kind: str) -> None:
    city = City.generate(seed=1, citizens=100)
    people = Population(100, city, seed=1) if kind == "a full agent" else 99 + (kind == "columns")
    with Society(people, None if kind == "a full agent" else city, services=[Bank()]) as society:
        if isinstance(people, Population):
            people.promote(2)
        bank: Any = society.services["bank"]
        books, total = society.books, society.books.total
        bank.deposits.update({"2": 500, "3": 20})
        for id, heir, fitting in (("2", 3, True), ("4", "bank", True), ("5", "5", False)):
            if kind == "a full agent" and id == "4":
                break
            has, own = books.balances[id], books.balances[str(heir)]
            if not fitting:
                with pytest.raises(ConfigError, match="heir= must be the id of another"):
                    society.remove(id, heir=heir)
                continue
            society.remove(id, heir=heir)
            assert books.balances[str(heir)] == own + has
        assert bank.deposits["3"] == 520
        assert "2" not in bank.deposits
        assert books.total == total
        row = society.run_sync(steps=1)[0]
        assert row["money"] == total
        if kind != "a full agent":  # which is a row again
            has = books.balances["7"]
            society.remove("7")
            assert society.run_sync(steps=1)[0]["money"] == total - has


async def test_citizen_that_leaves_in_a_step_has_an_heir() -> None:
    def leave(me: Any) -> None:
        if me.perceived.step == 1:
            me.space.remove(me, heir="2")

    agents = [living(leave, money=70), living(lambda _: None, id=2, money=5)]
    async with Society(agents) as society:
        await society.run(steps=3)
        assert agents[1].status["money"] == society.books.total == 75
        assert [row["money"] for row in society.metrics] == [75] * 3


class Pays(RowBlock):
    """The first pays the last, who dies; full agents and answers keep their ids."""

    def step_rows(self, rows: Any) -> None:
        if rows.step == 0:
            rows.want(Pay, rows.index == 0, to=rows.citizens - 1, cents=1)
            rows.remove(rows.index == 1, heirs=rows.citizens - 1)
        if rows.step == 1:
            rows.remove(rows.index == rows.citizens - 1, heirs=0)


async def test_full_agents_and_answers_keep_their_ids() -> None:
    people = Population({"id": [3, 5, 8, 9], "money": [5, 0, 0, 0]}, blocks=[Pays()])
    agent = people.promote(8)
    async with Society(people) as society:
        await society.step()
        assert people.ids.tolist() == [3, 8, 9]
        assert people.row_of(8) == 1
        assert people.agents == {1: agent}
        assert people.full.tolist() == [False, True, False]
        (answer,) = society.books.answers[Pay].answers(0, people)
        assert (answer.done, answer.want.to) == (True, "9")
        await society.step()
        assert people.ids.tolist() == [3, 8]
        assert people.columns["money"].tolist() == [5, 0]
        people.demote(8)
        await society.step()


class Fills(RowBlock):
    """Each has a child in the cell to its right, as long as there is room."""

    def step_rows(self, rows: Any) -> None:
        right = np.minimum(rows["place"] + 1, len(rows.population.places) - 1)
        rows.add(None, place=right, home=right)


async def test_rows_added_only_where_a_place_has_room() -> None:
    grid = Grid(4, 1, capacity=1)
    people = Population({"home": np.array([0, 2], "int32")}, grid, [Fills()])
    async with Society(people) as society:
        await society.step()
        assert people.columns["place"].tolist() == [0, 2, 1, 3]
        await society.step()
        assert len(people) == 4
        assert society.books.at_place.tolist() == [1, 1, 1, 1]


class Adds(RowBlock):
    columns = {"age": Column("int8"), "den": Column("place", None)}  # noqa: RUF012

    def __init__(self, **given: Any) -> None:
        super().__init__()
        self.given = given

    def step_rows(self, rows: Any) -> None:
        if "die" in self.given:
            rows.remove(None, heirs=self.given.get("heirs"))
        else:
            rows.add(None, **self.given)


WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"agee": 1}, {}, "'agee': none is there .did you mean 'age'"),
    ({"money": 1}, {}, "'money': only the commit stage sets it"),
    ({"age": [1, 2]}, {}, r"add: age must be one number, or 3, one for each row, got \(2,\)"),
    ({"age": "old"}, {}, r"add: age must be one number, or 3, one for each row, got \"old\""),
    ({"age": None}, {}, r"add: age must be one number, or 3, one for each row, got null"),
    ({"age": 1000}, {}, "age must fit its column of int8"),
    ({"den": 3}, {}, "den must be the number of a place, or -1"),
    ({}, {"network": Network.small_world(3, neighbours=2, seed=1)}, "it has a network"),
    ({"die": 1}, {}, "citizen 1 leaves with 4 cents"),
    ({"die": 1, "heirs": "2"}, {}, r"remove: heirs must be one number, or 3, .*, got \"2\""),
    ({"die": 1, "heirs": 1.5}, {}, r"remove: heirs must be rows, whole numbers, got 1\.5"),
    ({"die": 1, "heirs": [1, 2]}, {}, r"remove: heirs must be one number, or 3, .*got \(2,\)"),
]


@pytest.mark.parametrize(("given", "options", "said"), WRONG)
async def test_rows_wrong_births_and_deaths_are_refused(
    given: dict[str, Any], options: dict[str, Any], said: str
) -> None:
    people = Population({"money": [4, 0, 0]}, Plane(5), [Adds(**given)], **options)
    async with Society(people) as society:
        with pytest.raises(ConfigError, match=said):
            await society.step()


class Moves(OtherBlock):
    """In the third step the first third leaves for good, and the last ones have a child each."""

    def before_rows(self, rows: Any) -> None:
        if rows.step == 2:
            rows.remove(rows.index < 10, heirs=rows.citizens - 1)
            park = rows.population.of_kind("park", 1)[0]
            rows.add(rows.index >= rows.citizens - 3, home=rows["home"], place=park, age=0)


async def test_rows_leave_and_come_in_a_town_with_friends_savings_and_a_feed() -> None:
    city = City.generate(seed=2, citizens=60)
    blocks = [each for each in all_blocks() if type(each) is not OtherBlock]
    people = Population(40, city, [*blocks, Moves()], seed=2)
    services = [*make_economy(city, seed=2), Feed()]
    async with Society(people, services=services, start="2026-01-05T20:00") as society:
        await society.run(steps=2)
        total, feed = society.books.total, services[-1]
        before = {id: people.status_of(people.row_of(id)) for id in ("11", "25", "40")}
        posts = [each[:3] for each in feed.state_dict()["posts"]]
        assert posts
        await society.step()
        assert people.ids.tolist() == [*range(11, 44)]
        for id, status in before.items():
            now = people.status_of(people.row_of(id))
            assert now["profile"] == status["profile"]
            assert now["home"] == status["home"]
            assert {*status["relations"]} <= {*now["relations"]}
        assert [each[:3] for each in feed.state_dict()["posts"]][: len(posts)] == posts
        assert society.books.total == total
        await society.run(steps=20)
        assert not society.failures
        assert people.status_of(people.row_of("43"))["plan"]


async def test_births_of_a_step_that_failed_are_not_repeated_after_a_saved_state() -> None:
    fails = [4]

    class Stumbles(Service):
        def after_step(self, books: Any) -> None:
            if fails == [books.step]:
                fails.clear()
                raise RuntimeError("amid")

    async with lives() as whole, lives(services=[Stumbles("stumbles")]) as society:
        await whole.run(steps=9)
        await society.run(steps=3)
        state = society.state_dict()
        with pytest.raises(StateError, match="amid"):
            await society.run(steps=6)
        society.load_state_dict(state)
        await society.run(steps=6)
        assert columns(society) == columns(whole)


async def test_citizen_added_by_a_rule_of_rows_is_refused_and_ends_no_run() -> None:
    class Calls(RowBlock):
        def step_rows(self, rows: Any) -> None:
            if rows.step == 1:
                society.add(CitizenAgent("ann"))

    async with Society(Population(3, blocks=[Calls()])) as society:
        assert len(await society.run(steps=3)) == 3
        ((step, who, why),) = society.failures
        assert (step, who) == (1, "ann")
        assert "is not of the society's population" in why


async def test_child_has_no_id_of_a_service() -> None:
    class Parents(RowBlock):
        def step_rows(self, rows: Any) -> None:
            rows.add(rows.index < 2)

    society = Society(Population(3, blocks=[Parents()]), services=[Bank("5", money=50)])
    async with society:
        await society.run(steps=2)
        assert society.population.all_ids() == ["1", "2", "3", "4", "6", "7", "8"]
        assert (society.books.balances["5"], society.books.balances["6"]) == (50, 0)
