"""Durable functions whose process is killed: each ends, and no ended step is done again."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "killed_functions.py"
RUNS = 12


def uncut(run: int) -> str:
    """Return what a run gives that nobody kills."""
    if run % 5 == 0:
        return "refused"
    total = run * 40 + 6
    return f"sum {total}, paid {total}, {total + run * 40 + 22}"


@pytest.mark.parametrize("kills", (6, pytest.param(200, marks=pytest.mark.long)))
def test_killed_functions_go_on_and_do_no_ended_step_again(kills: int, tmp_path: Path) -> None:
    draw, killed, round_number = random.Random(kills), 0, 0
    calls = Counter[str]()
    while killed < kills:
        folder = tmp_path / str(round_number)
        folder.mkdir()
        log = folder / "log"
        log.touch()
        command = [sys.executable, str(PROGRAM), str(folder / "runs.db"), str(log), str(RUNS)]
        kills_here, done = 0, ""
        while not done:
            program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            try:
                seconds = draw.uniform(0.15, 0.35) if killed < kills else 60
                done, _ = program.communicate(timeout=seconds)
                assert program.returncode == 0
            except subprocess.TimeoutExpired:
                program.kill()
                program.communicate()
                killed, kills_here = killed + 1, kills_here + 1
        assert json.loads(done) == [uncut(run) for run in range(RUNS)]
        calls = Counter(log.read_text().splitlines())
        assert [line for line, n in calls.items() if line.startswith("charge") and n > 1] == []
        # A fetch is done again only by a kill in its midst: at most one for each kill and task.
        assert sum(calls.values()) - len(calls) <= kills_here * RUNS * 4
        round_number += 1
