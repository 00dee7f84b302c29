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
    most = min(LINE_CHARS, page)
    return [
        line[at : at + most]
        for line in text.splitlines(keepends=True)
        for at in range(0, len(line), most)
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
    lines, at, first, last = lines_of(text, page_chars(limit)), 0, 0, 0
    for number, line in enumerate(lines, 1):
        at += len(line)
        if not first and at > begin:
            first = number
        if at >= end:
            last = number
            break
    return (
        f"{text[:begin]}\n[{end - begin:,} of {len(text):,} characters are left out here: lines "
        f"{first} to {last} of {len(lines)} of {name}]\n{text[end:]}"
    )


def chosen(lines: str, count: int) -> range:
    """Return the places of the lines that a text such as `120-180` states; ConfigError if wrong."""
    found = _RANGE.fullmatch(lines)
    if found is None or not (found[1] or found[3]):
        raise ConfigError(f'lines must be such as "120-180", "120" or "120-", got {lines!r:.80}')
    first = int(found[1] or 1)
    last = int(found[3] or (count if found[2] else first))
    if not 1 <= first <= min(last, count):
        raise ConfigError(f"lines must be between 1 and {count}, got {lines!r:.80}")
    return range(first - 1, min(last, count))


def page(lines: Sequence[str], wanted: range, most: int) -> str:
    """Return the wanted lines of a text, as far as they fit into so many characters."""
    taken: list[str] = []
    for place in wanted:
        most -= len(lines[place])
        if most < 0 and taken:
            break
        taken.append(lines[place])
    first, last = wanted.start + 1, wanted.start + len(taken)
    more = f"; it goes on at line {last + 1}" if last < wanted.stop else ""
    return f"[lines {first} to {last} of {len(lines)}{more}]\n{''.join(taken)}"


def matching(lines: Sequence[str], wanted: range, words: str, most: int) -> str:
    """Return the wanted lines that match words, each with its number, in their order.

    These are the lines with the whole text, else those with the most and the rarest of its words.
    """
    found = _with(lines, wanted, words) or _ranked(lines, wanted, words)
    taken: dict[int, str] = {}
    for place in found:
        shown = f"{place + 1}: {lines[place].rstrip()}"
        most -= len(shown) + 1
        if most < 0 and taken:
            break
        taken[place] = shown
    if not found:
        return f"[none of {len(wanted)} lines has any of these words]"
    are = f"{len(found)} of {len(wanted)} lines match"
    fit = "" if len(taken) == len(found) else f"; these are {len(taken)} of them"
    return "\n".join([f"[{are}{fit}]", *(taken[place] for place in sorted(taken))])


def matching_in(
    texts: Sequence[tuple[str, Sequence[str]]], words: str, most: int
) -> tuple[str, list[int]]:
    """Return the lines of several texts that match words, below the title of each text.

    A title is matched, too. Also return the places of the texts that are shown.
    """
    lines = [line for title, each in texts for line in (title, *each)]
    whose = [(n, at) for n, (_, each) in enumerate(texts) for at in range(len(each) + 1)]
    every, taken = range(len(lines)), dict[int, dict[int, str]]()
    found = _with(lines, every, words) or _ranked(lines, every, words)
    if not found:
        return f"[none of {len(texts)} results has any of these words]", []
    count = 0
    for place in found:
        n, at = whose[place]
        shown = f"{at}: {lines[place].rstrip()}" if at else ""
        most -= len(shown) + 1 + (0 if n in taken else len(texts[n][0]) + 2)
        if most < 0 and taken:
            break
        taken.setdefault(n, {})[at] = shown
        count += 1
    fit = "" if count == len(found) else f"; these are {count} of them"
    made = [f"[{len(found)} lines of results match{fit}]"]
    for n in sorted(taken):
        made += [f"{texts[n][0]}:", *(taken[n][at] for at in sorted(taken[n]) if at)]
    return "\n".join(made), sorted(taken)


def _with(lines: Sequence[str], wanted: range, words: str) -> list[int]:
    """Return the places of the lines that have the whole text."""
    whole = " ".join(words.casefold().split())
    return [place for place in wanted if whole in lines[place].casefold()]


def _ranked(lines: Sequence[str], wanted: range, words: str) -> list[int]:
    """Return the places of the lines that have any of the words, the best first."""
    from moothall.foundation.text.ranking import Ranking  # its words' patterns take long to compile
    from moothall.foundation.text.terms import terms

    ranking = Ranking([Counter(terms(lines[place])) for place in wanted])
    best = ranking.best({term: ranking.weight(term) for term in terms(words)})
    return [wanted[each.place] for each in best]
