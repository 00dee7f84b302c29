"""What moothall asks of a database, SQLite or PostgreSQL: statements in a transaction."""

from moothall.foundation.database.protocol import (
    ALONE,
    BUDGETS,
    POSTGRESQL,
    RUNS,
    SQLITE,
    Database,
    Lock,
    ResultRows,
)

__all__ = ["ALONE", "BUDGETS", "POSTGRESQL", "RUNS", "SQLITE", "Database", "Lock", "ResultRows"]
