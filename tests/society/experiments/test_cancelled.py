"""A sweep whose end is asked for again and again, at any moment: no process of it is left."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from moothall.society import Experiment
from society.experiments.test_sweep import of


def children() -> str:
    """The processes that this thread has started, with those that nobody has waited for."""
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()


async def cancelled(experiment: Experiment, out: Path, turns: int, ended: int) -> None:
    """Let the loop turn so often, then cancel the sweep in each turn until it has ended."""
    begun = asyncio.Event()
    run = experiment.run(jobs=2, out=out, progress=lambda far: far.ended < ended or begun.set())
    sweep = asyncio.ensure_future(run)
    await begun.wait()
    for _ in range(turns):
        await asyncio.sleep(0)
    while not sweep.done():
        sweep.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await sweep


@pytest.mark.parametrize(
    ("ended", "moments"), ((0, 10), pytest.param(1, 1, marks=pytest.mark.long))
)
def test_sweep_that_is_cancelled_again_and_again_leaves_no_process(
    tmp_path: Path, ended: int, moments: int
) -> None:
    before = children()
    for turns in range(moments):
        folder = tmp_path / str(turns)
        asyncio.run(cancelled(of(folder, seeds=4), folder / "out", turns, ended))
        assert children() == before, f"cancelled after {turns} turns"
