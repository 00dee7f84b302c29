"""How a report is to be written: its length, its tone and its language."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Final

from moothall import ConfigError
from moothall.build import check_integer, one_line
from moothall.research.writing.sections import heading_of

LONG_WORDS: Final = 1500
"""From so many words on, a report has an outline, and is written section by section."""
_MAX_WORDS: Final = 100_000
_MAX_SECTIONS: Final = 24
_SECTION_WORDS: Final = 500  # words


def _option(default: Any, prompt: str, option_help: str) -> Any:
    """Return a field; a default of None is that of a number, an empty text that of a line."""
    return field(default=default, metadata={"prompt": prompt, "help": option_help})


@dataclass(frozen=True, kw_only=True)
class StyleOptions:
    """The options of style, for researchers, prompts, orders and commands; a default is no wish."""

    length: int | None = _option(
        None, "Write about {:,} words.", "About how many words; from 1500 on by an outline."
    )
    tone: str = _option("", "Tone: {}.", "Tone, such as formal.")
    language: str = _option(
        "", "Write in {}, whatever the language of the sources is.", "Language of the report."
    )

    def style_options(self) -> dict[str, Any]:
        """Return the options by name."""
        return {each.name: getattr(self, each.name) for each in fields(StyleOptions)}


class Style(StyleOptions):
    """How a report is to be written."""

    @property
    def is_long(self) -> bool:
        """Whether a report of this length has an outline."""
        return (self.length or 0) >= LONG_WORDS

    @property
    def sections(self) -> int:
        """How many sections an outline has at most."""
        if self.length is None:
            return 8
        return min(max(self.length // _SECTION_WORDS, 2), _MAX_SECTIONS)

    def instructions(self, words: int | None = None) -> str:
        """Return what a prompt says of it; `words` replaces the length of the whole report."""
        values = self.style_options() | {"length": words or self.length}
        prompts = ((each.metadata["prompt"], values[each.name]) for each in fields(self))
        return " ".join(prompt.format(value) for prompt, value in prompts if value)


def style_of(options: dict[str, Any], id: str | int) -> Style:
    """Take the style out of a researcher's options, and check it."""
    style = {each.name: options.pop(each.name, each.default) for each in fields(Style)}
    for name, value in style.items():
        if isinstance(getattr(Style, name), str):
            style[name] = line_of(name, value, id)
        else:
            check_integer(f"agent {id!r}: {name}=", value, 1, _MAX_WORDS, optional=True)
    return Style(**style)


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
