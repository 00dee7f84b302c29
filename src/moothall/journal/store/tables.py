"""The tables of a journal in a file and in a server, and their migrations."""

from __future__ import annotations

import json
import sqlite3
from typing import Final

from moothall.foundation.database import POSTGRESQL, SQLITE
from moothall.foundation.sqlite import Migration
from moothall.journal.tally import Tally, search_text

APPLICATION_ID: Final = 0x63766A31
"""The application id in the file's header (`cvj1`): no other program's database is changed."""


def _count_old_runs(db: sqlite3.Connection) -> None:
    """Fill the columns and texts that version 5 keeps of each run, from its entries."""
    for number, task, start, last in db.execute(
        "SELECT number, task, began, last FROM runs"
    ).fetchall():
        tally, changed = Tally(), start
        for path, kind, at, data in db.execute(
            "SELECT path, kind, at, data FROM entries WHERE place > ? AND place <= ? "
            "AND (kind = 'over' OR data LIKE '%\"about\":%' OR place = ?)",
            (number << 32, number << 32 | last, number << 32 | last),
        ):
            changed = at
            try:
                tally.count(path, kind, json.loads(data))
            except (ValueError, TypeError, AttributeError, LookupError):
                pass  # reading the run says what is wrong with it
        db.execute(
            "UPDATE runs SET changed = ?, seconds = ?, tokens = ?, usd = ?, model_calls = ?, "
            "actions = ? WHERE number = ?",
            (
                changed,
                max(changed - start, 0.0),
                *tally.sums()[:4],
                number,
            ),  # those of that version
        )
        text = search_text(task, tally.reply or "")
        db.execute("INSERT INTO texts (run, text) VALUES (?, ?)", (number, text))


# Migrations are only appended; versions 1 to 3 were never released. Until a run's own agent has
# ended, `state` is NULL, or `in_doubt` during an action: what the run is if its process dies now.
DURABILITIES: Final = ("process", "power")
"""What a commit survives: the end of the process, or the loss of power."""

# What runs wait for. `place` is the entry that says what; 0 for an answer that came before its
# question. From `due` on the run can go on: an answer is there, or the time is over.
_WAITS: Final = (
    """CREATE TABLE waits (
        run BIGINT NOT NULL,
        key {exact} NOT NULL,
        kind TEXT NOT NULL,
        agent TEXT NOT NULL,
        thread {exact} NOT NULL,
        path TEXT NOT NULL,
        step TEXT NOT NULL,
        place BIGINT NOT NULL,
        since DOUBLE PRECISION NOT NULL,
        until DOUBLE PRECISION,
        remind DOUBLE PRECISION,
        due DOUBLE PRECISION,
        value TEXT,
        decided_by TEXT,
        answered DOUBLE PRECISION,
        taken BOOLEAN NOT NULL DEFAULT FALSE,
        PRIMARY KEY (run, key)
    ) {unnumbered}""",
    "CREATE INDEX waits_due ON waits (due) WHERE NOT taken",
    "CREATE INDEX waits_remind ON waits (remind) WHERE NOT taken AND remind IS NOT NULL",
    "CREATE INDEX waits_of_thread ON waits (agent, thread) WHERE NOT taken",
    "CREATE INDEX waits_decided ON waits (decided_by) WHERE decided_by IS NOT NULL",
    "CREATE INDEX stopped_runs ON runs (number) WHERE state IS NULL",
    "CREATE INDEX doubted_runs ON runs (number) WHERE state = 'in_doubt'",
)

# `open`: `state` is NULL or `in_doubt`. Each commit sets `state`: it would write an index of that.
_OPEN_RUNS: Final = (
    "ALTER TABLE runs ADD COLUMN open BOOLEAN NOT NULL DEFAULT TRUE",
    "UPDATE runs SET open = FALSE WHERE state <> 'in_doubt'",
    "DROP INDEX stopped_runs",
    "DROP INDEX doubted_runs",
    "CREATE INDEX open_runs ON runs (number) WHERE open",
)

# `name`: under which an action asked for a result; several of its calls may have the same.
# `sources`: what an answer comes from, if the agent that gave it has read from outside.
_WAITS_BY_NAME: Final = (
    "ALTER TABLE waits ADD COLUMN name TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE waits ADD COLUMN sources TEXT",
    "UPDATE waits SET name = key WHERE kind IN ('', 'result')",
)

