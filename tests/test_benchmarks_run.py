"""The benchmarks are run one after the other, each within its minutes of the processor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

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
