"""What a sentence says, as far as words show it: content words, numbers, names, negations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from civitas.research.sentences import FOOTNOTE, STOP_WORDS, WORD, normal, stem, terms_of


class Number(NamedTuple):
    """A number as it was said, and the ways to read it; `needed` if it is surely a count."""

    said: str
    readings: tuple[str, ...]
    needed: bool = True


@dataclass
class Claim:
    """What one sentence says, without footnotes and marks of Markdown."""

    text: str
    content: dict[str, tuple[str, ...]] = field(default_factory=dict)  # each once, with its terms
    words: list[str] = field(default_factory=list)  # all, in small letters
    forms: set[str] = field(default_factory=set)  # the words and their parts
    numbers: list[Number] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # and identifiers, as written
    plain: set[str] = field(default_factory=set)  # terms that are said
    denied: set[str] = field(default_factory=set)  # terms that a negation reaches
    heads: list[tuple[str, ...]] = field(default_factory=list)  # of those, the first of each
    negations: int = 0
    softly: set[str] = field(default_factory=set)  # words that deny, such as `fails`

    @cached_property
    def terms(self) -> set[str]:
        """Every term that it says or denies."""
        return self.plain | self.denied


_NEGATIONS_WORDS = (
    "not no never none nor neither without cannot nothing nobody nowhere nicht kein keine keinen "
    "keiner keinem nie niemals ohne ne jamais sans aucun aucune"
)
_NEGATIONS = frozenset(_NEGATIONS_WORDS.split())
# What says where something stands: a sentence may have it about any passage.
_SOURCES_WORDS = (
    "api faq docs documentation documents reference manual guide page pages article author "
    "authors paper source text says said states stated according describes notes explains "
    "adds writes argues holds mentions warns reports recommends suggests claims points tells "
    "tutorial howto section chapter specification report study book blog post statement"
)
SOURCES = frozenset(_SOURCES_WORDS.split())
# Words of grammar and verbs for anything: they are no content of a sentence.
_LIGHT = (
    "across along among amid around aside away back beneath beside besides despite except like "
    "near past since throughout toward towards unlike versus anybody anyone anything everybody "
    "everyone everything somebody someone something whatever whichever whoever ones others "
    "several various certain enough afterwards anyhow anyway anywhere elsewhere everywhere "
    "somewhere whenever wherever meanwhile moreover nevertheless nonetheless otherwise hence "
    "perhaps maybe indeed instead else soon almost nearly merely simply entirely partly really "
    "actually usually mainly though apart alone far long yet ought shall together whereas "
    "regardless likewise another whole come came go gone went take took give gave bring brought "
    "put hold held keep kept lead led let turn stand stood lie call try begin began begun start "
    "happen occur stay become became seem prove use want need mean work way thing case"
)
LIGHT = frozenset(map(stem, _LIGHT.split()))
_SOFT = re.compile(
    "fail|refus|avoid|prevent|lack|ignor|forbid|prohibit|reject|omit|exclud|skip|hardly|unless|"
    "except$|instead|rather|miss|absent|deni|deny|otherwise|illegal|un(?!der|i[tvqo]|til)|non|"
    "in(?:valid|correct|compat|complet)|im(?:poss|mut)|dis(?:abl|allow|card)|wrong|false|außer|"
    "sauf|zero|drop|los[es]|leave|free|only$|same$|constant|remain"
)
_BREAKS_WORDS = "but because although though while whereas if when so and which aber weil"
_BREAKS = frozenset(_BREAKS_WORDS.split())
_BOUNDARY = re.compile(r"[,;:()—–|!?\n]|\.\s")
_OPENING = re.compile(r"[.:!?\"“«]")
_NOT = re.compile(r"n't$|^n'")
_NOT_NEGATIONS = re.compile(
    r"\bnot\s+(?:only|just|merely|necessarily)\b|\bor\s+not\b|\bno\.\s?(?=\d)|\bno\s+matter\b|"
    r"\bnicht\s+nur\b|\bnon[\s-]seulement\b|\bnot?\s+(?:more|less|fewer|later)\s+than\b"
)
_NO_LONGER = re.compile(r"\bno\s+longer\b|\bnot\s+any\s?more\b", re.IGNORECASE)
_REACH = 5  # how many content words a negation reaches
_IDENTIFIER = re.compile(
    r".*(?:\w_\w|^_|[A-Za-z]\w*(?:\.|::)[A-Za-z_]|\(\)$|^--?[A-Za-z]|\+\+|#|[a-z][A-Z]|[A-Z]{2}|"
    r"[A-Za-z][^\W_]*-?\d)"
)
_MARKUP = re.compile(rf"{FOOTNOTE}|\*{{1,3}}|\n[ \t]*>(?!>>)[ \t]?")  # `>>>` is Python's prompt
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s[^()]*)?\)")


def plain(text: str) -> str:
    """A sentence without its footnotes and the marks of Markdown; code keeps its backticks."""
    if "*" in text or "\n" in text or "[" in text:
        text = _LINK.sub(r"\1", _MARKUP.sub(" ", text))
    return normal(text)


@lru_cache(maxsize=256)
def claim(text: str) -> Claim:
    """What a sentence says."""
    made = Claim(plain(text))
    text = made.text
    if "no" in text or "nicht" in text or "No" in text:
        text = _NOT_NEGATIONS.sub(" ", _NO_LONGER.sub("not", text))
    end = left = 0
    head = False
    for found in WORD.finditer(text):
        word, gap = found[0], text[end : found.start()]
        starts = not made.words or (gap != " " and _OPENING.search(gap) is not None)
        end = found.end()
        about = _about(word)
        small = about.small
        made.words.append(small)
        if left and (small in _BREAKS or (gap != " " and _BOUNDARY.search(gap))):
            left, head = 0, False
        if about.denies or (small == "none" and text[end : end + 4] == " of "):
            made.negations += 1
            left, head = _REACH, True
            if not small.startswith("n'"):  # French: n'ouvre
                continue
        made.forms.update(about.forms)
        if about.is_identifier or (about.is_capital and not starts):
            made.names.append(word)
        if about.is_soft:
            made.softly.add(small)
        if not about.terms:
            continue
        if about.terms[0] not in LIGHT:
            made.content[about.terms[0]] = about.terms
        (made.denied if left else made.plain).update(about.terms, (small,))
        if head:
            made.heads.append((small, *about.terms))
            head = False
        left = max(0, left - 1)
    made.numbers = [*_numbers(made.words)]
    return made


class _About(NamedTuple):
    """What there is to know of a word wherever it stands."""

    small: str
    terms: tuple[str, ...]
    forms: tuple[str, ...]
    denies: bool
    is_soft: bool
    is_identifier: bool
    is_capital: bool


@lru_cache(maxsize=1 << 13)
def _about(word: str) -> _About:
    small = word.casefold()
    bare = small.removesuffix("()").removesuffix("'s")
    terms = () if small in SOURCES else terms_of(word)
    if terms and word[0].isupper():
        terms += (f"@{root(small)}",)
    stops = STOP_WORDS - {"may"} if word == "May" else STOP_WORDS
    nameless = {small, small.rpartition("'")[0]} & (stops | SOURCES) or word[0].isdigit()
    return _About(
        small,
        terms,
        (small, bare, bare.replace("-", ""), *re.split(r"\.|::|-|/|'", bare)),
        word == "none" or is_negation(small),
        _SOFT.match(small) is not None,
        not nameless and _IDENTIFIER.match(word[:200]) is not None,
        not nameless and word[0].isupper() and len(word) > 1,
    )


def is_negation(word: str) -> bool:
    """Whether a word in small letters denies what follows; `None` is a value in programs."""
    return word != "none" and (word in _NEGATIONS or _NOT.search(word) is not None)


def root(name: str) -> str:
    """What a country and its people have in common: Greece and Greek, Sweden and Swedish."""
    found = re.fullmatch(r"(\w{4,}?)(?:ish|ians?|eans?|ese|ans?|ia|ce|en|y|a|e|ks?|n|i)", name)
    return found[1] if found else name


def knows(forms: set[str], terms: set[str], name: str) -> bool:
    """Whether a name is among some words, whole or in its dotted parts; or a stem among theirs."""
    small = name.casefold().removesuffix("()").removesuffix("'s").removesuffix("'")
    if small in forms or small.replace("-", "") in forms or small.removesuffix("s") in forms:
        return True
    if small.isalpha():
        return (len(small) > 3 and stem(small) in terms) or (
            name.istitle() and f"@{root(small)}" in terms
        )
    parts = [part for part in re.split(r"\.|::|/|-(?!\d)", small) if part]
    exactly = "." in small or "::" in small
    return len(parts) > 1 and all(
        part in forms or (not exactly and stem(part) in terms) for part in parts
    )


def _values(listed: str, first: int, step: int) -> dict[str, int]:
    """The value of each word of a list, where `|` stands between one value and the next."""
    values = enumerate(listed.split("|"))
    return {word: first + step * at for at, words in values for word in words.split()}


_COUNTS = _values(
    "zero null|one first eins|two second zwei deux zweite deuxième|three third drei trois dritte|"
    "four fourth vier quatre|five fifth fünf cinq|six sixth sechs|seven seventh sieben sept|"
    "eight eighth acht huit|nine ninth neun neuf|ten tenth zehn dix|eleven eleventh onze|"
    "twelve twelfth zwölf douze dozen|thirteen thirteenth|fourteen fourteenth|fifteen fifteenth|"
    "sixteen sixteenth|seventeen seventeenth|eighteen eighteenth|nineteen nineteenth",
    first=0,
    step=1,
) | _values(
    "twenty twentieth zwanzig vingt|thirty thirtieth dreißig trente|forty fortieth vierzig|"
    "fifty fiftieth fünfzig|sixty sixtieth sechzig|seventy siebzig|eighty achtzig|ninety neunzig",
    first=20,
    step=10,
)
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SCALES |= {"hundert": 100, "tausend": 1000, "mille": 1000, "millionen": 10**6}
_OTHERS = {"half": ("half", "0.5", "1/2"), "twice": ("twice", "2"), "thrice": ("3",)}
_COUNTED = _COUNTS.keys() | _SCALES.keys() | _OTHERS.keys()
# Often no count: `one` is a pronoun, `first` an adverb, `second` a time.
_LOOSE = {"one", "first", "second", "zweite", "null", "eins", "acht", "mille"}
_DIGITS = re.compile(r"(-?\d[\d.,_' ]*)([^\W_]*)%?$")


def _numbers(tokens: list[str]) -> Iterator[Number]:
    at = 0
    while at < len(tokens):
        number, after = _number(tokens, at)
        if number:
            yield number
        at = max(after, at + 1)


def _number(tokens: list[str], at: int) -> tuple[Number | None, int]:
    """The number that begins at a place, and the place after it."""
    word = tokens[at]
    following = tokens[at + 1] if at + 1 < len(tokens) else ""
    if digits := _DIGITS.match(word):
        readings = _readings(digits[1])
        suffix = digits[2]
        scale = _SCALES.get(following) or {"k": 1000}.get(suffix, 1)
        if scale > 1:
            readings = tuple(f"{float(each) * scale:.15g}" for each in readings if _is_float(each))
        after = at + 1 + (following in _SCALES)
        said = word if after == at + 1 else f"{word} {following}"
        if suffix and digits[1].isdigit() and not suffix.isalpha():
            readings = (word,)  # 3rc1, 0x1f
        return Number(said, readings), after
    if word.partition("-")[0] not in _COUNTED:
        return None, at
    if word in _OTHERS:
        return Number(word, _OTHERS[word]), at + 1
    value, after = _spelled(tokens, at)
    said = " ".join(tokens[at:after])
    return Number(said, (str(value),), said not in _LOOSE) if said else None, after


def _spelled(tokens: list[str], at: int) -> tuple[int, int]:
    """A number in words, and the place after it; the same place for none."""
    total = current = last = 0
    start = at
    while at < len(tokens):
        word = tokens[at]
        if word in _SCALES and (at > start or word != "mille"):
            scale = last = _SCALES[word]
            current = max(current, 1) * scale
            if scale > 100:
                total, current = total + current, 0
        elif word == "and" and last >= 100 and at + 1 < len(tokens) and tokens[at + 1] in _COUNTS:
            pass
        else:
            values = [_COUNTS.get(part, -1) for part in word.split("-")]
            if min(values) < 0 or len(values) > 2:
                break
            if at > start and not (last >= 100 or (20 <= last < 100 and values[0] < 10)):
                break
            last = values[-1]
            current += sum(values)
        at += 1
    return total + current, at


def _readings(digits: str) -> tuple[str, ...]:
    """The ways to read digits: `1.000` is a thousand in German and one in English."""
    digits = digits.rstrip(".,_' ").replace(" ", "").replace("_", "").replace("'", "")
    grouped = re.fullmatch(r"(-?\d{1,3})((?:[.,]\d{3})+)((?:[.,]\d+)?)", digits)
    readings = []
    if grouped and grouped[1] != "0" and len(set(re.findall(r"[.,]", grouped[2]))) == 1:
        rest = grouped[3].replace(",", ".")
        readings.append(re.sub(r"[.,]", "", grouped[1] + grouped[2]) + rest)
    if not readings or (digits.count(".") == 1 and "," not in digits):
        readings.append(digits.replace(",", ".") if digits.count(",") == 1 else digits)
    return tuple(re.sub(r"^(-?)0+(?=\d)", r"\1", each) for each in readings)


def _is_float(text: str) -> bool:
    return bool(re.fullmatch(r"-?\d+(?:\.\d+)?", text))
