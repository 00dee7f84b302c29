"""At its start, a program resumes all runs that stopped when its process before ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from journal.crash import crash, settled
from moothall import (
    ACCESS_REQUESTED,
    ActionError,
    Agent,
    Budget,
    Context,
    Conversation,
    DualActAgent,
    Journal,
    MaxTurns,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    Waiting,
)
from moothall.actions import action
from moothall.agents.replies.recorded_agent import RecordedAgent
from moothall.foundation.errors import ConfigError, DefinitionError, RunHeld, RunMismatch
from moothall.journal import Outline
from moothall.models.protocol import Call

RUNS = {"r1": "ada", "r2": "bo", "r3": "cy"}


def desk(journal: Journal | None, wait: Callable[[], Any], **options: Any) -> ReActAgent:
    access = {"access_policy": options.pop("access_policy", None)}

    @action(idempotent=options.pop("idempotent", True), **access)
    async def order(context: Context) -> str:
        """Order."""
        await wait()
        return f"for {context.deps}"

    known = {"actions": [order], "journal": journal}
    return ReActAgent("desk", ScriptedModel([orders] * 20), **known | options)


def orders(messages: list[dict[str, Any]], actions: Any) -> Any:
    """Order, and say what was ordered."""
    last = messages[-1]
    if last["role"] == "tool":
        return f"Ordered {last['content']}."
    return Call("c", "order", {})


async def crashed(
    tmp_path: Path, agent: Callable[[Journal, Callable[[], Any]], RecordedAgent], *runs: str
) -> Path:
    """A journal as a process leaves it that is killed when all these runs are under way."""
    waiting = 0
    go_on = asyncio.Event()

    async def wait() -> None:
        nonlocal waiting
        waiting += 1
        if waiting == len(runs):
            crash(tmp_path / "journal", tmp_path / "left")
            go_on.set()
        await go_on.wait()

    with Journal(tmp_path / "journal") as journal:
        whole = agent(journal, wait)
        asked = (
            whole.reply(f"I am {RUNS[run]}", thread=RUNS[run], run_id=run, deps=RUNS[run])
            for run in runs
        )
        await asyncio.gather(*asked)
    return tmp_path / "left"


async def at_once() -> None:
    pass


async def test_stopped_run_is_resumed_with_its_thread_deps_and_budget(tmp_path: Path) -> None:
    left = await crashed(tmp_path, lambda j, wait: desk(j, wait), *RUNS)
    with Journal(left) as journal:
        assert {run.id: (run.state, run.thread) for run in journal.runs()} == {
            run: ("stopped", user) for run, user in RUNS.items()
        }
        whole = Budget(model_calls=20)
        budgets = {user: whole.child() for user in RUNS.values()}
        agent = desk(journal, at_once, budget=whole)
        resumed = await agent.resume_runs(
            deps=lambda run: run.thread, budget=lambda run: budgets[run.thread or ""]
        )
        assert {each.run.id: each.outcome for each in resumed} == dict.fromkeys(RUNS, "resumed")
        for each in resumed:
            assert each.reply is not None
            assert each.reply.text == f"Ordered for {each.run.thread}."
            # What the run had spent before counts too.
            assert budgets[each.run.thread or ""].spent.model_calls == 2
        assert await agent.resume_runs() == []
        again = await agent.reply("I am bo", thread="bo", run_id="r2")
        assert again.text == "Ordered for bo."


@pytest.mark.parametrize("moment", ("which", "deps"))
async def test_run_that_is_deleted_as_it_is_resumed_is_not_begun_anew(
    tmp_path: Path, moment: str
) -> None:
    left = await crashed(tmp_path, lambda j, wait: desk(j, wait), *RUNS)
    with Journal(left) as journal:

        def delete_one(run: Outline) -> bool:
            if run.id == "r2":
                journal.delete("r2")
            return True

        options: Any = {moment: delete_one}
        resumed = await desk(journal, at_once).resume_runs(**options)
        assert {each.run.id: each.outcome for each in resumed} == {"r1": "resumed", "r3": "resumed"}
        assert {run.id for run in journal.runs()} == {"r1", "r3"}


async def test_resume_runs_goes_on_after_a_run_that_cannot_resume(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    left = await crashed(tmp_path, lambda j, wait: desk(j, wait), *RUNS)
    with Journal(left) as journal, Journal(left) as other:
        journal.fork("r1", "copy")
        part = await other.begin("r2", "ReActAgent", "desk", "")  # another process has it

        def deps(run: Any) -> str:
            if run.id == "copy":
                raise LookupError("nobody knows this user any more")
            return str(run.thread)

        resumed = await desk(journal, at_once).resume_runs(deps=deps)
        assert {each.run.id: each.outcome for each in resumed} == {
            "r1": "forked",
            "r3": "resumed",
            "copy": "failed",
        }
        assert isinstance(resumed[-1].error, LookupError)
        part.close()
        changed = desk(journal, at_once, system_prompt="You are new.")
        outcomes = {each.run.id: each for each in await changed.resume_runs()}
        assert outcomes["r2"].outcome == "mismatch"
        assert isinstance(outcomes["r2"].error, RunMismatch)
        assert "run 'r2' was begun by another program" in caplog.text


async def test_run_that_another_process_takes_meanwhile_is_held(tmp_path: Path) -> None:
    left = await crashed(tmp_path, lambda j, wait: desk(j, wait), "r1")
    with Journal(left) as journal, Journal(left) as other, ThreadPoolExecutor() as pool:

        def take(run: Any) -> None:
            pool.submit(asyncio.run, other.begin(run.id, run.kind, run.agent, "")).result()

        (one,) = await desk(journal, at_once).resume_runs(deps=take)
        assert (one.outcome, type(one.error)) == ("held", RunHeld)


async def test_call_in_doubt_waits_for_a_person(tmp_path: Path) -> None:
    left = await crashed(tmp_path, lambda j, wait: desk(j, wait, idempotent=False), "r1")
    with Journal(left) as journal:
        agent = desk(journal, at_once, idempotent=False)
        for _ in range(2):
            (one,) = await agent.resume_runs()
            assert (one.outcome, one.reply, one.error) == ("in_doubt", None, None)
        journal.decide("r1", "repeat")
        (one,) = await agent.resume_runs(deps=lambda run: "you")
        assert one.reply is not None
        assert one.reply.text == "Ordered for you."


async def test_run_of_which_nothing_is_recorded_is_deleted_and_needs_nobody(
    journal: Journal,
) -> None:
    (await journal.begin("r1", "ReActAgent", "desk", "Hello")).close()
    (one,) = await desk(journal, at_once).resume_runs()
    assert one.outcome == "empty"
    assert journal.runs() == []


async def test_decided_run_goes_on_beside_one_of_which_nothing_is_recorded(
    tmp_path: Path,
) -> None:
    left = await crashed(tmp_path, partial(desk, idempotent=False), "r1")
    with Journal(left) as journal:
        (await journal.begin("empty", "ReActAgent", "desk", "Hello")).close()
        agent = desk(journal, at_once, idempotent=False)
        assert await agent.resume_decided() == []
        journal.decide("r1", "repeat")
        (one,) = await agent.resume_decided()
        assert (one.run.id, one.outcome) == ("r1", "resumed")


async def test_run_that_goes_on_once_it_is_decided_has_its_deps_and_its_budget(
    tmp_path: Path,
) -> None:
    paid = []

    @action(access_policy=ACCESS_REQUESTED)
    def pay(context: Context) -> str:
        """Pay."""
        paid.append((context.deps, context.budget))
        return "paid"

    script = [{"name": "pay"}, "Paid."]
    with Journal(tmp_path / "journal") as journal:
        model = ScriptedModel(script)
        agent = ReActAgent("till", model, actions=[pay], journal=journal, approver=Waiting())
        await agent.reply("Pay.", run_id="r", thread="ada", deps="ada's purse")
        (wait,) = journal.waiting()
        journal.answer("r", wait.key, True)
        budget = Budget(model_calls=2)
        with pytest.raises(ConfigError, match="resume_decided: deps="):
            await agent.resume_decided(deps="ada's purse")  # type: ignore[arg-type]
        (one,) = await agent.resume_decided(
            deps=lambda run: f"{run.thread}'s purse", budget=lambda run: budget
        )
    assert one.outcome == "resumed"
    assert paid == [("ada's purse", budget)]
    assert budget.spent.model_calls == 2


async def test_late_reply_reaches_the_thread_that_asked_and_is_not_answered(
    tmp_path: Path,
) -> None:
    async def ask_desk(context: Context) -> str:
        """Ask the desk."""
        assert context.agent is not None
        return str(await context.agent.ask("desk", "say", content="Order a lamp."))

    def front_says(messages: list[dict[str, Any]], actions: Any) -> Any:
        asks = messages[-1] == {"role": "user", "content": "A lamp, please."}
        return Call("c", "ask_desk", {}) if asks else "Good."

    async def wait() -> None:
        crash(tmp_path / "journal", tmp_path / "left")

    model = ScriptedModel(front_says)
    front = ReActAgent("front", model, actions=[ask_desk])
    heard, seen = asyncio.Queue[str](), list[tuple[str, str]]()
    with Journal(tmp_path / "journal") as before, NativeSpace() as space:
        me = space.add(Agent("me"))
        space.add(front)
        space.add(desk(before, wait, idempotent=False))
        await me.ask("front", "say", content="A lamp, please.")
        space.remove("desk")
        with Journal(tmp_path / "left") as left:
            resumed = space.add(desk(left, at_once, idempotent=False))
            space.observe(lambda told: seen.append((told["from"], told["action"]["name"])))
            loop = asyncio.get_running_loop()
            tell = partial(loop.call_soon_threadsafe, heard.put_nowait)
            front.watch(lambda event: event.kind == "done" and tell(event.reply.text))
            (run,) = left.runs()
            left.decide(run.id, "skip")
            await resumed.resume_decided()
            assert await heard.get() == "Good."
            for id in ("front", "desk"):
                await me.ask(id, "help")
    told = [each["content"] for each in model.received[-1]]
    assert told[0] == "A lamp, please."
    assert str(told[-1]).startswith("Ordered")
    assert seen.count(("desk", "say")) == 1
    assert ("front", "say") not in seen


async def test_resumption_that_is_cancelled_leaves_its_runs_to_the_next_one(
    tmp_path: Path,
) -> None:
    left = await crashed(tmp_path, desk, *RUNS)
    under_way = asyncio.Event()

    async def wait() -> None:
        under_way.set()
        await asyncio.Event().wait()

    async def at_once() -> None: ...

    with Journal(left) as journal:
        resuming = asyncio.create_task(
            desk(journal, wait).resume_runs(deps=lambda run: RUNS[run.id])
        )
        await under_way.wait()
        resuming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await resuming
        assert {run.state for run in journal.runs()} == {"stopped"}
        await desk(journal, at_once).resume_runs(deps=lambda run: RUNS[run.id])
        assert {run.state for run in journal.runs()} == {"done"}


async def test_resumption_that_is_cancelled_waits_for_the_cleanup_of_each_run(
    tmp_path: Path,
) -> None:
    left = await crashed(tmp_path, desk, *RUNS)
    under_way: list[str] = []
    cleaned = asyncio.Event()

    async def wait() -> None:
        under_way.append("run")
        is_last = len(under_way) == len(RUNS)
        try:
            await asyncio.Event().wait()
        finally:
            if is_last:
                await cleaned.wait()

    with Journal(left) as journal:
        resuming = asyncio.create_task(desk(journal, wait).resume_runs())
        await settled(lambda: len(under_way) == len(RUNS))
        resuming.cancel()
        await settled(lambda: [run.state for run in journal.runs()].count("stopped") == 2)
        for _ in range(10):  # the two that have ended go through worker threads, too
            await asyncio.to_thread(journal.runs)
            await settled()
        assert not resuming.done()
        cleaned.set()
        with pytest.raises(asyncio.CancelledError):
            await resuming
        assert {run.state for run in journal.runs()} == {"stopped"}


@pytest.mark.parametrize("way", ("resume_runs", "resume_decided"))
async def test_run_whose_task_a_program_cancels_stops_no_other(journal: Journal, way: str) -> None:
    working = asyncio.Queue[asyncio.Task[Any] | None]()
    go_on = asyncio.Event()

    class Slow(ScriptedModel):
        async def complete(self, messages: Any, *args: Any, **options: Any) -> Any:
            if messages[-1]["role"] == "tool":
                is_bo = "bo" in messages[0]["content"]
                working.put_nowait(asyncio.current_task() if is_bo else None)
                await go_on.wait()
            return await super().complete(messages, *args, **options)

    clerk = desk(journal, at_once, approver=Waiting(), access_policy=ACCESS_REQUESTED)
    clerk.model = Slow([orders] * 8)
    for run, name in RUNS.items():
        await clerk.reply(f"I am {name}", thread=name, run_id=run)
    for wait in journal.waiting():
        journal.answer(wait.run, wait.key, True)
    resume = clerk.resume_runs if way == "resume_runs" else clerk.resume_decided
    resuming = asyncio.create_task(resume())
    for task in [await working.get() for _ in RUNS]:
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))
    go_on.set()
    results = await resuming
    assert [each.outcome for each in results] == ["resumed", "failed", "resumed"]
    assert "run 'r2' was cancelled" in str(results[1].error)
    assert [run.state for run in reversed(journal.runs())] == ["done", "cancelled", "done"]


async def test_resume_runs_takes_only_runs_of_this_agent_that_did_not_end(journal: Journal) -> None:
    await desk(journal, at_once).reply("Hi", run_id="ended")
    (await journal.begin("r1", "ReActAgent", "another", "Hello")).close()
    (await journal.begin("r2", "Conversation", "desk", "Hello")).close()
    assert await desk(journal, at_once).resume_runs() == []


def dual_act(journal: Journal, wait: Callable[[], Any]) -> DualActAgent:
    reactive = desk(None, wait)
    decides = [
        '{"action": "CONTINUE", "new_instruction": "Order."}',
        '{"action": "TERMINATE", "new_instruction": "", "reasoning": "Good."}',
    ]
    human = ReActAgent("H", ScriptedModel(decides))
    return DualActAgent(human=human, reactive=reactive, id="both", journal=journal)


def conversation(journal: Journal, wait: Callable[[], Any]) -> Conversation:
    first = desk(None, wait)
    second = ReActAgent("second", ScriptedModel(["Good."]))
    return Conversation([first, second], until=MaxTurns(2), id="both", journal=journal)


@pytest.mark.parametrize("make", (dual_act, conversation))
async def test_groups_resume_theirs(tmp_path: Path, make: Any) -> None:
    left = await crashed(tmp_path, make, "r1")
    with Journal(left) as journal:
        (one,) = await make(journal, at_once).resume_runs(deps=lambda run: run.thread)
        assert (one.outcome, one.run.thread) == ("resumed", "ada")
        assert one.reply is not None
        assert any("for ada" in str(each) for each in (one.reply.text, one.reply.messages))


async def test_resume_runs_without_a_journal_is_refused(tmp_path: Path) -> None:
    agent: Any = ReActAgent("desk", ScriptedModel([]))
    with pytest.raises(DefinitionError, match="'desk' has no journal="):
        await agent.resume_runs()
    agent.journal = tmp_path / "journal"
    with pytest.raises(DefinitionError, match='deps= must be a function, got "ada"'):
        await agent.resume_runs(deps="ada")
    with pytest.raises(DefinitionError, match="concurrency"):
        await agent.resume_runs(concurrency=0)


class Customer(Agent):
    """Keeps what is said to it."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.heard = asyncio.Queue[str]()
        self.loop = asyncio.get_running_loop()

    @action
    async def say(self, content: str) -> None:
        self.loop.call_soon_threadsafe(self.heard.put_nowait, content)


