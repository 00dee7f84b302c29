"""Rank the passages of an index for a question, by BM25."""

from __future__ import annotations

from itertools import pairwise
from sqlite3 import Connection
from typing import Final

from moothall.build import Language, SearchWords, Words

MAX_QUERY_WORDS: Final = 32
"""How many different words of a question are used; more would add nothing."""
_QUERY_CHARS: Final = 10_000
# Titles weigh little, as headings are in the text as well, and titles in each passage of a file.
_SELECT_RANKED: Final = (
    "SELECT rowid FROM words WHERE words MATCH ? AND rank MATCH 'bm25(1.5, 1.0)' "
    "ORDER BY rank, rowid LIMIT ?"
)


def ranked_passages(db: Connection, query: str, limit: int) -> list[int]:
    """Return the numbers of the passages that fit a question best, best first."""
    query_terms = SearchWords.of_text(query[:_QUERY_CHARS])
    folded = [word.lower() for word in query_terms]
    language = Language.of_words(query_terms)
    words = [word.lower() for word in query_terms if not language.is_stop_word(word)] or folded
    pairs = [
        f"{first} {second}" for first, second in pairwise(folded) if {first, second} <= {*words}
    ]
    words += [*filter(None, map(Words.other_spelling, words))]
    search_words = SearchWords(words, MAX_QUERY_WORDS) + SearchWords(pairs, MAX_QUERY_WORDS)
    rows = (
        db.execute(_SELECT_RANKED, (SearchWords(search_words).query, limit)) if search_words else ()
    )
    return [number for (number,) in rows]
