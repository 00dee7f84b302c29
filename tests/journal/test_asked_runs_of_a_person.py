"""What a person does at a run that waits for the run of an agent that it has asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import run as run_command
from journal.crash import crash
from moothall import (
    ACCESS_REQUESTED,
    Action,
    Journal,
    ReActAgent,
    ScriptedModel,
    StateError,
    Waiting,
)
from moothall.journal import Done
from moothall.models.protocol import Call


def calling(name: str, **args: object) -> ScriptedModel:
    """Return a model that makes one call, and says its result."""
    return ScriptedModel(
        lambda heard, _: (
            heard[-1]["content"] if heard[-1]["role"] == "tool" else Call("0", name, {**args})
        )
    )


def clerk(journal: Journal, action: Action) -> ReActAgent:
    helper = ReActAgent(
        "helper", calling(action.name), actions=[action], journal=journal, approver=Waiting()
    )
    asks = [helper.as_action()]
    return ReActAgent("clerk", calling("helper", text="go"), actions=asks, journal=journal)


async def test_run_whose_helper_is_in_doubt_shows_the_whole_command_and_names_the_run(
    tmp_path: Path,
) -> None:
    crashed = tmp_path / f"{'long-' * 30}name.db"

    def ring() -> str:
        if not crashed.exists():
            crash(journal.path, crashed)
        return "rung"

    with Journal(tmp_path / "runs.db") as journal:
        await clerk(journal, Action("ring", ring, "Ring.")).reply("go", run_id="r")
    with Journal(crashed) as journal:
        agent = clerk(journal, Action("ring", ring, "Ring."))
        await agent.resume_runs()
        helper = next(each.id for each in journal.runs() if each.agent == "helper")
        if journal.in_doubt("r"):
            journal.decide("r", "repeat")
            await agent.resume_decided()
        (wait,) = journal.waiting("r")
        assert f"`moothall resume {helper} --journal {crashed} --repeat`" in str(wait)
        for decide in (
            lambda: journal.decide("r", {1: Done("rung")}),
            lambda: journal.decide("r", "skip"),
            lambda: journal.answer("r", "doubt:1.0", "repeat"),
        ):
            with pytest.raises(StateError, match=f"has no call in doubt, but run '{helper}' has"):
                decide()
        refused = run_command("resume", "r", "--done", "1=rung", "--journal", str(crashed))
        assert f"moothall resume {helper}" in refused.stderr
        journal.decide(helper, {1: Done("rung")})
        (resumed,) = await agent.resume_decided()
        assert resumed.reply is not None
        assert resumed.reply.text == "rung"


async def test_wait_of_a_helper_is_not_answered_at_its_callers_run(tmp_path: Path) -> None:
    def pay() -> str:
        return "paid"

    with Journal(tmp_path / "runs.db") as journal:
        agent = clerk(journal, Action("pay", pay, "Pay.", access_policy=ACCESS_REQUESTED))
        await agent.reply("go", run_id="r")
        (wait,) = journal.waiting("r")
        with pytest.raises(StateError, match="run 'r' waits for the reply of run"):
            journal.answer("r", wait.key, True, by="eva")
        listed = run_command("waiting", "--journal", str(journal.path)).stdout
        assert f"it goes on once that run has ended: moothall runs {wait.key}" in listed
        assert f"moothall answer r {wait.key}" not in listed
        (asked,) = journal.waiting(wait.key)
        journal.answer(wait.key, asked.key, True, by="eva")
        listed = run_command("waiting", "--journal", str(journal.path)).stdout
        assert "clerk waits for the result" in listed
        assert "approval" not in listed  # it is given
        (resumed,) = await agent.resume_decided()
        assert resumed.reply is not None
        assert resumed.reply.text == "paid"


async def test_deletion_of_a_run_that_has_ended_names_the_runs_of_the_agents_that_it_asked(
    tmp_path: Path,
) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        await clerk(journal, Action("ring", lambda: "rung", "Ring.")).reply("go", run_id="r")
        (asked,) = (each.id for each in journal.runs() if each.agent == "helper")
        left = journal.delete("r").left
        assert left == {asked: "run 'r' has asked for it: delete it too"}
        assert journal.delete(asked).left == {}


async def test_deletion_takes_a_run_whose_action_has_a_parameter_named_asks(tmp_path: Path) -> None:
    def look(asks: str) -> str:
        return asks

    with Journal(tmp_path / "runs.db") as journal:
        script = [{"name": "look", "args": {"asks": "r"}}, "Done."]
        agent = ReActAgent("clerk", ScriptedModel(script), actions=[look], journal=journal)
        await agent.reply("go", run_id="r")
        deleted = journal.delete("r")
    assert (deleted.runs, deleted.left) == (["r"], {})
