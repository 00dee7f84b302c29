"""What is deleted is gone: from lists, from the file's bytes, and from the folder beside it."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from commands import Command
from journal.conftest import Place
from moothall import (
    ACCESS_REQUESTED,
    Action,
    Conversation,
    Journal,
    ReActAgent,
    RunHeld,
    ScriptedModel,
    Waiting,
)
from moothall.foundation.errors import ConfigError, DefinitionError, JournalError, NoSuchRun
from moothall.journal import RunView
from moothall.models.protocol import Call

SECRET = "the secret of anna"


def act(what: str) -> str:
    """Act."""
    return what


def reply(journal: Journal, run_id: str, secret: str = "", size: int = 10, **ask: Any) -> None:
    text = f"{secret} {'x' * size}"
    script = [Call("c", "act", {"what": text}), f"Yes, {secret}."]
    agent = ReActAgent("a", ScriptedModel(script), actions=[act], journal=journal)
    assert agent.reply_sync(f"go {secret}", run_id=run_id, **ask).stop_reason == "done"


@pytest.fixture
def journal(place: Place) -> Iterator[Journal]:
    with Journal(place("j")) as journal:
        yield journal


@pytest.fixture
def filed(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "j") as journal:
        yield journal


def all_bytes(folder: Path) -> bytes:
    """The files of a journal, and their names."""
    found = b""
    for path in sorted(folder.rglob("j*")) + sorted(folder.glob("j-kept/*")):
        found += path.name.encode() + (path.read_bytes() if path.is_file() else b"")
    return found


def test_deleted_run_is_gone_from_every_byte(filed: Journal, tmp_path: Path) -> None:
    for number in range(30):  # rows of several runs share pages
        size = (10, 1500, 3000, 100_000)[number % 4]
        reply(filed, f"keep-{number}", f"kept words {number}", size)
        about = {"thread": f"anna/{number}", "tags": {"about": SECRET}}
        reply(filed, f"gone-{number}", f"{SECRET} {number}", size, **about)
    assert SECRET.encode() in all_bytes(tmp_path)
    deleted = filed.delete(thread="anna")
    assert deleted.runs == [f"gone-{number}" for number in range(30)]
    assert (deleted.left, deleted.overwritten) == ({}, True)
    assert SECRET.encode() not in all_bytes(tmp_path)
    assert b"gone-" not in all_bytes(tmp_path)
    assert len(filed.runs()) == 30
    for number in range(30):
        run = filed.replay(f"keep-{number}")
        assert f"kept words {number}" in str(run.messages)


def test_deleted_run_of_many_large_results_is_gone_from_every_byte(
    filed: Journal, tmp_path: Path
) -> None:
    texts = [f"{SECRET} {number} {'x' * 60_000}" for number in range(40)]
    calls = tuple(Call(f"c{n}", "act", {"what": text}) for n, text in enumerate(texts))
    agent = ReActAgent("a", ScriptedModel([calls, "Yes."]), actions=[act], journal=filed)
    agent.reply_sync("go", run_id="gone")
    assert SECRET.encode() in all_bytes(tmp_path)
    assert filed.delete("gone").runs == ["gone"]
    assert SECRET.encode() not in all_bytes(tmp_path)


def test_deleted_run_is_found_nowhere(journal: Journal) -> None:
    reply(journal, "R", SECRET)
    assert journal.delete("R").runs == ["R"]
    assert journal.runs() == []
    assert journal.runs(text="secret") == []
    for use in (journal.run, journal.entries, journal.replay, journal.fork, journal.delete):
        with pytest.raises(NoSuchRun):
            use("R")
    reply(journal, "R", "another")  # its id is free
    assert journal.run("R").task == "go another"


def test_value_lives_as_long_as_a_run_has_it(filed: Journal, tmp_path: Path) -> None:
    for size in (5_000, 2_000_000):  # in the file, and beside it
        shared = f"shared {size}"
        reply(filed, "one", shared, size)
        reply(filed, "two", shared, size)
        filed.fork("two", "three")
        whole = filed.entries("three")
        for run in ("one", "two"):
            filed.delete(run)
            assert shared.encode() in all_bytes(tmp_path)
            assert filed.entries("three") == whole
        filed.delete("three")
        assert shared.encode() not in all_bytes(tmp_path)
    assert list((tmp_path / "j-kept").iterdir()) == []


def test_thread_in_a_file_whose_earlier_runs_are_deleted_goes_on(
    place: Place, tmp_path: Path
) -> None:
    """What an agent knows to be kept by earlier runs may be gone, and is kept again."""
    with Journal(place("j")) as journal, Journal(place("j")) as operator:
        model = ScriptedModel([f"Answer {n}" for n in range(40)])
        agent = ReActAgent("a", model, journal=journal, memory=tmp_path / "memory.db")
        for number in range(40):
            agent.reply_sync(f"Question {number}", run_id=f"r{number}", thread="anna")
            if number in (20, 21, 30):
                gone = [each.id for each in operator.runs()]
                assert operator.delete(*gone).runs == gone

        for run in journal.runs():
            view = RunView(journal, run)
            given = view.prompt(next(each.sequence for each in view.entries if each.ends_step))
            assert given is not None
            number = int(run.id[1:])
            said = [each["content"] for each in given["messages"]]
            assert said[-3:] == [
                f"Question {number - 1}",
                f"Answer {number - 1}",
                f"Question {number}",
            ]
            assert len(said) == 2 * number + 1


HOLD = """
import os, sys
from moothall import Journal, ReActAgent, ScriptedModel
def act() -> str:
    "Act."
    print("acts", flush=True)
    sys.stdin.read()
    return "done"
