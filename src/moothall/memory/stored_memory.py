"""A memory in a store: it survives the process, and finds old messages."""

from __future__ import annotations

import copy
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, Self, TypedDict

from moothall.foundation import tracing
from moothall.foundation.arguments import (
    check_boolean,
    check_function,
    check_integer,
    check_seconds,
    names_checked,
)
from moothall.foundation.database import Database
from moothall.foundation.errors import ConfigError, StateError
from moothall.foundation.threads import ProcessBound, guard
from moothall.memory.bounded import DEFAULT_TOKENS, TokenBoundedMemory
from moothall.memory.embedder import Embedder
from moothall.memory.memory import Memory, check_thread
from moothall.memory.memory_tables import RUN_CONDITION, MemoryTables, bounds_of_run
from moothall.memory.recall import RECALL_METHODS, Recall, RecallBy, row_of
from moothall.memory.returned_copies import ReturnedCopies

_READ_BATCH: Final = 64
"""So many messages are read at a time, backwards."""

logger: logging.Logger = logging.getLogger("moothall.memory")

_KEPT_QUERY = """
    SELECT number, item FROM memories
    WHERE thread = ? {0} AND number < ? AND role = 'system'
    UNION ALL
    SELECT number, item FROM (
        SELECT number, item FROM memories
        WHERE thread = ? {0} AND number < ? AND role = 'user'
        ORDER BY number DESC LIMIT 1
    ) AS task
    ORDER BY number DESC
"""
"""Kept at any age: system messages, and the last task."""


