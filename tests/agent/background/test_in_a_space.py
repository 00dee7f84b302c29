"""Who sent the message that work in the background is for hears what comes of it, once."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from conformance.conftest import WAIT_S, Recorder
from journal.conftest import Place
from journal.crash import crash
from moothall import Journal, NativeSpace, ReActAgent, ScriptedModel
from moothall.models.protocol import Call, ModelReply
from spaces.amqp.conftest import until


class Clerk:
    """A model that answers once its gate is open."""

    name, context_tokens = "clerk", None

    def __init__(self, is_open: bool = False) -> None:
        self.gate = threading.Event()
        if is_open:
            self.gate.set()

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> Any:
        await asyncio.to_thread(self.gate.wait, 30)
        return ModelReply(text=f"{messages[-1]['content']} is done")


def desk(
    clerk: Clerk, journal: Any, at_end: Any = lambda: None, at_answer: Any = lambda: None
) -> ReActAgent:
    """Return an agent that sends a clerk, says so, and repeats what it hears of it."""

    def answer(messages: list[dict[str, Any]], _: Any) -> Any:
        last = messages[-1]
        if last["role"] == "tool":
            at_answer()
            return "I have sent somebody."
        if last["content"].startswith("Result of"):
            at_end()
            return last["content"].partition("\n")[2]
        return Call("1", "clerk", {"text": last["content"]})

    asking = [ReActAgent("clerk", clerk).as_action(background=True)]
    return ReActAgent("desk", ScriptedModel(answer), actions=asking, journal=journal)


def contents(customer: Recorder) -> list[str]:
    return [each["action"]["args"]["content"] for each in customer.wait_for(1)]


@pytest.mark.parametrize("kept", (False, True))
def test_sender_of_a_message_hears_what_came_of_the_background_work_for_it_once(
    kept: bool, tmp_path: Path
) -> None:
    journal = Journal(tmp_path / "runs.db") if kept else None
    with NativeSpace() as space:
        clerk = Clerk()
        agent, customer = space.add(desk(clerk, journal)), space.add(Recorder("customer"))
        asked = customer.ask("desk", "say", content="Oil").result(timeout=WAIT_S)
        assert asked == "I have sent somebody."
        clerk.gate.set()
        assert contents(customer) == ["Oil is done"]
        if journal is not None:
            until(lambda: not journal.waits.late_replies("desk"))
            asyncio.run(agent.resume_decided())
        agent.ask("customer", "say", content="Bye.").result(timeout=WAIT_S)
        assert contents(customer) == ["Oil is done", "Bye."]


@pytest.mark.parametrize("when", ("while it works", "as it is woken"))
def test_sender_of_a_message_hears_of_background_work_after_a_restart(
    when: str, tmp_path: Path
) -> None:
    copy = tmp_path / "crashed.db"
    with Journal(tmp_path / "runs.db") as journal, NativeSpace() as space:
        clerk = Clerk()
        agent = desk(clerk, journal, lambda: crash(journal.path, copy))
        space.add(agent)
        customer = space.add(Recorder("customer"))
        customer.ask("desk", "say", content="Oil").result(timeout=WAIT_S)
        if when == "while it works":
            crash(journal.path, copy)
        clerk.gate.set()
        until(copy.exists)
        contents(customer)
    with Journal(copy) as journal, NativeSpace() as space:
        agent = space.add(desk(Clerk(is_open=True), journal))
        asyncio.run(agent.resume_runs())
        customer = space.add(Recorder("customer"))  # it comes later
        for _ in range(2):
            asyncio.run(agent.resume_runs())
        assert contents(customer) == ["Oil is done"]
        until(lambda: not journal.waits.late_replies("desk"))
        agent.ask("customer", "say", content="Bye.").result(timeout=WAIT_S)
        assert contents(customer) == ["Oil is done", "Bye."]


def test_agent_that_asks_by_an_action_hears_of_the_background_work_for_it(place: Place) -> None:
    """The call ends with the work: nobody else would tell the asking agent."""

    async def main(journal: Journal) -> str:
        def answer(messages: list[dict[str, Any]], _: Any) -> Any:
            last = messages[-1]
            if last["role"] == "tool":
                return last["content"]
            return Call("1", "desk", {"text": last["content"]})

        clerk = Clerk()
        asking = [desk(clerk, journal, at_answer=clerk.gate.set).as_action()]
        head = ReActAgent("head", ScriptedModel(answer), actions=asking, journal=journal)
        return (await head.reply("Oil")).text

    with Journal(place("runs.db")) as journal:
        assert asyncio.run(main(journal)) == "I have sent somebody.\n\nOil is done"