from moothall.models.protocol import Call
model = ScriptedModel([Call("c", "act", {}), "Yes."])
ReActAgent("a", model, actions=[act], journal=sys.argv[1]).reply_sync("go", run_id="held")
"""


@pytest.fixture
def holder(place: Place) -> Iterator[Command]:
    """A process that works on the run `held`."""
    pipe = subprocess.PIPE
    with Command(place("j"), code=HOLD, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "acts\n"
        yield process
        process.kill()


def test_run_that_a_process_works_on_is_left_and_named(
    journal: Journal, holder: subprocess.Popen[str]
) -> None:
    reply(journal, "old")
    reply(journal, "other", "", thread="held")
    with pytest.raises(RunHeld, match=f"run 'held' is being worked on by process {holder.pid}"):
        journal.delete("old", "held")
    assert [each.id for each in journal.runs()] == ["held", "old", "other"]
    pruned = journal.prune(0)
    assert sorted(pruned.runs) == ["old", "other"]
    assert list(pruned.left) == ["held"]
    assert f"process {holder.pid} on " in pruned.left["held"]
    assert not pruned.overwritten  # the file was not written anew beside that process
    assert journal.compact()
    assert journal.compact()


def test_prune_leaves_what_waits_for_a_person_or_has_a_living_fork(
    journal: Journal, holder: subprocess.Popen[str]
) -> None:
    holder.kill()
    holder.wait()
    reply(journal, "done")
    reply(journal, "forked")
    journal.fork("forked", "living", upto=3)
    reply(journal, "ended")
    journal.fork("ended", "ended.1")
    reply(journal, "newest")
    pruned = journal.prune(0, keep=1)
    assert sorted(pruned.runs) == ["done", "ended", "ended.1", "forked", "living"]
    assert pruned.left == {"held": "it waits for a person: calls are in doubt"}
    assert [each.id for each in journal.runs()] == ["held", "newest"]
    journal.fork("newest", "copy", upto=3)
    left = journal.prune(0, keep=1).left
    assert left["newest"] == "its fork 'copy' has not ended"
    journal.decide("held", "skip")
    assert "held" in journal.prune(0).runs


def test_prune_deletes_what_is_old_enough(journal: Journal) -> None:
    reply(journal, "R")
    assert journal.prune(3600).runs == []
    with pytest.raises(DefinitionError, match="older_than= must be from 0 seconds"):
        journal.prune(-1)
    with pytest.raises(DefinitionError, match="keep= must be a whole number from 0"):
        journal.prune(0, keep=-1)
    assert journal.prune(0).runs == ["R"]


def test_prune_deletes_among_the_wanted_runs_all_but_their_newest(journal: Journal) -> None:
    for number, plan in enumerate(("free", "paid", "free", "free", "paid")):
        reply(journal, f"R{number}", tags={"plan": plan}, thread=f"T{number}")
    assert journal.prune(3600, tags={"plan": "free"}).runs == []
    assert journal.prune(0, keep=1, tags={"plan": "free"}).runs == ["R0", "R2"]
    assert journal.prune(0, agent="another").runs == []
    with pytest.raises(TypeError, match="plans"):
        journal.prune(0, plans="free")  # type: ignore[call-arg]
    assert journal.prune(0, keep=1, agent="a", state="done", thread="T1").runs == []
    assert [run.id for run in journal.runs()] == ["R1", "R3", "R4"]


def test_prune_leaves_a_run_that_a_process_has_worked_on_since_it_began(
    journal: Journal, place: Place
) -> None:
    asked, goes_on = threading.Event(), threading.Event()

    def answer(messages: Any, actions: Any) -> Any:
        asked.set()
        assert goes_on.wait(60)
        return {"name": "pay"}

    pay = Action("pay", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)
    with Journal(place("j")) as other, ThreadPoolExecutor() as threads:
        given: dict[str, Any] = {"approver": Waiting(), "journal": other}
        clerk = ReActAgent("clerk", ScriptedModel(answer), actions=[pay], **given)
        work = threads.submit(clerk.reply_sync, "Pay.", run_id="worked on")
        assert asked.wait(60)
        for number in range(150):  # are pruned before it, as newer ones
            reply(journal, f"r{number}")
        pruning = threads.submit(journal.prune, 0)
        while other.runs(sort="-began", limit=1)[0].id == "r149":
            pass  # it has listed the runs when the newest are deleted
        goes_on.set()
        assert work.result(60).stop_reason == "waiting"
        assert [*pruning.result(60).left] == ["worked on"]
        assert [each.run for each in other.waiting()] == ["worked on"]


WRITE = """
import os, sys, time
from moothall import Journal, ReActAgent, ScriptedModel
from moothall.models.protocol import Call
waits = []
journal = Journal(sys.argv[1])
def act() -> str:
    "Write all the time."
    print("writes", flush=True)
    while not os.path.exists(sys.argv[1] + ".stop"):
        began = time.perf_counter()
        journal.budgets.change_accounts(["b"], lambda states: [{"n": len(waits)}])
        waits.append(time.perf_counter() - began)
    return "done"
