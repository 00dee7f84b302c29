"""Agents that others ask in a conversation that goes on: what they wait for, and who goes on."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from journal.crash import Crashing, crash
from moothall import (
    ACCESS_REQUESTED,
    Action,
    Conversation,
    DualActAgent,
    Journal,
    Later,
    MaxTurns,
    ReActAgent,
    ScriptedModel,
    Waiting,
)
from moothall.agents.replies.recorded_agent import RecordedAgent
from moothall.foundation.errors import JournalError, RunMismatch
from moothall.models.protocol import Call

ACCEPT = '{"action": "TERMINATE", "new_instruction": "", "reasoning": "so"}'


def results(messages: list[dict[str, Any]]) -> list[str]:
    return [str(each["content"]) for each in messages if each["role"] == "tool"]


def since_asked(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the model has heard since it was asked last."""
    last = max(n for n, each in enumerate(messages) if each["role"] == "user")
    return messages[last:]


def calling(*calls: Call | tuple[Call, ...]) -> ScriptedModel:
    """Return a model that makes calls, one answer after the other, and says their results."""

    def answer(messages: list[dict[str, Any]], _: Any) -> Any:
        heard = since_asked(messages)
        turns = sum(bool(each.get("tool_calls")) for each in heard)
        return calls[turns] if turns < len(calls) else "; ".join(results(heard))

    return ScriptedModel(answer)


class Till:
    """Pays; `paid` has every payment. The others are of its helpers."""

    def __init__(self, system_prompt: str | None = None) -> None:
        self.paid: list[int] = []
        self.system_prompt = system_prompt

    @property
    def pay(self) -> Action:
        def pay(coins: int) -> str:
            """Pay."""
            self.paid.append(coins)
            return f"paid {coins}"

        return Action("pay", pay, "Pay.", access_policy=ACCESS_REQUESTED)

    @property
    def book(self) -> Action:
        async def book(coins: int) -> Later:
            """Book."""
            self.paid.append(coins)
            return Later(f"book-{coins}")

        return Action("book", book, "Book.", guard=())


def ask(name: str, text: str = "pay", id: str = "0") -> Call:
    return Call(id, name, {"text": text})


def pay(coins: int, name: str = "pay", id: str = "0") -> Call:
    return Call(id, name, {"coins": coins})


def helper(till: Till, journal: Any, *calls: Any, id: str = "helper", **options: Any) -> ReActAgent:
    calls = calls or (pay(1),)
    options = {"actions": [till.pay, till.book], "approver": Waiting(), **options}
    options |= {"journal": journal, "system_prompt": till.system_prompt}
    return ReActAgent(id, calling(*calls), **options)


def clerk(journal: Any, *asked: ReActAgent, calls: Any = None) -> ReActAgent:
    actions = [each.as_action() for each in asked]
    calls = calls or [ask(str(each.id)) for each in asked]
    return ReActAgent("clerk", calling(*calls), actions=actions, journal=journal)


def direct(till: Till, file: Any) -> RecordedAgent:
    return clerk(file, helper(till, file))


def three_deep(till: Till, file: Any) -> RecordedAgent:
    asked = helper(till, file, id="h3")
    for id in ("h2", "h1"):
        asked = ReActAgent(
            id, calling(ask(str(asked.id))), actions=[asked.as_action()], journal=file
        )
    return clerk(file, asked)


def of_a_fresh_one(till: Till, file: Any) -> RecordedAgent:
    between = ReActAgent(
        "between", calling(ask("helper")), actions=[helper(till, file).as_action()]
    )
    calls = calling(ask("between"))
    return ReActAgent("clerk", calls, actions=[between.as_action(fresh=True)], journal=file)


def of_a_member(till: Till, file: Any) -> RecordedAgent:
    other = ReActAgent("other", ScriptedModel(["I saw it."]))
    talk = [clerk(None, helper(till, file)), other]
    return Conversation(talk, id="talk", until=MaxTurns(2), journal=file)


