"""A memory: a shelf for each thread, in this process."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from moothall import ConfigError
from moothall.build import check_text


class Shelf:
    """Remembers messages, those of each thread apart."""

    is_in_file = False

    def __init__(self) -> None:
        self._id: str | None = None
        self._lock = threading.Lock()
        self._shelves: dict[str | None, list[dict[str, Any]]] = {}
        self._noted: set[tuple[str | None, str, int]] = set()
        self._forgotten: Counter[str | None] = Counter()

    def thread(self, id: str | None) -> Shelf:
        """Return the memory of a thread."""
        if id is None:
            return self
        check_text("a thread's id", id)
        other = Shelf()
        other._id, other._lock = id, self._lock
        other._shelves, other._noted = self._shelves, self._noted
        other._forgotten = self._forgotten
        return other

    def add_memory(self, memory: dict[str, Any]) -> None:
        """Put a message on the shelf."""
        with self._lock:
            self._shelves.setdefault(self._id, []).append(dict(memory))

    def add_once(self, memory: dict[str, Any], run: str, place: int) -> None:
        """Put a message of a run on the shelf, unless it has been put there."""
        with self._lock:
            if (self._id, run, place) not in self._noted:
                self._noted.add((self._id, run, place))
                self._shelves.setdefault(self._id, []).append(dict(memory))

    def get_memories(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the last messages, or all."""
        if limit is not None and limit < 0:
            raise ConfigError(f"limit= must be 0 or more, got {limit}")
        with self._lock:
            items = self._shelves.get(self._id, [])
            return items[max(len(items) - limit, 0) :] if limit is not None else [*items]

    def forget_thread(self, id: str) -> None:
        """Clear the shelf of a thread; what a waiting run had there comes again."""
        with self._lock:
            self._shelves.pop(id, None)
            self._noted -= {each for each in self._noted if each[0] == id}
            self._forgotten[id] += 1

    @property
    def forgettings(self) -> int:
        """How often this thread was forgotten: a reply under way then shows what it said itself."""
        return self._forgotten[self._id]
