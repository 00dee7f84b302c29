"""A server that misbehaves where a test asks for that."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from moothall import ACCESS_PERMITTED
from moothall.serving import MCPAgent

SERVER = str(Path(__file__).parent / "misbehaving.py")


def command(path: str = "", mode: str = "") -> list[str]:
    return [sys.executable, "-S", SERVER, path, mode]


@pytest.fixture
def server() -> Iterator[Callable[..., MCPAgent]]:
    """Make agents of the server; all that it may do is permitted."""
    with ExitStack() as stack:

        def make(id: str = "odd", path: str = "", mode: str = "", **options: Any) -> MCPAgent:
            options = {"access": ACCESS_PERMITTED, **options}
            return stack.enter_context(MCPAgent(id, command(path, mode), **options))

        yield make
