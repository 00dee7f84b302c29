"""The tables of a durable memory in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from zlib import crc32

from moothall.foundation.database import POSTGRESQL, Database, Lock
from moothall.foundation.errors import MemoryFileError
from moothall.foundation.postgres.address import DatabaseAddress
from moothall.foundation.postgres.fulltext import query_words, tsvector_text
from moothall.foundation.postgres.pool import PostgresPool
from moothall.memory.memory_tables import MAX_QUERY_WORDS, TABLES, MemoryTables

_TABLE_NAMES: Final = ("threads", "memories", "words", "vectors", "embedded", "told", "set_aside")
_MIGRATIONS: Final = (
    (
        *POSTGRESQL.formatted(*TABLES),
        """CREATE TABLE words (
            memory BIGINT PRIMARY KEY, thread BIGINT NOT NULL, words TSVECTOR NOT NULL
        )""",
        "CREATE INDEX words_of_memories ON words USING gin (words)",
        "CREATE INDEX words_of_thread ON words (thread, memory)",
        "CREATE INDEX vectors_of_memory ON vectors (memory)",
    ),
)
# A rare word counts more than a frequent one, and one that a short message has often counts most.
_MATCHING: Final = """
    WITH wanted AS (
        SELECT word, CAST(quote_literal(word) AS TSQUERY) AS query
        FROM unnest(CAST(? AS TEXT[])) AS word
    ), hits AS (
        SELECT words.memory, wanted.word, ts_rank(words.words, wanted.query, 1) AS weight
        FROM wanted JOIN words ON words.words @@ wanted.query {within}
    ), rarities AS (
        SELECT word, ln(1 + (SELECT count(*) FROM words {of}) / CAST(count(*) AS FLOAT)) AS rarity
        FROM hits GROUP BY word
    )
    SELECT memory FROM hits JOIN rarities USING (word)
    GROUP BY memory ORDER BY sum(weight * rarity) DESC, memory DESC LIMIT ?
"""
_EVERYWHERE: Final = _MATCHING.format(within="", of="")
_IN_THREAD: Final = _MATCHING.format(within="AND words.thread = ?", of="WHERE thread = ?")


class PostgresTables(PostgresPool[MemoryFileError], MemoryTables):
    """The tables of a durable memory, used by any number of threads, processes and hosts."""

    def __init__(self, url: str, timeout: float) -> None:
        super().__init__(
            DatabaseAddress(url, "PostgresMemory"),
            timeout,
            kind="memory",
            class_name="PostgresMemory",
            migrations=_MIGRATIONS,
            lock_table="memories",
            error=MemoryFileError,
            unfinished_error=MemoryFileError,
        )

    def lock(self, id: str) -> Lock:
        """Return what the writers of a thread exclude each other by.

        So its messages are numbered in the order in which they can be read.
        """
        return Lock(crc32(id.encode()) & 0x7FFFFFFF)

    def add_words(self, db: Database, thread: int, number: int, text: str) -> None:
        """Have a message be found by the words of a text."""
        db.execute(
            "INSERT INTO words (memory, thread, words) VALUES (?, ?, CAST(? AS TSVECTOR))",
            (number, thread, tsvector_text(text)),
        )

    def remove_words(self, db: Database, thread: int, texts: Iterable[tuple[int, str]]) -> None:
        """Have a thread's messages of these numbers not be found."""
        numbers = [number for number, _ in texts]
        db.execute("DELETE FROM words WHERE memory = ANY(CAST(? AS BIGINT[]))", (numbers,))

    def search_words(self, db: Database, text: str, thread: int | None, limit: int) -> list[int]:
        """Return the messages with the most and the rarest of a text's words, the best first."""
        words = query_words(text, MAX_QUERY_WORDS)
        if not words:
            return []
        if thread is None:
            rows = db.execute(_EVERYWHERE, (words, limit))
        else:
            rows = db.execute(_IN_THREAD, (words, thread, thread, limit))
        return [number for (number,) in rows]

    def tidy(self, db: Database) -> None:
        """Do nothing: the server does it by itself, by VACUUM."""

    def rewrite(self) -> bool:
        """Write the tables anew, without what was forgotten; others wait meanwhile."""
        self.write_anew(_TABLE_NAMES)
        return True
