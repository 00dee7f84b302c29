"""The plain memory: a list of chat messages."""

from __future__ import annotations

import copy
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from sys import getrefcount
from typing import Any, Final, Protocol, Self, TypeAlias
from weakref import WeakValueDictionary

from moothall.actions.provenance.reading import add_sources_of
from moothall.foundation.arguments import check_integer, is_storable
from moothall.foundation.errors import ConfigError, StateError
from moothall.foundation.threads import guard

_MAX_THREADS: Final = 1000
"""An unused thread is forgotten when this many were used after it."""
_MAX_RUNS: Final = 10_000
"""For how many runs the number of added messages is kept; then the oldest is forgotten."""

_LONG_LIST: Final = 2000
"""From how many messages on a list that was returned is used again."""
_MAX_DROPPED: Final = 50
"""How many messages may have been dropped since, at its beginning."""

_LOCK: Final = guard()


class AnyMemory(Protocol):
    """What an agent needs of a memory; one with `thread(id)` serves several threads."""

    def add_memory(self, memory: dict[str, Any], /) -> object:
        """Add a chat message."""

    def get_memories(self) -> list[dict[str, Any]]:
        """Return the messages for a prompt, the oldest first."""
        ...


MemoryPart: TypeAlias = AnyMemory | Callable[[str | None], AnyMemory] | str | os.PathLike[str]
"""What `memory=` takes: a memory, a function of a thread's id, or the path or URL of one."""


