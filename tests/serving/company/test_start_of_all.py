"""A company resumes runs once all agents of its first start are up, or have failed."""

from __future__ import annotations

import asyncio
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from moothall import Agent, Journal
from moothall.foundation.errors import ActionError
from serving.company.conftest import MakeCompany, live, until

AGENTS = """
import asyncio
import threading
from pathlib import Path

from moothall import Action, Agent, Later, ReActAgent, ScriptedModel, action

HERE = Path(__file__).parent


class Bank(Agent):
    def __init__(self, id):
        while (HERE / "slow").exists():
            threading.Event().wait(0.05)
        if (HERE / "broken").exists():
            raise RuntimeError("no vault")
        super().__init__(id)

    @action
    async def book(self, n: int) -> str:
        \"\"\"Book.\"\"\"
        return f"booked {n}"


def order() -> Later:
    return Later("key")


def clerk(id):
    steps = [{"name": "order"}, {"name": "Bank_book", "args": {"n": 1}}, repeat]
    return ReActAgent(id, ScriptedModel(steps), actions=[order], discover=["Bank"])


def repeat(messages, actions):
    return messages[-1]["content"]


class Other(Agent):
    pass


class Mint(Agent):
    async def background(self):
        if (HERE / "dies").exists():
            (HERE / "dies").unlink()
            raise RuntimeError("no metal")

    @action
    async def mint(self, n: int) -> str:
        \"\"\"Mint.\"\"\"
        return f"minted {n}"


class Broken(Mint):
    def __init__(self, id):
        if (HERE / "failing").exists():
            raise RuntimeError("it never comes")
        super().__init__(id)


async def begin(how: str):
    if how == "cut off" and (HERE / "hold").exists():
        await asyncio.Event().wait()
    return Later("key") if how == "wait" else how


def going_on(id, *calls):
    def work(messages, actions):
        results = [each["content"] for each in messages if each["role"] == "tool"]
        if not results:
            task = next(each["content"] for each in messages if each["role"] == "user")
            return {"name": "begin", "args": {"how": task}}
        if len(results) <= len(calls):
            return {"name": calls[len(results) - 1], "args": {"n": len(results)}}
        return ", ".join(results[1:])

    begins = Action("begin", begin, "Begin.", idempotent=True)
    others = [each.partition("_")[0] for each in calls]
    return ReActAgent(id, ScriptedModel(work), actions=[begins], discover=others)


def teller(id):
    return going_on(id, "Bank_book", "Mint_mint")


def stuck(id):
    return going_on(id, "Broken_mint")
"""

PARTS = {
    "clerk": "  clerk: {ref: 'program.py:clerk'}\n",
    "Bank": "  Bank: {ref: 'program.py:Bank', restart: {first: 100ms, longest: 100ms}}\n",
    "Other": "  Other: {ref: 'program.py:Other'}\n",
}
FIVE = {
    "teller": "  teller: {ref: 'program.py:teller'}\n",
    "stuck": "  stuck: {ref: 'program.py:stuck'}\n",
    "Bank": PARTS["Bank"],
    "Mint": "  Mint: {ref: 'program.py:Mint', restart: {first: 50ms, longest: 50ms}}\n",
    "Broken": "  Broken: {ref: 'program.py:Broken', restart: {most: 0}}\n",
}
ORDERS = [*permutations(FIVE)][::5]


async def parks(me: Agent) -> None:
    with pytest.raises(ActionError, match="waiting for the result 'key'"):
        await me.ask("clerk", "say", content="go")


@pytest.mark.parametrize("order", tuple(permutations(PARTS)), ids=" ".join)
@pytest.mark.parametrize("fault", ("slow", "broken"))
def test_run_goes_on_once_the_agent_that_it_calls_is_there_in_whatever_order(
    folder: Path, make_company: MakeCompany, order: tuple[str, ...], fault: str
) -> None:
    (folder / "program.py").write_text(AGENTS)
    file = "journal: runs.db\nagents:\n" + "".join(PARTS[each] for each in order)
    live(make_company(file), parks)
    with Journal(folder / "runs.db") as journal:
        (wait,) = journal.waiting()
        journal.answer(wait.run, "key", "came")
        (folder / fault).touch()

        async def goes_on() -> None:
            company = make_company(file)
            async with asyncio.TaskGroup() as group:

                async def mends() -> None:
                    def clerk() -> str:
                        agents = company.health()["agents"]
                        return str(agents.get("clerk", {}).get("state"))

                    await until(lambda: clerk() == "running")
                    assert journal.run(wait.run).state == "waiting"
                    (folder / fault).unlink()

                group.create_task(mends())
                async with company:
                    await until(lambda: journal.run(wait.run).state == "done")

        asyncio.run(goes_on())
        assert journal.replay(wait.run).text == "booked 1"


def file_of(order: tuple[str, ...]) -> str:
    head = "journal: runs.db\ngiven_up: stay\ndrain: 0s\nagents:\n"
    return head + "".join(FIVE[each] for each in order)


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_run_never_ends_for_want_of_an_action_in_whatever_order_agents_come_fail_and_die(
    folder: Path, make_company: MakeCompany, order: tuple[str, ...]
) -> None:
    """One agent is slow, one dies, one never comes; runs have waited or were cut off."""
    (folder / "program.py").write_text(AGENTS)
    (folder / "hold").touch()

    async def begin(me: Agent) -> None:
        space: Any = me.space
        says = []
        for how in ("wait", "cut off"):  # each in a conversation of its own
            sender = await space.aadd(Agent(how))
            asked = [sender.ask(agent, "say", content=how) for agent in ("teller", "stuck")]
            says += map(asyncio.ensure_future, asked)
        with Journal(folder / "runs.db") as journal:
            await until(lambda: len(journal.waiting()) == 2 and len(journal.runs()) == 4)
            cut_off = [run for run in journal.runs() if run.state == "running"]
            await until(lambda: all(len(journal.entries(run.id)) > 3 for run in cut_off))
        for each in says:
            each.add_done_callback(lambda done: done.cancelled() or done.exception())

    live(make_company(file_of(order)), begin)
    (folder / "hold").unlink()
    for flag in ("slow", "dies", "failing"):
        (folder / flag).touch()
    with Journal(folder / "runs.db") as journal:
        for wait in journal.waiting():
            journal.answer(wait.run, "key", "came")

        def texts(agent: str) -> list[str]:
            runs = journal.runs(agent=agent)
            return [journal.replay(run.id).text for run in runs if run.state == "done"]

        async def goes_on() -> None:
            async def mends() -> None:
                await until(lambda: not (folder / "dies").exists())
                (folder / "slow").unlink()

            async with asyncio.TaskGroup() as group:
                group.create_task(mends())
                async with make_company(file_of(order)):
                    await until(lambda: len(texts("teller")) == 2)
                    await until(lambda: len(journal.waiting(kind="agents")) == 2)
                    assert {wait.agent for wait in journal.waiting()} == {"stuck"}
                    reasons = {str(wait).partition(", since")[0] for wait in journal.waiting()}
                    assert reasons == {'the agents "Broken", which are not up'}

        async def lasts() -> None:
            async with make_company(file_of(order)):
                await until(lambda: len(texts("stuck")) == 2)

        asyncio.run(goes_on())
        assert texts("teller") == ["booked 1, minted 2"] * 2
        assert texts("stuck") == []
        (folder / "failing").unlink()
        asyncio.run(lasts())
        assert texts("stuck") == ["minted 1"] * 2
        assert journal.waiting() == []
