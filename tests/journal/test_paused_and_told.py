"""A run is paused, goes on and is told something, whoever works on it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands import run as run_command
from journal.test_cancelled_at_work import Round
from moothall import (
    ACCESS_REQUESTED,
    Action,
    ConfigError,
    Conversation,
    DualActAgent,
    DualActConfig,
    Journal,
    MaxTurns,
    NativeSpace,
    ReActAgent,
    Researcher,
    ScriptedModel,
    StateError,
    Waiting,
)
from moothall.build import recorded
from moothall.models.protocol import Call

HEARS, ONE = "run r hears it when it goes on\n", "1 run may go on\n"


class Steps:
    """An action that waits for its test, and a model that calls it, and says what it heard."""

    def __init__(self, count: int = 3) -> None:
        self.count = count
        self.done = 0
        self.began = threading.Event()  # those of a space are on a loop of its own
        self.may_end = threading.Event()

    async def step(self) -> str:
        self.done += 1
        self.began.set()
        await asyncio.to_thread(self.may_end.wait)
        return f"step {self.done}"

    def answer(self, messages: Any, _: Any) -> Any:
        texts = [each["content"] for each in messages if each["role"] == "user"]
        return Call(f"c{self.done}", "step", {}) if self.done < self.count else "; ".join(texts)

    def agent(self, journal: Any, id: str = "a") -> ReActAgent:
        actions = [Action("step", self.step, "Step.")]
        return ReActAgent(id, ScriptedModel(self.answer), actions=actions, journal=journal)


async def paused_reply(reply: Any, steps: Steps, journal: Journal, run_id: str) -> Any:
    """Pause a run in its first step, by another process; return the reply of its caller."""
    task = asyncio.ensure_future(reply)
    await asyncio.to_thread(steps.began.wait)
    with Journal(journal.path) as other:
        assert not other.pause(run_id, by="eva")
        while not any(each.work.pause_cause for each in journal.held_runs._open_runs):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    steps.may_end.set()
    return await task


async def test_paused_run_ends_its_step_and_waits_until_somebody_lets_it_go_on(
    tmp_path: Path,
) -> None:
    journal, steps = Journal(tmp_path / "j"), Steps()
    agent = steps.agent(journal)
    reply = await paused_reply(agent.reply("go", run_id="r"), steps, journal, "r")
    assert (reply.stop_reason, reply.detail, steps.done) == ("waiting", "eva has paused it", 1)
    (wait,) = journal.waiting(kind="paused")
    assert (wait.run, wait.agent, str(wait).partition(",")[0]) == (
        *("r", "a"),
        'somebody to let it go on: "eva has paused it"',
    )
    for resumed in (agent.resume_decided, agent.resume_runs):
        assert await resumed() == []
    # Whoever asks again gets the same, and nothing is done.
    assert (await agent.reply("go", run_id="r")).stop_reason == "waiting"
    assert steps.done == 1
    journal.go_on("r", by="bo")
    (result,) = await agent.resume_decided()
    assert result.reply is not None
    assert (result.reply.text, steps.done) == ("go", 3)
    assert await agent.resume_decided() == []
    with pytest.raises(StateError, match="run 'r' is not paused"):
        journal.go_on("r")
    with pytest.raises(StateError, match="run 'r' cannot be paused: it is done"):
        journal.pause("r")


async def test_paused_run_that_waits_for_a_person_does_not_go_on_by_the_answer(
    tmp_path: Path,
) -> None:
    paid = []

    async def pay() -> str:
        paid.append(1)
        return "paid"

    journal = Journal(tmp_path / "j")
    actions = [Action("pay", pay, "Pay.", access_policy=ACCESS_REQUESTED)]
    model = ScriptedModel([Call("c", "pay", {}), "Done."])
    agent = ReActAgent("a", model, actions=actions, journal=journal, approver=Waiting())
    await agent.reply("go", run_id="r")
    assert journal.pause("r", by="eva")
    (wait,) = journal.waiting(kind="approval")
    journal.answer("r", wait.key, True, by="bo")
    assert await agent.resume_decided() == []
    assert (await agent.reply("go", run_id="r")).stop_reason == "waiting"
    assert paid == []
    journal.answer("r", "operator:pause", "go-on", by="eva")
    (result,) = await agent.resume_decided()
    assert result.reply is not None
    assert (result.reply.text, paid) == ("Done.", [1])


async def test_run_that_was_let_go_on_waits_for_what_it_waited_for_before(tmp_path: Path) -> None:
    async def pay() -> str:
        raise AssertionError

    journal = Journal(tmp_path / "j")
    actions = [Action("pay", pay, "Pay.", access_policy=ACCESS_REQUESTED)]
    model = ScriptedModel([Call("c", "pay", {}), "Done."])
    agent = ReActAgent("a", model, actions=actions, journal=journal, approver=Waiting())
    await agent.reply("go", run_id="r")
    journal.pause("r")
    journal.go_on("r")
    (result,) = await agent.resume_decided()
    assert result.reply is not None
    assert result.reply.stop_reason == "waiting"
    assert await agent.resume_decided() == []
    assert [each.kind for each in journal.waiting()] == ["approval"]


FORMS: dict[str, Callable[[Journal, Any], Any]] = {
    "part": lambda journal, agent: agent.as_action(fresh=True),
    "kept part": lambda journal, agent: agent.as_action(),
    "run": lambda journal, agent: agent.as_action(),
    "thread": lambda journal, agent: agent.as_action(),
}


@pytest.mark.parametrize("form", FORMS)
async def test_pause_holds_what_works_for_the_run_too(tmp_path: Path, form: str) -> None:
    journal, steps = Journal(tmp_path / "j"), Steps()
    helper = steps.agent(None if form == "kept part" else journal, "helper")
    chief_model = ScriptedModel(
        lambda messages, _: (
            messages[-1]["content"]
            if messages[-1]["role"] == "tool"
            else Call("h", "helper", {"text": "help"})
        )
    )
    chief = ReActAgent(
        "chief", chief_model, actions=[FORMS[form](journal, helper)], journal=journal
    )
    thread = "anna" if form == "thread" else None
    reply = await paused_reply(chief.reply("go", run_id="r", thread=thread), steps, journal, "r")
    assert (reply.stop_reason, steps.done) == ("waiting", 1)
    for each in (chief, helper):
        if each.journal is not None:
            assert await each.resume_decided() == await each.resume_runs() == []
    assert steps.done == 1
    journal.go_on("r", by="eva")
    while results := await chief.resume_decided():
        reply = results[-1].reply
    assert (reply.text, steps.done) == ("help", 3)
    assert not any(journal.runs(state=("waiting", "stopped")))


async def test_pause_holds_another_agent_of_the_space_that_works_for_the_run(
    tmp_path: Path,
) -> None:
    journal, steps = Journal(tmp_path / "j"), Steps()
    bank = steps.agent(journal, "Bank")
    model = ScriptedModel(
        lambda messages, _: (
            messages[-1]["content"]
            if messages[-1]["role"] == "tool"
            else Call("h", "Bank_say", {"content": "help"})
        )
    )
    with NativeSpace() as space:
        space.add(bank)
        clerk = space.add(ReActAgent("clerk", model, discover=["Bank"], journal=journal))
        reply = await paused_reply(clerk.reply("go", run_id="r"), steps, journal, "r")
        assert (reply.stop_reason, steps.done) == ("waiting", 1)
        assert await clerk.resume_decided() == await bank.resume_runs() == []
        journal.go_on("r")
        for agent in (bank, clerk, bank, clerk):
            for each in await agent.resume_decided():
                reply = each.reply
        assert steps.done == 3
        assert journal.replay("r").text == "help"


async def own(journal: Journal, steps: Steps) -> Any:
    async with recorded(journal, "r", "Courier", "bo", Round) as record:
        for number in range(3):
            await record.step(f"s{number}", lambda _: steps.step())
        await record.end("done")


def _model(steps: Steps) -> ScriptedModel:
    async def answer(messages: Any, actions: Any) -> str:
        return await steps.step()

    model = ScriptedModel(answer)
    model.context_tokens = 10**6
    return model


KINDS: dict[str, Callable[[Journal, Steps], Any]] = {
    "own": own,
    "conversation": lambda journal, steps: Conversation(
        [ReActAgent("x", _model(steps)), ReActAgent("y", _model(steps))],
        until=MaxTurns(3),
        journal=journal,
    ).reply("topic", run_id="r"),
    "dual act": lambda journal, steps: DualActAgent(
        DualActConfig(ReActAgent("H", _model(steps)), ReActAgent("R", _model(steps))),
        journal=journal,
    ).reply("topic", run_id="r"),
    "research": lambda journal, steps: Researcher(
        "s", _model(steps), ["topic"], [lambda query: []], journal=journal
    ).reply("topic", run_id="r"),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_run_of_any_kind_stops_before_its_next_step(tmp_path: Path, kind: str) -> None:
    journal, steps = Journal(tmp_path / "j"), Steps()
    try:
        await paused_reply(KINDS[kind](journal, steps), steps, journal, "r")
    except Exception:  # a program's own gets the Stop
        if kind != "own":
            raise
    assert steps.done == 1
    assert journal.run("r").state == "waiting"
    assert [each.run for each in journal.waiting(kind="paused")] == ["r"]
    assert journal.check() == []
    journal.go_on("r")
    if kind in ("own", "conversation"):
        await KINDS[kind](journal, steps)
        assert (steps.done, journal.run("r").state) == (3, "done")


async def test_text_that_a_run_is_told_interrupts_it_and_is_heard_once_with_its_speaker(
    tmp_path: Path,
) -> None:
    journal, steps = Journal(tmp_path / "j"), Steps(1)
    agent = steps.agent(journal)
    task = asyncio.ensure_future(agent.reply("go", run_id="r"))
    await asyncio.to_thread(steps.began.wait)
    with Journal(journal.path) as other:
        other.tell("r", "Stop.\nNow.", by="eva")
        assert (await task).text == "go; eva: Stop.\neva: Now."
        other.fork("r", "f")  # what was heard is in the record
    steps.may_end.set()
    assert journal.check() == []
    assert (await agent.reply("and now?")).text == "go; eva: Stop.\neva: Now.; and now?"


@pytest.mark.parametrize("kind", ("conversation", "dual act", "research"))
async def test_group_hears_what_its_run_is_told(tmp_path: Path, kind: str) -> None:
    journal, steps = Journal(tmp_path / "j"), Steps()
    task = asyncio.ensure_future(KINDS[kind](journal, steps))
    await asyncio.to_thread(steps.began.wait)
    journal.tell("r", "Be brief.", by="eva")
    while not any(each.work.heard_keys for each in journal.held_runs._open_runs):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    with journal.held_runs.requests._look_lock:  # it has been handed to this loop
        await asyncio.sleep(0)
    steps.may_end.set()
    await task
    heard = [each.data for each in journal.entries("r") if "told_keys" in each.data]
    assert len(heard) == 1
    assert "eva: Be brief." in str(heard[0])


async def test_run_that_waits_hears_what_it_was_told_when_it_goes_on(tmp_path: Path) -> None:
    journal, steps = Journal(tmp_path / "j"), Steps()
    agent = steps.agent(journal)
    await paused_reply(agent.reply("go", run_id="r"), steps, journal, "r")
    key = journal.tell("r", "Well?", by="eva")
    assert not journal.held_runs.requests.is_heard("r", key)
    journal.go_on("r")
    (result,) = await agent.resume_decided()
    assert result.reply is not None
    assert result.reply.text == "go; eva: Well?"
    assert journal.held_runs.requests.is_heard("r", key)
    # Another run of the conversation has heard it as a part of that.
    assert (await agent.reply("more", run_id="s")).text == "go; eva: Well?; more"
    with pytest.raises(StateError, match="run 'r' cannot be told something: it is done"):
        journal.tell("r", "Too late.")
    with pytest.raises(ConfigError, match="text= must be a text that is not blank"):
        journal.tell("r", " ")


async def test_society_is_not_paused_and_the_error_says_what_else_there_is(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    part = await journal.begin("r", "Society", "town", "live")
    part.close()
    with pytest.raises(StateError, match="run 'r' is of a Society and cannot be paused: cancel it"):
        journal.pause("r")


async def test_commands_pause_all_runs_and_let_them_go_on(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")

    async def pay() -> str:
        return "paid"

    actions = [Action("pay", pay, "Pay.", access_policy=ACCESS_REQUESTED)]
    for run_id in ("r", "s"):
        model = ScriptedModel([Call("c", "pay", {}), "Done."])
        agent = ReActAgent(run_id, model, actions=actions, journal=journal, approver=Waiting())
        await agent.reply("go", run_id=run_id)
    path = ("--journal", str(tmp_path / "j"), "--as", "eva")
    assert run_command("runs", "pause", "--all", *path).stdout == "2 runs stand still\n"
    assert "moothall runs go-on r" in run_command("waiting", *path[:2]).stdout
    assert run_command("runs", "tell", "r", "Hm.", *path).stdout == HEARS
    assert run_command("runs", "go-on", "--all", "--agent", "s", *path).stdout == ONE
    assert run_command("runs", "go-on", "r", *path).stdout == "run r may go on\n"
    refused = run_command("runs", "go-on", "r", *path)
    assert (refused.returncode, refused.stderr) == (2, "moothall: run 'r' is not paused\n")
    assert run_command("runs", "pause", *path).returncode == 2
    assert journal.waiting(kind="paused") == []
