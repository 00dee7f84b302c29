"""Journals, memories and inboxes that are cut, overwritten, foreign, newer or out of reach."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import commands
from moothall import Journal, ReActAgent, ScriptedModel
from moothall.foundation.errors import DefinitionError, InboxError, JournalError, MoothallError
from moothall.journal.store import tables
from moothall.memory import HashEmbedder, MemoryFileError, SQLiteMemory, memory_file
from moothall.spaces.amqp import inbox
from moothall.spaces.amqp.inbox import FINISHED, Inbox, InboxEntry


def fill_journal(path: Path) -> None:
    with Journal(path) as journal:
        for number in range(20):
            agent = ReActAgent("a", ScriptedModel(["x" * 3000]), journal=journal)
            agent.reply_sync("go", run_id=str(number))


def fill_memory(path: Path) -> None:
    with SQLiteMemory(path, embedder=HashEmbedder()) as memory:
        for number in range(100):
            memory.add_memory({"role": "user", "content": f"message {number} " + "x" * 500})
        memory.embed()


def fill_inbox(path: Path) -> None:
    with closing(Inbox(path)) as inbox:
        for n in range(1000):
            inbox.start([(f"k{n}", "a")])
            inbox.end(f"k{n}", "a", b"answer")
        inbox.accept("accepted", "a", b"message")


@dataclass(frozen=True)
class Kind:
    """A kind of file: what it is called, and what makes, fills and checks one."""

    name: str
    make: Callable[[Any], Any]
    error: type[MoothallError]
    shown: str
    migrations: Sequence[Sequence[object]]
    fill: Callable[[Path], None]
    whole: Callable[[Any], bool]

    def __str__(self) -> str:
        return self.name


KINDS = (
    Kind(
        *("journal", Journal, JournalError, "journal", tables.MIGRATIONS, fill_journal),
        lambda journal: len(journal.runs()) == 20,
    ),
    Kind(
        *("memory", SQLiteMemory, MemoryFileError),
        *("memory file", memory_file.MIGRATIONS, fill_memory),
        lambda memory: len(list(memory.messages())) == 100,
    ),
    Kind(
        *("inbox", Inbox, InboxError, "inbox", inbox.MIGRATIONS, fill_inbox),
        lambda made: made.look_up("k999", "a") == InboxEntry("k999", FINISHED, None, b"answer"),
    ),
)


@pytest.fixture(params=KINDS, ids=str)
def kind(request: Any) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.db"


def changed(path: Path, *statements: str) -> None:
    """Change the file behind its owner's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def test_sqlite_file_in_a_missing_folder_is_an_error_of_ours_that_names_it(
    kind: Kind, tmp_path: Path
) -> None:
    name = str(tmp_path / "none" / "file.db")
    with pytest.raises(kind.error) as raised:
        kind.make(name)
    assert isinstance(raised.value, MoothallError)
    assert raised.value.path == name  # type: ignore[attr-defined]
    folder = str(tmp_path / "none")
    assert (
        str(raised.value) == f"{kind.shown} {name!r}: there is no folder {folder!r}: make it first"
    )
    assert list(tmp_path.iterdir()) == []