def of_a_dual_act(till: Till, file: Any) -> RecordedAgent:
    human = ReActAgent("H", ScriptedModel([ACCEPT]))
    return DualActAgent(
        human=human, reactive=clerk(None, helper(till, file)), first="reactive", journal=file
    )


def by_its_own_say(till: Till, file: Any) -> RecordedAgent:
    calls = calling(Call("0", "say", {"content": "pay"}))
    return ReActAgent("clerk", calls, actions=[helper(till, file)], journal=file)


def a_group(till: Till, file: Any) -> RecordedAgent:
    talk = Conversation([helper(till, None)], id="helper", until=MaxTurns(1), journal=file)
    return ReActAgent("clerk", calling(ask("helper")), actions=[talk.as_action()], journal=file)


SHAPES = (direct, three_deep, of_a_fresh_one, of_a_member, of_a_dual_act, by_its_own_say, a_group)
Shape = Callable[[Till, Any], RecordedAgent]


async def gone_on(agent: RecordedAgent, way: str) -> str:
    """Let an agent go on with the run `r`; return why it ended."""
    if way == "reply":
        return (await agent.reply("go", run_id="r")).stop_reason
    found = await (agent.resume_decided() if way == "resume_decided" else agent.resume_runs())
    (only,) = [each for each in found if each.run.id == "r"]
    assert only.reply is not None, only
    return only.reply.stop_reason


def permit(journal: Journal) -> None:
    (wait,) = journal.waiting(kind="approval")
    journal.answer(wait.run, wait.key, True, by="eva")


@pytest.mark.parametrize("then", ("restore it", "have it go on", "delete the run"))
@pytest.mark.parametrize("shape", SHAPES, ids=lambda each: str(each.__name__))
async def test_asked_agent_that_has_changed_is_an_error_of_its_caller_that_says_what_to_do(
    tmp_path: Path, shape: Shape, then: str
) -> None:
    old, new = Till(), Till("You are new.")
    file = str(tmp_path / "runs.db")
    await shape(old, file).reply("go", run_id="r")
    with Journal(file) as journal:
        (wait,) = journal.waiting(kind="approval")
        permit(journal)
        (resumed,) = await shape(new, file).resume_decided()
        assert (resumed.run.id, resumed.outcome) == ("r", "mismatch")
        with pytest.raises(RunMismatch, match=f"run '{wait.run}' was begun.*{then}") as caught:
            await shape(new, file).reply("go", run_id="r")
        assert str(resumed.error) == str(caught.value)
        assert (journal.run("r").state, journal.run(wait.run).state) == ("waiting", "mismatch")
        if then == "delete the run":
            journal.delete(wait.run)
        till = old if then == "restore it" else new
        if then == "have it go on":  # the changed program asks anew
            journal.answer(wait.run, "operator:program", "fork")
            assert await gone_on(shape(till, file), "reply") == "waiting"
            permit(journal)
        assert await gone_on(shape(till, file), "reply") in ("done", "terminated")
        assert till.paid == ([] if then == "delete the run" else [1])


@pytest.mark.parametrize("deleted", (False, True))
async def test_asked_agent_answers_its_caller_and_a_fork_of_that(
    journal: Journal, deleted: bool
) -> None:
    till = Till()
    agent = direct(till, journal)
    await agent.reply("go", run_id="r")
    copy = journal.fork("r")
    assert (await agent.reply("go", run_id=copy)).stop_reason == "waiting"
    if deleted:
        assert journal.delete("r").left == {}  # the copy waits for the reply, too
    permit(journal)
    for _ in range(1 if deleted else 2):  # one that waits goes on in the place of the asked run
        await direct(till, journal).resume_decided()
    runs = [run.state for run in journal.runs(agent="clerk")]
    assert runs == ["done"] * (1 if deleted else 2)
    assert journal.replay(copy).steps[0].result["result"] == "paid 1"
    assert (till.paid, journal.waiting()) == ([1], [])


