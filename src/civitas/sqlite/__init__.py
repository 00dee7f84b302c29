"""civitas's SQLite files: opening, migrating, reading, writing, and texts for their errors."""

from civitas.sqlite.file import SQLiteConnection, SQLiteFile
from civitas.sqlite.pool import SQLitePool

__all__ = ["SQLiteConnection", "SQLiteFile", "SQLitePool"]
