"""Runs are moved: to a file and back, and a journal is copied while it is written."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from journal.conftest import Place
from moothall import (
    Action,
    FileError,
    Journal,
    Later,
    ModelReply,
    ReActAgent,
    RunHeld,
    ScriptedModel,
    SQLiteMemory,
    Usage,
)
from moothall.foundation.errors import ConfigError, DefinitionError, NoSuchRun, StateError
from moothall.journal import RunView
from moothall.models.protocol import Call


def act(what: str) -> str:
    """Act."""
    return what


def reply(journal: Journal, run_id: str, *whats: str) -> ReActAgent:
    script = [*(Call(f"c{n}", "act", {"what": each}) for n, each in enumerate(whats)), "Yes."]
    agent = ReActAgent("a", ScriptedModel(script), actions=[act], journal=journal)
    assert agent.reply_sync(f"go {run_id}", run_id=run_id, thread="anna").text == "Yes."
    return agent


@pytest.fixture
def journal(place: Place) -> Iterator[Journal]:
    with Journal(place("j")) as journal:
        yield journal


@pytest.fixture
def filed(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "j") as journal:
        yield journal


WHATS = ("a", "x" * 3000, "ü\ud800\0\n" * 10, "y" * 1_200_000)


def test_imported_run_is_the_exported_one(journal: Journal, place: Place, tmp_path: Path) -> None:
    reply(journal, "R", *WHATS)
    journal.export("R", tmp_path / "r.jsonl")
    with Journal(place("other")) as other:
        reply(other, "there")
        assert other.import_run(tmp_path / "r.jsonl") == "R"
        assert other.entries("R") == journal.entries("R")
        assert other.replay("R").messages == journal.replay("R").messages
        theirs, ours = other.run("R"), journal.run("R")
        assert theirs.changed > ours.changed  # so that it is not pruned as an old one
        assert replace(theirs, changed=ours.changed) == ours
        assert [each.id for each in other.runs(text="yes", thread="anna")] == ["there", "R"]
        other.export("R", tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "r.jsonl").read_bytes()


def prompts(journal: Journal, run_id: str) -> list[Any]:
    """What the model was given for each of its answers."""
    view = RunView(journal, run_id)
    return [view.prompt(each.sequence) for each in view.entries if "prompt" in each.data]


def test_imported_run_goes_on_where_it_stopped(
    journal: Journal, place: Place, tmp_path: Path
) -> None:
    agent = reply(journal, "first", *(f"{n}" for n in range(7)))  # the next one names its messages
    agent.model = ScriptedModel([Call("c", "act", {"what": "z"})])  # and then it fails
    assert agent.reply_sync("go on", run_id="R", thread="anna").stop_reason == "error"
    journal.export("R", tmp_path / "r.jsonl", move=True)
    assert [(each.id, each.state) for each in journal.runs()] == [
        ("first", "done"),
        ("R", "elsewhere"),
    ]
    with pytest.raises(StateError, match="may go on in the journal"):
        agent.reply_sync("go on", run_id="R", thread="anna")  # not begun a second time
    with pytest.raises(StateError, match="was moved already"):
        journal.export("R", tmp_path / "twice.jsonl", move=True)
    with Journal(place("other")) as other:
        assert other.import_run(tmp_path / "r.jsonl", "moved") == "moved"
        assert other.run("moved").state == "error"
        assert prompts(other, "moved") == prompts(journal, "R") != []
        agent = ReActAgent("a", ScriptedModel(["", "", "There."]), actions=[act], journal=other)
        assert agent.reply_sync("go on", run_id="moved", thread="anna").text == "There."


def test_run_that_waits_or_has_an_untaken_answer_is_not_moved(
    journal: Journal, place: Place, tmp_path: Path
) -> None:
    fetch = Action("fetch", lambda: Later("mail"), "Fetch the mail.")

    def go(text: str) -> str:
        def answer(messages: list[dict[str, Any]], _: Any) -> Any:
            is_fetched = messages[-1]["role"] == "tool"
            return (text or str(1 / 0)) if is_fetched else {"name": "fetch"}

        agent = ReActAgent("clerk", ScriptedModel(answer), actions=[fetch], journal=journal)
        return agent.reply_sync("Go.", run_id="R").stop_reason

    assert go("") == "waiting"
    for _ in range(2):
        with pytest.raises(StateError, match=r"'R' waits, .*`moothall waiting`.*runs cancel"):
            journal.export("R", tmp_path / "r.jsonl", move=True)
        assert not (tmp_path / "r.jsonl").exists()
        if journal.waiting("R"):  # and once it is answered
            journal.answer("R", "mail", "a letter")
    assert go("") == "error"
    journal.export("R", tmp_path / "r.jsonl", move=True)
    with Journal(place("other")) as other:
        other.import_run(tmp_path / "r.jsonl")
        journal = other
        assert go("There.") == "done"


def test_fork_of_a_run_of_the_longest_id_goes_on_by_its_own(journal: Journal) -> None:
    longest = "x" * 255
    agent = reply(journal, longest)
    copy = journal.fork(longest)
    assert agent.reply_sync(f"go {longest}", run_id=copy, thread="anna").text == "Yes."


def test_fork_of_a_run_is_as_new_as_the_fork(journal: Journal) -> None:
    reply(journal, "R")
    moment = time.time()
    journal.fork("R", "S")
    assert journal.run("S").changed >= moment


def cut_off(journal: Journal, run_id: str) -> None:
    """A run whose process died after its first call."""
    reply(journal, "whole", "a")
    ended = next(e for e in journal.entries("whole") if e.data.get("key") == "1.0")
    journal.fork("whole", run_id, upto=ended.sequence - 1)
    journal.delete("whole")


def test_copy_of_a_run_goes_on_only_when_it_is_adopted(
    journal: Journal, place: Place, tmp_path: Path
) -> None:
    cut_off(journal, "R")
    journal.export("R", tmp_path / "r.jsonl")
    with Journal(place("other")) as other:
        other.import_run(tmp_path / "r.jsonl")
        assert other.run("R").state == "elsewhere"
        agent = ReActAgent("a", ScriptedModel(["", "Yes."]), actions=[act], journal=other)
        assert asyncio.run(agent.resume_runs()) == []
        for use in (
            lambda: agent.reply_sync("go whole", run_id="R", thread="anna"),
            lambda: other.decide("R", "skip"),
            lambda: other.answer("R", "key", 1),
        ):
            with pytest.raises(StateError, match=r"elsewhere|may go on in the journal"):
                use()
        other.adopt("R")
        assert other.run("R").state == "stopped"
        (resumed,) = asyncio.run(agent.resume_runs())
        assert resumed.outcome == "resumed"
        other.adopt("R")  # changes nothing
        assert other.run("R").state == "done"
    assert journal.run("R").state == "stopped"  # the original was never held up


def test_run_that_a_process_works_on_is_not_moved(
    journal: Journal, place: Place, tmp_path: Path
) -> None:
    with Journal(place("j")) as other:
        part = asyncio.run(other.begin("R", "ReActAgent", "a", ""))
        with pytest.raises(RunHeld):
            journal.export("R", tmp_path / "r.jsonl", move=True)
        part.close()
    assert not (tmp_path / "r.jsonl").exists()


def test_run_that_cannot_be_written_stays_where_it_is(journal: Journal, tmp_path: Path) -> None:
    cut_off(journal, "R")
    with pytest.raises(OSError, match="No such file"):
        journal.export("R", tmp_path / "nowhere" / "r.jsonl", move=True)
    assert journal.run("R").state == "stopped"


def test_run_is_imported_once_or_under_another_id(journal: Journal, tmp_path: Path) -> None:
    reply(journal, "R", "a")
    journal.export("R", tmp_path / "r.jsonl")
    with pytest.raises(ValueError, match="there is a run 'R' already"):
        journal.import_run(tmp_path / "r.jsonl")
    with pytest.raises(DefinitionError, match="must be 1–255 printable characters"):
        journal.import_run(tmp_path / "r.jsonl", "\n")
    assert journal.import_run(tmp_path / "r.jsonl", "S") == "S"
    assert journal.entries("S") == journal.entries("R")
    with pytest.raises(NoSuchRun):
        journal.export("T", tmp_path / "t.jsonl")
    assert not (tmp_path / "t.jsonl").exists()


def test_run_imported_beside_its_origin_tells_their_memory_what_is_its_own(
    journal: Journal, tmp_path: Path
) -> None:
    heard: list[str] = []

    def say(run_id: str, answer: str) -> None:
        def model(messages: list[dict[str, Any]], _: Any) -> str:
            heard[:] = [each["content"] for each in messages]
            return answer or str(1 / 0)

        memory = SQLiteMemory(tmp_path / "m.db")
        agent = ReActAgent("a", ScriptedModel(model), memory=memory, journal=journal)
        agent.reply_sync(f"go {run_id[0]}", run_id=run_id, thread="anna")

    say("R", "")
    journal.export("R", tmp_path / "r.jsonl")
    journal.adopt(journal.import_run(tmp_path / "r.jsonl", "R.copy"))
    for run_id, answer in (("R", "One."), ("R.copy", "Two."), ("T", "Three.")):
        say(run_id, answer)
    assert {"One.", "Two."} <= {*heard}


Change = Callable[[list[dict[str, Any]]], object]


def entry(lines: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(each for each in lines if each.get("kind") == kind and "sum" in each)


CHANGES: tuple[tuple[Change, str], ...] = (
    (lambda lines: lines.clear(), "line 1: the file ends before it"),
    (lambda lines: lines[0].update(moothall="memory"), "not the first line of an exported run"),
    (lambda lines: lines[0].update(format=99), "has version 99, and this moothall knows up to 1"),
    (lambda lines: lines[0].update(id="a\nb"), "line 1: a run's id must be 1–255 printable"),
    (lambda lines: lines[0].pop("kind"), "line 1: kind is missing"),
    (lambda lines: lines[0].update(state="running"), "key or state is not one that"),
    (lambda lines: lines[0].update(task="x" * 501), "task must be a text of at most 500"),
    (lambda lines: lines[0].update(began=1e300), "began must be in seconds"),
    (lambda lines: lines[0].update(entries=10**6), "the file ends before it"),
    (lambda lines: lines[0].update(entries=1), "more lines than its first one states"),
    (lambda lines: lines[0].update(values=0), "line 2: path is missing"),
    (lambda lines: lines[0].update(values=-1), "entries and values must be counts"),
    (lambda lines: lines[1].update(text="other"), "the value is not the one of its hash"),
    (lambda lines: lines[1].update(base64="%"), "line 2: it is not a value"),
    (lambda lines: lines.pop(), "the file ends before it"),
    (lambda lines: lines.pop(4), "its checksum is wrong"),
    (lambda lines: entry(lines, "over")["data"].update(text="No."), "its checksum is wrong"),
    (lambda lines: entry(lines, "over").update(at="now"), "at must be a number"),
    (lambda lines: entry(lines, "over").update(kind=3), "kind must be a text"),
)


@pytest.mark.parametrize(("change", "told"), CHANGES, ids=range(len(CHANGES)))
def test_file_that_is_no_exported_run_is_refused_and_adds_nothing(
    filed: Journal, tmp_path: Path, change: Change, told: str
) -> None:
    reply(filed, "R", "x" * 3000)
    path = tmp_path / "r.jsonl"
    filed.export("R", path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    path.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    with Journal(tmp_path / "other") as other:
        with pytest.raises(FileError, match=told):
            other.import_run(path)
        assert other.runs() == []
        assert other.budgets.list() == []


def test_made_up_entries_with_right_checksums_are_refused(filed: Journal, tmp_path: Path) -> None:
    from moothall.journal.store.entry_values import stored_json
    from moothall.journal.store.store import _checksum as sum_of

    reply(filed, "R", "a")
    filed.export("R", tmp_path / "r.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    entry(lines, "over")["data"]["reason"] = 3
    sum = b""
    for number, each in enumerate(lines[1:], 1):
        sum = sum_of(
            sum, number, each["path"], each["kind"], str(each["at"]), stored_json(each["data"])
        )
        each["sum"] = sum.hex()
    (tmp_path / "r.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    with Journal(tmp_path / "other") as other:
        with pytest.raises(FileError, match="reason must be a text, got 3"):
            other.import_run(tmp_path / "r.jsonl")
        assert other.runs() == []


OTHERS = (b"", b"\xff\xfe", b"[]\n", b"{}\n", b"[" * 100_000, b"null")


@pytest.mark.parametrize("content", OTHERS, ids=range(len(OTHERS)))
def test_file_of_something_else_is_refused(filed: Journal, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "r").write_bytes(content)
    with pytest.raises(FileError, match="exported run"):
        filed.import_run(tmp_path / "r")
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(FileError):
            filed.import_run(path)


def test_backup_is_whole_whatever_is_written_meanwhile(filed: Journal, tmp_path: Path) -> None:
    reply(filed, "big", "y" * 1_200_000)
    filed.delete("big")
    reply(filed, "first", *WHATS)
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            reply(filed, f"r{number}", f"{number}", "z" * 1_100_000 if number % 5 == 0 else "z")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            filed.backup(tmp_path / f"copy-{number}")
    finally:
        stop.set()
        writer.join()
    for number in range(3):
        with Journal(tmp_path / f"copy-{number}") as copy:
            for run in copy.runs():
                entries = copy.entries(run.id)
                assert entries == filed.entries(run.id)[: len(entries)]
            assert copy.replay("first").messages == filed.replay("first").messages
            reply(copy, "new")
    (tmp_path / "new-kept").mkdir()  # where it would put large values
    for name in ("copy-0", "new"):
        with pytest.raises(FileError, match="is there already"):
            filed.backup(tmp_path / name)
    with pytest.raises(FileError, match="there is no folder"):
        filed.backup(tmp_path / "none" / "copy")


def test_restored_journal_is_the_backup_and_as_open_as_the_journal_was(
    filed: Journal, tmp_path: Path
) -> None:
    path = tmp_path / "journal"
    reply(filed, "large", "x" * 2_000_000)
    filed.backup(tmp_path / "copy")
    with Journal(path) as journal:
        reply(journal, "R")
    path.chmod(0o640)
    old = Journal.restore(tmp_path / "copy", path)
    assert old is not None
    assert path.stat().st_mode & 0o777 == 0o640
    for place, run_id in ((path, "large"), (old, "R")):
        with Journal(place) as journal:
            assert ([each.id for each in journal.runs()], journal.check()) == ([run_id], [])


RESTORE = """
import resource, sys
from moothall import Journal
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))  # as a full disk
Journal.restore(*sys.argv[1:])
"""


def test_journal_stays_where_its_backup_cannot_be_copied(filed: Journal, tmp_path: Path) -> None:
    reply(filed, "large", "x" * 2_000_000)
    filed.backup(tmp_path / "copy")
    with Journal(tmp_path / "journal") as journal:
        reply(journal, "R")
    before = sorted(tmp_path.iterdir())
    program = [sys.executable, "-c", RESTORE, str(tmp_path / "copy"), str(tmp_path / "journal")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert "FileError" in done.stderr
    assert sorted(tmp_path.iterdir()) == before
    with Journal(tmp_path / "journal") as journal:
        assert [each.id for each in journal.runs()] == ["R"]


def test_journal_of_a_service_that_root_writes_stays_the_services(
    tmp_path: Path, filed: Journal
) -> None:
    reply(filed, "r", "x" * 2_000_000)
    filed.export("r", tmp_path / "r.jsonl")
    path = tmp_path / "service"
    Journal(path).close()
    owner = 65534 if os.geteuid() == 0 else os.geteuid()
    os.chown(path, owner, -1)
    with Journal(path) as other:
        other.import_run(tmp_path / "r.jsonl")
        reply(other, "s", "y" * 2_000_000)
    kept = [tmp_path / "service-kept", *(tmp_path / "service-kept").iterdir()]
    assert len(kept) == 3
    assert {each.stat().st_uid for each in (path, tmp_path / "service-leases", *kept)} == {owner}


def test_journal_that_root_writes_changes_no_owner_through_a_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.touch()
    path = tmp_path / "service"
    Journal(path).close()
    (tmp_path / "service-leases").symlink_to(target)
    os.chown(path, 65534 if os.geteuid() == 0 else os.geteuid(), -1)
    with Journal(path) as journal:
        reply(journal, "s", "y")
    assert target.stat().st_uid == os.geteuid()


def test_call_of_more_tokens_than_a_database_counts_is_recorded_and_imported(
    journal: Journal, place: Place, tmp_path: Path
) -> None:
    model = ScriptedModel([ModelReply("Yes.", usage=Usage(10**30, 1))])
    assert ReActAgent("a", model, journal=journal).reply_sync("go", run_id="R").text == "Yes."
    assert journal.run("R").tokens > 10**12
    journal.export("R", tmp_path / "r.jsonl")
    with Journal(place("other")) as other:
        assert other.import_run(tmp_path / "r.jsonl") == "R"
        assert other.run("R").tokens == journal.run("R").tokens


@pytest.mark.parametrize("path", (5, None, ""))
def test_moving_refuses_a_path_that_is_none(journal: Journal, path: Any) -> None:
    told = "path= must be the path of a file, got"
    for move in (
        lambda: journal.export("R", path),
        lambda: journal.import_run(path),
        lambda: journal.backup(path),
    ):
        with pytest.raises(ConfigError, match=told):
            move()
