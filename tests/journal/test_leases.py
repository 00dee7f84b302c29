"""One writer a run: who lives has it, who has died has not."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from commands import Command
from journal.conftest import Place
from journal.crash import crash
from journal.process import TESTS, Processes
from moothall import Journal, ReActAgent, ScriptedModel
from moothall.foundation.errors import JournalError, RunHeld
from moothall.models.protocol import Call


@contextmanager
def holder(journal: str, *how: str) -> Iterator[tuple[Command, int]]:
    """A process that works on run R; and the process that it prints, itself or its child."""
    pipe = subprocess.PIPE
    how_it_runs: dict[str, Any] = {"cwd": TESTS, "stdout": pipe, "text": True}
    with Command(journal, *how, module="journal.holder", **how_it_runs) as process:
        assert process.stdout is not None
        other = int(process.stdout.readline())
        try:
            yield process, other
        finally:
            process.kill()
            if other != process.pid:
                os.kill(other, signal.SIGKILL)


def agent(journal: Journal) -> ReActAgent:
    def hold() -> None:
        """Hold it."""

    model = ScriptedModel([Call("c", "hold", {}), "Yes."])
    return ReActAgent("a", model, actions=[hold], journal=journal)


@pytest.mark.parametrize("how", ((), ("fork",)))
def test_run_in_another_process_is_held_until_it_dies(place: Place, how: tuple[str, ...]) -> None:
    path = place("j")
    with holder(path, *how) as (process, _), Journal(path) as journal:
        with pytest.raises(RunHeld, match=f"process {process.pid} on ") as held:
            agent(journal).reply_sync("go", run_id="R")
        assert held.value.run_id == "R"
        with pytest.raises(RunHeld):
            journal.decide("R", "repeat")
        assert journal.run("R").state == "running"
        assert [doubt.action for doubt in journal.in_doubt("R")] == ["hold"]
        assert agent(journal).reply_sync("go", run_id="other").text == "Yes."
        before = journal.entries("R")

        process.kill()
        process.wait()
        while journal.run("R").state == "running":
            pass  # a server hears of it a moment later
        assert journal.run("R").state == "in_doubt"
        assert journal.entries("R") == before
        assert agent(journal).reply_sync("go", run_id="R").stop_reason == "in_doubt"
        journal.decide("R", "repeat")
        assert agent(journal).reply_sync("go", run_id="R").text == "Yes."


@pytest.mark.parametrize("name", ("j", "link", "./other/../j"))
async def test_run_in_another_journal_of_the_same_process_is_held(
    tmp_path: Path, name: str
) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        """Hold it."""
        began.set()
        await go_on.wait()

    (tmp_path / "other").mkdir()
    with Journal(tmp_path / "j") as one:
        (tmp_path / "link").symlink_to(tmp_path / "j")
        with Journal(f"{tmp_path}/{name}") as other:
            model = ScriptedModel([Call("c", "hold", {}), "Yes."])
            holding = ReActAgent("a", model, actions=[hold], journal=one)
            task = asyncio.ensure_future(holding.reply("go", run_id="R"))
            await began.wait()
            for journal in (one, other):
                assert journal.run("R").state == "running"
                with pytest.raises(RunHeld):
                    await agent(journal).reply("go", run_id="R")
            # Not even closing the other one gives it back.
            with Journal(tmp_path / name):
                pass
            with pytest.raises(RunHeld):
                await agent(other).reply("go", run_id="R")
            go_on.set()
            assert (await task).text == "Yes."
            assert one.run("R").state == "done"
            assert (await agent(other).reply("go", run_id="R")).text == "Yes."


async def test_journal_that_is_closed_gives_its_runs_back(place: Place) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        """Hold it."""
        began.set()
        await go_on.wait()

    journal = Journal(place("j"))
    model = ScriptedModel([Call("c", "hold", {}), "Yes."])
    task = asyncio.ensure_future(
        ReActAgent("a", model, actions=[hold], journal=journal).reply("go", run_id="R")
    )
    await began.wait()
    journal.close()
    with Journal(place("j")) as other:
        reply = await agent(other).reply("go", run_id="R")
        assert reply.stop_reason == "in_doubt"
        before = other.entries("R")
        go_on.set()
        late = await task
        assert late.stop_reason == "error"
        assert isinstance(late.error, JournalError)
        assert other.entries("R") == before


@pytest.mark.parametrize("durability", ("process", pytest.param("power", marks=pytest.mark.long)))
def test_processes_write_their_runs_into_one_journal(tmp_path: Path, durability: str) -> None:
    def work(which: str) -> list[int]:
        with Processes() as processes:
            return [
                processes.run(tmp_path, "react", run=f"{which}{number}", durability=durability)
                for number in range(3)
            ]

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(work, ("x", "y"))) == [[0] * 3] * 2
    with Journal(tmp_path / "journal") as journal:
        runs = journal.runs()
        assert sorted(run.id for run in runs) == [f"{w}{n}" for w in "xy" for n in range(3)]
        first = journal.replay("x0")
        for run in runs:
            assert run.state == "done"
            replayed = journal.replay(run.id)
            assert replayed.text == "All is moved."
            assert replayed.messages == first.messages
            assert [entry.sequence for entry in journal.entries(run.id)] == list(
                range(1, run.entries + 1)
            )


@pytest.mark.parametrize("durability", ("process", "power"))
async def test_runs_go_side_by_side_in_one_process(place: Place, durability: str) -> None:
    with Journal(place("j"), durability=durability) as journal:
        replies = await asyncio.gather(
            *(agent(journal).reply("go", run_id=f"R{number}") for number in range(40))
        )
        assert {reply.text for reply in replies} == {"Yes."}
        for number, reply in enumerate(replies):
            assert journal.replay(f"R{number}") == reply
        assert {outline.state for outline in journal.runs()} == {"done"}


async def test_part_that_is_closed_twice_gives_back_one_lease(place: Place) -> None:
    with Journal(place("j")) as journal:
        first = await journal.begin("R", "ReActAgent", "a", "go")
        first.close()
        await journal.begin("R", "ReActAgent", "a", "go")
        first.close()
        with pytest.raises(RunHeld):
            await journal.begin("R", "ReActAgent", "a", "go")


def test_run_that_failed_and_was_killed_as_it_went_on_is_stopped(tmp_path: Path) -> None:
    async def main() -> None:
        with Journal(tmp_path / "j") as journal:
            first = await journal.begin("R", "ReActAgent", "a", "go")
            first.note("over", {"reason": "error"})
            first.end("error")
            await first.commit()
            first.close()
            assert journal.run("R").state == "error"
            again = await journal.begin("R", "ReActAgent", "a", "go")
            again.note("heard", {})
            await again.commit()
            crash(journal.path, tmp_path / "after")

    asyncio.run(main())
    with Journal(tmp_path / "after") as journal:
        assert journal.run("R").state == "stopped"


def test_run_whose_lease_file_may_not_be_opened_says_so() -> None:
    """Such as one that the administrator's process made; it is no run of another process."""
    program = """
import os, sys
from moothall import Journal, JournalError, ReActAgent, ScriptedModel
os.chdir(sys.argv[1])
open("runs.db-leases", "w").close()
os.chmod("runs.db-leases", 0)
os.chmod(".", 0o777)
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
with Journal("runs.db") as journal:
    agent = ReActAgent("a", ScriptedModel(["Yes."]), journal=journal)
    try:
        agent.reply_sync("go", run_id="A")
    except JournalError as error:
        print(error)
"""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", program, folder]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "runs.db-leases': it may not be written (Permission denied)" in done.stdout
