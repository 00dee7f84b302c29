"""Where a text or a value comes from, and how a chat message says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

Kind: TypeAlias = Literal["user", "program", "outside"]

MARKS_FIELD: Final = "provenance"
"""The field of a chat message in a memory with its marks, of which `sources` says where it comes
from, if from outside, or what its writer had read from there. Models are not shown it."""
_SOURCES_KEY: Final = "outside"
"""The key with the sources of what is no chat message: a reply, or a text that was heard."""

_MAX_SOURCES: Final = 16


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from.

    Attributes:
        kind: `user`: it stands in a text of the user; `program`: in a prompt, a goal, a schema or
            the result of an action of the program's own; `outside`: in none of these
        source: what was read, such as the name of a file or an address; empty where the value
            stands in no text as it is, so that it cannot be traced
        line: the line of that text, from 1; None where it is not known
        passage: that line, shortened
    """

    kind: Kind
    source: str = ""
    line: int | None = None
    passage: str = ""

    def __str__(self) -> str:
        if self.kind != "outside":
            return self.kind if not self.source else f"{self.kind} ({self.source})"
        if not self.source:
            return "outside (not traced)"
        return f"outside ({self.source}" + (f", line {self.line})" if self.line else ")")


Origins: TypeAlias = dict[str, list[Origin]]
"""Where the values of a call's arguments come from, by parameter."""


class SourcedText(str):
    """A text that is from outside, or that somebody tells a run from another process.

    Attributes:
        sources: where it comes from, if from outside
        told_key: the key under which a journal keeps it until the run has heard it; else empty
    """

    sources: list[str]
    told_key: str

    def __new__(cls, text: str, sources: Iterable[str], told_key: str = "") -> SourcedText:
        """Return the text with its sources."""
        sourced = super().__new__(cls, text)
        sourced.sources, sourced.told_key = [*sources], told_key
        return sourced


def told_keys(texts: Iterable[Any]) -> list[str]:
    """Return the keys under which a journal keeps texts until they are heard."""
    return [each.told_key for each in texts if isinstance(each, SourcedText) and each.told_key]


def origins_of(data: Any) -> Origins:
    """Return recorded origins; empty for a record that has none."""
    if not isinstance(data, dict):
        return {}
    return {name: [Origin(**each) for each in origins] for name, origins in data.items()}


def sources_of(message: Any) -> list[str]:
    """Return the outside sources that a chat message names; empty for none."""
    if not isinstance(message, dict):
        return []
    field = message.get(MARKS_FIELD)
    return _texts_in(field.get("sources")) if isinstance(field, dict) else []


def _texts_in(sources: Any) -> list[str]:
    return [each for each in sources if isinstance(each, str)] if isinstance(sources, list) else []


def with_sources(message: dict[str, Any], sources: Iterable[str]) -> dict[str, Any]:
    """Return a chat message as one that comes from these sources, if there are any."""
    names = [*sources]
    return {**message, MARKS_FIELD: {"sources": names}} if names else message


def sources_within(entry: Any) -> Iterator[str]:
    """Yield the outside sources that a message names, or what an entry has."""
    pending = [entry]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            yield from (*sources_of(each), *_texts_in(each.get(_SOURCES_KEY)))
            pending += each.values()
        elif isinstance(each, list):
            pending += each


def merged_sources(sources: Iterable[str]) -> list[str]:
    """Return sources, each once, the first ones."""
    return list(dict.fromkeys(sources))[:_MAX_SOURCES]


def text_of(content: Any) -> str:
    """Return the text of a chat message's content; of blocks, the text in them."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = (each.get("text") for each in content if isinstance(each, dict))
        return "\n".join(each for each in texts if isinstance(each, str))
    return "" if content is None else str(content)
