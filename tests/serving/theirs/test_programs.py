"""Programs in the shape of the frameworks' own examples: they run without a change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moothall import ACCESS_REQUESTED, CallbackApprover, Journal, Later
from serving.theirs.kills import RUN, reply_once_decided
from serving.theirs.programs import of_langgraph, of_openai_agents, of_pydantic_ai
from serving.theirs.programs.program import Program

PROGRAMS = (*of_pydantic_ai.PROGRAMS, *of_openai_agents.PROGRAMS, *of_langgraph.PROGRAMS)


@pytest.mark.parametrize("make", PROGRAMS, ids=[each.__name__ for each in PROGRAMS])
async def test_framework_program_gives_what_it_gives_bare_after_an_approval_that_waited(
    tmp_path: Path, make: Callable[[], Program]
) -> None:
    bare, program, path = make(), make(), tmp_path / "runs.db"
    expected = await bare.bare()

    def wrapped() -> Any:
        approver = CallbackApprover(lambda request: Later())
        tools: Any = {program.tool: {"access_policy": ACCESS_REQUESTED}}
        return program.wrap(journal=path, approver=approver, tools=tools)

    reply = await reply_once_decided(wrapped, path, True, program.effects, program.task)
    assert (reply.value, program.effects) == (expected, bare.effects)
    assert (await wrapped().reply(program.task, run_id=RUN)).value == expected
    assert len(program.effects) == 1
    with Journal(path) as journal:
        assert journal.check() == []
        assert program.tool in [each.action for each in journal.replay(RUN).steps]
