"""A run goes on once the agents are up whose actions it may call and that its space expects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands import run as run_command
from moothall import (
    Agent,
    ConfigError,
    Journal,
    Later,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    SpaceClosed,
    action,
)


class Bank(Agent):
    @action
    async def book(self, n: int) -> str:
        """Book."""
        return f"booked {n}"


class Locked(Bank):
    async def after_add(self) -> None:
        raise RuntimeError("no key")


def order() -> Later:
    return Later("key")


def books(messages: list[dict[str, Any]], actions: Any) -> Any:
    last = messages[-1]
    if last["role"] != "tool":
        return {"name": "order"}
    return {"name": "Bank_book", "args": {"n": 1}} if last["content"] == "came" else last["content"]


def clerk(journal: Journal, discover: Any = ("Bank",)) -> ReActAgent:
    return ReActAgent(
        "clerk", ScriptedModel(books), actions=[order], journal=journal, discover=discover
    )


@pytest.fixture
def journal(tmp_path: Path) -> Any:
    """A journal with a run of the clerk for which has come what it waited for."""
    with Journal(tmp_path / "runs.db") as opened:
        with NativeSpace() as space:
            space.add(Bank("Bank"))
            space.add(clerk(opened)).reply_sync("go", run_id="r")
        opened.answer("r", "key", "came")
        yield opened


async def until_said(caplog: pytest.LogCaptureFixture, text: str) -> None:
    while text not in caplog.text:  # noqa: ASYNC110 - a log has no event
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("discover", (("Bank",), "*"), ids=["by its id", "all agents"])
@pytest.mark.parametrize(
    "go_on",
    (lambda agent: agent.resume_runs(), lambda agent: agent.reply("go", run_id="r")),
    ids=["resume_runs", "reply"],
)
async def test_run_waits_for_the_agent_that_its_space_expects(
    journal: Journal, caplog: pytest.LogCaptureFixture, discover: Any, go_on: Callable[[Any], Any]
) -> None:
    async with NativeSpace() as space:
        space.expects("Bank")
        agent = await space.aadd(clerk(journal, discover))
        async with asyncio.timeout(20):
            work = asyncio.ensure_future(go_on(agent))
            await until_said(caplog, "runs of agent 'clerk' wait for the agents Bank")
            assert not work.done()
            assert [(each.kind, each.text) for each in journal.waiting("r")] == [("agents", "Bank")]
            await space.aadd(Bank("Bank"))
            await work
    assert journal.waiting() == []
    assert journal.replay("r").text == "booked 1"


async def test_run_waits_for_what_its_helper_calls(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    async with NativeSpace() as space:
        space.expects("Bank")
        helper = await space.aadd(ReActAgent("helper", ScriptedModel(["Hm."]), discover=["Bank"]))
        actions = [order, helper.as_action()]
        agent = ReActAgent("clerk", ScriptedModel(["ok"]), actions=actions, journal=journal)
        await space.aadd(agent)
        async with asyncio.timeout(20):
            work = asyncio.ensure_future(agent.resume_runs())
            await until_said(caplog, "runs of agent 'clerk' wait for the agents Bank")
            await space.aadd(Bank("Bank"))
            await work


async def test_run_whose_space_expects_nobody_goes_on_at_once(journal: Journal) -> None:
    async with NativeSpace() as space:
        (resumed,) = await (await space.aadd(clerk(journal))).resume_runs()
    assert resumed.outcome == "resumed"


async def test_run_whose_agent_fails_waits_with_the_reason_and_goes_on_once_another_is_up(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    async with NativeSpace() as space:
        space.expects("Bank")
        agent = await space.aadd(clerk(journal))
        with pytest.raises(RuntimeError, match="no key"):
            await space.aadd(Locked("Bank"))
        (resumed,) = await agent.resume_runs()
        assert resumed.outcome == "away"
        assert await agent.resume_decided() == []
        reply = await agent.reply("go", run_id="r")
        assert (reply.stop_reason, reply.detail) == (
            "waiting",
            'waiting for the agents "Bank", which are not up',
        )
        (wait,) = journal.waiting("r")
        assert (wait.kind, wait.text) == ("agents", "Bank")
        with pytest.raises(ConfigError, match="goes on by itself once the agents are up"):
            journal.answer("r", wait.key, "go")
        listed = run_command("waiting", "--journal", str(journal.path)).stdout
        assert 'clerk waits for the agents "Bank", which are not up, since' in listed
        assert "moothall answer" not in listed
        assert journal.run("r").state == "waiting"
        await space.aadd(Bank("Bank"))
        (resumed,) = await agent.resume_decided()
        assert resumed.reply is not None
        assert resumed.reply.text == "booked 1"
        assert journal.waiting() == []


async def test_agent_of_all_agents_does_not_wait_for_one_that_has_failed(journal: Journal) -> None:
    async with NativeSpace() as space:
        space.expects("Bank")
        agent = await space.aadd(clerk(journal, "*"))
        with pytest.raises(RuntimeError, match="no key"):
            await space.aadd(Locked("Bank"))
        (resumed,) = await agent.resume_runs()
    assert resumed.outcome == "resumed"


async def test_resume_runs_that_waits_for_agents_ends_with_its_space(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    async with NativeSpace() as space:
        space.expects("Bank")
        agent = await space.aadd(clerk(journal))
        work = asyncio.ensure_future(agent.resume_runs())
        await until_said(caplog, "wait for the agents Bank")
    with pytest.raises(SpaceClosed, match="runs of agent 'clerk' have waited for Bank"):
        await work
    assert journal.run("r").state == "waiting"


def test_space_refuses_to_expect_an_invalid_id() -> None:
    with NativeSpace() as space, pytest.raises(ValueError, match="#all"):
        space.expects("#all")
