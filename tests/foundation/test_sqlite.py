"""What journals, memories and inboxes have in common, as SQLite files of ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import commands
from moothall import Journal, ReActAgent, ScriptedModel, SQLiteMemory
from moothall.foundation.errors import JournalError, MemoryFileError, NoSuchRun
from moothall.spaces.amqp.inbox import Inbox


def run(journal: Journal | Path, run_id: str) -> str:
    agent = ReActAgent("a", ScriptedModel(["Yes."]), journal=journal)
    return agent.reply_sync("go", run_id=run_id).text


# From 3.12 on, Python warns of a fork beside threads, which some of these programs try.
_QUIET = ("-W", "ignore:This process:DeprecationWarning")


def python(program: str, *args: object, to_its_end: bool = False) -> str:
    """What a program prints, in a process of its own; perhaps with the end of an interpreter."""
    if to_its_end:
        command = [sys.executable, *_QUIET, "-c", program, *map(str, args)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    else:
        done = commands.run(*args, code=program, options=_QUIET)
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


RUNS = (
    "import sys; from moothall import Journal; print([r.id for r in Journal(sys.argv[1]).runs()])"
)
CLOSED = RUNS.replace("print(", "journal = Journal(sys.argv[1]); print(") + "; journal.close()"


# -- a file that is not where it was ---------------------------------------------------------------


def delete(path: Path) -> None:
    for end in ("", "-wal", "-shm"):
        Path(f"{path}{end}").unlink()


def move(path: Path) -> None:
    for end in ("", "-wal", "-shm"):
        Path(f"{path}{end}").rename(f"{path}.old{end}")


def replace(path: Path) -> None:
    delete(path)
    with Journal(path):
        pass


@pytest.mark.parametrize("how", (delete, move, replace))
def test_journal_that_is_gone_records_nothing_quietly(
    tmp_path: Path, how: Callable[[Path], None]
) -> None:
    path = tmp_path / "runs.db"
    with Journal(path) as journal:
        assert run(journal, "A") == "Yes."
        how(path)
        for write in (lambda: run(journal, "B"), lambda: journal.fork("A")):
            with pytest.raises(JournalError, match=r"runs\.db': it is gone: restore it, or make"):
                write()
    if how is move:
        with Journal(tmp_path / "runs.db.old") as journal:
            assert [each.id for each in journal.runs()] == ["A"]


def test_memory_that_is_gone_takes_nothing_quietly(tmp_path: Path) -> None:
    with SQLiteMemory(tmp_path / "memory.db") as memory:
        memory.add_memory({"role": "user", "content": "x"})
        (tmp_path / "memory.db").unlink()
        with pytest.raises(MemoryFileError, match=r"memory\.db': it is gone: restore it"):
            memory.add_memory({"role": "user", "content": "x"})


# -- several in one process ------------------------------------------------------------------------


def test_second_journal_of_a_process_does_not_lose_what_the_first_writes(tmp_path: Path) -> None:
    """Another process that closes the file must not take itself for the last one that has it."""
    path = tmp_path / "runs.db"
    with Journal(path) as one:
        assert run(one, "A") == "Yes."
        with Journal(path) as two:
            assert python(CLOSED, path) == "['A']\n"
            assert run(one, "B") == "Yes."
            assert run(two, "C") == "Yes."
            assert python(CLOSED, path) == "['A', 'B', 'C']\n"


# -- forks -----------------------------------------------------------------------------------------


def forked(child: Callable[[], str]) -> str:
    """What something gives, or raises, in a child of this process."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = child()
        except BaseException as error:
            said = str(error)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as file:
        said = file.read()
    assert os.waitpid(pid, 0) == (pid, 0)
    return said


def test_journal_that_lacks_a_run_keeps_its_file_open_for_other_threads(tmp_path: Path) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        with pytest.raises(NoSuchRun):
            journal.run("missing")
        assert (tmp_path / "runs.db-wal").exists()


def test_journal_made_at_a_link_to_no_file_is_for_its_user_alone(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs.db").symlink_to("disk/kept.db")
    with Journal(tmp_path / "runs.db"):
        found = list((tmp_path / "disk").iterdir())
        assert {each.stat().st_mode & 0o777 for each in found} == {0o600}


@pytest.mark.long
def test_journals_of_one_file_closed_at_once_by_two_threads_close_without_an_error(
    tmp_path: Path,
) -> None:
    both = threading.Barrier(2, timeout=60)

    def close(_: int) -> None:
        for _ in range(4000):
            journal = Journal(tmp_path / "runs.db")
            both.wait()
            journal.close()
            both.wait()

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(close, range(2))) == [None, None]


