"""Memory files that are locked, deleted or migrated."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from moothall.memory import HashEmbedder, MemoryFileError, SQLiteMemory


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


def test_memory_file_that_is_locked_is_waited_for_and_then_named(path: Path) -> None:
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


def test_memory_file_held_alone_is_named(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    with pytest.raises(MemoryFileError, match=r"has held it locked for 0\.1 s"):
        SQLiteMemory(path, timeout=0.1)
    db.execute("ROLLBACK")
    db.close()
    with SQLiteMemory(path) as memory:
        assert memory.get_memories() == []


def test_memory_file_that_is_deleted_is_not_quietly_made_anew(path: Path) -> None:
    with SQLiteMemory(path) as memory:
        listing = memory.messages()
        next(listing)
        with memory._tables.reading():  # the connection that is open; the next must be made
            path.unlink()
            with pytest.raises(MemoryFileError, match="it is gone: restore it, or make a new"):
                memory.get_memories()
        assert not path.exists()


def test_migration_that_fails_leaves_the_memory_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moothall.memory import memory_file as file

    path = tmp_path / "memory.db"
    with SQLiteMemory(path) as memory:
        memory.add_memory(user("a"))
    # What a next version would be: first one that breaks half-way, then one that does not.
    add, released = "ALTER TABLE memories ADD COLUMN mood TEXT", file.MIGRATIONS
    monkeypatch.setattr(file, "MIGRATIONS", (*released, (add, "ALTER TABLE none ADD x")))
    before = path.read_bytes()
    with pytest.raises(MemoryFileError, match="no such table: none"):
        SQLiteMemory(path)
    assert path.read_bytes() == before
    monkeypatch.setattr(file, "MIGRATIONS", (*released, (add,)))
    with SQLiteMemory(path) as memory:
        assert memory.get_memories() == [user("a")]
    with closing(sqlite3.connect(path)) as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(memories)")]
        assert "mood" in columns
        assert db.execute("PRAGMA user_version").fetchone() == (len(released) + 1,)
