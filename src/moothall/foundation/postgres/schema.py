"""Makes the tables of a store in PostgreSQL, and migrates them to the newest version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import psycopg

from moothall.foundation.format_version import newer_version, written_before

_EARLIER_COLUMNS_SQL: Final = """
    SELECT count(*) FROM pg_attribute
    WHERE attrelid = to_regclass('versions') AND attname IN ('kind', 'version')
"""
_EARLIER_KINDS_SQL: Final = (
    "SELECT 1 FROM versions WHERE kind::text IN ('journal', 'memory') LIMIT 1"
)


def migrate(
    connection: psycopg.Connection[Any],
    schema: str,
    kind: str,
    migrations: Sequence[Sequence[str]],
    make_error: Callable[[str], Exception],
) -> None:
    """Migrate a store's tables to the newest version; raise if another moothall wrote them."""
    newest = len(migrations)
    if _version(connection, kind) == newest:
        # Of processes that have ended. A living one writes its row anew.
        connection.execute("DELETE FROM writers WHERE at < now() - interval '1 day'")
        return
    if _is_of_before(connection):
        raise make_error(
            f"{written_before(is_journal=True)}; name another schema "
            "(`?options=-csearch_path%3DNAME` at the end of the URL) or another database"
        )
    with connection.transaction():
        # Whoever comes second finds the tables made.
        connection.execute(
            "SELECT pg_advisory_xact_lock(hashtext('moothall'), hashtext($1))", (kind,)
        )
        schema_row = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = $1", (schema,))
        if schema_row.fetchone() is None:
            connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
        connection.execute(
            "CREATE TABLE IF NOT EXISTS formats (kind TEXT PRIMARY KEY, version INT NOT NULL)"
        )
        # The last transaction of each process, by which it knows later whether it took effect.
        connection.execute(
            "CREATE TABLE IF NOT EXISTS writers (session TEXT PRIMARY KEY, last BIGINT NOT NULL, "
            "at TIMESTAMPTZ NOT NULL DEFAULT now()) WITH (fillfactor = 50)"
        )
        version = _version(connection, kind)
        if version > newest:
            raise make_error(newer_version(version, newest))
        for statements in migrations[version:]:
            for each in statements:
                connection.execute(cast("Any", each))
        connection.execute(
            "INSERT INTO formats VALUES ($1, $2) "
            "ON CONFLICT (kind) DO UPDATE SET version = excluded.version",
            (kind, newest),
        )


def _version(connection: psycopg.Connection[Any], kind: str) -> int:
    """Return how many migrations a store has had."""
    if connection.execute("SELECT to_regclass('formats')").fetchone() == (None,):
        return 0
    row = connection.execute("SELECT version FROM formats WHERE kind = $1", (kind,)).fetchone()
    return 0 if row is None else int(row[0])


def _is_of_before(connection: psycopg.Connection[Any]) -> bool:
    """Return whether the schema has a journal or a memory that was written before 0.1.0."""
    if connection.execute(_EARLIER_COLUMNS_SQL).fetchone() != (2,):
        return False
    return connection.execute(_EARLIER_KINDS_SQL).fetchone() is not None
