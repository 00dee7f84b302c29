"""Checks of what an agent is made of: its model, memory and actions, and a group's participants."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import copy
from typing import Any, Final, Protocol, Self

from moothall.actions import Action
from moothall.actions.message import address
from moothall.foundation.arguments import check_function, is_async
from moothall.foundation.errors import ConfigError, DefinitionError

_KEPT_FROM_COPIES: Final = (
    *("own_threads", "space_mailbox", "resuming", "budget", "_own_budget"),
    *("_memory", "_journal", "_watchers"),
)
"""What a copy of an agent does not have of it: its own conversations, books and watchers."""


class Replier:
    """What replying agents know of one another; an agent of another kind has none of it."""

    is_recorded: bool = False
    """Whether its replies can be recorded."""

    def stand_in(self) -> Self:
        """Return a copy that replies in its place, and leaves nothing behind in what it has."""
        twin = copy(self)
        for name in _KEPT_FROM_COPIES:
            vars(twin).pop(name, None)
        vars(twin)["stands_for"] = self
        return twin

    @property
    def member_agents(self) -> Sequence[Any]:
        """Return the members that reply on its behalf."""
        return ()


class AnyStandIns(Protocol):
    """Who replies, and observes, in the place of a program's agents."""

    def reply(self, agent: Any, request: Any, /) -> Awaitable[Any]:
        """Have the one in an agent's place reply."""
        ...

    async def observe(self, agent: Any, message: Any, thread: Any, /) -> None:
        """Have the one in an agent's place observe a message."""
        ...


def is_untracked(agent: Any) -> bool:
    """Return whether nobody knows what an agent has read."""
    return getattr(agent, "is_untracked", False)


def is_recording(agent: Any) -> bool:
    """Return whether an agent's replies can be recorded."""
    return isinstance(agent, Replier) and agent.is_recorded


def members_of(agent: Any) -> Sequence[Any]:
    """Return the members that reply on an agent's behalf."""
    return agent.member_agents if isinstance(agent, Replier) else ()


def actions_of_agent(agent: Any) -> Iterable[Any]:
    """Return what an agent's model may call."""
    get_actions = getattr(getattr(agent, "actions", None), "get_actions", None)
    return get_actions() if callable(get_actions) else ()


class Participant(Protocol):
    """What a group needs of a member; `Conversational` has what it may take beside."""

    @property
    def id(self) -> str | int:
        """Its id."""
        ...

    @property
    def reply(self) -> Callable[..., Any]:
        """Answers with a `Reply`, `async` or not."""
        ...

    @property
    def observe(self) -> Callable[..., Any]:
        """Hears what others say, `async` or not."""
        ...


_EXAMPLES = {
    "budget": "Budget(usd=1)",
    "environment": "Environment()",
    "memory": "Memory(), or the path of a file",
}


def check_part(part: object, names: tuple[str, ...], label: str, id: object) -> None:
    """Refuse an object without these attributes early; it would fail during a reply."""
    missing = [name for name in names if not hasattr(part, name)]
    if missing or isinstance(part, type):
        got = f"the class {part.__name__}" if isinstance(part, type) else repr(part)[:80]
        examples = f", such as {_EXAMPLES[label]}" if label in _EXAMPLES else ""
        raise DefinitionError(
            f"agent {id!r}: {label}= needs an object with {', '.join(names)}{examples}, not {got}"
        )


def makes_memories(memory: Any) -> bool:
    """Return whether it is a function of a thread's id rather than a memory."""
    return callable(memory) and not hasattr(memory, "add_memory") and not isinstance(memory, type)


def memory_part(memory: Any, id: object) -> Any:
    """Return a given memory, checked; of a path or URL, the memory there."""
    if isinstance(memory, str | os.PathLike):
        from moothall.memory.by_path import memory_at

        return memory_at(memory)
    if makes_memories(memory):
        check_function(f"agent {id!r}: memory=", memory, "thread")
    else:
        check_memory_part(memory, "memory", id)
    return memory


def check_memory_part(memory: object, label: str, id: object) -> None:
    """Refuse what is not a memory, and one with async methods: nothing would await them."""
    check_part(memory, ("add_memory", "get_memories"), label, id)
    for name in ("add_memory", "get_memories"):
        if is_async(getattr(memory, name)):
            method_text = f"{name} of a {type(memory).__name__} is async"
            raise DefinitionError(f"agent {id!r}: {label}= needs plain methods, and {method_text}")


def has_threads(memory: Any) -> bool:
    """Return whether a given memory serves several threads."""
    return makes_memories(memory) or callable(getattr(memory, "thread", None))


def memory_of_thread(memory: Any, thread: str | None, id: object) -> Any:
    """Return the memory of a thread: a part of the given one, or what the given function makes."""
    if makes_memories(memory):
        own_memory: Any = memory(thread)
        check_memory_part(own_memory, "what the function of memory", id)
        return own_memory
    if thread is None:
        return memory
    if not has_threads(memory):
        raise DefinitionError(
            f"agent {id!r}: thread= needs a memory with threads, such as SQLiteMemory, a function "
            f"of the thread's id that makes one, or none given at all; {type(memory).__name__} has "
            "no thread(id)"
        )
    return memory.thread(thread)


def check_actions(actions: Iterable[Any], id: object) -> None:
    """Refuse actions that cannot be described to a model: early, and by their names."""
    for each in actions:
        # A parameter's type is looked up now, not when it was defined: it may have come later.
        if not isinstance(each, Action):
            continue
        each.check_described(id)


def checked_trusted(trusted: Any, id: str | int) -> frozenset[str]:
    """Return the ids of trusted agents."""
    if isinstance(trusted, str) or not isinstance(trusted, Iterable):
        raise ConfigError(f"agent {id!r}: trusted= must be a list of ids, got {trusted!r:.80}")
    return frozenset(map(address, trusted))
