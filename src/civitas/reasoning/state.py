"""What an agent remembers, as JSON, to be loaded in another process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from civitas.errors import StateError
from civitas.jsonvalue import NotJSON, copy_json

if TYPE_CHECKING:
    from civitas.memory.memory import Memory

__all__ = ["VERSION", "memory_state", "opened", "restore_memory", "state"]

VERSION: Final = 1


def state(kind: str, **parts: Any) -> dict[str, Any]:
    """A state of this kind, made of JSON alone, that shares nothing with the agent.

    Raises:
        StateError: something in it is not JSON
    """
    try:
        copied: dict[str, Any] = copy_json({"kind": kind, "version": VERSION, **parts})
    except NotJSON as error:
        raise StateError(f"the state of a {kind} cannot be written as JSON: {error}") from error
    return copied


def opened(given: Any, kind: str) -> dict[str, Any]:
    """A state that was given back, if it is one of this kind.

    Raises:
        StateError: it is not
    """
    if not isinstance(given, dict) or given.get("kind") != kind:
        what = given.get("kind") if isinstance(given, dict) else type(given).__name__
        raise StateError(f"this is no state of a {kind}, but of {what!r:.80}")
    if given.get("version") != VERSION:
        raise StateError(
            f"this state of a {kind} is of version {given.get('version')!r:.80}; this civitas "
            f"reads version {VERSION}"
        )
    try:
        copied: dict[str, Any] = copy_json(given)
    except NotJSON as error:
        raise StateError(f"the state of a {kind} is damaged: {error}") from error
    return copied


def memory_state(memory: Memory) -> dict[str, Any]:
    """What a memory remembers. One that keeps it somewhere itself says so in its own form."""
    own: Any = getattr(memory, "state_dict", None)
    if callable(own):
        made: dict[str, Any] = own()
        return made
    return {"items": memory.get_memories()}


def restore_memory(memory: Memory, given: Any, agent: Any) -> None:
    """Have a memory remember what another did, and nothing else.

    Raises:
        StateError: it is no such state, or the memory has something in it that it would keep
    """
    own: Any = getattr(memory, "load_state_dict", None)
    if callable(own):
        own(given)
        return
    items = given.get("items") if isinstance(given, dict) else None
    if not isinstance(items, list) or not all(
        isinstance(item, dict) and isinstance(item.get("role"), str) for item in items
    ):
        raise StateError(f"agent {agent!r}: the state of its memory is no list of chat messages")
    listed: Any = getattr(memory, "items", None)
    if isinstance(listed, list):
        listed.clear()
    if memory.get_memories():
        raise StateError(
            f"agent {agent!r}: its {type(memory).__name__} keeps what it has and has no "
            "load_state_dict: load into an agent with a new memory"
        )
    for item in items:
        memory.add_memory(item)
