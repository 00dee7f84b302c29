"""`moothall eval`: its table, JSON, page and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import commands
from moothall import Journal
from moothall.evals import Dataset

SHOP = Path(__file__).parent / "shop.py"


@pytest.fixture
def folder(runs: Journal, tmp_path: Path) -> Path:
    """A folder with the recorded runs, a shop and an older version of it."""
    text = SHOP.read_text()
    (tmp_path / "shop.py").write_text(text)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "shop.py").write_text(text.replace("at the desk", "at the till"))
    return tmp_path


def evaluated(folder: Path, *args: object, agent: str = "shop:desk") -> Any:
    command = ("eval", agent, "--runs", "runs.db", *args)
    return commands.run(*command, cwd=folder, text=True)


def test_eval_of_the_recorded_program_is_equal_and_exits_with_0(folder: Path) -> None:
    done = evaluated(folder, "--min", "same_calls_as_record=0.95")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1].split()[:3] == ["same_calls_as_record", "recorded", "1"]


def test_eval_of_a_changed_prompt_exits_with_1_below_its_minimum(folder: Path) -> None:
    done = evaluated(folder, "--min", "same_calls_as_record=0.95", agent="old/shop.py:desk")
    assert done.returncode == 1
    assert "same_calls_as_record of recorded is 0, below 0.95" in done.stderr
    assert "another message 1, the system prompt" in done.stdout


def test_eval_against_another_version_compares_case_by_case(folder: Path) -> None:
    options = ("--against", "old/shop.py:desk", "--html", "page.html", "--json")
    done = evaluated(folder, *options)
    assert done.returncode == 0
    data = json.loads(done.stdout)
    means = {each["condition"]: each["mean"] for each in data["means"]}
    assert means == {"old/shop.py:desk": 0.0, "recorded": 1.0}
    assert [(each["mean"], each["n"]) for each in data["differences"]] == [(1.0, 3)]
    assert "run-1" in (folder / "page.html").read_text()


def test_eval_takes_the_public_functions_of_a_file_as_graders(folder: Path) -> None:
    graders = "def is_here(reply, case):\n    return 'is here' in reply.text\n"
    (folder / "graders.py").write_text(graders)
    done = evaluated(folder, "--graders", "graders.py", "--min", "is_here=1", "--text", "A1")
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].split() == ["is_here", "recorded", "1", "1"]


def test_eval_of_a_file_whose_evaluators_are_not_installed_says_so(folder: Path) -> None:
    cases = "evaluators: [EqualsExpected]\ncases:\n- {name: a, inputs: Where is A1}\n"
    (folder / "cases.yaml").write_text(cases)
    (folder / "graders.py").write_text("def is_text(reply, case):\n    return True\n")
    done = evaluated(folder, "--cases", "cases.yaml", "--graders", "graders.py")
    assert done.returncode == 0
    assert "cases.yaml names evaluators" in done.stderr
    assert "pip install moothall[pydantic-evals]" in done.stderr


@pytest.mark.parametrize(
    ("args", "fault"),
    (
        (("--agent", "nobody"), "there is no case: no run of agent 'nobody' that is over"),
        (("--against", "gone.py:desk"), "'gone.py:desk': there is no file"),
        (("--against", "old/shop.py:bank"), "has no 'bank'"),
        (("--cases", "one.csv"), "name graders by --graders: a case has no recorded run"),
        (("--min", "same_calls_as_record"), "--min must be GRADER=NUMBER"),
        (("--min", "other=1"), "--min must be one of same_calls_as_record, got 'other'"),
        (("--graders", "nothing.py"), "there is no file"),
        (("--live", "sell"), "live=: agent 'desk' has no action 'sell'"),
    ),
)
def test_eval_that_is_typed_wrong_exits_with_2(
    folder: Path, args: tuple[str, ...], fault: str
) -> None:
    (folder / "one.csv").write_text("name,inputs\na,Where is A1\n")
    done = evaluated(folder, *args)
    assert done.returncode == 2
    assert fault in done.stderr


def test_eval_of_a_file_of_recorded_cases_asks_no_model_unless_one_is_named(folder: Path) -> None:
    data = Dataset.from_runs(str(folder / "runs.db"))
    data.to_file(folder / "cases.jsonl")
    done = evaluated(folder, "--cases", "cases.jsonl")
    assert done.stdout.splitlines()[1].split()[:3] == ["same_calls_as_record", "recorded", "1"]


def test_eval_of_cases_without_runs_compares_two_versions_by_their_own_models(folder: Path) -> None:
    (folder / "one.csv").write_text("name,inputs\na,Where is A1\n")
    (folder / "graders.py").write_text("def is_text(reply, case):\n    return bool(reply.text)\n")
    options = ("--cases", "one.csv", "--graders", "graders.py", "--against", "old/shop.py:desk")
    done = evaluated(folder, *options)
    rows = [each.split()[:3] for each in done.stdout.splitlines()[1:3]]
    assert (done.returncode, rows) == (
        0,
        [["is_text", "old/shop.py:desk", "1"], ["is_text", "shop:desk", "1"]],
    )
