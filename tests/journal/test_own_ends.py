"""How runs of an orchestrator of one's own stop, wait and end: nothing of them is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from journal.crash import crash, on_a_loop
from moothall import InDoubt, Journal, RunMismatch
from moothall.build import APPENDED, StepHandle, recorded
from moothall.journal import Done


@dataclass
class Round:
    delivered: list[str] = field(default_factory=list, metadata=APPENDED)


async def deliver(journal: Journal, task: str, dies: Callable[[], None] | None = None) -> None:
    """Deliver at each place of the task; `dies` is called at the place `c`."""
    async with recorded(journal, "r", "Courier", "bo", Round, task=task) as record:
        state = record.state or Round()
        for place in task.split()[len(state.delivered) :]:

            async def ring(step: StepHandle, place: str = place) -> str:
                await step.begins({"place": place})
                if place == "c" and dies is not None:
                    dies()
                return place

            state.delivered.append(
                await record.step(f"ring.{place}", ring, outcome="ask", action="ring")
            )
            record.save(state)
        await record.end("done", text=" ".join(state.delivered))


def cut_off_at_c(folder: Path, task: str) -> Journal:
    """Return the journal of a process that died as it rang at `c`."""
    with Journal(folder / "whole.db") as journal:
        asyncio.run(deliver(journal, task, lambda: crash(folder / "whole.db", folder / "left.db")))
    return Journal(folder / "left.db")


def test_orchestrator_with_another_task_is_not_resumed(tmp_path: Path) -> None:
    with cut_off_at_c(tmp_path, "a b c") as journal:
        with pytest.raises(RunMismatch, match='task: was "a b c", is "a b"') as refused:
            asyncio.run(deliver(journal, "a b"))
        assert refused.value.changed == ("task",)
        assert "--agent" not in str(refused.value)
        assert [each.action for each in journal.in_doubt("r")] == ["ring"]


@on_a_loop
async def test_run_of_an_orchestrator_recorded_without_its_task_compared_is_resumed(
    tmp_path: Path,
) -> None:
    with Journal(tmp_path / "j") as journal:
        async with recorded(journal, "r", "Courier", "bo", Round) as record:
            record.save(Round(["a"]))
        await deliver(journal, "a b")
        assert journal.run("r").state == "done"
        async with recorded(journal, "r", "Courier", "bo", Round) as record:  # states no task
            assert record.over == {"reason": "done", "text": "a b"}


def test_run_of_an_orchestrator_in_doubt_does_not_end(tmp_path: Path) -> None:
    with cut_off_at_c(tmp_path, "c") as journal:

        async def end(reason: str) -> None:
            async with recorded(journal, "r", "Courier", "bo", Round) as record:
                await record.end(reason, text="nothing to do")

        with pytest.raises(InDoubt, match=r"step 'ring\.c' .* `moothall resume r --repeat`"):
            asyncio.run(end("done"))
        assert [each.action for each in journal.in_doubt("r")] == ["ring"]
        assert journal.run("r").state == "in_doubt"
        asyncio.run(end("cancelled"))  # it goes on later
        assert journal.run("r").state == "in_doubt"
        journal.decide("r", "repeat")
        asyncio.run(deliver(journal, "c"))
        assert journal.run("r").state == "done"


@on_a_loop
async def test_run_does_not_end_beside_a_call_that_was_cancelled(tmp_path: Path) -> None:
    async def ring(step: StepHandle) -> None:
        await step.begins()
        await asyncio.Event().wait()  # nobody opens

    with Journal(tmp_path / "j") as journal:
        async with recorded(journal, "r", "Courier", "bo", Round) as record:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await record.step("ring", ring, outcome="ask", action="ring")
            with pytest.raises(InDoubt):
                await record.end("done", text="rung")
        assert [each.action for each in journal.in_doubt("r")] == ["ring"]


def test_call_that_was_skipped_says_how_to_decide_anew(tmp_path: Path) -> None:
    with cut_off_at_c(tmp_path, "c") as journal:
        journal.decide("r", "skip")
        with pytest.raises(
            InDoubt, match=r"no decided=.*`moothall resume r --repeat` or --done 1="
        ):
            asyncio.run(deliver(journal, "c"))
        journal.decide("r", {1: Done("d")})
        asyncio.run(deliver(journal, "c"))
        assert journal.replay("r")["over"] == {"reason": "done", "text": "d"}
