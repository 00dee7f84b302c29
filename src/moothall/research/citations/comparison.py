"""A sentence and a passage, prepared to be compared: their words, quotations, values and names."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple
from unicodedata import combining, normalize

from moothall.build import Language, TextValues, Words
from moothall.research.sentences import FOOTNOTE, sentence_spans

SEPARATOR: Final = "\n\n\0\n\n"
"""What joins passages that are read as one: no quoted span reaches across it."""

QUOTE_EDGES: Final = " ,.;:!。、"
"""What may stand around the words of a quotation, and is none of them."""

_ANY_LANGUAGE: Final = Language()
_STARS: Final = re.compile(r"(?<!\w)\*{1,3}(?=\S)|(?<=\S)\*{1,3}(?!\w)")  # `2*3` is a product
_MARKUP: Final = re.compile(rf"{FOOTNOTE}|\*{{1,3}}|\n[ \t]*>(?!>>)[ \t]?")  # `>>>` is Python's
_LINK: Final = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s[^()]*)?\)")
_OUTER_STOPS: Final = re.compile(r"^[ .!…]+(?!\d)|[ .!…]+$")  # .5 is no 5
_LETTERS: Final = re.compile(r"\w|\0")
_SIGNS: Final = re.compile(r"[\"“”„«»‘’'`*]+")
_DASH: Final = re.compile(r"[–—]|--")
_PART_SEPARATOR: Final = re.compile(r"\.|::|-|/|'|_")
# `United States`, `Department of Energy`: what may be shortened to its initials.
_CAPITAL_WORDS: Final = re.compile(r"\b[^\W\d_a-z]\w+(?: (?:[a-z]{1,3} )?[^\W\d_a-z]\w+)+")
_CAPITAL_OPENER: Final = re.compile(r"[:.!?(\[“„«‘\"'`•|–—]\s*$")  # a capital after it is no name's
_NUMBERED: Final = re.compile(r"\d[\d.,]*[A-Za-z_]+\w*\d|\d+(?:\.\d+){2,}")  # 0x1f, 3.11.2
_SHORT_UNIT: Final = re.compile(r"\d ?[^\W\d_]{1,3}(?!\w)")
# Such as an ISBN or a telephone number, which may have spaces.
_GROUPED_NUMBER: Final = re.compile(
    r"(?<![\w-])(?:\d+(?:-\d+){2,}|(?:97[89]|\+\d{1,3}|0\d*)(?:[ -]\(?\d+\)?){2,})(?![\w-])"
)
_DATE_DIGITS: Final = 8
_UMLAUTS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
_IDENTIFIER: Final = re.compile(
    r".*(?:\w_\w|^_|[A-Za-z]\w*(?:\.|::)[A-Za-z_]|\(\)$|^--?[A-Za-z]|\+\+|#|[a-z][A-Z]|[A-Z]{2}|"
    r"[A-Za-z][^\W_]*-?\d|://)"
)


def without_marks(text: str) -> str:
    """Return a text without footnotes and marks of Markdown; code keeps its backticks."""
    return Words.normal(_LINK.sub(r"\1", _MARKUP.sub(" ", _STARS.sub("", text))))


def with_even_marks(text: str) -> str:
    """Return a text with quotation marks, dashes, space and capitals made the same, no lone `#`."""
    words = _DASH.sub(" - ", _SIGNS.sub("", text)).split()
    return " ".join(each for each in words if each != "#").casefold()


def without_end_marks(text: str) -> str:
    """Return an even text without the full stops and ellipses around it."""
    return _OUTER_STOPS.sub("", with_even_marks(text)).strip()


class SentenceContent(NamedTuple):
    """What a sentence has that a passage can be asked for exactly."""

    text: str
    figures: TextValues
    names: list[str]
    initials_by_word: dict[str, str]  # of words in capitals beside each other, the initials of all
    quantities: frozenset[str]  # numbers with a short unit, as written: 5 mW
    terms: frozenset[str]


class PassageContent(NamedTuple):
    """What a passage has; its title counts for names and words alone."""

    even_text: str
    sentences: list[tuple[int, int]]
    even_sentences: list[str]  # of each sentence
    starts: frozenset[int]  # where sentences begin in `even_text`
    ends: frozenset[int]
    terms: list[frozenset[str]]  # of each sentence
    figures: TextValues
    times: frozenset[int]
    years: frozenset[int]
    forms: frozenset[str]
    initials: str  # of its words in capitals
    short_names: frozenset[str]  # words all in capitals, without points: U.S. is `US`
    quantities: frozenset[str]

    def continues_at(self, at: int, start: int) -> bool:
        """Return whether a sentence of `even_text` begins at `start`, or only signs lie between."""
        return start in self.starts or (at > 0 and not _LETTERS.search(self.even_text, at, start))

    def has_name(self, name: str) -> bool:
        """Return whether the passage has a name, inflected, in its parts, or spelled out."""
        lower_case = (
            name.casefold().removesuffix("()").removesuffix("'s").removesuffix("'").strip(".")
        )
        plain_name = _without_accents(lower_case)
        spellings = (
            lower_case,
            plain_name,
            lower_case.translate(_UMLAUTS),
            lower_case.replace("-", ""),
            lower_case.replace(".", ""),
        )
        if not self.forms.isdisjoint(spellings):
            return True
        if lower_case.endswith(" i"):  # type I, if the passage speaks of type II
            numerals = re.findall(rf"\b{re.escape(lower_case[:-1])}([ivx]+)\b", self.even_text)
            return not numerals or "i" in numerals
        letters = name.replace(".", "")
        if len(letters) > 1 and letters.isupper() and letters.casefold() in self.initials:
            return True
        if lower_case.isalpha():
            return not self.forms.isdisjoint((f"{lower_case}s", lower_case.removesuffix("s")))
        parts = [part for part in _PART_SEPARATOR.split(lower_case) if part]
        is_version = all(map(str.isdecimal, parts))  # of 3.11.2, 3.11.3 has no part but those
        return len(parts) > 1 and not is_version and all(part in self.forms for part in parts)


@lru_cache(maxsize=256)
def sentence_of(text: str) -> SentenceContent:
    """Return what a sentence has."""
    text = without_marks(text)
    figures = TextValues(_GROUPED_NUMBER.sub(_without_hyphens, text))
    names = [*_names(text, bool(figures.dates)), *_long_numbers(text)]
    return SentenceContent(
        text, figures, names, _initials_by_word(text), _quantities_in(text), _terms(text)
    )


@lru_cache(maxsize=256)
def passage_of(passage: str, title: str) -> PassageContent:
    """Return what a passage has."""
    spans = sentence_spans(passage, code=True)
    texts = [without_marks(passage[start:end]) for start, end in spans]
    text = without_marks(passage)
    figures = TextValues(_GROUPED_NUMBER.sub(_without_hyphens, text))
    words = Words(f"{text} {title}")
    forms = {form for word in words for form in _word_forms(word)}.union(_long_numbers(text))
    for each in [each for each in forms if not each.isascii()]:
        forms |= {_without_accents(each), each.translate(_UMLAUTS)}
    even_text = with_even_marks(text)
    even_spans, end = list[tuple[int, int]](), 0
    for part in filter(None, (with_even_marks(each).strip(QUOTE_EDGES) for each in texts)):
        if (start := even_text.find(part, end)) >= 0:
            even_spans.append((start, end := start + len(part)))
    return PassageContent(
        even_text,
        spans,
        [without_end_marks(each) for each in texts],
        frozenset(start for start, _ in even_spans),
        frozenset(end for _, end in even_spans),
        [_terms(each) for each in texts],
        figures,
        frozenset(chain.from_iterable(figures.times)),
        frozenset(
            each.year for each in chain.from_iterable(figures.dates) if each.year is not None
        ),
        frozenset(forms),
        _initials(words),
        frozenset(
            each for word in words if len(each := word.replace(".", "")) > 1 and each.isupper()
        ),
        _quantities_in(text),
    )


def _quantities_in(text: str) -> frozenset[str]:
    return frozenset(_SHORT_UNIT.findall(" ".join(text.split())))


def _initials(words: list[str]) -> str:
    """Return the initials of the words in capitals, those in a row together: of WHO, `who`."""
    return "".join(
        each[0].casefold() if each[0].isupper() else "" if each in _ANY_LANGUAGE.stop_words else " "
        for each in words
    )


def _without_hyphens(number: re.Match[str]) -> str:
    """Return the digits of a number in groups, if more than a date has; an ISBN may have spaces."""
    digits = re.sub(r"\D", "", number[0])
    return digits if len(digits) > _DATE_DIGITS else number[0]


def _long_numbers(text: str) -> list[str]:
    numbers = map(_without_hyphens, _GROUPED_NUMBER.finditer(text))
    return [each for each in numbers if each.isdecimal()]


def _initials_by_word(text: str) -> dict[str, str]:
    """Return by word the initials of the words in capitals beside it, and those of all words."""
    initials: dict[str, str] = {}
    for match in _CAPITAL_WORDS.finditer(text):
        words = match[0].split()
        letters = "".join(each[0] for each in words)
        capitals = "".join(filter(str.isupper, letters))
        initials |= dict.fromkeys(words, f"{capitals} {letters.upper()}")
    return initials


def _terms(text: str) -> frozenset[str]:
    return frozenset(
        term for word in Words.pattern.findall(text) for term in _ANY_LANGUAGE.terms_of(word)
    )


def _without_accents(word: str) -> str:
    return "".join(each for each in normalize("NFD", word) if not combining(each))


def _word_forms(word: str) -> tuple[str, ...]:
    lower_case = word.casefold()
    bare = lower_case.removesuffix("()").removesuffix("'s").strip(".")
    return (
        lower_case,
        bare,
        bare.replace("-", ""),
        bare.replace(".", ""),
        *_PART_SEPARATOR.split(bare),
    )


def _names(text: str, has_dates: bool) -> list[str]:
    """Return names, code and addresses; German capitals are names only beside each other."""
    names: list[str] = []
    matches = [*Words.pattern.finditer(text)]
    has_capital_nouns = Language.of_words(each[0] for each in matches).has_capital_nouns
    are_values = TextValues.among([each[0].casefold() for each in matches])
    are_capital = [
        word[0].isupper() and len(word) > 1 and not (is_value or _ANY_LANGUAGE.is_stop_word(word))
        for word, is_value in zip((each[0] for each in matches), are_values, strict=True)
    ]
    for at, each in enumerate(matches):
        word = each[0]
        lower_case = word.casefold().removesuffix("'s")
        if word[0].isdigit():
            if not (has_dates or are_values[at]) and _NUMBERED.match(word[:200]):
                names.append(word)
            continue
        next_signs = text[each.end() : each.end() + 2]
        if are_values[at] or next_signs[:1] == "$":  # US$5
            continue
        if _IDENTIFIER.match(word[:200]):
            names.append(word)
        elif (
            are_capital[at]
            and lower_case not in _ANY_LANGUAGE.stop_words
            and not (has_dates and TextValues.is_month(lower_case))
        ):
            has_neighbour = any(are_capital[max(at - 1, 0) : at] + are_capital[at + 1 : at + 2])
            is_opening = at == 0 or _CAPITAL_OPENER.search(
                text, max(0, each.start() - 4), each.start()
            )
            if not is_opening and (has_neighbour or not has_capital_nouns):
                names.append(word)
        elif (
            at
            and len(word) == 1
            and word.isupper()
            and not (are_values[at - 1] or next_signs == ". ")  # 5 °C, John F. Smith
            and not _ANY_LANGUAGE.is_stop_word(matches[at - 1][0])  # the C API
            and not _CAPITAL_OPENER.search(text, max(0, each.start() - 4), each.start())
        ):
            # Hepatitis C; of `type I`, which may be a pronoun, the word before belongs to it.
            names.append(f"{matches[at - 1][0]} I" if word == "I" else word)
    return names
