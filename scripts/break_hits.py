"""The pytest plug-in of `breaks.py`: which breaks a test comes to, and which tests run first.

It stands in a folder at the front of PYTHONPATH, beside a copy of the package, so that programs
that tests start have it, too.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).resolve().parent
_seen: set[int] = set()
_began = 0.0
_failed = False


def hit(number: int) -> None:
    """Note that this process, a worker or a program that it started, comes to a break."""
    if number not in _seen:
        _seen.add(number)
        if path := os.environ.get("BREAK_HITS"):
            with open(path, "a") as file:
                file.write(f"{number}\n")


def pytest_configure(config: Any) -> None:
    """Give each worker a file of its own, whose name its programs inherit."""
    if (_FOLDER / "trace").is_file():
        os.environ["BREAK_HITS"] = str(_FOLDER / f"hits-{os.getpid()}")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Put the tests into the order of the file `order`, if there is one."""
    if (order := _FOLDER / "order").is_file():
        places = {name: place for place, name in enumerate(order.read_text().splitlines())}
        items.sort(key=lambda item: places.get(item.nodeid, len(places)))


def pytest_runtest_logstart(nodeid: str) -> None:
    """Begin a test."""
    global _began, _failed
    _began, _failed = time.perf_counter(), False
    _seen.clear()


def pytest_runtest_logreport(report: Any) -> None:
    """Note whether a test fails without a break, and skip what does not run here."""
    global _failed
    _failed = _failed or not report.passed


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Write down what a test came to."""
    hits = Path(os.environ.get("BREAK_HITS", os.devnull))
    numbers = sorted(set(map(int, hits.read_text().split()))) if hits.is_file() else []
    if numbers:
        hits.unlink()
    if nodeid.rfind("@") > nodeid.rfind("]"):  # xdist's group, by which no test is found
        nodeid = nodeid.rpartition("@")[0]
    if (_FOLDER / "trace").is_file() and (os.environ.get("PYTEST_XDIST_WORKER")):
        line = [nodeid, time.perf_counter() - _began, _failed, numbers]
        with open(_FOLDER / "trace", "a") as file:
            file.write(json.dumps(line) + "\n")