def test_forked_child_is_told_to_open_it_again(tmp_path: Path) -> None:
    me = os.getpid()
    with (
        Journal(tmp_path / "runs.db") as journal,
        SQLiteMemory(tmp_path / "memory.db") as memory,
    ):
        assert run(journal, "A") == "Yes."
        uses: tuple[tuple[str, Callable[[], Any]], ...] = (
            ("journal", lambda: run(journal, "B")),
            ("journal", journal.runs),
            ("journal", lambda: journal.fork("A")),
            ("journal", lambda: journal.decide("A", "repeat")),
            ("memory", lambda: memory.add_memory({"role": "user", "content": "x"})),
            ("memory", memory.get_memories),
        )
        for name, use in uses:
            told = forked(lambda use=use: str(use()))  # type: ignore[misc]
            assert f"{name}" in told
            assert told.endswith(f"opened by process {me}: open it again in this process"), told

        def close() -> str:
            for each in (journal, memory):
                each.close()
            return "closed"

        assert forked(close) == "closed"
        # None of them was touched.
        assert run(journal, "B") == "Yes."
        assert memory.get_memories() == []
    assert python(RUNS, tmp_path / "runs.db") == "['A', 'B']\n"


FORKED = """
import os, sys
from moothall import Journal, ReActAgent, ScriptedModel
def run(journal, run_id):
    agent = ReActAgent("a", ScriptedModel(["Yes."]), journal=journal)
    assert agent.reply_sync("go", run_id=run_id).text == "Yes."
journal = Journal(sys.argv[1])
run(journal, "parent")
began, closed = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    mine = Journal(sys.argv[1])
    run(mine, "child")
    os.write(began[1], b"x")
    os.read(closed[0], 1)
    run(mine, "late")
    sys.exit()  # with all that the end of the interpreter does
os.read(began[0], 1)
journal.close()
os.write(closed[1], b"x")
assert os.waitpid(pid, 0)[1] == 0
"""


def test_sqlite_writes_of_a_forked_child_outlive_its_parents_close(
    tmp_path: Path,
) -> None:
    assert python(FORKED, tmp_path / "runs.db", to_its_end=True) == ""
    assert python(RUNS, tmp_path / "runs.db") == "['parent', 'child', 'late']\n"


# -- what may only be read -------------------------------------------------------------------------


