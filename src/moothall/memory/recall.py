"""Recall: storing messages with their words, and finding them by words or by meaning."""

from __future__ import annotations

import heapq
import json
import math
import time
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from operator import itemgetter, mul
from typing import Any, Final, Literal, TypeAlias

from moothall.foundation.database import Database
from moothall.foundation.errors import DefinitionError
from moothall.foundation.jsonvalue import copy_json
from moothall.foundation.sqlite.fulltext import storable
from moothall.memory.embedder import Embedder
from moothall.memory.memory import check_memory
from moothall.memory.memory_tables import MemoryTables

SEARCHED_CHARS = 100_000
"""How many characters of a message, from its start, are searched."""
EMBEDDED_CHARS = 8_000
"""How many characters of a message, from its start, are embedded."""
_FORGET_QUERY = "UPDATE threads SET forgotten = forgotten + 1 WHERE number = ?"


RecallBy: TypeAlias = Literal["words", "meaning"]


class Recall:
    """Finds the messages of a memory file: of one thread, or of all if its id is None."""

    def __init__(self, tables: MemoryTables, embedder: Embedder | None) -> None:
        self._tables = tables
        self._embedder = embedder

    def by_words(self, text: str, limit: int, thread_id: str | None) -> list[dict[str, Any]]:
        """Return the messages that have the most and the rarest of a text's words."""
        with self._tables.reading() as db:
            thread_number = None if thread_id is None else self._tables.thread_number(db, thread_id)
            if thread_id is not None and thread_number is None:
                return []
            matches = self._tables.search_words(db, text[:SEARCHED_CHARS], thread_number, limit)
            return self._tables.items_of(db, matches)

    def by_meaning(self, text: str, limit: int, thread_id: str | None) -> list[dict[str, Any]]:
        """Return the messages whose vectors are nearest to a text's."""
        embedder = self._required_embedder()
        (target,) = self._embed_texts(embedder, [storable(text[:EMBEDDED_CHARS])])
        if not any(target):
            return []
        self.embed(thread_id)
        with self._tables.reading() as db:
            values: tuple[Any, ...] = (_embedder_number(db, embedder),)
            condition = "embedder = ?"
            if thread_id is not None:
                condition += " AND thread = ?"
                values += (self._tables.thread_number(db, thread_id),)
            rows = db.execute(f"SELECT memory, vector FROM vectors WHERE {condition}", values)
            best = heapq.nlargest(limit, self._scores(rows, target))
            return self._tables.items_of(db, [number for score, number in best if score > 0])

    def embed(self, thread_id: str | None) -> int:
        """Give every message a vector, and return how many had none."""
        embedder = self._required_embedder()
        added = 0
        for each in self._tables.thread_ids() if thread_id is None else [thread_id]:
            while count := self._embed_batch(embedder, each):
                added += count
        return added

    def _embed_batch(self, embedder: Embedder, thread_id: str) -> int:
        with self._tables.reading() as db:
            thread_number = self._tables.thread_number(db, thread_id)
            row = db.execute(
                "SELECT upto FROM embedded WHERE embedder = ? AND thread = ?",
                (_embedder_number(db, embedder), thread_number),
            ).fetchone()
            rows = self._tables.batch_after(db, thread_number, row[0] if row else 0)
        if not rows:
            return 0
        # Nothing is locked meanwhile, since embedding may take long.
        texts = [_item_text(item, EMBEDDED_CHARS) for _, item in rows]
        vectors = self._embed_texts(embedder, texts)
        with self._tables.writing(lock=self._tables.lock(thread_id)) as db:
            if _embedder_number(db, embedder) is None:
                db.execute(
                    "INSERT INTO embedders (name, dimensions) VALUES (?, ?) ON CONFLICT DO NOTHING",
                    (embedder.name, embedder.dimensions),
                )
            embedder_number = _embedder_number(db, embedder)
            db.executemany(
                # Skip messages that were forgotten, or embedded elsewhere, meanwhile.
                "INSERT INTO vectors (embedder, thread, memory, vector) "
                "SELECT ?, thread, number, ? FROM memories WHERE number = ? ON CONFLICT DO NOTHING",
                (
                    (embedder_number, array("f", vector).tobytes(), number)
                    for (number, _), vector in zip(rows, vectors, strict=True)
                    if any(vector)
                ),
            )
            db.execute(
                "INSERT INTO embedded (embedder, thread, upto) VALUES (?, ?, ?) "
                "ON CONFLICT (embedder, thread) DO UPDATE SET upto = "
                "CASE WHEN excluded.upto > embedded.upto THEN excluded.upto ELSE embedded.upto END",
                (embedder_number, thread_number, rows[-1][0]),
            )
        return len(rows)

    def forget_after(self, db: Database, thread_id: str, number: int) -> int:
        """Forget a thread's messages after a number; return how many they were."""
        thread_number = self._tables.thread_number(db, thread_id)
        thread_and_number = (thread_number, number)
        if thread_number is None:
            return 0
        rows = db.execute(
            "SELECT number, item FROM memories WHERE thread = ? AND number > ?", thread_and_number
        )
        texts = ((each, search_text(self._tables.parse_item(text))) for each, text in rows)
        self._tables.remove_words(db, thread_number, texts)
        self._tables.lower_run_message_counts(db, thread_number, number)
        for table in ("vectors", "set_aside"):
            db.execute(f"DELETE FROM {table} WHERE thread = ? AND memory > ?", thread_and_number)
        deleted = db.execute(
            "DELETE FROM memories WHERE thread = ? AND number > ?", thread_and_number
        ).rowcount
        if deleted:
            db.execute(_FORGET_QUERY, (thread_number,))
        return deleted

    def set_aside_later(
        self, db: Database, thread_id: str, recorded: Callable[[str], tuple[int, int] | None]
    ) -> int:
        """Set aside what a thread has and its runs do not; return how many messages that is."""
        thread_number = self._tables.thread_number(db, thread_id)
        query = "SELECT number, run FROM memories WHERE thread = ? ORDER BY number"
        counts, recorded_counts, later = Counter[str](), dict[str, Any](), dict[int, str | None]()
        is_later = False
        for number, run in db.execute(query, (thread_number,)).fetchall():
            if run is not None and run not in recorded_counts:
                recorded_counts[run] = recorded(run)
            if run is not None and recorded_counts[run] is not None:
                counts[run] += 1
                is_later = counts[run] > recorded_counts[run][0]  # else it went on since
            if is_later:  # of no run, or of an unknown one, if it came after one that is
                later[number] = run
        if thread_number is not None and later:
            self._set_aside(db, thread_number, [*later])
            for run in {each for each in later.values() if each is not None}:
                following = (recorded_counts[run] or (0, 0))[1]
                self._tables.set_run_message_count(db, thread_number, run, following)
        return len(later)

    def _set_aside(self, db: Database, thread_number: int, numbers: Collection[int]) -> None:
        """Keep messages of a thread where no prompt and no search finds them."""
        rows = [(number,) for number in numbers]
        texts = [
            (number, search_text(item))
            for number, item in zip(numbers, self._tables.items_of(db, [*numbers]), strict=True)
        ]
        now = time.time()
        db.executemany(
            "INSERT INTO set_aside (memory, thread, item, run, at) "
            "SELECT number, thread, item, run, ? FROM memories WHERE number = ?",
            ((now, number) for number in numbers),
        )
        self._tables.remove_words(db, thread_number, texts)
        db.executemany("DELETE FROM vectors WHERE memory = ?", rows)
        db.executemany("DELETE FROM memories WHERE number = ?", rows)
        db.execute(_FORGET_QUERY, (thread_number,))

    def _required_embedder(self) -> Embedder:
        if self._embedder is None:
            raise DefinitionError(
                "recall by meaning needs an embedder: give the memory embedder=HashEmbedder()"
            )
        return self._embedder

    def _embed_texts(self, embedder: Embedder, texts: list[str]) -> list[list[float]]:
        """Return the embedder's vectors for texts, scaled to length 1, or 0."""
        raw_vectors: Any = embedder.embed(texts)
        # Arrays of numpy are collections, and no sequences.
        if (
            not isinstance(raw_vectors, Collection)
            or len(raw_vectors) != len(texts)
            or not all(isinstance(each, Collection) for each in raw_vectors)
        ):
            raise DefinitionError(
                f"embedder {embedder.name!r} did not give one vector for each of {len(texts)} texts"
            )
        vectors = []
        for vector in raw_vectors:
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
            vectors.append([float(value) / (length or 1) for value in vector])
        return vectors

    def _scores(
        self, rows: Iterable[tuple[int, bytes]], target: list[float]
    ) -> Iterator[tuple[float, int]]:
        """Return the cosine of each stored vector with the wanted one, and its memory's number."""
        size = 4 * len(target)
        indexes = [index for index, value in enumerate(target) if value]
        # A short text has few pieces, so in hashed vectors most components are zero.
        is_sparse = 1 < len(indexes) < len(target) // 2
        pick = itemgetter(*indexes)
        weights = list(pick(target)) if is_sparse else target
        for number, blob in rows:
            if not isinstance(blob, bytes) or len(blob) != size:
                raise self._tables.damaged(f"the vector of memory {number} has another size")
            vector = array("f", blob)
            yield sum(map(mul, weights, pick(vector) if is_sparse else vector)), number


