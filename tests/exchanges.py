"""Cases as data: each a line of JSON of a file in `exchanges/`, beside the test that runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def lines_of(test: str, name: str) -> list[Any]:
    """Return the lines of `exchanges/NAME.jsonl` beside a test, each with its `case` as its id.

    Args:
        test: the test's `__file__`
    """
    return lines_in(Path(test).parent / "exchanges" / f"{name}.jsonl")


def lines_in(file: Path) -> list[Any]:
    """Return the lines of a file, each with its `case` as its id."""
    text = file.read_text(encoding="utf-8")
    found = [json.loads(line) for line in text.rstrip("\n").split("\n") if line]
    names = [
        "-".join(each[key] for key in ("form", "case") if key in each)
        or f"{number}-{next(iter(each.values()))[:40]}"
        for number, each in enumerate(found, 1)
    ]
    return [pytest.param(line, id=name) for line, name in zip(found, names, strict=True)]
