"""A program of another framework, as it is, and as an agent of ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class Program:
    """A program, whose `tool` somebody has to permit."""

    wrap: Callable[..., Any]  # makes it an agent of ours, with these options
    bare: Callable[[], Awaitable[Any]]  # runs it in its own framework, and returns what it gives
    task: str
    tool: str
    effects: list[str]
