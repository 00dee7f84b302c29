"""Cases from runs, lists and files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import commands
from evals import shop
from moothall import ConfigError, Journal, Later, ReActAgent, ScriptedModel, action
from moothall.evals import Case, Dataset


async def test_cases_of_runs_are_what_was_asked_and_come_back_from_their_file(
    runs: Journal, tmp_path: Path
) -> None:
    data = Dataset.from_runs(runs, text="A0")
    assert [(e.name, e.inputs, e.expected, e.run) for e in data] == [
        ("run-0", "Where is A0", None, "run-0"),
    ]
    data = Dataset([*data, Case("odd", "one\u2028two\x85three\x0c")], journal=runs)
    data.to_file(tmp_path / "cases.jsonl")
    again = Dataset.from_file(tmp_path / "cases.jsonl", journal=runs)
    assert again.cases == data.cases


async def test_cases_of_a_deleted_run_are_left_out(runs: Journal, tmp_path: Path) -> None:
    Dataset.from_runs(runs).to_file(tmp_path / "cases.jsonl")
    runs.delete("run-1")
    data = Dataset.from_file(tmp_path / "cases.jsonl", journal=runs)
    assert [each.run for each in data] == ["run-0", "run-2"]
    assert data.left_out == {"run-1": "its run was deleted"}


def test_cases_of_a_run_that_a_command_deletes_are_named_with_their_file(
    runs: Journal, tmp_path: Path
) -> None:
    data = Dataset.from_runs(runs)
    for _ in range(2):
        data.to_file(tmp_path / "cases.jsonl")  # noted once
    runs.close()
    done = commands.run("runs", "delete", "run-1", "--journal", runs.path, text=True)
    assert done.stdout.count(str(tmp_path / "cases.jsonl")) == 1
    command = ("eval", "shop:desk", "--runs", runs.path, "--cases", "cases.jsonl")
    (tmp_path / "shop.py").write_text(Path(shop.__file__).read_text())
    done = commands.run(*command, "--model", "recorded", cwd=tmp_path, text=True)
    assert "left out: run run-1: its run was deleted" in done.stdout


def test_cases_are_named_by_a_deletion_only_where_their_file_was_written(
    runs: Journal, tmp_path: Path
) -> None:
    path = tmp_path / ("folder " * 20) / ("deep " * 20) / "täglich\n.jsonl"
    with pytest.raises(FileNotFoundError):
        Dataset.from_runs(runs).to_file(path)
    assert runs.delete("run-0").files == []
    path.parent.mkdir(parents=True)
    Dataset.from_runs(runs).to_file(path)
    assert runs.delete("run-1").files == [str(path)]


@pytest.mark.parametrize(
    ("name", "text"),
    (
        ("a.jsonl", '{"input": "2+2?", "target": "4", "id": 7, "metadata": {"level": "easy"}}\n'),
        ("a.json", '[{"input": "2+2?", "target": "4", "id": 7, "level": "easy"}]'),
        ("a.csv", "id,input,target,level\n7,2+2?,4,easy\n"),
        (
            "a.yaml",
            "cases:\n- name: '7'\n  inputs: '2+2?'\n  expected_output: '4'\n"
            "  metadata: {level: easy}\n",
        ),
    ),
)
def test_cases_of_files_of_others_have_the_same_parts(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert Dataset.from_file(tmp_path / name).cases == [Case("7", "2+2?", "4", {"level": "easy"})]


@pytest.mark.parametrize(
    ("rows", "fault"),
    (
        ([{"question": "?"}], "{}, case 1 has no `inputs`, but question"),
        ([{"inputs": "a"}, {}], "{}, case 2 has no `inputs`, but nothing"),
        (["?"], "{}, case 1 must be an object with `inputs`, got '?'"),
        ([{"inputs": "?", "metadata": "x"}], "{}, case 1: metadata must be an object, got 'x'"),
        ([{"inputs": "?", "run": 7}], "{}, case 1: run must be the id of a run, got 7"),
        (
            [{"inputs": "?", "run": "r"}],
            "case 'case-1' is of the run 'r': name its journal=, or --runs",
        ),
        (
            [{"inputs": "a", "name": "x"}, {"inputs": "b", "id": "x"}],
            "two cases have the name 'x': give one another",
        ),
        ({"rows": []}, "{} must be a list of cases, or have one as `cases`"),
    ),
)
def test_cases_that_are_wrong_are_refused_with_their_place(
    tmp_path: Path, rows: Any, fault: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(rows))
    with pytest.raises(ConfigError) as refused:
        Dataset.from_file(path)
    assert str(refused.value) == fault.replace("{}", str(path))


def test_cases_are_read_from_files_of_five_kinds_and_written_to_one(tmp_path: Path) -> None:
    path = tmp_path / "cases.txt"
    with pytest.raises(ConfigError) as refused:
        Dataset.from_file(path)
    kinds = ".jsonl, .json, .csv, .yaml, .yml"
    assert str(refused.value) == f"cases are read from {kinds} files, got {str(path)!r}"
    with pytest.raises(ConfigError) as refused:
        Dataset([]).to_file(path)
    assert str(refused.value) == f"cases are written to a .jsonl file, got {str(path)!r}"
    with pytest.raises(ConfigError, match=r"^Dataset takes cases, got 'go'$"):
        Dataset(["go"])
    Dataset([Case("a", "Go"), Case("b", [1], {"x": None}, {"level": 0})]).to_file(
        path := tmp_path / "cases.jsonl"
    )
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"name": "a", "inputs": "Go"},
        {"name": "b", "inputs": [1], "expected": {"x": None}, "metadata": {"level": 0}},
    ]
    assert repr(Dataset.from_file(path)) == "<Dataset of 2 cases>"


def test_cases_ask_texts_chat_messages_and_other_json_as_text() -> None:
    chat = [{"role": "user", "content": "hi"}, {"role": "user", "content": "Go"}]
    asked = {"Go": ("Go", []), "chat": ("Go", chat[:1]), "list": (["a"], []), "none": ([], [])}
    for name, inputs in (("Go", "Go"), ("chat", chat), ("list", ["a"]), ("none", [])):
        assert Case(name, inputs).request == asked[name]
    assert Case("c", {"b": 1}).request == ('{"b": 1}', [])
    same = Case("other", {"a": 1.0, "b": True}, 3, {"x": 1}).contents
    assert Case("c", {"b": True, "a": 1}).contents == same
    assert Case("c", {"b": 1, "a": 1}).contents != same
    assert Case("c", {"b": True, "a": 1}, run="r").contents != same


async def test_cases_of_runs_are_those_that_somebody_has_called_bad_last(runs: Journal) -> None:
    for run, good in (("run-0", False), ("run-1", False), ("run-1", True), ("run-2", None)):
        runs.feedback(run, good=good, note="looked at")
    assert [each.run for each in Dataset.from_runs(runs, good=False)] == ["run-0"]
    assert [each.run for each in Dataset.from_runs(runs, good=True)] == ["run-1"]
    assert [each.run for each in Dataset.from_runs(runs)] == ["run-0", "run-1", "run-2"]


async def test_cases_of_runs_are_those_that_are_over(runs: Journal) -> None:
    @action()
    async def order() -> Any:
        """Order it."""
        return Later("parcel")

    model = ScriptedModel([{"name": "order", "args": {}}])
    await ReActAgent("desk", model, actions=[order], journal=runs).reply("Go", run_id="open")
    data = Dataset.from_runs(runs)
    assert [each.run for each in data] == ["run-0", "run-1", "run-2"]
    assert data.left_out == {"open": "it is waiting"}
