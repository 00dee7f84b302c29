"""moothall's SQLite files: opening, migrating, reading, writing, and texts for their errors."""

from moothall.sqlite.file import Migration, SQLiteConnection, SQLiteFile
from moothall.sqlite.pool import SQLitePool

__all__ = ["Migration", "SQLiteConnection", "SQLiteFile", "SQLitePool"]
