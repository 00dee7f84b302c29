"""A fork of a run in which a step had another result."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from moothall import (
    ACCESS_REQUESTED,
    Action,
    Call,
    CallbackApprover,
    ConfigError,
    Journal,
    ReActAgent,
    ScriptedModel,
    Waiting,
)
from moothall.build import recorded


def ended(journal: Journal, key: str, path: str = "") -> int:
    """The number of the entry in which a step ended."""
    return next(
        each.sequence
        for each in journal.entries("r")
        if (each.kind, each.path, each.data.get("key")) == ("ended", path, key)
    )


class Clerk:
    """An agent that looks and counts at once, looks again, and tells the results."""

    def __init__(self, journal: Journal, **options: Any) -> None:
        self.done: list[str] = []
        first = (Call("a", "look", {"what": "A"}), Call("b", "look", {"what": "B"}))

        def tells(messages: list[dict[str, Any]], _: Any) -> Any:
            results = [str(each["content"]) for each in messages if each["role"] == "tool"]
            if not results:
                return first
            return Call("c", "look", {"what": "C"}) if len(results) == 2 else " ".join(results)

        def look(what: str) -> str:
            self.done.append(what)
            return f"saw {what}"

        model = ScriptedModel(tells)
        self.agent = ReActAgent("clerk", model, actions=[look], journal=journal, **options)


def test_copy_goes_on_from_the_new_result_and_repeats_nothing_beside_it(journal: Journal) -> None:
    clerk = Clerk(journal)
    assert clerk.agent.reply_sync("Go.", run_id="r").text == "saw A saw B saw C"
    copy = journal.fork("r", results={ended(journal, "1.0"): "saw nothing"})
    clerk = Clerk(journal)
    reply = clerk.agent.reply_sync("Go.", run_id=copy)
    assert (reply.text, clerk.done) == ("saw nothing saw B saw C", ["C"])
    assert journal.replay("r").text == "saw A saw B saw C"
    assert journal.replay(copy).text == reply.text


def test_sub_agent_that_was_asked_beside_a_changed_result_is_not_asked_again(
    journal: Journal,
) -> None:

    def boss(clerk: Clerk) -> ReActAgent:
        clerk.agent.journal = None
        calls = (Call("a", "look", {"what": "X"}), Call("c", "clerk", {"text": "Go."}))
        model = ScriptedModel(
            [calls, lambda messages, _: " ".join(m["content"] for m in messages[-2:])]
        )
        tools = [*clerk.agent.actions.get_actions(), clerk.agent.as_action(fresh=True)]
        return ReActAgent("boss", model, actions=tools, journal=journal)

    assert boss(Clerk(journal)).reply_sync("Go.", run_id="r").text == "saw X saw A saw B saw C"
    copy = journal.fork("r", results={ended(journal, "1.0"): "nothing"})
    clerk = Clerk(journal)
    assert boss(clerk).reply_sync("Go.", run_id=copy).text == "nothing saw A saw B saw C"
    assert clerk.done == []


def test_results_of_a_turn_may_both_change_and_a_hook_sees_the_new_one(journal: Journal) -> None:
    def shout(agent: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        result = kwargs["result"]
        return {"result": {**result, "result": result["result"].upper()}}

    clerk = Clerk(journal)
    clerk.agent.register_hook("post_acting", "shout", shout)
    clerk.agent.reply_sync("Go.", run_id="r")
    changed = {ended(journal, "1.0"): "x", ended(journal, "1.1"): "y"}
    copy = journal.fork("r", "other", results=changed)
    assert copy == "other"
    clerk = Clerk(journal)
    clerk.agent.register_hook("post_acting", "shout", shout)
    assert clerk.agent.reply_sync("Go.", run_id=copy).text == "X Y SAW C"


def test_answer_of_the_model_may_change(journal: Journal) -> None:
    clerk = Clerk(journal)
    clerk.agent.reply_sync("Go.", run_id="r")
    copy = journal.fork("r", results={ended(journal, "2"): "That is enough."})
    clerk = Clerk(journal)
    assert clerk.agent.reply_sync("Go.", run_id=copy).text == "That is enough."
    assert clerk.done == []


def test_sub_agent_goes_on_from_the_new_result_of_its_own_call(journal: Journal) -> None:

    def boss(clerk: Clerk) -> ReActAgent:
        clerk.agent.journal = None
        calls = Call("c", "clerk", {"text": "Go."})
        model = ScriptedModel([calls, lambda messages, _: messages[-1]["content"]])
        tool = clerk.agent.as_action(fresh=True)
        return ReActAgent("boss", model, actions=[tool], journal=journal)

    assert boss(Clerk(journal)).reply_sync("Go.", run_id="r").text == "saw A saw B saw C"
    copy = journal.fork("r", results={ended(journal, "1.1", "1.0/clerk"): "lost"})
    clerk = Clerk(journal)
    assert boss(clerk).reply_sync("Go.", run_id=copy).text == "saw A lost saw C"
    assert clerk.done == ["C"]


async def test_step_of_ones_own_orchestrator_may_change(journal: Journal) -> None:
    @dataclass
    class Sum:
        total: int = 0

    async def work(journal: Journal, run: str, calls: list[str]) -> int:
        async with recorded(journal, run, "Adder", "adder", Sum) as record:

            async def fetch(step: Any, name: str, value: int) -> int:
                calls.append(name)
                return value

            one = await record.step("one", lambda step: fetch(step, "one", 1))
            return one + await record.step("two", lambda step: fetch(step, "two", one * 10))

    assert await work(journal, "r", []) == 11
    copy = journal.fork("r", results={ended(journal, "one"): 5})
    calls: list[str] = []
    assert await work(journal, copy, calls) == 55
    assert calls == ["two"]


def test_fork_with_results_of_no_ended_step_is_refused_and_copies_nothing(journal: Journal) -> None:
    Clerk(journal).agent.reply_sync("Go.", run_id="r")
    first, later, answer = (ended(journal, key) for key in ("1.0", "2.0", "1"))
    started = next(each.sequence for each in journal.entries("r") if each.kind == "started")
    wrong: list[tuple[Any, str]] = [
        ({}, "results= must have"),
        ([1], "results= must have"),
        ({10_000: 1}, "there is none"),
        ({"1": 1}, "there is none"),
        ({True: 1}, "there is none"),
        ({started: 1}, "of the kind 'started'"),
        ({first: object()}, "not JSON"),
        ({answer: 1}, "must be the text of a model's answer"),
        ({first: 1, later: 2}, "what follows the first is done anew"),
    ]
    for results, text in wrong:
        with pytest.raises(ConfigError, match=text):
            journal.fork("r", results=results)
    assert [each.id for each in journal.runs()] == ["r"]


@pytest.mark.parametrize(("permitted", "questions"), ((False, 2), (True, 1)))
def test_copy_asks_again_about_a_call_that_was_permitted_and_has_not_ended(
    journal: Journal, permitted: bool, questions: int
) -> None:
    async def main() -> None:
        asked: list[Any] = []
        started, may_end = asyncio.Event(), asyncio.Event()

        async def pay() -> str:
            started.set()
            await may_end.wait()
            return "paid"

        def permit(request: Any) -> bool:
            asked.append(request)
            return True

        def payer() -> ReActAgent:
            action = Action("pay", pay, access_policy=ACCESS_REQUESTED, idempotent=True)
            model = ScriptedModel([Call("1", "pay", {}), "Paid."])
            return ReActAgent(
                "a", model, actions=[action], approver=CallbackApprover(permit), journal=journal
            )

        task = asyncio.create_task(payer().reply("Pay.", run_id="r"))
        await started.wait()
        task.cancel()
        await asyncio.wait((task,))
        may_end.set()
        copy = journal.fork("r", permitted=permitted)
        reply = await payer().reply("Pay.", run_id=copy)
        assert (reply.stop_reason, reply.steps[0].result["result"]) == ("done", "paid")
        assert len(asked) == questions

    asyncio.run(main())


def test_copy_keeps_who_permitted_a_call_that_has_ended(journal: Journal) -> None:
    action = Action("pay", lambda: "paid", access_policy=ACCESS_REQUESTED)
    model = ScriptedModel([Call("1", "pay", {}), "Paid."])
    agent = ReActAgent("a", model, actions=[action], approver=Waiting(), journal=journal)
    agent.reply_sync("Pay.", run_id="r")
    (wait,) = journal.waiting("r")
    journal.answer("r", wait.key, True, by="eva")
    agent.reply_sync("Pay.", run_id="r")
    permitted = [each.line for each in journal.entries("r") if "eva" in each.line]
    copied = [each.line for each in journal.entries(journal.fork("r"))]
    assert permitted
    assert {*permitted} <= {*copied}
