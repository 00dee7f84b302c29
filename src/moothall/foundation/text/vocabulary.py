"""The words of a text, and the terms that carry its content: stemmed, without stop words."""

from __future__ import annotations

import json
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from typing import Any, ClassVar, Final

from moothall.foundation.text.scripts import UNSPACED

_LANGUAGES: Final[dict[str, dict[str, str]]] = json.loads(
    files("moothall.foundation.text").joinpath("stop_words.json").read_text(encoding="utf-8")
)
_STOP_WORDS_OF: Final = {
    name: frozenset(language["stop"].split()) for name, language in _LANGUAGES.items()
}
# Where nothing says the language. Words of more languages would be names in these.
_ANYWHERE: Final = ("en", "de", "fr", "ru", "ar")
_STOP_WORDS: Final = frozenset(word for each in _ANYWHERE for word in _STOP_WORDS_OF[each])
_LANGUAGES_OF: Final = {
    word: [n for n, stop_words in _STOP_WORDS_OF.items() if word in stop_words]
    for word in frozenset().union(*_STOP_WORDS_OF.values())
}
_BASES: Final = {
    name: {form: forms.split()[0] for forms in irregular.split("|") for form in forms.split()}
    for name, each in _LANGUAGES.items()
    if (irregular := each.get("irregular"))
}
_PART = rf"[^\W{UNSPACED}]"
_WORD = re.compile(
    rf"""
    https?://[^\s<>)\]“”«»]*[^\s<>)\].,;:!?'"*`“”«»]
    | (?<![\w-])--?[A-Za-z][\w-]*                       # --flag
    | \b[A-Za-z](?:\+\+|\#)(?!\w)                       # C++, C#
    | \b\d{{4}}-\d\d-\d\d\b
    | [{UNSPACED}]+
    | (?<![\w).-])-?\d{{1,3}}(?:\ \d{{3}})+(?![\w.,]*\d)       # 1 000 000
    | (?:(?<![\w).-])-)?\d+(?:[.,_']\d+)*{_PART}*%?
    | (?:(?<![\w.)\]])\.(?=[A-Za-z_]))?{_PART}+(?:(?:[.'/-]|::){_PART}++(?!\+\+|\#))*(?:\(\))?
    """,
    re.VERBOSE,
)
# What NFKC makes plain digits of: ½, the raised ones of 10⁶ and of notes, the lowered of 101₂.
_SMALL_DIGITS = re.compile(
    r"(?<!\d)(?P<whole>(?:\d+ ?)?)(?P<part>[¼½¾⅐-⅞])|(?<=\d)(?P<lowered>[₀-₉]+)"
    r"|(?:(?<=\d)|(?<=[^\W\d_]{3}))(?P<raised>[\u2070¹²³\u2074-\u207b]+)"
)
_NO_WORDS = str.maketrans("™℠", "  ")
_SIGNS = str.maketrans({"’": "'", "‘": "'", "−": "-", "\u2010": "-", "\u2011": "-", "\u02bc": "'"})
_PARTS = re.compile(r"[^\W_]+")
_CODE_NAME = re.compile(r"[a-z]{2,}(?:[A-Z]+[a-z]*)+")  # a name in code: bodyLimit
_CASE_CHANGE = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PLURAL_NAME = re.compile(r"[a-z][A-Z]\w*s$")  # `ListenAddresses` is not `ListenAddress`
_ELIDED = re.compile(r"^(\w{1,2})['’]\w{2}")  # l'usine, qu'il
_DAY = re.compile(r"(\d{4})-\d\d-\d\d")  # whose 12 is not that of `Debian 12`
_UNSPACED = re.compile(f"[{UNSPACED}]")
_LONGEST_NON_PARTICIPLE: Final = 6  # characters
_VERSION_V = re.compile(r"^v(?=\d+\.\d)")  # v1.2 is 1.2
_QUESTION_WORDS = re.compile(
    "为什么|什么|时候|怎么|怎样|如何|多[少久长高大远重深快]|哪[里个些]|[吗呢谁]"
    "|얼마나?|언제|누구|누가|무엇|무슨|어디|어느|어떻게|[입습합됩]니[까다]|니까|나요|가요|예요|까요"
)

_REASON = re.compile(
    r"\b(?:why|warum|weshalb|wieso|pourquoi|por ?qu[eéê]|perché|waarom|почему|зачем|لماذا)\b"
    "|为什么|为何|なぜ|왜",
    re.IGNORECASE,
)


