"""What a shell completes, asked of a real bash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from commands import run
from moothall import ACCESS_REQUESTED, Action, Journal, ReActAgent, ScriptedModel, Waiting


def printed(*args: str) -> subprocess.CompletedProcess[str]:
    return run("completion", *args)


def bash(program: str, folder: Path) -> str:
    """What bash prints, with the script loaded and `moothall` on its path."""
    (folder / "bin").mkdir()
    command = folder / "bin" / "moothall"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m moothall "$@"\n')
    command.chmod(0o755)
    (folder / "script").write_text(printed("bash").stdout)
    done = subprocess.run(
        ["bash", "--norc", "-c", f"source ./script\n{program}"],
        capture_output=True,
        text=True,
        timeout=50,
        cwd=folder,
        env={**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def completing(*lines: str) -> str:
    """A program that prints what each line is completed to."""
    program = ""
    for line in lines:
        words = line.split(" ")
        program += (
            f"COMP_WORDS=({' '.join(words[:-1])} '{words[-1]}'); COMP_CWORD={len(words) - 1}\n"
            'COMPREPLY=(); _moothall_completion moothall; echo "${COMPREPLY[@]}"\n'
        )
    return program


def test_bash_completes_commands_options_and_values(tmp_path: Path) -> None:
    lines = (
        "moothall ",
        "moothall act --m",
        "moothall chat --model lo",
        "moothall models fetch qwen3-4",
    )
    program = "complete -p moothall\n" + completing(*lines)
    registered, commands, options, models, weights = bash(program, tmp_path).splitlines()
    assert registered == "complete -o nosort -F _moothall_completion moothall"
    assert commands.split() == [
        *(
            "act",
            "answer",
            "budgets",
            "chat",
            "completion",
            "dead-letters",
            "doctor",
            "eval",
            "help",
            "mcp",
            "memory",
            "models",
            "replay",
            "research",
            "resume",
            "runs",
            "schedules",
            "serve",
            "simulate",
            "studio",
            "waiting",
        ),
    ]
    limits = ["--max-iterations", "--max-seconds", "--max-tokens", "--max-usd"]
    assert options.split() == ["--model", *limits]
    assert models.split()[:2] == ["local", "local:smollm2-135m"]
    assert weights == "qwen3-4b"


def test_bash_completes_runs_what_they_wait_for_agents_and_states(tmp_path: Path) -> None:
    pay = Action("pay", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)
    with Journal(tmp_path / "runs.db") as journal:
        script = ScriptedModel([{"name": "pay"}, "Done."])
        clerk = ReActAgent("clerk", script, actions=[pay], journal=journal, approver=Waiting())
        assert clerk.reply_sync("Pay.", run_id="r-waits").stop_reason == "waiting"
        other = ReActAgent("other", ScriptedModel(["Done."]), journal=journal)
        assert other.reply_sync("Go.", run_id="r-done").text == "Done."
        (wait,) = journal.waiting()
    where = "moothall {} --journal runs.db "
    program = completing(
        *(where.format(each) for each in ("resume", "answer", "waiting permit")),
        where.format("answer") + "r-waits ",
        where.format("runs") + "--agent o",
        where.format("runs") + "--state done,sto",
        "moothall replay --journal missing.db ",
    )
    program += "export MOOTHALL_JOURNAL=runs.db\n" + completing("moothall replay r-d")
    waits = ["r-waits"]
    assert [line.split() for line in bash(program, tmp_path).splitlines()] == [
        *(waits, waits, [wait.key], [wait.key]),
        *(["other"], ["done,stopped"], [], ["r-done"]),
    ]
    assert not (tmp_path / "missing.db").exists()


def test_bash_completes_a_run_whose_id_needs_quotes_or_has_a_colon(tmp_path: Path) -> None:
    """What it completes is one word that names the run; bash has the part after a colon put in."""
    ids = ["of ann", "it's $1", "talk:1"]
    with Journal(tmp_path / "runs.db") as journal:
        agent = ReActAgent("a", ScriptedModel(["Done."] * 3), journal=journal)
        for each in ids:
            agent.reply_sync("Go.", run_id=each)
    program = ""
    for words in ("''", "talk :", "talk : ''"):  # as bash makes words of a line
        line = ["moothall", "runs", "--journal", "=", "runs.db", *words.split()]
        program += f"COMP_WORDS=({' '.join(line)}); COMP_CWORD={len(line) - 1}; COMPREPLY=()\n"
        program += "_moothall_completion moothall\n"
        program += 'for each in "${COMPREPLY[@]}"; do eval "printf \'%s\\n\' $each"; done\n'
    assert bash(program, tmp_path).splitlines() == [*reversed(ids), "1", "1"]


@pytest.mark.parametrize(
    ("shell", "begins"), (("zsh", "#compdef moothall"), ("fish", "function _moothall_completion"))
)
def test_shells_other_than_bash_have_their_scripts(shell: str, begins: str) -> None:
    done = printed(shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(begins)
    assert f"_MOOTHALL_COMPLETE={shell}_complete" in done.stdout


def test_shell_that_is_none_is_exit_code_2() -> None:
    done = printed("cmd")
    assert (done.returncode, done.stdout) == (2, "")
    assert "must be bash, zsh or fish, got 'cmd'" in done.stderr