model = ScriptedModel([Call("c", "act", {}), "Yes."])
ReActAgent("a", model, actions=[act], journal=journal).reply_sync("go", run_id="held")
waits.sort()
print(waits[-1], waits[-len(waits) // 1000 or -1], len(waits))
"""


@pytest.mark.long
def test_writers_wait_at_most_fifty_milliseconds_for_a_prune(
    filed: Journal, tmp_path: Path
) -> None:
    for number in range(300):
        reply(filed, f"r{number}", f"words {number} ", (100, 5000, 50_000)[number % 3])
    pipe: Any = {"stdout": subprocess.PIPE, "text": True}
    with Command(tmp_path / "j", code=WRITE, **pipe) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writes\n"
        assert len(filed.prune(0).runs) == 300
        Path(f"{tmp_path / 'j'}.stop").touch()
        longest, most, writes = writer.stdout.read().split()
    assert int(writes) > 1000
    assert float(most) < 0.05  # but for one in a thousand, of which the machine takes the time
    assert float(longest) < 0.5


PRUNE = """
import os, signal, sys, threading
from moothall import Journal
journal = Journal(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
journal.delete(thread="anna")
print("ended", flush=True)
"""


@pytest.mark.parametrize(
    "seed", (1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 40)))
)
def test_deletion_whose_process_is_killed_goes_on_at_the_next(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with Journal(tmp_path / "j") as journal:
        for number in range(60):
            size = (10, 3000, 1_100_000)[(number % 20 == 0) + (number % 2)]
            reply(journal, f"keep-{number}", f"kept words {number}", size)
            reply(journal, f"gone-{number}", f"{SECRET} {number}", size, thread="anna")
        whole = {run.id: journal.entries(run.id) for run in journal.runs()}
    with subprocess.Popen(
        [sys.executable, "-c", PRUNE, str(tmp_path / "j")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("\n")
        process.stdin.flush()
        killer = threading.Timer(rng.uniform(0.0, 0.6), process.kill)
        killer.start()
        process.wait()
        killer.cancel()
    with Journal(tmp_path / "j") as journal:
        left = [each.id for each in journal.runs()]
        for id in left:
            assert journal.entries(id) == whole[id]
        assert [id for id in left if id.startswith("keep")] == [f"keep-{n}" for n in range(60)]
        journal.delete(thread="anna")
        journal.compact()
        assert SECRET.encode() not in all_bytes(tmp_path)
        for id in (f"keep-{n}" for n in range(60)):
            assert journal.entries(id) == whole[id]


@pytest.mark.parametrize("thread", ("", 5))
def test_thread_that_nobody_has_is_refused_where_runs_are_deleted(
    thread: Any, tmp_path: Path
) -> None:
    with Journal(tmp_path / "runs.db") as journal, pytest.raises(ConfigError, match="thread= must"):
        journal.delete(thread=thread)


def test_runs_in_which_an_agent_was_asked_on_behalf_of_a_thread_are_named(journal: Journal) -> None:
    for run, thread in (
        ("own", "anna"),
        ("asked", "clerk/anna"),
        ("asked again", "clerk/anna/second"),
        ("another's", "clerk/joanna"),
        ("case", "clerk/Anna"),
        ("longer", "clerk/anna-b"),
        ("below", "anna/clerk/anna"),
        ("own, odd", "!_%"),
        ("asked, odd", "clerk/!_%"),
    ):
        reply(journal, run, thread=thread)

    deleted = journal.delete(thread="anna")

    assert deleted.runs == ["own", "below"]
    assert [*deleted.left] == ["asked", "asked again"]
    assert "'clerk/anna'" in deleted.left["asked"]
    assert journal.delete(thread="clerk/anna").runs == ["asked", "asked again"]
    assert [*journal.delete(thread="!_%").left] == ["asked, odd"]


COMPACT = """
import sys
from moothall import Journal
with Journal(sys.argv[1]) as journal:
    print("begins", flush=True)
    journal.compact()
"""


@pytest.mark.long
def test_large_journal_is_written_anew_where_there_is_room_before_writers_and_after_a_kill(
    filed: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j"
    for number in range(44):  # too large to be written anew by each deletion
        secret = f"{SECRET} {number} " if number % 2 else "kept "
        reply(filed, f"r{number}", secret * 3, 900_000 + number, thread=("bo", "anna")[number % 2])
    whole = {run.id: filed.entries(run.id) for run in filed.runs(thread="bo")}
    assert len(filed.delete(thread="anna").runs) == 22
    before = path.stat().st_size

    with monkeypatch.context() as full:
        room = shutil.disk_usage(tmp_path)._replace(free=4_000_000)
        full.setattr(shutil, "disk_usage", lambda _: room)
        with pytest.raises(JournalError, match=r"needs \d.* disk, which has 4,000,000: make room"):
            filed.compact()
    assert path.stat().st_size == before

    pipe: Any = {"stdout": subprocess.PIPE, "text": True}
    with Command(path, code=COMPACT, **pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        number = 0
        while process.poll() is None and number < 20:  # before it has ended, or after
            number += 1
            reply(filed, f"beside{number}", thread="bo")
        process.kill()
    reply(filed, "last", thread="bo")
    filed.compact()

    assert path.stat().st_size < before * 0.6
    assert SECRET.encode() not in all_bytes(tmp_path)
    assert filed.check() == []
    assert {id: filed.entries(id) for id in whole} == whole
    assert len(filed.runs(thread="bo")) == 22 + number + 1


FULL = """
import logging, os, resource, shutil, signal, sys
from moothall import Journal, ReActAgent, ScriptedModel
logging.disable()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder = sys.argv[1]
# Of the process, where this system lets nobody make a small disk.
resource.setrlimit(resource.RLIMIT_FSIZE, (6_000_000, resource.RLIM_INFINITY))
def look() -> str:
    return os.urandom(30_000).hex()
def run(id):
    model = ScriptedModel([{"name": "look"}, "Yes."])
    agent = ReActAgent("a", model, actions=[look], journal=journal)
    return agent.reply_sync("go", run_id=id)
journal = Journal(f"{folder}/runs.db")
whole = 0
while run(f"r{whole}").stop_reason == "done":
    whole += 1
try:
    with open(f"{folder}/others", "wb", buffering=0) as others:
        while others.write(bytes(4096)):
            pass
except OSError:
    pass
pruned = journal.prune(0, keep=5)
print(whole > 9, len(pruned.runs) >= whole - 5, pruned.left)
print(journal.check(), all(journal.replay(r.id).text for r in journal.runs(state="done")))
print(shutil.disk_usage(folder).free > 3_000_000, run("new").stop_reason)
"""


def test_runs_are_pruned_on_a_full_disk_and_give_their_room_back(tmp_path: Path) -> None:
    assert shutil.which("bwrap"), "the tests need bubblewrap: apt install bubblewrap"
    small = ["bwrap", "--dev-bind", "/", "/", "--size", "8000000", "--tmpfs", str(tmp_path)]
    if subprocess.run([*small, "true"], capture_output=True, check=False).returncode:
        small = []
    made = [*small, sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(made, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "True True {}\n[] True\nTrue done\n", done.stderr


# -- what a process remembers ----------------------------------------------------------------------


def _hearer(id: str = "clerk", **options: Any) -> tuple[ReActAgent, ScriptedModel]:
    model = ScriptedModel(lambda messages, _: "Heard.")
    return ReActAgent(id, model, **options), model


def _asked(model: ScriptedModel) -> str:
    return str(model.received[-1])


@pytest.mark.parametrize("how", ("thread", "id", "other process"))
def test_conversation_in_the_process_is_forgotten_with_a_deleted_run(
    place: Place, how: str
) -> None:
    with Journal(place("j")) as journal:
        agent, model = _hearer(journal=journal)
        agent.reply_sync("Ada's secret", thread="ada", run_id="a")
        agent.reply_sync("more", thread="ada")
        agent.reply_sync("Bob's secret", thread="bob")
        if how == "other process":
            with Command("runs", "delete", "a", "--journal", place("j")) as command:
                assert command.wait(60) == 0
        elif how == "id":
            journal.delete("a")
        else:
            journal.delete(thread="ada")
        agent.reply_sync("and?", thread="ada")
        assert "secret" not in _asked(model)
        agent.reply_sync("go on", thread="ada")
        assert "and?" in _asked(model)
        agent.reply_sync("and?", thread="bob")
        assert "Bob's secret" in _asked(model)


def test_members_of_a_group_forget_a_conversation_with_a_deleted_run(place: Place) -> None:
    with Journal(place("j")) as journal:
        member, model = _hearer("member")
        group = Conversation([member], id="group", max_turns=1, journal=journal)
        group.reply_sync("Ada's secret", thread="ada")
        group.reply_sync("Bob's secret", thread="bob")
        journal.delete(thread="ada")
        group.reply_sync("and?", thread="ada")
        assert "and?" in _asked(model)
        assert "secret" not in _asked(model)
        group.reply_sync("and?", thread="bob")
        assert "Bob's secret" in _asked(model)


def test_memory_in_a_file_and_an_agents_own_conversation_stay_after_a_deletion(
    place: Place, tmp_path: Path
) -> None:
    with Journal(place("j")) as journal:
        agent, model = _hearer(journal=journal, memory=tmp_path / "memory.db")
        own, heard = _hearer("own", journal=journal)
        agent.reply_sync("one", thread="ada", run_id="a")
        own.reply_sync("one", run_id="o")
        journal.delete("a", "o")
        agent.reply_sync("two", thread="ada")
        own.reply_sync("two")
        assert "one" in _asked(model)
        assert "one" in _asked(heard)
