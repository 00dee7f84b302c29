"""The texts of one thread by origin, and which of them contain a value."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from datetime import date
from functools import partial
from itertools import chain, islice
from typing import Any, Final

from moothall.actions.provenance.addresses import Address
from moothall.actions.provenance.origin import Kind, Origin, text_of, union
from moothall.actions.provenance.read import MOST_CHARS, UNTRACED, ReadTexts
from moothall.actions.provenance.relative_times import ends_at, is_named, todays_in
from moothall.actions.provenance.value_places import (
    MAX_DEPTH,
    MAX_MATCHES,
    find_separate,
    grouped_pattern,
    links_in,
    parts_of,
    spellings,
    texts_in,
    without_links,
)
from moothall.foundation.jsonvalue import json_line
from moothall.foundation.text import cut
from moothall.foundation.text.values import MONTHS_BY_NAME, Key, fold, keys_in, keys_of, spelled_out

_MOST_PARTS: Final = 1000
_MOST_READ: Final = 20_000
"""How long a text of the user may be in which days and times are reckoned."""
# A full stop before a word with a capital ends a sentence, even if no space comes between.
_GLUED: Final = re.compile(r"(?<=[a-z0-9])\.(?=[A-Z][a-z]*(?:\s|$))")
_ITEM: Final = re.compile(
    rf"^[ \t]*\(?\d{{1,3}}[.)][ \t]+(?!(?:{'|'.join(MONTHS_BY_NAME)})\b)",
    re.MULTILINE | re.IGNORECASE,
)
_ESCAPES: Final = re.compile(r'\\(?:[nrt"\\/]|u00[0-9a-f]{2})')

_QUOTES: Final = ('""', "''", "``", "“”", "‘’", "„“", "«»", "»«")

Traced = list[tuple[str, Origin]]
"""The parts of a value, as texts, each with its origin."""


class Texts:
    """The texts of one thread, made once the thread has read something from outside.

    A thread without it has read nothing from outside, so nothing needs to be compared.
    """

    def __init__(self, on_behalf: Texts | None = None) -> None:
        self.sources: list[str] = []  # what was read from outside
        self.always: set[str] = set()  # the values that a person has permitted for the thread
        # What others say of their actions, as last shown.
        self.descriptions: Sequence[tuple[str, str]] = ()
        self.on_behalf = on_behalf  # the texts of the thread on whose behalf this one works
        # Folded text, origin, if it is a result.
        self._own_texts: list[tuple[str, Kind, str, bool]] = []
        self._digests: set[int] = set()
        self._size = 0
        self._raw = ""  # all of `_own_texts`, a line each
        self._ends: list[int] = []  # where each of them ends there
        self._links: list[tuple[int, int]] = []  # where web addresses are there
        self._keys: dict[Key, tuple[Kind, str, bool]] = {}
        self._keyed = 0  # of how many of `_own_texts` the keys are read
        self._read = ReadTexts()
        self._traced: dict[tuple[Any, type], Traced] = {}  # values traced since the last text
        self._placed: set[str] = set()  # values from outside that actions were given
        # Values of results that are the program's as a whole.
        self._whole_values: dict[Key, str] = {}
        self._worked_on = ""  # what the model had actions of the program write or work on
        self._worked_on_keys: set[Key] = set()
        self.changed: bool = False  # whether an action may have kept something from outside

    # -- what comes in -----------------------------------------------------------------------------

    def add(self, content: Any, kind: Kind, source: str = "", result: bool = False) -> None:
        """Add a text of the user or of the program; one that is known already counts once."""
        text = text_of(content)
        if not text or (digest := hash((text, kind))) in self._digests:
            return
        if result and hash((text, "outside")) in self._digests:  # an action has kept what was read
            return
        self._digests.add(digest)
        if result and "\\" in text and text[0] in '[{"':  # JSON: what it escapes is a boundary
            text = _ESCAPES.sub(" ", text)
        if not result and len(_ITEM.findall(text)) > 1:  # what numbers a list is no value
            text = _ITEM.sub("", text)
        if kind == "user" and (parted := _GLUED.sub(". ", text)) != text:
            text = f"{text}\n{parted}"
        folded = fold(text)
        self._own_texts.append((folded, kind, source, result))
        self._size += len(folded)
        self._join(folded)
        self._traced.clear()
        if self._size > MOST_CHARS:
            self._drop()

    def _join(self, folded: str) -> None:
        start = len(self._raw)
        self._raw += f"{folded}\n"
        self._ends.append(len(self._raw) - 1)
        self._links += [(start + first, start + end) for first, end in links_in(folded)]

    def _drop(self) -> None:
        """Drop the oldest texts of the user and the program."""
        while self._size > MOST_CHARS // 2 and len(self._own_texts) > 1:
            self._size -= len(self._own_texts.pop(0)[0])
        self._keys, self._keyed = {}, 0
        self._raw, self._ends, self._links = "", [], []
        for each in self._own_texts:
            self._join(each[0])

    def add_outside(self, content: Any, sources: Iterable[str]) -> None:
        """Add a text from outside."""
        names = list(sources)
        self.note(names)
        text = text_of(content)
        if not text or (digest := hash((text, "outside"))) in self._digests:
            return
        self._digests.add(digest)
        self._traced.clear()
        self._read.add(text, names[0] if names else "")

    def note(self, sources: Iterable[str]) -> None:
        """Note that something was read from these sources."""
        self.sources = union((*self.sources, *sources))

    def add_whole_values(self, values: Iterable[Any], source: str) -> None:
        """Add values that a result from outside has, and that the program's own system gave it."""
        self._traced.clear()
        for each in values:
            for key in _keys(each):
                self._whole_values[key] = source

    def note_worked_on(self, value: Any, changes: bool) -> None:
        """Add a value from outside that the model gave an action, which may return it.

        If the action may change what others of the program read, none of their results says from
        then on what is the program's: it may be made of the value, joined or decoded.
        """
        self.changed = self.changed or changes
        text = fold(" ".join(texts_in(value)))
        if text and text not in self._worked_on:
            self._worked_on = f"{self._worked_on[-MOST_CHARS:]}\n{text}"
            self._worked_on_keys.update(keys_in(text))
            self._traced.clear()

    def note_given(self, value: Any) -> None:
        """Note what an action that brings texts from outside was given, which they may have."""
        for each in texts_in(value):
            self._placed.update(map(fold, (each, *parts_of(each))))
        self._traced.clear()

    # -- where a value stands ----------------------------------------------------------------------

    def trace(
        self, value: Any, choices: Sequence[Any] = (), fields: Collection[str] = ()
    ) -> Traced:
        """Return the parts of a value, each with its origin.

        A schema names `choices`, which are values, and `fields`, which are none.
        """
        exact = type(value) in (str, int, float) and not choices
        if exact and (cached := self._traced.get((value, type(value)))) is not None:
            return cached
        traced: Traced = []
        self._trace(value, choices, fields, traced, 0)
        if exact:
            self._traced[value, type(value)] = traced
            if len(self._traced) > _MOST_PARTS:
                self._traced.clear()
        return traced

    def _trace(
        self,
        value: Any,
        choices: Sequence[Any],
        fields: Collection[str],
        traced: Traced,
        depth: int,
    ) -> None:
        if len(traced) > _MOST_PARTS:
            return
        if any(map(partial(is_same, value), choices)):
            traced.append((_as_text(value), Origin("program", "schema")))
        elif depth > MAX_DEPTH:
            traced.append((cut(repr(value), 200), UNTRACED))
        elif isinstance(value, dict) and value:
            for name, each in value.items():
                if name not in fields:
                    self._trace(name, choices, fields, traced, depth + 1)
                self._trace(each, choices, fields, traced, depth + 1)
        elif isinstance(value, list | tuple) and value:
            for each in value:
                self._trace(each, choices, fields, traced, depth + 1)
        else:
            self._trace_one(value, choices, traced)

    def _trace_one(self, value: Any, choices: Sequence[Any], traced: Traced) -> None:
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            value = _as_text(value)
        elif isinstance(value, str) and not value.strip():
            traced.append((json_line(value), self._origin(value) or UNTRACED))
            return
        origin = self._origin(value)
        parts = parts_of(value) if origin is None and isinstance(value, str) else ()
        if not parts:
            traced.append((str(value), origin or UNTRACED))
        for each in parts:
            if any(map(partial(is_same, each), choices)):
                traced.append((each, Origin("program", "schema")))
            else:
                traced.append((each, self._origin(each) or UNTRACED))

    def _origin(self, value: str | int | float) -> Origin | None:
        """Return the origin of a value that a text of the user or the program contains."""
        needle = fold(value) if isinstance(value, str) else str(value)
        if not any(map(str.isalnum, needle)):
            return self._quoted_origin(needle)
        keys: Sequence[Key] = ()
        if not isinstance(value, str) or any(map(str.isdigit, needle)):
            keys = keys_of(value if not isinstance(value, str) else needle)
        return self._find(needle, keys)

    def _quoted_origin(self, needle: str) -> Origin | None:
        """Return the origin of a value without letters and digits that stands in quotes.

        A sign is no value anywhere else: a bullet, the end of a sentence. What is empty must stand
        in quotes in a text of the user or a prompt: a result with an empty field names nothing.
        """
        for text, kind, source, result in self._own_texts:
            if (needle or not result) and any(f"{a}{needle}{b}" in text for a, b in _QUOTES):
                return Origin(kind, source)
        return None if self.on_behalf is None else self.on_behalf._quoted_origin(needle)

    def _find(self, needle: str, keys: Sequence[Key]) -> Origin | None:
        origin = self._by_key(keys) if keys else self._by_text(needle)
        if origin is None and (pattern := grouped_pattern(needle)) is not None:
            origin = self._by_pattern(pattern)
        if origin is None and self._whole_values and needle not in self._placed:
            wholes = (("text", needle), *(each for each in keys if each[0] == "number"))
            sources = (self._whole_values[each] for each in wholes if each in self._whole_values)
            source = next(sources, None)
            origin = None if source is None else Origin("program", source)
        if origin is None and self.on_behalf is not None:
            return self.on_behalf._find(needle, keys)
        return origin

    def _by_key(self, keys: Sequence[Key]) -> Origin | None:
        for raw, kind, source, result in self._own_texts[self._keyed :]:
            text = without_links(raw)
            spelled_text = text if result or len(text) > _MOST_READ else spelled_out(text)
            for key in chain(keys_in(text), () if spelled_text == text else keys_in(spelled_text)):
                earlier = self._keys.get(key)
                if earlier is None or (earlier[2] and not result):
                    self._keys[key] = (kind, source, result)
        self._keyed = len(self._own_texts)
        for key in keys:
            # A date without a year in a text is meant of any year.
            for each in (key, ("date", None, *key[2:])) if key[0] == "date" else (key,):
                hit = self._keys.get(each)
                if hit is not None and not (hit[2] and each in self._worked_on_keys):
                    return Origin(hit[0], hit[1])
        return Origin("user") if any(map(self._is_relative_time, keys)) else None

    def _is_relative_time(self, key: Key) -> bool:
        """Whether the user named a day or a time in another form, such as `tomorrow`."""
        if key[0] not in ("date", "time"):
            return False
        said_texts = [
            each[0] for each in self._own_texts if each[1] == "user" and len(each[0]) < _MOST_READ
        ]
        if key[0] == "time":
            return ends_at(key, said_texts)
        todays = [
            day
            for text, kind, _, result in self._own_texts
            if kind == "program" or len(text) < _MOST_READ
            for day in todays_in(text, result)
        ]
        return is_named(key, said_texts, todays or [date.today()])

    def _by_text(self, needle: str) -> Origin | None:
        raw = self._raw
        if (origin := self._origin_of_match(raw, needle)) is not None:
            return origin
        for each in spellings(needle):
            if (origin := self._origin_of_match(raw, each)) is not None:
                return origin
        return None

    def _by_pattern(self, pattern: re.Pattern[str]) -> Origin | None:
        for match in islice(pattern.finditer(self._raw), MAX_MATCHES):
            if (origin := self._at(match.start(), match[0])) is not None:
                return origin
        return None

    def _origin_of_match(self, raw: str, needle: str) -> Origin | None:
        at = -1
        for _ in range(MAX_MATCHES):
            at = find_separate(raw, needle, at + 1)
            if at < 0:
                return None
            if (origin := self._at(at, needle)) is not None:
                return origin
        return None

    def _at(self, at: int, needle: str) -> Origin | None:
        """Return the origin of the text at a place, unless the model may have put it there.

        What begins within a web address is a part of it, and no value of its own.
        """
        link = bisect_left(self._links, (at,)) - 1
        if link >= 0 and at < self._links[link][1]:
            return None
        _, kind, source, result = self._own_texts[bisect_right(self._ends, at)]
        if result and self._worked_on and needle in self._worked_on:
            return None
        return Origin(kind, source)

    def address(self, address: Address) -> Origin:
        """Return the origin of an address within a text.

        The number of an account must stand in what the user or a prompt says: that it stands in
        the program's own records does not make it right to send it to somebody.
        """
        text, account = address
        if not account:
            return self._origin(text) or UNTRACED
        needle = fold(text)
        pattern = grouped_pattern(needle)
        for raw, kind, source, result in self._own_texts:
            own_text = without_links(raw)
            if not result and (
                find_separate(own_text, needle) >= 0
                or (pattern is not None and pattern.search(own_text))
            ):
                return Origin(kind, source)
        return UNTRACED if self.on_behalf is None else self.on_behalf.address(address)

    def locate(self, value: str) -> Origin:
        """Return where a value was read from outside, in any spelling; this takes longer."""
        origin = self._read.locate(value)
        if not origin.source and self.on_behalf is not None:
            origin = self.on_behalf.locate(value)
        return origin if origin.source else self._read.part_origin(value)


def is_same(first: Any, second: Any) -> bool:
    """Whether two values are the same, of texts in any case."""
    if isinstance(first, str) and isinstance(second, str):
        return fold(first) == fold(second)
    return isinstance(first, bool) == isinstance(second, bool) and bool(first == second)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json_line(value)


def _keys(value: Any) -> list[Key]:
    if isinstance(value, str):
        return [("text", fold(value))]
    return [("text", str(value)), *keys_of(value)]
