"""Prompts with places in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from civitas.errors import ConfigError

_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Template:
    """A text with places such as `{summary}`; braces around anything else are text."""

    __slots__ = ("text",)

    def __init__(self, text: str, known: Iterable[str], what: str) -> None:
        if not isinstance(text, str):
            raise ConfigError(f"{what}= is a text, not {type(text).__name__}")
        names = list(known)
        for name in _PLACE.findall(text):
            if name not in names:
                there = ", ".join(f"{{{each}}}" for each in names)
                raise ConfigError(
                    f"{what}= has a place {{{name}}} that is not known; known: {there}"
                )
        self.text = text

    def fill(self, values: Mapping[str, str]) -> str:
        """The text with the values in their places; what looks like a place in a value is none."""
        return _PLACE.sub(lambda place: values[place[1]], self.text)
