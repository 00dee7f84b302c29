"""What is known of a conversation with a remote agent, and kept for the next process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from moothall import Memory

MAX_OBSERVED: Final = 100
_IDS_FIELD: Final = "a2a"
"""The field of a kept answer with the ids of its conversation and of the task that waits."""


@dataclass(slots=True)
class RemoteConversation:
    """What is known of one thread's conversation with the remote agent."""

    memory: Memory | None = None  # what keeps it for the next process
    context_id: str = ""  # the id that the server has given it
    task_id: str = ""  # a task of the server that waits for the next text
    observed_texts: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_OBSERVED))

    @classmethod
    def from_memory(cls, memory: Memory | None) -> Self:
        """Return the conversation that an earlier process has kept, or a new one."""
        for each in () if memory is None else reversed(memory.get_memories()):
            if isinstance(ids := each.get(_IDS_FIELD), list):
                return cls(memory, *ids)
        return cls(memory)

    def keep(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Keep a question and its answer, with the ids by which the next process goes on."""
        if self.memory is not None:
            question, answer = messages
            self.memory.add_memory({**question})
            self.memory.add_memory({**answer, _IDS_FIELD: [self.context_id, self.task_id]})
