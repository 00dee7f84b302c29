"""The benchmarks are run one after the other, each within its minutes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_benchmark_that_takes_too_long_is_ended_and_named_with_where_it_stood() -> None:
    command = [sys.executable, "-m", "benchmarks", "--minutes", "0.03", "imports"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert done.returncode == 1
    assert "Fatal Python error: Aborted" in done.stderr
    assert done.stderr.endswith(
        "failed:\n  benchmarks.imports took over 0.03 minutes; more: --minutes 0.12 imports\n"
    )
