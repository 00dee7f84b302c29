"""A run is cancelled by another process, whoever works on it, and whatever becomes of that one."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from commands import Command
from commands import run as run_command
from journal.cancelled_program import agent_at
from journal.conftest import Place
from journal.crash import crash
from moothall import (
    Conversation,
    DualActAgent,
    DualActConfig,
    Journal,
    MaxTurns,
    ReActAgent,
    RequestCancelled,
    Researcher,
    ScriptedModel,
    StateError,
)
from moothall.build import recorded
from moothall.models.protocol import Call

TESTS = Path(__file__).resolve().parent.parent
WITHIN_S = 5.0
"""A second, on a machine that does much else."""


@contextmanager
def working(path: str, where: str) -> Iterator[Command]:
    """A process that works on the run `r`, from when it is in that place."""
    pipe: Any = {"stdout": subprocess.PIPE, "text": True}
    with Command(path, where, module="journal.cancelled_program", cwd=TESTS, **pipe) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "working\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("where", ("model", "action", "function", "turns"))
def test_run_that_another_process_works_on_ends_within_a_second(place: Place, where: str) -> None:
    with working(place("j"), where) as process, Journal(place("j")) as journal:
        assert not journal.cancel("r", by="eva")
        began = time.monotonic()
        output, _ = process.communicate(timeout=30)
        assert time.monotonic() - began < WITHIN_S
        assert output == "eva cancelled it; run 'r' can be resumed\n"
        assert (journal.run("r").state, journal.run("r").held) == ("cancelled", False)
        assert journal.replay("r").detail == "eva cancelled it"
        assert journal.cancel("r")  # again


def test_run_whose_process_is_killed_after_the_request_is_cancelled_and_not_resumed(
    place: Place,
) -> None:
    with working(place("j"), "model") as process, Journal(place("j")) as journal:
        assert not journal.cancel("r", by="eva")
        process.kill()
        process.wait()
        assert journal.run("r").state == "cancelled"
        assert [run.id for run in journal.runs(state="cancelled")] == ["r"]
        assert journal.runs(state="stopped") == journal.runs(needs_person=True) == []
        model = ScriptedModel(["Done."])
        model.name = "hanging"
        agent = ReActAgent("a", model, journal=journal)
        assert asyncio.run(agent.resume_runs()) == []
        with pytest.raises(RequestCancelled, match="run 'r' does not go on: eva cancelled it"):
            agent.reply_sync("go", run_id="r")
        assert journal.replay("r").stop_reason == "cancelled"
        journal.resume("r")  # somebody thinks better of it
        assert [each.reply.text for each in asyncio.run(agent.resume_decided()) if each.reply] == [
            "Done."
        ]


def test_run_that_was_cut_off_is_cancelled_at_once_by_the_command(place: Place) -> None:
    with working(place("j"), "turns"):
        pass
    ended = run_command("runs", "cancel", "r", "--journal", place("j"), "--as", "eva")
    assert (ended.returncode, ended.stdout) == (0, "run r is cancelled\n")
    with Journal(place("j")) as journal:
        assert journal.replay("r").detail == "eva cancelled it"
        agent = agent_at(journal, "turns")
        assert asyncio.run(agent.resume_runs()) == asyncio.run(agent.resume_decided()) == []


@dataclass
class Round:
    number: int = 0


async def own(journal: Journal, model: Any) -> None:
    async with recorded(journal, "r", "Courier", "bo", Round):
        await model.complete([{"role": "user", "content": "go"}])


def replies(agent: Callable[[Journal, Any], Any]) -> Callable[[Journal, Any], Any]:
    return lambda journal, model: agent(journal, model).reply("topic", run_id="r")


KINDS: dict[str, Callable[[Journal, Any], Any]] = {
    "own": own,
    "loop": replies(lambda journal, model: ReActAgent("a", model, journal=journal)),
    "dual act": replies(
        lambda journal, model: DualActAgent(
            DualActConfig(ReActAgent("H", model), ReActAgent("R", model)), journal=journal
        )
    ),
    "conversation": replies(
        lambda journal, model: Conversation(
            [ReActAgent("x", model), ReActAgent("y", model)], until=MaxTurns(2), journal=journal
        )
    ),
    "research": replies(
        lambda journal, model: Researcher(
            "s", model, ["topic"], [lambda query: []], journal=journal
        )
    ),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_run_of_any_kind_that_was_cut_off_gets_an_end_that_can_be_replayed(
    tmp_path: Path, kind: str
) -> None:
    class Crash(BaseException):
        pass

    def answer(messages: Any, actions: Any) -> Any:
        crash(tmp_path / "j", tmp_path / "left")
        raise Crash

    with Journal(tmp_path / "j") as journal, pytest.raises(Crash):
        await KINDS[kind](journal, ScriptedModel(answer))
    with Journal(tmp_path / "left") as journal:
        assert journal.run("r").state == "stopped"
        assert journal.cancel("r", by="eva")
        assert journal.run("r").state == "cancelled"
        assert journal.check() == []
        reply: Any = journal.replay("r")
        if kind != "own":
            assert (reply.stop_reason, reply.detail) == ("cancelled", "eva cancelled it")


async def test_run_in_doubt_goes_on_no_more_once_its_calls_are_decided(tmp_path: Path) -> None:
    def pay() -> str:
        crash(tmp_path / "j", tmp_path / "left")
        return "paid"

    def agent(journal: Journal) -> ReActAgent:
        model = ScriptedModel([Call("c", "pay", {}), "Done."])
        return ReActAgent("a", model, actions=[pay], journal=journal)

    with Journal(tmp_path / "j") as journal:
        await agent(journal).reply("go", run_id="r")
    with Journal(tmp_path / "left") as journal:
        assert not journal.cancel("r", by="eva")
        assert journal.run("r").state == "in_doubt"
        journal.decide("r", "repeat")
        assert journal.run("r").state == "cancelled"
        assert await agent(journal).resume_decided() == []


async def test_run_that_is_cancelled_as_a_process_comes_to_resume_it_does_not_go_on(
    tmp_path: Path,
) -> None:
    orders = []

    def order() -> str:
        orders.append("ordered")
        return "ordered"

    def answer(messages: Any, actions: Any) -> Any:
        if not (tmp_path / "left").exists():
            crash(tmp_path / "j", tmp_path / "left")
        return Call("c", "order", {}) if messages[-1]["role"] == "user" else "Done."

    def agent(journal: Journal) -> ReActAgent:
        return ReActAgent("a", ScriptedModel(answer), actions=[order], journal=journal)

    with Journal(tmp_path / "j") as journal:
        await agent(journal).reply("go", run_id="r")
    orders.clear()
    with Journal(tmp_path / "left") as journal, Journal(tmp_path / "left") as other:
        cancel = partial(other.cancel, by="eva")
        (resumed,) = await agent(journal).resume_runs(deps=lambda run: cancel(run.id))
        assert isinstance(resumed.error, RequestCancelled)
        assert (journal.run("r").state, orders) == ("cancelled", [])
        assert await agent(journal).resume_runs() == []


async def test_run_that_is_cancelled_ends_the_runs_of_the_agents_that_it_has_asked(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "j")
    asked = asyncio.Event()

    async def wait() -> None:
        asked.set()
        await asyncio.Event().wait()

    waits, asks = Call("c", "wait", {}), Call("c", "h", {"text": "go"})
    helper = ReActAgent("h", ScriptedModel([waits]), actions=[wait], journal=journal)
    actions = [helper.as_action()]
    chief = ReActAgent("chief", ScriptedModel([asks]), actions=actions, journal=journal)
    reply = asyncio.ensure_future(chief.reply("go", run_id="r"))
    await asked.wait()
    with Journal(tmp_path / "j") as other:
        other.cancel("r", by="eva")
        with pytest.raises(RequestCancelled, match="eva cancelled it"):
            await reply
        assert {run.state for run in other.runs()} <= {"cancelled", "in_doubt"}
        assert not any(run.held for run in other.runs())


async def test_orchestrator_of_ones_own_gets_the_request_where_it_waits(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")

    async def work() -> None:
        async with recorded(journal, "r", "Courier", "bo", Round):
            await asyncio.Event().wait()

    task = asyncio.ensure_future(work())
    while not journal.runs():  # noqa: ASYNC110 - the journal has no event for it
        await asyncio.sleep(0)
    with Journal(tmp_path / "j") as other:
        other.cancel("r", by="eva")
        with pytest.raises(RequestCancelled, match="eva cancelled it"):
            await task
        assert other.run("r").state == "cancelled"


async def test_run_that_has_ended_refuses_to_be_cancelled(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    await ReActAgent("a", ScriptedModel(["Done."]), journal=journal).reply("go", run_id="r")
    with pytest.raises(StateError, match="run 'r' has ended: it is done"):
        journal.cancel("r")
