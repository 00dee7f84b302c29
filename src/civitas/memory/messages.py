"""The messages in a memory file, as they are read from it."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from civitas.memory.file import MemoryFile

__all__ = ["batch_after", "items_of", "parsed", "thread_ids", "thread_number"]

_BATCH = 256
_BATCH_CHARS = 4_000_000


def thread_number(db: sqlite3.Connection, id: str) -> int | None:
    """A thread's number; None if nothing was added to it yet."""
    row = db.execute("SELECT number FROM threads WHERE id = ?", (id,)).fetchone()
    return None if row is None else int(row[0])


def thread_ids(db: sqlite3.Connection) -> list[str]:
    """The ids of the threads that have messages, in the order in which they began."""
    rows = db.execute(
        "SELECT id FROM threads WHERE EXISTS "
        "(SELECT 1 FROM memories WHERE thread = threads.number) ORDER BY number"
    )
    return [id for (id,) in rows]


def batch_after(
    file: MemoryFile, db: sqlite3.Connection, thread: int | None, after: int
) -> list[tuple[int, dict[str, Any]]]:
    """Some messages after a number: not many, and not much in all."""
    cursor = db.execute(
        "SELECT number, item FROM memories WHERE thread = ? AND number > ? ORDER BY number LIMIT ?",
        (thread, after, _BATCH),
    )
    rows = []
    size = 0
    for number, text in cursor:
        rows.append((number, parsed(file, text)))
        size += len(text)
        if size > _BATCH_CHARS:
            break
    cursor.close()
    return rows


def items_of(file: MemoryFile, db: sqlite3.Connection, numbers: list[int]) -> list[dict[str, Any]]:
    """The messages that have these numbers."""
    items = []
    for number in numbers:
        row = db.execute("SELECT item FROM memories WHERE number = ?", (number,)).fetchone()
        if row is None:
            raise file.damaged(f"memory {number} is found, but is not there")
        items.append(parsed(file, row[0]))
    return items


def parsed(file: MemoryFile, text: Any) -> dict[str, Any]:
    """A message from its text in the file."""
    try:
        item = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise file.damaged(f"a memory cannot be read, {error}") from None
    if not isinstance(item, dict):
        raise file.damaged("a memory is no message")
    return item
