"""Exit codes by one rule, over all commands: 2 if nothing began, 1 if it failed, 130 by Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from commands import Command, run
from models.openai_server import HANG, OpenAIServer, status
from moothall import Journal, ReActAgent, ScriptedModel

NOWHERE = "/nonexistent/x"
SERVER = "http://127.0.0.1:1/v1#m"
TOWN = ("simulate", "--citizens", "10", "--days", "0.125", "--step", "3h")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (made / "notes.txt").write_text("The milk is oat milk.\n")
    (made / "failing.py").write_text("1 / 0\n")
    (made / "text.db").write_text("Dear diary, " * 100)
    with Journal(tmp_path / "runs.db") as journal:
        agent = ReActAgent("a", ScriptedModel(["Yes."]), journal=journal)
        agent.reply_sync("go", run_id="r")
        asyncio.run(begun(journal))
    return made


async def begun(journal: Journal) -> None:
    """A run of which nothing is recorded."""
    part = await journal.begin("empty", "ReActAgent", "a", "go")
    part.close()


def moothall(*args: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    cleared = dict.fromkeys(
        ("MOOTHALL_MODEL", "MOOTHALL_ROOT", "MOOTHALL_KEY", "OPENAI_API_KEY"), ""
    )
    env = {**os.environ, **cleared, "MOOTHALL_JOURNAL": "", **environment}
    return run(*args, cwd=folder, env=env)


NOT_BEGUN = (
    ("nope",),
    ("act",),
    ("act", "x", "--nope"),
    ("act", "x", "--model", "nope"),
    ("act", "x", "--model", "openai:gpt-4o"),
    ("act", "x", "--model", "local:nope"),
    ("act", "x", "--model", "gguf:nope.gguf"),
    ("act", "x", "--model", SERVER, "--root", NOWHERE),
    ("act", "x", "--model", SERVER, "--journal", NOWHERE),
    ("act", "x", "--model", SERVER, "--review", "nope"),
    ("chat", "--model", "nope"),
    ("chat", "--model", "openai:gpt-4o"),
    ("chat", "--root", NOWHERE, "--model", SERVER),
    ("chat", "--model", SERVER, "--agent", "nowhere:x"),
    ("chat", "--model", SERVER, "--agent", "failing:x"),
    ("completion", "cmd"),
    ("help", "nope"),
    ("models", "--nope"),
    ("models", "fetch", "nope"),
    ("replay", "r", "--journal", NOWHERE),
    ("replay", "nobody", "--journal", "../runs.db"),
    ("research", "x"),
    ("research", "x", "--folder", NOWHERE),
    ("research", "x", "--folder", ".", "--model", "nope"),
    ("research", "x", "--folder", ".", "--model", "openai:gpt-4o"),
    ("research", "x", "--folder", ".", "--out", NOWHERE),
    ("research", "x", "--folder", ".", "--out", ""),
    ("research", "x", "--folder", ".", "--html", "notes.txt/x.html"),
    ("research", "x", "--folder", ".", "--journal", NOWHERE),
    ("research", "x", "--folder", ".", "--journal", "/proc/x.db"),
    ("resume", "r"),
    ("resume", "r", "--journal", "text.db"),
    ("resume", "nobody", "--journal", "../runs.db"),
    ("resume", "r", "--journal", "../runs.db", "--agent", "nowhere:x"),
    ("runs",),
    ("runs", "--journal", NOWHERE),
    ("runs", "nobody", "--journal", "../runs.db"),
    ("serve", "nowhere:x"),
    ("serve", "failing:x"),
    ("simulate", "--step", "soon"),
    ("simulate", "nowhere.yaml"),
    (*TOWN, "--model", "nope"),
    (*TOWN, "--model", "openai:gpt-4o", "--yes"),
    (*TOWN, "--out", "notes.txt/tables"),
    (*TOWN, "--journal", NOWHERE),
    ("studio", "--port", "x"),
    ("studio", "--root", NOWHERE, "--model", SERVER),
    ("studio", "--journal", NOWHERE, "--model", SERVER),
    ("dead-letters", "resend"),
)
FAILED = (
    ("act", "x", "--model", SERVER),
    ("research", "x", "--folder", ".", "--model", SERVER),
    ("replay", "empty", "--journal", "../runs.db"),
    ("resume", "empty", "--journal", "../runs.db"),
    ("dead-letters",),
    ("chat", "--amqp"),
)
DONE = (
    (),
    ("--help",),
    ("help", "act"),
    ("completion", "bash"),
    ("models",),
    ("research", "Which milk?", "--folder", "."),
    ("runs", "r", "--journal", "../runs.db"),
    ("replay", "r", "--journal", "../runs.db"),
    ("resume", "r", "--journal", "../runs.db"),
    TOWN,
)


@pytest.mark.parametrize(
    ("code", "args"),
    [(2, args) for args in NOT_BEGUN]
    + [(1, args) for args in FAILED]
    + [(0, args) for args in DONE],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, tuple) else str(value),
)
def test_exit_code_is_by_one_rule(folder: Path, code: int, args: tuple[str, ...]) -> None:
    done = moothall(*args, folder=folder, AMQP_PORT="9")
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    if code == 2:
        assert done.stdout == ""
        assert done.stderr.rstrip() != ""
        assert not (folder.parent / "nonexistent").exists()
    elif code == 1:
        assert done.stderr.rstrip() != ""


@pytest.mark.parametrize(
    ("args", "environment", "file", "said"),
    (
        (("act", "x", "--root", NOWHERE), {}, "", "Error: --root: "),
        (("act", "x"), {"MOOTHALL_ROOT": NOWHERE}, "", "Error: MOOTHALL_ROOT: "),
        (("act", "x"), {}, f"root = '{NOWHERE}'", "Error: moothall.toml: "),
        (("act", "x", "--model", "n"), {}, "", "Error: --model: "),
        (("act", "x"), {"MOOTHALL_MODEL": "n"}, "", "Error: MOOTHALL_MODEL: "),
        (("act", "x"), {}, "model = 'n'", "Error: moothall.toml: "),
        (("chat",), {"MOOTHALL_MODEL": "n"}, "model = 'm'", "Error: MOOTHALL_MODEL: "),
        (("chat", "--model", SERVER), {}, f"root = '{NOWHERE}'", "Error: moothall.toml: "),
        (("runs",), {"MOOTHALL_JOURNAL": NOWHERE}, "", "moothall: MOOTHALL_JOURNAL: "),
        (("runs", "--journal", NOWHERE), {}, "", "moothall: --journal: "),
    ),
)
def test_error_names_where_the_setting_comes_from(
    folder: Path, args: tuple[str, ...], environment: dict[str, str], file: str, said: str
) -> None:
    (folder / "moothall.toml").write_text(file)
    done = moothall(*args, folder=folder, **environment)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(said)


def test_command_tells_all_faults_at_once(folder: Path) -> None:
    wrong = ("research", "x", "--model", "nope", "--html", NOWHERE, "--out", "no/x", "--role", "r")
    lines = moothall(*wrong, folder=folder).stderr.splitlines()[3:]
    assert [line.partition(" ")[0] for line in lines] == ["Error:", "--model:", "--out:", "--html:"]
    wrong = ("act", "x", "--root", NOWHERE, "--model", "nope", "--review", "no")
    lines = moothall(*wrong, folder=folder).stderr.splitlines()[3:]
    assert [line.split()[-2 if n < 0 else 0] for n, line in enumerate(lines)] == [
        "Error:",
        "--model:",
        "--review:",
    ]


# -- errors on standard error, answers on standard output ------------------------------------------


def test_reason_why_a_run_failed_is_on_standard_error(folder: Path) -> None:
    with OpenAIServer(status(400, "no such model")) as server:
        done = moothall("act", "x", "--model", f"{server.url}#m", folder=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "failed: ModelError: " in done.stderr


def test_json_is_whole_on_standard_output_when_a_run_fails(folder: Path) -> None:
    with OpenAIServer(status(400, "no such model")) as server:
        done = moothall("act", "x", "--json", "--model", f"{server.url}#m", folder=folder)
    assert (done.returncode, done.stderr) == (1, "")
    assert '"stop_reason": "error"' in done.stdout.splitlines()[-1]


# -- Ctrl-C ----------------------------------------------------------------------------------------

BUSY = """
import asyncio, sys, time
from moothall.cli.interrupts import interruptible

