"""A file agent, written as a newcomer writes it: goals, actions, memory, environment, a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from moothall import Action, ActionRegistry, Environment, Goal, Memory, ReActAgent, ScriptedModel

file_management_goal = Goal(
    priority=1,
    name="file_management",
    description="""Manage files in the current directory by:
1. Listing files when needed
2. Reading file contents when needed
3. Searching within files when information is required
4. Providing helpful explanations about file contents""",
)


def list_files() -> list:  # type: ignore[type-arg]
    """List all files in the current directory."""
    return os.listdir(".")


def read_file(file_name: str) -> str:
    """Read and return the contents of a file."""
    with open(file_name) as f:
        return f.read()


def search_in_file(file_name: str, search_term: str) -> list:  # type: ignore[type-arg]
    """Search for a term in a file and return matching lines."""
    results = []
    with open(file_name) as f:
        for i, line in enumerate(f.readlines()):
            if search_term in line:
                results.append((i + 1, line.strip()))
    return results


def by_hand() -> ActionRegistry:
    """The actions with schemas written by hand."""
    registry = ActionRegistry()

    registry.register(
        Action(
            name="list_files",
            function=list_files,
            description="List all files in the current directory",
            parameters={"type": "object", "properties": {}, "required": []},
            terminal=False,
        )
    )

    registry.register(
        Action(
            name="read_file",
            function=read_file,
            description="Read the contents of a specific file",
            parameters={
                "type": "object",
                "properties": {
                    "file_name": {"type": "string", "description": "Name of the file to read"}
                },
                "required": ["file_name"],
            },
            terminal=False,
        )
    )

    registry.register(
        Action(
            name="search_in_file",
            function=search_in_file,
            description="Search for a term in a specific file",
            parameters={
                "type": "object",
                "properties": {
                    "file_name": {
                        "type": "string",
                        "description": "Name of the file to search in",
                    },
                    "search_term": {"type": "string", "description": "Term to search for"},
                },
                "required": ["file_name", "search_term"],
            },
            terminal=False,
        )
    )
    return registry


def from_functions() -> ActionRegistry:
    """The same actions with schemas read from the functions."""
    registry = ActionRegistry()
    for function in (list_files, read_file, search_in_file):
        registry.register(function)
    return registry


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "notes.txt").write_text("milk\nRETRY_LIMIT = 5\nbread\nRETRY_LIMIT again\n")
    (tmp_path / "todo.md").write_text("# To do\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("registry", (by_hand(), from_functions()), ids=("by hand", "read"))
def test_file_agent_lists_searches_and_reads(folder: Path, registry: ActionRegistry) -> None:
    model = ScriptedModel(
        [
            {"name": "list_files"},
            [
                {"name": "search_in_file", "args": {"file_name": "notes.txt", "search_term": "RE"}},
                {"name": "read_file", "args": '{"file_name": "todo.md"}'},
            ],
            "notes.txt sets RETRY_LIMIT to 5.",
        ]
    )
    agent = ReActAgent(
        "files",
        model,
        goals=[file_management_goal],
        actions=registry,
        memory=Memory(),
        environment=Environment(),
    )
    reply = agent.reply_sync("What is RETRY_LIMIT?")
    assert (reply.text, reply.stop_reason) == ("notes.txt sets RETRY_LIMIT to 5.", "done")
    assert [step.action for step in reply.steps] == ["list_files", "search_in_file", "read_file"]
    assert sorted(reply.steps[0].result["result"]) == ["notes.txt", "todo.md"]
    assert reply.steps[1].result["result"] == [(2, "RETRY_LIMIT = 5"), (4, "RETRY_LIMIT again")]
    assert reply.steps[2].result["result"] == "# To do\n"
    first = model.received[0]
    assert "4. Providing helpful explanations about file contents" in first[0]["content"]
    shown = [m["content"] for m in model.received[-1] if m["role"] == "tool"]
    assert shown[1:] == ['[[2, "RETRY_LIMIT = 5"], [4, "RETRY_LIMIT again"]]', "# To do\n"]


@pytest.mark.parametrize("registry", (by_hand(), from_functions()), ids=("by hand", "read"))
def test_file_agent_is_told_of_a_missing_file_and_asked_again_for_a_wrong_argument(
    folder: Path, registry: ActionRegistry
) -> None:
    model = ScriptedModel(
        [
            {"name": "read_file", "args": {"file_name": "absent.txt"}},
            {"name": "read_file", "args": {"name": "todo.md"}},
            {"name": "read_file", "args": {"file_name": "todo.md"}},
            "It is a to-do list.",
        ]
    )
    agent = ReActAgent("files", model, actions=registry, memory=Memory())
    reply = agent.reply_sync("Read absent.txt, then todo.md")
    assert reply.text == "It is a to-do list."
    shown: list[str] = [m["content"] for m in reply.messages if m["role"] == "tool"]
    assert "No such file or directory: 'absent.txt'" in shown[0]
    assert "Traceback" not in shown[0]
    assert "file_name" in shown[1]
    assert shown[2] == "# To do\n"
    assert [step.error is None for step in reply.steps] == [False, True]


def test_file_agent_parts_work_by_themselves(folder: Path) -> None:
    registry = by_hand()
    assert registry.get_action("read_file") is registry.get_actions()[1]
    assert registry.get_action("fly") is None
    read: Any = registry.get_action("read_file")
    assert read.execute(file_name="todo.md") == "# To do\n"
    environment = Environment()
    good = environment.execute_action(read, {"file_name": "todo.md"})
    assert (good["tool_executed"], good["result"]) == (True, "# To do\n")
    bad = environment.execute_action(read, {"file_name": "absent.txt"})
    assert bad["tool_executed"] is False
    assert bad["traceback"].startswith("Traceback")
    memory = Memory()
    for number in range(3):
        memory.add_memory({"role": "user", "content": str(number)})
    assert [item["content"] for item in memory.get_memories(limit=2)] == ["1", "2"]