async def test_asked_agent_whose_run_is_deleted_leaves_its_caller_an_answer(
    journal: Journal,
) -> None:
    till = Till()
    await direct(till, journal).reply("go", run_id="r")
    (wait,) = journal.waiting(kind="approval")
    await direct(till, journal).reply("go", run_id="s", thread="t")
    (asked,) = [each.run for each in journal.waiting(kind="approval") if each.run != wait.run]
    left = journal.delete("s").left
    assert left == {asked: "run 's' has asked for it: delete it too"}
    journal.delete(wait.run, asked)
    assert await gone_on(direct(till, journal), "resume_decided") == "done"
    assert "its run was deleted" in journal.replay("r").text
    assert (till.paid, journal.waiting()) == ([], [])


@pytest.mark.parametrize("shape", (direct, three_deep))
async def test_asked_agent_whose_run_is_cancelled_leaves_its_caller_an_answer(
    journal: Journal, shape: Shape
) -> None:
    """The caller waited for ever for a run that nobody goes on with."""
    till = Till()
    await shape(till, journal).reply("go", run_id="r")
    (wait,) = journal.waiting(kind="approval")
    journal.cancel(wait.run, by="eva")
    assert await gone_on(shape(till, journal), "resume_decided") == "done"
    assert "it has no answer: eva cancelled it" in journal.replay("r").text
    assert (till.paid, journal.waiting()) == ([], [])
    assert journal.run(wait.run).state == "cancelled"


@pytest.mark.parametrize("shape", SHAPES, ids=lambda each: str(each.__name__))
async def test_asked_agent_goes_on_although_the_run_that_asked_it_is_deleted(
    journal: Journal, shape: Shape
) -> None:
    till = Till()
    await shape(till, journal).reply("go", run_id="r")
    (asked,) = {each.run for each in journal.waiting(kind="approval")}
    journal.delete("r")
    if asked != "r":
        permit(journal)
    for _ in range(3):
        await shape(till, journal).resume_decided()
    assert {run.state for run in journal.runs()} == ({"done"} if asked != "r" else set())


@pytest.mark.parametrize("way", ("resume_decided", "resume_runs", "reply"))
@pytest.mark.parametrize("shape", SHAPES, ids=lambda each: str(each.__name__))
async def test_asked_agent_permitted_its_caller_goes_on(
    tmp_path: Path, shape: Shape, way: str
) -> None:
    till, file = Till(), str(tmp_path / "runs.db")
    assert (await shape(till, file).reply("go", run_id="r")).stop_reason == "waiting"
    with Journal(file) as journal:
        assert [run.state for run in journal.runs()] == ["waiting"] * len(journal.runs())
        permit(journal)
        assert await gone_on(shape(till, file), way) in ("done", "terminated")
        assert till.paid == [1]
        assert journal.waiting() == []
        assert journal.runs(needs_person=True) == []


@pytest.mark.parametrize("shape", SHAPES, ids=lambda each: str(each.__name__))
async def test_asked_agent_waits_for_several_runs_of_one_thread(
    tmp_path: Path, shape: Shape
) -> None:
    till, file, runs = Till(), str(tmp_path / "runs.db"), ("r", "s")
    for run_id in runs:
        reply = await shape(till, file).reply("go", thread="t", run_id=run_id)
        assert reply.stop_reason == "waiting", reply.detail
    with Journal(file) as journal:
        for wait in journal.waiting(kind="approval"):
            journal.answer(wait.run, wait.key, True)
        for run_id in runs:
            reply = await shape(till, file).reply("go", thread="t", run_id=run_id)
            assert reply.stop_reason in ("done", "terminated"), reply.detail
        assert (till.paid, journal.waiting()) == ([1, 1], [])


@pytest.mark.parametrize("has_fork", (False, True))
@pytest.mark.parametrize("shape", (direct, three_deep, of_a_member))
async def test_asked_agent_that_waits_is_cancelled_with_its_caller(
    journal: Journal, shape: Shape, has_fork: bool
) -> None:
    till = Till()
    agent = shape(till, journal)
    await agent.reply("go", run_id="r")
    if has_fork:  # which waits for the asked agent, too
        await agent.reply("go", run_id=journal.fork("r"))
    permit(journal)
    journal.waits.cancel("r", "it was stopped")
    for _ in range(3):
        await shape(till, journal).resume_decided()
    states = {run.state for run in journal.runs() if run.id != "r"}
    assert states == {"done" if has_fork else "cancelled"}
    assert (till.paid, journal.waiting()) == ([1] if has_fork else [], [])


