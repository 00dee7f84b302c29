"""Runs that programs of older versions have left, read and taken to their end by today's.

`runs-N.db.gz` and `towns-N.db.gz` of `tests/formats/` are what `older_programs` wrote as a journal
had version N: 5 on 26 November 2026, 7 a day later.
"""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import Any

import pytest

from cli.journal_programs import moothall
from moothall import Journal, Reply, RunMismatch, StateError
from older_programs import PROGRAMS, Deeds, payer, town

FORMATS = Path(__file__).with_name("formats")
VERSIONS = ("5", "7")
ENDS = {
    "loop": ("done", [], "Both are red."),
    "loop-cut": ("done", ["look at wall"], "Both are red."),
    "asking": ("done", ["asked", "pay 3"], "It is paid."),
    "dual": ("terminated", [], "It is red indeed."),
    "dual-cut": ("terminated", ["look at shelf"], "It is red indeed."),
    "talk-cut": ("done", ["look at shelf", "look at shelf"], "ann has looked."),
    "research": ("done", [], "# How tall is the lighthouse of Genoa?"),
    "research-cut": ("done", ["search"], "# How tall is the lighthouse of Genoa?"),
}
"""Of each run that goes on by itself: how it ends, what is still done, and how its text begins."""


def unpacked(name: str, version: str, folder: Path) -> Path:
    path = folder / f"{name}.db"
    path.write_bytes(gzip.decompress((FORMATS / f"{name}-{version}.db.gz").read_bytes()))
    return path


def resumed(journal: Journal, run: str) -> tuple[Reply, Deeds]:
    make, task, _ = PROGRAMS[run]
    deeds = Deeds()
    return make(deeds, journal).reply_sync(task, run_id=run, thread="anna"), deeds


@pytest.mark.parametrize("run", ENDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_run_of_an_older_version_is_resumed_without_repeating_what_it_did(
    tmp_path: Path, version: str, run: str
) -> None:
    stop_reason, done, begins = ENDS[run]
    with Journal(unpacked("runs", version, tmp_path)) as journal:
        reply, deeds = resumed(journal, run)
        assert (reply.stop_reason, deeds.done) == (stop_reason, done)
        assert reply.text.startswith(begins)
        replayed = journal.replay(run)
    assert (replayed.text, replayed.steps, replayed.usage) == (
        reply.text,
        reply.steps,
        reply.usage,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_run_of_an_older_version_with_a_call_in_doubt_is_decided(
    tmp_path: Path, version: str
) -> None:
    with Journal(unpacked("runs", version, tmp_path)) as journal:
        for run, action in (("doubt", "pay"), ("boss-cut", "helper")):
            assert [each.action for each in journal.waiting(run)] == [action]
            reply, deeds = resumed(journal, run)
            assert (reply.stop_reason, deeds.done) == ("in_doubt", [])
            journal.decide(run, "repeat")
            reply, deeds = resumed(journal, run)
            assert (reply.stop_reason, len(deeds.done)) == ("done", 1)


def test_approval_that_an_older_versions_run_waits_for_is_answered(tmp_path: Path) -> None:
    with Journal(unpacked("runs", "7", tmp_path)) as journal:
        (wait,) = journal.waiting("waiting", kind="approval")
        assert (wait.agent, wait.action, wait.args) == ("waiting", "pay", {"coins": 3})
        journal.answer("waiting", wait.key, True, by="eva")
        reply, deeds = resumed(journal, "waiting")
    assert (reply.text, deeds.done) == ("It is paid.", ["pay 3"])


def test_run_of_an_older_version_is_refused_to_another_program(tmp_path: Path) -> None:
    with (
        Journal(unpacked("runs", "5", tmp_path)) as journal,
        pytest.raises(RunMismatch, match="agent 'payer'"),
    ):
        payer(Deeds(), journal).reply_sync("Pay.", run_id="asking", thread="anna")


@pytest.mark.parametrize("version", VERSIONS)
def test_runs_command_lists_and_shows_the_runs_of_an_older_version(
    tmp_path: Path, version: str
) -> None:
    path = str(unpacked("runs", version, tmp_path))
    listed = moothall("runs", "--journal", path, cwd=tmp_path)
    assert (listed.returncode, listed.stderr) == (0, "")
    with Journal(path) as journal:
        runs = [each.id for each in journal.runs()]
    assert {*ENDS, "doubt", "boss-cut"} <= {*runs}
    for run in runs:
        shown = moothall("runs", run, "--journal", path, cwd=tmp_path)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert PROGRAMS[run][1] in shown.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_society_run_of_an_older_version_continues_from_its_checkpoint(
    tmp_path: Path, version: str
) -> None:
    told: list[dict[str, Any]] = []
    with (
        Journal(unpacked("towns", version, tmp_path)) as journal,
        town(journal, rows=False) as society,
    ):
        options: Any = {"run_id": "agents", "save_every": 2, "progress": told.append}
        rows = asyncio.run(society.run(steps=8, **options))
    assert [row["step"] for row in told] == [5, 6, 7]  # it has the first five
    assert [row["step"] for row in rows] == [*range(8)]
    assert {row["money"] for row in told} == {rows[0]["money"]}
    assert [row["failures"] for row in rows] == [0] * 8


@pytest.mark.parametrize("version", VERSIONS)
def test_population_run_of_an_older_version_is_refused_with_both_versions(
    tmp_path: Path, version: str
) -> None:
    """The numbers in its columns may have had another meaning."""
    with (
        Journal(unpacked("towns", version, tmp_path)) as journal,
        town(journal, rows=True) as society,
        pytest.raises(StateError, match=r"is of version 1; this moothall reads version 2, and 1 "),
    ):
        asyncio.run(society.run(steps=8, run_id="rows", save_every=2))
