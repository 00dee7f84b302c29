"""The pytest plug-in of `breaks.py`: which breaks a test comes to, and which tests run first.

It stands in a folder at the front of PYTHONPATH, beside a copy of the package, so that programs
that tests start have it, too.
"""

from __future__ import annotations

import json
import os
import time
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).resolve().parent
_seen: set[int] = set()  # by a worker in this test; a program may outlive a test, and looks anew
_is_worker = False
_began = 0.0
_failed = False


def hit(number: int) -> None:
    """Note that this process, a worker or a program that it started, comes to a break."""
    if number not in _seen:
        if _is_worker:
            _seen.add(number)
        if (hits := _hits_folder()) is not None and not (note := hits / str(number)).exists():
            note.touch()


def _folder_of(process: int) -> Path:
    return _FOLDER / f"hits-{process}"


@cache
def _hits_folder() -> Path | None:
    """Return the folder of the worker that is this process, or started it through others."""
    process = os.getpid()  # not by a variable: a program may be given none of its parent's
    while process > 1:
        if (folder := _folder_of(process)).is_dir():
            return folder
        try:
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
    return None


def pytest_configure(config: Any) -> None:
    """Give each worker a folder of its own for what it and its programs come to."""
    global _is_worker
    if (_FOLDER / "trace").is_file() and os.environ.get("PYTEST_XDIST_WORKER"):
        _is_worker = True
        _folder_of(os.getpid()).mkdir()


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
    if not _is_worker:
        return
    notes = [*_folder_of(os.getpid()).iterdir()]
    numbers = sorted(int(note.name) for note in notes)
    for note in notes:
        note.unlink()
    if nodeid.rfind("@") > nodeid.rfind("]"):  # xdist's group, by which no test is found
        nodeid = nodeid.rpartition("@")[0]
    line = [nodeid, time.perf_counter() - _began, _failed, numbers]
    with open(_FOLDER / "trace", "a") as file:
        file.write(json.dumps(line) + "\n")
