"""The file behind a durable memory: its tables, and the messages in it."""

from __future__ import annotations

import json
import os
import sqlite3
from typing import Any, Final

from moothall.errors import DefinitionError, MemoryFileError
from moothall.sqlite import SQLiteFile, SQLitePool

__all__ = ["MIGRATIONS", "MemoryFile", "MemoryFileError"]

APPLICATION: Final = 0x63766D31
"""The application id in the file's header (`cvm1`): no other program's database is changed."""

_BATCH: Final = 256
_BATCH_CHARS: Final = 4_000_000

# Append only. Each migration runs in one transaction with its record, `user_version`, so a file
# always has a whole version.
#
# `words` stores no text: deleting from it requires the same text, word for word. Its text is
# `recall.found_text(item)`, so a change of that function needs a migration that refills it. Its
# first column is the thread's number as a word, so that a search within one conversation does
# not look at the others.
MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (),  # version 1 was never released
    (
        """CREATE TABLE threads (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            forgotten INTEGER NOT NULL DEFAULT 0
        )""",
        # AUTOINCREMENT: a number is never reused, so that "after number n" means "since then".
        """CREATE TABLE memories (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            thread INTEGER NOT NULL REFERENCES threads (number),
            role TEXT,
            item TEXT NOT NULL
        )""",
        "CREATE INDEX memories_of_thread ON memories (thread, number)",
        "CREATE INDEX system_memories ON memories (thread, number) WHERE role = 'system'",
        "CREATE INDEX user_memories ON memories (thread, number) WHERE role = 'user'",
        """CREATE VIRTUAL TABLE words USING fts5 (
            thread, text, content = '', tokenize = 'unicode61 remove_diacritics 2'
        )""",
        """CREATE TABLE embedders (
            number INTEGER PRIMARY KEY,
            name TEXT NOT NULL,
            dimensions INTEGER NOT NULL,
            UNIQUE (name, dimensions)
        )""",
        # The last memory of a thread that has a vector of an embedder.
        """CREATE TABLE embedded (
            embedder INTEGER NOT NULL REFERENCES embedders (number),
            thread INTEGER NOT NULL REFERENCES threads (number),
            upto INTEGER NOT NULL,
            PRIMARY KEY (embedder, thread)
        ) WITHOUT ROWID""",
        """CREATE TABLE vectors (
            embedder INTEGER NOT NULL REFERENCES embedders (number),
            thread INTEGER NOT NULL REFERENCES threads (number),
            memory INTEGER NOT NULL REFERENCES memories (number),
            vector BLOB NOT NULL
        )""",
        "CREATE UNIQUE INDEX vectors_of_thread ON vectors (embedder, thread, memory)",
        # How many messages of a recorded run were added to the thread.
        """CREATE TABLE told (
            thread INTEGER NOT NULL REFERENCES threads (number),
            run TEXT NOT NULL,
            messages INTEGER NOT NULL,
            PRIMARY KEY (thread, run)
        ) WITHOUT ROWID""",
    ),
)


class MemoryFile(SQLitePool[MemoryFileError]):
    """An SQLite file in WAL mode, used by any number of threads and processes."""

    def __init__(self, path: str | os.PathLike[str], timeout: float) -> None:
        file = SQLiteFile(
            path,
            kind="memory",
            maker="SQLiteMemory",
            application=APPLICATION,
            migrations=MIGRATIONS,
            error=MemoryFileError,
        )
        if file.name.startswith(":memory:"):
            raise DefinitionError("a memory without a file is a TokenBoundedMemory or a Memory")
        # Deleted data is overwritten, however this SQLite was built.
        settings = ("secure_delete = ON",)
        super().__init__(file, timeout, "SELECT count(*) FROM embedders", settings)

    def thread_number(self, db: sqlite3.Connection, id: str) -> int | None:
        """Return a thread's number; None if nothing was added to it yet."""
        row = db.execute("SELECT number FROM threads WHERE id = ?", (id,)).fetchone()
        return None if row is None else int(row[0])

    def made_thread(self, db: sqlite3.Connection, id: str) -> int:
        """Return a thread's number, made if it does not exist."""
        thread = self.thread_number(db, id)
        if thread is None:
            thread = db.execute("INSERT INTO threads (id) VALUES (?)", (id,)).lastrowid
            assert thread is not None
        return thread

    def thread_ids(self) -> list[str]:
        """Return the ids of threads with messages, in the order in which they began."""
        with self.reading() as db:
            rows = db.execute(
                "SELECT id FROM threads WHERE EXISTS "
                "(SELECT 1 FROM memories WHERE thread = threads.number) ORDER BY number"
            )
            return [id for (id,) in rows]

    def batch_after(
        self, db: sqlite3.Connection, thread: int | None, after: int
    ) -> list[tuple[int, dict[str, Any]]]:
        """Return some messages after a number, limited in count and size."""
        rows: list[tuple[int, dict[str, Any]]] = []
        size = 0
        for number, text in db.execute(
            "SELECT number, item FROM memories WHERE thread = ? AND number > ? "
            "ORDER BY number LIMIT ?",
            (thread, after, _BATCH),
        ):
            rows.append((number, self.parsed(text)))
            size += len(text)
            if size > _BATCH_CHARS:
                break
        return rows

    def items_of(self, db: sqlite3.Connection, numbers: list[int]) -> list[dict[str, Any]]:
        """Return the messages that have these numbers."""
        items = []
        for number in numbers:
            row = db.execute("SELECT item FROM memories WHERE number = ?", (number,)).fetchone()
            if row is None:
                raise self.damaged(f"memory {number} is in the index but not in the file")
            items.append(self.parsed(row[0]))
        return items

    def parsed(self, text: Any) -> dict[str, Any]:
        """Return a message from its text in the file."""
        try:
            item = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise self.damaged(f"a memory cannot be read, {error}") from None
        if not isinstance(item, dict):
            raise self.damaged("a memory is not a message")
        return item

    def extent(self, db: sqlite3.Connection, id: str, until: int) -> tuple[int, int]:
        """Return how many messages a thread has up to a number, and the number of the last."""
        count, newest = db.execute(
            "SELECT count(*), max(number) FROM memories WHERE thread = ? AND number <= ?",
            (self.thread_number(db, id), until),
        ).fetchone()
        return count, newest or 0

    def run_offset(self, db: sqlite3.Connection, thread: int | None, run: str) -> int:
        """Return how many messages of a run were added to the thread."""
        row = db.execute(
            "SELECT messages FROM told WHERE thread = ? AND run = ?", (thread, run)
        ).fetchone()
        return 0 if row is None else int(row[0])

    def set_run_offset(self, db: sqlite3.Connection, thread: int, run: str, messages: int) -> None:
        """Record how many messages of a run were added to the thread."""
        db.execute(
            "INSERT INTO told (thread, run, messages) VALUES (?, ?, ?) ON CONFLICT (thread, run) "
            "DO UPDATE SET messages = excluded.messages",
            (thread, run, messages),
        )
