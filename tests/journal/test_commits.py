"""Commits: who returns from one can rely on what was noted, cancelled or not."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from journal.conftest import Place
from journal.crash import locked, settled
from moothall import Journal, ReActAgent, ScriptedModel, SQLiteMemory
from moothall.foundation.errors import JournalError, NoSuchRun, RunHeld
from moothall.models.protocol import Call


async def begun(journal: Journal, run: str = "R") -> Any:
    return await journal.begin(run, "ReActAgent", "a", "task")


async def test_commit_waits_for_what_another_part_is_writing(journal: Journal) -> None:
    record = await begun(journal)
    one, other = record.part("one"), record.part("other")
    with locked(journal.path):
        one.note("asked", {})
        other.note("started", {"key": "1"})
        first = asyncio.ensure_future(one.commit())
        await settled()
        second = asyncio.ensure_future(other.commit())
        await settled()
        assert not first.done()
        assert not second.done()
    await asyncio.gather(first, second)
    assert [entry.path for entry in journal.entries("R")] == ["one", "other"]
    record.close()


async def test_commit_that_failed_is_followed_by_no_other(
    tmp_path: Path,
) -> None:
    with Journal(tmp_path / "j", timeout=0.1) as journal:
        record = await begun(journal)
        with locked(journal.path):
            record.note("asked", {})
            commit = asyncio.ensure_future(record.commit())
            await settled()
            commit.cancel()
            with pytest.raises(asyncio.CancelledError):
                await commit
        record.note("answered", {})
        with pytest.raises(JournalError, match="locked"):
            await record.commit()
        record.close()
        assert journal.entries("R") == []


async def test_run_that_could_not_be_written_does_not_hinder_others(tmp_path: Path) -> None:
    with Journal(tmp_path / "j", timeout=1.0) as journal:
        one, other = await begun(journal), await begun(journal, "other")
        with locked(journal.path):
            one.note("asked", {})
            with pytest.raises(JournalError, match="locked"):
                await one.commit()
        one.note("started", {"key": "1"})
        other.note("asked", {})
        first, second = (asyncio.ensure_future(each.commit()) for each in (one, other))
        with pytest.raises(JournalError, match="locked"):
            await first
        await second
        assert [len(journal.entries(run)) for run in ("R", "other")] == [0, 1]
        one.close()
        other.close()


def test_threads_may_keep_the_same_large_value_at_once(tmp_path: Path) -> None:
    values = [f"{number}" * 2_000_000 for number in range(4)]

    async def recorded(journal: Journal, run: str) -> None:
        record = await begun(journal, run)
        for value in values:
            record.note("asked", {"text": value})
        await record.commit()
        record.close()

    with Journal(tmp_path / "j") as journal, ThreadPoolExecutor(4) as threads:
        runs = [f"R{number}" for number in range(4)]
        list(threads.map(lambda run: asyncio.run(recorded(journal, run)), runs))
        for run in runs:
            assert [entry.data["text"] for entry in journal.entries(run)] == values
    assert len(list((tmp_path / "j-kept").iterdir())) == len(values)


@pytest.fixture
def often_switching() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Locking:
    """An action that returns while another program has locked the journal."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.returned = asyncio.Event()
        self.other: sqlite3.Connection | None = None

    async def __call__(self) -> str:
        self.other = sqlite3.connect(self.path, isolation_level=None)
        self.other.execute("BEGIN IMMEDIATE")
        self.returned.set()
        return "locked"

    def let_go(self) -> None:
        assert self.other is not None
        self.other.close()


def locking_agent(journal: Journal, tmp_path: Path, *answers: Any) -> tuple[ReActAgent, Locking]:
    lock = Locking(journal.path)

    async def act() -> str:
        """Act."""
        return await lock()

    model = ScriptedModel([Call("c", "act", {}), *answers])
    memory = SQLiteMemory(tmp_path / "m")
    return ReActAgent("a", model, actions=[act], memory=memory, journal=journal), lock


