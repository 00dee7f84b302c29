"""The reply to a message that comes late goes out, also after a restart, and is heard once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.proxy import Proxy

from conformance.conftest import Recorder
from journal.crash import crash
from moothall import (
    ACCESS_REQUESTED,
    ActionError,
    AMQPOptions,
    Journal,
    ReActAgent,
    ScriptedModel,
    Waiting,
    action,
)
from spaces.amqp.conftest import WAIT_S, Kept, MakeSpace, until


@action(access_policy=ACCESS_REQUESTED)
def pay() -> str:
    """Pay."""
    return "paid"


def clerk(journal: Journal, **options: Any) -> ReActAgent:
    def answer(messages: list[dict[str, Any]], _: Any) -> Any:
        return "Paid." if messages[-1]["role"] == "tool" else {"name": "pay", "args": {}}

    parts: dict[str, Any] = {"actions": [pay], "approver": Waiting(), "journal": journal}
    return ReActAgent("clerk", ScriptedModel(answer), **parts, **options)


def permit(journal: Journal) -> str:
    """Have what waits permitted; gives its run."""
    (wait,) = journal.waiting()
    journal.answer(wait.run, wait.key, True)
    return wait.run


Away = Callable[[], tuple[Any, Recorder]]


@pytest.fixture
def away(make_space: MakeSpace, proxy: Proxy, events: Kept[str], tmp_path: Path) -> Away:
    """Begins: a customer asked, the call is permitted, and the clerk's process has no broker."""

    def begin() -> tuple[Any, Recorder]:
        options = AMQPOptions("127.0.0.1", proxy.port)
        here = make_space(amqp_options=options, on_connection=lambda state, _: events.add(state))
        agent = here.add(clerk(Journal(tmp_path / "runs.db")))
        customer = make_space().add(Recorder("customer"))
        with pytest.raises(ActionError, match="waiting for the approval of pay"):
            customer.ask("clerk", "say", content="Pay.").result(timeout=WAIT_S)
        permit(agent.journal)
        proxy.refuse()
        proxy.cut()
        events.wait_for(lambda seen: "lost" in seen)
        asyncio.run(agent.resume_decided())
        (run,) = agent.journal.runs()
        assert run.state == "done"
        return here, customer

    return begin


@pytest.mark.parametrize("how", ("resume_decided", "resume_runs"))
def test_amqp_late_reply_of_a_process_that_ended_without_the_broker_goes_out_after_a_restart(
    away: Away, make_space: MakeSpace, tmp_path: Path, how: str
) -> None:
    space, customer = away()
    space.close()
    with Journal(tmp_path / "runs.db") as journal:
        agent = make_space().add(clerk(journal, system_prompt="Another program."))

        def look() -> list[Any]:
            asyncio.run(getattr(agent, how)())  # the broker delivers the message anew, perhaps
            return customer.messages

        (said,) = until(look)
        (run,) = journal.runs()
        assert (said["action"]["args"], said["id"]) == ({"content": "Paid."}, run.id)
        until(lambda: not journal.waits.late_replies("clerk"))


def test_amqp_late_reply_that_is_sent_again_is_heard_once(
    away: Away, make_space: MakeSpace, proxy: Proxy, tmp_path: Path
) -> None:
    """As after a kill between the broker's confirm and the note of it."""
    space, customer = away()
    crash(tmp_path / "runs.db", tmp_path / "crashed.db")
    proxy.accept()
    customer.wait_for(1)
    space.close()
    with Journal(tmp_path / "crashed.db") as journal:
        agent = make_space().add(clerk(journal))
        until(
            lambda: asyncio.run(agent.resume_decided()) or not journal.waits.late_replies("clerk")
        )
        agent.ask("customer", "say", content="Bye.").result(timeout=WAIT_S)
        assert [each["action"]["args"]["content"] for each in customer.messages] == [
            "Paid.",
            "Bye.",
        ]
