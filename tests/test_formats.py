"""Files of every format, as `scripts/write_formats.py` wrote them at each version, are read.

What was written before 0.1.0 is refused in words, and left as it is.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    ACCESS_REQUESTED,
    Action,
    Budget,
    FileError,
    InboxError,
    Journal,
    JournalError,
    MemoryFileError,
    ReActAgent,
    ScriptedModel,
    SQLiteMemory,
    StateError,
)
from moothall.society import (
    City,
    MobilityBlock,
    NeedsBlock,
    PlanBlock,
    Population,
    Society,
)
from moothall.spaces.amqp import wire
from moothall.spaces.amqp.inbox import FINISHED, STARTED, Inbox

FORMATS = Path(__file__).with_name("formats")
EARLIER = r"it was written before moothall 0\.1\.0, which does not read it, and was left as it is"


def town(journal: Journal | None = None, *, rows: bool = False) -> Society:
    """The town whose checkpoints are there: of agents, or in columns."""
    city, blocks = City.generate(seed=1, citizens=10), [NeedsBlock(), PlanBlock(), MobilityBlock()]
    if rows:
        return Society(Population(6, city, blocks, seed=1), seed=1, journal=journal)
    return Society(6, city, seed=1, journal=journal)


def copied(name: str, folder: Path) -> Path:
    return Path(shutil.copy(FORMATS / name, folder / name))


def pay(coins: int) -> str:
    """Pay."""
    return "paid"


def test_journal_is_read_found_and_resumed(tmp_path: Path) -> None:
    with Journal(copied("journal-1.db", tmp_path)) as journal:
        bread, apples, copy = journal.runs()[:3]
        assert [bread.id, apples.id, copy.id] == ["bread-1", "apples-1", "bread-2"]
        assert (bread.state, apples.thread, copy.forked_from) == ("done", "anna", "bread-1")
        assert (bread.model_calls, bread.actions) == (2, 1)
        assert bread.tokens > 0
        assert bread.changed >= bread.began
        assert bread.task.startswith("Buy bread. long long")
        assert [each.id for each in journal.runs(state="stopped")] == ["bread-2"]
        reply = journal.replay("bread-1")
        assert reply.text == "You have bread."
        assert [step.action for step in reply.steps] == ["pay"]
        assert reply.messages[0]["content"].count("long") == 500  # a text stored by its hash
        assert [each.id for each in journal.runs(text="you have bread")] == ["bread-1"]
        assert [each.id for each in journal.runs(text="äpfel")] == ["apples-1"]
        model = ScriptedModel(["", "It is bought."])
        buyer = ReActAgent("buyer", model, actions=[pay], journal=journal)
        given = reply.messages[0]["content"]
        assert buyer.reply_sync(given, run_id="bread-2").text == "It is bought."
        assert journal.delete("bread-1", "bread-2").overwritten
        assert journal.replay("apples-1").text == "Äpfel sind da."


def test_budgets_of_a_journal_are_read(tmp_path: Path) -> None:
    with Journal(copied("journal-1.db", tmp_path)) as journal:
        service, anna = journal.budgets.list()
        assert (service.name, anna.name) == ("service", "service/anna")
        assert service.spent == anna.spent.__class__(
            anna.spent.tokens, 0.0, 2, 1, service.spent.seconds
        )
        assert len(service.period) == len("2026-11")
        budget = Budget(tokens=10**6, journal=journal, name="service")
        budget.reserve(tokens=10).settle(tokens=5)
        assert journal.budgets.list()[0].spent.tokens >= 5


def test_tags_of_a_run_are_read(tmp_path: Path) -> None:
    with Journal(copied("journal-1.db", tmp_path)) as journal:
        assert [each.id for each in journal.runs(tags={"customer": "acme"})] == ["bread-3"]
        assert journal.run("bread-3").tags == {"customer": "acme", "urgent": ""}
        assert journal.run("bread-1").tags == {}


def test_exported_run_is_imported(tmp_path: Path) -> None:
    with Journal(tmp_path / "new") as journal:
        assert journal.import_run(FORMATS / "run-1.jsonl") == "bread-1"
        assert journal.replay("bread-1").text == "You have bread."


def test_memory_is_read_and_recalled(tmp_path: Path) -> None:
    with SQLiteMemory(copied("memory-1.db", tmp_path), thread="anna") as memory:
        assert [each["content"] for each in memory.messages()] == ["Buy bread.", "You have bread."]
        assert memory.recall("bread")[0]["content"] in {"Buy bread.", "You have bread."}


def test_inbox_is_read(tmp_path: Path) -> None:
    inbox = Inbox(copied("inbox-1.db", tmp_path))
    (accepted,) = inbox.unfinished("A")
    assert (accepted.key, accepted.message) == ("s.1", b'{"m":1}')
    started, ended = inbox.look_up("s.2", "A"), inbox.look_up("s.3", "A")
    assert started is not None
    assert ended is not None
    assert (started.state, ended.state, ended.answer) == (STARTED, FINISHED, b'{"answer":1}')
    inbox.close()


def test_saved_states_are_loaded() -> None:
    states = json.loads((FORMATS / "states-1.json").read_text())
    agent = ReActAgent("buyer", ScriptedModel(["", "Again."]), actions=[pay])
    agent.load_state_dict(states["agent"])
    reply = agent.reply_sync("Hello again?", thread="anna")
    assert reply.text == "Again."
    with town() as society:
        society.load_state_dict(states["society"])
        society.run_sync(steps=1)
        assert [row["step"] for row in society.metrics] == [2]
    budget = Budget(tokens=100, usd=1)
    budget.load_state_dict(states["budget"])
    assert (budget.spent.tokens, budget.spent.usd) == (7, 0.25)


def test_journal_wait_is_read_and_answered(tmp_path: Path) -> None:
    with Journal(copied("journal-1.db", tmp_path)) as journal:
        (wait,) = journal.waiting("pay-1")
        assert (wait.kind, wait.action, wait.args) == ("approval", "pay", {"coins": 3})
        journal.answer("pay-1", wait.key, False, by="eva")
        asked = Action("pay", pay, "Pay.", access_policy=ACCESS_REQUESTED)
        payer = ReActAgent("payer", ScriptedModel(["", "No."]), actions=[asked], journal=journal)
        assert payer.reply_sync("Pay 3.", run_id="pay-1").text == "No."


def test_journal_call_in_doubt_is_read_and_decided(tmp_path: Path) -> None:
    with Journal(copied("journal-1.db", tmp_path)) as journal:
        (wait,) = journal.waiting(kind="doubt")
        assert (wait.run, wait.action, wait.args) == ("pay-2", "pay", {"coins": 4})
        journal.answer("pay-2", wait.key, "skip")
        assert [each.id for each in journal.runs(state="stopped")] == ["bread-2", "pay-2"]


def test_results_of_one_name_are_waited_for_by_call(tmp_path: Path) -> None:
    with Journal(copied("journal-1.db", tmp_path)) as journal:
        keys = {each.args["box"]: each.key for each in journal.waiting("mails-1")}
        assert [each.name for each in journal.waiting("mails-1")] == ["mail", "mail"]
        journal.answer("mails-1", keys["b"], "the mail of b")
        journal.answer("mails-1", "mail", "the mail of a")


def test_messages_of_the_wire_are_read() -> None:
    found = json.loads((FORMATS / "messages-1.json").read_text())
    inbound, permission = wire.read_stored(json.dumps(found["received"]).encode())
    envelope = inbound.envelope
    assert (envelope.sender, envelope.to, envelope.name) == ("anna", "buyer", "say")
    assert (envelope.args, envelope.id) == ({"content": "Buy bread."}, "m1")
    assert (envelope.meta, envelope.thread, envelope.within) == ({"k": [1, None]}, "t", "w")
    assert inbound.key == "space.1"
    assert inbound.delivery_fields == {
        "hops": 2,
        "call_chain": ("a", "b"),
        "timeout": 30,
        "on_event": None,
    }
    assert permission is None
    answer = wire.Outbound.unpack(json.dumps(found["answer"]).encode())
    assert (answer.kind, answer.correlation_id) == (wire.REPLY, "space.1")
    assert json.loads(answer.body)["action"]["args"] == {"value": "done"}


@pytest.mark.parametrize("rows", (False, True), ids=("agents", "rows"))
def test_society_continues_from_its_checkpoint(tmp_path: Path, rows: bool) -> None:
    path, steps = tmp_path / "towns.db", list[int]()
    path.write_bytes(gzip.decompress((FORMATS / "checkpoint-1.db.gz").read_bytes()))
    with Journal(path) as journal, town(journal, rows=rows) as society:
        metrics = society.run_sync(
            steps=8,
            run_id="rows" if rows else "agents",
            save_every=2,
            progress=lambda row: steps.append(row["step"]),
        )
    assert steps == [5, 6, 7]
    assert [row["step"] for row in metrics] == [*range(8)]


KINDS = pytest.mark.parametrize(
    ("name", "opens", "error", "earlier_id"),
    (
        ("journal-1.db", Journal, JournalError, 0x63766A31),
        ("memory-1.db", SQLiteMemory, MemoryFileError, 0x63766D31),
        ("inbox-1.db", Inbox, InboxError, 0x63766931),
    ),
)


@pytest.mark.parametrize("version", (1, 4, 11))
@pytest.mark.parametrize("is_running", (False, True), ids=("", "its program has it open"))
@KINDS
def test_file_of_before_0_1_0_is_refused_in_words_and_left(
    tmp_path: Path,
    name: str,
    opens: Callable[[Path], Any],
    error: type[Exception],
    earlier_id: int,
    is_running: bool,
    version: int,
) -> None:
    """Its version may be that of a file of today: another application id tells them apart."""
    path = tmp_path / name
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA application_id = {earlier_id}")
        db.execute(f"PRAGMA user_version = {version}")
        db.execute("CREATE TABLE runs (id TEXT)")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("INSERT INTO runs VALUES ('R')")  # this is in the log alone
        folder = tmp_path
        if not is_running:  # a copy of a file whose program was killed
            folder = tmp_path / "copy"
            folder.mkdir()
            for each in (path, Path(f"{path}-wal")):
                shutil.copy(each, folder)
        before = {each.name: each.read_bytes() for each in folder.iterdir()}
        with pytest.raises(error, match=EARLIER):
            opens(folder / name)
        assert {each.name: each.read_bytes() for each in folder.iterdir()} == before
        assert db.execute("SELECT id FROM runs").fetchall() == [("R",)]


def test_journal_of_before_0_1_0_says_how_to_keep_its_runs(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "runs.db")) as db:
        db.execute(f"PRAGMA application_id = {0x63766A31}")
    with pytest.raises(JournalError, match="where `moothall runs export ID` writes a run as text"):
        Journal(tmp_path / "runs.db")


@pytest.mark.parametrize(
    ("head", "told"),
    (
        ({"format": 2}, "it has version 2, and this moothall knows up to 1"),
        ({"format": True}, "it has version True, and this moothall knows up to 1"),
        ({"version": 1}, EARLIER),
        ({"version": 2}, EARLIER),
        ({}, EARLIER),
    ),
)
def test_exported_run_or_state_of_another_version_is_refused_in_words(
    tmp_path: Path, head: dict[str, Any], told: str
) -> None:
    path = tmp_path / "run.jsonl"
    first, *rest = (FORMATS / "run-1.jsonl").read_text().splitlines()
    line = {k: v for k, v in json.loads(first).items() if k != "format"} | head
    path.write_text("\n".join((json.dumps(line), *rest)))
    before = path.read_bytes()
    with Journal(tmp_path / "new") as journal:
        with pytest.raises(FileError, match=told):
            journal.import_run(path)
        assert journal.runs() == []
    assert path.read_bytes() == before
    states = json.loads((FORMATS / "states-1.json").read_text())
    agent = ReActAgent("buyer", ScriptedModel([]), actions=[pay])
    with town() as society:
        for owner, name in ((agent, "agent"), (society, "society")):
            before_state = owner.state_dict()
            state = {k: v for k, v in states[name].items() if k != "format"} | head
            with pytest.raises(StateError, match=told):
                owner.load_state_dict(state)
            assert owner.state_dict() == before_state


@KINDS
def test_newest_version_of_each_file_format_has_a_file_here_and_is_documented(
    tmp_path: Path, name: str, opens: Callable[[Path], Any], error: type[Exception], earlier_id: int
) -> None:
    opens(tmp_path / "new").close()
    with closing(sqlite3.connect(tmp_path / "new")) as file:
        (version,) = file.execute("PRAGMA user_version").fetchone()
    kind = name.partition("-")[0]
    assert (FORMATS / f"{kind}-{version}.db").exists()
    lines = (FORMATS.parent.parent / "docs/versions.md").read_text().splitlines()
    (row,) = (each for each in lines if "SQLite file" in each and each.startswith(f"| {kind}"))
    assert row.split("|")[2].strip() == str(version)
