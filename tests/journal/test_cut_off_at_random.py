"""Runs that are cut off at random moments are those that were never cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from journal.cut_off_runs import compare


@pytest.mark.parametrize("seed", range(6))
def test_run_that_is_cut_off_and_waits_is_as_one_that_does_neither(
    tmp_path: Path, seed: int
) -> None:
    """Its texts, effects, permissions, and what it knows to be from outside."""
    compare(seed, tmp_path, cuts=bool(seed % 2), kept=seed > 3)


@pytest.mark.parametrize("seed", range(6, 8))
def test_run_whose_process_is_killed_is_as_one_that_lives(tmp_path: Path, seed: int) -> None:
    compare(seed, tmp_path, cuts=True, forks=True)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_runs_that_are_cut_off_and_wait_are_as_those_that_do_neither(tmp_path: Path) -> None:
    for seed in range(1000, 3000):
        compare(seed, tmp_path, cuts=True, kept=bool(seed % 2))


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_runs_whose_processes_are_killed_are_as_those_that_live(tmp_path: Path) -> None:
    killed, seed = 0, 5000
    while killed < 300:
        killed += compare(seed, tmp_path, cuts=True, forks=True)
        seed += 1
