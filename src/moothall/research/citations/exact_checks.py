"""The exact checks of a cited sentence: its quotations, numbers, dates and names."""

from __future__ import annotations

import re
from itertools import chain
from typing import Final

from moothall.build import Words, shorten
from moothall.research.citations.comparison import (
    QUOTE_EDGES,
    PassageContent,
    SentenceContent,
    passage_of,
    sentence_of,
    with_even_marks,
    without_end_marks,
    without_marks,
)

_QUOTED: Final = re.compile(
    r"“[^”“]+”|„[^„“”]+[“”]|«[^«»]+»|「[^「」]+」|(?<![\w\"])\"[^\"]+\"(?!\w)"
    r"|(?<![\w'])'\S[^']{0,200}(?:'\w[^']{0,200}){0,3}(?<=\S)'(?!\w)|`[^`]+`"
)
_LETTER: Final = re.compile(r"\[([^\W\d_])\](?=[^\W\d_])")  # “[T]he”
_QUOTE_GAPS: Final = re.compile(r"\[?(?:…|\.\.\.)\]?|\[[^\]]{0,40}\]")
_ELLIPSIS: Final = re.compile(r"\[?(?:…|\.\.\.)\]?")  # words in brackets are not the passage's
_MILLI: Final = re.compile(r"(?<=[\d ])[mM](?=[^\W\d_abB])")  # or mega; no month
_QUOTE_MARKS: Final = "“”„«»「」`'\" "
# No part of a number or of a compound; a question says nothing.
_WORD_EDGES: Final = (r"(?<![\w+-])(?<![.,'/:](?=\d))", r"(?![\w?%‰]|-\w|(?<=\d)[.,'/:]\d)")
_SHORT_TERM_WORDS: Final = 2  # words of a quoted term, which may be inflected


def fault(sentence: str, passage: str, title: str = "") -> str | None:
    """Return which quote, number, date, time or name a passage lacks, in words; None for none."""
    content, passage_content = sentence_of(sentence), passage_of(passage, title)
    if not passage_content.sentences:
        return "cites a passage without a sentence"
    if _has_sentence(content, passage_content) and content.quantities <= passage_content.quantities:
        return None
    return misquoted(sentence, passage, title) or _missing_value(content, passage_content)


def misquoted(sentence: str, passage: str, title: str = "") -> str | None:
    """Return which quoted words of a sentence its passage has not; None if it has all."""
    passage_content = passage_of(passage, title)
    for match in _QUOTED.finditer(without_marks(sentence)):
        if missing := _missing_words(match[0], passage_content):
            return missing
    return None


def verbatim(sentence: str, passage: str, title: str = "") -> bool:
    """Return whether a passage has a sentence, or all its quotations, word for word."""
    content, passage_content = sentence_of(sentence), passage_of(passage, title)
    if not passage_content.sentences:
        return False
    quotes = _QUOTED.findall(content.text)
    rest = _QUOTED.sub("", content.text)
    if not content.quantities <= passage_content.quantities:
        return False
    if quotes and not any(map(str.isalnum, rest)):
        return not any(_missing_words(each, passage_content, is_exact=True) for each in quotes)
    return _has_sentence(content, passage_content)


def _has_sentence(content: SentenceContent, passage: PassageContent) -> bool:
    sentence = without_end_marks(content.text)
    return bool(sentence) and sentence in passage.even_sentences


def _missing_words(quoted: str, passage: PassageContent, *, is_exact: bool = False) -> str | None:
    """Return which words of a quotation are not there; if exact, as whole statements."""
    at, is_cut = 0, False
    is_code = quoted[0] == "`"
    gaps = _ELLIPSIS if is_exact else _QUOTE_GAPS
    spans = [quoted] if is_code else gaps.split(_LETTER.sub(r"\1", quoted))
    for place, span in enumerate(spans):
        words_in_span = with_even_marks(span).strip(QUOTE_EDGES if is_exact else f"{QUOTE_EDGES}?")
        if not words_in_span:  # between two gaps: one ends a sentence, one begins another
            is_cut = True
            continue
        left_edge, right_edge = _WORD_EDGES if is_exact else (r"(?<!\w)", r"(?!\w)")
        matches = re.compile(left_edge + re.escape(words_in_span) + right_edge).finditer(
            passage.even_text, at
        )
        # Words cut off without an ellipsis may say the opposite, and so may the halves of two.
        is_open = place > 0 and not at
        ends = passage.ends if is_cut else ()
        fitting = (
            each
            for each in matches
            if not is_exact
            or (
                (
                    is_open
                    or passage.continues_at(at, each.start())
                    or any(at <= end < each.start() for end in ends)
                )
                and (place + 1 < len(spans) or each.end() in passage.ends)
            )
        )
        if match := next(fitting, None):
            at, is_cut = match.end(), False
        elif (
            is_exact
            or (len(words_in_span.split()) > _SHORT_TERM_WORDS and not is_code)
            or not all(map(passage.has_name, Words(span)))
        ):
            # A term may be inflected, and code may be composed of words that are there.
            excerpt = shorten(span.strip(_QUOTE_MARKS), 60)
            return f"quotes “{excerpt}”, which is not in the passage"
    return None


def _missing_value(content: SentenceContent, passage: PassageContent) -> str | None:
    for number in content.figures.quantities:
        is_year = not number.dimension and any(each in passage.years for each in number.plain)
        is_said = number.relation == "~" or is_year or number.is_none_in(passage.even_text)
        is_said = is_said or number.is_change_in(passage.figures.quantities)
        if not (is_said or number.is_in(passage.figures.quantities + passage.figures.single_units)):
            return f"says {number.text}, which is not in the passage"
    for each in content.quantities - passage.quantities:
        if _MILLI.sub(lambda letter: letter[0].swapcase(), each) in passage.quantities:
            return f"says {each}, which is not in the passage"
    plain_numbers = {each for number in passage.figures.quantities for each in number.plain}
    for readings in content.figures.dates:
        if not any(
            date.fits(other)
            for date in readings
            for other in chain.from_iterable(passage.figures.dates)
        ):
            return f"says {readings[0].in_words}, which is not in the passage"
        year = readings[0].year
        if year is not None and year not in passage.years and year not in plain_numbers:
            return f"says {year}, which is not in the passage"
    for times in content.figures.times:
        if passage.times.isdisjoint(times):
            hour, minute = times[0] // 3600, times[0] // 60 % 60
            return f"says {hour}:{minute:02}, which is not in the passage"
    for name in content.names:
        letters = content.initials_by_word.get(name, "")
        if not (passage.has_name(name) or any(each in letters for each in passage.short_names)):
            return f"names {name}, which is not in the passage"
    return None