# `value` and `holder` are the first 16 bytes of a value's hash, and of a run as a holder the 8 of
# its number. What a value names is in its data; what a run names is found by the index.
_SHORT_HOLDERS: Final = (
    "DROP INDEX held",
    "ALTER TABLE holders RENAME TO long_holders",
    """CREATE TABLE holders (
        value {bytes} NOT NULL, holder {bytes} NOT NULL, PRIMARY KEY (value, holder)
    ) {unnumbered}""",
    "INSERT INTO holders SELECT DISTINCT substr(value, 1, 16), substr(holder, 1, 16) "
    "FROM long_holders",
    "DROP TABLE long_holders",
    "CREATE INDEX held ON holders (holder, value) WHERE length(holder) = 8",
)

# How many of its steps have failed, from now on.
_ERRORS: Final = ("ALTER TABLE runs ADD COLUMN errors BIGINT NOT NULL DEFAULT 0",)

MIGRATIONS: Final[tuple[tuple[Migration, ...], ...]] = (
    (),
    (),
    (),
    (
        """CREATE TABLE runs (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            kind TEXT NOT NULL,
            agent TEXT NOT NULL,
            task TEXT NOT NULL,
            began REAL NOT NULL,
            state TEXT,
            holder TEXT NOT NULL DEFAULT '',
            forked_from TEXT,
            thread TEXT,
            -- What memories know it by.
            key TEXT NOT NULL,
            -- Its last entry and that one's checksum, so that none can be missing at the end.
            last INTEGER NOT NULL DEFAULT 0,
            sum BLOB NOT NULL DEFAULT x''
        )""",
        "CREATE TABLE budgets (name TEXT PRIMARY KEY, account TEXT NOT NULL) WITHOUT ROWID",
        "CREATE TABLE kept (hash TEXT PRIMARY KEY, data BLOB NOT NULL)",
        # With one integer as the key, appending takes two thirds of the time.
        """CREATE TABLE entries (
            place INTEGER PRIMARY KEY,
            run INTEGER AS (place >> 32),
            sequence INTEGER AS (place & 0xFFFFFFFF),
            path TEXT NOT NULL,
            kind TEXT NOT NULL,
            at REAL NOT NULL,
            data TEXT NOT NULL,
            sum BLOB NOT NULL
        )""",
    ),
    (
        # When its last entry was written, and for how long processes have worked on it.
        "ALTER TABLE runs ADD COLUMN changed REAL NOT NULL DEFAULT 0",
        "ALTER TABLE runs ADD COLUMN seconds REAL NOT NULL DEFAULT 0",
        # What it has spent itself: a fork begins with nothing.
        "ALTER TABLE runs ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE runs ADD COLUMN usd REAL NOT NULL DEFAULT 0",
        "ALTER TABLE runs ADD COLUMN model_calls INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE runs ADD COLUMN actions INTEGER NOT NULL DEFAULT 0",
        # How many of its calls wait for a person's permission.
        "ALTER TABLE runs ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0",
        # 1 while it is deleted: its id, agent, task and thread are gone already.
        "ALTER TABLE runs ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0",
        # Up to which of its entries `holders` is filled, and whether there may be more: set where
        # a process begins to work on it.
        "ALTER TABLE runs ADD COLUMN read_upto INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE runs ADD COLUMN unread INTEGER NOT NULL DEFAULT 1",
        "CREATE INDEX runs_of_thread ON runs (thread) WHERE thread IS NOT NULL",
        "CREATE INDEX forks ON runs (forked_from) WHERE forked_from IS NOT NULL",
        "CREATE INDEX deleted_runs ON runs (number) WHERE deleted",
        "CREATE INDEX unread_runs ON runs (number) WHERE unread",
        # The words by which a run is found: the beginnings of its task and its reply.
        "CREATE TABLE texts (run INTEGER PRIMARY KEY, text TEXT NOT NULL)",
        # Which value is named by which run (its number, 8 bytes) or value (its hash, 32 bytes).
        # Each commit adds to it; a deletion adds what forks, imports and older versions left out.
        """CREATE TABLE holders (
            value BLOB NOT NULL, holder BLOB NOT NULL, PRIMARY KEY (value, holder)
        ) WITHOUT ROWID""",
        "CREATE INDEX held ON holders (holder, value)",
        # How often values were deleted: what a process knows to be kept may be gone since.
        "CREATE TABLE deletions (values_deleted INTEGER NOT NULL)",
        "INSERT INTO deletions VALUES (0)",
        _count_old_runs,
    ),
    SQLITE.formatted(*_WAITS),
    _OPEN_RUNS,
    _WAITS_BY_NAME,
    # What the caller said of the run, as JSON: `attributes.py` has what that may be.
    ("ALTER TABLE runs ADD COLUMN attributes TEXT",),
    SQLITE.formatted(*_SHORT_HOLDERS),
    _ERRORS,
)

