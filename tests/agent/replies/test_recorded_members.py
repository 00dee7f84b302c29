"""What a run that goes on tells of its past, and members of a dual act that have changed since."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    Budget,
    DualActAgent,
    DualActConfig,
    Journal,
    ReActAgent,
    RunMismatch,
    ScriptedModel,
)
from moothall.actions import ACCESS_REQUESTED, Action
from moothall.actions.approval import RefuseAll
from moothall.agents.replies.events import CallEnded, CallStarted, DecisionMade, MessageAdded

ACCEPT = '{"action": "TERMINATE", "new_instruction": "", "reasoning": "so"}'


def look() -> str:
    """Look."""
    return "seen"


def write() -> str:
    """Write."""
    return "written"


CALLS = [{"name": "look", "args": {}}, {"name": "write", "args": {}}]


def agent_of(*replies: Any, **options: Any) -> ReActAgent:
    actions = [look, Action("write", write, access_policy=ACCESS_REQUESTED)]
    model = ScriptedModel(replies)
    return ReActAgent("R", model, actions=actions, approver=RefuseAll(), **options)


async def events_of(agent: Any) -> list[Any]:
    return [event async for event in agent.stream("Do it.", run_id="r")]


@pytest.mark.parametrize("length", (240, 255))
def test_member_with_a_journal_replies_in_a_group_whose_run_has_the_longest_id(
    length: int, journal: Journal
) -> None:
    human = ReActAgent("H", ScriptedModel([ACCEPT]))
    worker = ReActAgent("R", ScriptedModel(["Done."]), journal=journal)
    both = DualActAgent(human=human, reactive=worker, first="reactive")
    assert both.reply_sync("Go.", run_id="x" * length).text == "Done."
    assert [each.state for each in journal.runs()] == ["done"]


def test_events_of_the_past_say_so_and_what_was_refused_has_its_call(tmp_path: Path) -> None:
    broken = RuntimeError("no connection")
    with Journal(tmp_path / "runs.db") as journal:
        first = asyncio.run(events_of(agent_of(CALLS, broken, journal=journal)))
        then = asyncio.run(events_of(agent_of(CALLS, broken, "Well.", journal=journal)))
    assert first[-1].reply.stop_reason == "error"
    assert not any(getattr(event, "past", False) for event in first)
    past = [event for event in then if getattr(event, "past", False)]
    assert past == then[: len(past)]
    for kind in (CallStarted, CallEnded):
        actions = [event.action for event in past if isinstance(event, kind)]
        assert sorted(actions) == ["look", "write"]
    new = [event for event in then if isinstance(event, MessageAdded) and not event.past]
    assert [event.message["content"] for event in new] == ["Well."]


def test_decisions_of_the_past_say_so(tmp_path: Path) -> None:
    again = ACCEPT.replace("TERMINATE", "CONTINUE").replace('n": ""', 'n": "More."')

    def dual(*of_r: Any) -> DualActAgent:
        human = ReActAgent("H", ScriptedModel([again, again, ACCEPT]))
        return DualActAgent(DualActConfig(human=human, reactive=agent_of(*of_r)), "both")

    with Journal(tmp_path / "runs.db") as journal:
        for of_r in (("One.", asyncio.CancelledError()), ("One.", None, "Two.")):
            both = dual(*of_r)
            both.journal = journal
            events = asyncio.run(events_of(both))
    decisions = [event for event in events if isinstance(event, DecisionMade)]
    assert [event.past for event in decisions] == [True, True, False]
    assert events[-1].reply.stop_reason == "terminated"


def test_recorded_member_that_has_changed_is_a_mismatch_and_not_for_h_to_judge(
    tmp_path: Path,
) -> None:
    def dual(**options: Any) -> DualActAgent:
        human = ReActAgent("H", ScriptedModel([ACCEPT]))
        reactive = agent_of(CALLS[0], asyncio.CancelledError(), **options)
        config = DualActConfig(human=human, reactive=reactive, first="reactive")
        return DualActAgent(config, "both", journal=tmp_path / "runs.db")

    reply = dual().reply_sync("Do it.", run_id="r")
    assert reply.stop_reason == "cancelled"
    with pytest.raises(RunMismatch, match="system prompt"):
        dual(system_prompt="Hurry.").reply_sync("Do it.", run_id="r")


@pytest.mark.parametrize("several", (False, True))
def test_recorded_run_of_r_that_was_stopped_has_the_conclusion_of_its_own_end(
    tmp_path: Path, several: bool
) -> None:
    heard: list[str] = []

    def dual(**options: Any) -> DualActAgent:
        human = ReActAgent("H", ScriptedModel([ACCEPT]))
        reactive = agent_of(CALLS[0], "It is there.")
        other = ReActAgent("S", ScriptedModel(["Nothing."]))
        both = DualActAgent(
            human=human,
            reactive=[reactive, other] if several else reactive,
            first="reactive",
            journal=tmp_path / "runs.db",
            **options,
        )
        hook = lambda agent, kwargs: heard.append(kwargs["conclusion"].summary)  # noqa: E731
        both.register_hook("post_acting", "heard", hook)
        return both

    stopped = dual(budget=Budget(model_calls=1 + several)).reply_sync("Look.", run_id="s")
    assert stopped.stop_reason == "budget"
    reply = dual().reply_sync("Look.", run_id="s")
    assert reply.stop_reason == "terminated"
    assert "It is there." in reply.text
    assert reply.text == heard[-1]


def test_journal_of_an_agent_may_be_given_later(tmp_path: Path) -> None:
    agent = agent_of("Well.")
    agent.journal = str(tmp_path / "runs.db")
    assert agent.reply_sync("Do it.", run_id="r").stop_reason == "done"
    assert agent.journal is not None
    assert [run.id for run in agent.journal.runs()] == ["r"]
    agent.journal = None
    assert agent.journal is None


def test_hooks_of_a_dual_act_that_have_ended_are_not_called_again(journal: Journal) -> None:
    called: list[str] = []

    def pair() -> DualActAgent:
        go = ACCEPT.replace("TERMINATE", "CONTINUE")
        human = ReActAgent("H", ScriptedModel([go, ACCEPT]))
        dual = DualActAgent(human=human, reactive=agent_of("Done."), journal=journal)

        def changing(type: str, name: str, change: Any) -> None:
            def hook(_: Any, about: dict[str, Any]) -> dict[str, Any]:
                called.append(f"{type}.{about['loop']}")
                return {name: change(about[name])}

            dual.register_hook(type, "change", hook)

        changing("pre_reasoning", "prompt", lambda prompt: f"{prompt} Be kind.")
        changing("post_reasoning", "decision", lambda made: replace(made, reasoning="kind"))
        changing("pre_acting", "instruction", lambda text: f"{text} Be quick.")
        changing("post_acting", "conclusion", lambda made: replace(made, summary="Quick."))
        return dual

    whole = pair().reply_sync("Do it.", run_id="r")
    every = called.copy()
    ended = {e.data["key"]: e.sequence for e in journal.entries("r") if e.kind == "ended"}
    for number, key in enumerate(every, 1):
        called.clear()
        copy = journal.fork("r", upto=ended[key])
        reply = pair().reply_sync("Do it.", run_id=copy)
        assert replace(reply, run_id="r") == whole
        assert called == every[number:]


def test_task_stays_as_a_hook_first_changed_it(tmp_path: Path) -> None:
    go = ACCEPT.replace("TERMINATE", "CONTINUE")
    with Journal(tmp_path / "j") as journal:
        for text, script in (("First.", [ValueError("down")]), ("Second.", [0, go, ACCEPT])):
            model = ScriptedModel(["Done."])
            dual = DualActAgent(
                human=ReActAgent("H", ScriptedModel(script)),
                reactive=ReActAgent("R", model),
                journal=journal,
            )
            dual.register_hook("pre_reply", "task", lambda *_, text=text: {"text": text})
            reply = dual.reply_sync("Do it.", run_id="r")
    assert reply.text == "Done."
    assert model.received[0][-1]["content"] == "First."
