"""Where a journal is: each test that takes a `place` is run with a file, and with a server."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

Place: TypeAlias = Callable[[str], str]
"""Gives the path or URL of a journal of this test, by its name."""


@pytest.fixture(params=("file", "server"))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Journals of this test, in one of the stores."""
    if request.param == "file":
        return lambda name: str(tmp_path / name)
    server = request.getfixturevalue("postgresql")
    schema = f"t{secrets.token_hex(6)}"
    return lambda name: str(server.url(f"{schema}_{name}"))
