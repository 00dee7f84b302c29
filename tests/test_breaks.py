"""The breaks of tests/breaks/, which `make breaks` tries, belong to the source as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_breaks_each_change_a_function_of_todays_source() -> None:
    program = [sys.executable, str(ROOT / "scripts" / "breaks.py"), "--check"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