class Memory:
    """Remembers every chat message that is added, without a bound.

    A subclass may store and select messages differently: users of a memory call `add_memory`, and
    `get_memories` before each prompt.

    `thread` and `add_once` are optional, since they use this class's list only: a subclass that
    overrides `add_memory` or `get_memories` loses both (as a class that defines `__eq__` loses
    `__hash__`), unless it defines them too. If it stores only that list, it may take them over:
    `thread = Memory.thread`. A memory without `thread` serves one thread; one without
    `add_once` is given a run's messages again by a later process that is asked for the run.
    """

    is_in_file: bool = False
    """Whether its messages stay in a file."""
    # Class attributes, and no look into `__dict__`, which makes Python 3.11 read an object slower.
    run_offsets: dict[str, int] | None = None  # how many messages of each run were added
    _threads: _ThreadMemories | None = None
    _first_items: dict[str, dict[str, Any]] | None = None  # of each run; dropped ones may be in it
    _dropped_firsts: tuple[str, ...] = ()  # the runs whose first messages were dropped
    _original: Memory | None = None  # of the view of a fork: the memory of its thread
    _returned_list: list[dict[str, Any]] | None = None  # the last long one of `get_memories`
    only_grows: bool = True
    """Whether new messages come only at the end of what `get_memories` returns."""

    def __init__(self) -> None:
        self.start_empty()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        class_members = cls.__dict__
        if "add_memory" in class_members or "get_memories" in class_members:
            for name in ("add_once", "thread", "view_of_fork"):
                if name not in class_members:
                    setattr(cls, name, None)
            cls.only_grows = class_members.get("only_grows", False)

    def start_empty(self) -> None:
        """Hold nothing; a copy calls it, too, to share nothing with its original."""
        self._items: list[dict[str, Any]] = []
        self.run_offsets = self._returned_list = self._first_items = None
        self._dropped_firsts = ()

    @property
    def items(self) -> list[dict[str, Any]]:
        """The messages, the oldest first."""
        add_sources_of(self._items)
        return self._items

    @items.setter
    def items(self, messages: list[dict[str, Any]]) -> None:
        self._items = messages
        self._first_items, self._dropped_firsts = None, ()

    @property
    def raw_items(self) -> list[dict[str, Any]]:
        """The messages for its own work: an action that looks at them has not read them."""
        return self._items

    def add_memory(self, memory: dict[str, Any]) -> None:
        """Add a chat message, `{"role": …, "content": …}`.

        Raises:
            ConfigError: the message is not a dict
        """
        if type(memory) is not dict:
            check_memory(memory)
        self._items.append(memory)

    def add_once(self, memory: dict[str, Any], run: str, sequence: int) -> None:
        """Add a message of a run with a journal, unless it was added before.

        Args:
            memory: the message
            run: the key of the run, or of a part of it
            sequence: the message's number in the run, from 0; all before it have been added
        """
        if self.run_offsets is None:
            self.run_offsets = {}
        offsets = self.run_offsets
        if run not in offsets or -sequence <= offsets[run] <= sequence:
            self.add_memory(memory)
            if run not in offsets:
                self._note_first(run)
            if self._original is not None:
                self._original.add_once(memory, run, sequence)
            offsets.pop(run, None)  # the last one that was told of stands last
            offsets[run] = sequence + 1
            if len(offsets) > _MAX_RUNS:
                del offsets[next(iter(offsets))]

    def _note_first(self, run: str) -> None:
        """Keep the last message as a run's first, and drop those that are no longer there."""
        first_items = self._first_items or {}
        if len(first_items) > len(self._items):
            ids = set(map(id, self._items))
            dropped_runs = (key for key, each in first_items.items() if id(each) not in ids)
            self._dropped_firsts = (*self._dropped_firsts, *dropped_runs)[-_MAX_RUNS:]
            first_items = {key: each for key, each in first_items.items() if id(each) in ids}
        if self._items:  # else a subclass keeps them elsewhere
            first_items[run] = self._items[-1]
        self._first_items = first_items

    def view_of_fork(
        self,
        runs: Sequence[str],
        copied: Mapping[str, int],
        fork: str,
        other_runs: Sequence[str] = (),
    ) -> Self:
        """Return the memory as a fork of a run sees it: up to what it has copied, and its own.

        What the run itself has added is left out, if the memory is not in a file: the fork adds it.

        Args:
            runs: the runs that it copies, the first one first: how the keys of their parts begin
            copied: how many messages of each part it copies, by the part's key
            fork: how the keys of its own parts begin
            other_runs: later runs that it sees, too
        """
        runs_by_id = {id(each): run for run, each in (self._first_items or {}).items()}
        shown_runs = [runs_by_id.get(id(item), "") for item in self._items]
        view, is_shown = self, True
        started_runs = (*(self._first_items or ()), *self._dropped_firsts)
        # If its beginning is dropped or summarised, so is what was before.
        if any(run.startswith(runs[0]) for run in started_runs) and not any(
            run.startswith(runs[0]) for run in shown_runs
        ):
            view, is_shown = self._begin_view(0), False
        for index, (item, run) in enumerate(zip(self._items, shown_runs, strict=True)):
            if view is self and run.startswith(runs[0]):
                view = self._begin_view(index)
            if run:
                is_shown = run.startswith((*other_runs,))
            if view is not self and is_shown:
                view.add_memory(item)
        return view

    def _begin_view(self, index: int) -> Self:
        """Return a new memory with the messages before a place, for the view of a fork."""
        view = self._new_copy()
        for each in self._items[:index]:
            view.add_memory(each)
        view._original = self
        return view

    def take_cleared(self) -> list[int]:
        """Return which results were cleared since the last time, by their numbers."""
        return []

    def make_room(self) -> bool:
        """Show less, since a model has refused so much; return whether there was anything."""
        return False

    def end_run(self, key: str) -> None:
        """Leave the run with this key out of states: it will not be resumed."""
        offsets = self.run_offsets or {}
        for run in reversed(offsets):
            if not run.startswith(key):
                break
            offsets[run] = -abs(offsets[run])

    def runs_state(self) -> dict[str, dict[str, int]]:
        """Return how many messages of runs that may be resumed were added, for a state."""
        offsets = self.run_offsets or {}
        open_runs = {run: count for run, count in offsets.items() if count > 0}
        return {"told": open_runs} if open_runs else {}

    def load_runs_state(self, state: dict[str, Any]) -> None:
        """Take how much of each run was remembered."""
        offsets = state.get("told", {})
        if not isinstance(offsets, dict) or not all(type(each) is int for each in offsets.values()):
            raise StateError(
                "the state of a memory is damaged: `told` must be a dict of whole numbers by run, "
                f"got {offsets!r:.80}; load one that state_dict() gave"
            )
        self.run_offsets = offsets.copy()
        self._first_items, self._dropped_firsts = None, ()

    def get_memories(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the messages for a prompt, the oldest first, in a new list.

        Args:
            limit: return only this many, the last ones

        Raises:
            ConfigError: the limit is not a whole number from 0 up
        """
        items = self._items
        add_sources_of(items)
        if limit is not None:
            return Memory.last_of(items, limit)
        if len(items) < _LONG_LIST:
            return items[:]
        return self._reuse_copy()

    def _reuse_copy(self) -> list[dict[str, Any]]:
        """Return the messages in the list that was returned last, if nobody else has that now."""
        # To copy thousands for each prompt takes longer than the rest of a turn. Two references are
        # the memory's and the argument of `getrefcount`.
        items = self._items
        if self._returned_list is not None and getrefcount(self._returned_list) == 2:
            returned_list = self._returned_list
            for dropped_count, each in enumerate(islice(returned_list, _MAX_DROPPED)):
                if each is items[0]:
                    del returned_list[:dropped_count]
                    returned_list += items[len(returned_list) :]
                    # Else whoever had it has changed it, or the memory more than its two ends.
                    if returned_list == items:
                        return returned_list
                    break
        self._returned_list = copied = items[:]
        return copied

    def thread(self, id: str | None) -> Self:
        """Return the memory of one conversation, of the same kind and with the same settings.

        The same id returns the same memory. A thousand are kept, plus those in use; of the others
        the least recently used is forgotten.

        Args:
            id: any text; None is this memory itself, as replies without `thread=` use it

        Raises:
            ConfigError: the id is not a text, or empty
        """
        if id is None:
            return self
        check_thread(id)
        with _LOCK:  # several OS threads may be here at once
            threads = self._threads = self._threads or _ThreadMemories()
        memory: Self = threads.get(id, self._new_copy)
        return memory

    def forget_thread(self, id: str) -> None:
        """Make `thread(id)` return an empty memory from now on; a file's contents stay."""
        if self._threads is not None:
            self._threads.forget(id)

    def _new_copy(self) -> Self:
        other = copy.copy(self)
        other.start_empty()
        return other

    # -- of any memory -----------------------------------------------------------------------------

    @staticmethod
    def last_of(items: list[dict[str, Any]], limit: int | None) -> list[dict[str, Any]]:
        """Return a copy of the list, or of its last `limit` items."""
        if limit is None:
            return items[:]
        check_integer("get_memories: limit=", limit, 0)
        return items[len(items) - limit :] if limit < len(items) else items[:]

    @staticmethod
    def state_of(memory: Any) -> dict[str, Any]:
        """Return the state of a memory: by its `state_dict` if it has one, else its items."""
        dump_state: Any = getattr(memory, "state_dict", None)
        if callable(dump_state):
            saved: dict[str, Any] = dump_state()
            return saved
        runs_state = memory.runs_state() if isinstance(memory, Memory) else {}
        return {"items": memory.get_memories(), **runs_state}

    @staticmethod
    def check_state(memory: Any, saved: Any, agent: Any) -> None:
        """Refuse a state that such a memory cannot take; one with a loader checks itself."""
        if callable(getattr(memory, "load_state_dict", None)):
            return
        items = saved.get("items") if isinstance(saved, dict) else None
        if not isinstance(items, list) or not all(
            isinstance(item, dict) and isinstance(item.get("role"), str) for item in items
        ):
            raise StateError(
                f"agent {agent!r}: the state of its memory is not a list of chat messages"
            )
        Memory().load_runs_state(saved)

    @staticmethod
    def restore(memory: Any, saved: Any, agent: Any) -> None:
        """Replace the content of a memory by a saved state."""
        load_state: Any = getattr(memory, "load_state_dict", None)
        if callable(load_state):
            load_state(saved)
            return
        Memory.check_state(memory, saved, agent)
        if isinstance(memory, Memory):
            memory.load_runs_state(saved)
        items: Any = getattr(memory, "items", None)
        if isinstance(items, list):
            items.clear()
        if memory.get_memories():
            raise StateError(
                f"agent {agent!r}: its {type(memory).__name__} keeps what it has and has no "
                "load_state_dict: load into an agent with a new memory"
            )
        for item in saved["items"]:
            memory.add_memory(item)


class _ThreadMemories:
    """The memories of threads, by id."""

    def __init__(self) -> None:
        self._lock = guard()
        self._recent_memories: OrderedDict[str, Memory] = OrderedDict()
        self._used_memories: WeakValueDictionary[str, Memory] = WeakValueDictionary()

    def get(self, id: str, make: Callable[[], Memory]) -> Any:
        with self._lock:
            memory = self._used_memories.get(id)
            if memory is None:
                memory = self._used_memories.setdefault(id, make())
            self._recent_memories.pop(id, None)
            self._recent_memories[id] = memory
            # A forgotten memory is freed when nothing uses it any more.
            if len(self._recent_memories) > _MAX_THREADS:
                self._recent_memories.popitem(last=False)
            return memory

    def forget(self, id: str) -> None:
        with self._lock:
            self._recent_memories.pop(id, None)
            self._used_memories.pop(id, None)


def check_thread(id: object) -> None:
    """Raise unless the value can be a thread's id."""
    if not isinstance(id, str) or not id or not is_storable(id):
        raise ConfigError(
            f"a thread's id must be a text of at least 1 character without NUL, got {id!r:.80}"
        )


def check_memory(memory: object) -> None:
    """Raise unless the value can be a chat message."""
    if not isinstance(memory, dict):
        raise ConfigError(
            f'a memory is a chat message {{"role": …, "content": …}}, not {type(memory).__name__}'
        )


def check_memories(memories: object) -> None:
    """Raise unless the value can be the messages of a prompt."""
    if type(memories) is not list and not isinstance(memories, list):
        type_name = type(memories).__name__
        raise ConfigError(f"get_memories must give a list of chat messages, got {type_name}")
    for memory in memories:
        if type(memory) is not dict:
            check_memory(memory)
        if "role" not in memory:
            raise ConfigError(f"a chat message of get_memories has no role: {memory!r:.80}")
