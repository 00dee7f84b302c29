"""Agents of other frameworks in a company's file, in one process and over RabbitMQ."""

from __future__ import annotations

from pathlib import Path

import pytest

from moothall import Agent, Journal
from moothall.foundation.errors import ActionError
from serving.company.conftest import MakeCompany, live, until

AGENTS = """
from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from moothall import ACCESS_REQUESTED, PydanticAIAgent

paid = []


def answer(messages, info):
    asked = sum(isinstance(each, ModelResponse) for each in messages)
    parts = ToolCallPart("pay", {"coins": 3}, "c"), TextPart("Paid.")
    return ModelResponse(parts=[parts[asked % 2]])


shop = Agent(FunctionModel(answer))


@shop.tool_plain
def pay(coins: int) -> str:
    with open("paid", "a") as file:
        file.write(f"{coins}\\n")
    return "done"


def clerk(id):
    return PydanticAIAgent(id, shop, tools={"pay": {"access_policy": ACCESS_REQUESTED}})
"""

COMPANY = """
journal: runs.db
agents:
  Clerk: {ref: 'program.py:clerk'}
"""


@pytest.mark.parametrize("is_over_broker", (False, True))
def test_framework_agent_of_a_companys_file_parks_and_goes_on_once_it_is_permitted(
    request: pytest.FixtureRequest,
    folder: Path,
    make_company: MakeCompany,
    exchange: str,
    monkeypatch: pytest.MonkeyPatch,
    is_over_broker: bool,
) -> None:
    monkeypatch.chdir(folder)
    (folder / "program.py").write_text(AGENTS)
    text = COMPANY
    if is_over_broker:
        port = request.getfixturevalue("broker").port
        text += f"broker: {{host: localhost, port: {port}, exchange: {exchange}}}\n"
    company = make_company(text)

    async def work(me: Agent) -> None:
        say = {"to": "Clerk", "action": {"name": "say", "args": {"content": "Pay."}}}
        with pytest.raises(ActionError, match="waiting for the approval of pay"):
            await me.request(say, None)
        with Journal(folder / "runs.db") as office:
            (wait,) = office.waiting()
            office.answer(wait.run, wait.key, True, by="eva")
            await until(lambda: office.run(wait.run).state == "done")
            assert office.replay(wait.run).text == "Paid."

    live(company, work)
    assert (folder / "paid").read_text() == "3\n"
