"""Who sent a message whose reply comes late gets it, whichever run and process goes on with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from conformance.conftest import WAIT_S, Recorder
from journal.conftest import Place
from journal.crash import crash
from moothall import (
    ACCESS_REQUESTED,
    ActionError,
    Journal,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    Waiting,
    action,
)
from spaces.amqp.conftest import until


@action(access_policy=ACCESS_REQUESTED)
def pay() -> str:
    """Pay."""
    return "paid"


def clerk(journal: Journal, at_end: Any = lambda: None, **options: Any) -> ReActAgent:
    def answer(messages: list[dict[str, Any]], _: Any) -> Any:
        if messages[-1]["role"] != "tool":
            return {"name": "pay", "args": {}}
        at_end()
        return "Paid."

    parts: dict[str, Any] = {"actions": [pay], "approver": Waiting(), "journal": journal}
    return ReActAgent("clerk", ScriptedModel(answer), **parts, **options)


def ask(space: NativeSpace, agent: ReActAgent) -> Recorder:
    """Have a customer ask, and be told that its reply waits."""
    space.add(agent)
    customer = space.add(Recorder("customer"))
    with pytest.raises(ActionError, match="waiting for the approval of pay"):
        customer.ask("clerk", "say", content="Pay.").result(timeout=WAIT_S)
    return customer


def permit(journal: Journal) -> str:
    """Have what waits permitted; gives its run."""
    (wait,) = journal.waiting()
    journal.answer(wait.run, wait.key, True)
    return wait.run


def contents(customer: Recorder) -> list[str]:
    return [each["action"]["args"]["content"] for each in customer.wait_for(1)]


def test_late_reply_of_a_run_that_a_changed_program_goes_on_with_is_sent_once(
    place: Place,
) -> None:
    with Journal(place("runs.db")) as journal, NativeSpace() as space:
        agent = clerk(journal)
        customer = ask(space, agent)
        space.remove(agent)
        changed = space.add(clerk(journal, system_prompt="Be brief."))
        run = permit(journal)
        asyncio.run(changed.resume_decided())
        journal.answer(run, "operator:program", "fork")
        asyncio.run(changed.resume_decided())
        permit(journal)
        asyncio.run(changed.resume_decided())
        assert contents(customer) == ["Paid."]
        assert (customer.messages[0]["id"], journal.run(run).state) == (run, "done")
        until(lambda: not journal.waits.late_replies("clerk"))
        asyncio.run(changed.resume_decided())
        changed.ask("customer", "say", content="Bye.").result(timeout=WAIT_S)
        assert contents(customer) == ["Paid.", "Bye."]


def test_late_reply_of_a_run_that_was_killed_as_it_went_on_is_sent_after_the_restart(
    tmp_path: Path,
) -> None:
    with Journal(tmp_path / "runs.db") as journal, NativeSpace() as space:
        agent = clerk(journal, lambda: crash(journal.path, tmp_path / "crashed.db"))
        ask(space, agent)
        permit(journal)
        asyncio.run(agent.resume_decided())
    with Journal(tmp_path / "crashed.db") as journal, NativeSpace() as space:
        agent, customer = space.add(clerk(journal)), space.add(Recorder("customer"))
        (resumed,) = asyncio.run(agent.resume_runs())
        assert resumed.run.state == "stopped"
        assert contents(customer) == ["Paid."]


def test_late_reply_to_a_sender_that_is_not_there_yet_waits_for_it(place: Place) -> None:
    """As when a company starts again, and the agent goes on before its sender is there."""
    with Journal(place("runs.db")) as journal:
        with NativeSpace() as space:
            ask(space, clerk(journal))
        permit(journal)
        with NativeSpace() as space:  # in which the sender never is
            agent = space.add(clerk(journal))
            asyncio.run(agent.resume_decided())
        assert journal.waits.late_replies("clerk") != []
        with NativeSpace() as space:
            agent = space.add(clerk(journal))
            for _ in range(2):
                asyncio.run(agent.resume_decided())
            space.remove(agent)
            agent = space.add(clerk(journal))  # in its place, as after its death
            asyncio.run(agent.resume_decided())
            customer = space.add(Recorder("customer"))
            assert contents(customer) == ["Paid."]
            until(lambda: not journal.waits.late_replies("clerk"))
            agent.ask("customer", "say", content="Bye.").result(timeout=WAIT_S)
            assert contents(customer) == ["Paid.", "Bye."]


def go_on(journal: Journal, agent: ReActAgent) -> str:
    """Have what waits permitted and its run end, without anybody who could be told; its id."""
    permit(journal)
    (resumed,) = asyncio.run(agent.resume_decided())
    assert resumed.reply is not None
    assert resumed.reply.text == "Paid."
    return resumed.run.id


@pytest.mark.parametrize("when", ("after its end", "as a copy"))
def test_late_reply_that_nobody_has_goes_with_its_run_to_another_journal(
    place: Place, tmp_path: Path, when: str
) -> None:
    file = tmp_path / "run.jsonl"
    with Journal(place("runs.db")) as journal, NativeSpace() as space:
        agent = clerk(journal)
        ask(space, agent)
        space.remove(agent)
        (wait,) = journal.waiting()
        if when == "after its end":
            go_on(journal, agent)
            journal.export(wait.run, tmp_path / "copy.jsonl")
        journal.export(wait.run, file, move=when != "as a copy")
    with Journal(place("other.db")) as other, NativeSpace() as space:
        run_id = other.import_run(file)
        agent, customer = clerk(other), space.add(Recorder("customer"))
        if when == "after its end":
            other.import_run(tmp_path / "copy.jsonl", "copy")  # its original tells the sender
        else:
            other.adopt(run_id)
            go_on(other, agent)
        space.add(agent)
        asyncio.run(agent.resume_decided())
        assert contents(customer) == ["Paid."]
        assert customer.messages[0]["id"] == run_id
        until(lambda: not other.waits.late_replies("clerk"))
        agent.ask("customer", "say", content="Bye.").result(timeout=WAIT_S)
        assert contents(customer) == ["Paid.", "Bye."]
