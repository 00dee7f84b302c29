"""The inbox: a space's record of received messages, in a file or in memory."""

from __future__ import annotations

import json
import os
import sqlite3
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, NamedTuple, NoReturn

from moothall.foundation.errors import InboxError
from moothall.foundation.files import OPEN_FILE_LOCKS
from moothall.foundation.sqlite import SQLiteConnection, SQLiteFile
from moothall.foundation.threads import ProcessBound

# The states of a message.
ACCEPTED: Final = 0  # stored and acknowledged, not started
STARTED: Final = 1  # started; in doubt if its process has ended
FINISHED: Final = 2


class InboxEntry(NamedTuple):
    """The record of a message in an inbox."""

    key: str  # unique among senders
    state: Literal[0, 1, 2]
    message: bytes | None  # if it was accepted (and so acknowledged) before it ran, until it ends
    answer: bytes | None  # what is sent again when an ended message is redelivered


APPLICATION_ID: Final = 0x6D686931
"""The application id in the file's header (`mhi1`) protects the databases of other programs."""

# Append only. Rows are in order of arrival: a start and the end before it mostly share one page,
# the oldest rows need no index of ages to be found, and long answers do not spread the keys.
MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """CREATE TABLE inbox (
            number INTEGER PRIMARY KEY,
            key TEXT NOT NULL,
            agent TEXT NOT NULL,
            state INTEGER NOT NULL,
            ended REAL,
            message BLOB,
            answer BLOB,
            UNIQUE (key, agent)
        )""",
        "CREATE INDEX waiting ON inbox (agent) WHERE message IS NOT NULL",
    ),
)

_LOOK_UP = "SELECT key, state, message, answer FROM inbox WHERE key = ? AND agent = ?"
_UNFINISHED = (
    "SELECT key, state, message, answer FROM inbox WHERE agent = ? AND message IS NOT NULL "
    "ORDER BY number"
)
_ACCEPT = (
    "INSERT INTO inbox (key, agent, state, message) VALUES (?, ?, 0, ?) ON CONFLICT (key, agent) "
    "DO UPDATE SET message = excluded.message WHERE state < 2 AND message IS NULL"
)
_PERMIT = (
    "INSERT INTO inbox (key, agent, state, message) VALUES (?, ?, 0, ?) ON CONFLICT (key, agent) "
    "DO UPDATE SET message = excluded.message WHERE state = 0"
)
_START = (
    "INSERT INTO inbox (key, agent, state) VALUES (?, ?, 1) ON CONFLICT (key, agent) "
    "DO UPDATE SET state = 1 WHERE state = 0"
)
# An accepted message is not redelivered: its row keeps x'' until its answer is confirmed.
_END = (
    "INSERT INTO inbox (answer, ended, key, agent, state) VALUES (?, ?, ?, ?, 2) ON CONFLICT "
    "(key, agent) DO UPDATE SET state = 2, answer = excluded.answer, ended = excluded.ended, "
    "message = iif(excluded.answer IS NULL OR message IS NULL, NULL, x'')"
)
_NOTE_ANSWERED = "UPDATE inbox SET message = NULL WHERE key = ? AND agent = ? AND state = 2"
# Looks at twice as many rows as it removes: a long one may precede others that ended earlier.
# What seems to end long after now is old too: the clock was wrong then.
_FORGET = (
    "DELETE FROM inbox WHERE number IN (SELECT number FROM (SELECT number, ended FROM inbox "
    "WHERE state = 2 ORDER BY number LIMIT 2 * ?) WHERE abs(? - ended) >= ? LIMIT ?)"
)

_ENDS_IN_MEMORY: Final = 100_000
"""How many ended messages are remembered without a file."""

_BYTES_IN_MEMORY: Final = 2**26
"""How many bytes their answers have together; the last one is remembered in any case."""


_LOCKING_MODE: Final = "NORMAL" if OPEN_FILE_LOCKS else "EXCLUSIVE"
"""SQLite's own lock on the whole file is lost when the process reads the file elsewhere."""
_USED_ELSEWHERE: Final = "it is used by another process; give each process an inbox of its own"


