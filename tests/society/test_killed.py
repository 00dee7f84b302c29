"""A society killed wherever it can be comes to the same bytes; no answer is paid twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from journal.process import KILLED, Processes, effects


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes("society.killed") as made:
        yield made


def ended(folder: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads((folder / "reply.json").read_text())
    return said


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, processes: Processes) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("whole")
    assert processes.run(folder, out=True) == 0
    assert set(effects(folder).values()) == {1}
    again = tmp_path_factory.mktemp("again")
    assert processes.run(again, out=False) == 0
    return ended(folder) | {"rows": ended(again)["rows"]} | {"answers": len(effects(folder))}


@pytest.mark.long
@pytest.mark.timeout(180)
def test_killed_at_every_commit_it_comes_to_the_same_bytes(
    processes: Processes, tmp_path: Path, whole: dict[str, Any]
) -> None:
    assert whole["answers"] > 5
    for number in range(1, whole["commits"] + 1):
        for when in ("before", "after"):
            folder = tmp_path / f"{number}-{when}"
            folder.mkdir()
            out = when == "before"  # it lives steps again, whose rows are in the tables
            assert processes.run(folder, commit=[number, when], out=out) == KILLED
            assert processes.run(folder, out=out) == 0
            said = ended(folder)
            assert said["state"] == whole["state"], (number, when)
            assert said["tables"] == (whole["tables"] if out else {})
            assert said["rows"] == (whole["rows"][-1:] if out else whole["rows"])
            told = (folder / "told").read_text().split()
            assert sorted(set(told)) == ["0", "1", "2", "3"], (number, when)
            # Again only what had been answered and not yet recorded when the process died.
            done = effects(folder)
            assert len(done) == whole["answers"]
            again = [what for what, times in done.items() if times > 1]
            assert len(again) <= (6 if when == "before" else 0), (number, when, again)


@pytest.mark.long
def test_killed_run_that_has_ended_is_not_lived_again(
    processes: Processes, tmp_path: Path, whole: dict[str, Any]
) -> None:
    assert processes.run(tmp_path, out=True) == 0
    assert processes.run(tmp_path, out=True) == 0
    assert ended(tmp_path)["state"] == whole["state"]
    assert ended(tmp_path)["tables"] == whole["tables"]
    assert set(effects(tmp_path).values()) == {1}
