"""A run of a researcher, killed wherever it can be: no page is read twice, no answer paid twice."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from journal.process import KILLED, Processes, effects


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes("research.killed") as made:
        yield made


def ended(folder: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads((folder / "reply.json").read_text())
    said["markdown"] = re.sub(r"read \d{4}-\d\d-\d\d", "read", said["markdown"])
    return said


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, processes: Processes) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("whole")
    assert processes.run(folder) == 0
    assert set(effects(folder).values()) == {1}
    assert len(effects(folder)) == 8
    return ended(folder)


@pytest.mark.parametrize("every", (3, pytest.param(1, marks=pytest.mark.long)))
def test_killed_before_any_commit_nothing_that_ended_is_done_again(
    every: int, processes: Processes, tmp_path: Path, whole: dict[str, Any]
) -> None:
    for number in range(1, whole["commits"] + 1, every):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert processes.run(folder, commit=[number, "before"]) == KILLED
        assert processes.run(folder) == 0
        said = ended(folder)
        assert said["stop"] == "done"
        assert said["markdown"] == whole["markdown"]
        # Again only what had ended in the moment before its record was written.
        done = effects(folder)
        again = [what for what, times in done.items() if times > 1]
        assert len(again) <= 1, (number, done)
        # What was under way when the process died may have been billed, and counts.
        assert said["calls"] in (5, 5 + len(again), 6)


def test_killed_again_and_again_nothing_that_was_recorded_is_done_twice(
    processes: Processes, tmp_path: Path, whole: dict[str, Any]
) -> None:
    """One run, to which each process adds a commit or two before it dies."""
    deaths = 0
    # What a resumption notes of itself is a commit, too.
    while processes.run(tmp_path, commit=[4, "after"]) == KILLED:
        deaths += 1
        assert deaths <= 2 * whole["commits"]
    said = ended(tmp_path)
    assert (said["stop"], said["markdown"]) == ("done", whole["markdown"])
    assert set(effects(tmp_path).values()) == {1}
    assert deaths >= whole["commits"] / 4 - 1


def test_killed_as_it_ends_a_run_that_found_nothing_new_gives_the_same_report(
    processes: Processes, tmp_path: Path
) -> None:
    assert processes.run(tmp_path, extractive=True) == 0
    whole = ended(tmp_path)
    assert whole["stop"] == "no_progress"
    for number in range(whole["commits"] - 2, whole["commits"]):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert processes.run(folder, extractive=True, commit=[number, "after"]) == KILLED
        assert processes.run(folder, extractive=True) == 0
        assert (ended(folder)["stop"], ended(folder)["markdown"]) == (
            "no_progress",
            whole["markdown"],
        )


def test_budget_of_a_research_holds_across_a_killed_process(
    processes: Processes, tmp_path: Path
) -> None:
    assert processes.run(tmp_path, effect="answer 2", calls=4) == KILLED
    assert processes.run(tmp_path, calls=4) == 0
    # Three answers before it died, the third of them unrecorded, which counts all the same.
    assert ended(tmp_path)["stop"] == "budget"
    assert sum(times for what, times in effects(tmp_path).items() if "answer" in what) == 4


@pytest.mark.parametrize("every", (5, pytest.param(1, marks=pytest.mark.long)))
def test_killed_while_sections_are_written_side_by_side_nothing_that_ended_is_done_again(
    every: int, processes: Processes, tmp_path: Path
) -> None:
    (tmp_path / "whole").mkdir()
    assert processes.run(tmp_path / "whole", sections=True) == 0
    whole = ended(tmp_path / "whole")
    assert whole["stop"] == "done"
    assert "## Ports of alpha" in whole["markdown"]
    for number in range(2, whole["commits"] + 1, every):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert processes.run(folder, sections=True, commit=[number, "before"]) == KILLED
        assert processes.run(folder, sections=True) == 0
        said = ended(folder)
        assert (said["stop"], said["markdown"]) == ("done", whole["markdown"])
        again = [what for what, times in effects(folder).items() if times > 1]
        assert len(again) <= 2, (number, again)  # those that were under way side by side