class Inbox(ProcessBound, remedy="each process has an inbox of its own, by another path"):
    """Remembers the messages to each agent. Its methods are called on the space's loop.

    A message to several agents is remembered for each. An ended message stays ended.

    The SQLite file belongs to one process at a time. What was written survives the process, however
    it is killed. A crash of the machine or a power failure may lose the last one to two thousand
    messages, accepted ones among them; the file is not damaged. The file never shrinks, but reuses
    the space of forgotten messages. Keys with a prefix for each sender and a counter are neighbours
    in the file: cheaper to write and to forget than random keys.

    Without a file no message is accepted, and only the answers of the last ended messages are
    remembered: the broker still has the messages that have not ended, or this process runs them.

    Attributes:
        durable: whether there is a file, which outlives the process
    """

    _file: SQLiteFile[InboxError]

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.durable: bool = path is not None
        # With a file, only the ends not yet written to it. No plain dict: finding its first entry
        # gets slower with each entry removed before it.
        self._pending_ends: OrderedDict[tuple[str, str], tuple[bytes | None, float]] = OrderedDict()
        self._answer_bytes = 0
        self._answered_keys: set[tuple[str, str]] = set()
        self._closed = False
        if path is None:
            return
        self._file = SQLiteFile(
            path,
            kind="inbox",
            class_name="Inbox",
            application=APPLICATION_ID,
            migrations=MIGRATIONS,
            error=InboxError,
        )
        if self._file.is_open():
            raise InboxError(
                self._file.name,
                "it is used already in this process; give each space an inbox of its own",
            )
        self._file.look()
        self._connection = self._open()
        cursor = self._connection.cursor()
        self._execute: Callable[..., sqlite3.Cursor] = cursor.execute
        self._release = weakref.finalize(self, _close_files, cursor, self._connection, self._file)

    # -- use ---------------------------------------------------------------------------------------

    def look_up(self, key: str, agent: str) -> InboxEntry | None:
        """Return the entry of a message to an agent; None if the message never came."""
        entry_end = self._pending_ends.get((key, agent))
        if entry_end is not None:
            return InboxEntry(key, FINISHED, None, entry_end[0])
        if not self.durable:
            return None
        try:
            row = self._execute(_LOOK_UP, (key, agent)).fetchone()
        except sqlite3.Error as error:
            self._raise_fault(error)
        return None if row is None else self._read_entry(row)

    def accept(self, key: str, agent: str, message: bytes) -> None:
        """Store a message that is acknowledged before it runs; it is written at the return.

        A started message keeps that state; a message accepted before keeps its first content.
        """
        self._write(_ACCEPT, ((key, agent, message),))

    def permit(self, key: str, agent: str, message: bytes) -> None:
        """Store an approved message in place of the one accepted before."""
        self._write(_PERMIT, ((key, agent, message),))

    def start(self, started: Iterable[tuple[str, str]]) -> None:
        """Record that messages, pairs of key and agent, start; it is written at the return.

        The same transaction writes the pending ends.
        """
        self._write(_START, started)

    def end(self, key: str, agent: str, answer: bytes | None) -> None:
        """Record that a message has ended: visible at once, written with the next write."""
        if self.durable and self._closed:
            raise self._file.closed()
        ends = self._pending_ends
        ends[key, agent] = (answer, time.time())
        if not self.durable:
            self._answer_bytes += len(answer or b"")
            while len(ends) > _ENDS_IN_MEMORY or (
                self._answer_bytes > _BYTES_IN_MEMORY and len(ends) > 1
            ):
                self._answer_bytes -= len(ends.popitem(last=False)[1][0] or b"")

    def note_answered(self, key: str, agent: str) -> None:
        """Record, with the next write, that the answer of an accepted message was confirmed."""
        if not self._closed:
            self._answered_keys.add((key, agent))

    def flush(self) -> None:
        """Write the pending ends."""
        if self.durable and (self._pending_ends or self._answered_keys):
            self._write("", ())

    def unfinished(self, agent: str) -> list[InboxEntry]:
        """Return an agent's accepted messages that have not ended or are not `answered`.

        They are in order of acceptance. They were acknowledged: the broker does not redeliver them.
        """
        if not self.durable:
            return []
        try:
            rows = self._execute(_UNFINISHED, (agent,)).fetchall()
        except sqlite3.Error as error:
            self._raise_fault(error)
        finished = self._pending_ends.keys() | self._answered_keys
        return [self._read_entry(row) for row in rows if (row[0], agent) not in finished]

    def forget(self, older_than: float, at_most: int = 10_000) -> int:
        """Remove the oldest entries that ended `older_than` s ago or earlier; return how many."""
        return self._write(_FORGET, ((at_most, time.time(), older_than, at_most),))

    def delete(self, agent: str | Callable[[str, str | None], bool]) -> int:
        """Delete what an agent has sent, and the answers to it; return of how many messages.

        `agent` is its id, or says of an id and the conversation in which it sent the message,
        None if it named none, whether the message is meant.

        A message that has ended stays known as ended, without its answer. What is deleted is
        overwritten, and the file written anew.
        """
        if not self.durable:
            return 0
        self.flush()
        changed_count = 0
        try:
            rows = self._execute("SELECT number, message, answer FROM inbox").fetchall()
            self._execute("PRAGMA secure_delete = ON")
            with self._connection:
                self._execute("BEGIN")
                for number, message, answer in rows:
                    if message and _is_of_agent(message, "from", agent):
                        self._execute("DELETE FROM inbox WHERE number = ?", (number,))
                    elif answer and _is_of_agent(answer, "to", agent):
                        blank_row = (
                            "UPDATE inbox SET message = NULL, answer = NULL WHERE number = ?"
                        )
                        self._execute(blank_row, (number,))
                    else:
                        continue
                    changed_count += 1
            self._execute("VACUUM")
            self._execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._execute("PRAGMA secure_delete = OFF")
        except sqlite3.Error as error:
            self._raise_fault(error)
        return changed_count

    def close(self) -> None:
        """Write the pending ends and close the file. A second call does nothing."""
        if self._closed or not self.durable:
            return
        try:
            self.flush()
        finally:
            self._closed = True
            self._release()

    # -- the file ----------------------------------------------------------------------------------

    def _write(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> int:
        """In one transaction, write the pending ends, then run a statement for each row."""
        if not self.durable:
            return 0
        if self._file.identity() != self._connection.identity and not self._closed:
            raise self._file.missing_error()
        execute = self._execute
        changed_count = 0
        try:
            with self._connection:  # which ends the transaction
                execute("BEGIN IMMEDIATE")
                self._file.check_log(self._connection)
                for pair, end in self._pending_ends.items():
                    execute(_END, end + pair)
                for pair in self._answered_keys:
                    execute(_NOTE_ANSWERED, pair)
                for row in rows:
                    changed_count = execute(statement, row).rowcount
        except sqlite3.Error as error:
            self._raise_fault(error)
        self._pending_ends.clear()
        self._answered_keys.clear()
        return changed_count

    def _read_entry(self, row: tuple[Any, ...]) -> InboxEntry:
        key, state, message, answer = row
        if (
            state not in (ACCEPTED, STARTED, FINISHED)
            or not (message is None or isinstance(message, bytes))
            or not (answer is None or isinstance(answer, bytes))
        ):
            raise self._file.damaged(f"the entry of {key!r} is not valid")
        return InboxEntry(key, state, None if state == FINISHED else message, answer)

    def _open(self) -> SQLiteConnection:
        try:
            # Small pages, because each start writes two or three of them to the log.
            connection = self._file.open(
                0, "page_size = 1024", f"locking_mode = {_LOCKING_MODE}", "synchronous = NORMAL"
            )
        except sqlite3.Error as error:
            self._raise_fault(error)
        try:
            connection.execute("PRAGMA secure_delete = OFF")
            # Read both ends of the table and its keys, to detect a file that was overwritten.
            connection.execute("SELECT min(number), max(number) FROM inbox").fetchone()
            connection.execute(_LOOK_UP, ("", "")).fetchone()
            connection.execute(_UNFINISHED, ("",)).fetchone()
            if connection.wal_file is not None:
                connection.wal_file.take(0)
        except sqlite3.Error as error:
            connection.close()
            self._raise_fault(error)
        except BaseException:
            connection.close()
            raise
        return connection

    def _raise_fault(self, error: sqlite3.Error) -> NoReturn:
        if self._closed:
            raise self._file.closed() from error
        raise self._file.fault(error, _USED_ELSEWHERE) from error


def _is_of_agent(packed: bytes, field: str, agent: str | Callable[[str, str | None], bool]) -> bool:
    """Return whether a stored message or answer is from, or to, an agent."""
    try:
        stored = json.loads(packed)
        body = json.loads(stored["body"])
        id = body[field]
        if not callable(agent):
            return bool(id == agent)
        headers = stored.get("headers") or {}
        if field == "to":
            return agent(id, headers.get("thread"))
        args = body["action"].get("args") or {} if isinstance(body["action"], dict) else {}
        return agent(id, args.get("thread") or headers.get("within"))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return False


def _close_files(
    cursor: sqlite3.Cursor, connection: sqlite3.Connection, file: SQLiteFile[Any]
) -> None:
    if file.is_of_this_process():
        # The cursor keeps a failed statement, which would keep the file open and locked.
        cursor.close()
        connection.close()