def may_only_read(program: str, prepare: str = "") -> str:
    """What a program prints that may not write its folder, `path` being a journal there."""
    # Whatever it imports, it has before: as another user it may not be able to read it.
    begin = (
        "import os, sys, signal\n"
        "from moothall import Budget, Journal, ReActAgent, ScriptedModel\n"
        "from moothall.cli.main import command\n"
        "from moothall.foundation.errors import JournalError\n"
        "path = sys.argv[1] + '/runs.db'\n"
        "def run(journal, id):\n"
        "    agent = ReActAgent('a', ScriptedModel(['Yes.']), journal=journal)\n"
        "    return agent.reply_sync('go', run_id=id).text\n"
        "def look():\n"
        "    for args in (['runs'], ['runs', 'A'], ['replay', 'A']):\n"
        "        command.main([*args, '--journal', path], standalone_mode=False)\n"
        "with Journal(path) as journal:\n"
        "    run(journal, 'A')\n"
        "    look()\n"
        "print('----')\n"
    )
    drop = (
        "for name in os.listdir(sys.argv[1]):\n"
        "    os.chmod(os.path.join(sys.argv[1], name), 0o444)\n"
        "os.chmod(sys.argv[1], 0o555)\n"
        "if os.getuid() == 0:\n"
        "    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        said = python(begin + prepare + drop + program, folder)
        os.chmod(folder, 0o755)
        return said


# A process that died without closing it, and one that is still writing.
KILLED = "if (pid := os.fork()) == 0:\n    run(Journal(path), 'B')\n    os.kill(os.getpid(), 9)\n"
KILLED += "os.waitpid(pid, 0)\n"


@pytest.mark.parametrize(("prepare", "runs"), (("", 1), (KILLED, 2)))
def test_journal_without_write_permission_can_be_read(prepare: str, runs: int) -> None:
    said = may_only_read(
        "look()\n"
        "with Journal(path) as journal:\n"
        "    print(len(journal.runs()), journal.replay('A').text, journal.in_doubt('A'))\n",
        prepare,
    )
    before, after = said.split("----\n")
    assert after.endswith(f"{runs} Yes. []\n")
    if not prepare:
        assert after.removesuffix("1 Yes. []\n") == before


def test_journal_without_write_permission_refuses_writes_clearly() -> None:
    said = may_only_read(
        "journal = Journal(path)\n"
        "for write in (lambda: run(journal, 'B'), lambda: journal.fork('A'),\n"
        "              lambda: journal.decide('A', 'repeat'),\n"
        "              lambda: Budget(actions=1, journal=journal, name='b').reserve(actions=1),\n"
        "              lambda: Journal(sys.argv[1] + '/new')):\n"
        "    try:\n"
        "        print('written', write())\n"
        "    except JournalError as error:\n"
        "        print(error)\n"
        "print([each.id for each in journal.runs()])\n"
    )
    *told, runs = said.split("----\n")[1].splitlines()
    assert len(told) == 5
    assert all("may not be written to, where SQLite keeps files beside this one" in t for t in told)
    assert runs == "['A']"


def test_journal_of_an_older_version_without_write_permission_says_so() -> None:
    said = may_only_read(
        "try:\n    Journal(path)\nexcept JournalError as error:\n    print(error)\n",
        "import sqlite3\ndb = sqlite3.connect(path)\ndb.execute('PRAGMA user_version = 0')\n"
        "db.commit()\ndb.close()\n",
    )
    assert "an older moothall wrote it, and it cannot be brought up to date: the folder" in said


# -- no room ---------------------------------------------------------------------------------------

FULL = """
import logging, resource, signal, sys
from moothall import Action, Journal, ReActAgent, ScriptedModel
from moothall.foundation.errors import JournalError
from moothall.models.protocol import Call
logging.disable()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(sys.argv[1])
done = []
def act(n: int) -> str:
    done.append(n)
    return "x" * 1000
script = [Call(f"c{n}", "act", {"n": n}) for n in range(100)]
def agent():
    model = ScriptedModel([*script, "Yes."])
    actions = [Action("act", act, idempotent=True)]
    return ReActAgent("a", model, actions=actions, journal=journal, max_iterations=1000)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
reply = agent().reply_sync("go", run_id="R")
assert reply.stop_reason == "error" and isinstance(reply.error, JournalError), reply
assert "runs.db" in str(reply.error) and "see to its disk" in str(reply.error), reply.error
assert 5 < len(done) < 100
before = len(done)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert agent().reply_sync("go", run_id="R").text == "Yes."
print(sorted(set(done)) == list(range(100)), len(done) - 100 <= 1)
"""


def test_run_on_a_full_disk_stops_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    assert python(FULL, tmp_path / "runs.db") == "True True\n"


# -- files that this process, or another program, opens and closes beside --------------------------

READ = """
import hashlib, os, shutil, signal, subprocess, sys
from pathlib import Path
from moothall import Host, Journal, ReActAgent, ScriptedModel, SQLiteMemory
from moothall.foundation.errors import FileError
from moothall.spaces.amqp.inbox import Inbox

folder = Path(sys.argv[1])
FILES = [
    folder / f"{name}.db{end}"
    for name in ("runs", "memory", "inbox")
    for end in ("", "-wal", "-shm")
]
STRANGER = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA table_info(x)')"
OPERATOR = "import sys; from moothall import Journal; Journal(sys.argv[1]).close()"

def copy():
    for file in FILES:
        shutil.copyfile(file, "/dev/null")

def hash():
    for file in FILES:
        with file.open("rb") as opened:
            hashlib.file_digest(opened, "sha256")

def tool():
    for file in FILES:
        try:
            Host("host", folder).folder.read(file.name)
        except FileError as error:
            assert "belongs to a journal, memory or inbox" in str(error), error
        else:
            raise AssertionError(file)

journal = Journal(folder / "runs.db")
memory = SQLiteMemory(folder / "memory.db")
inbox = Inbox(folder / "inbox.db")
agent = ReActAgent("a", ScriptedModel(["Yes."] * 9), journal=journal)
for number, read in enumerate((copy, hash, tool)):
    read()
    for file in FILES[::3]:
        subprocess.run([sys.executable, "-c", STRANGER, file], check=True)
    subprocess.run([sys.executable, "-c", OPERATOR, FILES[0]], check=True)
    agent.reply_sync("go", run_id=f"{number}")
    memory.add_memory({"role": "user", "content": f"{number}"})
    inbox.accept(f"{number}", "a", b"{}")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_sqlite_write_after_own_process_read_the_files_outlives_a_kill(
    tmp_path: Path,
) -> None:
    done = commands.run(tmp_path, code=READ, options=_QUIET)
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, "")
    assert python(RUNS, tmp_path / "runs.db") == "['0', '1', '2']\n"
    with SQLiteMemory(tmp_path / "memory.db") as memory:
        assert [each["content"] for each in memory.get_memories()] == ["0", "1", "2"]
    inbox = Inbox(tmp_path / "inbox.db")
    assert [entry.key for entry in inbox.unfinished("a")] == ["0", "1", "2"]
    inbox.close()


def test_write_after_the_log_was_deleted_is_an_error_until_the_program_starts_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.db"
    program = """
import sys
from pathlib import Path
from moothall import Journal, ReActAgent, ScriptedModel
from moothall.foundation.errors import JournalError
agent = ReActAgent("a", ScriptedModel(["Yes."] * 9), journal=Journal(sys.argv[1]))
agent.reply_sync("go", run_id="A")
Path(f"{sys.argv[1]}-wal").unlink()
for use in (lambda: agent.reply_sync("go", run_id="B"), lambda: Journal(sys.argv[1])):
    try:
        use()
    except JournalError as error:
        print(error)
"""
    told = python(program, path).splitlines()
    assert len(told) == 2
    for each in told:
        assert "-wal and -shm, were deleted or replaced" in each
        assert each.endswith("start the program again")
    assert python(RUNS, path) == "[]\n"


OUTLIVED = """
import os, sys
from moothall import Journal, ReActAgent, ScriptedModel
from moothall.foundation.errors import JournalError
def run(run_id):
    ReActAgent("a", ScriptedModel(["Yes."]), journal=sys.argv[1]).reply_sync("go", run_id=run_id)
journal = Journal(sys.argv[1])
closed = os.pipe()
pid = os.fork()
if pid == 0:
    os.read(closed[0], 1)
    try:
        run("child")
    except JournalError as error:
        print(error, flush=True)
    os._exit(0)
journal.close()
run("parent")
os.write(closed[1], b"x")
assert os.waitpid(pid, 0)[1] == 0
"""


def test_forked_child_that_opens_the_file_after_its_parent_closed_it_is_told(
    tmp_path: Path,
) -> None:
    told = python(OUTLIVED, tmp_path / "runs.db")
    assert told.endswith("opened it again after a fork: start the program again\n")
    assert python(RUNS, tmp_path / "runs.db") == "['parent']\n"


def test_file_with_hard_links_is_one_file_by_each_name(tmp_path: Path) -> None:
    names = [tmp_path / "z.db", tmp_path / "a.db"]
    large = "x" * 3_000_000
    with Journal(names[0]) as journal:
        agent = ReActAgent("a", ScriptedModel([large]), journal=journal)
        assert agent.reply_sync("one", run_id="one").text == large
        names[1].hardlink_to(names[0])
        with Journal(names[1]) as other:
            ReActAgent("a", ScriptedModel(["hi"]), journal=other).reply_sync("two", run_id="two")
            assert [run.id for run in journal.runs()] == ["one", "two"]
            assert other.replay("one").text == large
    for name in names:
        with Journal(name) as journal:
            assert journal.replay("one").text == large
            assert journal.check() == []
    memories = [tmp_path / "z.memory", tmp_path / "a.memory"]
    with SQLiteMemory(memories[0]) as memory:
        memories[1].hardlink_to(memories[0])
        with SQLiteMemory(memories[1]) as other_memory:
            other_memory.add_memory({"role": "user", "content": "hello"})
        assert len(memory.get_memories()) == 1


def test_hard_link_in_another_folder_is_refused_while_another_process_has_the_file(
    tmp_path: Path,
) -> None:
    file, link = tmp_path / "runs.db", tmp_path / "below" / "runs.db"
    link.parent.mkdir()
    Journal(file).close()
    link.hardlink_to(file)
    code = (
        f"from moothall import Journal; j = Journal({str(file)!r}); print(1, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        with pytest.raises(JournalError, match="hard link in another folder"):
            Journal(link)
        process.communicate(b"\n")
    with Journal(link) as journal:
        assert journal.runs() == []
