"""The store of a journal, by its path or URL: SQLite or PostgreSQL."""

from __future__ import annotations

import os

from moothall.foundation.postgres import is_url
from moothall.journal.store.journal_file import JournalFile
from moothall.journal.store.store import Store


def opened(path: str | os.PathLike[str], durability: str, timeout: float) -> Store:
    """Open the store of a journal: a file, or a database of a PostgreSQL server."""
    if isinstance(path, str) and is_url(path):
        from moothall.foundation.errors import MissingExtra

        MissingExtra.unless("a journal in PostgreSQL", "postgres", "psycopg")
        from moothall.journal.store.journal_server import JournalServer

        return JournalServer(path, durability, timeout)
    return JournalFile(path, durability, timeout)
