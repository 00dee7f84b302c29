"""Names of persons and conversations, as people write them: made, found, answered, deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from commands import run as run_command
from journal.conftest import Place
from moothall import (
    ACCESS_REQUESTED,
    Action,
    Budget,
    ChangedArgs,
    ConfigError,
    Context,
    Journal,
    ReActAgent,
    ScriptedModel,
    SQLiteMemory,
    Waiting,
)
from moothall.models.protocol import Call

NAMES = {
    "a joiner": "نی\u200cکی",
    "an emoji with a joiner": "anna 👩\u200d💻",
    "a hard space": "Anna\u00a0Maria",
    "a mark of direction": "\u200fדנה\u200e",
    "two lines": "anna\nmaria",
}


async def pay(n: int) -> str:
    """Pay."""
    return f"paid {n}"


def agent_at(journal: Journal, **options: Any) -> ReActAgent:
    actions = [Action("pay", pay, "Pay.", access_policy=ACCESS_REQUESTED)]
    model = ScriptedModel(
        lambda messages, _: (
            messages[-1]["content"]
            if messages[-1]["role"] == "tool"
            else Call("c", "pay", {"n": 1})
        )
    )
    return ReActAgent("clerk", model, actions=actions, journal=journal, **options)


@pytest.mark.parametrize("kind", NAMES)
def test_thread_of_any_name_is_found_permits_is_paused_told_and_deleted(
    tmp_path: Path, kind: str
) -> None:
    name, journal = NAMES[kind], Journal(tmp_path / "j.db")
    budget = Budget(tokens=10**6, name=name) if "\n" not in name else None
    memory = SQLiteMemory(tmp_path / "m.db")
    agent = agent_at(journal, memory=memory, approver=Waiting(who=[name]), budget=budget)
    agent.reply_sync("My words.", thread=name, run_id="r")
    assert [run.thread for run in journal.runs(thread=name)] == journal.threads() == [name]
    journal.pause("r", by=name)
    journal.tell("r", "Go on.", by=name)
    journal.go_on("r", by=name)
    (wait,) = journal.waiting(kind="approval")
    journal.answer("r", wait.key, True, by=name)
    (result,) = asyncio.run(agent.resume_decided())
    assert result.reply is not None
    assert [run.id for run in journal.runs(decided_by=name)] == ["r"]
    memory.close()
    path = ("--journal", str(tmp_path / "j.db"), "--memory", str(tmp_path / "m.db"))
    deleted = run_command("runs", "delete", "--person", name, *path)
    assert deleted.returncode == 0, deleted.stderr
    assert journal.runs() == []
    assert SQLiteMemory(tmp_path / "m.db", name).get_memories() == []
    agent_at(journal, approver=Waiting()).reply_sync("My words.", thread=name, run_id="s")
    assert journal.delete(thread=name).runs == ["s"]


@pytest.mark.parametrize("kind", NAMES)
def test_agent_of_any_name_is_found_and_a_person_of_any_name_says_if_a_run_was_good(
    tmp_path: Path, kind: str
) -> None:
    name, journal = NAMES[kind], Journal(tmp_path / "j.db")
    agent = agent_at(journal, approver=Waiting())
    agent.id = name
    agent.reply_sync("go", run_id="r")
    assert [wait.agent for wait in journal.waiting(agent=name)] == [name]
    assert [run.agent for run in journal.runs(agent=name)] == [name]
    journal.feedback("r", good=True, by=name)
    assert journal.entries("r")[-1].data["by"] == name
    path = ("--journal", str(tmp_path / "j.db"))
    said = run_command("runs", "feedback", "r", "--bad", "--as", name, *path)
    assert said.returncode == 0, said.stderr
    listed = run_command("waiting", "--agent", name, "--json", *path)
    assert listed.returncode == 0, listed.stderr


def test_changed_arguments_of_a_wrong_type_are_refused_where_they_are_typed(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "j")
    agent_at(journal, approver=Waiting()).reply_sync("go", run_id="r")
    (wait,) = journal.waiting()
    wrong = {
        "x": {"n": "x"},
        "missing": {},
        "more": {"n": 1, "m": 2},
    }
    for args in wrong.values():
        with pytest.raises(ConfigError, match="run 'r': 'pay'"):
            journal.answer("r", wait.key, ChangedArgs(args), by="eva")
    journal.answer("r", wait.key, ChangedArgs({"n": 2}), by="eva")
    (result,) = asyncio.run(agent_at(journal, approver=Waiting()).resume_decided())
    assert result.reply is not None
    assert "paid 2" in result.reply.text


def test_nul_is_refused_in_names_and_looked_for_as_a_space_by_each_database(place: Place) -> None:
    with Journal(place("j")) as journal:
        agent = ReActAgent("a", ScriptedModel(["Done.", "Done."]), journal=journal)
        agent.reply_sync("Order a\0b", run_id="r")
        assert [each.id for each in journal.runs(text="a\0b")] == ["r"]
        with pytest.raises(ConfigError, match=r"thread= .* without NUL"):
            agent.reply_sync("go", thread="a\0b")
        with pytest.raises(ConfigError, match=r"by= .* without NUL"):
            journal.feedback("r", good=True, by="a\0b")
        with pytest.raises(ConfigError, match="without a NUL"):
            agent.reply_sync("go", tags={"customer": "a\0b"})


async def ask_in_tasks(questions: list[Any]) -> list[str]:
    return [*await asyncio.gather(*map(asyncio.create_task, questions))]


async def ask_in_a_group(questions: list[Any]) -> list[str]:
    async with asyncio.TaskGroup() as outer, asyncio.TaskGroup() as inner:
        tasks = [outer.create_task(questions[0]), inner.create_task(questions[1])]
    return [task.result() for task in tasks]


@pytest.mark.parametrize("ask", (ask_in_tasks, ask_in_a_group))
async def test_question_to_a_person_is_asked_within_a_task(
    tmp_path: Path, ask: Callable[[list[Any]], Awaitable[list[str]]]
) -> None:
    async def choose(context: Context[Any]) -> str:
        return " and ".join(await ask([*map(context.ask_person, ("Red?", "Blue?"))]))

    journal = Journal(tmp_path / "j")
    model = ScriptedModel(
        lambda messages, _: (
            messages[-1]["content"] if messages[-1]["role"] == "tool" else Call("c", "choose", {})
        )
    )
    actions = [Action("choose", choose, "Choose.", idempotent=True)]
    agent = ReActAgent("a", model, actions=actions, journal=journal, approver=Waiting())
    reply: Any = await agent.reply("go", run_id="r")
    while waits := journal.waiting():
        for wait in waits:
            journal.answer("r", wait.key, f"{wait.text} yes", by="eva")
        (result,) = await agent.resume_decided()
        reply = result.reply
    assert "Red? yes and Blue? yes" in reply.text


async def test_action_whose_task_group_fails_beside_a_question_fails(tmp_path: Path) -> None:
    async def fail() -> None:
        raise ValueError("no tea is left")

    async def choose(context: Context[Any]) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(context.ask_person("Red?"))
            group.create_task(fail())

    model = ScriptedModel([Call("c", "choose", {}), lambda messages, _: messages[-1]["content"]])
    journal, actions = Journal(tmp_path / "j"), [Action("choose", choose, "Choose.")]
    agent = ReActAgent("a", model, actions=actions, journal=journal, approver=Waiting())
    reply = await agent.reply("go", run_id="r")
    assert (reply.stop_reason, "no tea is left" in reply.text) == ("done", True)
