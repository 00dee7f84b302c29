"""The file behind a durable memory: its tables, and the messages in it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from moothall.foundation.database import ALONE, Database, Lock
from moothall.foundation.errors import DefinitionError, MemoryFileError
from moothall.foundation.sqlite import SQLiteFile, SQLitePool
from moothall.foundation.sqlite.fulltext import any_of, distinct, indexed, query_words
from moothall.memory.memory_tables import QUERY_WORDS, MemoryTables

__all__ = ["MIGRATIONS", "MemoryFile", "MemoryFileError"]

APPLICATION: Final = 0x63766D31
"""The application id in the file's header (`cvm1`): no other program's database is changed."""

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
    (
        # When something was added last; for what is there already, now.
        "ALTER TABLE threads ADD COLUMN changed REAL NOT NULL DEFAULT 0",
        "UPDATE threads SET changed = CAST(strftime('%s', 'now') AS REAL)",
    ),
)


class MemoryFile(SQLitePool[MemoryFileError], MemoryTables):
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
            raise DefinitionError(
                f"SQLiteMemory: path= must be the path of a file, got {file.name!r}; without "
                "a file, take a TokenBoundedMemory or a Memory"
            )
        # Deleted data is overwritten, however this SQLite was built.
        settings = ("secure_delete = ON",)
        super().__init__(file, timeout, "SELECT count(*) FROM embedders", settings)

    def lock(self, id: str) -> Lock:
        """Return what the writers of a thread exclude each other by: a file has one writer."""
        return ALONE

    def add_words(self, db: Database, thread: int, number: int, text: str) -> None:
        """Have a message be found by the words of a text."""
        db.execute(
            "INSERT INTO words (rowid, thread, text) VALUES (?, ?, ?)",
            (number, f"t{thread}", indexed(text)),
        )

    def remove_words(
        self, db: Database, thread: int, after: int, texts: Iterable[tuple[int, str]]
    ) -> None:
        """Have a thread's messages after a number, of these numbers and texts, not be found."""
        db.executemany(
            "INSERT INTO words (words, rowid, thread, text) VALUES ('delete', ?, ?, ?)",
            ((number, f"t{thread}", indexed(text)) for number, text in texts),
        )

    def with_words(self, db: Database, text: str, thread: int | None, limit: int) -> list[int]:
        """Return the messages with the most and the rarest of a text's words, the best first."""
        query = any_of(distinct(query_words(text), QUERY_WORDS))
        if not query:
            return []
        within = "" if thread is None else f'thread:"t{thread}" AND '
        rows = db.execute(
            "SELECT rowid FROM words WHERE words MATCH ? "
            "ORDER BY bm25(words, 0.0, 1.0), rowid DESC LIMIT ?",
            (f"{within}text:({query})", limit),
        )
        return [number for (number,) in rows]

    def tidy(self, db: Database) -> None:
        """Leave nothing of removed words: before this, the index has them, marked as deleted."""
        db.execute("INSERT INTO words (words) VALUES ('optimize')")
