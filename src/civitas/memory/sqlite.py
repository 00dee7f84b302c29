"""A memory in a file: it survives the process, and finds what it was told long ago."""

from __future__ import annotations

import copy
import heapq
import json
import math
import os
import re
import sqlite3
import sys
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter, mul
from typing import Any, Literal, Self

from civitas.errors import DefinitionError
from civitas.jsonvalue import copy_json, json_type
from civitas.memory.bounded import DEFAULT_TOKENS, TokenBoundedMemory
from civitas.memory.embedder import Embedder
from civitas.memory.file import MemoryFile, MemoryFileError
from civitas.memory.memory import Memory, last

__all__ = ["MemoryFileError", "SQLiteMemory", "found_text"]

FOUND_CHARS = 100_000
"""A message is found by its first so many characters."""
EMBEDDED_CHARS = 8_000
"""A message's meaning is that of its first so many characters."""
QUERY_WORDS = 64
"""More different words than these of a text say nothing more about what is looked for."""
_BEFORE = """
    SELECT number, item FROM memories
    WHERE thread = :thread AND number < :first AND role = 'system'
    UNION ALL
    SELECT * FROM (
        SELECT number, item FROM memories
        WHERE thread = :thread AND number < :first AND role = 'user'
        ORDER BY number DESC LIMIT 1
    )
    ORDER BY number DESC
"""
"""What is kept however old it is: system messages, and the last task."""
_BATCH = 256
_BATCH_CHARS = 4_000_000

# Scripts written without spaces, where a "word" of the index would be a whole sentence: each
# character is a word there, and a word of the query several in a row.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff])"
)
_WORD = re.compile(r"\w+")