async def test_late_reply_is_sent_at_the_end_of_its_run_while_others_go_on(tmp_path: Path) -> None:
    never = asyncio.Event()

    @action(access_policy=ACCESS_REQUESTED)
    async def order(context: Context) -> str:
        """Order."""
        if context.thread == "bo":
            await never.wait()
        return f"for {context.thread}"

    with Journal(tmp_path / "journal") as journal, NativeSpace() as space:
        model = ScriptedModel([orders] * 4)
        clerk = ReActAgent("clerk", model, actions=[order], approver=Waiting(), journal=journal)
        ada, bo = (space.add(Customer(id)) for id in ("ada", "bo"))
        space.add(clerk)
        for each in (bo, ada):
            with pytest.raises(ActionError, match="waiting for the approval"):
                await each.ask("clerk", "say", content="Order.")
        for wait in journal.waiting():
            journal.answer(wait.run, wait.key, True)
        resuming = asyncio.create_task(clerk.resume_decided())
        assert await ada.heard.get() == "Ordered for ada."
        assert not resuming.done()
        resuming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await resuming


async def test_resume_decided_called_again_resumes_only_what_no_other_call_resumes(
    journal: Journal,
) -> None:
    begun, let_go = asyncio.Event(), asyncio.Event()
    ordered: list[str | None] = []

    @action(access_policy=ACCESS_REQUESTED)
    async def order(context: Context) -> str:
        """Order."""
        ordered.append(context.thread)
        if context.thread == "ada":
            begun.set()
            await let_go.wait()
        return f"for {context.thread}"

    model = ScriptedModel([orders] * 8)
    clerk = ReActAgent("clerk", model, actions=[order], approver=Waiting(), journal=journal)
    for run, thread in (("r1", "ada"), ("r2", "ada"), ("r3", "bo"), ("r4", "cy")):
        await clerk.reply("Order.", thread=thread, run_id=run)

    def permit(*runs: str) -> None:
        for wait in journal.waiting():
            if wait.run in runs:
                journal.answer(wait.run, wait.key, True)

    permit("r1", "r2", "r3")  # r2 comes after r1, and r3 when there is room
    first = asyncio.create_task(clerk.resume_decided(concurrency=1))
    await begun.wait()
    assert await clerk.resume_decided() == []
    permit("r4")
    second = asyncio.create_task(clerk.resume_decided())
    let_go.set()
    assert [each.run.id for each in await first] == ["r1", "r2", "r3"]
    assert [each.run.id for each in await second] == ["r4"]
    assert sorted(map(str, ordered)) == ["ada", "ada", "bo", "cy"]


