"""What lists of runs show while another process ends runs."""

from __future__ import annotations

from pathlib import Path

from commands import Command
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


def test_run_that_ends_while_runs_are_listed_is_never_shown_as_stopped(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    states: set[str] = set()
    with Journal(path) as journal:
        with Command(path, code=PROGRAM) as process:
            while process.poll() is None:
                states |= {run.state for run in journal.runs()}
        states |= {run.state for run in journal.runs()}
    assert process.returncode == 0
    assert states <= {"running", "done"}