async def test_commit_under_way_at_an_interruption_is_remembered(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        agent, lock = locking_agent(journal, tmp_path, "Yes.")
        task = asyncio.ensure_future(agent.reply("go", run_id="R"))
        await lock.returned.wait()
        await settled()
        agent.interrupt("Quick!")
        await settled()
        lock.let_go()
        reply = await task
        assert reply.stop_reason == "done"
        assert [message["content"] for message in reply.messages] == [
            "go",
            "",
            "locked",
            "Quick!",
            "Yes.",
        ]
        assert list(agent.memory.messages()) == reply.messages  # type: ignore[attr-defined]
        agent.memory.close()  # type: ignore[attr-defined]


async def test_commit_under_way_at_a_cancellation_is_remembered(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        agent, lock = locking_agent(journal, tmp_path, "Yes.")
        task = asyncio.ensure_future(agent.reply("go", run_id="R"))
        await lock.returned.wait()
        await settled()
        task.cancel()
        await settled()
        lock.let_go()
        with pytest.raises(asyncio.CancelledError):
            await task
        reply = await agent.reply("go", run_id="R")
        assert [message["content"] for message in reply.messages] == ["go", "", "locked", "Yes."]
        assert list(agent.memory.messages()) == reply.messages  # type: ignore[attr-defined]
        agent.memory.close()  # type: ignore[attr-defined]


async def test_reply_that_is_cancelled_does_not_stop_the_loop_for_a_lock(tmp_path: Path) -> None:
    with Journal(tmp_path / "j", timeout=5) as journal:
        began = asyncio.Event()

        async def act() -> None:
            """Act."""
            began.set()
            await asyncio.Event().wait()

        agent = ReActAgent(
            "a", ScriptedModel([Call("c", "act", {})]), actions=[act], journal=journal
        )
        task = asyncio.ensure_future(agent.reply("go", run_id="R"))
        await began.wait()
        loop = asyncio.get_running_loop()
        before = loop.time()
        with locked(journal.path):
            task.cancel()
            await settled()
            assert loop.time() - before < 2
        with pytest.raises(asyncio.CancelledError):
            await task
        assert journal.entries("R")[-1].data["reason"] == "cancelled"


async def test_run_whose_end_is_being_written_has_ended_even_if_cancelled(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "j", isolation_level=None)

    asked = asyncio.Event()

    def last(messages: Any, actions: Any) -> str:
        other.execute("BEGIN IMMEDIATE")
        asked.set()
        return "Yes."

    with Journal(tmp_path / "j") as journal:
        agent = ReActAgent("a", ScriptedModel([last]), journal=journal)
        task = asyncio.ensure_future(agent.reply("go", run_id="R"))
        await asked.wait()
        await settled()
        task.cancel()
        await settled()
        other.close()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert journal.run("R").state == "done"
        reply = await agent.reply("go", run_id="R")
        assert (reply.text, reply.stop_reason) == ("Yes.", "done")


def test_run_that_was_being_opened_when_its_loop_ended_is_given_back(place: Place) -> None:
    with Journal(place("j")) as journal:
        agent = ReActAgent("a", ScriptedModel(["Yes."]), journal=journal)

        async def too_late() -> None:
            task = asyncio.ensure_future(agent.reply("go", run_id="R"))
            await settled()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        with locked(place("j")):
            asyncio.run(too_late())
        # Written after it, so the one that was abandoned is over.
        assert agent.reply_sync("go", run_id="other").text == "Yes."
        agent.model = ScriptedModel(["Yes."])
        assert agent.reply_sync("go", run_id="R").text == "Yes."


async def test_run_cancelled_while_it_opens_can_be_asked_for_again(
    place: Place, often_switching: None
) -> None:
    with Journal(place("j")) as journal:
        agent = ReActAgent("a", ScriptedModel(["Yes."] * 200), journal=journal)
        for number in range(30):
            with locked(place("j")):
                # More threads than one want the file when it is let go.
                tasks = []
                for _ in range(4):
                    task = asyncio.ensure_future(agent.reply("go", run_id=f"R{number}"))
                    await settled()
                    task.cancel()
                    tasks.append(task)
                last = asyncio.ensure_future(agent.reply("go", run_id=f"R{number}"))
                await settled()
            assert (await last).text == "Yes."
            for task in tasks:
                with pytest.raises(asyncio.CancelledError):
                    await task


async def test_run_cancelled_just_after_it_opened_gives_its_lease_back(
    place: Place,
) -> None:
    with Journal(place("j")) as journal:
        opening = asyncio.ensure_future(begun(journal))
        await asyncio.sleep(0)
        while True:  # the loop is held, so that it does not hear that the run is open
            try:
                journal.decide("R", "skip")
            except NoSuchRun:
                continue
            except RunHeld:
                break
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        (await begun(journal)).close()


@pytest.mark.parametrize("how", ("opened", "forked"))
async def test_commits_write_other_runs_while_one_is_read(tmp_path: Path, how: str) -> None:
    def write(data: bytes, pipe: int) -> None:
        with open(pipe, "wb") as file:
            file.write(data)

    with Journal(tmp_path / "j") as journal, Journal(tmp_path / "j", timeout=1) as other:
        record = await begun(journal)
        record.note("asked", {"text": "x" * 2_000_000})
        await record.commit()
        record.close()
        (kept,) = (tmp_path / "j-kept").iterdir()
        data = kept.read_bytes()
        kept.unlink()
        os.mkfifo(kept)  # whoever reads the large text waits for who writes it
        opens = begun(journal) if how == "opened" else asyncio.to_thread(journal.fork, "R")
        reading = asyncio.ensure_future(opens)
        pipe = await asyncio.to_thread(os.open, kept, os.O_WRONLY)
        try:
            part = await begun(other, "other")
            part.note("asked", {})
            await part.commit()
            part.close()
        finally:
            await asyncio.to_thread(write, data, pipe)
        if how == "opened":
            assert (await reading).past_entries[0].data["text"] == "x" * 2_000_000
        else:
            assert await reading == "R.1"


async def test_commit_without_await_waits_for_another_process(journal: Journal) -> None:
    record = await begun(journal)
    record.note("asked", {})
    waiting = threading.Thread(target=record.run.commit_now)
    with locked(journal.path):
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
    waiting.join()
    assert [entry.kind for entry in journal.entries("R")] == ["asked"]
    record.close()


async def test_journal_that_fails_stops_each_action(tmp_path: Path) -> None:
    cancelled = []
    with Journal(tmp_path / "j", timeout=0.1) as journal:
        lock = Locking(journal.path)

        async def act() -> str:
            """Act."""
            return await lock()

        async def wait() -> None:
            """Wait for ever."""
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(True)

        model = ScriptedModel([[Call("c", "act", {}), Call("d", "wait", {})]])
        agent = ReActAgent("a", model, actions=[act, wait], journal=journal)
        reply = await agent.reply("go", run_id="R")
        lock.let_go()
        assert reply.stop_reason == "error"
        assert isinstance(reply.error, JournalError)
        assert cancelled == [True]
        # Nobody knows what came of the two: neither could be written.
        assert [doubt.action for doubt in journal.in_doubt("R")] == ["act", "wait"]
