"""Kill -9 of our program during journaled MCP calls: what ended is not repeated."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def killed(tmp_path: Path, calls: int, kills: int) -> None:
    """Kill a run now and then, go on, and count what its server was asked for."""
    log = tmp_path / "log"
    log.touch()
    dice = random.Random(42)
    at = sorted(dice.sample(range(1, calls), kills))
    command = [
        sys.executable,
        "-m",
        "serving.mcp_servers.killed",
        str(tmp_path / "runs.db"),
        str(log),
    ]
    doubts: list[str] = []
    said = ""
    for number in [*at, calls + 1]:
        with subprocess.Popen(
            [*command, str(calls)], stdout=subprocess.PIPE, text=True, cwd=ROOT / "tests"
        ) as running:
            assert running.stdout is not None
            for line in running.stdout:
                said = line
                doubts += line.split()[1:] if line.startswith("doubt") else []
                if line == f"asks {number}\n":
                    # Some instructions later, so that the call is sent, or not, or has ended.
                    for _ in range(dice.randrange(200_000)):
                        pass
                    running.send_signal(signal.SIGKILL)
    called = Counter(
        line.rpartition('"text": "')[2].rstrip('"}')
        for line in log.read_text().splitlines()
        if line.startswith("called echo")
    )
    assert "ended done" in said
    assert max(called.values()) == 1  # none was repeated
    # A call that has no end was in doubt; what was in doubt may or may not have reached the server.
    assert {f"n{n}" for n in range(calls)} == called.keys() | set(doubts)
    assert len(doubts) <= kills


def test_mcp_calls_of_a_killed_run_are_not_repeated_and_else_in_doubt(tmp_path: Path) -> None:
    killed(tmp_path, 12, 1)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_mcp_200_calls_of_a_run_killed_twenty_times(tmp_path: Path) -> None:
    killed(tmp_path, 200, 20)
