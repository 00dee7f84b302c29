"""The kinds of entries that stand beside the work of a run, as their owners register them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from moothall.foundation.jsonvalue import as_json, json_text
from moothall.foundation.text import cut

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_PART_PREFIX: Final = "@"  # no part of an agent's work begins so
_EXCERPT_CHARS: Final = 60


class EntryKind(NamedTuple):
    """A kind of entry that may be noted of any run at rest: what journals know of it.

    Attributes:
        name: the kind of the entry
        data_type: its data, a TypedDict, by which pydantic checks what is read
        line: returns what it says in one line of plain words
    """

    name: str
    data_type: type[Any]
    line: Callable[[dict[str, Any]], str]

    @property
    def path(self) -> str:
        """The part of a run that has its entries: they are no part of its agent's work."""
        return f"{_PART_PREFIX}{self.name}"


class NotesBeside(Protocol):
    """Notes entries of a kind of runs at rest, as `Journal.held_runs` does."""

    def note_beside(self, run_id: str, kind: EntryKind, data: dict[str, Any]) -> None:
        """Note an entry of a run."""


ENTRY_KINDS: Final[dict[str, EntryKind]] = {}
"""The kinds by their names."""


def register(kind: EntryKind) -> EntryKind:
    """Have journals check, describe and show the entries of a kind."""
    ENTRY_KINDS[kind.name] = kind
    return kind


def kind_at(path: str) -> EntryKind | None:
    """Return the kind of the entries in a part of a run; None for a part of its agent's work."""
    return ENTRY_KINDS.get(path[1:]) if path.startswith(_PART_PREFIX) else None


def data_fault(data_type: Any, data: Any) -> str:
    """Return what of an entry's data is not of a type, and where; empty if nothing."""
    from pydantic import ValidationError

    try:
        adapter_of(data_type).validate_python(data, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "it"
        problem = first["msg"].replace("Input should be", "must be")
        return f"{place} {problem}, got {cut(json_text(as_json(first['input'])), _EXCERPT_CHARS)}"
    return ""


@cache
def adapter_of(data_type: Any) -> TypeAdapter[Any]:
    """Return a type's validator, cached because making one takes 2 ms."""
    from pydantic import TypeAdapter

    return TypeAdapter(data_type)
