"""The stored memory of a path or URL: SQLite or PostgreSQL."""

from __future__ import annotations

import os

from moothall.foundation.postgres import is_url
from moothall.memory.postgres import PostgresMemory
from moothall.memory.sqlite import SQLiteMemory


def memory_at(path: str | os.PathLike[str]) -> PostgresMemory | SQLiteMemory:
    """Return the memory in a file, or in a database of a PostgreSQL server."""
    return PostgresMemory(path) if isinstance(path, str) and is_url(path) else SQLiteMemory(path)
