"""The tables of a journal in a file and in a server, and their migrations."""

from __future__ import annotations

from typing import Final

from moothall.foundation.database import POSTGRESQL, SQLITE

APPLICATION_ID: Final = 0x6D686A31
"""The application id in the file's header (`mhj1`): no other program's database is changed."""

DURABILITIES: Final = ("process", "power")
"""What a commit survives: the end of the process, or the loss of power."""

_TABLES: Final = (
    # `state`: until a run's own agent has ended, it is NULL, or `in_doubt` during an action: what
    # the run is if its process dies now. `open` says that it is so: each commit sets `state`, and
    # would write an index of it.
    # `key`: memories know the run by it.
    # `last`, `sum`: its last entry and that one's checksum: none can be missing at the end.
    # `changed`, `seconds`: when its last entry was written; for how long processes worked on it.
    # `tokens` to `errors`: what it has spent itself: a fork begins with nothing.
    # `waiting`: how many of its calls wait for a person's permission.
    # `deleted`: while it is deleted; its id, agent, task and thread are gone already.
    # `read_upto`, `unread`: up to which of its entries `holders` is filled, and whether there may
    # be more: set where a process begins to work on it.
    # `attributes`: what the caller said of it: `attributes.py` has what that may be.
    """CREATE TABLE runs (
        number {number},
        id {exact} NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        agent TEXT NOT NULL,
        task TEXT NOT NULL,
        began DOUBLE PRECISION NOT NULL,
        state TEXT,
        open BOOLEAN NOT NULL DEFAULT TRUE,
        holder TEXT NOT NULL DEFAULT '',
        forked_from {exact},
        thread {exact},
        key TEXT NOT NULL,
        last BIGINT NOT NULL DEFAULT 0,
        sum {bytes} NOT NULL DEFAULT (CAST('' AS {bytes})),
        changed DOUBLE PRECISION NOT NULL DEFAULT 0,
        seconds DOUBLE PRECISION NOT NULL DEFAULT 0,
        tokens BIGINT NOT NULL DEFAULT 0,
        usd DOUBLE PRECISION NOT NULL DEFAULT 0,
        model_calls BIGINT NOT NULL DEFAULT 0,
        actions BIGINT NOT NULL DEFAULT 0,
        errors BIGINT NOT NULL DEFAULT 0,
        waiting BIGINT NOT NULL DEFAULT 0,
        deleted BOOLEAN NOT NULL DEFAULT FALSE,
        read_upto BIGINT NOT NULL DEFAULT 0,
        unread BOOLEAN NOT NULL DEFAULT TRUE,
        attributes {json}
    )""",
    "CREATE TABLE budgets (name {exact} PRIMARY KEY, account TEXT NOT NULL) {unnumbered}",
    "CREATE TABLE kept (hash {exact} PRIMARY KEY, data {bytes} NOT NULL)",
    # With one integer as the key, the run's number and the entry's, appending takes two thirds of
    # the time.
    """CREATE TABLE entries (
        place {given_number},
        path TEXT NOT NULL,
        kind TEXT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        data TEXT NOT NULL,
        sum {bytes} NOT NULL
    )""",
    # The words by which a run is found: the beginnings of its task and its reply.
    "CREATE TABLE texts (run {given_number}, text TEXT NOT NULL)",
    # Which value is named by which run or value: the first 16 bytes of a value's hash, and of a run
    # the 8 of its number. What a value names is in its data; what a run names is found by `held`.
    # Each commit adds to it; a deletion adds what forks and imports left out.
    """CREATE TABLE holders (
        value {bytes} NOT NULL, holder {bytes} NOT NULL, PRIMARY KEY (value, holder)
    ) {unnumbered}""",
    # How often values were deleted: what a process knows to be kept may be gone since.
    "CREATE TABLE deletions (values_deleted BIGINT NOT NULL)",
    "INSERT INTO deletions VALUES (0)",
    # What runs wait for. `place` is the entry that says what; 0 for an answer that came before its
    # question. From `due` on the run can go on: an answer is there, or the time is over. `name`:
    # under which an action asked for a result; several of its calls may have the same. `sources`:
    # what an answer comes from, if the agent that gave it has read from outside.
    """CREATE TABLE waits (
        run BIGINT NOT NULL,
        key {exact} NOT NULL,
        name TEXT NOT NULL DEFAULT '',
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
        sources TEXT,
        decided_by TEXT,
        answered DOUBLE PRECISION,
        taken BOOLEAN NOT NULL DEFAULT FALSE,
        PRIMARY KEY (run, key)
    ) {unnumbered}""",
    "CREATE INDEX open_runs ON runs (number) WHERE open",
    "CREATE INDEX deleted_runs ON runs (number) WHERE deleted",
    "CREATE INDEX unread_runs ON runs (number) WHERE unread",
    "CREATE INDEX runs_of_thread ON runs (thread) WHERE thread IS NOT NULL",
    "CREATE INDEX forks ON runs (forked_from) WHERE forked_from IS NOT NULL",
    "CREATE INDEX held ON holders (holder, value) WHERE length(holder) = 8",
    "CREATE INDEX waits_due ON waits (due) WHERE NOT taken",
    "CREATE INDEX waits_remind ON waits (remind) WHERE NOT taken AND remind IS NOT NULL",
    "CREATE INDEX waits_of_thread ON waits (agent, thread) WHERE NOT taken",
    "CREATE INDEX waits_decided ON waits (decided_by) WHERE decided_by IS NOT NULL",
)
# Each commit changes its run's row, and finds room beside it.
_OF_SERVER: Final = (
    "ALTER TABLE runs SET (fillfactor = 70)",
    "ALTER TABLE budgets SET (fillfactor = 50)",
    "CREATE INDEX runs_of_key ON runs (key)",
)

# Only appended. A new migration is written once, as `_TABLES`, and stands in both lists.
MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (SQLITE.formatted(*_TABLES),)
SERVER_MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    POSTGRESQL.formatted(*_TABLES) + _OF_SERVER,
)