async def test_asked_agents_caller_goes_on_after_a_journal_that_could_not_be_read(
    tmp_path: Path,
) -> None:
    file = tmp_path / "runs.db"
    with Journal(file) as journal, closing(sqlite3.connect(file)) as db:
        agent = clerk(journal, helper(Till(), journal))
        await agent.reply("go", run_id="r")
        permit(journal)
        db.execute("ALTER TABLE entries RENAME TO away")
        with pytest.raises(JournalError):
            await agent.resume_decided()
        db.execute("ALTER TABLE away RENAME TO entries")
        assert await gone_on(agent, "resume_decided") == "done"


@pytest.mark.parametrize("way", ("resume_decided", "reply"))
async def test_asked_agent_with_several_waits_answered_in_any_order_goes_on(
    tmp_path: Path, way: str
) -> None:
    till, file = Till(), str(tmp_path / "runs.db")
    calls = (ask("h1", "one", "0"), ask("h2", "two", "1"), ask("h2", "three", "2"))

    def agent() -> ReActAgent:
        first = helper(till, file, pay(1), (pay(2, "book", "0"), pay(3, "pay", "1")), id="h1")
        return clerk(file, first, helper(till, file, pay(4), id="h2"), calls=[calls])

    assert (await agent().reply("go", run_id="r")).stop_reason == "waiting"
    with Journal(file) as journal:
        for _ in range(9):
            waits = [each for each in journal.waiting() if each.kind == "approval"]
            waits += [each for each in journal.waiting() if each.key.startswith("book")]
            if not waits:
                break
            last = waits[-1]
            journal.answer(last.run, last.key, True if last.kind == "approval" else "booked")
            reason = await gone_on(agent(), way)
        assert (reason, sorted(till.paid)) == ("done", [1, 2, 3, 4, 4])
        assert journal.waiting() == []
        assert len(journal.runs(agent="h2")) == 2


async def test_asked_agent_permitted_while_another_call_runs_goes_on_beside_it(
    tmp_path: Path,
) -> None:
    till, file = Till(), str(tmp_path / "runs.db")

    async def permit_it() -> str:
        """Permit what waits, and wait until it was done."""
        with Journal(file) as journal:
            async for entry in journal.follow("r"):
                if entry.kind == "waits":
                    permit(journal)
                elif entry.kind == "ended" and entry.data["about"].get("action") == "helper":
                    break
        return "permitted"

    asked = helper(till, file)
    calls = calling((ask("helper", id="0"), Call("1", "permit_it", {})))
    actions = [asked.as_action(), permit_it]
    agent = ReActAgent("clerk", calls, actions=actions, journal=file)
    async with asyncio.timeout(30):
        assert (await agent.reply("go", run_id="r")).text == "paid 1; permitted"


