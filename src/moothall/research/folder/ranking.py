"""Rank the passages of an index for a question: those with its rare words, by BM25."""

from __future__ import annotations

from itertools import pairwise
from sqlite3 import Connection
from typing import Final

from moothall.build import Language, SearchWords, Words

MAX_QUERY_WORDS: Final = 32
"""How many different words of a question are used; more would add nothing."""
_QUERY_CHARS: Final = 10_000

_TITLE_WEIGHT: Final = 1.5
"""Low, as headings are in the text as well, and titles in every passage of their file."""
_PAIR_WEIGHT: Final = 0.4  # of two words that are adjacent, as in the question
_SCORED: Final = 4_000  # passages that are scored at once: about 3 ms
_COMMON: Final = 20_000
"""A word in this many passages, or in half of all, says as little as a stop word.

Scoring it takes 10 ms or more.
"""


def ranked(db: Connection, query: str, limit: int) -> list[int]:
    """Return the numbers of the passages that fit a question best, best first."""
    query_terms = SearchWords.of_text(query[:_QUERY_CHARS])
    folded = [word.lower() for word in query_terms]
    language = Language.of_words(query_terms)
    words = [word.lower() for word in query_terms if not language.is_stop_word(word)] or folded
    words = [*words, *filter(None, map(Words.other_spelling, words))]
    counted = sorted(
        (_count(db, f'"{word}"', _COMMON), word) for word in SearchWords(words, MAX_QUERY_WORDS)
    )
    (last,) = db.execute("SELECT max(number) FROM passages").fetchone()
    common = min(_COMMON, (last or 0) / 2)
    # The scores are as if all words were joined by OR, but a passage must have a rare one.
    rare, often = SearchWords(()), SearchWords(())
    total = 0
    for count, word in counted:
        total += count
        if count and total <= _SCORED:
            rare.append(word)
        elif count and (count < common or not (rare or often)):
            often.append(word)
    if not rare:
        return [number for number, _ in _of_all(db, often)][:limit]
    scores = dict(_scored(db, rare.any))
    if often:
        scores.update(_scored(db, f"({rare.any}) AND ({often.any})"))
    searched = {*rare, *often}
    pairs = (
        f"{first} {second}"
        for first, second in pairwise(folded)
        if first in searched and second in searched
    )
    if match := SearchWords(pairs, MAX_QUERY_WORDS).any:
        for number, score in _scored(db, match):
            if number in scores:
                scores[number] += _PAIR_WEIGHT * score
    return sorted(scores, key=lambda number: (scores[number], number))[:limit]


def _of_all(db: Connection, words: list[str]) -> list[tuple[int, float]]:
    """Score some passages with most of the words, rarest first, if each word is in many."""
    match, count = "", _SCORED
    for word in words:
        narrower = f'{match} AND "{word}"' if match else f'"{word}"'
        if count < _SCORED or not (count := _count(db, narrower, _SCORED)):
            break
        match = narrower
    return _scored(db, match) if match else []


def _count(db: Connection, match: str, limit: int) -> int:
    select = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    return int(db.execute(select, (match, limit)).fetchone()[0])


def _scored(db: Connection, match: str) -> list[tuple[int, float]]:
    """Return passages with their scores, best first; a lower score is better."""
    return db.execute(
        "SELECT * FROM (SELECT rowid, bm25(words, ?, 1.0) AS score FROM words WHERE words MATCH ? "
        "LIMIT ?) ORDER BY score, rowid",
        (_TITLE_WEIGHT, match, _SCORED),
    ).fetchall()
