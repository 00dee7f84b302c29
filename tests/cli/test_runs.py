"""`moothall runs`: what a journal holds, as a person and a program see it."""

from __future__ import annotations

import asyncio
import json
import shlex
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cli.journal_programs import (
    COMMAND,
    JOURNAL,
    SEARCH,
    at_terminal,
    does,
    killed_in_a_command,
    killed_program,
    moothall,
)
from models.openai_server import HANG, OpenAIServer, streamed
from moothall import Block, CitizenAgent, City, Journal, ReActAgent, ScriptedModel, Society
from moothall.cli.main import main
from moothall.foundation.errors import ModelError
from moothall.models.protocol import ModelReply
from moothall.society import all_blocks, citizens, make_people
from pseudo_terminal import CONTROL_C


@pytest.fixture
def recorded(folder: Path) -> Path:
    """A folder with a journal, of one run that is done."""
    with OpenAIServer(does(SEARCH), streamed("In line 2.")) as server:
        command = ("act", "Where is milk?", "--model", f"{server.url}#m", "--run-id", "milk")
        done = moothall(*command, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def without_times(lines: list[str]) -> list[str]:
    """The lines of entries, without when they were written."""
    return [line[:8] + line[18:] for line in lines]


def test_runs_are_listed_in_their_order(folder: Path) -> None:
    with OpenAIServer(streamed("Well."), streamed("Well."), HANG) as server:
        model = ("--model", f"{server.url}#m")
        moothall("act", "First\nof all", *model, "--run-id", "one", cwd=folder)
        moothall("act", "Then \x1b[2Jthis", *model, "--run-id", "two", cwd=folder)
        limits = ("--max-seconds", "0.5", "--run-id", "three")
        moothall("act", "x" * 1000, *model, *limits, cwd=folder)
        done = moothall("runs", cwd=folder, COLUMNS="90")
        as_json = moothall("runs", "--json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    head, one, two, three, sums = done.stdout.splitlines()
    assert head.split() == ["id", "state", "failed", "began", "took", "tokens", "agent", "task"]
    assert [each.split()[:2] for each in (one, two, three)] == [
        ["one", "done"],
        ["two", "done"],
        ["three", "deadline"],
    ]
    assert one.endswith(r"  files  First\nof all")
    assert two.endswith(r"  files  Then \x1b[2Jthis")
    assert len(three) <= 90
    assert three.endswith("xxx …")
    assert sums.startswith("3 runs: 3 model calls, ")
    assert json.loads(as_json.stdout)["sums"]["model_calls"] == 3
    listed = json.loads(as_json.stdout)["runs"]
    assert [(run["id"], run["state"]) for run in listed] == [
        ("one", "done"),
        ("two", "done"),
        ("three", "deadline"),
    ]
    assert as_json.stdout.isascii()
    began, changed = (datetime.fromisoformat(listed[0][name]) for name in ("began", "changed"))
    assert began <= changed <= datetime.now(UTC)
    # An output that cannot hold the cut's mark is no reason to fail.
    done = moothall("runs", cwd=folder, COLUMNS="90", PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "xxx \\u2026\n" in done.stdout


def test_runs_list_says_why_a_run_failed(folder: Path) -> None:
    with Journal(folder / JOURNAL) as journal:
        for id, answer in (("ill", ModelError("no \x1b[31mnetwork" + "!" * 900)), ("well", "Yes.")):
            agent = ReActAgent("clerk", ScriptedModel([answer]), journal=journal)
            agent.reply_sync("Go.", run_id=id)
        ill, well = journal.runs()
    assert (ill.state, well.detail) == ("error", "")
    assert ill.detail.startswith("ModelError: no \x1b[31mnetwork!!!")
    assert len(ill.detail) == 500
    line = moothall("runs", "--state", "error", cwd=folder).stdout.splitlines()[1]
    assert "[ModelError: no \\x1b[31mnetwork!!!" in line
    assert line.endswith("!!!] Go.")
    (listed,) = json.loads(moothall("runs", "--state", "error", "--json", cwd=folder).stdout)[
        "runs"
    ]
    assert listed["detail"] == ill.detail


def test_runs_of_a_beginning_that_several_have_names_them(folder: Path) -> None:
    with Journal(folder / JOURNAL) as journal:
        for id in ("a1", "a2", "b"):
            ReActAgent("clerk", ScriptedModel(["Yes."]), journal=journal).reply_sync(
                "Go.", run_id=id
            )
    done = moothall("runs", "a", cwd=folder)
    assert done.returncode == 2
    assert "ID 'a': 2 runs begin so: 'a1', 'a2'" in done.stderr


def test_runs_id_is_whole_without_a_terminal(recorded: Path) -> None:
    with Journal(recorded / JOURNAL) as journal:
        agent = ReActAgent("clerk", ScriptedModel(["word " * 100 + "end"]), journal=journal)
        agent.reply_sync("Go.", run_id="long")
    shown = moothall("runs", "long", cwd=recorded, COLUMNS="")
    assert "word end\n" in shown.stdout


def test_runs_id_shows_each_entry(recorded: Path) -> None:
    done = moothall("runs", "milk", cwd=recorded)
    assert (done.returncode, done.stderr) == (0, "")
    head, state, task, ordered, *lines = done.stdout.splitlines()
    assert (head, task) == ("milk", "  Where is milk?")
    assert state.startswith("  done; ReActAgent files, began ")
    assert ordered.startswith("     1  ")
    assert ordered.endswith(f"#m in {recorded}")
    model = ordered.partition(": set up: ")[2].partition(" in ")[0]
    search = 'search_in_file(file_name="notes.txt", search_term="milk")'
    assert without_times(lines) == [
        "     2  task: Where is milk?",
        "     3  ready for the first turn (1 message)",
        f"     4  model call 1: {model}",
        f"     5  model answer 1: call {search}",
        f"     6  tool call: {search}",
        '     7  tool result: search_in_file: [[2, "milk, oat"]]',
        "     8  turn finished (2 messages, 1 step)",
        f"     9  model call 2: {model}",
        "    10  model answer 2: In line 2.",
        "    11  turn finished (1 message)",
        "    12  over, done: In line 2.",
    ]


def test_runs_id_json_has_run_entries_and_doubts(recorded: Path) -> None:
    done = moothall("runs", "milk", "--json", cwd=recorded)
    found = json.loads(done.stdout)
    assert (found["run"]["id"], found["run"]["state"]) == ("milk", "done")
    assert [entry["sequence"] for entry in found["entries"]] == list(range(1, 13))
    assert found["entries"][-1]["data"]["reason"] == "done"
    assert found["in_doubt"] == []


def test_runs_id_shows_calls_in_doubt_with_what_to_do(folder: Path) -> None:
    with OpenAIServer(does(COMMAND)) as server:
        killed_in_a_command(server, folder)
    done = moothall("runs", "r", cwd=folder)
    assert done.returncode == 0
    assert "  in doubt: the outcome of an action is unknown; ReActAgent files" in done.stdout
    *_, heading, called, look, repeat, skip, gave = done.stdout.splitlines()
    assert heading == "outcome unknown, the run was cut off while this was running:"
    assert called.startswith("  1  run_command(command=")
    assert look == "Look whether it took effect, and then:"
    assert repeat.endswith(" moothall resume r --repeat")
    assert skip.endswith(" moothall resume r --skip")
    assert gave.endswith(": moothall resume r --done 1=RESULT")
    found = json.loads(moothall("runs", "r", "--json", cwd=folder).stdout)
    assert [each["action"] for each in found["in_doubt"]] == ["run_command"]
    moothall("resume", "r", "--skip", "--agent", "a:b", cwd=folder)  # wrong usage decides nothing
    assert json.loads(moothall("runs", "r", "--json", cwd=folder).stdout) == found
    listed = moothall("runs", "--state", "in_doubt", cwd=folder)
    assert listed.stdout.endswith("\n1 of them needs you: moothall waiting\n")


def test_run_of_a_program_is_gone_on_with_by_naming_its_agent(folder: Path) -> None:
    killed_program(folder)
    done = moothall("runs", "bread-1", cwd=folder)
    assert "task: Buy bread. Please.\n" in done.stdout
    repeat, *_, give = done.stdout.splitlines()[-3:]
    assert give.endswith("moothall resume bread-1 --done 1=RESULT")
    # Each command works as it was copied, but for what only a person knows.
    copied = shlex.split(repeat.partition("moothall ")[2])
    given = shlex.split(give.partition("moothall ")[2])
    refused = moothall(*given, cwd=folder)
    assert refused.returncode == 2
    assert "in place of RESULT, such as 1=sent" in " ".join(refused.stderr.split())
    decided = moothall(*copied, cwd=folder)
    assert decided.returncode == 0, decided.stderr
    assert "recorded: the process that serves agent buyer goes on with it" in decided.stdout


def test_run_under_way_is_running_and_not_in_doubt(folder: Path) -> None:
    with (
        OpenAIServer(does(SEARCH), HANG) as server,
        at_terminal(
            "act", "Do it", "--model", f"{server.url}#m", "--run-id", "r", cwd=folder
        ) as terminal,
    ):
        server.wait_for_request()
        server.wait_for_request()
        done = moothall("runs", "r", cwd=folder)
        terminal.type(CONTROL_C)
        assert terminal.end() == 130
    assert "  running; ReActAgent files" in done.stdout
    assert "resume" not in done.stdout
    after = moothall("runs", "r", cwd=folder)
    assert "  cancelled: it was interrupted; ReActAgent files" in after.stdout
    assert after.stdout.endswith("\nto resume it: moothall resume r\n")


@pytest.mark.parametrize("command", (("runs",), ("runs", "r"), ("resume", "r"), ("replay", "r")))
def test_journal_that_is_not_there_is_not_made(folder: Path, command: tuple[str, ...]) -> None:
    done = moothall(*command, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"moothall: MOOTHALL_JOURNAL: journal {JOURNAL!r}: there is no such file; "
        "`moothall act TASK --journal PATH` makes one\n"
    )
    assert [path.name for path in folder.parent.iterdir()] == ["work"]


@pytest.mark.parametrize("command", (("runs",), ("runs", "r"), ("resume", "r"), ("replay", "r")))
def test_runs_without_a_journal_says_how_to_name_one(
    folder: Path, command: tuple[str, ...]
) -> None:
    done = moothall(*command, cwd=folder, MOOTHALL_JOURNAL="")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "moothall: no journal was named: give --journal PATH, or set MOOTHALL_JOURNAL\n"
    )


@pytest.mark.parametrize("command", (("runs", "r"), ("resume", "r"), ("replay", "r")))
def test_run_that_is_not_there_is_said(recorded: Path, command: tuple[str, ...]) -> None:
    done = moothall(*command, cwd=recorded)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"moothall: journal {JOURNAL!r} has no run 'r'; its last ones are 'milk'\n"
    )


@pytest.mark.parametrize("command", ("runs", "resume", "replay"))
def test_damaged_journal_is_said(recorded: Path, command: str) -> None:
    with sqlite3.connect(recorded.parent / "runs.db") as db:
        db.execute(
            "UPDATE entries SET data = replace(data, 'milk', 'beer') WHERE place & 4294967295 = 3"
        )
    db.close()
    done = moothall(command, "milk", cwd=recorded)
    assert (done.returncode, done.stdout) == (1, "")
    assert "it is damaged (entry 3 of run 'milk' is not what was written" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", (("runs",), ("resume", "r"), ("replay", "r")))
def test_file_that_is_no_journal_is_left_as_it_is(folder: Path, command: tuple[str, ...]) -> None:
    file = folder.parent / "runs.db"
    file.write_text("Dear diary, " * 100)
    before = file.read_bytes()
    done = moothall(*command, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    said = f"moothall: MOOTHALL_JOURNAL: journal {JOURNAL!r}: it is another kind of file"
    assert done.stderr.startswith(said)
    assert file.read_bytes() == before


async def test_entries_that_no_moothall_wrote_are_said(folder: Path) -> None:
    with Journal(folder.parent / "runs.db") as journal:
        part = await journal.begin("r", "ReActAgent", "a", "go")
        for kind in ("begun", "started", "state", "ended"):
            part.note(kind, {})
        part.note("over", {"text": 5})
        await part.commit()
        part.close()
    for command in ("runs", "replay", "resume"):
        done = moothall(command, "r", cwd=folder)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert "entry 1 (begun) of run 'r' is not one that this moothall writes" in done.stderr
    with sqlite3.connect(folder.parent / "runs.db") as db:
        db.execute("UPDATE runs SET began = 1e300")
    db.close()
    done = moothall("runs", cwd=folder)
    assert (done.returncode, "an entry is not as moothall" in done.stderr) == (1, True)


def test_journal_without_runs(folder: Path) -> None:
    Journal(folder / JOURNAL).close()
    done = moothall("runs", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "There are no runs.\n", "")


def test_citizens_prompts_answers_and_decisions_by_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOTHALL_JOURNAL", str(tmp_path / "town.db"))
    city = City.generate(seed=7, citizens=10)
    chosen = json.dumps({"block": "OtherBlock", "reason": "it is night"})

    def live(run_id: str, ask_once: bool, *people: Any) -> None:
        class Model(ScriptedModel):
            async def complete(self, messages: Any, *_: Any, **__: Any) -> ModelReply:
                if "which block" in messages[0]["content"]:
                    return ModelReply(chosen)
                if "mood" in messages[0]["content"]:
                    return ModelReply("fine\x1b[2J")
                raise ModelError("it is asleep")

        with Journal(tmp_path / "town.db") as journal:
            options: dict[str, Any] = {"model": Model(()), "ask_once": ask_once}
            with Society(people or 10, city, seed=7, journal=journal, **options) as town:
                asyncio.run(town.run(steps=2, run_id=run_id))

    def shown(*args: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as exit:
            main(["runs", *args])
        assert exit.value.code == code
        streams = capsys.readouterr()
        assert bool(streams.out) != bool(code)
        return streams.err if code else streams.out

    class Reads(Block):
        """Could act at any time, so that there is something to choose."""

        def fits(self, context: Any) -> float:
            return 0.5

    people = citizens(make_people(city, 10, seed=7), lambda: [*all_blocks(), Reads()])
    live("night", False, *people)
    lines = shown("night", "--citizen", "7").splitlines()
    assert lines[0] == "night"
    steps = [line for line in lines if line.startswith("step")]
    assert steps == ["step 0, 2026-01-05 00:00:00", "step 1, 2026-01-05 00:15:00"]
    told = [line.strip().split(maxsplit=1) for line in lines]
    answers = [rest for name, *rest in told if name in ("failed", "answer", "decided")]
    assert "You decide for" in next(rest[0] for name, *rest in told if name == "system")
    asleep, by_rule, answer, by_model, *_ = (rest[0] for rest in answers)
    assert asleep == "ModelError: it is asleep"
    assert by_rule.startswith(
        "not by this answer: PlanBlock: ModelError: the model did not answer agent '7'"
    )
    assert (answer, by_model) == (chosen, "by this answer")

    made = json.loads(shown("night", "--citizen", "7", "--json"))
    assert (made["run"]["id"], made["citizen"]) == ("night", "7")
    plan, block, *later = made["calls"]
    assert (plan["answer"], plan["failed"]) == (None, asleep)
    assert plan["unused"] == by_rule.removeprefix("not by this answer: ")
    assert (block["answer"], block["failed"], block["unused"]) == (chosen, None, None)
    assert {call["step"] for call in later} == {1}

    assert block["reason"] == "it is night"
    one = json.loads(shown("night", "--citizen", "7", "--step", "1", "--json"))["calls"]
    assert one == later
    assert "step 5" in shown("night", "--citizen", "7", "--step", "5", code=2)

    def asks(id: int) -> CitizenAgent:
        class Asks(CitizenAgent):
            async def forward(self) -> None:
                await self.llm.complete([{"role": "system", "content": "Your mood?"}])
                if self.id == 2:
                    self.fell_back("unfit")

        return Asks(id)

    live("moods", True, asks(1), asks(2))
    one, two = (json.loads(shown("moods", "--citizen", id, "--json"))["calls"] for id in "12")
    assert [call["answer"] for call in (*one, *two)] == ["fine\x1b[2J"] * 4
    assert [call["unused"] for call in (*one, *two)] == [None] * 2 + ["unfit"] * 2

    assert r"answer    fine\x1b[2J" in shown("moods", "--citizen", "2")

    with Journal(tmp_path / "town.db") as journal:
        clerk = ReActAgent("clerk", ScriptedModel(["Hello."]), journal=journal)
        clerk.reply_sync("Hi", run_id="talk")
    assert "no citizen '99' has asked a model" in shown("night", "--citizen", "99", code=2)
    assert "'talk' is of a ReActAgent" in shown("talk", "--citizen", "7", code=2)
    assert "--citizen" in shown("--citizen", "7", code=2)


def test_runs_are_listed_by_their_tags(tmp_path: Path) -> None:
    journal = tmp_path / "runs.db"
    for run_id, tags in (
        ("one", {"customer": "acme"}),
        ("two", {"customer": "beta", "urgent": ""}),
    ):
        agent = ReActAgent("a", ScriptedModel(["Yes."]), journal=journal)
        agent.reply_sync("go", run_id=run_id, tags=tags)
    done = moothall("runs", "--journal", journal, "--tag", "customer=acme", cwd=tmp_path)
    _, one, _ = done.stdout.splitlines()
    assert (one.split()[0], one.endswith("  a      [customer=acme] go")) == ("one", True)
    done = moothall(
        "runs", "--journal", journal, "--tag", "customer", "--tag", "urgent", "--json", cwd=tmp_path
    )
    (found,) = json.loads(done.stdout)["runs"]
    assert (found["id"], found["tags"]) == ("two", {"customer": "beta", "urgent": ""})
    done = moothall("runs", "--journal", journal, "--tag", "=acme", cwd=tmp_path)
    assert done.returncode == 2
    assert "a name must have 1 to 64 printable characters" in done.stderr


def test_runs_of_long_ids_and_threads_leave_room_for_their_tasks(tmp_path: Path) -> None:
    ids = [f"{n}{'0' * 31}" for n in (1, 2)]
    with Journal(tmp_path / "runs.db") as journal:
        clerk = ReActAgent("Clerk", ScriptedModel(["Done."] * 2), journal=journal)
        for each in ids:
            clerk.reply_sync("Refund what came too late.", run_id=each, thread=f"openai/{each}")
    args = ("runs", "--journal", "runs.db")
    _, *lines, _ = moothall(*args, cwd=tmp_path, COLUMNS="100").stdout.splitlines()
    assert all("Refund what came too late." in each and len(each) <= 100 for each in (*lines,))
    for line, id in zip(lines, ids, strict=True):
        assert moothall("runs", line.split("…")[0], "--journal", "runs.db", cwd=tmp_path)
        assert id.startswith(line.split("…")[0])
    assert ids[0] in moothall(*args, cwd=tmp_path, COLUMNS="0").stdout
