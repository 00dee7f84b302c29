"""A journal of recorded runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.shop import desk
from moothall import Journal


@pytest.fixture
def runs(tmp_path: Path) -> Journal:
    """A journal with three runs of the desk, `run-0` to `run-2`."""
    agent, journal = desk(), Journal(tmp_path / "runs.db")
    agent.journal = journal
    for number in range(3):
        agent.reply_sync(f"Where is A{number}", thread=f"t{number}", run_id=f"run-{number}")
    return journal
