"""Random durable functions that are cut off at random give what uncut ones give."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from agent.durable.random_functions import at_random, tree_of
from moothall import DurableFunction, Journal, RequestCancelled, RunWaiting


def answer_all(journal: Journal) -> None:
    """Answer what runs wait for, each question in one way."""
    for wait in journal.waiting():
        if wait.kind != "moment":
            journal.answer(wait.run, wait.key, wait.kind == "approval" or 7)


async def run_to_end(
    desk: DurableFunction[[int], int], run_id: str, seed: int, cuts: random.Random | None
) -> int:
    """Run a random program, cut off at random, until it returns."""
    journal = desk.journal
    assert journal is not None
    for _ in range(500):
        task = asyncio.ensure_future(desk.run(run_id, seed))
        if cuts is not None and cuts.random() < 0.7:
            for _ in range(cuts.randrange(60)):
                await asyncio.sleep(0)
            task.cancel()
        try:
            return await task
        except RunWaiting:
            answer_all(journal)
            await asyncio.sleep(0.002)
        except (asyncio.CancelledError, RequestCancelled):
            pass
    raise AssertionError(f"seed {seed} does not end")


SEEDS = [
    range(25),
    *(
        pytest.param(range(first, first + 50), marks=pytest.mark.long)
        for first in range(0, 500, 50)
    ),
]


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_functions_cut_off_at_random_return_what_uncut_ones_return(
    seeds: range, tmp_path: Path
) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        desk = at_random.on(journal)
        for seed in seeds:
            uncut = asyncio.run(run_to_end(desk, f"uncut-{seed}", seed, None))
            cut = asyncio.run(run_to_end(desk, f"cut-{seed}", seed, random.Random(seed)))
            assert cut == uncut, f"seed {seed}: {tree_of(random.Random(seed))}"
