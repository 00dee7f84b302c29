"""The texts from outside that a thread has read, and where one of them has a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from moothall.actions.provenance.origin import Origin
from moothall.actions.provenance.value_places import find_whole, grouped_pattern
from moothall.foundation.text.values import Key, fold, keys_in, keys_of

MAX_CHARS: Final = 1_000_000
"""The most characters of each kind; beyond them the oldest text is dropped, with its values."""
_MAX_SEARCHED_CHARS: Final = 200_000
"""In how many characters a value in another spelling is looked for."""
_PASSAGE_CHARS: Final = 160
_MAX_SEARCHES: Final = 20
"""How many values are looked for line by line between two texts: that takes 3 ms in 100 kB."""

UNTRACED: Final = Origin("outside")


@dataclass
class _Text:
    """A text, and what is looked at in it, made once."""

    text: str
    source: str

    @cached_property
    def folded(self) -> str:
        """Its lines, each folded."""
        return "\n".join(map(fold, self.text.splitlines()))

    @cached_property
    def keys(self) -> frozenset[Key]:
        """What its lines have of numbers, dates and times."""
        return frozenset(key for line in self.folded.split("\n") for key in keys_in(line))


class ReadTexts:
    """Texts from outside as they are, each with its source."""

    def __init__(self) -> None:
        self._texts: list[_Text] = []
        self._size = 0
        self._origin_cache: dict[str, Origin] = {}  # of values looked for since the last text

    def add(self, text: str, source: str) -> None:
        """Add a text."""
        self._origin_cache.clear()
        self._texts.append(_Text(text, source))
        self._size += len(text)
        while self._size > MAX_CHARS and len(self._texts) > 1:
            self._size -= len(self._texts.pop(0).text)

    def locate(self, value: str) -> Origin:
        """Return where a value was read as a whole, in any spelling."""
        origin = self._find_first(value, find_whole)
        if origin.source:
            return origin
        cached = self._origin_cache.get(value)
        if cached is None and len(self._origin_cache) < _MAX_SEARCHES:
            cached = self._origin_cache[value] = self._search(value)
        return cached or UNTRACED

    def part_origin(self, value: str) -> Origin:
        """Return where a value with letters was read as a part of something longer."""
        return self._find_first(value, str.find) if any(map(str.isalpha, value)) else UNTRACED

    def _find_first(self, value: str, find: Callable[[str, str], int]) -> Origin:
        for each in self._texts:
            if (position := find(each.text, value)) >= 0:
                return _origin_at(each, position, len(value))
        return UNTRACED

    def _search(self, value: str) -> Origin:
        needle = fold(value)
        keys = keys_of(needle) if any(map(str.isdigit, needle)) else ()
        pattern = grouped_pattern(needle)
        remaining = _MAX_SEARCHED_CHARS
        for each in self._texts:
            if (remaining := remaining - len(each.text)) < 0:
                break
            has_key = bool(keys) and not each.keys.isdisjoint(keys)
            if not (has_key or needle in each.folded or (pattern and pattern.search(each.folded))):
                continue
            start = 0
            for line in each.text.splitlines(keepends=True):
                folded = fold(line)
                position = find_whole(folded, needle)
                if position < 0 and pattern is not None and (match := pattern.search(folded)):
                    position = match.start()
                if position >= 0 or (has_key and not set(keys).isdisjoint(keys_in(folded))):
                    # A folded line has about as many characters before the value.
                    offset = min(max(position, 0), len(line) - 1)
                    return _origin_at(each, start + offset, len(value))
                start += len(line)
        return UNTRACED


def _origin_at(source_text: _Text, position: int, length: int) -> Origin:
    text = source_text.text
    start, end = text.rfind("\n", 0, position) + 1, text.find("\n", position)
    line = text[start : len(text) if end < 0 else end]
    if len(line) > _PASSAGE_CHARS:
        first = max(0, position - start - (_PASSAGE_CHARS - min(length, _PASSAGE_CHARS)) // 2)
        last = first + _PASSAGE_CHARS
        line = f"{'…' * (first > 0)}{line[first:last]}{'…' * (last < len(line))}"
    number = text.count("\n", 0, position) + 1 if "\n" in text else None
    return Origin("outside", source_text.source, number, line.strip())
