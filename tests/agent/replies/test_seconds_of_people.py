"""The seconds of a run stand still while a person is asked: for itself, or for an agent beneath."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

from moothall import (
    ACCESS_REQUESTED,
    Action,
    ApprovalRequest,
    Budget,
    Context,
    NativeSpace,
    ReActAgent,
    Reply,
    ScriptedModel,
)

SECONDS = 0.5


class Slow:
    """A person who takes longer than a run has."""

    def approve(self, request: ApprovalRequest) -> bool:
        threading.Event().wait(1.5 * SECONDS)
        return True

    def answer(self, question: Any) -> str:
        threading.Event().wait(1.5 * SECONDS)
        return "yes"


async def ask(context: Context[Any]) -> str:
    """Ask."""
    return await context.ask_person("Shall I?")


def ask_in_thread(context: Context[Any]) -> str:
    """Ask."""
    return context.ask_person("Shall I?").result()


def clerk(calls: str) -> ReActAgent:
    pay = Action("pay", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)
    model = ScriptedModel([{"name": calls}, "Done."])
    return ReActAgent("clerk", model, actions=[pay, ask, ask_in_thread], approver=Slow())


@pytest.mark.parametrize("calls", ("pay", "ask", "ask_in_thread"))
def test_seconds_stand_still_during_an_approval_or_a_question(calls: str) -> None:
    budget = Budget(seconds=SECONDS)
    reply = clerk(calls).reply_sync("Go.", budget=budget)
    assert (reply.stop_reason, reply.text) == ("done", "Done.")
    assert 0 <= budget.spent.seconds < SECONDS


@pytest.mark.parametrize("own", (None, SECONDS))
@pytest.mark.parametrize("in_space", (False, True))
def test_seconds_of_the_run_that_asked_another_agent_stand_still_too(
    own: float | None, in_space: bool
) -> None:
    beneath = clerk("pay")
    beneath.budget = None if own is None else Budget(seconds=own)
    model = ScriptedModel([{"name": "clerk", "args": {"text": "Go."}}, "Done."])
    boss = ReActAgent("boss", model, actions=[beneath.as_action("clerk")])
    budget = Budget(seconds=SECONDS)
    with NativeSpace() as space:
        if in_space:
            space.add(boss)
        reply = boss.reply_sync("Go.", budget=budget)
    assert (reply.stop_reason, reply.steps[0].error) == ("done", None)
    assert 0 <= budget.spent.seconds < SECONDS


@pytest.mark.parametrize("loop_ends", (False, True))
def test_person_may_answer_once_the_run_that_asked_another_agent_was_cancelled(
    loop_ends: bool, caplog: pytest.LogCaptureFixture
) -> None:
    asked, decided, ended = threading.Event(), threading.Event(), threading.Event()
    replies: list[Reply] = []

    class Late:
        def approve(self, request: ApprovalRequest) -> bool:
            asked.set()
            return decided.wait(20)

    def consult() -> str:
        """Ask the clerk."""
        beneath = clerk("pay")
        beneath.approver = Late()
        replies.append(beneath.reply_sync("Go."))
        ended.set()
        return "Done."

    async def main() -> None:
        boss = ReActAgent("boss", ScriptedModel([{"name": "consult"}]), actions=[consult])
        run = asyncio.create_task(boss.reply("Go.", budget=Budget(seconds=60)))
        await asyncio.to_thread(asked.wait, 20)
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run
        if not loop_ends:
            decided.set()
            await asyncio.to_thread(ended.wait, 20)

    asyncio.run(main())
    decided.set()
    assert ended.wait(20)
    assert replies[0].steps[0].result["result"] == "paid"
    assert [each for each in caplog.records if each.name == "asyncio"] == []