def _digits_in_line(digits: re.Match[str]) -> str:
    if digits["part"]:
        number = int(digits["whole"] or 0) + unicodedata.numeric(digits["part"])
        return f"{number:.6f}".rstrip("0")
    return f"^{digits['raised']}" if digits["raised"] else f"_{digits['lowered']}"


class Language(str):
    """A language, such as `fr`; empty where nothing says which: then several count."""

    __slots__ = ()

    @classmethod
    def of_words(cls, words: Iterable[str]) -> Language:
        """Return the language that lists most of some words; of several the first."""
        parts = (
            part for word in words for part in (word.casefold(), *_ELIDED.findall(word.casefold()))
        )
        counts = Counter(n for part in parts for n in _LANGUAGES_OF.get(part, ()))
        return cls(max(_STOP_WORDS_OF, key=lambda each: counts[each]))

    @property
    def stop_words(self) -> frozenset[str]:
        """The lower-case words that say nothing about a subject."""
        return _STOP_WORDS_OF[self] if self else _STOP_WORDS

    @property
    def degree(self) -> str:
        """The word that asks for a degree, such as `how`; empty if none does."""
        return str(_LANGUAGES[self].get("degree", ""))

    @property
    def has_capital_nouns(self) -> bool:
        """Whether each noun has a capital, as in German."""
        return bool(_LANGUAGES.get(self, {}).get("capital_nouns"))

    def is_stop_word(self, word: str) -> bool:
        """Return whether a word says nothing about the subject; in capitals it is a name: WHO."""
        return word.casefold() in self.stop_words and not (len(word) > 1 and word.isupper())

    def terms_of(self, word: str) -> tuple[str, ...]:
        """Return the terms of one word; none for a stop word."""
        return _terms_of(word, self)


class Words(list[str]):
    """The words of a text as written: `asyncio.wait_for`, `--flag`, `C++`, `1,000` are one each."""

    pattern: ClassVar[re.Pattern[str]] = _WORD
    """One word of a text that is `normal`."""

    def __init__(self, text: str) -> None:
        self._text = text
        super().__init__(_WORD.findall(self.normal(text)))

    @property
    def language(self) -> Language:
        """The language that lists most of them."""
        return Language.of_words(self)

    @property
    def asks_why(self) -> bool:
        """Whether they ask for a reason."""
        return _REASON.search(self._text) is not None

    def terms(self) -> list[str]:
        """Return the content words in order: lower case, stemmed, without stop words.

        A compound such as `asyncio.wait_for` becomes itself and then its parts; Chinese, Korean,
        Thai and the like become pairs of characters.
        """
        is_in_capitals = self._text.isupper() and " " in self._text
        words = Words(self._text.lower()) if is_in_capitals else self
        language = words.language
        return [term for word in words for term in language.terms_of(word)]

    @staticmethod
    def normal(text: str) -> str:
        """Return a text as NFKC, with one kind of apostrophe and one kind of hyphen.

        `1½` is 1.5, `10⁶` is 10^6, `101₂` is 101_2, `Windows™` is Windows; `m²` is m2.
        """
        if text.isascii():
            return text
        text = _SMALL_DIGITS.sub(_digits_in_line, text).translate(_NO_WORDS)
        return unicodedata.normalize("NFKC", text).translate(_SIGNS)

    @staticmethod
    def is_unspaced(word: str) -> bool:
        """Return whether a word begins in a script without spaces between words: Chinese."""
        return _UNSPACED.match(word) is not None

    @staticmethod
    def other_spelling(word: str) -> str | None:
        """Return a lower-case word in its American, else its British spelling; None without one."""
        if (other := american(word)) != word:
            return other
        if word in _BRITISH_NOUNS:
            return _BRITISH_NOUNS[word]
        for british, american_start in _BRITISH:
            if word.startswith(american_start):
                return british + word[len(american_start) :]
        return other if (other := _VERB_WITH_Z.sub(r"\1s", word)) != word else None


