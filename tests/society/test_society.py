"""Societies live step by step: determinism, failures, who comes and goes, states, bad input."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from moothall import Agent, Journal, action
from moothall.agents.block import Block
from moothall.foundation.errors import (
    ConfigError,
    DefinitionError,
    DuplicateAgent,
    RunMismatch,
    SpaceClosed,
    StateError,
)
from moothall.society import (
    Answer,
    CitizenAgent,
    CitizenMemory,
    City,
    Column,
    Feed,
    Grid,
    LabourMarket,
    LocalEngine,
    Move,
    NeedsBlock,
    Network,
    Pay,
    Perception,
    Place,
    Population,
    Post,
    RowBlock,
    Rows,
    Save,
    Service,
    SocialBlock,
    SocialBlockParams,
    Society,
    View,
    Weather,
    completed,
    make_economy,
    make_people,
    read_people,
)
from moothall.society.clock import Clock
from society.life import Bank, Busy, Noting, Shuffled, busy, living, said, state_of, town


async def lived(engine: Any = None, steps: int = 6, seed: int = 3) -> tuple[bytes, list[Any]]:
    """What a busy society comes to, and every message in the order in which it was shown."""
    shown: list[Any] = []
    async with Society(busy(20), town(), seed=seed, engine=engine, services=[Bank()]) as society:
        society.observe(shown.append)
        await society.run(steps=steps)
        return state_of(society), shown


async def test_society_is_the_same_in_any_order_of_turns() -> None:
    state, shown = await lived()
    assert len(shown) > 100
    for seed in range(3):
        other_state, other_shown = await lived(Shuffled(seed))
        assert json.dumps(other_shown) == json.dumps(shown)
        assert other_state == state
    assert (await lived(seed=4))[0] != state


async def test_society_state_continues_as_the_society_that_it_is_of() -> None:
    whole, _ = await lived(steps=6)
    async with Society(busy(20), town(), seed=3, services=[Bank()]) as society:
        await society.run(steps=3)
        state = society.state_dict()
    async with Society(busy(20), town(), seed=3, services=[Bank()]) as other:
        other.load_state_dict(json.loads(json.dumps(state)))
        assert other.number == 3
        other.agents[0].want(Pay("2", 9))  # what was wanted before is not in the state
        other.load_state_dict(state)
        await other.run(steps=3)
        assert state_of(other) == whole


ROBBED = base64.b64encode((-1).to_bytes(8, "little", signed=True) * 3).decode()
"""The money of three citizens."""


@pytest.mark.parametrize(
    ("change", "told"),
    (
        (lambda state: state.update(kind="Space"), "not a state of a Society"),
        (lambda state: state.update(format=9), "version 9"),
        (lambda state: state.update(seed=4), "seed 4"),
        (lambda state: state["agents"][0].update(id="9"), "the society has not: 9: add them .or"),
        (lambda state: state["services"].clear(), "services are not"),
        (lambda state: state["agents"][0].update(answers=[["Fly", [], True, "", None]]), "damaged"),
        (lambda state: state["columns"][0].__setitem__(3, [ROBBED]), "has -1 cents"),
        (lambda state: state.pop("clock"), "damaged"),
        (lambda state: state.update(step=-1), "damaged: .*step must be 0 or more, got -1"),
        (lambda state: state.update(step="x"), "damaged: .*step must be 0 or more, got 'x'"),
        (
            lambda state: state["agents"].extend({"id": id} for id in ("100", "x", "20")),
            "has agents that the society has not: 20, 100, x: add them",
        ),
    ),
)
async def test_society_state_of_another_or_a_damaged_one_is_refused(change: Any, told: str) -> None:
    async with Society(busy(3), town(), seed=3, services=[Bank()]) as society:
        state = society.state_dict()
        change(state)
        with pytest.raises((StateError, ConfigError), match=told):
            society.load_state_dict(state)


async def test_society_state_that_is_no_json_is_refused_with_its_agent() -> None:
    citizens = busy(3)
    async with Society(citizens, town(), seed=3, services=[Bank()]) as society:
        for what in ({"a set"}, float("nan")):
            citizens[1].status["known"] = what
            with pytest.raises(StateError, match=f"agent '{citizens[1].id}' cannot be"):
                society.state_dict()


async def test_society_failing_citizen_loses_only_its_own_turn() -> None:
    class Boom(Block):
        async def forward(self) -> None:
            self.agent.want(Pay("2", 50))
            raise ValueError("no luck")

        def fits(self, context: Any) -> float:
            return 1.0

    failing = CitizenAgent(1, memory=CitizenMemory({"money": 100}), blocks=[Boom()])

    class Plain(Boom):
        def forward(self) -> None:  # type: ignore[override]
            """Not a coroutine function."""

    lucky = living(lambda me: me.want(Pay("1", 7)), id=2, money=100)
    async with Society([CitizenAgent(1, blocks=[Plain()])]) as society:
        await society.step()
        assert "block 'Plain': forward, which must be `async def`" in society.failures[0][2]
    async with Society([failing, lucky]) as society:
        row = await society.step()
        assert row["failures"] == 1
        assert (failing.status["money"], lucky.status["money"]) == (107, 93)
        ((step, agent, what),) = society.failures
        assert (step, agent) == (0, "1")
        assert "ValueError: no luck" in what
        assert "agent 1, block 'Boom': forward" in what
        assert (await society.step())["failures"] == 1


async def test_society_does_not_wait_for_a_removed_citizen() -> None:
    async def wait(me: CitizenAgent) -> None:
        await asyncio.Event().wait()

    remover = living(lambda me: me.space.remove("1"), id=2)
    async with Society([living(wait), remover]) as society, asyncio.timeout(5):
        assert (await society.step())["failures"] == 0
        assert society.ids() == ["2"]


async def test_society_failed_citizen_acts_again_in_the_next_step() -> None:
    def pays(me: CitizenAgent) -> None:
        if me.perceived.step == 0:
            raise ValueError("before it wanted anything")
        me.want(Pay("2", 5))

    ann, ben = living(pays, money=100), living(lambda _: None, id=2)
    async with Society([ann, ben]) as society:
        await society.run(steps=3)
        assert [each.done for each in society.mailboxes[0].answers] == [True]
    assert (ann.status["money"], ben.status["money"]) == (90, 10)


@pytest.mark.parametrize("error", (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError))
async def test_society_exceptions_of_citizens_do_not_end_the_run(
    error: type[BaseException],
) -> None:
    def raises(_: Any) -> None:
        raise error

    calm = living(lambda me: me.memory.note(me.perceived.step, "calm"), id=2)
    async with Society([living(raises), calm]) as society:
        rows = await society.run(steps=2)
        assert [row["failures"] for row in rows] == [1, 1]
        assert len(calm.memory.stream) == 2


async def test_society_citizens_may_leave_and_come_in_a_step() -> None:
    seen: list[tuple[int, Any, tuple[str, ...]]] = []

    def look(me: CitizenAgent) -> None:
        seen.append((me.perceived.step, me.id, me.perceived.present))

    def leave(me: CitizenAgent) -> None:
        look(me)
        me.want(Pay("2", 5))
        me.space.remove(me)

    def call(me: CitizenAgent) -> None:
        look(me)
        if me.perceived.step == 0:
            me.space.add(living(look, id=9, home="b", money=3))

    first, second = living(leave, id=1, home="b", money=50), living(call, id=2, home="b")
    async with Society([first, second], town()) as society:
        rows = await society.run(steps=2)
        assert seen == [
            (0, 1, ("1", "2")),
            (0, 2, ("1", "2")),
            (1, 2, ("2", "9")),
            (1, 9, ("2", "9")),
        ]
        assert [row["money"] for row in rows] == [3, 3]  # what left took its money along
        assert first.space is None
        assert sorted(society.ids()) == ["2", "9"]


async def test_society_citizens_may_leave_and_come_at_the_end_of_a_step() -> None:
    seen: list[tuple[int, Any, tuple[str, ...]]] = []

    def look(me: CitizenAgent) -> None:
        seen.append((me.perceived.step, me.id, me.perceived.present))

    class Registry(Service):
        def after_step(self, books: Any) -> None:
            if books.step == 0:
                society.add(living(look, id=9, home="b", money=3))
                society.remove("2")

    first, second = living(look, id=1, home="b"), living(look, id=2, home="b", money=50)
    async with Society([first, second], town(), services=[Registry("registry")]) as society:
        rows = await society.run(steps=2)
        assert seen == [
            (0, 1, ("1", "2")),
            (0, 2, ("1", "2")),
            (1, 1, ("1", "9")),
            (1, 9, ("1", "9")),
        ]
        assert [row["money"] for row in rows] == [3, 3]


async def test_society_citizen_added_and_removed_in_one_step_never_came() -> None:
    def call(me: CitizenAgent) -> None:
        if me.perceived.step == 0:
            me.space.add(living(print, id=8, money=3))
            me.space.remove("8")
            me.space.add(living(print, id=9, home="nowhere", money=4))

    async with Society([living(call)], town()) as society:
        assert (await society.step())["money"] == 0
        ((step, who, why),) = society.failures
        assert (step, who, why) == (0, "9", "citizen '9' cannot start at 'nowhere': no such place")
        assert society.ids() == ["1"]
        society.add(living(lambda _: None, id=9, home="a", money=4))
        assert [row["money"] for row in await society.run(steps=2)] == [4, 4]


async def test_failures_are_in_order_of_id_whatever_the_order_of_turns() -> None:
    def raises(_: Any) -> None:
        raise KeyError

    many = [living(raises, id=id) for id in (10, 2, "x", 1, "b")]
    many.append(living(lambda me: None, id="y"))  # a first step in which all fail ends the run
    async with Society(many, engine=Shuffled(3)) as society:
        await society.run(steps=2)
        assert [id for _, id, _ in society.failures] == ["1", "2", "10", "b", "x"] * 2
        await society.run(steps=19)
        assert [step for step, _, _ in society.failures[:2]] == [1, 1]
        assert len(society.failures) == 100


async def test_failures_of_one_mistake_are_told_once_with_its_line_and_then_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def misspelt(me: CitizenAgent) -> None:
        if me.id != 1:
            me.status[f"moood of {me.id}"] += 1

    citizens = [living(misspelt, id=id) for id in range(1, 21)]
    async with Society(citizens) as society:
        await society.run(steps=8)
        first = society.books.faults.by_key
    assert len(caplog.messages) == 2
    told, counted = caplog.messages
    assert told.startswith("agent '2' lost its turn in step 0: KeyError: 'moood of 2' (")
    assert re.search(r"test_society\.py, line \d+, in misspelt\)$", told)
    assert counted.startswith("since step 0: 152 times KeyError: 'moood of 2'")
    assert [(each.step, each.source, each.count) for each in first.values()] == [(0, "2", 152)]


async def test_failures_of_all_citizens_in_the_first_step_end_the_run() -> None:
    def torn(me: CitizenAgent) -> None:
        raise KeyError(me.id)

    said = r"all 3 citizens failed in the first step: step 0, 1: KeyError: 1 .*line \d+, in torn"
    async with Society([living(torn, id=id) for id in (1, 2, 3)]) as society:
        with pytest.raises(StateError, match=said):
            await society.run(steps=9)
        assert society.number == 1
        assert len(await society.run(steps=1)) == 1  # whoever wants to goes on


@pytest.mark.parametrize("key", ("money", "place"))
async def test_society_citizen_that_writes_its_own_money_or_place_loses_its_turn(key: str) -> None:
    cheater = living(lambda me: me.status.update({key: 6}), home="a", money=5)
    async with Society([cheater], town()) as society:
        assert (await society.step())["failures"] == 1
        assert (cheater.status["money"], cheater.status["place"]) == (5, "a")
        assert f"citizen 1: only the commit stage changes its '{key}'" in society.failures[0][2]
    async with Society([living(lambda me: me.status.pop(key), home="a")], town()) as society:
        assert [(await society.step())["failures"] for _ in range(2)] == [1, 1]


async def test_society_citizen_that_replaces_its_status_keeps_the_old_one() -> None:
    replacer = living(lambda me: setattr(me.memory, "status", {}), home="a", money=5)
    async with Society([replacer, living(print, id=2)], town()) as society:
        row = await society.step()
        assert (row["money"], row["failures"]) == (5, 1)
        assert replacer.status["money"] == 5
        assert "its own status" in society.failures[0][2]


async def test_perception_is_the_world_as_the_step_before_left_it() -> None:
    texts: list[str] = []

    def walk(me: CitizenAgent) -> None:
        texts.append(me.perceived.text())
        if me.perceived.step == 0:
            me.want(Move("b"))
            me.want(Move("b", "swim"))

    citizen = living(walk, home="a", plan=[{"do": "shop", "where": "b"}], now=0)
    other = living(lambda me: me.send(said(1, content="hello")), id=2, home="a")
    async with Society([citizen, other], town()) as society:
        society.announce("The bridge is closed.")
        await society.run(steps=2)
    assert texts[0].splitlines() == [
        "It is Monday 2026-01-05 00:00:00.",
        "You are at a.",
        "Here are also 2.",
        "Your plan now: shop at b.",
        "News: The bridge is closed.",
    ]
    assert "You are at b." in texts[1]
    assert "2 (say): hello" in texts[1]
    assert "Move(to='b', mode=None): done" in texts[1]
    assert "Move(to='b', mode='swim'): not done: on the way to b" in texts[1]
    assert "News" not in texts[1]


async def test_society_announcement_within_a_step_is_heard_in_the_next() -> None:
    heard: list[list[str]] = []

    class Cries(RowBlock):
        async def forward(self) -> None:
            heard.append(self.perceived.news)

        def step_rows(self, rows: Rows) -> None:
            if rows.step == 0:
                society.announce("Fire!")

    population = Population(2, blocks=[Cries()])
    population.promote(1)
    async with Society(population) as society:
        await society.run(steps=3)
        assert heard == [[], ["Fire!"], []]
        society.announce("All is well.")
        state = society.state_dict()
        society.announce("The bridge is closed.")
        society.load_state_dict(state)  # of before the bridge was closed
        await society.run(steps=1)
    assert heard[3:] == [["All is well."]]


async def test_facts_are_perceived_as_they_are_at_each_step() -> None:
    seen: list[Any] = []
    weather = Weather(1)

    def look(me: CitizenAgent) -> None:
        seen.append(me.perceived)
        seen.append(me.perceived.text())

    async with Society([living(look)], facts=weather.facts) as society:
        start = society.clock
        await society.run(days=1, step="12h")
    night, text, noon, _ = seen
    assert night.facts == weather.facts(start)
    assert noon.facts == weather.facts(society.clock.at(1))
    assert night.facts != noon.facts
    assert f"weather: {json.dumps(night.facts['weather'])}." in text
    assert (night.step, night.place, night.messages) == (0, None, ())


async def test_society_run_has_the_steps_of_its_days_and_tells_of_each() -> None:
    told: list[Any] = []
    async with Society([living(lambda _: None, home="a")], town()) as society:
        assert await society.run(days=0) == []
        rows = await society.run(days=0.5, step="6h", progress=told.append)
        assert rows == told == society.metrics
        assert [row["time"] for row in rows] == ["2026-01-05T00:00:00", "2026-01-05T06:00:00"]
        assert rows[0]["home"] == 1
        await society.run(days=1, step="8h")
        assert str(society.clock) == "Tuesday 2026-01-06 12:00:00"
        assert society.number == 5
        assert (await society.step())["step"] == 5


async def test_society_progress_may_wait_for_a_thread_that_adds_an_agent() -> None:
    came: list[int] = []

    def look(row: dict[str, Any]) -> None:
        newcomer = living(lambda _: None, id=row["step"] + 2)
        adding = threading.Thread(target=society.add, args=(newcomer,), daemon=True)
        adding.start()
        adding.join(20)
        came.append(len(society.agents))

    async with Society([living(lambda _: None)]) as society:
        await society.run(steps=3, progress=look)
        assert came == [2, 3, 4]


async def test_society_activity_counts_for_the_length_of_its_step() -> None:
    class Sleeps(CitizenAgent):
        async def forward(self) -> None:
            self.status["act"] = "sleep"
            if self.id == 1 and self.perceived.step == 0:
                self.send({"to": "2", "action": {"name": "say", "args": {"content": "hello"}}})

    blocks = (NeedsBlock, SocialBlock)
    both = [
        Sleeps(id, memory=CitizenMemory({"needs": {"energy": 0}}), blocks=[b() for b in blocks])
        for id in (1, 2)
    ]
    energy = []
    async with Society(both) as society:
        for step in ("4h", "15min", "1h", "1h"):
            await society.run(steps=1, step=step)
            society.load_state_dict(society.state_dict())
            energy.append(both[1].status["needs"]["energy"])
    assert energy == [0, 500, 531, 656]
    assert both[1].status["relations"] == {"1": 32}  # of four hours


async def test_society_post_keeps_its_time_if_steps_change_their_length() -> None:
    feed, ann = Feed(), living(lambda me: me.want(Post(str(me.perceived.step))))
    async with Society([ann], services=[feed]) as society:
        for step in ("15min", "15min", "1h", "15min"):
            await society.run(steps=1, step=step)
            society.load_state_dict(society.state_dict())
    assert [each.posted for each in feed.posts.values()] == [0, 900, 1800, 5400]
    assert [each.text for each in feed.shown("2")] == ["3", "2", "1", "0"]


class Counting(CitizenAgent):
    """Counts its steps, and what it is told."""

    async def forward(self) -> None:
        self.status["lived"] = self.status.get("lived", 0) + 1
        self.status["heard"] = [each["from"] for each in self.perceived.messages]


async def test_replace_of_a_citizen_keeps_its_money_and_messages_and_the_new_ones_status() -> None:
    old = CitizenAgent(1, memory=CitizenMemory({"money": 100, "mood": 5, "home": "here"}))
    new = Counting(1, memory=CitizenMemory({"money": 7, "mood": 9}))
    async with Society([old, Counting(2)], services=[Bank()]) as society:
        await society.run(steps=1)
        society.agents[1].send({"to": "1", "action": {"name": "say", "args": {"content": "Hi"}}})
        await asyncio.to_thread(society.replace, old, new)
        await society.run(steps=1)
        assert society.agents[0] is new
        assert new.status == {
            "money": 100,
            "place": "here",
            "moving": None,
            "mood": 9,
            "home": "here",
            "lived": 1,
            "heard": ["2"],
        }
        assert society.failures == []
        state = society.state_dict()
        assert state["agents"][0]["memory"]["status"]["mood"] == 9
        society.load_state_dict(state)
        async with Society([CitizenAgent(1), Counting(2)], services=[Bank()]) as other:
            with pytest.raises(StateError, match=r"'1' .* is of Counting, and .* of C"):
                other.load_state_dict(state)
            await asyncio.to_thread(other.replace, other.agents[0], Counting(1))
            other.load_state_dict(state)
            assert other.agents[0].status == new.status
            assert other.state_dict() == state
        with pytest.raises(DefinitionError, match=r"cannot replace .*: one is no citizen"):
            await asyncio.to_thread(society.replace, new, Agent(1))


async def test_replace_of_a_full_agent_of_a_population_is_what_the_others_see() -> None:
    class Mood(RowBlock):
        columns = {"mood": Column()}  # noqa: RUF012

        def step_rows(self, rows: Any) -> None:
            pass

    population = Population(3, None, [Mood()])
    async with Society(population) as society:
        old = population.promote(2)
        new = Counting(2, memory=CitizenMemory({"mood": 4}))
        await asyncio.to_thread(society.replace, old, new)
        await society.run(steps=2)
        assert population.columns["mood"].tolist() == [0, 4, 0]
        assert new.status["lived"] == 2
        society.remove(new)
        await society.run(steps=1)
        assert population.columns["mood"].tolist() == [0, 4, 0]
        assert population.promote(2).status["mood"] == 4  # it was a row again
        assert (new.status["lived"], society.failures) == (2, [])


def test_society_takes_agents_of_other_threads_while_it_runs() -> None:
    def people(first: int, last: int) -> list[Counting]:
        return [Counting(n, memory=CitizenMemory({"money": 1})) for n in range(first, last)]

    later = people(300, 1300)
    with Society(people(0, 300)) as society, ThreadPoolExecutor(1) as thread:
        rows = thread.submit(society.run_sync, steps=60)
        for each in later:
            society.add(each)
        assert len(rows.result()) == 60
        row = society.run_sync(steps=1)[0]
        assert (row["money"], row["failures"]) == (1300, 0)
        assert all(each.status["lived"] for each in later)


async def test_society_without_citizens_has_its_days() -> None:
    city = City.generate(seed=1, citizens=10)
    async with Society([], city, services=make_economy(city)) as society:
        assert len(await society.run(days=2, step="6h")) == 8


async def test_society_recorded_run_has_its_length_of_a_step(tmp_path: Path) -> None:
    async with Society([], journal=tmp_path / "journal") as society:
        for until in ("06:00:00", "12:00:00"):
            await society.run(steps=1, step="6h")
            assert str(society.clock) == f"Monday 2026-01-05 {until}"


@pytest.mark.parametrize(
    ("arguments", "told"),
    (
        ({"steps": -1}, "steps must be"),
        ({"steps": 1.5}, "steps must be"),
        ({"days": -1}, "days must be"),
        ({"days": True}, "days must be"),
        ({"days": float("nan")}, "days must be"),
        ({"days": 1, "steps": 1}, "give one"),
        ({"days": 1, "step": "7h"}, "whole number of steps"),
        ({"step": "-1h"}, "step must be"),
        ({"days": 1e7}, "days must be a number, 0 or more"),
        ({"steps": 1, "save_every": 0}, "save_every must be"),
        ({"steps": 1, "progress": 3}, "progress= must be a function"),
        (
            {"steps": 1, "run_id": "R"},
            r"run_id= and save_every= need a journal",
        ),
        ({"steps": 1, "save_every": 4}, "run_id= and save_every= need a journal"),
        ({"steps": 1, "run_id": 5}, "run_id must be 1–255 printable characters, got 5"),
        ({"steps": 1, "run_id": ""}, 'run_id must be 1–255 printable characters, got ""'),
    ),
)
async def test_society_run_names_a_wrong_argument(arguments: dict[str, Any], told: str) -> None:
    async with Society([]) as society:
        with pytest.raises(ConfigError, match=told):
            await society.run(**arguments)


def sharing(status: dict[str, Any]) -> list[CitizenAgent]:
    return [CitizenAgent(number, memory=CitizenMemory(status)) for number in (1, 2)]


def taking(kinds: Any) -> Service:
    kind: type[Service] = type("Takes", (Service,), {"takes": kinds})
    return kind("x")


class Closes(Service):
    async def after_step(self, books: object) -> None:  # type: ignore[override]
        """Do nothing, ever: nobody awaits it."""


@pytest.mark.parametrize(
    ("arguments", "told"),
    (
        ({"citizens": -1}, "citizens must be"),
        ({"citizens": 10**12}, "a number from 0 to 10,000,000, or .*, got 1000000000000"),
        ({"citizens": b"many"}, "citizens must be"),
        ({"citizens": {}}, "citizens must be"),
        ({"seed": -1}, "seed must be"),
        ({"seed": 1.0}, "seed must be"),
        ({"seed": 2**64}, "seed must be"),
        ({"model_timeout_s": True}, "model_timeout_s must be above 0, got True"),
        ({"model_timeout_s": 0}, "model_timeout_s must be"),
        ({"turn_timeout_s": float("nan")}, "turn_timeout_s must be"),
        ({"mailbox": 0}, "mailbox"),
        ({"start": "soon"}, "start must be"),
        ({"services": [Bank("x"), Bank("x")]}, "two services"),
        ({"citizens": [living(print, money=-3)]}, "'1', in cents, must be a whole number"),
        ({"citizens": [living(print, money=1.5)]}, "'1', in cents, must be a whole number"),
        (
            {"citizens": [living(print, place="a", moving={"to": "a", "arrives": 3})]},
            "'1' is at 'a' and on the way",
        ),
        ({"citizens": [living(print, id=n, home="a") for n in range(9)]}, "which holds 8"),
        ({"citizens": [living(print, id="bank")], "services": [Bank()]}, "id of a service"),
        (
            {"citizens": [living(print, home="z")]},
            "'1' cannot start at 'z': no such place",
        ),
        ({"citizens": [living(print, id="city")]}, "id of a service"),
        ({"citizens": ["somebody"]}, "add takes an agent"),
        (
            {"citizens": make_people(None, 2)},
            r"rows of a table: citizens\(completed\(rows, city\)\)",
        ),
        ({"citizens": Population(2), "city": town()}, "city= and the population's are two"),
        ({"citizens": Population(2), "city": None, "seed": 1}, "seed=1, and the population's is 0"),
        ({"model": 3}, "model= must be a model or the name of one, got 3"),
        ({"engine": LocalEngine}, "engine= must be an engine, such as"),
        ({"budget": 5}, "budget= must be a Budget, got 5"),
        ({"facts": 3}, "facts= must be Facts, a dict, or a function"),
        ({"journal": 3}, "journal= must be a Journal or its path, got 3"),
        ({"services": [3]}, "services= must be a list of Services, got 3"),
        ({"services": [taking(("Pay",))]}, r"service 'x': takes must be kinds of wants, .*'Pay'"),
        ({"services": [taking(Pay)]}, "service 'x': takes must be kinds of wants, such as"),
        ({"services": [Closes("x")]}, "service 'x': after_step must be a plain function"),
        ({"citizens": [living(print), living(print)]}, "unique"),
        ({"citizens": sharing({"money": 5})}, "'2' has the status of '1': give each its own"),
    ),
)
def test_society_names_a_wrong_argument(arguments: dict[str, Any], told: str) -> None:
    before = set(threading.enumerate())
    with pytest.raises((ConfigError, DuplicateAgent, DefinitionError), match=told):
        Society(**{"city": town(), **arguments})
    new = set(threading.enumerate()) - before
    assert not [each for each in new if each.name == "moothall-Society"]


def test_engines_and_memories_refuse_what_they_cannot_use() -> None:
    with pytest.raises(ConfigError, match="concurrency must be"):
        LocalEngine(concurrency=0)
    with pytest.raises(DefinitionError, match="CitizenMemory"):
        CitizenAgent(1, memory="a lot")  # type: ignore[arg-type]
    for most in (0, 1.5, True):
        with pytest.raises(DefinitionError, match=f"most= must be 1 or more, got {most}"):
            CitizenMemory(most=most)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="threads must be"):
        LocalEngine(threads=0)
    with pytest.raises(ConfigError, match="apart must be True or False, got 1"):
        LocalEngine(apart=1)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="status= must be"):
        CitizenMemory([])  # type: ignore[arg-type]


async def test_citizens_who_take_their_turns_are_not_said_to_hold_the_loop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Thinks(CitizenAgent):
        async def forward(self) -> None:
            end = time.monotonic() + 0.06
            while time.monotonic() < end:
                pass
            await asyncio.sleep(0)  # as who waits for a model

    async with Society([Thinks(id) for id in range(40)]) as society:
        await society.step()
    assert "held the loop" not in caplog.text


async def test_society_rule_that_does_not_end_is_named(caplog: pytest.LogCaptureFixture) -> None:
    named = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Tell(logging.Handler):
        told = False

        def emit(self, record: logging.LogRecord) -> None:
            if "has held the loop" in record.getMessage():
                Tell.told = True
                Tell.text = record.getMessage()  # type: ignore[attr-defined]
                loop.call_soon_threadsafe(named.set)

    def spin(_: Any) -> None:
        while not Tell.told:
            pass

    handler = Tell()
    logging.getLogger("moothall.spaces.watchdog").addHandler(handler)
    try:
        async with Society([living(spin, id=17)]) as society:
            await society.step()
            await named.wait()
    finally:
        logging.getLogger("moothall.spaces.watchdog").removeHandler(handler)
    assert "agent '17' in \"17.step\"" in handler.text  # type: ignore[attr-defined]


async def test_society_run_that_is_cancelled_is_broken_off_and_continues_from_a_state() -> None:
    began = asyncio.Event()
    loop = asyncio.get_running_loop()
    waits = True

    async def wait(me: CitizenAgent) -> None:
        if waits:
            loop.call_soon_threadsafe(began.set)
            await asyncio.Event().wait()

    async with Society([living(wait)]) as society:
        state = society.state_dict()
        running = asyncio.create_task(society.run(steps=3))
        await began.wait()
        with pytest.raises(StateError, match="step 0 is under way"):
            society.state_dict()
        with pytest.raises(DefinitionError, match="running already"):
            await society.step()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        waits = False
        with pytest.raises(StateError, match="step 0 was broken off"):
            await society.step()
        society.load_state_dict(state)
        assert len(await society.run(steps=3)) == 3
    with pytest.raises(SpaceClosed):
        await society.step()


async def test_society_citizen_that_left_in_a_step_broken_off_may_come_again() -> None:
    began = asyncio.Event()
    loop = asyncio.get_running_loop()
    waits = True

    async def wait(me: CitizenAgent) -> None:
        if waits:
            me.space.remove("2")
            loop.call_soon_threadsafe(began.set)
            await asyncio.Event().wait()

    async with Society([living(wait), living(print, id=2, money=3)]) as society:
        state = society.state_dict()
        running = asyncio.create_task(society.run(steps=3))
        await began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        waits = False
        society.add(living(print, id=2))
        society.load_state_dict(state)
        assert [row["money"] for row in await society.run(steps=2)] == [3, 3]


async def test_society_turn_that_waits_for_ever_is_ended() -> None:
    async def wait(me: CitizenAgent) -> None:
        await asyncio.Event().wait()

    class Patient(Noting):
        @action
        async def wait(self) -> None:
            await asyncio.Event().wait()

    calm = living(lambda me: me.memory.note(0, "calm"), id=2)
    patient = Patient("patient")
    async with Society([living(wait), calm, patient], turn_timeout_s=0.05) as society:
        calm.send(said("patient", "wait"))
        calm.send(said("patient", content="next"))
        assert (await society.step())["failures"] == 2
        late = "TimeoutError: its turn waited longer than 0.05 s"
        assert list(society.failures) == [(0, "1", late), (0, "patient", late)]
    assert calm.memory.stream == [(0, "calm")]
    assert patient.heard == []


def test_citizens_by_number_and_by_table_are_those_of_the_seed(tmp_path: Path) -> None:
    city = City.generate(seed=1, citizens=20)
    file = tmp_path / "people.csv"
    file.write_text("id,name\n5,Ada\n6,\n")
    drawn = completed(read_people(file, city), city, seed=9)
    for given, expected in ((3, make_people(city, 3, seed=9)), (file, drawn), (str(file), drawn)):
        with Society(given, city, seed=9) as society:
            assert [(each.id, each.name) for each in society.agents] == [
                (each["id"], each["name"]) for each in expected
            ]
            assert [each.status["profile"] for each in society.agents] == [
                each["profile"] for each in expected
            ]
            assert [each.name for each in society.agents[0].blocks][:2] == [
                "NeedsBlock",
                "PlanBlock",
            ]


def test_perception_in_words_names_ten_others_and_what_is_closed() -> None:
    city = City([Place("shop-1", "shop", 0, 0, 9, 8 * 3600, 9 * 3600)])
    here = [str(number) for number in range(13)]
    view = View(3, Clock().at(3), {"town": "Zürich"}, city, 900, 2700, ["Fire!"], {"shop-1": here})
    answers = [Answer(Save(3), False, "no bank"), Answer(Save(4), True, value=4)]
    waved = {"from": "2", "to": "1", "action": {"name": "wave", "args": {"far": True}}}
    seen = Perception(view, "1", {}, "shop-1", [waved], answers, ["a post"])
    assert str(seen).splitlines() == [
        "It is Monday 2026-01-05 00:45:00.",
        'town: "Zürich".',
        "You are at shop-1, which is closed.",
        "Here are also 0, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 others.",
        "2 (wave): {'far': True}",
        "Save(cents=3): not done: no bank",
        "Save(cents=4): done",
        "News: Fire!",
        "News: a post",
    ]
    assert (seen.open, seen.here) == (False, [each for each in here if each != "1"])
    away = Perception(view, "1", {"moving": {"to": "home"}, "plan": [{"do": "eat", "where": None}]})
    assert "You are on the way to home.\nYour plan now: eat." in str(away)
    assert (away.open, away.here, away.citizens) == (True, [], 0)
    alone = Perception(View(), "1", {})
    assert (alone.step, alone.seconds, alone.time, alone.clock, alone.place) == (
        0,
        900,
        0,
        None,
        None,
    )
    with pytest.raises(ConfigError, match="citizen 1 sees others' columns in a Population alone"):
        away.seen("money")


async def test_society_agent_cannot_have_its_society_take_a_step() -> None:
    async def step(me: CitizenAgent) -> None:
        await me.space.step()

    async with Society([living(step)]) as society:
        await society.step()
        assert "run from outside" in society.failures[0][2]


async def test_closing_ends_a_run(caplog: pytest.LogCaptureFixture) -> None:
    began = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def wait(me: CitizenAgent) -> None:
        loop.call_soon_threadsafe(began.set)
        await asyncio.Event().wait()

    society = Society([living(wait)])
    running = asyncio.create_task(society.run(steps=3))
    await began.wait()
    await asyncio.to_thread(society.close)
    with pytest.raises(SpaceClosed):
        await running
    assert not [line for line in caplog.messages if "lost its turn" in line]


async def test_society_citizen_that_left_stays_gone_on_resume(journal: Journal) -> None:
    class Stop(Exception):
        pass

    def stop(row: Any) -> None:
        if row["step"] == 2:
            raise Stop

    def leave(me: CitizenAgent) -> None:
        if me.perceived.step == 1:
            me.space.remove(me)

    def make() -> list[CitizenAgent]:
        return [living(leave, id=1, money=5), living(print, id=2, money=6)]

    async with Society(make(), journal=journal) as society:
        with pytest.raises(Stop):
            await society.run(steps=4, run_id="R", save_every=1, progress=stop)
        rows = list(society.metrics)
    async with Society(make(), journal=journal) as society:
        assert (await society.run(steps=4, run_id="R", save_every=1))[:3] == rows
        assert society.ids() == ["2"]
        assert [row["money"] for row in society.metrics] == [11, 6, 6, 6]
    found = journal.replay("R")
    assert [row["step"] for row in found["state"]["rows"]] == [0, 1, 2, 3]


async def test_society_run_in_which_an_agent_joined_continues_in_a_fork(journal: Journal) -> None:
    class Stop(Exception):
        pass

    def stop(row: Any) -> None:
        if row["step"] == 2:
            raise Stop

    def give_birth(me: CitizenAgent) -> None:
        if me.perceived.step == 1:
            me.space.add(living(print, id=2, money=6))

    def mother() -> list[CitizenAgent]:
        return [living(give_birth, id=1, money=5)]

    async with Society(mother()) as society:
        await society.run(steps=4)
        whole = society.state_dict()
    async with Society(mother(), journal=journal) as society:
        with pytest.raises(Stop):
            await society.run(steps=4, run_id="R", save_every=1, progress=stop)
    async with Society(mother(), journal=journal) as society:
        with pytest.raises(StateError, match=r"has not: 2: add them .* resume a fork"):
            await society.run(steps=4, run_id="R", save_every=1)
    async with Society([*mother(), living(print, id=2)], journal=journal) as society:
        await society.run(steps=4, run_id=journal.fork("R"), save_every=1)
        assert society.state_dict() == whole


async def test_society_run_of_another_society_is_refused(journal: Journal) -> None:
    async with Society(busy(3), town(), services=[Bank()], journal=journal) as society:
        rows = await society.run(steps=2, run_id="R")
        assert await society.run(steps=2, run_id="R") == rows  # it has ended
        assert society.metrics == rows
        await society.run(steps=1)
        again = await society.run(steps=2, run_id="R2")
        assert await society.run(steps=2, run_id="R2") == again
        assert [row["step"] for row in society.metrics] == [0, 1, 2, 3, 4]
    async with Society(busy(4), town(), services=[Bank()], journal=journal) as other:
        with pytest.raises(RunMismatch, match="agents"):
            await other.run(steps=2, run_id="R")
    async with Society(busy(3), town(), seed=1, services=[Bank()], journal=journal) as other:
        with pytest.raises(RunMismatch, match="seed"):
            await other.run(steps=2, run_id="R")
    options: Any = {"services": [Bank()], "journal": journal, "start": "2027-01-01"}
    async with Society(busy(3), town(), **options) as other:
        with pytest.raises(RunMismatch, match="start"):
            await other.run(steps=2, run_id="R")


async def test_society_run_with_other_parameters_or_another_network_is_refused(
    tmp_path: Path,
) -> None:
    def made(bound: int = 350, rewired: float = 0.1, in_rows: bool = False) -> Society:
        network = Network.small_world(5, rewired=rewired, neighbours=2, seed=1)
        options: Any = {"seed": 1, "journal": tmp_path / "journal"}
        if in_rows:
            return Society(Population(5, blocks=[], seed=1, network=network), **options)
        block = SocialBlock(block_params=SocialBlockParams(bound=bound))
        return Society([CitizenAgent(1, blocks=[block])], network, **options)

    for is_row in (False, True):
        async with made(in_rows=is_row) as society:
            await society.run(steps=1, run_id=f"R{is_row}")
        async with made(rewired=0.9, in_rows=is_row) as other:
            with pytest.raises(RunMismatch, match="population" if is_row else "city"):
                await other.run(steps=1, run_id=f"R{is_row}")
    async with made(bound=300) as other:
        with pytest.raises(RunMismatch, match="agents"):
            await other.run(steps=1, run_id="RFalse")
    async with made() as same:
        assert len(await same.run(steps=1, run_id="RFalse")) == 1


async def test_society_run_with_a_service_of_another_parameter_is_refused(tmp_path: Path) -> None:
    def made(**rates: int) -> Society:
        return Society([], services=[LabourMarket(**rates)], journal=tmp_path / "journal")

    async with made() as society:
        await society.run(steps=1, run_id="R")
    async with made(benefit=500) as other:
        with pytest.raises(RunMismatch, match="service settings"):
            await other.run(steps=1, run_id="R")
    async with made() as same:
        assert len(await same.run(steps=1, run_id="R")) == 1


def of_metres(metres: int) -> City:
    places = [Place("a", "home", 0, 0), Place("b", "work", 9, 0)]
    return City(places, [("a", "b", metres)])


@pytest.mark.parametrize(
    "cities",
    (
        (of_metres(9), of_metres(10)),
        (Grid(3, 3), Grid(3, 3, torus=True)),
        (Grid(3, 3), Grid(3, 3, capacity=2)),
    ),
)
async def test_society_run_in_another_city_with_the_same_places_is_refused(
    tmp_path: Path, cities: tuple[Any, Any]
) -> None:
    for at, city in enumerate(cities):
        async with Society([], city, journal=tmp_path / "journal") as society:
            if at:
                with pytest.raises(RunMismatch, match="places"):
                    await society.run(steps=1, run_id="R")
            else:
                await society.run(steps=1, run_id="R")


async def test_agents_of_all_kinds_live_in_a_society() -> None:
    class Plain(Agent):
        steps = 0

        async def forward(self) -> None:
            self.steps += 1

    plain, noting = Plain("plain"), Noting("noting")
    async with Society([plain, noting, *busy(2, Busy)], town(), services=[Bank()]) as society:
        plain.send(said("noting", content="hello"))
        await society.run(steps=2)
        assert plain.steps == 2
        assert ("plain", "say", {"content": "hello"}) in noting.heard
