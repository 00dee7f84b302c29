"""The plain memory: a list of chat messages."""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Self
from weakref import WeakValueDictionary

from civitas.errors import DefinitionError

_MOST_THREADS: Final = 1000
"""An unused thread is forgotten when so many were used after it."""
_MOST_RUNS: Final = 10_000
"""Of so many runs it is known how far each was told; then of the oldest no more."""


class Memory:
    """Remembers every chat message it is given, without a bound.

    A subclass may store and choose otherwise: whoever uses a memory calls `add_memory` and
    `get_memories`, and asks anew before each prompt.

    `thread` and `add_once` are optional, for they know this class's list only: a subclass that
    overrides `add_memory` or `get_memories` has neither (as a class that defines `__eq__` has no
    `__hash__`), unless it defines them too. Where that list is still all that it stores, it may
    take them over: `thread = Memory.thread`. A memory without `thread` serves one thread; what one
    without `add_once` was told of a run, the run's record says.

    Attributes:
        items: the messages, the oldest first
    """

    def __init__(self) -> None:
        self._start_empty()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = cls.__dict__
        if "add_memory" in own or "get_memories" in own:
            for name in ("add_once", "thread"):
                if name not in own:
                    setattr(cls, name, None)

    def _start_empty(self) -> None:
        """Hold nothing; also in a copy, which is to share nothing with what it is a copy of."""
        self.items: list[dict[str, Any]] = []
        self.__dict__.pop("_told", None)

    def add_memory(self, memory: dict[str, Any]) -> None:
        """Add a chat message, `{"role": …, "content": …}`."""
        self.items.append(memory)

    def add_once(self, memory: dict[str, Any], run: str, sequence: int) -> None:
        """Add a message of a run that is recorded in a journal, unless it was added before.

        Args:
            memory: the message
            run: the key of the run, or of a part of it
            sequence: which of its messages it is, from 0; all before it have been added
        """
        told: dict[str, int] = self.__dict__.setdefault("_told", {})
        if told.get(run, 0) <= sequence:
            self.add_memory(memory)
            told.pop(run, None)
            told[run] = sequence + 1
            if len(told) > _MOST_RUNS:
                del told[next(iter(told))]

    def get_memories(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The messages for a prompt, the oldest first, in a list of the caller's own.

        Args:
            limit: only the last so many

        Raises:
            ValueError: the limit is negative
        """
        return last(self.items, limit)

    def thread(self, id: str) -> Self:
        """The memory of one conversation, of the same kind and with the same settings.

        The same id gives the same memory. A thousand are kept, and those that are in use; of the
        others the one used longest ago is forgotten.

        Args:
            id: any text

        Raises:
            DefinitionError: the id is no text, or empty
        """
        check_thread(id)
        threads: _Threads = self.__dict__.setdefault("_threads", _Threads())
        memory: Self = threads.get(id, self._another)
        return memory

    def _forget_thread(self, id: str) -> None:
        """Have `thread(id)` give an empty memory from now on; what is in a file stays there."""
        threads: _Threads | None = self.__dict__.get("_threads")
        if threads is not None:
            threads.forget(id)

    def _another(self) -> Memory:
        other = copy.copy(self)
        other._start_empty()
        return other


class _Threads:
    """The memories of threads, by id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: OrderedDict[str, Memory] = OrderedDict()
        self._used: WeakValueDictionary[str, Memory] = WeakValueDictionary()

    def get(self, id: str, make: Callable[[], Memory]) -> Any:
        with self._lock:
            memory = self._used.get(id)
            if memory is None:
                memory = self._used[id] = make()
            self._recent[id] = memory
            self._recent.move_to_end(id)
            # One that is forgotten goes when nothing uses it any more.
            if len(self._recent) > _MOST_THREADS:
                self._recent.popitem(last=False)
            return memory

    def forget(self, id: str) -> None:
        with self._lock:
            self._recent.pop(id, None)
            self._used.pop(id, None)


def check_thread(id: object) -> None:
    """Refuse what cannot be a thread's id."""
    if not isinstance(id, str) or not id:
        raise DefinitionError(f"a thread's id is a text of at least a character: {id!r}")


def last(items: list[dict[str, Any]], limit: int | None) -> list[dict[str, Any]]:
    """A copy of the list, or of its last `limit` items."""
    if limit is None:
        return items[:]
    if limit < 0:
        raise ValueError(f"limit must be 0 or more, got {limit}")
    return items[len(items) - limit :] if limit < len(items) else items[:]
