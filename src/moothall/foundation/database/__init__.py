"""What moothall asks of a database, SQLite or PostgreSQL: statements in a transaction."""

from moothall.foundation.database.protocol import (
    BUDGETS,
    CHANGES,
    POSTGRESQL,
    RUNS,
    SQLITE,
    Database,
    Lock,
    ResultRows,
)

__all__ = ["BUDGETS", "CHANGES", "POSTGRESQL", "RUNS", "SQLITE", "Database", "Lock", "ResultRows"]