# The same tables in PostgreSQL, where a range of threads is one of bytes. Only appended. A new
# migration is written once, as `_WAITS`, and stands in both lists.
SERVER_MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """CREATE TABLE runs (
            number BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
            id TEXT COLLATE "C" NOT NULL UNIQUE,
            kind TEXT NOT NULL,
            agent TEXT NOT NULL,
            task TEXT NOT NULL,
            began DOUBLE PRECISION NOT NULL,
            state TEXT,
            holder TEXT NOT NULL DEFAULT '',
            forked_from TEXT COLLATE "C",
            thread TEXT COLLATE "C",
            key TEXT NOT NULL,
            last BIGINT NOT NULL DEFAULT 0,
            sum BYTEA NOT NULL DEFAULT '',
            changed DOUBLE PRECISION NOT NULL DEFAULT 0,
            seconds DOUBLE PRECISION NOT NULL DEFAULT 0,
            tokens BIGINT NOT NULL DEFAULT 0,
            usd DOUBLE PRECISION NOT NULL DEFAULT 0,
            model_calls BIGINT NOT NULL DEFAULT 0,
            actions BIGINT NOT NULL DEFAULT 0,
            waiting BIGINT NOT NULL DEFAULT 0,
            deleted BOOLEAN NOT NULL DEFAULT FALSE,
            read_upto BIGINT NOT NULL DEFAULT 0,
            unread BOOLEAN NOT NULL DEFAULT TRUE
        ) WITH (fillfactor = 70)""",  # each commit changes its run's row, and finds room beside it
        """CREATE TABLE budgets (
            name TEXT COLLATE "C" PRIMARY KEY, account TEXT NOT NULL
        ) WITH (fillfactor = 50)""",
        'CREATE TABLE kept (hash TEXT COLLATE "C" PRIMARY KEY, data BYTEA NOT NULL)',
        """CREATE TABLE entries (
            place BIGINT PRIMARY KEY,
            path TEXT NOT NULL,
            kind TEXT NOT NULL,
            at DOUBLE PRECISION NOT NULL,
            data TEXT NOT NULL,
            sum BYTEA NOT NULL
        )""",
        "CREATE INDEX runs_of_thread ON runs (thread) WHERE thread IS NOT NULL",
        "CREATE INDEX runs_of_key ON runs (key)",
        "CREATE INDEX forks ON runs (forked_from) WHERE forked_from IS NOT NULL",
        "CREATE INDEX deleted_runs ON runs (number) WHERE deleted",
        "CREATE INDEX unread_runs ON runs (number) WHERE unread",
        "CREATE TABLE texts (run BIGINT PRIMARY KEY, text TEXT NOT NULL)",
        """CREATE TABLE holders (
            value BYTEA NOT NULL, holder BYTEA NOT NULL, PRIMARY KEY (value, holder)
        )""",
        "CREATE INDEX held ON holders (holder, value)",
        "CREATE TABLE deletions (values_deleted BIGINT NOT NULL)",
        "INSERT INTO deletions VALUES (0)",
    ),
    POSTGRESQL.formatted(*_WAITS),
    _OPEN_RUNS,
    _WAITS_BY_NAME,
    ("ALTER TABLE runs ADD COLUMN attributes JSONB",),
    POSTGRESQL.formatted(*_SHORT_HOLDERS),
    _ERRORS,
)
