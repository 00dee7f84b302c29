"""moothall's SQLite files: opening, migrating, reading, writing, and texts for their errors."""

from moothall.foundation.sqlite.connection import SQLiteConnection
from moothall.foundation.sqlite.file import SQLiteFile
from moothall.foundation.sqlite.pool import SQLitePool
from moothall.foundation.sqlite.wal_locks import exclusive

__all__ = ["SQLiteConnection", "SQLiteFile", "SQLitePool", "exclusive"]
