"""The file behind a durable memory: its tables, and the messages in it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from moothall.foundation.database import CHANGES, SQLITE, Database, Lock
from moothall.foundation.errors import DefinitionError, MemoryFileError
from moothall.foundation.sqlite import SQLiteFile, SQLitePool
from moothall.foundation.sqlite.fulltext import SearchWords
from moothall.memory.memory_tables import MAX_QUERY_WORDS, TABLES, MemoryTables

__all__ = ["MIGRATIONS", "MemoryFile", "MemoryFileError"]

APPLICATION_ID: Final = 0x6D686D31
"""The application id in the file's header (`mhm1`): no other program's database is changed."""

# Append only. Each migration runs in one transaction with its record, `user_version`, so a file
# always has a whole version.
#
# `words` stores no text: deleting from it requires the same text, word for word. Its text is
# `recall.search_text(item)`, so a change of that function needs a migration that refills it. Its
# first column is the thread's number as a word, so that a search within one conversation does
# not look at the others.
MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        *SQLITE.formatted(*TABLES),
        """CREATE VIRTUAL TABLE words USING fts5 (
            thread, text, content = '', tokenize = 'unicode61 remove_diacritics 2'
        )""",
    ),
)


class MemoryFile(SQLitePool[MemoryFileError], MemoryTables):
    """An SQLite file in WAL mode, used by any number of threads and processes."""

    def __init__(self, path: str | os.PathLike[str], timeout: float) -> None:
        file = SQLiteFile(
            path,
            kind="memory",
            class_name="SQLiteMemory",
            application=APPLICATION_ID,
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
        return CHANGES

    def add_words(self, db: Database, thread: int, number: int, text: str) -> None:
        """Have a message be found by the words of a text."""
        db.execute(
            "INSERT INTO words (rowid, thread, text) VALUES (?, ?, ?)",
            (number, f"t{thread}", SearchWords.indexed(text)),
        )

    def remove_words(self, db: Database, thread: int, texts: Iterable[tuple[int, str]]) -> None:
        """Have a thread's messages of these numbers and texts not be found."""
        db.executemany(
            "INSERT INTO words (words, rowid, thread, text) VALUES ('delete', ?, ?, ?)",
            ((number, f"t{thread}", SearchWords.indexed(text)) for number, text in texts),
        )

    def search_words(self, db: Database, text: str, thread: int | None, limit: int) -> list[int]:
        """Return the messages with the most and the rarest of a text's words, the best first."""
        query = SearchWords(SearchWords.of_text(text), MAX_QUERY_WORDS).query
        if not query:
            return []
        condition = "" if thread is None else f'thread:"t{thread}" AND '
        rows = db.execute(
            "SELECT rowid FROM words WHERE words MATCH ? "
            "ORDER BY bm25(words, 0.0, 1.0), rowid DESC LIMIT ?",
            (f"{condition}text:({query})", limit),
        )
        return [number for (number,) in rows]

    def tidy(self, db: Database) -> None:
        """Leave nothing of removed words: before this, the index has them, marked as deleted."""
        db.execute("INSERT INTO words (words) VALUES ('optimize')")