class SQLiteMemory(Memory):
    """Remembers in a file, one conversation beside the other, and recalls by text or by meaning.

    What `add_memory` has returned for is kept, also if the process is killed the next moment; if
    the machine loses its power, the last seconds may be missing.

    `get_memories` gives what a `TokenBoundedMemory` would: the last messages of its thread that
    fit, whole calls with their results, system messages and the last task kept. Everything stays in
    the file; `recall` and `messages` find it there.

    One file may be used by several threads, event loops and processes at the same time. Calls block
    while SQLite works: some tenths of a millisecond for `add_memory` and `get_memories`, as a rule,
    and at most `timeout` for a file that another process has locked. `recall` looks at everything
    that might match, so with very many memories call it in a thread: `await
    asyncio.to_thread(memory.recall, text)`. The file belongs on a local disk.

    Args:
        path: the file; made if it is not there, in a folder that is
        thread: the conversation's id; another one does not see its messages
        tokens: how many tokens `get_memories` gives at the most; None for no bound
        count: how many tokens a text has; an estimate on the high side if left out
        embedder: for recall by meaning
        timeout: seconds to wait while another process holds the file locked

    Raises:
        DefinitionError: an argument is none of what it may be
        MemoryFileError: the file cannot be used; the text says why and what to do
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        thread: str = "default",
        *,
        tokens: int | None = DEFAULT_TOKENS,
        count: Callable[[str], int] | None = None,
        embedder: Embedder | None = None,
        timeout: float = 10,
    ) -> None:
        if tokens is not None:
            TokenBoundedMemory(tokens)  # refuses what is no bound
        if embedder is not None and not isinstance(embedder, Embedder):
            raise DefinitionError(
                f"embedder= has name, dimensions and embed(texts), which {embedder!r} has not"
            )
        self._tokens = tokens
        self._count = count
        self._embedder = embedder
        self._begin(thread)
        self._file = MemoryFile(path, timeout)

    def _begin(self, thread: str) -> None:
        """Look at a thread of which nothing is known yet."""
        if not isinstance(thread, str) or not thread:
            raise DefinitionError(f"a thread's id is a text of at least a character: {thread!r}")
        try:
            thread.encode()
        except UnicodeEncodeError as error:
            raise DefinitionError(f"a thread's id is text that UTF-8 can carry: {error}") from None
        self._id = thread
        self._lock = threading.Lock()  # of what follows
        self._window: TokenBoundedMemory | None = None
        self._seen = 0
        self._forgotten = 0

    # -- what every memory does --------------------------------------------------------------------

    @property
    def items(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """What `get_memories` gives; changing the list changes nothing here."""
        return self.get_memories()

    def add_memory(self, memory: dict[str, Any]) -> None:
        """Add a chat message. When this returns, it is in the file.

        Raises:
            TypeError: it is no dict
            NotJSON: something in it has no JSON form, or it has more than 16 MiB; it is not added
            MemoryFileError: the file cannot be written; it is not added
        """
        if not isinstance(memory, dict):
            raise TypeError(
                f'a memory is a chat message {{"role": …, "content": …}}, not {json_type(memory)}'
            )
        item = copy_json(memory, "memory")
        role = item.get("role")
        row = (role if isinstance(role, str) else None, json.dumps(item, ensure_ascii=False))
        found = found_text(item)
        with self._file.writing() as db:
            thread = _thread(db, self._id)
            if thread is None:
                thread = db.execute("INSERT INTO threads (id) VALUES (?)", (self._id,)).lastrowid
            number = db.execute(
                "INSERT INTO memories (thread, role, item) VALUES (?, ?, ?)", (thread, *row)
            ).lastrowid
            db.execute(
                "INSERT INTO words (rowid, thread, text) VALUES (?, ?, ?)",
                (number, f"t{thread}", found),
            )

    def get_memories(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The messages for a prompt: the last of the thread that fit, the oldest first.

        Args:
            limit: only the last so many of them

        Raises:
            ValueError: the limit is negative
            MemoryFileError: the file cannot be read
        """
        last([], limit)  # refuses what is no limit
        if self._tokens is None:
            return self._newest(limit)
        with self._lock:
            with self._file.reading() as db:
                window = self._caught_up(db)
            return [_copied(item) for item in last(window.items, limit)]

    def _newest(self, limit: int | None) -> list[dict[str, Any]]:
        with self._file.reading() as db:
            rows = db.execute(
                "SELECT item FROM memories WHERE thread = ? ORDER BY number DESC LIMIT ?",
                (_thread(db, self._id), -1 if limit is None else min(limit, sys.maxsize)),
            )
            items = [self._item(text) for (text,) in rows]
        items.reverse()
        return items

    def _caught_up(self, db: sqlite3.Connection) -> TokenBoundedMemory:
        """What is shown, with everything that anyone has added by now."""
        row = db.execute(
            "SELECT number, forgotten FROM threads WHERE id = ?", (self._id,)
        ).fetchone()
        thread, forgotten = row or (None, 0)
        # It stays unset should anything fail: half a window is none.
        window, self._window = self._window, None
        if window is None or forgotten != self._forgotten:
            window = self._loaded(db, thread)
            self._forgotten = forgotten
        else:
            for number, text in db.execute(
                "SELECT number, item FROM memories WHERE thread = ? AND number > ? ORDER BY number",
                (thread, self._seen),
            ):
                window.add_memory(self._item(text))
                self._seen = number
        self._window = window
        return window

    def _loaded(self, db: sqlite3.Connection, thread: int | None) -> TokenBoundedMemory:
        """The end of the thread, read backwards as far as it can matter, and no farther."""
        assert self._tokens is not None
        window = TokenBoundedMemory(self._tokens, self._count)
        rows: list[tuple[int, dict[str, Any]]] = []
        size = 0
        cursor = db.execute(
            "SELECT number, item FROM memories WHERE thread = ? ORDER BY number DESC", (thread,)
        )
        for number, text in cursor:
            item = self._item(text)
            rows.append((number, item))
            size += window._size(item)
            if size > self._tokens and item.get("role") != "tool":
                break
        cursor.close()
        if rows:
            first = rows[-1][0]
            before = db.execute(_BEFORE, {"thread": thread, "first": first})
            rows += [(number, self._item(text)) for number, text in before]
        for _, item in reversed(rows):
            window.add_memory(item)
        self._seen = rows[0][0] if rows else 0
        return window

    # -- threads -----------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The conversation's id."""
        return self._id

    def thread(self, id: str) -> Self:
        """The memory of another conversation in the same file, with the same settings.

        Raises:
            DefinitionError: the id is no text, or empty
        """
        other = copy.copy(self)
        other._begin(id)
        return other

    def threads(self) -> list[str]:
        """The ids of the conversations that have messages, in the order in which they began."""
        with self._file.reading() as db:
            rows = db.execute(
                "SELECT id FROM threads WHERE EXISTS "
                "(SELECT 1 FROM memories WHERE thread = threads.number) ORDER BY number"
            )
            return [id for (id,) in rows]

    def messages(self) -> Iterator[dict[str, Any]]:
        """Every message of the thread, the oldest first, however many there are."""
        number = 0
        while True:
            with self._file.reading() as db:
                rows = self._batch(db, _thread(db, self._id), number)
            if not rows:
                return
            for _, item in rows:
                yield item
            number = rows[-1][0]

    def forget(self) -> None:
        """Forget the thread: its messages, their words and vectors. Other threads stay.

        They are overwritten, and gone from the file once it has been closed by all who use it. With
        very many messages in the file it takes a while, during which nobody else can add.
        """
        with self._file.writing() as db:
            thread = _thread(db, self._id)
            if thread is None:
                return
            rows = db.execute("SELECT number, item FROM memories WHERE thread = ?", (thread,))
            db.executemany(
                "INSERT INTO words (words, rowid, thread, text) VALUES ('delete', ?, ?, ?)",
                ((n, f"t{thread}", found_text(self._item(text))) for n, text in rows),
            )
            # Until then the index has the words still, marked as deleted.
            db.execute("INSERT INTO words (words) VALUES ('optimize')")
            db.execute("DELETE FROM vectors WHERE thread = ?", (thread,))
            db.execute("DELETE FROM memories WHERE thread = ?", (thread,))
            db.execute("UPDATE threads SET forgotten = forgotten + 1 WHERE number = ?", (thread,))

    # -- recall ------------------------------------------------------------------------------------

    def recall(
        self,
        text: str,
        limit: int = 5,
        *,
        by: Literal["words", "meaning"] | None = None,
        everywhere: bool = False,
    ) -> list[dict[str, Any]]:
        """The messages that have most to do with a text, the nearest first.

        Args:
            text: any text; nothing in it has a special meaning
            limit: how many at the most
            by: `words`, those that have the most and the rarest of its words; `meaning`, those
                whose vectors are nearest; if left out, meaning where there is an embedder. Messages
                that have no vector of this embedder get one first.
            everywhere: in every thread of the file

        Raises:
            ValueError: the limit is negative, or `by` is none of these
            DefinitionError: by meaning, without an embedder; or the embedder gave no vectors
            MemoryFileError: the file cannot be read
        """
        if limit < 0:
            raise ValueError(f"limit is 0 or more, not {limit}")
        if by not in (None, "words", "meaning"):
            raise ValueError(f'by is "words" or "meaning", not {by!r}')
        if by is None:
            by = "words" if self._embedder is None else "meaning"
        limit = min(limit, sys.maxsize)
        if by == "words":
            return self._by_words(text, limit, everywhere)
        return self._by_meaning(text, limit, everywhere)

    def _by_words(self, text: str, limit: int, everywhere: bool) -> list[dict[str, Any]]:
        words = {term.lower(): term for term in _terms(text[:FOUND_CHARS])}
        # In quotes a word is a word, whatever it is: `NOT`, `near`, `text:`. It has none itself.
        query = " OR ".join(f'"{word}"' for word in list(words.values())[:QUERY_WORDS])
        if not query or not limit:
            return []
        with self._file.reading() as db:
            if not everywhere:
                thread = _thread(db, self._id)
                if thread is None:
                    return []
                query = f'thread:"t{thread}" AND text:({query})'
            else:
                query = f"text:({query})"
            rows = db.execute(
                "SELECT rowid FROM words WHERE words MATCH ? "
                "ORDER BY bm25(words, 0.0, 1.0), rowid DESC LIMIT ?",
                (query, limit),
            )
            return self._items(db, [number for (number,) in rows])

    def _by_meaning(self, text: str, limit: int, everywhere: bool) -> list[dict[str, Any]]:
        embedder = self._needed()
        (wanted,) = self._embedded(embedder, [_sendable(text[:EMBEDDED_CHARS])])
        if not limit or not any(wanted):
            return []
        self.embed(everywhere=everywhere)
        with self._file.reading() as db:
            scope: tuple[Any, ...] = (_embedder(db, embedder),)
            where = "embedder = ?"
            if not everywhere:
                where += " AND thread = ?"
                scope += (_thread(db, self._id),)
            rows = db.execute(f"SELECT memory, vector FROM vectors WHERE {where}", scope)
            best = heapq.nlargest(limit, self._scores(rows, wanted))
            return self._items(db, [number for score, number in best if score > 0])

    def embed(self, *, everywhere: bool = False) -> int:
        """Give every message of the thread a vector, and say how many had none.

        `recall` does so by itself; after many messages, or with another embedder, it takes a while,
        which is spent better beforehand.

        Raises:
            DefinitionError: there is no embedder, or it gave no vectors
            MemoryFileError: the file cannot be used
        """
        embedder = self._needed()
        added = 0
        for id in self.threads() if everywhere else [self._id]:
            while rows := self._embed_batch(embedder, id):
                added += rows
        return added

    def _embed_batch(self, embedder: Embedder, id: str) -> int:
        with self._file.reading() as db:
            thread = _thread(db, id)
            row = db.execute(
                "SELECT upto FROM embedded WHERE embedder = ? AND thread = ?",
                (_embedder(db, embedder), thread),
            ).fetchone()
            rows = self._batch(db, thread, row[0] if row else 0)
        if not rows:
            return 0
        # Nothing is locked meanwhile: it may take long.
        texts = [_text(item, EMBEDDED_CHARS) for _, item in rows]
        vectors = self._embedded(embedder, texts)
        with self._file.writing() as db:
            place = _embedder(db, embedder)
            if place is None:
                place = db.execute(
                    "INSERT INTO embedders (name, dimensions) VALUES (?, ?)",
                    (embedder.name, embedder.dimensions),
                ).lastrowid
            db.executemany(
                # What was forgotten, or embedded by somebody else, meanwhile, gets none.
                "INSERT OR IGNORE INTO vectors (embedder, thread, memory, vector) "
                "SELECT ?, thread, number, ? FROM memories WHERE number = ?",
                (
                    (place, _stored(vector), number)
                    for (number, _), vector in zip(rows, vectors, strict=True)
                    if any(vector)
                ),
            )
            db.execute(
                "INSERT INTO embedded (embedder, thread, upto) VALUES (?, ?, ?) "
                "ON CONFLICT DO UPDATE SET upto = max(upto, excluded.upto)",
                (place, thread, rows[-1][0]),
            )
        return len(rows)

    def _needed(self) -> Embedder:
        if self._embedder is None:
            raise DefinitionError(
                "recall by meaning needs an embedder: SQLiteMemory(…, embedder=HashEmbedder())"
            )
        return self._embedder

    def _embedded(self, embedder: Embedder, texts: list[str]) -> list[list[float]]:
        """What the embedder gives for texts, as vectors of length 1, or 0."""
        given = embedder.embed(texts)
        if not isinstance(given, Sequence) or len(given) != len(texts):
            raise DefinitionError(
                f"embedder {embedder.name!r} did not give one vector for each of {len(texts)} texts"
            )
        vectors = []
        for vector in given:
            if len(vector) != embedder.dimensions:
                raise DefinitionError(
                    f"embedder {embedder.name!r} gave a vector of {len(vector)} numbers, and says "
                    f"that it has {embedder.dimensions} dimensions"
                )
            length = math.hypot(*vector)
            if not math.isfinite(length):
                raise DefinitionError(
                    f"embedder {embedder.name!r} gave a vector with a number that is not finite"
                )
            vectors.append([value / length for value in vector] if length else [0.0] * len(vector))
        return vectors

    def _scores(
        self, rows: Iterator[tuple[int, bytes]], wanted: list[float]
    ) -> Iterator[tuple[float, int]]:
        """The cosine of each stored vector with the wanted one, and its memory's number."""
        size = 4 * len(wanted)
        places = [place for place, value in enumerate(wanted) if value]
        # A short text has few pieces, so with hashed vectors most products are of zero.
        sparse = 1 < len(places) < len(wanted) // 2
        pick = itemgetter(*places)
        weights = list(pick(wanted)) if sparse else wanted
        for number, blob in rows:
            if not isinstance(blob, bytes) or len(blob) != size:
                raise self._file.damaged(f"the vector of memory {number} is none")
            vector = array("f", blob)
            if sys.byteorder == "big":
                vector.byteswap()
            yield sum(map(mul, weights, pick(vector) if sparse else vector)), number

    # -- reading -----------------------------------------------------------------------------------

    def _batch(
        self, db: sqlite3.Connection, thread: int | None, after: int
    ) -> list[tuple[int, dict[str, Any]]]:
        """Some messages after a number: not many, and not much in all."""
        cursor = db.execute(
            "SELECT number, item FROM memories WHERE thread = ? AND number > ? ORDER BY number "
            "LIMIT ?",
            (thread, after, _BATCH),
        )
        rows = []
        size = 0
        for number, text in cursor:
            rows.append((number, self._item(text)))
            size += len(text)
            if size > _BATCH_CHARS:
                break
        cursor.close()
        return rows

    def _items(self, db: sqlite3.Connection, numbers: list[int]) -> list[dict[str, Any]]:
        items = []
        for number in numbers:
            row = db.execute("SELECT item FROM memories WHERE number = ?", (number,)).fetchone()
            if row is None:
                raise self._file.damaged(f"memory {number} is found, but is not there")
            items.append(self._item(row[0]))
        return items

    def _item(self, text: Any) -> dict[str, Any]:
        try:
            item = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise self._file.damaged(f"a memory cannot be read, {error}") from None
        if not isinstance(item, dict):
            raise self._file.damaged("a memory is no message")
        return item

    # -- its end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the file, also for the memories of other threads that `thread` made.

        Nothing is lost without: a memory that nobody uses any more is closed, and so is all when
        the process ends.
        """
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SQLiteMemory({self._file.name!r}, {self._id!r})"


def found_text(item: dict[str, Any]) -> str:
    """What a message is found by, with its words apart."""
    text = _text(item, FOUND_CHARS)
    return text if text.isascii() else _UNSPACED.sub(r" \1 ", text)


def _text(item: dict[str, Any], chars: int) -> str:
    """What a message says: its text, and the names and arguments of its calls."""
    parts = []
    content = item.get("content")
    if isinstance(content, str):
        parts.append(content)
    elif isinstance(content, list):
        # Of blocks only the text: the rest is pictures, in base64.
        blocks = (block for block in content if isinstance(block, dict))
        parts += [block["text"] for block in blocks if isinstance(block.get("text"), str)]
    calls = item.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            parts.append(str(call.get("name", "")))
            parts.append(json.dumps(call.get("args", ""), ensure_ascii=False))
    return _sendable(" ".join(parts)[:chars])


def _terms(text: str) -> Iterator[str]:
    """What to look for: words, and pairs of characters where there are no spaces between words."""
    for word in _WORD.findall(_sendable(text)):
        pieces = _UNSPACED.sub(r" \1 ", word).split()
        alone = [bool(_UNSPACED.fullmatch(piece)) for piece in pieces]
        for place, piece in enumerate(pieces):
            if not alone[place]:
                yield piece
            elif place + 1 < len(pieces) and alone[place + 1]:
                yield f"{piece} {pieces[place + 1]}"
            elif place == 0 or not alone[place - 1]:
                yield piece


def _sendable(text: str) -> str:
    """A text that UTF-8 can carry, to its end."""
    return text.encode("utf-8", "replace").decode().replace("\0", " ")


def _copied(item: dict[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = copy_json(item)
    return copied


def _stored(vector: list[float]) -> bytes:
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _thread(db: sqlite3.Connection, id: str) -> int | None:
    """A thread's number; None if nothing was added to it yet."""
    row = db.execute("SELECT number FROM threads WHERE id = ?", (id,)).fetchone()
    return None if row is None else int(row[0])


def _embedder(db: sqlite3.Connection, embedder: Embedder) -> int | None:
    row = db.execute(
        "SELECT number FROM embedders WHERE name = ? AND dimensions = ?",
        (embedder.name, embedder.dimensions),
    ).fetchone()
    return None if row is None else int(row[0])
