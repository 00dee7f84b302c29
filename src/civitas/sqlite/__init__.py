"""SQLite files of ours: opened, brought up to date, read and written, their faults put in words."""

from civitas.sqlite.file import SQLiteConnection, SQLiteFile
from civitas.sqlite.pool import SQLitePool

__all__ = ["SQLiteConnection", "SQLiteFile", "SQLitePool"]
