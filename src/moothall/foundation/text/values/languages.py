"""The words of each language for numbers, months, days and currencies: data beside this file."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any, Final

LANGUAGES: Final[dict[str, dict[str, Any]]] = json.loads(
    files("moothall.foundation.text.values").joinpath("languages.json").read_text(encoding="utf-8")
)
"""By language. Words of a list stand in order; `-` is one that means something else elsewhere."""


def numbered(name: str, first: int, step: int = 1) -> dict[str, int]:
    """Return the words of a list in all languages, numbered; `a,b` are two words for one."""
    return {
        word: first + step * place
        for language in LANGUAGES.values()
        for place, words in enumerate(language.get(name, "").split())
        for word in words.split(",")
        if word != "-"
    }


def joined_tens() -> dict[str, int]:
    """Return the numbers that a language writes in one word, unit first: `dreiundzwanzig`."""
    return {
        f"{unit}{joint}{ten}": 20 + 10 * tens + units
        for language in LANGUAGES.values()
        for joint in language.get("joined", "").split()
        for tens, ten in enumerate(language["tens"].split())
        for units, unit in enumerate(language["ones"].split(), 1)
        if unit != "-"
    }


def table_of(name: str) -> dict[str, Any]:
    """Return a table of words of all languages."""
    return {word: n for each in LANGUAGES.values() for word, n in each.get(name, {}).items()}


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a list in all languages, without their order."""
    return tuple(word for each in LANGUAGES.values() for word in each.get(name, "").split())


def any_of(*words: Any) -> str:
    """Return a pattern of any of some words, the longest first.

    It looks at the first letter once: a plain list of 300 words takes four times as long.
    """
    rests: dict[str, list[str]] = {}
    for word in sorted({word for each in words for word in each}, key=len, reverse=True):
        rests.setdefault(word[0], []).append(re.escape(word[1:]))
    branches = (f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in rests.items())
    return f"(?:{'|'.join(branches)})"
