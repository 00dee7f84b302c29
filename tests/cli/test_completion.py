"""What a shell completes, asked of a real bash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from commands import run


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


def test_bash_completes_commands_options_and_values(tmp_path: Path) -> None:
    lines = (
        "moothall ",
        "moothall act --m",
        "moothall chat --model lo",
        "moothall models fetch qwen3-4",
    )
    program = "complete -p moothall\n"
    for line in lines:
        words = line.split(" ")
        program += (
            f"COMP_WORDS=({' '.join(words[:-1])} '{words[-1]}'); COMP_CWORD={len(words) - 1}\n"
            'COMPREPLY=(); _moothall_completion moothall; echo "${COMPREPLY[@]}"\n'
        )
    registered, commands, options, models, weights = bash(program, tmp_path).splitlines()
    assert registered == "complete -o nosort -F _moothall_completion moothall"
    assert commands.split() == [
        *(
            "act",
            "answer",
            "approvals",
            "budgets",
            "chat",
            "completion",
            "dead-letters",
            "doctor",
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
