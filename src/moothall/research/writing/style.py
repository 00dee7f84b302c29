"""How a report is to be written: its length, its tone and its language."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from moothall import ConfigError
from moothall.build import check_integer, one_line
from moothall.research.writing.sections import heading_of

LONG: Final = 1500
"""From so many words on, a report has an outline, and is written section by section."""
_MOST_WORDS: Final = 100_000
_MOST_SECTIONS: Final = 24
_SECTION_WORDS: Final = 500  # words


@dataclass(frozen=True)
class Style:
    """How a report is to be written.

    Attributes:
        length: about how many words; None leaves it to the model
        tone: such as `formal` or `for children`; empty leaves it to the model
        language: such as `French`; empty leaves it to the model
    """

    length: int | None = None
    tone: str = ""
    language: str = ""

    def __bool__(self) -> bool:
        return bool(self.length or self.tone or self.language)

    @property
    def is_long(self) -> bool:
        """Whether a report of this length has an outline."""
        return (self.length or 0) >= LONG

    @property
    def sections(self) -> int:
        """How many sections an outline has at most."""
        if self.length is None:
            return 8
        return min(max(self.length // _SECTION_WORDS, 2), _MOST_SECTIONS)

    def instructions(self, words: int | None = None) -> str:
        """Return what a prompt says of it; `words` replaces the length of the whole report."""
        length = words or self.length
        parts = [f"Write about {length:,} words."] if length else []
        parts += [f"Tone: {self.tone}."] if self.tone else []
        if self.language:
            parts.append(f"Write in {self.language}, whatever the language of the sources is.")
        return " ".join(parts)


def style_of(length: object, tone: object, language: object, id: str | int) -> Style:
    """Return the style that a researcher was given."""
    check_integer(f"agent {id!r}: length=", length, 1, _MOST_WORDS, optional=True)
    assert isinstance(length, int | None)
    return Style(length, line_of("tone", tone, id), line_of("language", language, id))


def line_of(name: str, value: object, id: str | int) -> str:
    """Return a line of text that a researcher was given."""
    if not isinstance(value, str) or len(value) > 200 or "\n" in value:
        raise ConfigError(
            f"agent {id!r}: {name}= must be a line of text of at most 200 characters, got "
            f"{value!r:.80}"
        )
    return value.strip()


def outline_of(value: object, id: str | int) -> bool | list[str]:
    """Return the outline that a researcher was given: whether it has one, or its headings."""
    if isinstance(value, bool):
        return value
    listed = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else None
    headings = [
        heading_of(one_line(each, 120)) if isinstance(each, str) else "" for each in listed or ()
    ]
    if listed is None or not all(headings):
        raise ConfigError(
            f"agent {id!r}: outline= must be True, False or a list of headings, got {value!r:.80}"
        )
    for each in headings:
        if headings.count(each) > 1:
            raise ConfigError(
                f"agent {id!r}: outline= must have each heading once, got {each!r} twice"
            )
    return headings
