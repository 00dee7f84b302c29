"""The texts of one thread by origin, and which of them contain a value."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import date
from functools import partial
from itertools import chain, islice
from typing import Any, Final

from moothall.actions.provenance.addresses import Address
from moothall.actions.provenance.origin import Kind, Origin, merged_sources, text_of
from moothall.actions.provenance.read_texts import MAX_CHARS, UNTRACED, ReadTexts
from moothall.actions.provenance.relative_times import dates_of_today, ends_at, is_day_named
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
from moothall.foundation.text.values import MONTHS_BY_NAME, Key, fold, in_figures, keys_in, keys_of

_MAX_PARTS: Final = 1000
_MAX_READ_CHARS: Final = 20_000
"""How long a text of the user may be in which days and times are reckoned."""
# A full stop before a word with a capital ends a sentence, even if no space comes between.
_GLUED_SENTENCES: Final = re.compile(r"(?<=[a-z0-9])\.(?=[A-Z][a-z]*(?:\s|$))")
_LIST_NUMBER: Final = re.compile(
    rf"^[ \t]*\(?\d{{1,3}}[.)][ \t]+(?!(?:{'|'.join(MONTHS_BY_NAME)})\b)",
    re.MULTILINE | re.IGNORECASE,
)
_ESCAPES: Final = re.compile(r'\\(?:[nrt"\\/]|u00[0-9a-f]{2})')

_COMPACT: Final = re.compile(r'[,:](?=["\[{\dtfn-])')

_QUOTES: Final = ('""', "''", "``", "“”", "‘’", "„“", "«»", "»«")

TracedParts = list[tuple[str, Origin]]
"""The parts of a value, as texts, each with its origin."""


class Texts:
    """The texts of one thread, made once the thread has read something from outside.

    A thread without it has read nothing from outside, so nothing needs to be compared.
    """

    def __init__(self, parent: Texts | None = None) -> None:
        self.sources: list[str] = []  # what was read from outside
        self.permitted_values: set[str] = set()  # by a person, for the thread
        # What others say of their actions, as last shown.
        self.descriptions: Sequence[tuple[str, str]] = ()
        self.parent = parent  # the texts of the thread on whose behalf this one works
        # Folded text, origin, if it is a result.
        self._own_texts: list[tuple[str, Kind, str, bool]] = []
        self._digests: set[int] = set()
        self._size = 0
        self._joined_text = ""  # all of `_own_texts`, a line each
        self._text_ends: list[int] = []  # where each of them ends there
        self._link_spans: list[tuple[int, int]] = []  # where web addresses are there
        self._keys: dict[Key, tuple[Kind, str, bool]] = {}
        self._keyed_count = 0  # of how many of `_own_texts` the keys are read
        self._outside_texts = ReadTexts()
        # Values traced since the last text.
        self._traced_cache: dict[tuple[Any, type], TracedParts] = {}
        self._placed_values: set[str] = set()  # values from outside that actions were given
        # Values of results that are the program's as a whole.
        self._whole_values: dict[Key, str] = {}
        self._worked_on_text = ""  # what the model had actions of the program write or work on
        self._worked_on_keys: set[Key] = set()
        self.may_have_kept: bool = False  # whether an action may have kept something from outside

    # -- what comes in -----------------------------------------------------------------------------

    def add(self, content: Any, kind: Kind, source: str = "", is_result: bool = False) -> None:
        """Add a text of the user or of the program; one that is known already counts once."""
        text = text_of(content)
        if not text or (digest := hash((text, kind))) in self._digests:
            return
        # An action has kept what was read.
        if is_result and hash((text, "outside")) in self._digests:
            return
        self._digests.add(digest)
        if is_result and text[0] in '[{"':  # JSON: what it escapes is a boundary, as is a space
            text = _ESCAPES.sub(" ", _spaced_json(text) if _COMPACT.search(text) else text)
        if not is_result and len(_LIST_NUMBER.findall(text)) > 1:  # what numbers a list is no value
            text = _LIST_NUMBER.sub("", text)
        if kind == "user" and (split_text := _GLUED_SENTENCES.sub(". ", text)) != text:
            text = f"{text}\n{split_text}"
        folded = fold(text)
        self._own_texts.append((folded, kind, source, is_result))
        self._size += len(folded)
        self._append_text(folded)
        self._traced_cache.clear()
        if self._size > MAX_CHARS:
            self._drop_oldest()

    def _append_text(self, folded: str) -> None:
        start = len(self._joined_text)
        self._joined_text += f"{folded}\n"
        self._text_ends.append(len(self._joined_text) - 1)
        self._link_spans += [(start + first, start + end) for first, end in links_in(folded)]

    def _drop_oldest(self) -> None:
        """Drop the oldest texts of the user and the program."""
        while self._size > MAX_CHARS // 2 and len(self._own_texts) > 1:
            self._size -= len(self._own_texts.pop(0)[0])
        self._keys, self._keyed_count = {}, 0
        self._joined_text, self._text_ends, self._link_spans = "", [], []
        for each in self._own_texts:
            self._append_text(each[0])

    def add_outside(self, content: Any, sources: Iterable[str]) -> None:
        """Add a text from outside."""
        names = list(sources)
        self.note(names)
        text = text_of(content)
        if not text or (digest := hash((text, "outside"))) in self._digests:
            return
        self._digests.add(digest)
        self._traced_cache.clear()
        self._outside_texts.add(text, names[0] if names else "")

    def note(self, sources: Iterable[str]) -> None:
        """Note that something was read from these sources."""
        self.sources = merged_sources((*self.sources, *sources))

    def add_whole_values(self, values: Iterable[Any], source: str) -> None:
        """Add values that a result from outside has, and that the program's own system gave it."""
        self._traced_cache.clear()
        for each in values:
            for key in _keys_of_value(each):
                self._whole_values[key] = source

    def note_worked_on(self, value: Any, changes: bool) -> None:
        """Add a value from outside that the model gave an action, which may return it.

        If the action may change what others of the program read, none of their results says from
        then on what is the program's: it may be made of the value, joined or decoded.
        """
        self.may_have_kept = self.may_have_kept or changes
        text = fold(" ".join(texts_in(value)))
        if text and text not in self._worked_on_text:
            self._worked_on_text = f"{self._worked_on_text[-MAX_CHARS:]}\n{text}"
            self._worked_on_keys.update(keys_in(text))
            self._traced_cache.clear()

    def note_given(self, value: Any) -> None:
        """Note what an action that brings texts from outside was given, which they may have."""
        for each in texts_in(value):
            self._placed_values.update(map(fold, (each, *parts_of(each))))
        self._traced_cache.clear()

    # -- where a value stands ----------------------------------------------------------------------

    def trace(
        self, value: Any, choices: Sequence[Any] = (), fields: Collection[str] = ()
    ) -> TracedParts:
        """Return the parts of a value, each with its origin.

        A schema names `choices`, which are values, and `fields`, which are none.
        """
        is_cacheable = type(value) in (str, int, float) and not choices
        if is_cacheable and (cached := self._traced_cache.get((value, type(value)))) is not None:
            return cached
        parts: TracedParts = []
        self._trace(value, choices, fields, parts, 0)
        if is_cacheable:
            self._traced_cache[value, type(value)] = parts
            if len(self._traced_cache) > _MAX_PARTS:
                self._traced_cache.clear()
        return parts

    def _trace(
        self,
        value: Any,
        choices: Sequence[Any],
        fields: Collection[str],
        parts: TracedParts,
        depth: int,
    ) -> None:
        if len(parts) > _MAX_PARTS:
            return
        if any(map(partial(is_same, value), choices)):
            parts.append((_value_text(value), Origin("program", "schema")))
        elif depth > MAX_DEPTH:
            parts.append((cut(repr(value), 200), UNTRACED))
        elif isinstance(value, dict) and value:
            for name, each in value.items():
                if name not in fields:
                    self._trace(name, choices, fields, parts, depth + 1)
                self._trace(each, choices, fields, parts, depth + 1)
        elif isinstance(value, list | tuple) and value:
            for each in value:
                self._trace(each, choices, fields, parts, depth + 1)
        else:
            self._trace_one(value, choices, parts)

    def _trace_one(self, value: Any, choices: Sequence[Any], traced: TracedParts) -> None:
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            value = _value_text(value)
        elif isinstance(value, str) and not value.strip():
            traced.append((json_line(value), self._origin_of(value) or UNTRACED))
            return
        origin = self._origin_of(value)
        parts = parts_of(value) if origin is None and isinstance(value, str) else ()
        if not parts:
            traced.append((str(value), origin or UNTRACED))
        for each in parts:
            if any(map(partial(is_same, each), choices)):
                traced.append((each, Origin("program", "schema")))
            else:
                traced.append((each, self._origin_of(each) or UNTRACED))

    def _origin_of(self, value: str | int | float) -> Origin | None:
        """Return the origin of a value that a text of the user or the program contains."""
        needle = fold(value) if isinstance(value, str) else str(value)
        if not any(map(str.isalnum, needle)):
            return self._quoted_origin(needle)
        keys: Sequence[Key] = ()
        if not isinstance(value, str) or any(map(str.isdigit, needle)):
            keys = keys_of(value if not isinstance(value, str) else needle)
        return self._find_origin(needle, keys)

    def _quoted_origin(self, needle: str) -> Origin | None:
        """Return the origin of a value without letters and digits that stands in quotes.

        A sign is no value anywhere else: a bullet, the end of a sentence. What is empty must stand
        in quotes in a text of the user or a prompt: a result with an empty field names nothing.
        """
        for text, kind, source, result in self._own_texts:
            if (needle or not result) and any(f"{a}{needle}{b}" in text for a, b in _QUOTES):
                return Origin(kind, source)
        return None if self.parent is None else self.parent._quoted_origin(needle)

    def _find_origin(self, needle: str, keys: Sequence[Key]) -> Origin | None:
        origin = self._find_by_key(keys) if keys else self._find_by_text(needle)
        if origin is None and (pattern := grouped_pattern(needle)) is not None:
            origin = self._find_by_pattern(pattern)
        if origin is None and self._whole_values and needle not in self._placed_values:
            whole_keys = (("text", needle), *(each for each in keys if each[0] == "number"))
            sources = (
                self._whole_values[each] for each in whole_keys if each in self._whole_values
            )
            source = next(sources, None)
            origin = None if source is None else Origin("program", source)
        if origin is None and self.parent is not None:
            return self.parent._find_origin(needle, keys)
        return origin

    def _find_by_key(self, keys: Sequence[Key]) -> Origin | None:
        for raw, kind, source, result in self._own_texts[self._keyed_count :]:
            text = without_links(raw)
            spelled_text = text if result or len(text) > _MAX_READ_CHARS else in_figures(text)
            for key in chain(keys_in(text), () if spelled_text == text else keys_in(spelled_text)):
                earlier = self._keys.get(key)
                if earlier is None or (earlier[2] and not result):
                    self._keys[key] = (kind, source, result)
        self._keyed_count = len(self._own_texts)
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
        user_texts = [
            each[0]
            for each in self._own_texts
            if each[1] == "user" and len(each[0]) < _MAX_READ_CHARS
        ]
        if key[0] == "time":
            return ends_at(key, user_texts)
        today_dates = [
            day
            for text, kind, _, result in self._own_texts
            if kind == "program" or len(text) < _MAX_READ_CHARS
            for day in dates_of_today(text, result)
        ]
        return is_day_named(key, user_texts, today_dates or [date.today()])

    def _find_by_text(self, needle: str) -> Origin | None:
        raw = self._joined_text
        if (origin := self._origin_of_match(raw, needle)) is not None:
            return origin
        for each in spellings(needle):
            if (origin := self._origin_of_match(raw, each)) is not None:
                return origin
        return None

    def _find_by_pattern(self, pattern: re.Pattern[str]) -> Origin | None:
        for match in islice(pattern.finditer(self._joined_text), MAX_MATCHES):
            if (origin := self._origin_at(match.start(), match[0])) is not None:
                return origin
        return None

    def _origin_of_match(self, raw: str, needle: str) -> Origin | None:
        at = -1
        for _ in range(MAX_MATCHES):
            at = find_separate(raw, needle, at + 1)
            if at < 0:
                return None
            if (origin := self._origin_at(at, needle)) is not None:
                return origin
        return None

    def _origin_at(self, at: int, needle: str) -> Origin | None:
        """Return the origin of the text at a place, unless the model may have put it there.

        What begins within a web address is a part of it, and no value of its own.
        """
        link = bisect_left(self._link_spans, (at,)) - 1
        if link >= 0 and at < self._link_spans[link][1]:
            return None
        _, kind, source, result = self._own_texts[bisect_right(self._text_ends, at)]
        if result and self._worked_on_text and needle in self._worked_on_text:
            return None
        return Origin(kind, source)

    def origin_of_address(self, address: Address) -> Origin:
        """Return the origin of an address within a text.

        The number of an account must stand in what the user or a prompt says: that it stands in
        the program's own records does not make it right to send it to somebody.
        """
        text, is_account = address
        if not is_account:
            return self._origin_of(text) or UNTRACED
        needle = fold(text)
        pattern = grouped_pattern(needle)
        for raw, kind, source, result in self._own_texts:
            own_text = without_links(raw)
            if not result and (
                find_separate(own_text, needle) >= 0
                or (pattern is not None and pattern.search(own_text))
            ):
                return Origin(kind, source)
        return UNTRACED if self.parent is None else self.parent.origin_of_address(address)

    def locate(self, value: str) -> Origin:
        """Return where a value was read from outside, in any spelling; this takes longer."""
        origin = self._outside_texts.locate(value)
        if not origin.source and self.parent is not None:
            origin = self.parent.locate(value)
        return origin if origin.source else self._outside_texts.part_origin(value)


def _spaced_json(text: str) -> str:
    """Return JSON with a space after each comma and colon; another text as it is."""
    with suppress(ValueError, RecursionError):
        return json.dumps(json.loads(text, parse_float=str, parse_int=str), ensure_ascii=False)
    return text


def is_same(first: Any, second: Any) -> bool:
    """Whether two values are the same, of texts in any case."""
    if isinstance(first, str) and isinstance(second, str):
        return fold(first) == fold(second)
    return isinstance(first, bool) == isinstance(second, bool) and bool(first == second)


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else json_line(value)


def _keys_of_value(value: Any) -> list[Key]:
    if isinstance(value, str):
        return [("text", fold(value))]
    return [("text", str(value)), *keys_of(value)]
