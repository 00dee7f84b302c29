"""Several calls in doubt: each has a number, and a decision of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import moothall
from journal.crash import crash
from moothall import Action, Call, Journal, Later, ModelReply, ReActAgent, ScriptedModel
from moothall.foundation.errors import ConfigError
from moothall.journal import Done

BOTH = ModelReply("", (Call("1", "pay", {"who": "ann"}), Call("2", "pay", {"who": "bob"})))


def agent(journal: Journal, paid: list[str], copy: Path | None = None) -> ReActAgent:
    both = asyncio.Barrier(2)

    def end_once() -> None:
        if copy is not None and not copy.exists():
            crash(journal.path, copy)

    async def pay(who: str) -> str:
        if copy is not None:
            await both.wait()
            end_once()
        paid.append(who)
        return f"paid {who}"

    model = ScriptedModel([BOTH, "Both are paid."])
    return ReActAgent("a", model, actions=[Action("pay", pay)], journal=journal)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """The journal of a process that ended while both payments were under way."""
    with Journal(tmp_path / "before") as journal:
        agent(journal, [], tmp_path / "after").reply_sync("Pay both.", run_id="R")
    return tmp_path / "after"


@pytest.mark.parametrize(
    ("decisions", "called", "results"),
    (
        ({1: "skip", 2: "repeat"}, ["bob"], [None, "paid bob"]),
        ({1: Done("paid by hand"), 2: "repeat"}, ["bob"], ["paid by hand", "paid bob"]),
        ({1: Done("sent"), 2: Done("sent too")}, [], ["sent", "sent too"]),
        ("repeat", ["ann", "bob"], ["paid ann", "paid bob"]),
    ),
)
def test_decision_of_each_call_in_doubt_is_its_own(
    broken: Path, decisions: Any, called: list[str], results: list[Any]
) -> None:
    paid: list[str] = []
    with Journal(broken) as journal:
        doubts = [(each.number, each.args["who"]) for each in journal.in_doubt("R")]
        assert doubts == [(1, "ann"), (2, "bob")]
        journal.decide("R", decisions)
        reply = agent(journal, paid).reply_sync("Pay both.", run_id="R")
    assert (reply.stop_reason, paid) == ("done", called)
    assert [step.result.get("result") for step in reply.steps] == results
    assert [step.error is None for step in reply.steps] == [each is not None for each in results]


def test_doubt_left_undecided_stays_in_doubt(broken: Path) -> None:
    paid: list[str] = []
    with Journal(broken) as journal:
        (decided,) = journal.decide("R", {2: "skip"})
        assert decided.args == {"who": "bob"}
        reply = agent(journal, paid).reply_sync("Pay both.", run_id="R")
        assert (reply.stop_reason, paid) == ("in_doubt", [])
        assert "ann" in reply.detail
        assert [each.number for each in journal.in_doubt("R")] == [1]


def test_waiting_of_an_agent_has_the_doubts_of_its_runs_alone(broken: Path) -> None:
    with Journal(broken) as journal:
        assert [each.run for each in journal.waiting(agent="a")] == ["R", "R"]
        assert journal.waiting(agent="b") == []


def test_decision_that_is_none_is_refused(broken: Path) -> None:
    with Journal(broken) as journal:
        for wrong, told in (
            ({3: "skip"}, "no call in doubt has the number 3: there are 1 to 2"),
            ({1: "perhaps"}, r'must be "repeat", "skip" or Done\(value\) \(as JSON: {"done": …}\)'),
            ({1: Done(object())}, "the result of call 1 is not JSON"),
        ):
            with pytest.raises(ConfigError, match=told):
                journal.decide("R", wrong)  # type: ignore[arg-type]
        assert len(journal.in_doubt("R")) == 2


def test_event_of_that_name_says_where_the_decision_is() -> None:
    with pytest.raises(TypeError, match=r"import Done from moothall\.journal"):
        moothall.Done({"paid": 3})  # type: ignore[arg-type]


async def test_call_that_is_cut_off_again_once_it_was_repeated_is_decided_anew(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with Journal(tmp_path / "before") as journal:
        await agent(journal, [], first).reply("Pay both.", run_id="R")
    with Journal(first) as journal:
        journal.decide("R", "repeat", by="eva")
        await agent(journal, [], second).reply("Pay both.", run_id="R")
    paid: list[str] = []
    with Journal(second) as journal:
        before = [each.since for each in journal.waiting("R")]
        for wait in journal.waiting("R"):
            journal.answer("R", wait.key, "repeat", by="bo")
        assert (journal.waiting("R"), len(before)) == ([], 2)
        assert (await agent(journal, paid).reply("Pay both.", run_id="R")).stop_reason == "done"
    assert paid == ["ann", "bob"]


async def test_doubt_is_told_of_once_and_reminded_of(tmp_path: Path) -> None:
    broken = tmp_path / "after"
    with Journal(tmp_path / "before") as journal:
        await agent(journal, [], broken).reply("Pay both.", run_id="R", thread="c/1")
    with Journal(broken) as journal:
        waits = journal.waits
        assert waits.counts() == {("a", "doubt"): 2}
        ann, bob = waits.due_notices()
        assert (ann.kind, ann.action, ann.args) == ("doubt", "pay", {"who": "ann"})
        waits.remind_in(ann, None)
        waits.remind_in(bob, 0.0)
        assert waits.due_notices() == [bob]
        waits.remind_in(bob, 3600.0)
        assert waits.due_notices() == []
        journal.answer("R", ann.key, "skip")
        assert (waits.due_notices(), waits.counts()) == ([], {("a", "doubt"): 1})
        assert journal.waiting("R") == [bob]
        journal.answer("R", bob.key, "skip")
        assert waits.counts() == {}
        assert (waits.runs_below("a", "c"), waits.runs_below("a", "c/1")) == (1, 0)
        await agent(journal, []).reply("Pay both.", run_id="R", thread="c/1")
        assert waits.runs_below("a", "c") == 0


def test_doubt_of_each_run_is_listed_with_what_else_waits_the_longest_first(
    journal: Journal,
) -> None:
    async def pay() -> None:
        started.set()
        await asyncio.Event().wait()

    async def collect() -> Later:
        return Later("letter")

    async def reply_of(run_id: str, action: str) -> None:
        actions = [Action("pay", pay), Action("collect", collect)]
        payer = ReActAgent(
            run_id, ScriptedModel([Call("1", action, {})]), actions=actions, journal=journal
        )
        task = asyncio.create_task(payer.reply("Go.", run_id=run_id))
        if action == "pay":
            await started.wait()
            started.clear()
            task.cancel()
        await asyncio.wait((task,))

    async def main() -> None:
        await reply_of("first", "pay")
        await reply_of("second", "collect")
        await reply_of("third", "pay")

    started = asyncio.Event()
    asyncio.run(main())
    assert [each.run for each in journal.waiting()] == ["first", "second", "third"]
