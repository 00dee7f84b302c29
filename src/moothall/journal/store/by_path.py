"""The store of a journal, by its path or URL: SQLite or PostgreSQL."""

from __future__ import annotations

import os

from moothall.foundation.errors import ConfigError, MissingExtra
from moothall.foundation.postgres import is_url
from moothall.journal.store.journal_file import JournalFile
from moothall.journal.store.store import Store
from moothall.journal.store.tables import DURABILITIES


def open_store(path: str | os.PathLike[str], durability: str, timeout: float) -> Store:
    """Open the store of a journal: a file, or a database of a PostgreSQL server."""
    if not isinstance(durability, str) or durability not in DURABILITIES:
        choices = " or ".join(map(repr, DURABILITIES))
        raise ConfigError(f"durability= must be {choices}, got {durability!r:.80}")
    if isinstance(path, str) and is_url(path):
        MissingExtra.unless("a journal in PostgreSQL", "postgres", "psycopg")
        from moothall.journal.store.journal_server import JournalServer

        return JournalServer(path, timeout)
    return JournalFile(path, durability, timeout)
