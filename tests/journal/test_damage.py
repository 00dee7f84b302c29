"""What is not as it was written is noticed and named; and nothing is changed."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from moothall import Journal, Later, ReActAgent, ScriptedModel
from moothall.foundation.errors import JournalError, MoothallError, NoSuchRun
from moothall.foundation.sqlite import SQLiteFile
from moothall.journal.store.tables import APPLICATION_ID, MIGRATIONS
from moothall.models.protocol import Call


def run(path: Path) -> None:
    with Journal(path) as journal:
        assert agent(journal).reply_sync("go", run_id="R").text == "Yes."


def agent(journal: Journal) -> ReActAgent:
    def act(what: str) -> str:
        """Act."""
        return what

    script = [Call("c", "act", {"what": "x" * 3000}), Call("c", "act", {"what": "y"}), "Yes."]
    return ReActAgent("a", ScriptedModel(script), actions=[act], journal=journal)


def change(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute(sql).rowcount


@pytest.mark.parametrize(
    ("sql", "told"),
    (
        (
            "UPDATE entries SET data = replace(data, 'yes', 'no') || ' ' WHERE place & 31 = 3",
            "3",
        ),
        ("UPDATE entries SET at = at + 1 WHERE place & 31 = 4", "4"),
        ("UPDATE entries SET kind = 'over' WHERE place & 31 = 4", "4"),
        ("UPDATE entries SET path = 'x' WHERE place & 31 = 4", "4"),
        ("UPDATE entries SET sum = x'00' WHERE place & 31 = 5", "5"),
        ("DELETE FROM entries WHERE place & 31 = 1", "1"),
        ("DELETE FROM entries WHERE place & 31 = 6", "6"),
        ("DELETE FROM entries WHERE place & 31 = 16", "16"),
        ("DELETE FROM entries WHERE place & 31 > 8", "9"),
        ("DELETE FROM entries", "1"),
    ),
)
def test_entry_that_was_changed_is_named(tmp_path: Path, sql: str, told: str) -> None:
    path = tmp_path / "j"
    run(path)
    change(path, sql)
    with Journal(path) as journal:
        for use in (
            lambda: journal.entries("R"),
            lambda: journal.in_doubt("R"),
            lambda: journal.replay("R"),
            lambda: journal.fork("R"),
            lambda: journal.decide("R", "repeat"),
            lambda: agent(journal).reply_sync("go", run_id="R"),
        ):
            with pytest.raises(JournalError, match=f"damaged.*entry {told} of run 'R'"):
                use()
        assert journal.run("R").state == "done"  # nobody holds it
        assert agent(journal).reply_sync("go", run_id="other").text == "Yes."


def test_damaged_run_is_left_out_of_what_waits_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def wait() -> Later:
        """Wait."""
        return Later("k")

    path = tmp_path / "j"
    with Journal(path) as journal:
        for run_id in ("R", "S"):
            model = ScriptedModel([Call("c", "wait", {})])
            waiting = ReActAgent("a", model, actions=[wait], journal=journal)
            assert waiting.reply_sync("go", run_id=run_id).stop_reason == "waiting"
    change(path, "UPDATE entries SET data = 'x' WHERE kind = 'waits' AND place >> 32 = 1")
    with Journal(path) as journal:
        for _ in range(2):
            assert [each.run for each in journal.waiting()] == ["S"]
    assert [each[:25] for each in caplog.messages] == ["run 'R' is left out; dele"]


def test_damage_of_any_byte_is_noticed_or_changes_nothing_recorded(
    tmp_path: Path,
) -> None:
    path = tmp_path / "j"
    run(path)
    with Journal(path) as journal:
        whole = journal.entries("R")
    good = path.read_bytes()
    places = random.Random(1).sample(range(100, len(good)), 300)
    noticed = 0
    for place in places:
        bad = bytearray(good)
        bad[place] ^= 0x41
        for name in os.listdir(tmp_path):
            if name.startswith("j-"):
                (tmp_path / name).unlink()
        path.write_bytes(bad)
        try:
            with Journal(path) as journal:
                assert journal.entries("R") == whole, place
        except (JournalError, NoSuchRun):
            noticed += 1
    assert noticed > 35


def cut(path: Path) -> None:
    run(path)
    os.truncate(path, path.stat().st_size // 2)


def of_another(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE runs (id TEXT)")
        db.commit()


def of_a_memory(path: Path) -> None:
    from moothall import SQLiteMemory

    with SQLiteMemory(path) as memory:
        memory.add_memory({"role": "user", "content": "x"})


def of_text(path: Path) -> None:
    path.write_text("Dear diary, " * 100)


@pytest.mark.parametrize(
    ("make", "told"),
    (
        (cut, "damaged"),
        (of_another, "another program's"),
        (of_a_memory, "another program's"),
        (of_text, "it is another kind of file"),
        (Path.mkdir, "it is not a file"),
    ),
)
def test_file_that_is_no_journal_is_named_and_left(
    tmp_path: Path, make: Callable[[Path], None], told: str
) -> None:
    path = tmp_path / "j"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(JournalError, match=told) as refused:
        Journal(path)
    assert refused.value.path == str(path)
    assert (path.read_bytes() if path.is_file() else b"") == before
    with pytest.raises(JournalError, match=told):
        ReActAgent("a", ScriptedModel([]), journal=path)


def test_journal_that_is_closed_begins_no_run(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.close()
        with pytest.raises(JournalError, match="closed"):
            agent(journal).reply_sync("go", run_id="R")


@pytest.mark.parametrize("run_id", ("", "x" * 256, "a\nb", "\ud800"))
def test_id_that_is_none_is_refused(journal: Journal, run_id: str) -> None:
    with pytest.raises((ValueError, MoothallError)):
        agent(journal).reply_sync("go", run_id=run_id)
    assert journal.runs() == []


def test_run_that_is_not_there_is_named(journal: Journal) -> None:
    for use in (journal.run, journal.entries, journal.replay, journal.in_doubt, journal.fork):
        with pytest.raises(NoSuchRun, match="no run 'R'; it has none at all"):
            use("R")
        with pytest.raises(NoSuchRun):
            use("\udcff")  # of a command line that is not UTF-8
    for run_id in ("R", "\udcff"):
        with pytest.raises(NoSuchRun):
            journal.decide(run_id, "repeat")
    assert agent(journal).reply_sync("go", run_id="one").text == "Yes."
    with pytest.raises(NoSuchRun, match="its last ones are 'one'"):
        journal.run("R")
    longest = "x" * 255
    for copy in (longest, "two", "three", "four", "five"):
        assert journal.fork("one", copy) == copy
    told = ", ".join(map(repr, ("five", "four", "three", "two", longest)))
    with pytest.raises(NoSuchRun, match=f"its last ones are {told}$"):
        journal.run("R")


class Overtaken(sqlite3.Connection):
    """A connection beside which another process makes the file, while this one looks at it."""

    make: Callable[[], object] | None = None

    def execute(self, sql: str, *args: object) -> sqlite3.Cursor:
        done = super().execute(sql, *args)
        if sql == "PRAGMA application_id" and self.make is not None:
            make, self.make = self.make, None
            rows = done.fetchall()
            make()
            return super().execute(f"SELECT {rows[0][0]}")
        return done


def test_journal_that_another_process_makes_just_now_is_one(tmp_path: Path) -> None:
    path = tmp_path / "j"
    real = SQLiteFile(
        path,
        kind="journal",
        class_name="Journal",
        application=APPLICATION_ID,
        migrations=MIGRATIONS,
        error=JournalError,
    )
    with closing(sqlite3.connect(path, factory=Overtaken)) as connection:
        connection.make = lambda: Journal(path).close()
        assert real.version(connection) == real.newest


def test_reply_that_cannot_be_recorded_is_not_remembered(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")

    def answer(*_: object) -> str:
        journal.close()
        return "Yes."

    agent = ReActAgent("a", ScriptedModel([answer]), journal=journal)
    assert agent.reply_sync("go").stop_reason == "error"
    assert [message["content"] for message in agent.memory.get_memories()] == ["go"]
