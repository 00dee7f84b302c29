"""States as JSON: of an agent, of what it remembers, of an orchestrator."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from civitas.errors import StateError
from civitas.jsonvalue import NotJSON, copy_json
from civitas.reasoning.jsonform import as_json

if TYPE_CHECKING:
    from civitas.memory.memory import Memory

__all__ = [
    "APPENDED",
    "LIVE",
    "VERSION",
    "dumped",
    "loaded",
    "memory_state",
    "opened",
    "restore_memory",
    "state",
]

S = TypeVar("S")

VERSION: Final = 1

APPENDED: Final = {"civitas": "appended"}
"""The metadata of a state's field that is a list which only grows: each item is recorded once. As
in `lines: list[str] = field(default_factory=list, metadata=APPENDED)`."""
LIVE: Final = {"civitas": "live"}
"""The metadata of a state's field that is not saved, such as a type that was asked for."""


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


def dumped(state: Any) -> dict[str, Any]:
    """A state, or whatever dataclass, as JSON data."""
    return {
        each.name: as_json(getattr(state, each.name))
        for each in fields(state)
        if each.metadata != LIVE
    }


def loaded(kind: type[S], data: Any, whose: str) -> S:
    """The state that JSON data is. What an older program did not save is as a state begins.

    Raises:
        StateError: it is none
    """
    from pydantic import TypeAdapter, ValidationError
    from pydantic_core import to_json

    known = {each.name for each in fields(cast(Any, kind)) if each.metadata != LIVE}
    try:
        if not isinstance(data, dict):
            raise TypeError(f"it must be an object, got {type(data).__name__}")
        text = to_json({name: value for name, value in data.items() if name in known})
        made: S = TypeAdapter(kind).validate_json(text, strict=True)
    except (ValidationError, TypeError, ValueError) as error:
        raise StateError(f"{whose}: the state of a {kind.__name__} is damaged: {error}") from error
    return made


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