@names_checked
class StoredMemory(ProcessBound, Memory, remedy="give its path, and open it there"):
    """A memory of several conversations in a store, whichever it is."""

    class MemoryOptions(TypedDict, total=False):
        """What subclasses take by name and pass on."""

        tokens: int | None
        count: Callable[[str], int] | None
        embedder: Embedder | None
        clear: bool
        timeout: float

    is_in_file: bool = True
    only_grows: bool = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        thread: str | None = None,
        *,
        tokens: int | None = DEFAULT_TOKENS,
        count: Callable[[str], int] | None = None,
        embedder: Embedder | None = None,
        clear: bool = True,
        timeout: float = 10,
    ) -> None:
        check_boolean(f"{type(self).__name__}: clear=", clear)
        check_integer(f"{type(self).__name__}: tokens=", tokens, optional=True)
        check_function(f"{type(self).__name__}: count=", count, "text", optional=True)
        if embedder is not None and not isinstance(embedder, Embedder):
            raise ConfigError(
                f"embedder= must have name, dimensions and embed(texts), got {embedder!r}"
            )
        self._tokens = tokens
        self._reply_tokens: int | None = None
        self._count = count
        self._embedder = embedder
        self._clears = clear
        self._start_thread("default" if thread is None else thread)
        self._tables: MemoryTables = self._open_tables(path, timeout)
        self._recall = Recall(self._tables, embedder)

    def _open_tables(self, path: Any, timeout: float) -> MemoryTables:
        """Return the store of a path or URL."""
        raise NotImplementedError

    def __init_subclass__(cls, **options: Any) -> None:
        # A subclass keeps `thread` and `add_once`: the file holds its messages, whatever they are.
        super(Memory, cls).__init_subclass__(**options)
        if "get_memories" in cls.__dict__:
            cls.only_grows = cls.__dict__.get("only_grows", False)

    def _start_thread(self, thread: str) -> None:
        """Start with a thread of which nothing is cached yet."""
        check_thread(thread)
        self._id = thread
        self._lock = guard()  # guards the attributes below
        self._window: TokenBoundedMemory | None = None
        self._copies = ReturnedCopies()
        # What was written last, by number: in a window it shares its texts with the run's messages.
        self._added: dict[int, tuple[str, dict[str, Any]]] = {}
        self._last_number = 0
        self._forget_count = 0
        self._view_filter: tuple[str, tuple[Any, ...]] = "", ()  # what of the thread it reads

    # -- what every memory does --------------------------------------------------------------------

    @property  # type: ignore[misc]
    def items(self) -> list[dict[str, Any]]:
        """The messages that `get_memories` returns; changing the list has no effect."""
        return self.get_memories()

    def add_memory(self, memory: dict[str, Any]) -> None:
        """Add a chat message. When this returns, it is in the file.

        Raises:
            ConfigError: the message is not a dict
            NotJSON: a part of it has no JSON form, or it has more than 16 MiB; it is not added
            MemoryFileError: the file cannot be written; the message is not added
        """
        self._add([(memory, None)])

    def add_once(self, memory: dict[str, Any], run: str, sequence: int) -> None:
        """Add a message of a run with a journal, unless it was added before, as in `Memory`.

        Raises:
            TypeError, NotJSON, MemoryFileError: as in `add_memory`
        """
        if type(self).add_memory is not StoredMemory.add_memory:
            # A subclass's own `add_memory` runs separately; a process killed between the two adds
            # the message twice.
            with self._tables.reading() as db:
                offset = self._tables.run_message_count(
                    db, self._tables.thread_number(db, self._id), run
                )
            if offset <= sequence:
                self.add_memory(memory)
                with self._tables.writing(lock=self._tables.lock(self._id)) as db:
                    thread = self._tables.ensure_thread(db, self._id)
                    self._tables.set_run_message_count(db, thread, run, sequence + 1)
            return
        self._add([(memory, (run, sequence))])

    def add_turn(
        self, messages: Sequence[dict[str, Any]], places: Iterable[tuple[str, int] | None]
    ) -> None:
        """Add messages of a turn: none of another process comes between a call and its result.

        Args:
            messages: the messages
            places: of each, the run and number, as in `add_once`; None without a journal

        Raises:
            TypeError, NotJSON, MemoryFileError: as in `add_memory`; none of them is added
        """
        if type(self).add_memory is StoredMemory.add_memory:
            self._add([*zip(messages, places, strict=False)])
            return
        for message, place in zip(messages, places, strict=False):
            if place is None:
                self.add_memory(message)
            else:
                self.add_once(message, *place)

    def _add(self, messages: Iterable[tuple[dict[str, Any], tuple[str, int] | None]]) -> None:
        """Add messages in one transaction, those of a run once."""
        rows = [(row_of(message), *(place or (None, 0))) for message, place in messages]
        if not rows:
            return
        with self._tables.writing(lock=self._tables.lock(self._id)) as db:
            thread = self._tables.ensure_thread(db, self._id)
            added = {}
            for (item, *row), run, sequence in rows:
                if run is None or self._tables.run_message_count(db, thread, run) <= sequence:
                    added[self._tables.add_message(db, thread, row, run)] = row[1], item
                    if run is not None:
                        self._tables.set_run_message_count(db, thread, run, sequence + 1)
        self._added = added

    def get_memories(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the messages for a prompt, at most `limit`: the last ones that fit, oldest first.

        Raises:
            ConfigError: the limit is not a whole number from 0 up
            MemoryFileError: the file cannot be read
        """
        self.last_of([], limit)  # raises for a wrong limit
        if self._tokens is None:
            return self.newest(limit)
        with self._lock:
            with self._tables.reading() as db:
                window = self._updated_window(db)
            return self._copies.copy_messages(self.last_of(window.items, limit))

    @property
    def left_out(self) -> int:
        """How many messages after the last user message `get_memories` leaves out."""
        with self._lock:
            return 0 if self._window is None else self._window.left_out

    def fit_reply(self, tokens: int) -> None:
        """Let a running reply have more than the default bound."""
        if self._tokens == DEFAULT_TOKENS and tokens != self._reply_tokens:
            with self._lock:
                self._reply_tokens, self._window = tokens, None

    def take_cleared(self) -> list[int]:
        """Return the numbers of results that were cleared since, once."""
        if self._tokens is None or not self._clears:
            return []
        with self._lock, self._tables.reading() as db:
            return self._updated_window(db).take_cleared()

    def make_room(self) -> bool:
        """Make the prompt shorter; return whether it is."""
        with self._lock:
            return self._window is not None and self._window.make_room()

    def newest(self, limit: int | None) -> list[dict[str, Any]]:
        """Return the last messages."""
        with self._tables.reading() as db:
            thread = self._tables.thread_number(db, self._id)
            condition, values = self._view_filter
            rows = db.execute(
                f"SELECT item FROM memories WHERE thread = ? {condition} "
                "ORDER BY number DESC LIMIT ?",
                (thread, *values, sys.maxsize if limit is None else min(limit, sys.maxsize)),
            )
            items = [self._tables.parse_item(text) for (text,) in rows]
        items.reverse()
        return items

    def _updated_window(self, db: Database) -> TokenBoundedMemory:
        """Return the window of messages, with everything that any process has added by now."""
        row = db.execute(
            "SELECT number, forgotten FROM threads WHERE id = ?", (self._id,)
        ).fetchone()
        thread, forgotten = row or (None, 0)
        # It stays unset if anything fails: a partial window is not used.
        window, self._window = self._window, None
        if window is None or forgotten != self._forget_count:
            window = self._load_window(db, thread)
            self._forget_count = forgotten
        else:
            (condition, values), added = self._view_filter, self._added
            for number, text in db.execute(
                f"SELECT number, item FROM memories WHERE thread = ? {condition} AND number > ? "
                "ORDER BY number",
                (thread, *values, self._last_number),
            ):
                added_item = added.get(number)
                if added_item is not None and added_item[0] == text:
                    window.add_memory(added_item[1])
                else:
                    window.add_memory(self._tables.parse_item(text))
                self._last_number = number
        self._window = window
        return window

    def _load_window(self, db: Database, thread: int | None) -> TokenBoundedMemory:
        """Return the end of the thread, read backwards only as far as it can matter."""
        assert self._tokens is not None
        window = TokenBoundedMemory(
            self._tokens, self._count, clear=self._clears, reply_tokens=self._reply_tokens
        )
        bound = max(self._tokens, self._reply_tokens or 0)
        rows: list[tuple[int, dict[str, Any]]] = []
        size = 0
        for number, item in self._newest_first(db, thread):
            rows.append((number, item))
            size += window.size_of(item)
            if size > bound and item.get("role") != "tool":
                break
        if rows:
            first = rows[-1][0]
            condition, values = self._view_filter
            kept_rows = db.execute(_KEPT_QUERY.format(condition), (thread, *values, first) * 2)
            rows += [(number, self._tables.parse_item(text)) for number, text in kept_rows]
        for _, item in reversed(rows):
            window.add_memory(item)
        self._last_number = rows[0][0] if rows else 0
        return window

    def _newest_first(
        self, db: Database, thread: int | None
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the messages of a thread, the newest first, read some at a time."""
        before_number, (condition, values) = sys.maxsize, self._view_filter
        while True:
            rows = db.execute(
                f"SELECT number, item FROM memories WHERE thread = ? {condition} AND number < ? "
                "ORDER BY number DESC LIMIT ?",
                (thread, *values, before_number, _READ_BATCH),
            ).fetchall()
            for number, text in rows:
                yield number, self._tables.parse_item(text)
            if len(rows) < _READ_BATCH:
                return
            before_number = rows[-1][0]

    # -- threads -----------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The file, as it was given, or the URL of the server without its password."""
        return self._tables.name

    @property
    def id(self) -> str:
        """The conversation's id."""
        return self._id

    def thread(self, id: str | None) -> Self:
        """Return the memory of another conversation in the same file, with the same settings.

        Raises:
            DefinitionError: the id is not a text, or empty
        """
        if id is None:
            return self
        other = copy.copy(self)
        other._start_thread(id)
        return other

    def view_of_fork(
        self,
        runs: Sequence[str],
        copied: Mapping[str, int],
        fork: str,
        other_runs: Sequence[str] = (),
    ) -> Self:
        """Return the thread as a fork sees it, as `Memory.view_of_fork` does."""
        conditions, values, remaining = list[str](), list[Any](), dict(copied)
        with self._tables.reading() as db:
            thread = self._tables.thread_number(db, self._id)
            for run in runs:
                is_first, last_number = not conditions, None
                for number, key in db.execute(
                    f"SELECT number, run FROM memories WHERE thread = ? AND {RUN_CONDITION} "
                    "ORDER BY number",
                    (thread, *bounds_of_run(run)),
                ):
                    if last_number is None:
                        last_number = number - 1
                    if remaining.get(key, 0) > 0:
                        remaining[key] -= 1
                        last_number = number
                if last_number is None and is_first:
                    return self  # it has nothing of the run
                if last_number is not None:
                    conditions.append(
                        "number <= ?" if is_first else f"(number <= ? AND {RUN_CONDITION})"
                    )
                    values += [last_number] if is_first else [last_number, *bounds_of_run(run)]
        other = copy.copy(self)
        other._start_thread(self._id)
        for run in (*other_runs, fork):
            conditions.append(f"({RUN_CONDITION})")
            values += bounds_of_run(run)
        other._view_filter = f"AND ({' OR '.join(conditions)})", (*values,)
        return other

    def threads(self) -> list[str]:
        """Return the ids of conversations with messages, in the order in which they began."""
        return self._tables.thread_ids()

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield every message of the thread, the oldest first, however many there are."""
        number = 0
        while True:
            with self._tables.reading() as db:
                rows = self._tables.batch_after(
                    db, self._tables.thread_number(db, self._id), number
                )
            if not rows:
                return
            yield from (item for _, item in rows)
            number = rows[-1][0]

    @property
    def forgettings(self) -> int:
        """How often the thread was forgotten."""
        with self._tables.reading() as db:
            query = "SELECT forgotten FROM threads WHERE id = ?"
            row = db.execute(query, (self._id,)).fetchone()
            return 0 if row is None else int(row[0])

    def forget(self) -> None:
        """Forget the thread: its messages, their words and vectors. Other threads stay.

        They are overwritten. Where SQLite had moved rows between pages before, a copy may remain
        until `compact`. With very many messages in the file it takes a while, during which no
        message can be added.
        """
        with self._tables.writing(lock=self._tables.lock(self._id)) as db:
            if self._recall.forget_after(db, self._id, 0):
                self._tables.tidy(db)

    def count_of_run(self, run: str) -> int:
        """Return how many messages of a run `add_once` has added to the thread."""
        with self._tables.reading() as db:
            thread = self._tables.thread_number(db, self._id)
            return self._tables.run_message_count(db, thread, run)

    def newest_run(self) -> str | None:
        """Return the last run that added a message to the thread, as `add_once` names it."""
        with self._tables.reading() as db:
            return self._tables.newest_run(db, self._tables.thread_number(db, self._id))

    def set_aside_later(self, recorded: Callable[[str], tuple[int, int] | None]) -> int:
        """Set aside what the thread has and its runs do not, as after a restore of their journal.

        That is what a run has no record of, and what came after it, until a run goes on that has a
        record of it. No prompt and no search finds it then; `messages_set_aside` returns it.

        Args:
            recorded: of a run as `add_once` names it, returns how many messages its record has that
                the thread may have, and the number of its next one; None if it is unknown

        Returns:
            How many messages were set aside.

        Raises:
            MemoryFileError: the file cannot be written
        """
        with self._tables.writing(lock=self._tables.lock(self._id)) as db:
            if count := self._recall.set_aside_later(db, self._id, recorded):
                self._tables.tidy(db)
        return count

    def messages_set_aside(self) -> list[dict[str, Any]]:
        """Return the thread's messages that were set aside, the oldest first, until `forget`."""
        query = "SELECT item FROM set_aside WHERE thread = ? ORDER BY memory"
        with self._tables.reading() as db:
            rows = db.execute(query, (self._tables.thread_number(db, self._id),))
            return [self._tables.parse_item(text) for (text,) in rows]

    def prune(self, older_than: float | timedelta) -> list[str]:
        """Forget the threads to which nothing was added for so long, as `forget` does.

        Args:
            older_than: in seconds or as a timedelta

        Returns:
            Their ids, in the order in which they began.

        Raises:
            ConfigError: it is not a time from 0 on
            MemoryFileError: the file cannot be written
        """
        if isinstance(older_than, timedelta):
            older_than = older_than.total_seconds()
        check_seconds("older_than=", older_than, zero=True)
        cutoff, deleted = time.time() - older_than, list[str]()
        try:
            for id in self.threads():
                with self._tables.writing(lock=self._tables.lock(id)) as db:
                    query = "SELECT 1 FROM threads WHERE id = ? AND changed < ?"
                    if db.execute(query, (id, cutoff)).fetchone():
                        self._recall.forget_after(db, id, 0)
                        deleted.append(id)
        finally:  # also of those before one that cannot be forgotten, or of a prune that was killed
            with self._tables.writing() as db:
                self._tables.tidy(db)
        return deleted

    def compact(self) -> bool:
        """Write the file anew: smaller, and with nothing of what was forgotten.

        Others that write to it wait meanwhile, about a second for 100 MB. Return False if another
        process reads an older state of the file, which then stays beside it, in `-wal`.
        """
        with self._tables.writing() as db:
            self._tables.tidy(db)  # of a process that died in between
        return self._tables.rewrite()

    # -- an agent's state --------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the thread's length, as JSON data; its messages stay in the file."""
        with self._tables.reading() as db:
            count, newest = self._tables.extent(db, self._id, sys.maxsize)
        return {"thread": self._id, "messages": count, "newest": newest}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return the thread to a saved state: forget what was added since.

        Raises:
            StateError: `state` is no such state, or this file lacks the messages of then; nothing
                has changed
            MemoryFileError: the file cannot be used
        """
        keys = {"thread", "messages", "newest"}
        if not isinstance(state, dict) or state.keys() != keys or state["thread"] != self._id:
            raise StateError(f"this is not a state of thread {self._id!r} of {self._tables.name!r}")
        if type(newest := state["newest"]) is not int:
            raise StateError(f"the state of thread {self._id!r} is damaged: newest is {newest!r}")
        with self._tables.writing(lock=self._tables.lock(self._id)) as db:
            if self._tables.extent(db, self._id, newest) != (state["messages"], newest):
                raise StateError(
                    f"memory file {self._tables.name!r} does not hold what thread {self._id!r} had "
                    "when the state was saved: it is another file, or was forgotten meanwhile"
                )
            deleted = self._recall.forget_after(db, self._id, newest)
            if deleted:
                self._tables.tidy(db)
        if deleted:
            logger.warning(
                "memory file %r: thread %r forgot %d messages that came after the loaded state",
                *(self._tables.name, self._id, deleted),
            )

    # -- recall ------------------------------------------------------------------------------------

    def recall(
        self,
        text: str,
        limit: int = 5,
        *,
        by: RecallBy | None = None,
        everywhere: bool = False,
    ) -> list[dict[str, Any]]:
        """Return the messages most similar to a text, the most similar first.

        Args:
            text: any text; no character in it is special
            limit: the most messages to return
            by: `words`: messages with the most and the rarest of its words; `meaning`: messages
                with the nearest vectors; default: meaning if there is an embedder. Messages without
                a vector of this embedder get one first.
            everywhere: search in every thread of the file

        Raises:
            ConfigError: an argument is not one of its values
            DefinitionError: `by` is meaning without an embedder, or it returned no vectors
            MemoryFileError: the file cannot be read
        """
        if not isinstance(text, str):
            raise ConfigError(f"recall: text must be a text, got {text!r:.80}")
        check_integer("recall: limit=", limit, 0)
        if by not in (None, *RECALL_METHODS):
            methods = " or ".join(f'"{each}"' for each in RECALL_METHODS)
            raise ConfigError(f"recall: by= must be {methods}, got {by!r:.80}")
        if by is None:
            by = "words" if self._embedder is None else "meaning"
        limit = min(limit, sys.maxsize)
        thread_id = None if everywhere else self._id
        find = partial(RECALL_METHODS[by], self._recall, text, limit, thread_id)
        return tracing.search_in_span("memory", text, find)

    def embed(self, *, everywhere: bool = False) -> int:
        """Give every message of the thread a vector, and return how many had none.

        `recall` does so itself, but after many messages, or with another embedder, that takes a
        while; call this beforehand.

        Raises:
            DefinitionError: there is no embedder, or it returned no vectors
            MemoryFileError: the file cannot be used
        """
        return self._recall.embed(None if everywhere else self._id)

    # -- its end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the file, also for the memories of other threads that `thread` made.

        Nothing is lost without it: an unused memory is closed automatically, as are all at the
        process's end.
        """
        self._tables.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._tables.name!r}, {self._id!r})"