def test_sqlite_file_path_of_a_folder_a_pipe_or_no_name_is_refused(
    kind: Kind, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(kind.error, match="it is not a file: name one"):
            kind.make(path)
    none = () if str(kind) == "inbox" else (None,)  # an inbox may have no file
    for name in ("", "a\0b", 7, b"file.db", *none):
        with pytest.raises(
            DefinitionError, match=rf"an? {kind}'s path must be the name of a file, got"
        ):
            kind.make(name)


@pytest.mark.parametrize("make", (Journal, SQLiteMemory))
def test_arguments_that_are_none_make_no_file(make: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(
        DefinitionError, match=r"the path of one, got .:memory:|path of a file, got .:memory:"
    ):
        make(":memory:")
    for timeout in (-1, float("nan"), "1", None, True):
        with pytest.raises(DefinitionError, match="timeout= must be a number of seconds from 0"):
            make(tmp_path / "file.db", timeout=timeout)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "given",
    (b"x", b"{}", b"hello\n", b"SQLite format 3", b"x" * 99, b"\0" * 4096, bytes(range(256)) * 40),
    ids=len,
)
def test_file_of_another_kind_is_left_as_it_is(kind: Kind, path: Path, given: bytes) -> None:
    path.write_bytes(given)
    with pytest.raises(kind.error, match=r"file\.db': it is another kind of file"):
        kind.make(path)
    assert path.read_bytes() == given
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "statement",
    ("CREATE TABLE inbox (a)", "PRAGMA user_version = 1", "PRAGMA application_id = 7"),
)
def test_database_of_another_program_is_left_as_it_is(
    kind: Kind, path: Path, statement: str
) -> None:
    changed(path, statement)
    before = path.read_bytes()
    with pytest.raises(kind.error, match="it is another program's database"):
        kind.make(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("kind", "version"),
    [(kind, version) for kind in KINDS for version in (-1, len(kind.migrations) + 1, 1000)],
    ids=str,
)
def test_file_of_another_version_is_refused_with_the_version(
    kind: Kind, path: Path, version: int
) -> None:
    kind.fill(path)
    newest = len(kind.migrations)
    changed(path, f"PRAGMA user_version = {version}")
    told = (
        f"it has version {version}, and this moothall knows up to {newest}: use the moothall that "
        "wrote it, or a newer one"
    )
    before = path.read_bytes()
    with pytest.raises(kind.error, match=told):
        kind.make(path)
    assert path.read_bytes() == before
    changed(path, f"PRAGMA user_version = {newest}")
    with closing(kind.make(path)) as made:
        assert kind.whole(made)


@pytest.mark.parametrize("part", (0.99, 0.5, 0.1, 0.02))
def test_sqlite_file_cut_short_is_found_when_it_is_opened(
    kind: Kind, path: Path, part: float
) -> None:
    kind.fill(path)
    size = int(path.stat().st_size * part)
    os.truncate(path, size)
    with pytest.raises(kind.error, match=r"it is damaged \(.*restore a copy"):
        kind.make(path)
    assert path.stat().st_size == size


def read_memory(memory: Any) -> None:
    assert all(item["content"].startswith("message ") for item in memory.messages())
    memory.get_memories()
    memory.recall("message", 100, by="words")
    memory.recall("message", 100)


def look_up(inbox: Any) -> None:
    errors = []
    for key in (*(f"k{n}" for n in range(1000)), "accepted"):
        try:
            entry = inbox.look_up(key, "a")
            assert key == "accepted" or entry in (None, InboxEntry(key, FINISHED, None, b"answer"))
        except InboxError as error:  # the next entry may be whole
            errors.append(error)
    if errors:
        raise errors[0]


def unfinished(inbox: Any) -> None:
    inbox.unfinished("a")


def read_embedded(path: Path) -> None:
    with SQLiteMemory(path, embedder=HashEmbedder()) as memory:
        read_memory(memory)


READS: dict[str, tuple[Callable[[Path], None], ...]] = {
    "journal": (lambda path: read_by(Journal(path), KINDS[0].whole),),
    "memory": (read_embedded,),
    "inbox": (
        lambda path: read_by(Inbox(path), look_up),
        lambda path: read_by(Inbox(path), unfinished),
    ),
}
"""The ways to read all of a file, each from its opening."""


def read_by(made: Any, read: Callable[[Any], object]) -> None:
    with closing(made):
        read(made)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", KINDS[1:], ids=str)
