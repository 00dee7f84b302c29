"""What ends the process of a company each time that it goes on waits for its operator."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from commands import run as run_command
from moothall import Journal
from moothall.serving.company.controls import ScheduleControl

TESTS = Path(__file__).resolve().parents[2]
HEAD = "journal: runs.db\ndrain: 0s\nagents:\n"
WORKER = HEAD + "  worker: {ref: 'serving.company.deadly_program:worker'}\n"
FIRINGS = {
    "a plain action": HEAD
    + "  big: {ref: 'serving.company.deadly_program:Reader'}\n"
    + "schedules: {often: {cron: 0 0 1 1 *, to: big, action: read_big}}\n",
    "a reply": WORKER
    + "schedules: {often: {cron: 0 0 1 1 *, to: worker, args: {content: Do deadly}}}\n",
}


def start(folder: Path, *work: str) -> subprocess.CompletedProcess[str]:
    return run_command(folder, *work, module="serving.company.deadly_program", cwd=TESTS)


def test_company_with_a_deadly_run_among_twenty_is_ready_within_four_starts(tmp_path: Path) -> None:
    (tmp_path / "company.yaml").write_text(WORKER)
    work = [*(f"work{number}" for number in range(19)), "deadly"]
    starts = [start(tmp_path, *work), *(start(tmp_path) for _ in "123")]
    assert [each.returncode for each in starts] == [-9, -9, -9, 0], starts[-1].stderr
    report: dict[str, Any] = json.loads(starts[-1].stdout)
    assert report["health"]["ready"]
    assert Counter(report["runs"].values()) == {"done": 19, "stopped": 1}
    ((run, agent),) = report["waits"]
    assert (report["runs"][run], agent) == ("stopped", "worker")


@pytest.mark.parametrize("call", FIRINGS)
def test_firing_that_is_deadly_waits_for_its_operator_after_three_deaths(
    tmp_path: Path, call: str
) -> None:
    (tmp_path / "company.yaml").write_text(FIRINGS[call])
    with Journal(tmp_path / "runs.db") as journal:
        ScheduleControl(journal, "often", "eva").fire()
        starts = [start(tmp_path) for _ in "1234"]
        assert [each.returncode for each in starts] == [-9, -9, -9, 0], starts[-1].stderr
        assert json.loads(starts[-1].stdout)["health"]["ready"]
        (wait,) = journal.waiting()
        assert wait.kind == "operator"
        journal.answer(wait.run, wait.key, "resume", by="eva")
        assert start(tmp_path).returncode == -9
        assert [start(tmp_path).returncode for _ in "123"] == [-9, -9, 0]
        journal.answer(wait.run, wait.key, "cancel", by="eva")
        assert journal.run(wait.run).state == "cancelled"
        assert journal.waiting() == []
    assert (tmp_path / "deaths").read_text() == "x" * 6
