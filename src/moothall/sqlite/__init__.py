"""moothall's SQLite files: opening, migrating, reading, writing, and texts for their errors."""

from moothall.sqlite.connection import SQLiteConnection, is_in_use
from moothall.sqlite.file import Migration, SQLiteFile
from moothall.sqlite.held import alone
from moothall.sqlite.pool import SQLitePool

__all__ = ["Migration", "SQLiteConnection", "SQLiteFile", "SQLitePool", "alone", "is_in_use"]
