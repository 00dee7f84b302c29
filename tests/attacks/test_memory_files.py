"""Memory files that are locked, cut, overwritten, foreign, newer or out of reach."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from civitas.errors import CivitasError, DefinitionError
from civitas.memory import HashEmbedder, MemoryFileError, SQLiteMemory


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A memory of a hundred messages, closed."""
    path = tmp_path / "memory.db"
    with SQLiteMemory(path, embedder=HashEmbedder()) as memory:
        for number in range(100):
            memory.add_memory(user(f"message {number} " + "x" * 500))
        memory.embed()
    return path


def changed(path: Path, *statements: str) -> None:
    """Change the file behind the memory's back."""
    db = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        db.execute(statement)
    db.close()


def test_the_error_is_ours_and_names_the_file(tmp_path: Path) -> None:
    name = str(tmp_path / "none" / "memory.db")
    with pytest.raises(CivitasError) as raised:
        SQLiteMemory(name)
    error = raised.value
    assert isinstance(error, MemoryFileError)
    assert error.path == name
    folder = str(tmp_path / "none")
    assert str(error) == f"memory file {name!r}: there is no folder {folder!r}: make it first"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "given", (b"SQLite format 3", b"hello\n", b"\0" * 4096, b"{}", os.urandom(10_000))
)
def test_another_kind_of_file_is_left_as_it_is(tmp_path: Path, given: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(given)
    with pytest.raises(MemoryFileError, match=r"notes\.txt': it is no memory but another kind"):
        SQLiteMemory(path)
    assert path.read_bytes() == given
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "statement",
    ("CREATE TABLE memories (a)", "PRAGMA user_version = 1", "PRAGMA application_id = 7"),
)
def test_another_programs_database_is_left_as_it_is(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "other.db"
    changed(path, statement)
    before = path.read_bytes()
    with pytest.raises(MemoryFileError, match="it is another program's database"):
        SQLiteMemory(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("version", (3, 1000, -1))
def test_another_version_is_named(path: Path, version: int) -> None:
    changed(path, f"PRAGMA user_version = {version}")
    with pytest.raises(
        MemoryFileError, match=f"it has version {version}, and this civitas knows up to 2: use"
    ):
        SQLiteMemory(path)
    changed(path, "PRAGMA user_version = 2")
    with SQLiteMemory(path) as memory:
        assert len(list(memory.messages())) == 100


@pytest.mark.parametrize("part", (0.99, 0.5, 0.1, 0.02))
def test_a_file_cut_short_is_found_when_it_is_opened(path: Path, part: float) -> None:
    size = path.stat().st_size
    os.truncate(path, int(size * part))
    with pytest.raises(MemoryFileError, match=r"it is damaged \(.*restore a copy"):
        SQLiteMemory(path)
    assert path.stat().st_size == int(size * part)


def test_an_empty_file_is_a_new_memory(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.touch()
    with SQLiteMemory(path) as memory:
        memory.add_memory(user("a"))
        assert memory.get_memories() == [user("a")]


def test_a_memory_whose_making_was_interrupted_is_made(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    changed(path, "PRAGMA journal_mode = WAL")
    with SQLiteMemory(path) as memory:
        memory.add_memory(user("a"))
        assert memory.recall("a") == [user("a")]


def use(memory: SQLiteMemory) -> None:
    """Everything that reads."""
    memory.get_memories()
    list(memory.messages())
    memory.recall("message", 100, by="words")
    memory.recall("message", 100)


@pytest.mark.parametrize("seed", range(12))
def test_an_overwritten_file_gives_an_error_or_what_was_there(path: Path, seed: int) -> None:
    content = bytearray(path.read_bytes())
    pages = len(content) // 4096
    place = 4096 * (1 + seed * (pages - 1) // 12)
    content[place : place + 4096] = bytes((seed * 37 + n * n) % 256 for n in range(4096))
    path.write_bytes(content)
    told = ""
    try:
        with SQLiteMemory(path, embedder=HashEmbedder()) as memory:
            for item in memory.messages():
                assert item["content"].startswith("message ")
            use(memory)
    except MemoryFileError as error:
        told = str(error)
    assert told == "" or "memory.db': it is damaged (" in told or "SQLite says: " in told


@pytest.mark.parametrize(
    ("statement", "text"),
    (
        ("UPDATE memories SET item = '{'", "a memory cannot be read"),
        ("UPDATE memories SET item = x'ff'", "a memory cannot be read"),
        ("UPDATE memories SET item = 7", "a memory is no message"),
        ("UPDATE memories SET item = '[1]'", "a memory is no message"),
        (f"UPDATE memories SET item = '{'[' * 100_000}'", "a memory cannot be read"),
        ("UPDATE vectors SET vector = 'text'", "the vector of memory 1 is none"),
        ("UPDATE vectors SET vector = x'00'", "the vector of memory 1 is none"),
        ("DELETE FROM memories WHERE number = 7", "memory 7 is found, but is not there"),
        ("DROP TABLE memories", "no such table: memories"),
        ("DROP TABLE vectors", "no such table: vectors"),
        ("DROP TABLE embedders", "no such table: embedders"),
    ),
)
def test_contents_that_are_none_are_found_when_read(path: Path, statement: str, text: str) -> None:
    changed(path, statement)

    def read() -> None:
        with SQLiteMemory(path, embedder=HashEmbedder()) as memory:
            use(memory)

    with pytest.raises(MemoryFileError, match=rf"it is damaged \({text}"):
        read()


def test_a_locked_file_is_waited_for_and_then_named(path: Path) -> None:
    with SQLiteMemory(path, timeout=0.1) as memory:
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(MemoryFileError, match=r"has held it locked for 0\.1 s: end that prog"):
            memory.add_memory(user("not now"))
        # Who only reads does not wait.
        assert len(memory.get_memories(3)) == 3
        db.execute("ROLLBACK")
        db.close()
        memory.add_memory(user("now"))
        assert memory.get_memories(1) == [user("now")]


def test_a_file_held_alone_is_named(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    with pytest.raises(MemoryFileError, match=r"has held it locked for 0\.1 s"):
        SQLiteMemory(path, timeout=0.1)
    db.execute("ROLLBACK")
    db.close()
    with SQLiteMemory(path) as memory:
        assert memory.get_memories() == []


def test_a_file_that_is_deleted_is_not_quietly_made_anew(path: Path) -> None:
    with SQLiteMemory(path) as memory:
        listing = memory.messages()
        next(listing)
        with memory._file.reading():  # the connection that is open; the next must be made
            path.unlink()
            with pytest.raises(MemoryFileError, match="it is gone: restore it, or make a new"):
                memory.get_memories()
        assert not path.exists()


def test_a_folder_a_pipe_and_no_name_are_no_memory(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(MemoryFileError, match="it is no file: name one"):
            SQLiteMemory(path)
    for name in ("", "a\0b", None, 7, b"memory.db"):
        with pytest.raises(DefinitionError, match="a memory's path is the name of a file, not"):
            SQLiteMemory(name)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="a memory without a file is a TokenBoundedMemory"):
        SQLiteMemory(":memory:")
    for timeout in (-1, float("nan"), "1", None, True):
        with pytest.raises(DefinitionError, match="timeout= is a number of seconds, not"):
            SQLiteMemory(tmp_path / "memory.db", timeout=timeout)  # type: ignore[arg-type]
    assert not (tmp_path / "memory.db").exists()


def test_what_may_not_be_written_is_named() -> None:
    # In a process without root's rights, for whom nothing is read-only.
    program = (
        "import os, sys\n"
        "from civitas.memory import MemoryFileError, SQLiteMemory\n"
        "SQLiteMemory(sys.argv[1] + '/closed.db').close()\n"
        "os.chmod(sys.argv[1] + '/closed.db', 0o444)\n"
        "os.chmod(sys.argv[1], 0o777)\n"
        "if os.getuid() == 0:\n"
        "    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "for mode in (0o777, 0o555):\n"
        "    try:\n"
        "        SQLiteMemory(sys.argv[1] + '/closed.db')\n"
        "    except MemoryFileError as error:\n"
        "        print(error.reason)\n"
        "print(os.access(sys.argv[1] + '/closed.db', os.W_OK))\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", program, folder], capture_output=True, text=True, check=False
        )
    assert done.stderr == ""
    told = "it may not be read and written: change its permissions"
    assert done.stdout.splitlines() == [told, told, "False"]


def test_a_folder_that_may_not_be_written_is_named() -> None:
    program = (
        "import os, sys\n"
        "from civitas.memory import MemoryFileError, SQLiteMemory\n"
        "os.chmod(sys.argv[1], 0o555)\n"
        "if os.getuid() == 0:\n"
        "    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try:\n"
        "    SQLiteMemory(sys.argv[1] + '/new.db')\n"
        "except MemoryFileError as error:\n"
        "    print(error.reason)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", program, folder], capture_output=True, text=True, check=False
        )
        assert os.listdir(folder) == []
    assert done.stderr == ""
    assert "may not be written to, where SQLite keeps files" in done.stdout


def test_a_migration_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from civitas.memory import file

    path = tmp_path / "memory.db"
    with SQLiteMemory(path) as memory:
        memory.add_memory(user("a"))
    # What a next version would be: first one that breaks half-way, then one that does not.
    add = "ALTER TABLE memories ADD COLUMN mood TEXT"
    monkeypatch.setattr(file, "MIGRATIONS", (*file.MIGRATIONS, (add, "ALTER TABLE none ADD x")))
    with pytest.raises(MemoryFileError, match="no such table: none"):
        SQLiteMemory(path)
    db = sqlite3.connect(path)
    columns = [row[1] for row in db.execute("PRAGMA table_info(memories)")]
    assert db.execute("PRAGMA user_version").fetchone() == (2,)
    db.close()
    assert "mood" not in columns
    monkeypatch.setattr(file, "MIGRATIONS", (*file.MIGRATIONS[:2], (add,)))
    with SQLiteMemory(path) as memory:
        assert memory.get_memories() == [user("a")]
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (3,)
    db.close()