@lru_cache(maxsize=1 << 16)
def _terms_of(word: str, language: Language) -> tuple[str, ...]:
    lower = _VERSION_V.sub("", word.casefold().removesuffix("()"))
    if day := _DAY.fullmatch(lower):
        return (lower, day[1])
    if Words.is_unspaced(lower):
        runs = filter(None, _QUESTION_WORDS.split(lower))
        return tuple(run[i : i + 2] for run in runs for i in range(max(1, len(run) - 1)))
    if "'" in lower and not lower[0].isdigit():
        before, _, after = lower.rpartition("'")
        if after in ("s", "re", "ll", "ve", "d", "m"):
            lower = before
        elif after == "t":
            return ()
        elif len(before) <= 2:  # French: l'homme, qu'il
            lower = after
    cased = lower.upper() if word.isupper() else lower
    if language.is_stop_word(cased) or not lower.strip("_-"):
        return ()
    is_joined = _CODE_NAME.fullmatch(word)
    parts = _CASE_CHANGE.sub(" ", word).lower().split() if is_joined else _PARTS.findall(lower)
    is_marked = lower.startswith("--") or "_" in (lower[0], lower[-1])  # `_oiled_` is stressed
    if (len(parts) > 1 or is_marked) and not lower[0].isdigit():
        own_terms = [
            stem(part, language or "en") for part in parts if not language.is_stop_word(part)
        ]
        # English has nouns such as `to-do`; French asks by `prend-elle`, `a-t-il`.
        is_verb = language not in ("", "en") and language.is_stop_word(parts[-1])
        return tuple(own_terms) if is_verb else (lower, *own_terms)
    return (lower if _PLURAL_NAME.search(word) else stem(lower, language or "en"),)


# How British words begin, and American ones; whole nouns; and verbs in -ise, -yse.
_WORD_STARTS = (
    "behaviour behavior|colour color|favour favor|flavour flavor|harbour harbor|honour honor|"
    "labour labor|neighbour neighbor|rumour rumor|defenc defens|licenc licens|offenc offens"
)
_NOUNS = (
    "aluminium aluminum|analogue analog|catalogue catalog|centre center|dialogue dialog|"
    "fibre fiber|grey gray|litre liter|metre meter|programme program|theatre theater|tyre tire"
)
_BRITISH = [tuple(pair.split()) for pair in _WORD_STARTS.split("|")]
_PAIRS = [pair.split() for pair in _NOUNS.split("|")]
_AMERICAN_NOUNS = {base + end: other + end for base, other in _PAIRS for end in ("", "s")}
_BRITISH_NOUNS = {american: british for british, american in _AMERICAN_NOUNS.items()}
_VERB = (
    r"^(?!(?:com)?promis|treatis)(\w+(?:[aeiouy]l|[aeiou]n|gn|rn|[aeo]r|[aio]t|[io]m|has)i|"
    r"anal[yi]|cataly|paraly)%s(?=e[dr]?$|es$|ers?$|ing$|ation)"
)
_VERB_WITH_S, _VERB_WITH_Z = re.compile(_VERB % "s"), re.compile(_VERB % "z")


def american(word: str) -> str:
    """Return a lower-case word in its American spelling."""
    if word in _AMERICAN_NOUNS:
        return _AMERICAN_NOUNS[word]
    for british, american_start in _BRITISH:
        if word.startswith(british):
            return american_start + word[len(british) :]
    return word if word == "analyses" else _VERB_WITH_S.sub(r"\1z", word)


class _Stemmers(threading.local):
    """The stemmers of a thread: one holds the word that it works on."""

    def __init__(self) -> None:
        self._by_language: dict[str, Any] = {}

    def stem(self, word: str, language: str) -> str:
        """Return the stem of a word by the Snowball algorithm of a language."""
        if language not in self._by_language:
            from snowballstemmer import stemmer

            self._by_language[language] = stemmer(_LANGUAGES[language]["stemmer"])
        return str(self._by_language[language].stemWord(word))


_STEMMERS: Final = _Stemmers()


@lru_cache(maxsize=1 << 16)
def stem(word: str, language: str = "en") -> str:
    """Return the stem of a lower-case word; that of its base, if the form is irregular.

    British words have the stem of the American spelling, German and Dutch participles (`gedauert`)
    that of the verb. A name with a digit, such as `mke2fs`, has none.
    """
    if not word.isalpha():
        return word
    word = _BASES.get(language, {}).get(word) or (american(word) if language == "en" else word)
    participle_prefix = _LANGUAGES[language].get("participle")
    if (
        participle_prefix
        and word.startswith(participle_prefix)
        and len(word) > _LONGEST_NON_PARTICIPLE
        and word.endswith(("t", "en"))
    ):
        word = word.removeprefix(participle_prefix)
    return _STEMMERS.stem(word, language)
