"""Runs that are cancelled, or whose seconds are over, while an action is executed."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from journal.crash import settled
from moothall import (
    Action,
    Agent,
    Budget,
    Call,
    Context,
    Journal,
    JournalError,
    ModelReply,
    NativeSpace,
    ReActAgent,
    Reply,
    RunHeld,
    ScriptedModel,
    SQLiteMemory,
    StateError,
    Usage,
    action,
)
from moothall.actions.provenance.marks import without_marks
from moothall.agents.replies.events import CallStarted
from moothall.journal import Done

UNKNOWN = "cancelled before it ended; whether it had an effect is not known"


class Till:
    """An agent that pays, and what happened to its action."""

    def __init__(self, journal: Journal, memory: Any = None) -> None:
        self.journal, self.memory = journal, memory
        self.began = asyncio.Event()
        self.ended = threading.Event()
        self.paid: list[int] = []
        self.asked = 0

    def agent(self, pay: Any, *calls: Call, **options: Any) -> ReActAgent:
        def answer(messages: Any, actions: Any) -> ModelReply:
            self.asked += 1
            return ModelReply("Paid.", (), Usage(20, 1))

        first = ModelReply("", calls or (Call("c", "pay", {"coins": 3}),), Usage(10, 5))
        made = Action("pay", pay, "Pay.", timeout=options.pop("timeout", None))
        more = {"memory": self.memory, "journal": self.journal, **options}
        return ReActAgent("a", ScriptedModel([first, answer]), actions=[made], **more)

    async def waits(self, coins: int) -> str:
        self.paid.append(coins)
        self.began.set()
        if len(self.paid) < 2:
            await asyncio.Event().wait()
        return "paid"

    async def cut_off(self, agent: ReActAgent) -> None:
        """Cancel its run while it pays."""
        task = asyncio.ensure_future(agent.reply("go", run_id="R"))
        await self.began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("how", ("cancelled", "a thread", "deadline"))
async def test_action_that_is_cut_off_with_its_run_is_in_doubt_until_a_person_decides(
    tmp_path: Path, how: str
) -> None:
    with Journal(tmp_path / "j") as journal, SQLiteMemory(tmp_path / "m") as memory:
        till = Till(journal, memory)
        loop = asyncio.get_running_loop()

        def pay(coins: int) -> str:
            till.paid.append(coins)
            loop.call_soon_threadsafe(till.began.set)
            till.ended.wait(10)
            return "paid"

        does: Any = pay if how == "a thread" else till.waits
        if how == "deadline":
            reply = await till.agent(does, budget=Budget(seconds=0.05)).reply("go", run_id="R")
            assert (reply.stop_reason, reply.usage) == ("deadline", Usage(10, 5))
            assert [step.error for step in reply.steps] == [UNKNOWN]
            assert journal.replay("R") == reply
        else:
            await till.cut_off(till.agent(does))
        till.ended.set()
        assert journal.run("R").state == "in_doubt"
        assert journal.entries("R")[-1].data["reason"] == how.replace("a thread", "cancelled")
        assert UNKNOWN in [*memory.messages()][-1]["content"]  # for the thread's next reply

        for _ in range(2):
            reply = await till.agent(does).reply("go", run_id="R")
            assert (reply.stop_reason, till.paid, till.asked) == ("in_doubt", [3], 0)
        (doubt,) = journal.in_doubt("R")
        assert (doubt.action, doubt.args) == ("pay", {"coins": 3})
        journal.decide("R", {1: Done("paid by hand")})
        reply = await till.agent(does).reply("go", run_id="R")
        assert (reply.text, till.paid, till.asked) == ("Paid.", [3], 1)
        assert [step.result.get("result") for step in reply.steps] == [None, "paid by hand"]
        assert reply.usage == Usage(30, 6)
        assert [*map(without_marks, memory.messages())] == reply.messages
        assert journal.replay("R") == reply


async def test_first_of_two_answers_at_once_to_a_call_in_doubt_counts(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        till = Till(journal)
        await till.cut_off(till.agent(till.waits))
        other = sqlite3.connect(tmp_path / "j", isolation_level=None)
        for run in [journal.fork("R") for _ in range(5)]:
            (wait,) = journal.waiting(run)
            together = threading.Barrier(2)

            def answer(value: str, key: str = wait.key, run: str = run) -> str | None:
                together.wait(20)  # noqa: B023
                try:
                    journal.answer(run, key, value, by=value)
                except (StateError, RunHeld):
                    return None
                return value

            other.execute("BEGIN IMMEDIATE")  # both have read before one writes
            asked = asyncio.gather(*(asyncio.to_thread(answer, e) for e in ("repeat", "skip")))
            await asyncio.wait((asked,), timeout=0.2)
            other.rollback()
            counted = [each for each in await asked if each is not None]
            (decided,) = [e.data for e in journal.entries(run) if e.kind == "decided"]
            assert counted == [decided["decision"]]
        other.close()


async def test_action_that_is_cut_off_in_the_last_turn_is_decided_about_all_the_same(
    journal: Journal,
) -> None:
    till = Till(journal)
    await till.cut_off(till.agent(till.waits, max_iterations=1))
    agent = till.agent(till.waits, max_iterations=1)
    assert (await agent.reply("go", run_id="R")).stop_reason == "in_doubt"
    journal.decide("R", "repeat")
    agent = till.agent(till.waits, max_iterations=1)
    assert (await agent.reply("go", run_id="R")).stop_reason == "max_iterations"
    assert till.paid == [3, 3]


@pytest.mark.parametrize("journalled", (True, False))
@pytest.mark.parametrize("ends_by", ("returning", "raising"))
async def test_action_that_ends_when_it_is_cancelled_has_ended_and_its_run_is_cancelled(
    journal: Journal, ends_by: str, journalled: bool
) -> None:
    till = Till(journal)

    async def pay(coins: int) -> str:
        till.paid.append(coins)
        till.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if ends_by == "raising":
                raise RuntimeError("given back") from None
        return "paid"

    if sys.version_info < (3, 13):  # there it looks like what a TaskGroup leaves behind
        given = {"journal": journal if journalled else None}
        task = asyncio.ensure_future(till.agent(pay, **given).reply("go", run_id="R"))
        await till.began.wait()
        task.cancel()
        assert (await task).text == "Paid."
        return
    if not journalled:
        await till.cut_off(till.agent(pay, journal=None))
        assert till.asked == 0
        return
    await till.cut_off(till.agent(pay))
    assert (journal.run("R").state, till.asked) == ("cancelled", 0)
    reply = await till.agent(pay).reply("go", run_id="R")
    assert (reply.text, till.paid) == ("Paid.", [3])
    (step,) = reply.steps
    assert (step.error or step.result["result"]) == (
        "given back" if ends_by == "raising" else "paid"
    )


async def test_action_that_is_cancelled_before_it_begins_runs_when_the_run_is_resumed(
    journal: Journal,
) -> None:
    till = Till(journal)
    paid: list[int] = []

    async def pay(coins: int) -> str:
        paid.append(coins)
        return "paid"

    calls = [Call(str(n), "pay", {"coins": n}) for n in (1, 2)]
    agent = till.agent(pay, *calls)
    task = asyncio.ensure_future(agent.reply("go", run_id="R"))
    agent.watch(lambda event: isinstance(event, CallStarted) and task.cancel())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (journal.run("R").state, paid, journal.in_doubt("R")) == ("cancelled", [], [])
    reply = await till.agent(pay, *calls).reply("go", run_id="R")
    assert (reply.text, sorted(paid), len(reply.steps)) == ("Paid.", [1, 2], 2)
    assert journal.replay("R") == reply


async def test_action_that_takes_longer_than_its_own_timeout_has_ended_and_is_not_in_doubt(
    journal: Journal,
) -> None:
    till = Till(journal)
    reply = await till.agent(till.waits, timeout=0.01).reply("go", run_id="R")
    assert (reply.text, journal.in_doubt("R")) == ("Paid.", [])
    (step,) = reply.steps
    assert step.error == '"pay" took longer than 0.01 s; whether it had an effect is not known'


async def test_reply_in_a_task_that_was_cancelled_before_goes_on(tmp_path: Path) -> None:
    async def cleaning_up() -> Reply:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        till = Till(Journal(tmp_path / "j"))

        async def pay(coins: int) -> str:
            return "paid"

        return await till.agent(pay).reply("go", run_id="R")

    task = asyncio.ensure_future(cleaning_up())
    await settled()
    task.cancel()
    assert (await task).text == "Paid."


async def test_request_that_is_cut_off_with_its_run_is_in_doubt(tmp_path: Path) -> None:
    began, cancelled = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    class Shop(Agent):
        @action
        async def buy(self, context: Context) -> str:
            """Buy."""
            loop.call_soon_threadsafe(began.set)
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            return "bought"

    script = [Call("c", "shop.buy", {}), "Bought."]
    with Journal(tmp_path / "j") as journal, NativeSpace() as space:
        space.add(Shop("shop"))
        buyer = space.add(ReActAgent("a", ScriptedModel(script), discover="*", journal=journal))
        task = asyncio.ensure_future(buyer.reply("go", run_id="R"))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(cancelled.wait, 10)
        assert (await buyer.reply("go", run_id="R")).stop_reason == "in_doubt"
        assert [each.action for each in journal.in_doubt("R")] == ["shop.buy"]
        journal.decide("R", {1: Done("bought")})
        assert (await buyer.reply("go", run_id="R")).text == "Bought."


async def test_calls_in_doubt_are_listed_once_a_journal_can_be_read_again(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal, closing(sqlite3.connect(tmp_path / "j")) as other:
        till = Till(journal)
        await till.cut_off(till.agent(till.waits))
        other.execute("ALTER TABLE entries RENAME TO elsewhere")
        with pytest.raises(JournalError):
            journal.waiting("R")
        other.execute("ALTER TABLE elsewhere RENAME TO entries")
        assert [each.kind for each in journal.waiting("R")] == ["doubt"]