async def main():
    print("begun", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("cleaning up", flush=True)
        while len(sys.argv) > 1:  # what does not end by itself
            time.sleep(0.01)

try:
    interruptible(main())
except KeyboardInterrupt:
    print("ended")
"""


@pytest.mark.parametrize("number", (signal.SIGINT, signal.SIGTERM))
def test_ctrl_c_and_sigterm_say_at_once_that_the_command_stops(folder: Path, number: int) -> None:
    with OpenAIServer(HANG) as server:
        process = Command(
            *("act", "x", "--model", f"{server.url}#m"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            text=True,
        )
        server.wait_for_request()
        process.send_signal(number)
        _, said = process.communicate(timeout=50)
    assert process.returncode == 130
    assert said.splitlines()[0] == "stopping; Ctrl-C again ends it at once"


@pytest.mark.parametrize("hangs", (False, True))
def test_second_ctrl_c_ends_a_command_that_does_not_stop(tmp_path: Path, hangs: bool) -> None:
    (tmp_path / "busy.py").write_text(BUSY)
    with subprocess.Popen(
        [sys.executable, "busy.py", *(["hangs"] if hangs else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        restore_signals=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == "stopping; Ctrl-C again ends it at once\n"
        assert process.stdout.readline() == "cleaning up\n"
        if hangs:
            process.send_signal(signal.SIGINT)
        assert process.wait(50) == (130 if hangs else 0)


def test_ctrl_c_ends_the_making_of_a_town(folder: Path) -> None:
    process = Command(
        *("simulate", "--citizens", "9000"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "making a town of 9,000\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=50)
    assert process.returncode == 130
    assert "interrupted" in said
