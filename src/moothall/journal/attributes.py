"""What a caller says of a run: kept in one JSON column, by which runs are found and shown.

To add one: a field of `RunAttributes` and of `RecordedAttributes`, and a row of `ATTRIBUTES`, by
which replies take it, and journals, outlines, exports, forks, spans and `moothall runs` have it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias, TypedDict

from moothall.foundation.errors import ConfigError
from moothall.foundation.jsonvalue import readable

Tags: TypeAlias = Mapping[str, str] | Mapping[str, str | None] | Iterable[str]
"""Texts by name, such as `{"customer": "acme"}`, or names alone; None, in a filter: any text."""

_MAX_TAGS: Final = 64
_MAX_NAME_CHARS: Final = 64
_MAX_TEXT_CHARS: Final = 500
_FORBIDDEN_CHARS: Final = frozenset('="\\')
"""What parts a name from its text on a command line, or ends it in a path of JSON."""


class RunAttributes(TypedDict, total=False):
    """What may be said of a run by name, and what runs are found by."""

    tags: Tags | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAttributes:
    """What was said of a run, as its outline has it.

    Attributes:
        tags: what `tags=` of the reply said of it: texts by name, empty for a name alone
    """

    tags: dict[str, str] = field(default_factory=dict)

    @property
    def tagged(self) -> str:
        """Return the tags in words, such as `customer=acme, urgent`; empty if there are none."""
        return _tags_in_words(self.tags)

    def attributes_in_words(self) -> dict[str, str]:
        """Return in words what was said of the run, by the attributes' names."""
        values = ((name, each, getattr(self, name)) for name, each in ATTRIBUTES.items())
        return {name: each.in_words(value) for name, each, value in values if value}


class _RunAttribute(NamedTuple):
    check_value: Callable[[Any], Any]  # returns the value as JSON data; raises ConfigError
    # Paths below it, with their texts.
    query_paths: Callable[[Any], Iterator[tuple[str, str | None]]]
    in_words: Callable[[Any], str]  # of the value as an outline has it
    # Of `moothall runs`, to find by it; it may be given several times.
    option: str
    metavar: str
    help: str
    parse_option: Callable[[Iterable[str]], Any]  # returns what the option's texts want


def _checked_tags(value: Any) -> dict[str, str]:
    tags = _texts_by_name(value, "")
    if len(tags) > _MAX_TAGS:
        raise ConfigError(f"tags= must be at most {_MAX_TAGS}, got {len(tags)}")
    for text in tags.values():
        if not isinstance(text, str) or len(text) > _MAX_TEXT_CHARS or "\0" in text:
            limit = f"a text of at most {_MAX_TEXT_CHARS} characters without a NUL"
            raise ConfigError(f"tags=: each tag must have {limit}, got {text!r:.80}")
    return {name: readable(text) for name, text in tags.items()}


def _tag_paths(tags: Any) -> Iterator[tuple[str, str | None]]:
    for name, text in _texts_by_name(tags, None).items():
        if not isinstance(text, str | None):
            raise ConfigError(f"runs: tags= must be texts by name, or names, got {text!r:.80}")
        yield f'."{name}"', text


def _texts_by_name(tags: Any, default_text: str | None) -> dict[str, Any]:
    if isinstance(tags, Mapping):
        texts = dict(tags)
    elif isinstance(tags, Iterable):
        texts = dict.fromkeys((tags,) if isinstance(tags, str) else tags, default_text)
    else:
        raise ConfigError(
            "tags= must be texts by name, such as {'customer': 'acme'}, or names, "
            f"got {tags!r:.80}"
        )
    for name in texts:
        fits = isinstance(name, str) and 0 < len(name) <= _MAX_NAME_CHARS and name.isprintable()
        if not fits or _FORBIDDEN_CHARS & {*name}:
            raise ConfigError(
                f"tags=: a name must have 1 to {_MAX_NAME_CHARS} printable characters, and no "
                f"equals sign, quotation mark or backslash, got {name!r:.80}"
            )
    return texts


def _tags_in_words(tags: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={text}" if text else name for name, text in tags.items())


def _tags_of_option(texts: Iterable[str]) -> dict[str, str | None]:
    parts = (each.partition("=") for each in texts)
    return {name: text if has_text else None for name, has_text, text in parts}


ATTRIBUTES: Final[dict[str, _RunAttribute]] = {
    "tags": _RunAttribute(
        _checked_tags,
        _tag_paths,
        _tags_in_words,
        "--tag",
        "NAME[=TEXT]",
        "Only runs that were tagged so; may be given several times.",
        _tags_of_option,
    )
}
"""What a program may state of a run to find it by, by name: how it is checked, sought and shown."""


def checked_attributes(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes among these values, checked, as JSON data; none that are empty."""
    by_name = {
        name: each.check_value(values[name])
        for name, each in ATTRIBUTES.items()
        if values.get(name) is not None
    }
    return {name: value for name, value in by_name.items() if value}


def query_paths(values: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yield where runs must have a text in their attributes; and the text, None for any."""
    for name, each in ATTRIBUTES.items():
        if values.get(name) is not None:
            for path, text in each.query_paths(values[name]):
                yield f"$.{name}{path}", text


def attributes_json(attributes: Mapping[str, Any]) -> str | None:
    """Return what the column has; None without attributes."""
    return json.dumps(attributes, ensure_ascii=False) if attributes else None


def read_attributes(text: str | None) -> dict[str, Any]:
    """Return the attributes in the column that this version knows; a newer one may write more."""
    if text is None:
        return {}
    return {name: value for name, value in json.loads(text).items() if name in ATTRIBUTES}
