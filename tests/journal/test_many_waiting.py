"""Many runs that wait at once: they cost nothing, and each answer and each moment counts once."""

from __future__ import annotations

import asyncio
import random
import resource
import statistics
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from commands import Command
from journal.process import TESTS
from journal.waiting_program import begin, clerk
from moothall import Journal

MANY = (pytest.mark.long, pytest.mark.timeout(600))


def started(folder: Path, action: str) -> Command:
    """A process that goes on with what is due."""
    return Command(folder, action, module="journal.waiting_program", cwd=TESTS)


@pytest.mark.parametrize(
    ("runs", "kills"),
    (pytest.param(1000, 40, marks=MANY), (24, 3)),
)
def test_answer_counts_once_under_kills(tmp_path: Path, runs: int, kills: int) -> None:
    asyncio.run(begin(tmp_path, "pay", runs))
    chance = random.Random(7)
    with Journal(tmp_path / "runs.db") as office:
        waits = office.waiting()
        assert len(waits) == runs
        chance.shuffle(waits)
        process, left = started(tmp_path, "pay"), list(waits)
        for _ in range(kills):
            for wait in (left.pop() for _ in range(min(len(left), runs // kills))):
                office.answer(wait.run, wait.key, True, by="eva")
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0.05, 0.6))  # so far it comes until it is killed
            process.kill()
            process.wait()
            decided(office, tmp_path)
            process = started(tmp_path, "pay")
        for wait in left:
            office.answer(wait.run, wait.key, True, by="eva")
        assert process.wait(300) == 0
        decided(office, tmp_path)
        assert started(tmp_path, "pay").wait(300) == 0
        found = {run.id: run.state for run in office.runs()}
        assert Counter(found.values()) == {"done": runs}, found
    paid = Counter((tmp_path / "paid").read_text().split())
    assert paid == {str(number): 1 for number in range(runs)}


def decided(office: Journal, folder: Path) -> None:
    """Decide about what a kill has cut off: a person looks whether it was paid."""
    paid = (folder / "paid").read_text().split() if (folder / "paid").exists() else []
    for wait in office.waiting(kind="doubt"):
        is_paid = str(wait.args["number"]) in paid
        value = {"done": f"paid {wait.args['number']}"} if is_paid else "repeat"
        office.answer(wait.run, wait.key, value)


@pytest.mark.parametrize("runs", (pytest.param(1000, marks=MANY), 24))
def test_moment_comes_once_for_two_processes(tmp_path: Path, runs: int) -> None:
    asyncio.run(begin(tmp_path, "nap", runs, seconds=0.5))
    both = [started(tmp_path, "nap") for _ in range(2)]
    assert [each.wait(300) for each in both] == [0, 0]
    with Journal(tmp_path / "runs.db") as journal:
        assert Counter(run.state for run in journal.runs()) == {"done": runs}
        for run in journal.runs():
            kinds = Counter(entry.kind for entry in journal.entries(run.id))
            assert (kinds["waits"], kinds["answered"]) == (1, 1)


async def test_runs_that_wait_leave_nothing_in_the_process(tmp_path: Path) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        agent = clerk(tmp_path, journal, "pay")
        asked = (agent.reply(str(n), run_id=f"r{n}", thread=f"t{n}") for n in range(50))
        replies = await asyncio.gather(*asked)
        assert {each.stop_reason for each in replies} == {"waiting"}
        assert len(asyncio.all_tasks()) == 1
        assert not any(run.held for run in journal.runs())


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_ten_thousand_runs_that_wait_cost_little_memory_and_delay_nobody(
    tmp_path: Path,
) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        agent = clerk(tmp_path, journal, "pay")

        async def park(first: int, count: int) -> list[float]:
            took = []
            for number in range(first, first + count):
                began = time.process_time()
                await agent.reply(str(number), run_id=f"r{number}", thread=f"t{number}")
                took.append(time.process_time() - began)
            return took

        before = statistics.median((await park(0, 2_000))[-500:])
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        after = statistics.median((await park(2_000, 10_000))[-500:])
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used
        began = time.process_time()
        assert await agent.resume_decided() == []
        looked = time.process_time() - began
        print(f"{grown} kB, {before * 1000:.2f} ms, {after * 1000:.2f} ms, look {looked:.4f} s")
        assert grown < 5_000
        assert after < 2 * before
        assert looked < 0.05
