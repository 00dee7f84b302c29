"""The file behind a durable memory: opened, checked, brought up to date, shared by threads."""

from __future__ import annotations

import os
from typing import Final

from civitas.errors import DefinitionError, MemoryFileError
from civitas.sqlite import SQLiteFile, SQLitePool

__all__ = ["MIGRATIONS", "MemoryFile", "MemoryFileError"]

APPLICATION: Final = 0x63766D31
"""What the file's header says it is (`cvm1`), so that no other program's database is changed."""

# Append only. Each is run in one transaction with the record of it, `user_version`; so a file is of
# a whole version, whatever happens meanwhile.
#
# `words` keeps no text of its own: what is deleted from it must be given to it again, word for
# word. Its text is `sqlite.found_text(item)`, so a change of that function needs a migration that
# fills it anew. Its first column is the thread's number as a word, so that a search within one
# conversation does not look at the others.
MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """CREATE TABLE threads (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            forgotten INTEGER NOT NULL DEFAULT 0
        )""",
        # AUTOINCREMENT: a number is never used again, so that "after number n" is "since then".
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
        # Up to which memory of a thread there are vectors of an embedder.
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
    ),
    (
        # How many messages of a run, of which there is a record, the thread was told.
        """CREATE TABLE told (
            thread INTEGER NOT NULL REFERENCES threads (number),
            run TEXT NOT NULL,
            messages INTEGER NOT NULL,
            PRIMARY KEY (thread, run)
        ) WITHOUT ROWID""",
    ),
)


class MemoryFile(SQLitePool[MemoryFileError]):
    """An SQLite file in WAL mode, used by any number of threads and processes.

    Raises:
        DefinitionError: the path is none
        MemoryFileError: the file cannot be used
    """

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
        # What is forgotten is overwritten, however this SQLite was built.
        settings = ("secure_delete = ON",)
        super().__init__(file, timeout, "SELECT count(*) FROM embedders", settings)
