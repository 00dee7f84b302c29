"""`moothall replay`: a run told again from its record, when nothing else of it is left."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cli.journal_programs import (
    COMMAND,
    JOURNAL,
    SEARCH,
    WRITE,
    does,
    killed_in_a_command,
    killed_program,
    moothall,
)
from models.openai_server import HANG, OpenAIServer, streamed
from moothall import (
    Action,
    Call,
    DualActAgent,
    DualActConfig,
    Journal,
    ModelReply,
    ReActAgent,
    ScriptedModel,
)
from moothall.agents.replies.events import Event
from moothall.build import APPENDED, recorded
from moothall.cli.main import main


def decides(action: str, instruction: str = "") -> str:
    return json.dumps({"action": action, "new_instruction": instruction, "reasoning": "so"})


def replayed(folder: Path, *options: str) -> str:
    """What is told, which is the same twice, and changes nothing."""
    before = moothall("runs", "r", "--json", cwd=folder).stdout
    first, second = (moothall("replay", "r", *options, cwd=folder) for _ in range(2))
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == second.stdout
    assert moothall("runs", "r", "--json", cwd=folder).stdout == before
    return first.stdout


def test_run_is_told_as_it_was_shown(folder: Path) -> None:
    with OpenAIServer(does(SEARCH), does(WRITE), streamed("In line 2,\n\x1b[2Jsee?")) as server:
        command = ("act", "Where is\nmilk?", "--model", f"{server.url}#m", "--run-id", "r")
        done = moothall(*command, cwd=folder)
    (folder / "notes.txt").unlink()
    _, *shown, last = done.stdout.splitlines()
    told = replayed(folder).splitlines()
    assert told[0] == r"Where is\nmilk?"
    assert told[1:-1] == shown
    assert r"\x1b[2Jsee?" in told
    assert told[-1] == "2 steps, 30 tokens (21 in, 9 out)"
    assert last.startswith("2 steps, ")


def test_long_result_is_whole_if_it_is_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for terminal in (True, False):
        listing = Action("ls", lambda: "\n".join(map(str, range(20))), "List.", terminal=terminal)
        thought = ModelReply("Numbers.", reasoning="All of them.")
        model = ScriptedModel([Call("1", "ls", {}), thought])
        with Journal(tmp_path / "runs.db") as journal:
            agent = ReActAgent("lister", model, actions=[listing], journal=journal)
            agent.reply_sync("List", run_id=f"terminal {terminal}")
        with pytest.raises(SystemExit):
            main(["replay", f"terminal {terminal}", "--journal", str(tmp_path / "runs.db")])
        told = capsys.readouterr().out
        assert ("  19\n" in told, "… 8 more lines" in told) == (terminal, not terminal)
        assert ("All of them.\nNumbers.\n" in told) == (not terminal)


def test_run_is_told_for_programs_as_it_was(folder: Path) -> None:
    with OpenAIServer(does(SEARCH), streamed("In line 2.")) as server:
        command = ("act", "Where?", "--model", f"{server.url}#m", "--run-id", "r", "--json")
        done = moothall(*command, cwd=folder)
    then = [json.loads(line) for line in done.stdout.splitlines()]
    now = [json.loads(line) for line in replayed(folder, "--json").splitlines()]
    of_then, of_now = (
        [each for each in events if each["kind"] not in ("run", "text", "done")]
        for events in (then, now)
    )
    assert of_then == of_now
    assert [each["text"] for each in now if each["kind"] == "text"] == ["In line 2."]
    assert now[-1] == {k: v for k, v in then[-1].items() if k not in ("seconds", "resume")}


def test_review_is_told_turn_by_turn(folder: Path) -> None:
    works = (does(COMMAND), streamed("I guess."), does(SEARCH), streamed("In line 2."))
    reviews = (streamed(decides("CONTINUE", "Look")), streamed(decides("TERMINATE")))
    with OpenAIServer(*works) as worker, OpenAIServer(*reviews) as reviewer:
        killed_in_a_command(worker, folder, "--review", f"{reviewer.url}#h")
        done = moothall("resume", "r", "--skip", cwd=folder)
    assert done.returncode == 0, done.stderr
    called = f"→ run_command(command={json.dumps(COMMAND[1]['command'])})"
    told = replayed(folder).splitlines()
    assert told[:2] == ["Do it", called]
    assert told[2].startswith("  ✗ skipped: the run was cut off while it was executed")
    assert told[3:] == [
        "I guess.",
        "the review asks for more: Look",
        '→ search_in_file(file_name="notes.txt", search_term="milk")',
        "  line 2: milk, oat",
        "In line 2.",
        "the review accepts: so",
        "",
        "done: the review accepted it",
        "2 steps, 60 tokens (42 in, 18 out)",
    ]


def test_run_that_was_stopped_is_told_with_its_exit_code(folder: Path) -> None:
    with OpenAIServer(does(SEARCH), HANG) as server:
        command = ("act", "Do it", "--model", f"{server.url}#m", "--run-id", "r")
        moothall(*command, "--max-seconds", "0.5", cwd=folder)
    done = moothall("replay", "r", cwd=folder)
    assert done.returncode == 1
    assert "stopped" not in done.stdout
    assert done.stderr.startswith("stopped: time limit reached (")


def test_run_that_has_not_ended_is_not_told(folder: Path) -> None:
    killed_program(folder)
    done = moothall("replay", "bread-1", "--journal", JOURNAL, cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"moothall: run 'bread-1' has not ended: `moothall runs bread-1 --journal {JOURNAL}` shows "
        f"its record, and `moothall resume bread-1 --journal {JOURNAL}` resumes it\n"
    )


def test_run_of_an_orchestrator_of_the_users_own_is_told_as_data(folder: Path) -> None:
    @dataclass
    class Count:
        done: list[int] = field(default_factory=list, metadata=APPENDED)

    async def count(journal: Journal) -> None:
        async with recorded(journal, "r", "Counter", "me", Count, task="Count") as record:
            record.save(Count([1, 2]))
            await record.end("done", text="two")

    with Journal(folder / JOURNAL) as journal:
        asyncio.run(count(journal))
    told = json.loads(replayed(folder))
    assert (told["state"], told["over"]) == ({"done": [1, 2]}, {"reason": "done", "text": "two"})


def test_dual_act_in_a_dual_act_is_told_as_it_was(folder: Path) -> None:
    def scripted(id: str, *script: Any, **options: Any) -> ReActAgent:
        return ReActAgent(id, ScriptedModel(list(script)), **options)

    def look(at: str) -> str:
        """Look."""
        return "seen"

    worker = scripted("w", {"name": "look", "args": {"at": "sea"}}, "Sea.", actions=[look])
    judge = scripted("h", decides("CONTINUE", "Look"), decides("TERMINATE"))
    inner = DualActAgent(DualActConfig(human=judge, reactive=worker), "inner")
    chief = scripted("H", decides("TERMINATE"))
    outer = DualActAgent(DualActConfig(human=chief, reactive=inner, first="reactive"))
    shown: list[Event] = []

    async def watch() -> None:
        async with outer.stream("Go.", run_id="r") as events:
            shown.extend([event async for event in events])

    with Journal(folder / JOURNAL) as journal:
        outer.journal = journal
        asyncio.run(watch())
    told = [json.loads(line) for line in replayed(folder, "--json").splitlines()]
    kinds = ("call_started", "call_ended", "conclusion", "decision")
    assert [
        (each["kind"], each["agent"], each.get("loop")) for each in told if each["kind"] in kinds
    ] == [
        (each.kind, each.agent, getattr(each, "loop", None)) for each in shown if each.kind in kinds
    ]
    assert {(each["agent"], each["decides"]) for each in told if each["kind"] == "text"} == {
        (each.agent, each.decides) for each in shown if each.kind == "text"
    }
