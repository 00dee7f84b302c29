"""The marks of a chat message: where its text comes from. Models and hooks are not shown them.

A memory keeps them in one field of the message; the loop and a journal keep them beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

from moothall.actions.provenance.origin import MARKS_FIELD as MARKS_FIELD
from moothall.actions.provenance.origin import sources_of


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of a message; each list is read-only.

    Attributes:
        sources: what it comes from, if from outside, or what its writer had read
        always: values from outside that a person permitted for the thread
        said: what a person answered to the questions of the action
        fault: whether its content is neither read nor the program's: the call was not executed,
            since its arguments were wrong, or a person has stated its result (then `said` has it)
        own: values of a result from outside that are the program's
        wrote: the parameters by which the action was given something from outside, which it may
            have kept
        refused: what later prompts leave out, since the server of the model refused what stands
            before it (`memory/refused.py`)
    """

    sources: list[str] | tuple[str, ...] = ()
    always: list[str] | tuple[str, ...] = ()
    said: list[str] | tuple[str, ...] = ()
    fault: bool = False
    own: list[Any] | tuple[Any, ...] = ()
    wrote: list[str] | tuple[str, ...] = ()
    refused: list[str] | tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return them as JSON data, without those that it does not have."""
        fields = {name: getattr(self, name) for name in _FIELD_NAMES}
        return {
            name: value if value is True else [*value] for name, value in fields.items() if value
        }

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in _FIELD_NAMES)


_FIELD_NAMES = tuple(each.name for each in fields(Marks))
_KEYS = frozenset((MARKS_FIELD, "result"))  # the last one has the number of a long result
NO_MARKS = Marks()


def has_marks(message: Mapping[str, Any]) -> bool:
    """Return whether a message from a memory has marks, or the number of its result."""
    return not _KEYS.isdisjoint(message)


def any_has_marks(messages: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether one of the messages has marks."""
    return not _KEYS.isdisjoint(chain.from_iterable(messages))


def marks_of(message: Mapping[str, Any]) -> Marks:
    """Return the marks of a message from a memory."""
    field = message.get(MARKS_FIELD)
    if not isinstance(field, dict):
        return NO_MARKS
    lists = {name: field[name] for name in _FIELD_NAMES if isinstance(field.get(name), list)}
    return Marks(**{**lists, "sources": sources_of(message), "fault": bool(field.get("fault"))})


def with_marks(
    messages: Iterable[dict[str, Any]], marks: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return messages with the marks beside them, each of which has the number of its message."""
    marked_messages = [*messages]
    for each in marks:
        index = each["message"]
        marked_messages[index] = {**marked_messages[index], **each}
        del marked_messages[index]["message"]
    return marked_messages


def stored_message(message: dict[str, Any], marks: Marks | None) -> dict[str, Any]:
    """Return a message as a memory keeps it."""
    return {**message, MARKS_FIELD: marks.to_json()} if marks else message


def without_marks(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without marks: the same one, if it has none."""
    if _KEYS.isdisjoint(message):
        return message
    return {key: value for key, value in message.items() if key not in _KEYS}
