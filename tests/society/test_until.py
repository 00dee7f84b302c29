"""Runs that end by a condition: in memory, with tables, and resumed from a journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.society.life import busy, town

from moothall import Journal
from moothall.foundation.errors import ConfigError
from moothall.society import Society


def fifth(row: dict[str, Any]) -> bool:
    """Return whether five steps are over."""
    return bool(row["step"] == 4)


async def test_run_until_a_condition_ends_after_the_first_step_that_meets_it() -> None:
    seen: list[int] = []
    async with Society(busy(6), town(), seed=3) as society:
        rows = await society.run(
            steps=20, until=fifth, progress=lambda row: seen.append(row["step"])
        )
        assert [row["step"] for row in rows] == seen == [0, 1, 2, 3, 4]
        assert [row["step"] for row in await society.run(steps=3, until=fifth)] == [5, 6, 7]


def test_run_sync_until_a_condition_ends_likewise() -> None:
    with Society(busy(6), town(), seed=3) as society:
        assert len(society.run_sync(until=fifth)) == 5


@pytest.mark.parametrize("wrong", (3, lambda: True))
async def test_run_until_that_is_no_function_of_a_row_is_refused(wrong: Any) -> None:
    async with Society(busy(2), town()) as society:
        with pytest.raises(ConfigError, match="until= must be a function"):
            await society.run(steps=2, until=wrong)


@pytest.mark.parametrize("with_tables", (False, True))
async def test_run_until_a_condition_resumes_to_the_same_step_and_does_not_run_again(
    with_tables: bool, tmp_path: Path
) -> None:
    async def lived(name: str, progress: Any = None) -> tuple[dict[str, Any], list[int]]:
        folder = tmp_path / name if with_tables else None
        with Journal(tmp_path / f"{name}.db") as journal:
            async with Society(busy(6), town(), seed=3, journal=journal) as society:
                rows = await society.run(
                    steps=20, until=fifth, run_id="r", save_every=2, progress=progress, out=folder
                )
                return society.state_dict(), [row["step"] for row in rows]

    def stop(row: dict[str, Any]) -> None:
        if row["step"] == 3:
            raise RuntimeError("stop")

    whole = await lived("whole")
    with pytest.raises(RuntimeError, match="stop"):
        await lived("cut", stop)
    assert (await lived("cut"))[0] == whole[0]
    assert await lived("cut") == whole
    assert whole[0]["step"] == 5
