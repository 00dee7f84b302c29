"""The file tasks that dual act is measured by: both ends are possible, and told apart."""

from __future__ import annotations

import asyncio
import importlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from moothall import ReActAgent, Reply, ScriptedModel, Usage

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def filetasks(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.filetasks")


@pytest.fixture
def dualact(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.dualact")


def go(filetasks: Any, task: Any, way: Any, root: Path) -> Reply:
    """What comes of going a way over the folder as it is at first."""
    task.fill(root)
    calls = [{"name": name, "args": args} for name, args in way.calls]
    model = ScriptedModel([*calls, way.answer])
    return ReActAgent("a", model, actions=filetasks.offered(root)).reply_sync(task.text)


def test_benchmark_file_tasks_are_sixty_and_all_different(filetasks: Any) -> None:
    assert len({task.text for task in filetasks.TASKS}) == 60
    kinds = Counter(task.kind for task in filetasks.TASKS)
    assert kinds == {"lookup": 15, "count": 15, "misleading": 15, "edit": 15}


def test_benchmark_file_task_tells_the_right_way_from_the_wrong_one(
    filetasks: Any, tmp_path: Path
) -> None:
    failed: Counter[bool] = Counter()
    for number, task in enumerate(filetasks.TASKS):
        root = tmp_path / str(number)
        root.mkdir()
        for way, right in ((task.wrong, False), (task.right, True)):
            reply = go(filetasks, task, way, root)
            assert reply.text == way.answer
            assert task.is_done(root, reply.text) is right, (task.text, way)
            failed[right] += any(step.error is not None for step in reply.steps)
            # Both answers rest on what was seen last, unless that failed: the wrong one misleads.
            last = reply.steps[-1]
            if task.kind != "edit" and last.error is None:
                result = last.result["result"]
                seen = [str(len(result))] if task.kind == "count" else str(result)
                assert way.answer in seen, (task.text, way)
    assert failed == {False: 15, True: 5}


def test_benchmark_file_task_over_a_changed_folder_finds_the_right_answer_wrong(
    filetasks: Any, tmp_path: Path
) -> None:
    task = next(task for task in filetasks.TASKS if task.kind == "count")
    task.fill(tmp_path)
    assert task.is_done(tmp_path, task.right.answer)
    (tmp_path / "more.txt").write_text("more")
    assert not task.is_done(tmp_path, task.right.answer)


def test_benchmark_edit_is_judged_by_its_test_and_not_by_what_is_said(
    filetasks: Any, tmp_path: Path
) -> None:
    task = next(task for task in filetasks.TASKS if task.kind == "edit")
    task.fill(tmp_path)
    assert not task.is_done(tmp_path, task.right.answer), "nothing is mended yet"
    (name, args) = task.right.calls[-1]
    assert name == "write_file"
    (tmp_path / args["file_name"]).write_text(args["text"])
    assert task.is_done(tmp_path, "I gave up.")
    (tmp_path / task.test).write_text("import sys\nsys.exit('the test ran')\n")
    assert not task.is_done(tmp_path, task.right.answer)


def test_workers_err_as_often_as_is_stated(filetasks: Any, dualact: Any) -> None:
    def errors(kind: str, attempt: int) -> float:
        fates = [
            dualact.Fate(task, kind, 0.3, seed) for task in filetasks.TASKS for seed in range(40)
        ]
        return sum([fate.next() for _ in range(attempt)][-1] is False for fate in fates) / len(
            fates
        )

    for kind in dualact.KINDS:
        assert errors(kind, 1) == pytest.approx(0.3, abs=0.03)
    assert errors("independent", 3) == pytest.approx(0.3, abs=0.03)
    assert errors("correlated", 3) == pytest.approx(0.3, abs=0.03)
    assert errors("persistent", 2) == pytest.approx(0.3 * 0.8 + 0.7 * 0.3, abs=0.03)


@pytest.mark.parametrize("kind", ("lookup", "count", "misleading", "edit"))
def test_benchmark_reviewer_that_is_always_right_has_an_error_done_again(
    filetasks: Any, dualact: Any, tmp_path: Path, kind: str
) -> None:
    class Once(dualact.Fate):  # type: ignore[name-defined, misc]
        """Errs at the first attempt alone."""

        def next(self) -> bool:
            self.ends.append(bool(self.ends))
            return self.ends[-1]

    task = next(task for task in filetasks.TASKS if task.kind == kind)
    place = dualact.Place(task, tmp_path / "a")

    def fate() -> Any:
        return Once(task, "independent", 0.5, 0)

    alone = asyncio.run(dualact.alone(place, fate()))
    twice = asyncio.run(dualact.twice(place, fate()))
    every = asyncio.run(dualact.dual(place, fate(), 1.0, "every"))
    misled = asyncio.run(dualact.dual(place, fate(), 0.0, "every"))
    assert (alone.right, alone.r_runs, alone.h_decisions) == (False, 1, 0)
    assert (twice.right, twice.r_runs) == (True, 2)
    assert (every.right, every.r_runs, every.h_decisions) == (True, 2, 2)
    assert (misled.right, misled.r_runs, misled.h_decisions) == (False, 1, 1)
    assert 0 < alone.tokens < twice.tokens < every.tokens


def test_benchmark_majority_of_attempts_is_the_larger_side(dualact: Any) -> None:
    def end(right: bool) -> Any:
        return dualact.Outcome(right, Usage(1, 1), 1, end="right" if right else "wrong")

    def most(ends: str, **how: bool) -> bool:
        return bool(dualact.majority([end(each == "r") for each in ends], **how).right)

    assert [most(ends) for ends in ("r", "wr", "rw", "wrr", "wwr")] == [1, 0, 1, 1, 0]
    assert most("wwrr", errors_differ=True)
    assert not most("wwr", errors_differ=True), "of a tie, the first"
    assert dualact.majority([end(True)] * 3).tokens == 6
