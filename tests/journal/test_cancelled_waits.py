"""Runs that are cancelled while they wait for a person say what they waited for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    ACCESS_REQUESTED,
    Action,
    CallbackApprover,
    Context,
    DualActAgent,
    DualActConfig,
    Journal,
    Later,
    Person,
    ReActAgent,
    Researcher,
    ScriptedModel,
    StateError,
    action,
)
from moothall.research import search_folder


class Nobody:
    """A person who is asked in every way, and never answers."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def __call__(self, *given: Any) -> Any:
        self.asked.set()
        return await asyncio.Event().wait()

    approve = answer = ask = __call__


def pays(journal: Journal, nobody: Nobody) -> Any:
    def pay(coins: int) -> str:
        return "paid"

    made = Action("pay", pay, "Pay.", access_policy=ACCESS_REQUESTED)
    calls = [{"name": "pay", "args": {"coins": 3}}]
    approver = CallbackApprover(nobody)
    model = ScriptedModel([calls, "Done."])
    return ReActAgent("a", model, actions=[made], approver=approver, journal=journal)


def pays_twice(journal: Journal, nobody: Nobody) -> Any:
    agent = pays(journal, nobody)
    calls = [{"name": "pay", "args": {"coins": coins}} for coins in (3, 4)]
    agent.model = ScriptedModel([calls])
    return agent


def asks(journal: Journal, nobody: Nobody) -> Any:
    @action
    async def choose(context: Context[Any]) -> str:
        """Ask."""
        return await context.ask_person("Which color?")

    model = ScriptedModel([[{"name": "choose", "args": {}}]])
    return ReActAgent("a", model, actions=[choose], approver=nobody, journal=journal)


def is_reviewed(journal: Journal, nobody: Nobody) -> Any:
    config = DualActConfig(Person("Ann", desk=nobody), ReActAgent("R", ScriptedModel(["It is 3."])))
    return DualActAgent(config, journal=journal)


def is_planned(journal: Journal, nobody: Nobody) -> Any:
    folder = Path(journal.path).parent / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("# Alpha\n\nAlpha uses port 4711.")
    tools = [search_folder(folder)]
    return Researcher("r", None, ["alpha"], tools, review_plan=nobody, journal=journal)


@pytest.mark.parametrize(
    ("made", "waited"),
    (
        (pays, "the approval of pay(coins=3)"),
        (pays_twice, "the approval of pay(coins=3) and the approval of pay(coins=4)"),
        (asks, 'an answer to "Which color?"'),
        (is_reviewed, "Ann"),
        (is_planned, "the reviewer of its plan"),
    ),
)
async def test_run_that_is_cancelled_while_a_person_is_asked_says_what_it_waited_for(
    journal: Journal, made: Callable[[Journal, Nobody], Any], waited: str
) -> None:
    nobody = Nobody()
    reply = asyncio.ensure_future(made(journal, nobody).reply("alpha", run_id="r"))
    await nobody.asked.wait()
    await asyncio.sleep(0)  # the second call of the same answer is asked about, too
    reply.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reply
    said = f"it was interrupted while waiting for {waited}"
    assert journal.entries("r")[-1].data["detail"] == said


async def test_run_that_went_on_after_an_interruption_does_not_say_what_it_waited_for_before(
    journal: Journal,
) -> None:
    answers = asyncio.Event()

    async def answer(messages: Any, actions: Any) -> str:
        answers.set()
        await asyncio.Event().wait()
        return ""

    nobody = Nobody()
    agent = pays(journal, nobody)
    agent.model = ScriptedModel([[{"name": "pay", "args": {"coins": 3}}], answer])
    reply = asyncio.ensure_future(agent.reply("go", run_id="r"))
    await nobody.asked.wait()
    agent.interrupt("Do not pay.")
    await answers.wait()
    reply.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reply
    assert journal.entries("r")[-1].data["detail"] == ""


async def test_call_in_doubt_of_a_cancelled_run_still_waits_for_its_decision_if_that_is_cancelled(
    journal: Journal,
) -> None:
    begun, ends = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def book() -> None:
        loop.call_soon_threadsafe(begun.set)
        ends.wait(20)

    def send() -> Later:
        return Later("batch")

    for run_id, calls in (("r", ["book"]), ("both", ["send", "book"])):
        begun.clear()
        model = ScriptedModel([[{"name": each} for each in calls]])
        agent = ReActAgent("a", model, actions=[book, send], journal=journal)
        reply = asyncio.ensure_future(agent.reply("Book.", run_id=run_id))
        await begun.wait()
        reply.cancel()
        await asyncio.wait([reply])
    ends.set()
    with pytest.raises(StateError, match="run 'r' is in doubt: decide about its calls"):
        journal.resume("r")
    assert not journal.cancel("r")
    assert [wait.kind for wait in journal.waiting("r")] == ["doubt"]
    assert not journal.cancel("both")
    assert {wait.kind for wait in journal.waiting("both")} == {"doubt"}
    assert journal.run("both").state == "in_doubt"


async def test_call_of_an_interrupted_run_that_is_cancelled_says_who_did_it_and_what_it_waited_for(
    journal: Journal,
) -> None:
    def send() -> Later:
        return Later("batch")

    nobody = Nobody()
    agent = pays(journal, nobody)
    agent.actions.register(send)
    agent.model = ScriptedModel([[{"name": "send"}, {"name": "pay", "args": {"coins": 3}}]])
    reply = asyncio.ensure_future(agent.reply("go", run_id="r"))
    await nobody.asked.wait()
    while not journal.waiting("r"):  # noqa: ASYNC110 - the journal has no event for it
        await asyncio.sleep(0)
    reply.cancel()
    await asyncio.wait([reply])
    journal.cancel("r", by="eva")
    said = "eva cancelled it while waiting for the result 'batch' of send()"
    assert journal.entries("r")[-1].data["detail"] == said
