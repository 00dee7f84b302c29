"""What lists of runs show while another process ends runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from commands import Command
from journal.conftest import Place
from moothall import Journal

PROGRAM = """
import asyncio, sys
from moothall import Journal, ReActAgent, ScriptedModel
from moothall.models.protocol import Call

async def main(journal):
    over = [asyncio.Event() for _ in range(400)]
    async def wait(n: int) -> str:
        await over[n].wait()
        return "over"
    def reply(n):
        model = ScriptedModel([Call("c", "wait", {"n": n}), "Hello."])
        agent = ReActAgent("clerk", model, actions=[wait], journal=journal)
        return asyncio.create_task(agent.reply("go", run_id=f"r{n}"))
    replies = [reply(n) for n in range(len(over))]
    for n in (*range(0, 400, 2), *range(1, 400, 2)):  # so that each lease is a range of its own
        over[n].set()
        await replies[n]

with Journal(sys.argv[1]) as journal:
    asyncio.run(main(journal))
"""


CUT_OFF = ("stopped", "in_doubt")


def states_of_one(journal: Journal) -> set[str]:
    return {journal.run(run.id).state for run in journal.runs(limit=1, sort="-changed")}


LISTS: dict[str, Callable[[Journal], object]] = {
    "runs": lambda journal: {run.state for run in journal.runs()} - {"running", "done"},
    "runs by state": lambda journal: journal.runs(state=CUT_OFF),
    "one run": lambda journal: states_of_one(journal) - {"running", "done"},
    "runs that need a person": lambda journal: journal.runs(needs_person=True),
    "sums": lambda journal: journal.sums(state=CUT_OFF).runs,
    "what is pruned": lambda journal: journal.prune(0, state=CUT_OFF).runs,
    "what is left": lambda journal: journal.prune(0, state=CUT_OFF).left,
    "what waits": Journal.waiting,
    "notices": lambda journal: journal.waits.due_notices(),
    "counts": lambda journal: [each for each in journal.waits.count_cut_off() if each],
    "processes that ask": lambda journal: journal.waits.asking_processes(),
}


@pytest.mark.timeout(240)
def test_run_that_ends_while_runs_are_listed_is_never_taken_for_stopped(place: Place) -> None:
    path, found = place("runs.db"), dict[str, object]()
    with Journal(path) as journal, Command(path, code=PROGRAM) as process:
        while process.poll() is None:
            for name, read in LISTS.items():
                found[name] = found.get(name) or read(journal)
    assert process.returncode == 0
    assert {name: each for name, each in found.items() if each} == {}
