"""The memory of each conversation of an agent."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final

from civitas.errors import DefinitionError
from civitas.memory.memory import Memory

__all__ = ["MAX_THREADS", "Memories", "thread_of"]

MAX_THREADS: Final = 1000
"""How many conversations an agent without a memory of its own remembers."""


class Memories:
    """A memory for each thread; with more than so many, the one used longest ago is forgotten.

    Args:
        make: makes the memory of a new thread
        most: how many there may be
    """

    __slots__ = ("_by_thread", "_make", "_most")

    def __init__(self, make: Callable[[], Memory], most: int = MAX_THREADS) -> None:
        self._make = make
        self._most = most
        self._by_thread: OrderedDict[str, Memory] = OrderedDict()

    def get(self, thread: str) -> Memory:
        """The memory of a thread."""
        memory = self._by_thread.get(thread)
        if memory is None:
            memory = self._by_thread[thread] = self._make()
            if len(self._by_thread) > self._most:
                self._by_thread.popitem(last=False)
        else:
            self._by_thread.move_to_end(thread)
        return memory

    def __iter__(self) -> Iterator[tuple[str, Memory]]:
        """The threads and their memories, the one used longest ago first."""
        return iter(list(self._by_thread.items()))


def thread_of(memory: Memory, thread: str, agent: Any) -> Memory:
    """The part of a memory that belongs to a thread.

    Raises:
        DefinitionError: the memory has no threads
    """
    select: Any = getattr(memory, "thread", None)
    if not callable(select):
        raise DefinitionError(
            f"agent {agent!r}: thread= needs a memory with threads, such as SQLiteMemory, or none "
            f"given at all; {type(memory).__name__} has no thread(id)"
        )
    selected: Memory = select(thread)
    return selected