RECALL_METHODS: Final[
    dict[RecallBy, Callable[[Recall, str, int, str | None], list[dict[str, Any]]]]
] = {"words": Recall.by_words, "meaning": Recall.by_meaning}


def row_of(memory: Any) -> tuple[dict[str, Any], str | None, str, str]:
    """Return a copy of a message, its role, its JSON text, and the text that it is found by."""
    check_memory(memory)
    item = copy_json(memory, "memory")
    role = item.get("role")
    text = json.dumps(item, ensure_ascii=False)
    return item, role if isinstance(role, str) else None, text, search_text(item)


def search_text(item: dict[str, Any]) -> str:
    """Return the text by which a message is found."""
    return _item_text(item, SEARCHED_CHARS)


def _item_text(item: dict[str, Any], chars: int) -> str:
    """Return a message's text, and the names and arguments of its calls."""
    parts = []
    content = item.get("content")
    if isinstance(content, str):
        parts.append(content)
    elif isinstance(content, list):
        # Only the text of blocks: the rest is images, in base64.
        blocks = (block for block in content if isinstance(block, dict))
        parts += [block["text"] for block in blocks if isinstance(block.get("text"), str)]
    calls = item.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            parts.append(str(call.get("name", "")))
            parts.append(json.dumps(call.get("args", ""), ensure_ascii=False))
    return storable(" ".join(parts)[:chars])


def _embedder_number(db: Database, embedder: Embedder) -> int | None:
    row = db.execute(
        "SELECT number FROM embedders WHERE name = ? AND dimensions = ?",
        (embedder.name, embedder.dimensions),
    ).fetchone()
    return None if row is None else int(row[0])
