"""Interventions: stated changes at the start of a step, made once, after which branches differ."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from journal.crash import crash
from moothall import ConfigError, Journal
from moothall.foundation.errors import RunMismatch
from moothall.society import City, Firm, Intervention, Place, Population, Society, Work
from society.life import Bank, busy, living, state_of, town


def told(**status: Any) -> tuple[Any, list[tuple[Any, ...]]]:
    """A citizen, and what it perceives in each step: facts, news, money, mood, open."""
    seen: list[tuple[Any, ...]] = []

    def look(me: Any) -> None:
        now, own = me.perceived, me.status
        seen.append((dict(now.facts or {}), now.news, own["money"], own.get("mood"), now.open))

    return living(look, **status), seen


def shops() -> City:
    return City([Place("shop-1", "shop", 0, 0), Place("shop-2", "shop", 10, 0)])


async def test_intervention_changes_hold_from_the_start_of_their_step() -> None:
    citizen, seen = told(home="shop-1", money=50)
    async with Society([citizen], shops(), services=[Bank(money=9)], facts={"tax": 1}) as society:
        society.intervene(
            Intervention(
                1,
                facts={"tax": 2},
                close=["shop-1"],
                status={"mood": "low"},
                pay=[("1", "bank", 20)],
                news=["The tax is doubled"],
            )
        )
        society.intervene(Intervention(when="2026-01-05T00:40", open=["shop-1"]))
        await society.run(steps=4)
        assert society.books.total == 59
        assert [row["failures"] for row in society.metrics] == [0] * 4
    assert seen == [
        ({"tax": 1}, [], 50, None, True),
        ({"tax": 2}, ["The tax is doubled"], 30, "low", False),
        ({"tax": 2}, [], 30, "low", True),
        ({"tax": 2}, [], 30, "low", True),
    ]


async def test_facts_add_up_and_what_stays_open_keeps_its_own_hours() -> None:
    night = Place("bar", "restaurant", 5, 0, opens=18 * 3600, closes=2 * 3600)
    citizen, seen = told(home="bar", money=0)
    async with Society([citizen], City([*shops().places, night])) as society:
        society.intervene(Intervention(0, facts={"tax": 2}, close=["shop-2", "shop-1"]))
        society.intervene(Intervention(9, facts={"rain": True}))
        await society.run(steps=10)
        assert society.state_dict()["changed"]["closed"] == ["shop-1", "shop-2"]
    assert [each[4] for each in seen] == [True] * 8 + [False] * 2  # until 2:00
    assert seen[-1][0] == {"tax": 2, "rain": True}


async def test_intervention_closes_places_before_it_opens_some_of_them() -> None:
    async with Society([told(home="shop-1", money=0)[0]], shops()) as society:
        society.intervene(Intervention(0, close=["shop"], open=["shop-1"]))
        await society.step()
        assert society.state_dict()["changed"]["closed"] == ["shop-2"]


async def test_intervention_that_closes_a_firms_place_leaves_it_no_work() -> None:
    said: list[str] = []

    def works(me: Any) -> None:
        said.extend(answer.reason for answer in me.perceived.answers)
        me.want(Work("shop-1", 900))

    citizen = living(works, home="shop-1", work="shop-1")
    firm = Firm("firm", "shop-1", money=10_000)
    async with Society([citizen], shops(), services=[firm]) as society:
        society.intervene(Intervention(1, close=["shop-1"]))
        await society.run(steps=3)
    assert said == ["", "shop-1 is closed"]


@pytest.mark.parametrize(
    ("whose", "changed"), ((["2", "4"], "24"), ({"home": "a"}, "03"), (None, "01234"))
)
async def test_intervention_status_is_set_for_those_named_or_found(
    whose: Any, changed: str
) -> None:
    async with Society(busy(5), town()) as society:
        society.intervene(Intervention(0, status={"mood": "low"}, citizens=whose))
        await society.step()
        moods = {
            each["id"]: each["agent"] if "agent" in each else each["memory"]
            for each in society.state_dict()["agents"]
        }
    assert [id for id, state in moods.items() if '"mood"' in json.dumps(state)] == list(changed)


async def test_intervention_part_that_cannot_apply_fails_alone() -> None:
    citizen, seen = told(money=5)
    async with Society([citizen]) as society:
        society.intervene(
            Intervention(
                0,
                status={"mood": "low"},
                citizens=["1", "9"],
                pay=[("1", "nobody", 5), ("1", "1", 6)],
                news=["all the same"],
            )
        )
        row = await society.step()
        assert row["failures"] == 3
        assert [each[:2] for each in society.failures] == [(0, "intervention")] * 3
    assert seen == [({}, ["all the same"], 5, "low", True)]


async def test_intervention_for_a_value_that_no_status_has_is_a_failure() -> None:
    async with Society(busy(3), town()) as society:
        society.intervene(Intervention(0, status={"mood": 1}, citizens={"gender": "female"}))
        society.intervene(Intervention(0, status={"mood": 1}, citizens={"home": "nowhere"}))
        assert (await society.step())["failures"] == 2
        assert society.failures[0][2] == "citizens: no citizen's status has gender"
        assert society.failures[1][2] == 'citizens: nobody has home "nowhere"'


@pytest.mark.parametrize("count", (3, 120))
def test_intervention_of_an_unknown_need_is_refused(count: int) -> None:
    city = City.generate(seed=1, citizens=120)
    with Society(count, city, seed=1) as society:
        with pytest.raises(ConfigError, match=r"no need 'hungr' \(did you mean 'hunger'\?\)"):
            society.intervene(Intervention(0, status={"needs": {"hungr": 1}}))
        society.intervene(Intervention(0, status={"needs": {"hunger": 1}}))
        society.run_sync(steps=1)
        assert society.failures == []
        assert {*society.agents[0].status["needs"]} == {"hunger", "energy", "safety", "social"}


async def test_intervention_payment_that_nobody_can_make_for_one_reason_is_one_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    citizens = [living(lambda me: None, id=id, money=id) for id in range(1, 31)]
    async with Society(citizens, services=[Bank()]) as society:
        society.intervene(Intervention(0, pay=[("king", "everyone", 5)]))
        society.intervene(Intervention(0, pay=[("everyone", "bank", 29)]))
        row = await society.step()
    assert row["failures"] == 1 + 28
    said = [each.getMessage() for each in caplog.records]
    assert said[0] == "intervention in step 0: pay: king has no money of its own"
    assert re.fullmatch(r"intervention in step 0: pay: (\d+) has \1 cents, not 29", said[1])
    assert said[11:] == ["intervention in step 0: 18 others"]


async def test_intervention_pays_everyone_as_long_as_there_is_money() -> None:
    citizens = [living(lambda me: None, id=id, money=0) for id in (10, 9, 100)]
    async with Society(citizens, services=[Bank(money=50)]) as society:
        society.intervene(Intervention(0, pay=[("bank", "everyone", 20)]))
        await society.step()
        assert [society.failures[0][2]] == ["pay: bank has 10 cents, not 20"]
        assert sorted(society.books.balances[id] for id in ("9", "10", "100")) == [0, 20, 20]


async def test_branches_are_the_same_bytes_until_the_interventions_step() -> None:
    def made() -> Society:
        return Society(busy(12), town(), services=[Bank()], seed=3)

    async with made() as trunk:
        await trunk.run(steps=4)
        state = trunk.state_dict()
        async with made() as left, made() as right:
            for branch in (left, right):
                branch.load_state_dict(state)
            left.intervene(Intervention(6, pay=[("0", "1", 1)]))
            right.intervene(Intervention(6, facts={"tax": 2}))
            for _ in range(2):
                await trunk.step()
                await left.step()
                await right.step()
                assert state_of(trunk) == state_of(left) == state_of(right)
            await trunk.step()
            await left.step()
            await right.step()
            assert len({state_of(trunk), state_of(left), state_of(right)}) == 3


async def test_intervention_changes_are_part_of_the_state() -> None:
    citizen, _ = told(home="shop-1", money=50)
    async with Society([citizen], shops()) as society:
        society.intervene(Intervention(0, facts={"tax": 2}, close=["shop-1"]))
        await society.step()
        state = society.state_dict()
    citizen, seen = told(home="shop-1", money=50)
    async with Society([citizen], shops()) as society:
        society.load_state_dict(state)
        await society.step()
    assert seen == [({"tax": 2}, [], 50, None, False)]


async def test_interventions_of_a_resumed_run_are_each_made_once(journal: Journal) -> None:
    def stop(row: Any) -> None:
        if row["step"] == 3:
            raise Stop

    def made(journal: Journal | None, *interventions: Intervention) -> Society:
        society = Society(busy(6), town(), services=[Bank(money=100)], journal=journal)
        for each in interventions:
            society.intervene(each)
        return society

    both = [Intervention(at, pay=[("bank", "1", 30)], news=["a gift"]) for at in (1, 4)]
    async with made(None, *both) as society:
        await society.run(steps=6)
        whole = state_of(society)
    async with made(journal, *both) as society:
        with pytest.raises(Stop):
            await society.run(steps=6, run_id="R", save_every=3, progress=stop)
    async with made(journal) as society:
        with pytest.raises(RunMismatch):
            await society.run(steps=6, run_id="R", save_every=3)
    async with made(journal, *both) as society:
        await society.run(steps=6, run_id="R", save_every=3)
        assert state_of(society) == whole


class Stop(Exception):
    pass


@pytest.mark.parametrize("in_place", (True, False))
async def test_intervention_during_a_run_is_recorded(journal: Journal, in_place: bool) -> None:
    one, two, before = (Intervention(at, status={f"mood-{at}": at}) for at in (2, 5, 1))

    def made(journal: Journal | None = None) -> Society:
        society = Society(busy(6), town(), services=[Bank()], journal=journal)
        society.intervene(before)
        return society

    async with made() as society:
        for each in (one, two):
            society.intervene(each)
        await society.run(steps=7)
        whole = state_of(society)

    def live(row: Any) -> None:
        if row["step"] in (1, 3):
            society.intervene(one if row["step"] == 1 else two)
        if row["step"] == 4:
            raise Stop

    async with made(journal) as society:
        with pytest.raises(Stop):
            await society.run(steps=7, run_id="R", save_every=3, progress=live)
        if in_place:
            await society.run(steps=7, run_id="R", save_every=3)
            assert state_of(society) == whole
    async with made(journal) as society:
        await society.run(steps=7, run_id="R", save_every=3)
        assert state_of(society) == whole
        assert society.interventions == (before, one, two)


async def test_intervention_is_on_disk_before_its_step(
    tmp_path: Path,
) -> None:
    path, then = tmp_path / "journal", tmp_path / "then"
    one = Intervention(2, status={"mood": 1})

    def live(row: Any) -> None:
        if row["step"] == 1:
            society.intervene(one)
            crash(path, then)

    with Journal(path) as journal:
        async with Society(busy(6), town(), services=[Bank()], journal=journal) as society:
            await society.run(steps=4, run_id="R", save_every=3, progress=live)
            whole = state_of(society)
    with Journal(then) as journal:
        async with Society(busy(6), town(), services=[Bank()], journal=journal) as society:
            await society.run(steps=4, run_id="R", save_every=3)
            assert (society.interventions, state_of(society)) == ((one,), whole)


async def test_intervention_for_a_past_step_is_refused() -> None:
    said: list[str] = []

    async def asks(me: Any) -> None:
        with pytest.raises(ConfigError, match=f"past: step {me.perceived.step + 1} comes next"):
            society.intervene(Intervention(me.perceived.step, news=["late"]))
        society.intervene(Intervention(me.perceived.step + 1, status={"mood": me.perceived.step}))
        said.append(str(me.status.get("mood")))

    async with Society([living(asks)], town()) as society:
        await society.run(steps=3)
        assert said == ["None", "0", "1"]
        for past in (Intervention(1, news=["x"]), Intervention(when="2026-01-05", news=["x"])):
            with pytest.raises(ConfigError, match="past"):
                society.intervene(past)
        with pytest.raises(ConfigError, match="'z', which is not a place"):
            society.intervene(Intervention(9, close=["z"]))


def test_intervention_is_plain_data() -> None:
    one = Intervention(
        when="2026-01-06T08:00", status={"mood": [1]}, citizens={"work": "b"}, pay=[("a", "b", 1)]
    )
    assert Intervention(**json.loads(json.dumps(one.as_json()))) == one


@pytest.mark.parametrize(
    ("given", "said"),
    (
        ({"at_step": 1}, "change something"),
        ({"news": ["x"]}, "at_step or when"),
        ({"at_step": 1, "when": "2026-01-06", "news": ["x"]}, "at_step or when"),
        ({"at_step": -1, "news": ["x"]}, "at_step"),
        ({"when": "tomorrow", "news": ["x"]}, "when"),
        ({"at_step": 1, "news": "x"}, "news must be a list"),
        ({"at_step": 1, "news": [{1}]}, "JSON"),
        ({"at_step": 1, "close": "shop"}, "close must be a list"),
        ({"at_step": 1, "status": {"place": "a"}}, "only the commit stage sets 'place'"),
        ({"at_step": 1, "status": {"needs.hunger": 5}}, r"write {'needs': {'hunger': …}}"),
        ({"at_step": 1, "pay": [("a", "b", 0)]}, "payment"),
        ({"at_step": 1, "pay": [("a", "b", 1.5)]}, "payment"),
        ({"at_step": 1, "pay": [("a", 5)]}, "payment"),
        ({"at_step": 1, "facts": {"": 1}}, "facts"),
        ({"at_step": 1, "facts": 3}, "facts must be a dict, got 3"),
        ({"when": 40, "news": ["x"]}, "when must be a date and time .* got 40"),
    ),
)
def test_intervention_of_wrong_arguments_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Intervention(**given)


async def test_intervention_tell_reaches_the_named_citizens_alone() -> None:
    city = City.generate(seed=7, citizens=10)
    async with Society(10, city, seed=7) as society:
        society.intervene(Intervention(1, tell=["The mill is sold."], citizens=[3, 77]))
        society.intervene(Intervention(1, tell=["It rains."], citizens={"home": "home-1"}))
        await society.run(steps=2)
        heard = {each.id: str(each.memory.stream) for each in society.agents}
        assert [id for id, each in heard.items() if "somebody: The mill is sold." in each] == [3]
        at_home = [e.id for e in society.agents if e.status["home"] == "home-1"]
        assert [id for id, each in heard.items() if "It rains." in each] == at_home
        assert [what for *_, what in society.failures] == ["tell: citizen '77' is not there"]
    async with Society(Population(10, city, seed=7)) as society:
        society.intervene(Intervention(0, tell=["It rains."], citizens=[3]))
        await society.step()
        assert society.unmade == [
            (0, "tell: citizen '3' is a row, which remembers no words: promote it")
        ]
    for wrong in ("It rains.", [""], [3]):
        with pytest.raises(ConfigError, match="tell"):
            Intervention(1, tell=wrong)  # type: ignore[arg-type]


def test_intervention_that_was_not_made_is_known_after_a_resume(tmp_path: Path) -> None:
    def run(dies: bool) -> tuple[Any, Any]:
        def progress(row: dict[str, Any]) -> None:
            if dies and row["step"] == 5:
                raise RuntimeError("dies")

        with (
            Journal(tmp_path / "j.db") as journal,
            Society(20, City.generate(seed=7, citizens=20), seed=7, journal=journal) as society,
        ):
            society.intervene(Intervention(1, pay=[("1", "2", 10**12)]))
            if dies:
                with pytest.raises(RuntimeError, match="dies"):
                    society.run_sync(steps=8, run_id="a", save_every=2, progress=progress)
            else:
                society.run_sync(steps=8, run_id="a", save_every=2, progress=progress)
            return society.unmade, society.failures

    before, after = run(True), run(False)
    assert len(after[0]) == len(after[1]) == 1
    assert after == before


def test_load_state_dict_of_an_earlier_step_drops_what_came_after_it() -> None:
    with Society(20, City.generate(seed=7, citizens=20), seed=7) as society:
        society.intervene(Intervention(1, pay=[("1", "2", 10**12)]))
        society.intervene(Intervention(3, pay=[("1", "2", 10**12)]))
        society.run_sync(steps=2)
        state = society.state_dict()
        society.run_sync(steps=3)
        society.load_state_dict(state)
        society.run_sync(steps=3)
        assert [row["step"] for row in society.metrics] == [0, 1, 2, 3, 4]
        assert [step for step, *_ in society.failures] == [1, 3]
        assert [step for step, _ in society.unmade] == [1, 3]


def test_intervention_is_said_with_all_that_it_changes() -> None:
    change = Intervention(
        0, tell=["Hello."], status={"mood": "glad"}, citizens={"work": "office-1"}, close=["park-1"]
    )
    assert change.in_words() == (
        'closes park-1; everyone with work "office-1" has mood glad; '
        'everyone with work "office-1" hears: Hello.'
    )
    assert Intervention(0, tell=["Hello."]).in_words() == "everyone hears: Hello."
    assert Intervention(0, tell=["Hello."], citizens=[1, 2]).in_words() == (
        "citizen 1, 2 hears: Hello."
    )
