"""`moothall runs delete`, `prune`, `export`, `import`, `backup`, and `moothall budgets`."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cli import journal_programs
from moothall import (
    ACCESS_REQUESTED,
    Action,
    Budget,
    Journal,
    ReActAgent,
    ScriptedModel,
    SQLiteMemory,
    Waiting,
)
from moothall.build import Thread
from moothall.cli.option_types import MomentType
from moothall.models.protocol import Call
from moothall.spaces.amqp.inbox import Inbox


def moothall(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command in a folder with a journal."""
    return journal_programs.moothall(*args, cwd=cwd, MOOTHALL_JOURNAL="runs.db")


SECRET = "the secret of anna"


def act(what: str) -> str:
    """Act."""
    return what


def reply(journal: Journal, run_id: str, secret: str = "", thread: str | None = None) -> None:
    script = [Call("c", "act", {"what": secret}), f"Yes, {secret}."]
    agent = ReActAgent(
        "clerk",
        ScriptedModel(script),
        actions=[act],
        journal=journal,
        memory=SQLiteMemory(Path(journal.path).with_name("memory")),
    )
    assert agent.reply_sync(f"go {secret}", run_id=run_id, thread=thread).stop_reason == "done"


def test_runs_options_before_a_command_are_those_of_the_command(folder: Path) -> None:
    (folder / "other.db").write_bytes((folder / "runs.db").read_bytes())
    reply(Journal(folder / "other.db"), "more")
    checked = moothall("runs", "--journal", "other.db", "check", cwd=folder)
    assert checked.stdout == "4 runs, all whole\n"
    pruned = moothall("runs", "--json", "prune", "--older", "1d", cwd=folder)
    assert json.loads(pruned.stdout)["runs"] == []
    wrong = moothall("runs", "--sort", "usd", "prune", "--older", "1d", cwd=folder)
    assert (wrong.returncode, wrong.stderr.splitlines()[-1]) == (
        2,
        "Error: runs prune takes no --sort",
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a journal, a memory and an inbox that have something of anna."""
    with Journal(tmp_path / "runs.db") as journal:
        reply(journal, "one", "other words")
        reply(journal, "two", SECRET, "anna")
        reply(journal, "three", SECRET, "anna/orders")
        budget = Budget(tokens=100, journal=journal, name="service")
        budget.child(name="anna").reserve(tokens=7).settle(tokens=5)
        budget.reserve(tokens=20)
    inbox = Inbox(tmp_path / "inbox")
    answer = {"body": json.dumps({"from": "clerk", "to": "anna", "action": SECRET})}
    inbox.end("k1", "clerk", json.dumps(answer).encode())
    asked = {"body": json.dumps({"from": "anna", "to": "clerk", "action": SECRET})}
    inbox.accept("k2", "clerk", json.dumps(asked).encode())
    answer = {"body": json.dumps({"from": "clerk", "to": "bert", "action": "hello"})}
    inbox.end("k3", "clerk", json.dumps(answer).encode())
    inbox.close()
    return tmp_path


def listed(folder: Path, *options: str) -> list[str]:
    done = moothall("runs", "--json", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return [each["id"] for each in found["runs"]]


def test_runs_delete_thread_removes_a_persons_runs_memory_and_inbox(folder: Path) -> None:
    stored = ("--thread", "anna", "--memory", "memory", "--inbox", "inbox")
    done = moothall("runs", "delete", *stored, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "2 runs deleted",
        "memory: 2 conversations forgotten",
        "inbox: 2 messages deleted",
    ]
    for path in folder.iterdir():
        assert SECRET.encode() not in path.read_bytes(), path
    assert listed(folder) == ["one"]
    inbox = Inbox(folder / "inbox")
    ended, gone, other = (inbox.look_up(f"k{n}", "clerk") for n in (1, 2, 3))
    assert ended is not None  # so that it is not handled twice
    assert ended.answer is None
    assert gone is None
    assert other is not None
    assert b"hello" in (other.answer or b"")
    inbox.close()


def test_runs_delete_thread_leaves_what_the_same_agent_sent_in_other_conversations(
    folder: Path,
) -> None:
    inbox = Inbox(folder / "inbox")
    for number, within in ((4, "anna"), (5, "bert"), (6, None)):
        headers = {} if within is None else {"within": within}
        body = json.dumps({"from": "front", "to": "clerk", "action": {"name": "say", "args": {}}})
        asked = {"headers": headers, "body": body}
        inbox.accept(f"k{number}", "clerk", json.dumps(asked).encode())
    for number, thread in ((7, "anna/orders"), (8, "bert")):
        body = json.dumps({"from": "clerk", "to": "front", "action": "hello"})
        answer = {"headers": {"thread": thread}, "body": body}
        inbox.end(f"k{number}", "clerk", json.dumps(answer).encode())
    inbox.close()
    stored = ("--thread", "front/anna", "--inbox", "inbox")
    done = moothall("runs", "delete", *stored, cwd=folder)
    assert done.stdout.splitlines()[-1] == "inbox: 2 messages deleted"
    inbox = Inbox(folder / "inbox")
    waiting = [number for number in (4, 5, 6) if inbox.look_up(f"k{number}", "clerk") is not None]
    answered = [inbox.look_up(f"k{number}", "clerk") for number in (7, 8)]
    inbox.close()
    assert waiting == [5, 6]
    assert [each is not None and each.answer is not None for each in answered] == [False, True]


def names_at_doors(person: str) -> list[tuple[str, str]]:
    """Return each sender that a caller is at the doors, with the thread that an agent gives it."""
    session = Thread.session_sender(f"mcp-{person}", "a session")
    senders = (session, *(f"{door}-{person}" for door in ("openai", "mcp", "a2a", "ag-ui")))
    found = [(sender, Thread.id_for(sender)) for sender in senders]
    found += [(sender, Thread.id_for(sender, "t" * 300)) for sender in senders]
    return found + [(sender, Thread.id_for("clerk", thread)) for sender, thread in found]


@pytest.mark.parametrize("by", ("--person", "--thread"))
def test_person_who_came_by_a_door_is_deleted_with_each_name_that_it_gave(
    folder: Path, by: str
) -> None:
    theirs = names_at_doors("eve")
    others = {thread for _, thread in names_at_doors("ev") + names_at_doors("eve-2")}
    if by == "--thread":
        theirs = [(s, t) for s, t in theirs if s.startswith("mcp") and not t.startswith("clerk")]
    with Journal(folder / "runs.db") as journal, SQLiteMemory(folder / "memory") as memory:
        for thread in sorted({thread for _, thread in theirs} | others):
            reply(journal, f"of {thread}"[:255], SECRET, thread)
            memory.thread(thread).add_memory({"role": "user", "content": "hello"})
    whose = ("--person", "eve") if by == "--person" else ("--thread", "mcp-eve")
    done = moothall("runs", "delete", *whose, "--memory", "memory", cwd=folder)
    assert done.returncode == 0, done.stderr
    with Journal(folder / "runs.db") as journal, SQLiteMemory(folder / "memory") as memory:
        left = {*journal.threads()} & {thread for _, thread in theirs}
        assert (left, others - {*journal.threads()}) == (set(), set())
        assert not {*memory.threads()} & {thread for _, thread in theirs}
        assert others <= {*memory.threads()}


@pytest.mark.parametrize("person", ("a%", "_nna", "an/na"))
def test_person_with_any_name_is_deleted_and_nobody_else(folder: Path, person: str) -> None:
    quoted = person.replace("%", "%25").replace("/", "%2F")  # as spaces and doors name threads
    threads = [person, f"{person}/x", f"openai-{quoted}", f"clerk/{quoted}"]
    with Journal(folder / "runs.db") as journal:
        for number, thread in enumerate(threads):
            reply(journal, str(number), SECRET, thread)
    assert moothall("runs", "delete", "--person", person, cwd=folder).returncode == 0
    assert listed(folder) == ["one", "two", "three"]


def test_person_is_deleted_everywhere_and_nobody_whose_name_begins_so(folder: Path) -> None:
    theirs = ("anna", "anna/orders", "openai-anna/resp_1", "mcp-anna/5f", "clerk/anna", "a2a-anna")
    others = ("joanna", "anna-b", "mcp-anna-b/5f", "clerk/anna-b", "annabel/anna2")
    with Journal(folder / "runs.db") as journal:
        for thread in (*theirs[2:], *others):
            reply(journal, f"of {thread}", SECRET if thread in theirs else "", thread)
        for name in ("anna-b", "anna/calls"):
            Budget(tokens=9, journal=journal, name=name).reserve(tokens=5).settle()
    stored = ("--person", "anna", "--memory", "memory", "--inbox", "inbox", "--json")
    done = moothall("runs", "delete", *stored, cwd=folder)
    assert done.returncode == 0, done.stderr
    deleted = json.loads(done.stdout)
    assert sorted(deleted["threads"]) == sorted(theirs)
    assert len(deleted["runs"]) == 6
    assert deleted["budgets"] == ["service/anna", "anna/calls"]
    assert (deleted["memory"], deleted["inbox"]) == ({"memory": 6}, {"inbox": 2})
    for path in folder.iterdir():
        assert SECRET.encode() not in path.read_bytes(), path
    with Journal(folder / "runs.db") as journal:
        assert journal.threads() == sorted(others)
        assert [each.name for each in journal.budgets.list()] == ["anna-b", "service"]
    with SQLiteMemory(folder / "memory") as memory:
        assert set(memory.threads()) == {"default", *others}
    done = moothall("runs", "delete", "--person", "", cwd=folder)
    assert (done.returncode, "must be a name" in done.stderr) == (2, True)


def test_runs_are_deleted_by_their_ids_or_not_at_all(folder: Path) -> None:
    done = moothall("runs", "delete", "one", "four", cwd=folder)
    assert done.returncode == 2
    assert "has no run 'four'" in done.stderr
    assert listed(folder) == ["one", "two", "three"]
    done = moothall("runs", "delete", "one", "two", "--json", cwd=folder)
    deleted = json.loads(done.stdout)
    assert (deleted["runs"], deleted["left"], deleted["overwritten"]) == (["one", "two"], {}, True)
    assert listed(folder) == ["three"]
    for args, told in (
        ((), "give the IDs of runs, --thread T or --person NAME"),
        (("three", "--memory", "memory"), "--memory and --inbox are for --thread"),
    ):
        done = moothall("runs", "delete", *args, cwd=folder)
        assert done.returncode == 2
        assert told in done.stderr


@pytest.mark.parametrize("option", ("--memory", "--inbox"))
def test_runs_delete_with_a_file_of_another_kind_deletes_nothing(folder: Path, option: str) -> None:
    before = listed(folder)
    (folder / "notes.txt").write_text("No database.\n")
    done = moothall("runs", "delete", "--thread", "anna", option, "notes.txt", cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "notes.txt" in done.stderr
    assert listed(folder) == before


def test_old_runs_are_pruned_but_for_the_newest(folder: Path) -> None:
    with Journal(folder / "runs.db") as journal:
        journal.fork("one", "copy", upto=3)
    assert moothall("runs", "prune", "--older", "1h", cwd=folder).stdout == "0 runs deleted\n"
    done = moothall("runs", "prune", "--older", "0s", "--keep", "1", cwd=folder)
    assert done.stdout == "left: one: its fork 'copy' has not ended\n2 runs deleted\n"
    assert listed(folder) == ["one", "copy"]
    done = moothall("runs", "prune", "--older", "soon", cwd=folder)
    assert done.returncode == 2
    assert "must be a number with s, m, h, d or w" in done.stderr
    done = moothall("runs", "compact", cwd=folder)
    assert "bytes before" in done.stdout


def test_old_runs_are_pruned_among_those_that_options_choose(folder: Path) -> None:
    older = ("--older", "0s")
    pruned = moothall("runs", "--thread", "anna", "prune", *older, "--keep", "1", cwd=folder)
    assert (pruned.stdout, pruned.stderr) == ("1 run deleted\n", "")
    assert listed(folder) == ["one", "three"]
    pruned = moothall("runs", "prune", *older, "--until", "2020-01-01", cwd=folder)
    assert pruned.stdout == "0 runs deleted\n"
    wrong = moothall("runs", "prune", *older, "--state", "dnoe", cwd=folder)
    assert wrong.returncode == 2
    assert "done" in wrong.stderr.splitlines()[-1]
    assert moothall("runs", "--needs-me", "prune", *older, cwd=folder).stdout == "0 runs deleted\n"
    assert listed(folder) == ["one", "three"]


def test_runs_are_found_by_options(folder: Path) -> None:
    assert listed(folder, "--thread", "anna") == ["two", "three"]
    assert listed(folder, "--text", "SECRET anna", "--sort", "-began") == ["three", "two"]
    assert listed(folder, "--state", "done, stopped", "--limit", "1") == ["three"]
    assert listed(folder, "--limit", "2") == ["two", "three"]  # the last ones, as without --limit
    assert listed(folder, "--limit", "2", "--sort", "began") == ["one", "two"]
    assert listed(folder, "--since", "1h", "--kind", "ReActAgent", "--agent", "clerk") != []
    assert listed(folder, "--until", "2020-01-01") == listed(folder, "--until", "yesterday") == []
    assert listed(folder, "--since", "yesterday") == ["one", "two", "three"]
    assert listed(folder, "--needs-me") == []
    done = moothall("runs", "--needs-me", cwd=folder)
    assert done.stdout == "There are no such runs.\n"
    done = moothall("runs", "--limit", "2", "--sort", "-began", cwd=folder)
    assert done.stdout.splitlines()[1].startswith("three ")
    assert done.stdout.splitlines()[-1].startswith("3 runs; 2 are shown (--limit): 6 model calls")
    for args, told in (
        (("one", "--state", "done"), "an ID is one run"),
        (("--since", "lately"), "must be a date"),
        (("--sort", "age"), "must be began"),
        (("--state", ""), "must be running, waiting"),
        (("--state", "done,,error"), "must be running, waiting"),
        (("one", "two"), "unexpected extra argument"),
    ):
        done = moothall("runs", *args, cwd=folder)
        assert done.returncode == 2
        assert told in " ".join(done.stderr.split())


def test_moment_yesterday_is_the_midnight_before_todays() -> None:
    moments = [MomentType().convert(day, None, None) for day in ("yesterday", "today", "yesterday")]
    days = [datetime.fromtimestamp(each) for each in moments]
    assert {each.time() for each in days} == {datetime.min.time()}
    one_day = timedelta(days=1)
    # A midnight may pass between two of them.
    assert one_day in (days[1] - days[0], days[1] - days[2])


def test_memory_that_another_process_reads_is_named_when_it_is_to_be_overwritten(
    folder: Path,
) -> None:
    with closing(sqlite3.connect(folder / "memory")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
        done = moothall("runs", "delete", "--thread", "anna", "--memory", "memory", cwd=folder)
    assert done.returncode == 0
    assert "memory: another process reads an older state" in done.stderr


def test_run_is_moved_to_another_journal(folder: Path) -> None:
    done = moothall("runs", "export", "two", "--jsonl", "two.jsonl", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = moothall("runs", "import", "two.jsonl", "--journal", "other.db", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "two\n")
    replays = [
        moothall("replay", "two", "--journal", journal, cwd=folder).stdout
        for journal in ("runs.db", "other.db")
    ]
    assert replays[0] == replays[1]
    done = moothall("runs", "import", "two.jsonl", cwd=folder)
    assert done.returncode == 2
    assert "there is a run 'two' already" in done.stderr
    (folder / "two.jsonl").write_text('{"moothall": "run"}\n')
    done = moothall("runs", "import", "two.jsonl", "--run-id", "x", cwd=folder)
    assert done.returncode == 1
    assert "it was written before moothall 0.1.0" in done.stderr


def test_run_that_is_moved_goes_on_in_one_journal_only(folder: Path) -> None:
    done = moothall("runs", "export", "two", "--jsonl", "two.jsonl", "--move", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert listed(folder, "--state", "elsewhere") == ["two"]
    done = moothall("runs", "import", "two.jsonl", "--journal", "other.db", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "two\n")
    done = moothall("runs", "export", "one", cwd=folder)
    assert done.returncode == 2
    assert "Missing option '--jsonl'" in done.stderr


def test_journal_is_backed_up(folder: Path) -> None:
    assert moothall("runs", "backup", "copy.db", cwd=folder).returncode == 0
    assert listed(folder, "--journal", "copy.db") == ["one", "two", "three"]
    done = moothall("runs", "backup", "copy.db", cwd=folder)
    assert done.returncode == 2
    assert "is there already: name a file that is not" in done.stderr


def test_backup_takes_the_place_of_a_journal_that_nobody_has_open(folder: Path) -> None:
    assert moothall("runs", "backup", "copy.db", cwd=folder).returncode == 0
    with Journal(folder / "runs.db") as journal:
        journal.delete("one")
        done = moothall("runs", "restore", "copy.db", cwd=folder)
        assert done.returncode == 1
        assert "a process has it open: stop that first" in done.stderr
        Path(f"{journal.path}-stale").write_bytes(Path(f"{journal.path}-wal").read_bytes())
    (folder / "runs.db-stale").rename(folder / "runs.db-wal")  # as after a kill
    (folder / "runs.db").chmod(0o640)
    (folder / "copy.db").chmod(0o644)
    done = moothall("runs", "restore", "copy.db", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert listed(folder) == ["one", "two", "three"]
    assert stat.S_IMODE((folder / "runs.db").stat().st_mode) == 0o640  # as open as it was
    assert moothall("replay", "one", cwd=folder).returncode == 0
    old = done.stdout.rpartition(" ")[2].strip()
    assert listed(folder, "--journal", old) == ["two", "three"]
    assert moothall("runs", "check", cwd=folder).stdout == "3 runs, all whole\n"
    done = moothall("runs", "restore", "runs.db", cwd=folder)
    assert (done.returncode, "is the journal itself" in done.stderr) == (2, True)


def test_restore_sets_aside_what_a_memory_has_of_later_runs(folder: Path) -> None:
    assert moothall("runs", "backup", "copy.db", cwd=folder).returncode == 0
    with Journal(folder / "runs.db") as journal, SQLiteMemory(folder / "a.memory") as memory:
        agent = ReActAgent("a", ScriptedModel(["Yes."] * 2), memory=memory, journal=journal)
        memory.thread("bob").add_memory({"role": "user", "content": "I am Bob."})
        agent.reply_sync("I moved.", thread="anna")
        agent.reply_sync("I moved.", thread="bob")
    done = moothall("runs", "restore", "copy.db", "--memory", "a.memory", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[2:] == [
        "a.memory, thread 'bob': 2 messages set aside",
        "a.memory, thread 'anna': 2 messages set aside",
    ]
    with SQLiteMemory(folder / "a.memory") as memory:
        assert [each["content"] for each in memory.thread("bob").messages()] == ["I am Bob."]
        assert not [*memory.thread("anna").messages()]
        set_aside = memory.thread("anna").messages_set_aside()
        assert [each["content"] for each in set_aside] == ["I moved.", "Yes."]


def test_restore_sets_aside_what_a_memory_has_of_a_run_that_went_on_later(folder: Path) -> None:
    def agent(journal: Journal, memory: SQLiteMemory) -> ReActAgent:
        pay = Action("pay", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)
        model = ScriptedModel([Call("c", "pay", {}), "It is paid."])
        options: Any = {"memory": memory, "journal": journal, "approver": Waiting()}
        return ReActAgent("a", model, actions=[pay], **options)

    with Journal(folder / "runs.db") as journal, SQLiteMemory(folder / "a.memory") as memory:
        agent(journal, memory).reply_sync("Hello.", thread="anna", run_id="r")
    assert moothall("runs", "backup", "copy.db", cwd=folder).returncode == 0
    with Journal(folder / "runs.db") as journal, SQLiteMemory(folder / "a.memory") as memory:
        (wait,) = journal.waiting("r")
        journal.answer("r", wait.key, True)
        agent(journal, memory).reply_sync("Hello.", thread="anna", run_id="r")
    done = moothall("runs", "restore", "copy.db", "--memory", "a.memory", cwd=folder)
    with SQLiteMemory(folder / "a.memory") as memory:
        thread = memory.thread("anna")
        assert [each["content"] for each in thread.messages()] == ["Hello."]
        assert [each["content"] for each in thread.messages_set_aside()] == [
            "",
            "paid",
            "It is paid.",
        ]
    assert done.stdout.splitlines()[2:] == ["a.memory, thread 'anna': 3 messages set aside"]
    done = moothall("runs", "restore", "copy.db", "--memory", "none.memory", cwd=folder)
    assert (done.returncode, "none.memory" in done.stderr) == (2, True)


def said_later(folder: Path) -> None:
    """A copy of a journal lies in its place by hand; its memory has a deleted and a later run."""
    with Journal(folder / "runs.db") as journal, SQLiteMemory(folder / "a.memory") as memory:
        agent = ReActAgent("a", ScriptedModel(["Yes."] * 4), memory=memory, journal=journal)
        agent.reply_sync("I am Anna.", thread="anna", run_id="first")
        agent.reply_sync("Order tea.", thread="anna", run_id="deleted")
        agent.reply_sync("I am Bob.", thread="bob")
        journal.delete("deleted")
        journal.backup(folder / "copy.db")
        agent.reply_sync("I moved.", thread="anna", run_id="later")
    for each in folder.glob("runs.db*"):
        each.unlink()
    shutil.copy(folder / "copy.db", folder / "runs.db")


def test_memory_ahead_of_a_copy_put_there_by_hand_is_said_and_mended(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for each in folder.glob("runs.db*"):
        each.unlink()
    said_later(folder)
    with (
        contextlib.chdir(folder),
        Journal("runs.db") as journal,
        SQLiteMemory("a.memory") as memory,
    ):
        agent = ReActAgent("a", ScriptedModel(["Yes."] * 3), memory=memory, journal=journal)
        agent.reply_sync("Hello.", thread="bob")
        assert not caplog.records
        agent.reply_sync("Hello.", thread="anna")
        agent.reply_sync("Hello?", thread="anna")
    (warning,) = [each.getMessage() for each in caplog.records]
    (command,) = re.findall("`moothall (.*)`", warning)
    done = moothall(*shlex.split(command), cwd=folder)
    assert done.returncode == 0, done.stderr
    # What came after it rests on it; that is of runs that the journal knows, and stays.
    assert done.stdout.splitlines() == ["a.memory, thread 'anna': 2 messages set aside"]
    with SQLiteMemory(folder / "a.memory") as memory:
        thread = memory.thread("anna")
        assert [each["content"] for each in thread.messages_set_aside()] == ["I moved.", "Yes."]
        kept = [each["content"] for each in thread.messages() if each["role"] == "user"]
        assert kept == ["I am Anna.", "Order tea.", "Hello.", "Hello?"]


def test_restore_without_the_former_journal_finds_the_runs_that_came_later(folder: Path) -> None:
    for each in folder.glob("runs.db*"):
        each.unlink()
    said_later(folder)
    for each in folder.glob("runs.db*"):
        each.unlink()
    done = moothall("runs", "restore", "copy.db", "--memory", "a.memory", cwd=folder)
    assert done.stdout.splitlines()[1:] == ["a.memory, thread 'anna': 2 messages set aside"]
    done = moothall("runs", "restore", "runs.db", cwd=folder)
    assert (done.returncode, "is the journal itself" in done.stderr) == (2, True)


def test_damaged_journal_is_named_by_check_and_not_restored(folder: Path) -> None:
    assert moothall("runs", "backup", "copy.db", cwd=folder).returncode == 0
    with closing(sqlite3.connect(folder / "copy.db")) as damaged, damaged:
        damaged.execute("UPDATE entries SET data = replace(data, 'words', 'sword')")
    done = moothall("runs", "check", "--journal", "copy.db", cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "run 'one' is not what was written: its checksum is wrong" in done.stderr
    done = moothall("runs", "restore", "copy.db", cwd=folder)
    assert done.returncode == 1
    assert "it is damaged, and was not restored" in done.stderr
    assert listed(folder) == ["one", "two", "three"]


def test_budgets_are_given_as_json(folder: Path) -> None:
    found = json.loads(moothall("budgets", "--json", cwd=folder).stdout)["budgets"]
    assert [(each["name"], each["limits"]["tokens"]) for each in found] == [
        ("service", 100),
        ("service/anna", None),
    ]


def test_budgets_take_a_journal_before_the_subcommand_rather_than_the_variable(
    folder: Path,
) -> None:
    with Journal(folder / "other.db") as journal:
        Budget(tokens=9, journal=journal, name="service").reserve(tokens=7).settle(tokens=5)
    done = moothall("budgets", "--journal", "other.db", "reset", "service", cwd=folder)
    assert "  0 of 9 tokens spent\n" in done.stdout
    done = moothall("budgets", cwd=folder)
    assert "  5 of 100 tokens spent" in done.stdout
    both = ("--journal", "other.db", "reset", "service", "--journal", "runs.db")
    assert "  0 of 100 tokens spent" in moothall("budgets", *both, cwd=folder).stdout


def test_old_conversations_of_memories_are_forgotten(folder: Path) -> None:
    done = moothall("memory", "prune", "memory", "--older", "1h", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "memory: 0 conversations forgotten\n")
    done = moothall("memory", "prune", "memory", "--older", "0s", "--json", cwd=folder)
    found = json.loads(done.stdout)["memory"]["memory"]
    assert sorted(found) == ["anna", "anna/orders", "default"]
    assert SECRET.encode() not in (folder / "memory").read_bytes()
    assert moothall("memory", "prune", "nothing", "--older", "1h", cwd=folder).returncode == 2


@pytest.mark.parametrize(
    ("disk", "command", "problem"),
    (
        (("--size", "400000", "--tmpfs"), "runs delete one", "the disk is full: make room"),
        (("--ro-bind", "."), "runs delete one", "it may not be written (Read-only file system)"),
    ),
)
def test_commands_on_a_disk_that_takes_nothing_say_so(
    tmp_path: Path, disk: tuple[str, ...], command: str, problem: str
) -> None:
    (tmp_path / "disk").mkdir()
    for at in (tmp_path, tmp_path / "disk"):
        with Journal(at / "runs.db") as journal:
            ReActAgent("clerk", ScriptedModel(["Yes."]), journal=journal).reply_sync(
                "Go.", run_id="one"
            )
    fill = "cp runs.db disk; cat /dev/zero > disk/fill; " if "--tmpfs" in disk else ""
    program = (
        f"{fill}exec {shlex.quote(sys.executable)} -m moothall {command} --journal disk/runs.db"
    )
    sandbox = ["bwrap", "--dev-bind", "/", "/", *disk]
    folder = str(tmp_path / "disk")
    args = [folder if each == "." else each for each in sandbox] + [folder, "sh", "-c", program]
    done = subprocess.run(args, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode != 0, problem in done.stderr) == (True, True), done.stderr


def test_feedback_is_noted_with_the_name_of_who_gives_it(folder: Path) -> None:
    with Journal(folder / "runs.db") as journal:
        run_id = journal.runs()[0].id
    said = moothall(
        "runs", "feedback", run_id, "--bad", "--note", "Too long.", "--as", "eva", cwd=folder
    )
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
    assert "called not good by eva: Too long." in moothall("runs", run_id, cwd=folder).stdout
    nothing = moothall("runs", "feedback", run_id, cwd=folder)
    assert nothing.returncode == 2
    assert "give good=True, good=False or a note=" in nothing.stderr