async def test_resumption_of_two_runs_of_a_thread_ends_without_a_fault_when_it_is_cancelled(
    tmp_path: Path,
) -> None:
    begun, faults = asyncio.Event(), list[dict[str, Any]]()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    asyncio.get_running_loop().set_exception_handler(lambda loop, fault: faults.append(fault))
    with Journal(tmp_path / "journal") as journal:
        clerk = desk(journal, wait, approver=Waiting(), access_policy=ACCESS_REQUESTED)
        for run in ("r1", "r2"):
            await clerk.reply("Order.", thread="ada", run_id=run)
        for each in journal.waiting():
            journal.answer(each.run, each.key, True)
        resuming = asyncio.create_task(clerk.resume_decided())
        await begun.wait()
        resuming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await resuming
        await settled()
    assert faults == []


async def test_resume_runs_sends_the_late_reply_of_a_run_that_has_waited(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal, NativeSpace() as space:
        clerk = desk(journal, at_once, approver=Waiting(), access_policy=ACCESS_REQUESTED)
        ada = space.add(Customer("ada"))
        space.add(clerk)
        with pytest.raises(ActionError, match="waiting for the approval"):
            await ada.ask("desk", "say", content="Order.")
        (wait,) = journal.waiting()
        journal.answer(wait.run, wait.key, True)
        await clerk.resume_runs(deps=lambda run: "you")
        assert await ada.heard.get() == "Ordered for you."
