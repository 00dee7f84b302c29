"""What rows say and hear, among themselves and with full agents and agents that are no citizens."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.society.life import Noting, said
from tests.society.population.lives import same
from tests.society.population.test_social_rows import social

from moothall.society import Grid, Move, Rows, Society
from moothall.society.blocks.row_block import RowBlock
from moothall.society.blocks.social import SocialBlockParams
from moothall.society.columns.column import Column
from moothall.society.population.population import Population

HI, MUSIC = "hi", "music"


class Talking(RowBlock):
    """Each says something to the row that its column names, and counts and sums what it hears."""

    columns = {  # noqa: RUF012
        "to": Column("int64", -1),
        "heard": Column("int64"),
        "order": Column("int64"),
    }
    words = (HI, MUSIC)

    def before_rows(self, rows: Any) -> None:
        heard = rows.heard()
        rows["heard"] += rows.heard_count()
        for at, _, _, opinion, _ in zip(*(heard or [()] * 5), strict=True):
            rows["order"][at] = rows["order"][at] * 31 % 10**9 + opinion

    def step_rows(self, rows: Any) -> None:
        who = rows.ids.astype(np.int64)
        rows.say(np.maximum(rows["to"], 0), HI, MUSIC, who, where=rows["to"] >= 0)


def talking(to: list[int], **options: Any) -> Population:
    return Population({"to": np.array(to), "money": np.zeros(len(to), np.int64)}, None, [Talking()])


def columns(society: Society) -> list[list[int]]:
    return [society.population.columns[name].tolist() for name in ("heard", "order")]


async def test_rows_hear_in_one_order_whoever_is_a_full_agent() -> None:
    to = [2, 2, 0, 2, -1, 0, 2]
    found = []
    for full in ((), range(1, 8), (2, 3), (1, 7)):
        population = talking(to)
        for id in full:
            population.promote(id)
        async with Society(population) as society:
            made = await society.run(steps=4)
            waiting = [society.respondent(id).perceived.messages for id in range(1, 8)]
            found.append((columns(society), [row["messages"] for row in made], waiting))
    assert sorted(each["from"] for each in found[0][2][2]) == ["1", "2", "4", "7"]
    assert found[0][0][0] == [6, 0, 12, 0, 0, 0, 0]
    assert found[0][1] == [6, 6, 6, 6]
    assert found == [found[0]] * 4


async def test_full_agent_gets_real_messages_of_rows_and_is_heard_by_them() -> None:
    population = talking([1, -1, 1])
    agent = population.promote(2)
    async with Society(population) as society:
        await society.run(steps=1)
        agent.send(said(1, content="free words", topic="music", opinion=5000))
        agent.send(said(3, content=HI, topic="chess", opinion=7))
        agent.send(said("*", content=HI))
        agent.send(said(3, "plan"))  # rows hear what is said, and nothing else
        seen = list(agent.perceived.messages)
        await society.run(steps=1)
        seen += agent.perceived.messages
        assert [each["from"] for each in seen] == ["1", "3", "2"]
        args = {"content": HI, "topic": MUSIC, "opinion": 1}
        assert seen[0] == {"from": "1", "to": "2", "action": {"name": "say", "args": args}}
        assert columns(society)[0] == [2, 3, 2]
        # What is said of an unknown topic or beyond ±1000 is heard so.
        assert columns(society)[1] == [1000 * 31, (1 * 31 + 3) * 31, 7 * 31]


async def test_rows_hear_topics_that_are_known_with_opinions_that_are_whole_numbers() -> None:
    heard: list[tuple[Any, ...]] = []

    class Hearing(Talking):
        def before_rows(self, rows: Any) -> None:
            heard.extend(zip(*(rows.heard() or [()] * 5), strict=True))

    population = Population({"to": np.array([-1, -1])}, None, [Hearing()])
    agent = population.promote(2)
    async with Society(population) as society:
        for topic, opinion in ((MUSIC, -5000), ("", 1), ("chess", 2), (None, 3), (MUSIC, "much")):
            agent.send(said(1, content=HI, topic=topic, opinion=opinion))
        agent.send(said(1, content=7))
        await society.run(steps=2)
    hi, music = map(population.words.index, (HI, MUSIC))
    told = [(music, -1000), (-1, 1), (-1, 2), (-1, 3), (-1, 0)]
    expected = [*((0, 1, *each, hi) for each in told), (0, 1, -1, 0, -1)]
    assert [tuple(map(int, each)) for each in heard] == expected


async def test_agents_that_are_no_citizens_talk_with_rows() -> None:
    population = talking([-1, -1, -1])
    async with Society(population) as society:
        for id, opinion in (("mayor", 3), ("99", 2), ("0", 1)):
            agent = Noting(id)
            society.add(agent)
            agent.send(said(2, content=HI, topic=MUSIC, opinion=opinion))
        await society.run(steps=1)
        assert columns(society)[0] == [0, 3, 0]


async def test_row_has_friends_that_are_no_citizens() -> None:
    one = {"opinions": {}, "profile": {"interests": {}}, "place": 0}
    population, _ = social([{**one, "relations": {}}] * 2, SocialBlockParams(here=0, friends=3))()
    async with Society(population) as society:
        mayor = Noting("mayor")
        society.add(mayor)
        for step in range(20):
            if step < 6:
                mayor.send(said(1, content=HI))
            await society.run(steps=1)
        relations = population.status_of(0)["relations"]
        assert relations["mayor"] > 0
        assert {each[0] for each in mayor.heard} == {"1"}
        again = population.promote(1)
        assert again.status["relations"] == relations
        assert population.columns["friends"][0].tolist()[0] < 0


async def test_mailbox_of_a_row_is_as_large_as_an_agents() -> None:
    population = talking([4] * 4 + [-1])
    for id in range(1, 5):
        population.promote(id)
    async with Society(population, mailbox=3) as society:
        for _ in range(2):
            await society.run(steps=1)
        assert columns(society)[0] == [0, 0, 0, 0, 3]
        everybody = [society.population.agents[row].perceived.messages for row in range(4)]
        refused = [each["action"] for messages in everybody for each in messages]
        assert [each["name"] for each in refused] == ["error"]
        assert "mailbox" in refused[0]["args"]["error"]


async def test_interceptors_and_observers_see_what_rows_say() -> None:
    population = talking([1, 0, 0])
    seen: list[Any] = []

    def stop(message: dict[str, Any]) -> dict[str, Any] | None:
        return None if message["from"] == "3" else message

    async with Society(population) as society:
        society.observe(lambda message: seen.append((message["from"], message["to"])))
        society.intercept(stop)
        rows = await society.run(steps=2)
        assert seen == [("1", "2"), ("2", "1")] * 2
        assert [row["messages"] for row in rows] == [2, 2]
        assert columns(society)[0] == [1, 1, 0]


@pytest.mark.parametrize("way", ("promote", "demote"))
async def test_rows_promoted_or_demoted_hear_earlier_messages(way: str) -> None:
    population = talking([1, -1, 1])
    if way == "demote":
        population.promote(2)
    async with Society(population) as society:
        await society.run(steps=1)
        getattr(population, way)(2)
        await society.run(steps=1)
        assert columns(society)[0] == [0, 2, 0]


async def test_rows_messages_are_part_of_the_state() -> None:
    async with Society(talking([1, -1, 1])) as society:
        mayor = Noting("mayor")
        society.add(mayor)
        mayor.send(said(3, content=HI, topic=MUSIC, opinion=9))
        await society.run(steps=1)
        state = json.loads(json.dumps(society.state_dict()))
        await society.run(steps=2)
        expected = columns(society)
    async with Society(talking([1, -1, 1])) as other:
        other.add(Noting("mayor"))
        other.load_state_dict(state)
        await other.run(steps=2)
        assert columns(other) == expected


@pytest.mark.parametrize("places", ("a grid", "no place", "nobody anywhere"))
async def test_rows_see_who_is_present_as_full_agents_do(places: str) -> None:
    city = None if places == "no place" else Grid(3, 1, capacity=None, cell_seconds=1500)

    class Looks(RowBlock):
        """Counts who is at its place, and goes on; some are on the way."""

        columns: ClassVar = {name: Column("int64") for name in ("many", "rank", "last")}

        def step_rows(self, rows: Rows) -> None:
            many, rank, present = rows.present()
            rows["many"], rows["rank"] = many, rank
            rows["last"] = np.where(many > 0, present(np.maximum(many, 1) - 1), -1)
            goes = (many > 0) & (rows.below(3, "goes") == 0)
            rows.want(Move, goes, to=rows.below(3, "to"))

    table = {"id": np.arange(5, 17)}
    if places == "a grid":
        table["place"] = np.arange(12) % 3
    await same(lambda: Population(table, city, [Looks()], 1), 8)