async def test_asked_agent_killed_at_work_goes_on_within_its_caller(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"

    def agent(journal: Journal, crashing: Crashing) -> ReActAgent:
        actions = [
            Action("look", crashing, "Look.", idempotent=True),
            Action("note", lambda what: done.append(what), "Note."),
        ]
        asked = calling(Call("0", "note", {"what": "a"}), Call("0", "look", {"what": "b"}))
        return clerk(journal, ReActAgent("helper", asked, actions=actions, journal=journal))

    done: list[str] = []
    with Journal(tmp_path / "runs.db") as journal:
        await agent(journal, Crashing(journal, copy)).reply("go", run_id="r")
    with Journal(copy) as journal:
        assert {run.state for run in journal.runs()} == {"stopped"}
        (resumed,) = await agent(journal, Crashing(journal, copy)).resume_runs()
        assert resumed.reply is not None
        assert (resumed.reply.stop_reason, done) == ("done", ["a"])
        assert [(run.agent, run.state) for run in journal.runs()] == [
            ("clerk", "done"),
            ("helper", "done"),
        ]


@pytest.mark.parametrize("decision", ("repeat", "skip"))
async def test_asked_agent_whose_call_is_in_doubt_goes_on_once_that_is_decided(
    tmp_path: Path, decision: str
) -> None:
    copy = tmp_path / "copy.db"

    def agent(journal: Journal, crashing: Crashing) -> ReActAgent:
        asked = calling(Call("0", "look", {"what": "b"}))
        actions = [Action("look", crashing, "Look.")]
        return clerk(journal, ReActAgent("helper", asked, actions=actions, journal=journal))

    with Journal(tmp_path / "runs.db") as journal:
        await agent(journal, Crashing(journal, copy)).reply("go", run_id="r")
    with Journal(copy) as journal:
        crashing = Crashing(journal, copy)
        assert [run.state for run in journal.runs()] == ["stopped", "in_doubt"]
        await agent(journal, crashing).resume_runs()
        assert [run.state for run in journal.runs()] == ["waiting", "in_doubt"]
        (doubt,) = journal.waiting(kind="doubt")
        journal.answer(doubt.run, doubt.key, decision, by="eva")
        assert await gone_on(agent(journal, crashing), "resume_decided") == "done"
        assert crashing.called == (["b"] if decision == "repeat" else [])
        assert (journal.waiting(), journal.runs(needs_person=True)) == ([], [])


async def test_asked_agent_that_ended_as_its_process_died_answers_at_the_next_start(
    tmp_path: Path,
) -> None:
    till, file, copy = Till(), str(tmp_path / "runs.db"), tmp_path / "copy.db"
    await direct(till, file).reply("go", run_id="r")
    with Journal(file) as journal:
        permit(journal)
        (run,) = journal.runs(agent="helper")
        await helper(till, journal).resume_decided()
        # The entries are written one after the other: without the last, as in a death before it.
        crash(file, copy)
    with closing(sqlite3.connect(copy)) as db, db:
        forget = "UPDATE waits SET value = NULL, answered = NULL, due = NULL WHERE key = ?"
        db.execute(forget, (run.id,))
    with Journal(copy) as journal:
        assert (journal.run(run.id).state, journal.run("r").state) == ("done", "waiting")
        assert await gone_on(direct(till, str(copy)), "resume_runs") == "done"
        assert (till.paid, journal.waiting()) == ([1], [])


async def test_asked_agent_is_resumed_by_the_program_of_a_caller_without_a_journal(
    tmp_path: Path,
) -> None:
    till, file = Till(), str(tmp_path / "own.db")

    def agent() -> ReActAgent:
        return clerk(None, helper(till, file))

    assert (await agent().reply("go")).stop_reason == "done"  # it was told that it waits
    with Journal(file) as journal:
        permit(journal)
        (resumed,) = await agent().resume_decided()
        assert (resumed.run.agent, resumed.outcome, till.paid) == ("helper", "resumed", [1])
        assert journal.waiting() == []


@pytest.mark.parametrize("name", ("relative", "symlink", "hard link", "hard link elsewhere"))
async def test_asked_agent_whose_journal_has_another_name_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    till, file, other = Till(), tmp_path / "runs.db", Path("runs.db")
    Journal(file).close()
    if name != "relative":
        other = tmp_path / ("below" if name.endswith("elsewhere") else ".") / "other.db"
        other.parent.mkdir(exist_ok=True)
        (other.symlink_to if name == "symlink" else other.hardlink_to)(file)

    def agent() -> ReActAgent:
        return clerk(str(other), helper(till, file))

    assert (await agent().reply("go", run_id="r")).stop_reason == "waiting"
    with Journal(other) as journal:
        assert len(journal.runs()) == 2
        permit(journal)
        assert await gone_on(agent(), "resume_decided") == "done"
        assert (till.paid, journal.waiting()) == ([1], [])
