"""What the store of a durable memory has, whatever its database: threads and their messages."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Final

from moothall.actions.provenance.reading import add_sources_of
from moothall.foundation.database import CHANGES, Database, Lock
from moothall.foundation.errors import MemoryFileError

MAX_QUERY_WORDS: Final = 64
"""The most different words of a text that a search uses; more do not improve it."""
TABLES: Final = (
    # `changed`: when something was added last.
    """CREATE TABLE threads (
        number {number},
        id {exact} NOT NULL UNIQUE,
        forgotten BIGINT NOT NULL DEFAULT 0,
        changed DOUBLE PRECISION NOT NULL DEFAULT 0
    )""",
    # `run`: the recorded run that added it; NULL if none did.
    """CREATE TABLE memories (
        number {number},
        thread BIGINT NOT NULL REFERENCES threads (number),
        role TEXT,
        item TEXT NOT NULL,
        run {exact}
    )""",
    "CREATE INDEX memories_of_thread ON memories (thread, number)",
    "CREATE INDEX system_memories ON memories (thread, number) WHERE role = 'system'",
    "CREATE INDEX user_memories ON memories (thread, number) WHERE role = 'user'",
    """CREATE TABLE embedders (
        number {number},
        name TEXT NOT NULL,
        dimensions BIGINT NOT NULL,
        UNIQUE (name, dimensions)
    )""",
    # The last memory of a thread that has a vector of an embedder.
    """CREATE TABLE embedded (
        embedder BIGINT NOT NULL REFERENCES embedders (number),
        thread BIGINT NOT NULL REFERENCES threads (number),
        upto BIGINT NOT NULL,
        PRIMARY KEY (embedder, thread)
    ) {unnumbered}""",
    """CREATE TABLE vectors (
        embedder BIGINT NOT NULL REFERENCES embedders (number),
        thread BIGINT NOT NULL REFERENCES threads (number),
        memory BIGINT NOT NULL REFERENCES memories (number),
        vector {bytes} NOT NULL
    )""",
    "CREATE UNIQUE INDEX vectors_of_thread ON vectors (embedder, thread, memory)",
    # How many messages of a recorded run were added to the thread.
    """CREATE TABLE told (
        thread BIGINT NOT NULL REFERENCES threads (number),
        run {exact} NOT NULL,
        messages BIGINT NOT NULL,
        PRIMARY KEY (thread, run)
    ) {unnumbered}""",
    # What a restored journal has not: messages that are in no prompt and in no search.
    """CREATE TABLE set_aside (
        memory BIGINT NOT NULL PRIMARY KEY,
        thread BIGINT NOT NULL REFERENCES threads (number),
        item TEXT NOT NULL,
        run {exact},
        at DOUBLE PRECISION NOT NULL
    ) {unnumbered}""",
    "CREATE INDEX set_aside_of_thread ON set_aside (thread, memory)",
)
"""The tables, without that of the words, which each database finds in its own way."""
RUN_CONDITION: Final = "run >= ? AND run < ?"
"""Whether a part of a run added a message."""
_BATCH_SIZE: Final = 256
_BATCH_CHARS: Final = 4_000_000


def bounds_of_run(run: str) -> tuple[str, str]:
    """Return the bounds of the keys of a run's parts, which begin with `run`, up to a `/`."""
    return run, f"{run[:-1]}0"


