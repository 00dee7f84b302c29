from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of work, with a file of notes."""
    made = tmp_path / "work"
    made.mkdir()
    (made / "notes.txt").write_text("bread\nmilk, oat\n")
    return made
