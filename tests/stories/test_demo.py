"""What somebody sees who types `make demo`: asserted is the machinery, never a choice."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
DEMO = ROOT / "examples" / "demo.py"


def run(folder: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the demo from a folder that is not the project's."""
    return subprocess.run(
        [sys.executable, "-W", "error", str(DEMO), *args],
        cwd=folder,
        env={**os.environ, "COLUMNS": "80", **environment},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def between(output: str, start: str, end: str) -> str:
    assert output.count(start) == output.count(end) == 1
    return output.partition(start)[2].partition(end)[0]


@pytest.mark.parametrize(
    ("args", "seeds"),
    ((("local", "--seeds", "1"), 1), pytest.param((), 10, marks=pytest.mark.long)),
    ids=("short", "whole"),
)
@pytest.mark.timeout(300)
def test_demo_shows_messages_a_dual_act_and_a_town(
    tmp_path: Path, weights: Path, args: tuple[str, ...], seeds: int
) -> None:
    done = run(tmp_path, *args)
    output = done.stdout
    assert done.returncode == 0, output + done.stderr
    assert done.stderr == ""
    assert "Traceback" not in output
    assert "BROKEN" not in output
    assert "\x1b" not in output
    assert [line for line in output.splitlines() if len(line) > 80] == []
    assert [line for line in output.splitlines() if line != line.rstrip()] == []

    # What is real.
    assert "local:smollm2-135m" in output
    assert "often wrong" in output

    # Messages, each on its line: a discovery, a say and its answer, another agent's call.
    talk = between(output, "\n1  ", "\n2  ")
    for line in (
        r"You → \* +help$",
        r'Calculator → You +response +\{"add": \{…\}, "multiply": \{…\}\}$',
        r'Chatty → You +response +\{"say": \{…\}\}$',
        r'You → Chatty +say +"What is a city\?"$',
        r'Chatty → You +say +".+',
        r"Helper → Calculator +help$",
        r"Calculator → Helper +response +\{",
    ):
        assert len(re.findall(rf"^  {line}", talk, re.MULTILINE)) == 1, line
    calls = re.findall(r"^  Helper → Calculator +(?!help)\w+", talk, re.MULTILINE)
    answers = re.findall(r"^  Calculator → Helper +(?!response +\{)\w+", talk, re.MULTILINE)
    assert len(calls) == len(answers) == len(re.findall(r"^    chosen ", talk, re.MULTILINE))

    # One action permitted, one refused, and the rule said before.
    host = between(output, "\n2  ", "\n3  ")
    assert "list_files is permitted" in " ".join(host.split())
    assert re.search(r'^  Host → You +response +\["ARCHITECTURE\.md", ', host, re.MULTILINE)
    assert re.search(r'^  You → Host +shell_command command="whoami"$', host, re.MULTILINE)
    assert re.search(r'^  Host → You +error +"Host\.shell_command" not perm', host, re.MULTILINE)
    assert 'The refused caller got NotPermitted: "Host.shell_command" not permitted' in host

    # Each task has its outcome, and a word on whether it was the one asked for.
    tasks = between(output, "\n3  ", "\n4  ").split("\n  Instruction: ")[1:]
    assert [task.splitlines()[0] for task in tasks] == [
        "List the files",
        'Search for "Python" in README.md',
        "Read the file CHANGELOG.md",
        "Add 2 and 3",
    ]
    for task in tasks:
        assert len(re.findall(r"^    (chosen|the model called nothing)", task, re.MULTILINE)) == 1
        assert len(re.findall(r"^    [✓✗] ", task, re.MULTILINE)) == 1

    # One works and one decides: as many decisions as runs, and how it ended.
    reviewed = between(output, "\n4  ", "\n5  ").split("\n  Task: ")[1:]
    assert len(reviewed) == 3
    for task in reviewed:
        runs = len(re.findall(r"^    R called   \S", task, re.MULTILINE))
        decided = re.findall(r"^    H decides  (TERMINATE|REDIRECT: \S)", task, re.MULTILINE)
        assert 1 <= runs == len(decided) <= 2
        word = "accepted" if decided[-1] == "TERMINATE" else "not accepted"
        assert re.search(rf"^    [✓✗] {word} after {runs} of at most 2 runs$", task, re.MULTILINE)

    # What was read is quoted with where it is; what is not there is not.
    questions = between(output, "\n5  ", "\n6  ").split("\n  Question: ")[1:]
    assert len(questions) == 3
    for question in questions[:2]:
        found = re.findall(r"^    \[\d+\] (docs/[\w/-]+\.md)", question, re.MULTILINE)
        assert found
        assert all((ROOT / path).exists() for path in found)
    assert questions[2].rstrip().endswith("nothing relevant was found")

    # A day of a town: at home in the morning, at work by day.
    hours = re.findall(
        r"(\d\d:00)  .* (\d+) at home, +(\d+) at work,", between(output, "\n6  ", "\n7  ")
    )
    at_home = {hour: int(home) for hour, home, _ in hours}
    assert at_home["06:00"] > 920  # some work at night, and some begin at six
    assert at_home["10:00"] < 650
    assert max(int(work) for _, _, work in hours) > 150

    # The measure adds up, and the end tells how to go on.
    figures = between(output, "\n7  ", "\nWhere next")
    row = rf"^  [■·]{{{seeds}}} +(\d+) of {seeds}  \S"
    rows = [int(number) for number in re.findall(row, figures, re.MULTILINE)]
    assert len(rows) == 6
    right = rf"right: (\d+) of {4 * seeds}, and (\d+) of {2 * seeds};"
    suited, other = re.findall(right, figures)[0]
    assert (int(suited), int(other)) == (sum(rows[:4]), sum(rows[4:]))
    end = output.partition("\nWhere next")[2]
    # First what README puts first, each with what it is for.
    first, second = re.findall(r"^  \S*moothall (.*)", end, re.MULTILINE)[:2]
    assert re.fullmatch(r"act '.*' +\w.*", first)
    assert re.fullmatch(r"chat +\w.*", second)
    assert re.search(r"moothall models fetch qwen3-0\.6b +\S", end)
    for path in re.findall(r"(?:examples|docs)/[\w-]+\.\w+", end):
        assert (ROOT / path).exists(), path
    assert "Every message was delivered and every chosen action executed" in end


def test_demo_without_the_weights_says_what_to_do(tmp_path: Path) -> None:
    done = run(tmp_path, MOOTHALL_HOME=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    assert line.startswith("The demo cannot start: ")
    assert line.endswith("run: moothall models fetch")


def test_demo_of_an_unknown_model_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, "nobody:nothing")
    assert done.returncode == 1
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    assert line.startswith("The demo cannot start: there is no model 'nobody:nothing'")