class MemoryTables(ABC):
    """The store of a durable memory, used by any number of threads and processes."""

    name: str
    """Its file or server as an error names it: never with a password."""
    damaged: Callable[[str], MemoryFileError]

    # -- what each database does in its own way ----------------------------------------------------

    @abstractmethod
    def reading(self) -> AbstractContextManager[Database]:
        """Yield a connection that sees one state of the store, whatever is written meanwhile."""

    @abstractmethod
    def writing(self, wait: bool = True, lock: Lock = CHANGES) -> AbstractContextManager[Database]:
        """Yield a connection in a transaction: committed at the body's end, else rolled back."""

    @abstractmethod
    def lock(self, id: str) -> Lock:
        """Return what the writers of a thread exclude each other by."""

    @abstractmethod
    def add_words(self, db: Database, thread: int, number: int, text: str) -> None:
        """Have a message be found by the words of a text."""

    @abstractmethod
    def remove_words(self, db: Database, thread: int, texts: Iterable[tuple[int, str]]) -> None:
        """Have a thread's messages of these numbers and texts not be found."""

    @abstractmethod
    def search_words(self, db: Database, text: str, thread: int | None, limit: int) -> list[int]:
        """Return the messages with the most and the rarest of a text's words, the best first."""

    @abstractmethod
    def tidy(self, db: Database) -> None:
        """Leave nothing of removed words."""

    @abstractmethod
    def rewrite(self) -> bool:
        """Write everything anew, without what was forgotten; return whether nothing is left."""

    @abstractmethod
    def close(self) -> None:
        """Close its connections."""

    # -- threads and messages ----------------------------------------------------------------------

    def thread_number(self, db: Database, id: str) -> int | None:
        """Return a thread's number; None if nothing was added to it yet."""
        row = db.execute("SELECT number FROM threads WHERE id = ?", (id,)).fetchone()
        return None if row is None else int(row[0])

    def ensure_thread(self, db: Database, id: str) -> int:
        """Return a thread's number, made if it does not exist."""
        thread = self.thread_number(db, id)
        return db.insert("INSERT INTO threads (id) VALUES (?)", (id,)) if thread is None else thread

    def add_message(
        self, db: Database, thread: int, row: tuple[str | None, str, str], run: str | None = None
    ) -> int:
        """Store a message, of a run or of none, and its words for the search; return its number."""
        role, text, search_words = row
        number = db.insert(
            "INSERT INTO memories (thread, role, item, run) VALUES (?, ?, ?, ?)",
            (thread, role, text, run),
        )
        self.add_words(db, thread, number, search_words)
        db.execute("UPDATE threads SET changed = ? WHERE number = ?", (time.time(), thread))
        return number

    def thread_ids(self) -> list[str]:
        """Return the ids of threads with messages, in the order in which they began."""
        with self.reading() as db:
            rows = db.execute(
                "SELECT id FROM threads WHERE EXISTS "
                "(SELECT 1 FROM memories WHERE thread = threads.number) OR EXISTS "
                "(SELECT 1 FROM set_aside WHERE thread = threads.number) ORDER BY number"
            )
            return [id for (id,) in rows]

    def batch_after(
        self, db: Database, thread: int | None, after: int
    ) -> list[tuple[int, dict[str, Any]]]:
        """Return some messages after a number, limited in count and size."""
        rows: list[tuple[int, dict[str, Any]]] = []
        size = 0
        for number, text in db.execute(
            "SELECT number, item FROM memories WHERE thread = ? AND number > ? "
            "ORDER BY number LIMIT ?",
            (thread, after, _BATCH_SIZE),
        ):
            rows.append((number, self.parse_item(text)))
            size += len(text)
            if size > _BATCH_CHARS:
                break
        return rows

    def items_of(self, db: Database, numbers: list[int]) -> list[dict[str, Any]]:
        """Return the messages that have these numbers."""
        items = []
        for number in numbers:
            row = db.execute("SELECT item FROM memories WHERE number = ?", (number,)).fetchone()
            if row is None:
                raise self.damaged(f"memory {number} is in the index but not in the file")
            items.append(self.parse_item(row[0]))
        return items

    def parse_item(self, text: Any) -> dict[str, Any]:
        """Return a message from its text in the file."""
        try:
            item = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise self.damaged(f"a memory cannot be read, {error}") from None
        if not isinstance(item, dict):
            raise self.damaged("a memory is not a message")
        add_sources_of((item,))
        return item

    def extent(self, db: Database, id: str, until: int) -> tuple[int, int]:
        """Return how many messages a thread has up to a number, and the number of the last."""
        count, newest = db.execute(
            "SELECT count(*), max(number) FROM memories WHERE thread = ? AND number <= ?",
            (self.thread_number(db, id), until),
        ).fetchone()
        return count, newest or 0

    def newest_run(self, db: Database, thread: int | None) -> str | None:
        """Return the last run that added a message to a thread; None if none did."""
        query = "SELECT run FROM memories WHERE thread = ? AND run IS NOT NULL"
        row = db.execute(f"{query} ORDER BY number DESC LIMIT 1", (thread,)).fetchone()
        return None if row is None else str(row[0])

    def run_message_count(self, db: Database, thread: int | None, run: str) -> int:
        """Return how many messages of a run were added to the thread."""
        row = db.execute(
            "SELECT messages FROM told WHERE thread = ? AND run = ?", (thread, run)
        ).fetchone()
        return 0 if row is None else int(row[0])

    def set_run_message_count(self, db: Database, thread: int, run: str, messages: int) -> None:
        """Record how many messages of a run were added to the thread."""
        db.execute(
            "INSERT INTO told (thread, run, messages) VALUES (?, ?, ?) ON CONFLICT (thread, run) "
            "DO UPDATE SET messages = excluded.messages",
            (thread, run, messages),
        )

    def lower_run_message_counts(self, db: Database, thread: int, after: int) -> None:
        """Have runs add what they added to a thread after a number once more."""
        if not after:  # all, of any age: a run that waits must not go on without its task
            db.execute("DELETE FROM told WHERE thread = ?", (thread,))
            return
        added = "FROM memories m WHERE m.thread = told.thread AND m.number > ?"
        db.execute(
            f"UPDATE told SET messages = messages - (SELECT count(*) {added} AND m.run = told.run) "
            f"WHERE thread = ? AND run IN (SELECT m.run {added})",
            (after, thread, after),
        )