def test_sqlite_file_overwritten_in_part_gives_an_error_or_what_was_there(
    kind: Kind, path: Path, seed: int
) -> None:
    kind.fill(path)
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[16:18], "big")  # of a page
    place = size * (1 + seed * (len(content) // size - 1) // 12)
    content[place : place + size] = bytes((seed * 37 + n * n) % 256 for n in range(size))
    path.write_bytes(content)
    told = ""
    try:
        READS[kind.name][0](path)
    except kind.error as error:
        told = str(error)
    assert "it is damaged (" in told or (
        kind.name == "memory" and (told == "" or "SQLite says: " in told)
    )


INVALID = r"the entry of '\w+' is not valid"
DAMAGE = (
    (KINDS[0], "ALTER TABLE runs RENAME COLUMN task TO other", "no such .*restore a copy"),
    (KINDS[0], "ALTER TABLE runs RENAME TO other", "no such .*restore a copy"),
    (KINDS[1], "UPDATE memories SET item = '{'", "a memory cannot be read"),
    (KINDS[1], "UPDATE memories SET item = x'ff'", "a memory cannot be read"),
    (KINDS[1], "UPDATE memories SET item = 7", "a memory is not a message"),
    (KINDS[1], "UPDATE memories SET item = '[1]'", "a memory is not a message"),
    (KINDS[1], f"UPDATE memories SET item = '{'[' * 100_000}'", "a memory cannot be read"),
    (KINDS[1], "UPDATE vectors SET vector = 'text'", "the vector of memory 1 has another size"),
    (KINDS[1], "UPDATE vectors SET vector = x'00'", "the vector of memory 1 has another size"),
    (KINDS[1], "DELETE FROM memories WHERE number = 7", "memory 7 is in the index but not in"),
    (KINDS[1], "ALTER TABLE memories RENAME COLUMN item TO other", "no such .*restore a copy"),
    (KINDS[1], "DROP TABLE memories", "no such table: memories"),
    (KINDS[1], "DROP TABLE vectors", "no such table: vectors"),
    (KINDS[1], "DROP TABLE embedders", "no such table: embedders"),
    (KINDS[2], "UPDATE inbox SET state = 7", INVALID),
    (KINDS[2], "UPDATE inbox SET state = 'x'", INVALID),
    (KINDS[2], "UPDATE inbox SET message = 'text'", INVALID),
    (KINDS[2], "UPDATE inbox SET answer = 7", INVALID),
    (KINDS[2], "DROP TABLE inbox", "no such table: inbox"),
    (KINDS[2], "ALTER TABLE inbox RENAME COLUMN answer TO reply", "no such column: answer"),
)


@pytest.mark.parametrize(("kind", "statement", "text"), DAMAGE, ids=lambda each: str(each)[:60])
def test_sqlite_file_with_wrong_contents_is_named_when_they_are_read(
    kind: Kind, path: Path, statement: str, text: str
) -> None:
    kind.fill(path)
    changed(path, statement)
    for read in READS[kind.name]:
        with pytest.raises(kind.error, match=rf"it is damaged \({text}"):
            read(path)


def test_sqlite_file_that_is_empty_is_a_new_one(kind: Kind, path: Path) -> None:
    path.touch()
    kind.make(path).close()
    path.unlink()
    changed(path, "PRAGMA journal_mode = WAL")  # as where making it was interrupted
    kind.fill(path)
    with closing(kind.make(path)) as made:
        assert kind.whole(made)


NOT_PERMITTED = """
import os, sys
from moothall import Journal
from moothall.foundation.errors import MoothallError
from moothall.memory import SQLiteMemory
from moothall.spaces.amqp.inbox import Inbox
path, new = sys.argv[1] + "/made.db", sys.argv[1] + "/new.db"
make = {"journal": Journal, "memory": SQLiteMemory, "inbox": Inbox}[sys.argv[2]]
make(path).close()
os.chmod(path, int(sys.argv[3]))
os.chmod(sys.argv[1], int(sys.argv[4]))
if os.getuid() == 0:  # for whom nothing is read-only
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
for name in (path, new):
    try:
        make(name).close()
        print("made")
    except MoothallError as error:
        print(error.path == name, error.reason)
"""
FILE = "True it may not be read and written: change its permissions"
FOLDER = (
    "True the folder {folder!r} may not be written to, where SQLite keeps files beside this one: "
    "change its permissions, or copy the file to another folder"
)


@pytest.mark.parametrize(
    ("file", "folder", "told", "new"),
    (
        (0o444, 0o777, FILE, "made"),
        (0o000, 0o777, FILE, "made"),
        (0o666, 0o555, FOLDER, FOLDER),
        (0o444, 0o555, FOLDER, FOLDER),
    ),
)
def test_sqlite_file_without_write_permission_is_named(
    kind: Kind, file: int, folder: int, told: str, new: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        done = commands.run(name, kind, file, folder, code=NOT_PERMITTED)
        os.chmod(name, 0o755)
        if kind.name == "journal" and file & 0o444:
            told = "made"  # it is opened to be read
        assert done.stderr == ""
        assert done.stdout.splitlines() == [each.format(folder=name) for each in (told, new)]
