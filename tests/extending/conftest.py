"""What a user cannot add is added to a copy of the package, in the one file that has it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import moothall

Added = Callable[..., Callable[..., str]]


@pytest.fixture
def added(tmp_path: Path) -> Added:
    """Copy the package with lines added; return what runs Python with the copy."""
    package = tmp_path / "src/moothall"

    def add(lines: dict[str, Sequence[tuple[str, str]]]) -> Callable[..., str]:
        # With what is compiled: only the files with added lines are compiled again.
        shutil.copytree(Path(moothall.__file__).parent, package)
        for name, pairs in lines.items():
            file = package / name
            text = file.read_text() if file.exists() else ""  # a new file, after ""
            for before, after in pairs:
                assert before in text, before
                text = text.replace(before, before + after)
            file.write_text(text)
        return run

    def run(*args: str) -> str:
        done = subprocess.run(
            [sys.executable, *args],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(package.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return add
