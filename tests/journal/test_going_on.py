"""Going on with a run, in this process or in another: what is known, asked, permitted and spent."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from journal.crash import Crashing, settled
from moothall import (
    Budget,
    Conversation,
    DecisionAction,
    DualActAgent,
    DualActConfig,
    HumanDecision,
    Journal,
    MaxTurns,
    Memory,
    ReActAgent,
    ScriptedModel,
    SQLiteMemory,
    SummarizingMemory,
)
from moothall.actions import ACCESS_REQUESTED, Action, ActionRegistry, action
from moothall.actions.approval import CallbackApprover
from moothall.agents.replies.events import CallEnded, CallStarted
from moothall.agents.replies.reply import Reply
from moothall.foundation.errors import DefinitionError, RunMismatch
from moothall.models.protocol import Call, ModelReply, Usage


def call(name: str, number: int = 1, **args: Any) -> ModelReply:
    return ModelReply("", (Call(f"c{number}", name, args),), Usage(10, 5))


def said(text: str) -> ModelReply:
    return ModelReply(text, (), Usage(10, 5))


def contents(reply: Reply) -> list[str]:
    return [str(message["content"]) for message in reply.messages]


def calls_ended(journal: Journal) -> list[Any]:
    """What is recorded of calls of actions that have ended."""
    return [
        entry.data
        for entry in journal.entries("R")
        if entry.kind == "ended" and "action" in entry.data.get("about", ())
    ]


class Crash:
    """An agent with an action in which its process ends, and others that go on from there."""

    def __init__(self, folder: Path, *script: Any, **options: Any) -> None:
        self.journal = Journal(folder / "before")
        self.after = Journal(folder / "made")  # where copies go is made by a journal of its own
        self.after.close()
        self.folder = folder
        self.script = script
        self.options = options
        self.act = Crashing(self.journal, folder / "after")

    def agent(self, journal: Journal, **options: Any) -> ReActAgent:
        act = self.act

        @action(**options.pop("act", self.options.get("act", {})))
        def act_on(what: int) -> str:
            """Act."""
            return act(what)

        given = {key: value for key, value in self.options.items() if key != "act"} | options
        given.setdefault("actions", [act_on])
        hooks = given.pop("hooks", ())
        agent = ReActAgent("a", ScriptedModel(self.script), journal=journal, **given)
        for kind, hook in hooks:
            agent.register_hook(kind, "h", hook)
        return agent

    def before(self, **options: Any) -> Reply:
        return self.agent(self.journal, **options).reply_sync("go", run_id="R")

    def crashed(self) -> Journal:
        """The journal that the next process finds."""
        return Journal(self.folder / "after")


# -- in doubt --------------------------------------------------------------------------------------


@pytest.mark.parametrize("repeat", (True, False))
def test_resume_call_in_doubt_waits_for_a_decision(tmp_path: Path, repeat: bool) -> None:
    crash = Crash(tmp_path, call("act_on", what=1), "Yes.")
    unbroken = crash.before()
    with crash.crashed() as journal:
        assert journal.run("R").state == "in_doubt"
        reply = crash.agent(journal).reply_sync("go", run_id="R")
        assert (reply.stop_reason, crash.act.called) == ("in_doubt", [1])
        assert '"act_on" {"what":1}' in reply.detail.replace(" ", "").replace(
            '"act_on"', '"act_on" '
        )
        assert journal.run("R").state == "in_doubt"
        (doubt,) = journal.decide("R", "repeat" if repeat else "skip")
        assert (doubt.action, doubt.args, str(doubt)) == (
            "act_on",
            {"what": 1},
            'act_on {"what": 1}',
        )
        reply = crash.agent(journal).reply_sync("go", run_id="R")
        assert reply.stop_reason == "done"
        if repeat:
            assert crash.act.called == [1, 1]
            assert reply.messages == unbroken.messages
        else:
            assert crash.act.called == [1]
            assert reply.steps[0].error is not None
            assert "skipped" in reply.steps[0].error
            assert not reply.steps[0].executed
        assert journal.replay("R") == reply


def test_decision_holds_until_it_is_carried_out(tmp_path: Path) -> None:
    crash = Crash(tmp_path, call("act_on", what=1), call("act_on", 2, what=2), "Yes.")
    crash.before()
    with crash.crashed() as journal:
        for wrong in ("no", 0):
            with pytest.raises(DefinitionError, match='must be "repeat", "skip" or Done'):
                journal.decide("R", wrong)  # type: ignore[arg-type]
        assert len(journal.in_doubt("R")) == 1
        for decision in ("repeat", "skip"):
            (doubt,) = journal.decide("R", decision)
            assert doubt.args == {"what": 1}
            assert journal.in_doubt("R") == []
        assert crash.agent(journal).reply_sync("go", run_id="R").stop_reason == "done"
        assert crash.act.called == [1, 2, 2]
        assert journal.decide("R", "repeat") == []


@pytest.mark.parametrize("idempotent", (True, False))
def test_resume_permitted_call_is_not_asked_about_twice(tmp_path: Path, idempotent: bool) -> None:
    asked: list[Any] = []

    def approve(request: Any) -> bool:
        asked.append(request)
        return len(asked) <= 3

    crash = Crash(
        tmp_path,
        *(call("act_on", number, what=1) for number in range(3)),
        "Yes.",
        act={"access_policy": ACCESS_REQUESTED, "idempotent": idempotent},
        approver=CallbackApprover(approve),
    )
    crash.before()
    assert len(asked) == 3
    with crash.crashed() as journal:
        if not idempotent:
            crash.agent(journal).reply_sync("go", run_id="R")
            journal.decide("R", "repeat")
        crash.act.called.clear()
        reply = crash.agent(journal).reply_sync("go", run_id="R")
    assert crash.act.called == [1]  # the one that was permitted before; the same again was refused
    assert len(asked) == 5
    assert [step.error is None for step in reply.steps] == [True, False, False]


def test_resume_idempotent_call_is_executed_again(tmp_path: Path) -> None:
    crash = Crash(tmp_path, call("act_on", what=1), "Yes.", act={"idempotent": True})
    crash.before()
    with crash.crashed() as journal:
        assert journal.in_doubt("R") == []
        assert crash.agent(journal).reply_sync("go", run_id="R").text == "Yes."
    assert crash.act.called == [1, 1]


def test_resume_call_in_doubt_of_a_removed_action_stays_in_doubt(tmp_path: Path) -> None:
    crash = Crash(tmp_path, call("act_on", what=1), "Yes.")
    crash.before()
    with crash.crashed() as journal:
        copy = journal.fork("R")
        agent = crash.agent(journal, actions=[])
        reply = agent.reply_sync("go", run_id=copy)
        assert reply.stop_reason in ("in_doubt", "error")
        assert "act_on" in reply.detail
        assert [doubt.action for doubt in journal.in_doubt(copy)] == ["act_on"]


# -- hooks and approvals ---------------------------------------------------------------------------


@pytest.mark.parametrize("idempotent", (True, False))
def test_hook_that_changes_arguments_changes_them_once(tmp_path: Path, idempotent: bool) -> None:
    def one_more(agent: Any, about: dict[str, Any]) -> dict[str, Any]:
        return {**about, "args": {"what": about["args"]["what"] + 1}}

    crash = Crash(
        tmp_path,
        call("act_on", what=1),
        "Yes.",
        act={"idempotent": idempotent},
        hooks=[("pre_acting", one_more)],
    )
    unbroken = crash.before()
    assert crash.act.called == [2]
    with crash.crashed() as journal:
        journal.decide("R", "repeat")
        reply = crash.agent(journal).reply_sync("go", run_id="R")
    assert crash.act.called == [2, 2]
    assert reply.messages == unbroken.messages
    assert reply.steps[0].args == {"what": 2}


def test_resume_repeated_call_keeps_its_recorded_arguments(
    tmp_path: Path,
) -> None:
    numbers = iter(range(100, 200))

    def any_number(agent: Any, about: dict[str, Any]) -> dict[str, Any]:
        return {**about, "args": {"what": next(numbers)}}

    crash = Crash(tmp_path, call("act_on", what=1), "Yes.", hooks=[("pre_acting", any_number)])
    crash.before()
    with crash.crashed() as journal:
        journal.decide("R", "repeat")
        crash.agent(journal).reply_sync("go", run_id="R")
    assert crash.act.called == [100, 100]


@pytest.mark.parametrize("policy", (True, False))
def test_resume_does_not_ask_again_for_a_recorded_permission(tmp_path: Path, policy: bool) -> None:
    asked: list[Any] = []

    def approve(request: Any) -> bool:
        asked.append(request)
        return policy

    options = {"access_policy": ACCESS_REQUESTED, "idempotent": True}
    crash = Crash(
        tmp_path,
        call("act_on", what=1),
        call("act_on", 2, what=2),
        "Yes.",
        act=options,
        approver=CallbackApprover(approve),
    )
    crash.before()
    assert len(asked) == 2
    if not policy:
        assert crash.act.called == []
        return
    with crash.crashed() as journal:
        crash.agent(journal).reply_sync("go", run_id="R")
    assert crash.act.called == [1, 2, 1, 2]
    assert len(asked) == 3  # the second had not begun


def test_model_answer_is_recorded_before_its_calls_await_approval(tmp_path: Path) -> None:
    """A person may take long: what led to the question is in the file by then."""
    answered: list[Any] = []

    def approve(request: Any) -> bool:
        entries = journal.entries("R")
        answered.extend(e.data["result"]["calls"] for e in entries if e.kind == "ended")
        return True

    done = Action("act_on", lambda what: what, access_policy=ACCESS_REQUESTED)
    model = ScriptedModel([call("act_on", what=1), said("Yes.")])
    with Journal(tmp_path / "runs.db") as journal:
        agent = ReActAgent(
            "clerk", model, actions=[done], approver=CallbackApprover(approve), journal=journal
        )
        agent.reply_sync("go", run_id="R")
    assert [[each["name"] for each in calls] for calls in answered] == [["act_on"]]


# -- memory ----------------------------------------------------------------------------------------


@dataclass
class Equal(Memory):
    """A memory that is compared by what is in it, and so has no hash."""

    items: list[dict[str, Any]] = field(default_factory=list)


@pytest.mark.parametrize("memory", (Memory, Equal))
def test_memory_is_told_nothing_twice_in_one_process(journal: Journal, memory: Any) -> None:
    kept = memory()
    model = ScriptedModel([ValueError("down"), "Yes."])
    agent = ReActAgent("a", model, memory=kept, journal=journal)
    assert agent.reply_sync("go", run_id="R").stop_reason == "error"
    reply = agent.reply_sync("go", run_id="R")
    assert contents(reply) == ["go", "Yes."]
    assert agent.reply_sync("go", run_id="R") == reply
    assert kept.items == reply.messages


@pytest.mark.parametrize(
    "memory",
    (lambda: None, Memory, lambda: SummarizingMemory(ScriptedModel())),
    ids=("bounded", "list", "summarizing"),
)
@pytest.mark.parametrize("rolled_back", (False, True))
def test_state_says_what_of_a_run_it_holds(
    tmp_path: Path, memory: Callable[[], Any], rolled_back: bool
) -> None:
    def acts(journal: Journal) -> DualActAgent:
        go, done = ({"action": what, "new_instruction": what} for what in ("CONTINUE", "TERMINATE"))
        human = ReActAgent("H", ScriptedModel([json.dumps(go)] * 2 + [json.dumps(done)]))
        worker = ReActAgent("R", ScriptedModel(["one", "two"]), memory=memory())
        return DualActAgent(human=human, reactive=worker, journal=journal)

    def told(dual: DualActAgent) -> list[list[Any]]:
        both = (dual.human_agent, dual.reactive_agent)
        return [[each["content"] for each in agent.memory.get_memories()] for agent in both]

    async def stopped(dual: DualActAgent, after: int) -> list[Any]:
        states = [dual.state_dict()]

        def save(agent: Any, _: Any) -> None:
            states.append(agent.state_dict())
            if len(states) > after:
                task.cancel()

        dual.register_hook("post_reasoning", "save", save)
        dual.register_hook("post_acting", "save", save)
        task = asyncio.create_task(dual.reply("Count.", run_id="R"))
        with pytest.raises(asyncio.CancelledError):
            await task
        dual.clear_hooks()
        return states

    whole = acts(Journal(tmp_path / "whole.db"))
    text = whole.reply_sync("Count.").text
    journal = Journal(tmp_path / "j.db")
    dual = acts(journal)
    states = asyncio.run(stopped(dual, 3))
    if rolled_back:
        dual.load_state_dict(states[0])
    else:
        dual = acts(journal)
        dual.load_state_dict(json.loads(json.dumps(states[3])))
    assert dual.reply_sync("Count.", run_id="R").text == text
    assert told(dual) == told(whole)


def test_memories_that_are_equal_are_each_told(journal: Journal) -> None:
    for number in range(2):
        memory = Equal()
        agent = ReActAgent("a", ScriptedModel(["Yes."]), memory=memory, journal=journal)
        reply = agent.reply_sync("go", run_id="R")
        assert memory.items == reply.messages, number


# -- budgets ---------------------------------------------------------------------------------------


def test_model_that_was_being_asked_when_the_process_ended_counts(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        crashing = Crashing(journal, tmp_path / "after")

        def answer(messages: Any, actions: Any) -> str:
            return crashing("answer")

        budget = Budget(model_calls=10)
        agent = ReActAgent("a", ScriptedModel([answer]), journal=journal, budget=budget)
        agent.reply_sync("go", run_id="R")
        agent.reply_sync("go", run_id="R")
        assert budget.spent.model_calls == 1
    with Journal(tmp_path / "after") as journal:
        budget = Budget(model_calls=10)
        agent = ReActAgent("a", ScriptedModel(["Yes."]), journal=journal, budget=budget)
        assert agent.reply_sync("go", run_id="R").text == "Yes."
        assert budget.spent.model_calls == 2


def test_resume_call_refused_by_the_budget_counts_nothing(journal: Journal) -> None:
    script = [call("act_on", what=1), "Yes."]

    def act_on(what: int) -> None:
        """Act."""

    agent = ReActAgent(
        "a",
        ScriptedModel(script),
        actions=[act_on],
        journal=journal,
        budget=Budget(model_calls=1),
    )
    assert agent.reply_sync("go", run_id="R").stop_reason == "budget"
    budget = Budget(model_calls=10)
    agent = ReActAgent("a", ScriptedModel(script), actions=[act_on], journal=journal, budget=budget)
    assert agent.reply_sync("go", run_id="R").text == "Yes."
    assert budget.spent.model_calls == 2


def test_run_that_took_more_than_was_reserved_is_counted_in_full(journal: Journal) -> None:
    model = lambda: ScriptedModel([ModelReply("Yes.", (), Usage(900, 900))], max_tokens=10)  # noqa: E731
    agent = ReActAgent("a", model(), journal=journal, budget=Budget(tokens=1000))
    first = agent.reply_sync("go", run_id="R")
    assert first.text == "Yes."
    budget = Budget(tokens=1000)
    agent = ReActAgent("a", model(), journal=journal, budget=budget)
    again = agent.reply_sync("go", run_id="R")
    assert (again.text, again.stop_reason) == (first.text, first.stop_reason)
    assert budget.spent.tokens == 1800
    assert agent.reply_sync("go", run_id="other").stop_reason == "budget"


def test_resume_counts_what_the_process_before_spent(tmp_path: Path) -> None:
    limits = {"model_calls": 3, "tokens": 100_000, "actions": 3}
    crash = Crash(
        tmp_path,
        call("act_on", what=1),
        call("act_on", 2, what=2),
        "Yes.",
        act={"idempotent": True},
    )
    first = Budget(**limits)
    crash.before(budget=first)
    assert (first.spent.model_calls, first.spent.actions) == (3, 2)
    with crash.crashed() as journal:
        second = Budget(**limits)
        reply = crash.agent(journal, budget=second).reply_sync("go", run_id="R")
        assert reply.stop_reason == "done"
        assert (second.spent.model_calls, second.spent.actions) == (3, 3)
        assert second.spent.tokens == first.spent.tokens
        # Asked once more in this process, nothing is counted again.
        crash.agent(journal, budget=second).reply_sync("go", run_id="R")
        assert second.spent.model_calls == 3
        third = Budget(model_calls=1)
        late = crash.agent(journal, budget=third).reply_sync("go", run_id="R")
        assert late.text == "Yes."  # it has ended, and takes nothing


# -- another program -------------------------------------------------------------------------------


def test_copy_belongs_to_the_program_that_goes_on_with_it(journal: Journal) -> None:

    def agent(prompt: str, *script: Any) -> ReActAgent:
        return ReActAgent("a", ScriptedModel(script), system_prompt=prompt, journal=journal)

    agent("one", ValueError("down")).reply_sync("go", run_id="R")
    with pytest.raises(RunMismatch, match="system prompt"):
        agent("two").reply_sync("go", run_id="R")
    copy = journal.fork("R")
    times = [[each.at for each in journal.entries(run)] for run in ("R", copy)]
    assert times[0] == times[1], "a copy tells when things happened"
    assert agent("two", 0, ValueError("down")).reply_sync("go", run_id=copy).stop_reason == "error"
    with pytest.raises(RunMismatch, match="system prompt"):
        agent("three").reply_sync("go", run_id=copy)


# -- what is left over -----------------------------------------------------------------------------


def test_journal_that_nobody_uses_any_more_leaves_no_file_open(tmp_path: Path) -> None:
    def open_files() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    before = open_files()
    for number in range(5):
        agent = ReActAgent("a", ScriptedModel(["Yes."]), journal=tmp_path / f"{number}")
        assert agent.reply_sync("go").text == "Yes."
        del agent
    # The thread that opened the last one may still be letting go of it.
    deadline = time.monotonic() + 10
    while open_files() != before and time.monotonic() < deadline:
        os.sched_yield()
    assert open_files() == before


async def test_idempotent_action_that_was_cancelled_is_executed_again_as_after_a_kill(
    tmp_path: Path,
) -> None:
    began, ended = asyncio.Event(), asyncio.Event()
    called: list[str] = []

    async def act(name: str) -> str:
        called.append(name)
        if len(called) >= 2:
            began.set()
        await ended.wait()
        return f"{name} is done"

    @action(idempotent=True)
    async def look() -> str:
        """Look."""
        return await act("look")

    @action
    async def pay() -> str:
        """Pay."""
        return await act("pay")

    with Journal(tmp_path / "j") as journal, SQLiteMemory(tmp_path / "m") as memory:

        def agent() -> ReActAgent:
            script = ScriptedModel([[Call("1", "look", {}), Call("2", "pay", {})], "Yes."])
            return ReActAgent("a", script, actions=[look, pay], memory=memory, journal=journal)

        task = asyncio.ensure_future(agent().reply("go", run_id="R"))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [each.action for each in journal.in_doubt("R")] == ["pay"]
        journal.decide("R", "skip")
        ended.set()
        reply = await agent().reply("go", run_id="R")
        assert (reply.text, called) == ("Yes.", ["look", "pay", "look"])
        looked, paid = reply.steps[-2:]
        assert looked.result["result"] == "look is done"
        assert "skipped: the run was cut off" in (paid.error or "")
        assert list(memory.messages()) == reply.messages
        assert journal.replay("R") == reply


async def test_call_that_was_cancelled_before_its_approval_is_asked_about_again(
    tmp_path: Path,
) -> None:
    asked: list[asyncio.Future[bool]] = []
    arrived, paid = asyncio.Event(), []

    async def approve(request: Any) -> bool:
        asked.append(asyncio.get_running_loop().create_future())
        arrived.set()
        return await asked[-1]

    @action(access_policy=ACCESS_REQUESTED)
    async def pay(coins: int) -> str:
        """Pay."""
        paid.append(coins)
        return "paid"

    with Journal(tmp_path / "j") as journal, SQLiteMemory(tmp_path / "m") as memory:

        def payer() -> ReActAgent:
            return ReActAgent(
                "a",
                ScriptedModel([call("pay", coins=3), "Yes."]),
                actions=[pay],
                approver=CallbackApprover(approve),
                memory=memory,
                journal=journal,
                budget=Budget(actions=1),
            )

        for agent in (payer(), payer()):  # as by two processes, each shut down in an orderly way
            task = asyncio.ensure_future(agent.reply("go", run_id="R"))
            await arrived.wait()
            arrived.clear()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        task = asyncio.ensure_future(payer().reply("go", run_id="R"))
        await arrived.wait()
        asked[-1].set_result(True)
        reply = await task
        assert (reply.text, paid, len(asked)) == ("Yes.", [3], 3)
        assert list(memory.messages()) == reply.messages
        assert journal.replay("R") == reply


def test_resume_result_that_is_no_json_reads_the_same(tmp_path: Path) -> None:
    class Thing:
        def __str__(self) -> str:
            return "a thing"

    with Journal(tmp_path / "j") as journal:
        crashing = Crashing(journal, tmp_path / "after")

        def given(what: str) -> Any:
            """Give it."""
            return {"thing": Thing(), "torn": "\ud83d", "path": Path("/x")}[what]

        script = [
            [
                Call("a", "given", {"what": "thing"}),
                Call("b", "given", {"what": "torn"}),
                Call("c", "given", {"what": "path"}),
                Call("d", "slow", {}),
            ],
            "Yes.",
        ]

        async def slow() -> str:
            """End last."""
            await settled(lambda: len(calls_ended(journal)) >= 3)
            return crashing("slow")

        registry = ActionRegistry()
        for function in (given, Action("slow", slow, idempotent=True)):
            registry.register(function)
        agent = ReActAgent("a", ScriptedModel(script), actions=registry, journal=journal)
        unbroken = agent.reply_sync("go", run_id="R")
        assert contents(unbroken) == ["go", "", "a thing", "?", "/x", "did slow", "Yes."]
        with Journal(tmp_path / "after") as after:
            agent = ReActAgent("a", ScriptedModel(script), actions=registry, journal=after)
            assert agent.reply_sync("go", run_id="R").messages == unbroken.messages


def test_call_that_a_hook_refused_stays_refused_after_a_crash(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        crashing = Crashing(journal, tmp_path / "after")
        script = [[Call("a", "spend", {}), Call("b", "slow", {})], "Well."]

        def spend() -> str:
            """Spend."""
            raise AssertionError("refused")

        async def slow() -> str:
            """End last."""
            await settled(lambda: len(calls_ended(journal)) >= 1)
            return crashing("slow")

        def go_on(journal: Journal) -> tuple[Reply, list[str]]:
            seen: list[str] = []

            def refuse(agent: Any, kwargs: dict[str, Any]) -> None:
                if kwargs["action"] == "spend":
                    raise PermissionError("not today")

            actions = [Action("slow", slow, idempotent=True), Action("spend", spend)]
            agent = ReActAgent("a", ScriptedModel(script), actions=actions, journal=journal)
            agent.register_hook("pre_acting", "refuse", refuse)
            agent.register_hook("post_acting", "see", lambda _, given: seen.append(given["action"]))
            return agent.reply_sync("go", run_id="R"), seen

        unbroken, seen = go_on(journal)
        assert seen == ["slow"]
        assert unbroken.steps[0].error == "not today"
        with Journal(tmp_path / "after") as after:
            reply, seen = go_on(after)
        assert (reply.messages, seen) == (unbroken.messages, ["slow"])


def test_file_name_that_is_no_text_does_not_damage_a_run(tmp_path: Path) -> None:
    def list_files() -> list[str]:
        """As `os.listdir` gives a name that is not UTF-8."""
        return ["caf\udce9.txt"]

    def agent() -> ReActAgent:
        model = ScriptedModel([call("list_files"), said("One file.")])
        return ReActAgent("A", model, actions=[list_files], journal=tmp_path / "j.db")

    reply = agent().reply_sync("What is there?", run_id="R")
    assert agent().reply_sync("What is there?", run_id="R").messages == reply.messages
    again = Journal(tmp_path / "j.db").replay("R")
    assert (again.messages, again.steps[0].result["result"]) == (reply.messages, ["caf?.txt"])


def test_resume_refused_call_is_never_executed(tmp_path: Path) -> None:
    permits = False
    called: list[str] = []
    with Journal(tmp_path / "j") as journal:
        crashing = Crashing(journal, tmp_path / "after")

        @action(access_policy=ACCESS_REQUESTED)
        def burn() -> None:
            """Burn it."""
            called.append("burn")

        @action(idempotent=True)
        async def look() -> str:
            """Look, once the other was refused."""
            await settled(lambda: bool(calls_ended(journal)))
            return crashing("look")

        def agent(journal: Journal) -> ReActAgent:
            script = [[Call("a", "burn", {}), Call("b", "look", {})], "Yes."]
            return ReActAgent(
                "a",
                ScriptedModel(script),
                actions=[burn, look],
                approver=CallbackApprover(lambda request: permits),
                journal=journal,
            )

        unbroken = agent(journal).reply_sync("go", run_id="R")
        assert unbroken.steps[0].error == '"burn" not permitted'
        permits = True
        with Journal(tmp_path / "after") as after:
            reply = agent(after).reply_sync("go", run_id="R")
        assert reply.messages == unbroken.messages
        assert called == []


def test_resume_counts_what_members_spent_once(tmp_path: Path) -> None:
    def decision(name: str) -> ModelReply:
        return said(f'{{"action": "{name}", "new_instruction": "do", "reasoning": "so"}}')

    def pair(journal: Journal, budget: Budget) -> DualActAgent:
        human = ReActAgent("h", ScriptedModel([decision("CONTINUE"), decision("TERMINATE")]))
        script = [call("act", what=1), said("One.")]
        acts = [Action("act", crashing, idempotent=True)]
        worker = ReActAgent("r", ScriptedModel(script), actions=acts)
        config = DualActConfig(human=human, reactive=worker)
        return DualActAgent(config, journal=journal, budget=budget)

    with Journal(tmp_path / "j") as journal:
        crashing = Crashing(journal, tmp_path / "after")
        first = Budget(model_calls=9, tokens=100_000, actions=9)
        whole = pair(journal, first)
        assert whole.reply_sync("go", run_id="R").text == "One."
        assert (first.spent.model_calls, first.spent.actions) == (4, 1)
        assert whole.reply_sync("go", run_id="R").text == "One."
        assert first.spent.model_calls == 4
    with Journal(tmp_path / "after") as journal:
        second = Budget(model_calls=9, tokens=100_000, actions=9)
        assert pair(journal, second).reply_sync("go", run_id="R").text == "One."
        assert (second.spent.model_calls, second.spent.actions) == (4, 2)
        assert second.spent.tokens == first.spent.tokens
        third = Budget(model_calls=1)
        assert pair(journal, third).reply_sync("go", run_id="R").text == "One."


@pytest.mark.parametrize("kind", ("loop", "dual act", "conversation"))
def test_resume_charges_earlier_spending_to_the_resuming_replys_budget(
    tmp_path: Path, kind: str
) -> None:
    """And once in what that is a part of, also where the process is the same."""

    def made(journal: Journal, whole: Budget) -> Any:
        script = [call("act", what=1), ValueError("down"), said("One."), said("Two.")]
        acts = [Action("act", crashing, idempotent=True)]
        model = ScriptedModel(script)
        if kind == "loop":
            return ReActAgent("r", model, actions=acts, journal=journal, budget=whole)
        worker = ReActAgent("r", model, actions=acts)
        if kind == "conversation":
            return Conversation([worker], until=MaxTurns(1), journal=journal, budget=whole)
        pair = DualActAgent(
            DualActConfig(
                human=ReActAgent("h", ScriptedModel([])), reactive=worker, first="reactive"
            ),
            journal=journal,
            budget=whole,
        )
        pair.set_decision_func(lambda conclusion, _: HumanDecision(DecisionAction.TERMINATE))
        return pair

    with Journal(tmp_path / "j") as journal:
        crashing = Crashing(journal, tmp_path / "after")
        whole = Budget(model_calls=9, tokens=100_000)
        agent = made(journal, whole)
        agent.reply_sync("go", run_id="R", budget=whole.child(model_calls=9))
        assert whole.spent.model_calls == 2
        again = whole.child(model_calls=9)
        agent.reply_sync("go", run_id="R", budget=again)
        assert whole.spent.model_calls == again.spent.model_calls
    with Journal(tmp_path / "after") as journal:
        whole = Budget(model_calls=9, tokens=100_000)
        small = whole.child(model_calls=1)
        reply = made(journal, whole).reply_sync("go", run_id="R", budget=small)
        assert reply.stop_reason == "budget"
        assert small.spent.model_calls == whole.spent.model_calls == 1


def test_resume_call_that_ended_beside_a_running_one_is_not_in_doubt(tmp_path: Path) -> None:
    called: list[str] = []
    with Journal(tmp_path / "j") as journal:
        crashing = Crashing(journal, tmp_path / "after")

        async def quick() -> str:
            """End at once."""
            called.append("quick")
            return "quick"

        async def slow() -> str:
            """End after the other."""
            await settled(lambda: bool(calls_ended(journal)))
            return crashing("slow")

        def agent(journal: Journal) -> ReActAgent:
            script = [[Call("a", "quick", {}), Call("b", "slow", {})], "Yes."]
            return ReActAgent("a", ScriptedModel(script), actions=[quick, slow], journal=journal)

        unbroken = agent(journal).reply_sync("go", run_id="R")
        with Journal(tmp_path / "after") as after:
            assert [doubt.action for doubt in after.decide("R", "repeat")] == ["slow"]

            async def resumed() -> list[Any]:
                return [event async for event in agent(after).stream("go", run_id="R")]

            *events, done = asyncio.run(resumed())
            assert done.reply.messages == unbroken.messages
        ended = [(each.action, each.past) for each in events if isinstance(each, CallEnded)]
        assert ended == [("quick", True), ("slow", False)]
        assert called == ["quick"]
        assert crashing.called == ["slow", "slow"]


def test_call_that_is_skipped_is_told_to_have_ended(tmp_path: Path) -> None:
    crash = Crash(tmp_path, call("act_on", what=1), "Yes.")
    crash.before()
    with crash.crashed() as journal:
        journal.decide("R", "skip")

        async def now() -> list[Any]:
            stream = crash.agent(journal).stream("go", run_id="R")
            return [event async for event in stream if not getattr(event, "past", False)]

        started = [each for each in asyncio.run(now()) if isinstance(each, CallStarted | CallEnded)]
    (ended,) = started
    assert isinstance(ended, CallEnded)
    assert (ended.action, "skipped" in (ended.error or "")) == ("act_on", True)
