"""Sub-agents in the background, whose processes are killed: each result is told once."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from journal.conftest import Place
from moothall import Journal

PROGRAM = Path(__file__).parent / "killed_workers.py"
WORKERS = 12


class Killed:
    """The processes of one journal: who asks, who resumes, or both are killed."""

    def __init__(self, journal: str, model_calls: int, end: str = "waits") -> None:
        self.journal = journal
        self._args = [journal, str(WORKERS), str(model_calls), end]

    def start(self, role: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(PROGRAM), *self._args, role]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def reply(self, draw: random.Random, kills: int, *others: str) -> tuple[dict[str, Any], int]:
        """Return the reply, and how many processes were killed before it."""
        killed = 0
        processes = {role: self.start(role) for role in ("ask", *others)}
        while True:
            try:
                seconds = draw.uniform(0.3, 0.9) if killed < kills else 120
                said, _ = processes["ask"].communicate(timeout=seconds)
                break
            except subprocess.TimeoutExpired:
                roles = [*processes]
                for role in draw.choice([roles, *([each] for each in roles)]):
                    processes[role].kill()
                    processes[role].communicate()
                    processes[role] = self.start(role)
                    killed += 1
        for role in others:
            processes[role].kill()
            processes[role].communicate()
        assert processes["ask"].returncode == 0
        return json.loads(said), killed


@pytest.mark.parametrize("end", ("waits", "ends"))
@pytest.mark.parametrize("kills", (6, pytest.param(150, marks=pytest.mark.long)))
def test_background_results_are_told_once_whoever_is_killed(
    kills: int, end: str, place: Place
) -> None:
    draw, killed, number = random.Random(kills), 0, 0
    while killed < kills:
        reply, count = Killed(place(f"j{number}"), 10**6, end).reply(draw, kills - killed, "resume")
        heard = Counter(text.rpartition("\n")[2] for text in reply["heard"] if text != "Go.")
        assert heard == {f"task {n} is done": 1 for n in range(WORKERS)}
        assert reply["reason"] == "done"
        killed, number = killed + count, number + 1


@pytest.mark.parametrize("limit", (8, 20))
def test_background_work_spends_its_callers_budget_however_often_it_is_killed(
    limit: int, place: Place
) -> None:
    killed = Killed(place("runs"), limit)
    reply, _ = killed.reply(random.Random(limit), 4)
    with Journal(killed.journal) as journal:
        assert sum(each.model_calls for each in journal.runs()) <= limit
    assert reply["reason"] == "budget"
