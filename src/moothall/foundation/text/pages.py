"""Long texts in parts: the beginning and the end, a page of lines, the lines that match words.

A line of more than 500 characters, or more than a page has, counts as several: so each character of
a text of one line, such as JSON, can be reached as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from moothall.foundation.errors import ConfigError

LINE_CHARS: Final = 500
"""How long a line is at most; a longer one counts as several."""

_HEAD_CHARS: Final = 100
"""The most characters of the line above a page, which says what it shows."""

_RANGE: Final = re.compile(r"\s*(\d{1,12})?\s*(-|–|to)?\s*(\d{1,12})?\s*", re.IGNORECASE)


def lines_of(text: str, page: int) -> list[str]:
    """Return the lines of a text, with their ends; none is longer than a page."""
    max_chars = min(LINE_CHARS, page)
    return [
        line[start : start + max_chars]
        for line in text.splitlines(keepends=True)
        for start in range(0, len(line), max_chars)
    ]


def page_chars(limit: int) -> int:
    """Return how many characters of lines a result of so many shows, beside its first line."""
    return max(limit - _HEAD_CHARS, limit // 2)


def excerpt(text: str, limit: int, name: str) -> str:
    """Return a text, or about `limit` characters of its beginning and end.

    Between them stands which lines are left out, of what, by `name`.
    """
    if len(text) <= limit:
        return text
    end = len(text) - limit // 4
    begin = limit - limit // 4
    lines, position, first, last = lines_of(text, page_chars(limit)), 0, 0, 0
    for number, line in enumerate(lines, 1):
        position += len(line)
        if not first and position > begin:
            first = number
        if position >= end:
            last = number
            break
    return (
        f"{text[:begin]}\n[{end - begin:,} of {len(text):,} characters are left out here: lines "
        f"{first} to {last} of {len(lines)} of {name}]\n{text[end:]}"
    )


def line_range(lines: str, count: int) -> range:
    """Return the places of the lines that a text such as `120-180` states; ConfigError if wrong."""
    match = _RANGE.fullmatch(lines)
    if match is None or not (match[1] or match[3]):
        raise ConfigError(f'lines must be such as "120-180", "120" or "120-", got {lines!r:.80}')
    first = int(match[1] or 1)
    last = int(match[3] or (count if match[2] else first))
    if not 1 <= first <= min(last, count):
        raise ConfigError(f"lines must be between 1 and {count}, got {lines!r:.80}")
    return range(first - 1, min(last, count))


def page(lines: Sequence[str], span: range, limit: int) -> str:
    """Return the wanted lines of a text, as far as they fit into so many characters."""
    page_lines: list[str] = []
    for index in span:
        limit -= len(lines[index])
        if limit < 0 and page_lines:
            break
        page_lines.append(lines[index])
    first, last = span.start + 1, span.start + len(page_lines)
    more = f"; it goes on at line {last + 1}" if last < span.stop else ""
    return f"[lines {first} to {last} of {len(lines)}{more}]\n{''.join(page_lines)}"


def matching_page(lines: Sequence[str], span: range, words: str, limit: int) -> str:
    """Return the wanted lines that match words, each with its number, in their order.

    These are the lines with the whole text, else those with the most and the rarest of its words.
    """
    hits = _lines_with(lines, span, words) or _ranked_lines(lines, span, words)
    lines_by_place: dict[int, str] = {}
    for index in hits:
        line = f"{index + 1}: {lines[index].rstrip()}"
        limit -= len(line) + 1
        if limit < 0 and lines_by_place:
            break
        lines_by_place[index] = line
    if not hits:
        return f"[none of {len(span)} lines has any of these words]"
    matches = f"{len(hits)} of {len(span)} lines match"
    note = "" if len(lines_by_place) == len(hits) else f"; these are {len(lines_by_place)} of them"
    return "\n".join(
        [f"[{matches}{note}]", *(lines_by_place[index] for index in sorted(lines_by_place))]
    )


def matching_pages(
    texts: Sequence[tuple[str, Sequence[str]]], words: str, limit: int
) -> tuple[str, list[int]]:
    """Return the lines of several texts that match words, below the title of each text.

    A title is matched, too. Also return the places of the texts that are shown.
    """
    lines = [line for title, each in texts for line in (title, *each)]
    owners = [(n, at) for n, (_, each) in enumerate(texts) for at in range(len(each) + 1)]
    indexes, lines_by_text = range(len(lines)), dict[int, dict[int, str]]()
    ranked_indexes = _lines_with(lines, indexes, words) or _ranked_lines(lines, indexes, words)
    if not ranked_indexes:
        return f"[none of {len(texts)} results has any of these words]", []
    count = 0
    for place in ranked_indexes:
        n, at = owners[place]
        numbered = f"{at}: {lines[place].rstrip()}" if at else ""
        limit -= len(numbered) + 1 + (0 if n in lines_by_text else len(texts[n][0]) + 2)
        if limit < 0 and lines_by_text:
            break
        lines_by_text.setdefault(n, {})[at] = numbered
        count += 1
    note = "" if count == len(ranked_indexes) else f"; these are {count} of them"
    parts = [f"[{len(ranked_indexes)} lines of results match{note}]"]
    for n in sorted(lines_by_text):
        parts += [
            f"{texts[n][0]}:",
            *(lines_by_text[n][at] for at in sorted(lines_by_text[n]) if at),
        ]
    return "\n".join(parts), sorted(lines_by_text)


def _lines_with(lines: Sequence[str], span: range, words: str) -> list[int]:
    """Return the places of the lines that have the whole text."""
    phrase = " ".join(words.casefold().split())
    return [index for index in span if phrase in lines[index].casefold()]


def _ranked_lines(lines: Sequence[str], span: range, words: str) -> list[int]:
    """Return the places of the lines that have any of the words, the best first."""
    from moothall.foundation.text.ranking import Ranking  # its words' patterns take long to compile
    from moothall.foundation.text.vocabulary import Words

    ranking = Ranking([Counter(Words(lines[place]).terms()) for place in span])
    best = ranking.best({term: ranking.weight(term) for term in Words(words).terms()})
    return [span[each.place] for each in best]
