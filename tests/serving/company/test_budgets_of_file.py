"""Budgets of a company's file: one of all agents, one of an agent's own, and both."""

from __future__ import annotations

import pytest

from moothall import Agent
from moothall.foundation.errors import ActionError
from serving.company.conftest import MakeCompany, live

RECORDERS = """
journal: runs.db
agents:
  First: {ref: program.py:Recorder, budget: {model_calls: 1}}
  Second: {ref: program.py:Recorder}
"""


@pytest.mark.parametrize(
    ("of_all", "second_calls"),
    (("", 9), ("budget: {model_calls: 3}", 2)),
    ids=("its own alone", "a share of all"),
)
def test_budget_of_an_agent_of_a_file_ends_its_calls_and_counts_in_the_budget_of_all(
    make_company: MakeCompany, of_all: str, second_calls: int
) -> None:
    company = make_company(RECORDERS + of_all)

    async def spend(me: Agent) -> None:
        assert await me.ask("First", "say", content="Hello") == "yes"
        with pytest.raises(
            ActionError, match=r"budget '.*First': 1 model calls are needed and 0 of 1 are left"
        ):
            await me.ask("First", "say", content="Hello")
        for _ in range(second_calls):
            assert await me.ask("Second", "say", content="Hello") == "yes"
        if of_all:
            with pytest.raises(ActionError, match="0 of 3 are left"):
                await me.ask("Second", "say", content="Hello")

    live(company, spend)
