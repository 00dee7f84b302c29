"""A server's tools as the tools of a researcher."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from moothall import (
    ACCESS_REQUESTED,
    ActionRegistry,
    Agent,
    ApprovalRequest,
    CallbackApprover,
    DefinitionError,
    NativeSpace,
    Researcher,
)
from moothall.serving import MCPAgent

Make = Callable[..., MCPAgent]
ASKED = "The gamma protocol uses port 7777."
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@pytest.mark.parametrize("option", ("tools", "searchers"))
def test_mcp_tools_are_what_a_researcher_asks_for_sources(server: Make, option: str) -> None:
    researcher = Researcher("r", None, ASKED, iterations=1, **{option: [server()]})

    report = researcher.report_sync()

    assert "odd_echo" in researcher.tools
    assert [each.passage.text for each in report.citations[:1]] == [ASKED]


def test_mcp_tools_of_a_registry_are_asked_in_a_space_and_recorded(
    server: Make, tmp_path: Path
) -> None:
    registry = ActionRegistry()
    registry.register(server())
    researcher = Researcher("r", None, tools=registry, journal=tmp_path / "runs.db")
    with NativeSpace() as space:
        space.add(researcher)
        me = space.add(Agent("me"))
        for question in (
            ASKED,
            "Gamma was written by Bo Reed.",
        ):  # also when the thread has read a source
            assert f"“{question}”" in me.ask("r", "say", content=question).result(30)


def test_mcp_server_without_a_tool_that_takes_a_query_is_told_to_the_researchers_user(
    server: Make,
) -> None:
    definitions = json.dumps([{"name": "count", "inputSchema": {"type": "object"}}])
    researcher = Researcher("r", None, ASKED, [server(mode=f"list:{definitions}")])

    with pytest.raises(DefinitionError, match="a query; got 'odd_count'"):
        researcher.report_sync()


def test_mcp_resources_and_prompts_are_no_tools_that_a_query_is_given_to(server: Make) -> None:
    researcher = Researcher("r", None, ASKED, [server(mode="promises")], iterations=1)

    researcher.report_sync()

    assert {"odd_read_resource", "odd_get_prompt"} < {*researcher.tools}
    assert {task.tool for task in researcher.done} == {"odd_echo"}


def test_mcp_tool_that_was_changed_is_asked_for_with_the_difference_by_a_researcher(
    server: Make, tmp_path: Path
) -> None:
    lock, notes = tmp_path / "lock", []

    def decide(request: ApprovalRequest) -> bool:
        notes.append(request.note)
        return True

    server(mode=f"list:{_echo('Say it.')}", lock=lock).accept_definitions()
    changed = server(mode=f"list:{_echo('Say another thing.')}", lock=lock)
    approver = CallbackApprover(decide)
    Researcher("r", None, ASKED, [changed], iterations=1, approver=approver).report_sync()

    assert "Say another thing." in notes[0]


def test_mcp_tool_with_a_question_is_asked_of_the_researchers_approver(server: Make) -> None:
    asked: list[str] = []

    def refuse(request: ApprovalRequest) -> bool:
        asked.append(request.action)
        return False

    tools = [server(access=ACCESS_REQUESTED)]
    approver = CallbackApprover(refuse)
    report = Researcher("r", None, ASKED, tools, 1, approver=approver).report_sync()

    assert asked[:1] == ["odd_echo"]
    assert not report.citations


def _echo(description: str) -> str:
    return json.dumps([{"name": "echo", "description": description, "inputSchema": TEXT}])
