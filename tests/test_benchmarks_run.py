"""The benchmarks run one after the other, each within its minutes; misses are named last."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from benchmarks.measure import emit, misses

ROOT = Path(__file__).resolve().parent.parent


def begun(*args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks", *args], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )


def test_benchmark_that_takes_too_long_is_ended_and_named_with_where_it_stood() -> None:
    with begun("--minutes", "0.01", "imports") as benchmarks:
        _, said = benchmarks.communicate(timeout=50)
    assert benchmarks.returncode == 1
    assert "Fatal Python error: Aborted" in said
    assert said.endswith(
        "failed:\n  benchmarks.imports used the processor for over 0.01 minutes; "
        "more: --minutes 0.04 imports\n"
    )


@pytest.mark.long
def test_benchmark_that_stands_still_is_ended_and_named() -> None:
    with begun("--minutes", "0.05", "imports") as benchmarks:
        while not (found := psutil.Process(benchmarks.pid).children()):
            pass
        os.kill(found[0].pid, signal.SIGSTOP)
        _, said = benchmarks.communicate(timeout=50)
    assert benchmarks.returncode == 1
    assert "benchmarks.imports stood still for 0.05 minutes; more:" in said


@pytest.mark.long
def test_rows_that_miss_their_target_are_printed_last_and_end_the_run_with_1() -> None:
    # Byte code that is kept nowhere: every import compiles, and takes longer than it may.
    slow = os.environ | {"PYTHONPYCACHEPREFIX": os.devnull}
    command = [sys.executable, "-m", "benchmarks", "--quick", "imports"]
    run = subprocess.run(command, cwd=ROOT, env=slow, capture_output=True, text=True, check=False)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert {"agent and space", "loop"} <= {row["variant"] for row in rows}
    _, _, last = run.stderr.partition("missed their target:\n")
    assert last.splitlines() == [
        f"  import: {row['variant']}: {row['value']:g} ms, ratio {row['ratio']:g}; target <= 100"
        for row in rows
        if "target" in row and row["value"] > 100
    ]
    assert "  import: loop: " in last
    assert run.returncode == 1


@pytest.mark.parametrize(
    ("row", "expected"),
    (
        ({"value": 100.0, "target": "<= 100"}, False),
        ({"value": 100.1, "target": "<= 100"}, True),
        ({"value": 3_999_999, "target": ">= 4e6"}, True),
        ({"value": 1.0, "ratio": 0.95, "target": ">= 0.95 ratio"}, False),
        ({"value": 1.0, "ratio": 0.94, "target": ">= 0.95 ratio"}, True),
        ({"value": 1.0, "target": None}, False),
        ({"value": 1.0}, False),
    ),
)
def test_target_is_a_most_or_a_least_of_the_value_or_of_the_ratio(
    row: dict[str, Any], expected: bool
) -> None:
    assert misses(row) is expected


@pytest.mark.parametrize("target", (100, "100", "< 100", "<= fast", "<= 100 us", ">= 1 ratio"))
def test_target_of_another_form_or_of_a_figure_not_there_raises(target: Any) -> None:
    with pytest.raises(ValueError, match="target must be like"):
        emit("import", "loop", 1.0, "ms", target=target)
