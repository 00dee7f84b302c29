"""A company resumes runs once all agents of its first start are up, or have failed."""

from __future__ import annotations

import asyncio
from itertools import permutations
from pathlib import Path

import pytest

from moothall import Agent, Journal
from moothall.foundation.errors import ActionError
from serving.company.conftest import MakeCompany, live, until

AGENTS = """
import threading
from pathlib import Path

from moothall import Agent, Later, ReActAgent, ScriptedModel, action

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
"""

PARTS = {
    "clerk": "  clerk: {ref: 'program.py:clerk'}\n",
    "Bank": "  Bank: {ref: 'program.py:Bank', restart: {first: 100ms, longest: 100ms}}\n",
    "Other": "  Other: {ref: 'program.py:Other'}\n",
}


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
