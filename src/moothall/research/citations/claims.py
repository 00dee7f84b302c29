"""The claim of a sentence, by its words: content words, numbers, names and negations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from moothall.research.sentences import FOOTNOTE
from moothall.text.terms import STOP_WORDS, WORD, listed, normal, stem, terms_of


class Number(NamedTuple):
    """A number as it was said, and the ways to read it."""

    said: str
    readings: tuple[str, ...]


@dataclass
class Claim:
    """The claim of one sentence, without footnotes and marks of Markdown."""

    text: str
    content: dict[str, tuple[str, ...]] = field(default_factory=dict)  # first term: all terms
    words: list[str] = field(default_factory=list)  # all, in lower case
    forms: set[str] = field(default_factory=set)  # the words and their parts
    numbers: list[Number] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # and identifiers, as written
    plain: set[str] = field(default_factory=set)  # terms that no negation reaches
    denied: set[str] = field(default_factory=set)  # terms that a negation reaches
    heads: list[tuple[str, ...]] = field(default_factory=list)  # the first terms that each reaches
    denies: bool = False
    softly: set[str] = field(default_factory=set)  # words that deny, such as `fails`

    @cached_property
    def terms(self) -> set[str]:
        """All terms, whether a negation reaches them or not."""
        return self.plain | self.denied


_NEGATIONS = listed(
    "not no never none nor neither without cannot nothing nobody nowhere nicht kein keine keinen "
    "keiner keinem nie niemals ohne ne jamais sans aucun aucune"
)
# Words for a source: a sentence may have them about any passage.
SOURCES = listed(
    "api faq docs documentation documents reference manual guide page pages article author "
    "authors paper source text says said states stated according describes notes explains "
    "adds writes argues holds mentions warns reports recommends suggests claims points tells "
    "tutorial howto section chapter specification report study book blog post statement"
)
# Words of grammar, comparison and order, and general verbs: they do not count as content.
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
    "happen occur stay become became seem prove use want need mean work way thing case much "
    "less least fewer fewest early earlier late later latter former previous next last "
    "roughly approximately somewhat fairly quite largely typically generally commonly"
)
LIGHT = frozenset(map(stem, _LIGHT.split()))
_SOFT = re.compile(
    "fail|refus|avoid|prevent|lack|ignor|forbid|prohibit|reject|omit|exclud|skip|hardly|unless|"
    "except$|instead|rather|miss|absent|deni|deny|otherwise|illegal|un(?!der|i[tvqo]|til)|non|"
    "in(?:valid|correct|compat|complet)|im(?:poss|mut)|dis(?:abl|allow|card)|wrong|false|außer|"
    "sauf|zero|drop|los[es]|leave|free|only$|same$|constant|remain"
)
_BOUNDARY = re.compile(r"[,;:()—–|!?\n]|\.\s")
_NOT_NEGATIONS = re.compile(
    r"\bnot\s+(?:only|just|merely|necessarily)\b|\bor\s+not\b|\bno\.\s?(?=\d)|\bno\s+matter\b|"
    r"\bnothing\s+(?:but|except|other\s+than)\b|\bnicht\s+nur\b|\bnon[\s-]seulement\b|\bnot?\s+(?:more|less|fewer|later)\s+than\b"
)
_NOT = re.compile(  # what says `not` in other words
    r"\bno\s+longer\b|\bnot\s+any\s?more\b|\bfar\s+from(?=\s+\w+ing\b)|"
    r"\b(?:fail|refuse|decline)[sd]?(?:ed)?\s+to\b",
    re.IGNORECASE,
)
_REACH = 5  # how many content words a negation reaches
_IDENTIFIER = re.compile(
    r".*(?:\w_\w|^_|[A-Za-z]\w*(?:\.|::)[A-Za-z_]|\(\)$|^--?[A-Za-z]|\+\+|#|[a-z][A-Z]|[A-Z]{2}|"
    r"[A-Za-z][^\W_]*-?\d)"
)
_MARKUP = re.compile(rf"{FOOTNOTE}|\*{{1,3}}|\n[ \t]*>(?!>>)[ \t]?")  # `>>>` is Python's prompt
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s[^()]*)?\)")


def plain(text: str) -> str:
    """Return a sentence without footnotes and marks of Markdown; code keeps its backticks."""
    return normal(_LINK.sub(r"\1", _MARKUP.sub(" ", text)))


@lru_cache(maxsize=256)
def claim(text: str) -> Claim:
    """Return the claim of a sentence."""
    made = Claim(plain(text))
    text = _NOT_NEGATIONS.sub(" ", _NOT.sub("not", made.text))
    end = left = 0
    seeks = False  # the first word that a negation reaches
    for found in WORD.finditer(text):
        word, small = found[0], found[0].casefold()
        if _BOUNDARY.search(text[end : found.start()]):
            left, seeks = 0, False
        end = found.end()
        about = _about(word)
        first = not made.words
        made.words.append(small)
        if is_negation(small) or (small == "none" and text[end : end + 4] == " of "):
            made.denies = seeks = True
            left = _REACH
            if not small.startswith("n'"):  # French: n'ouvre
                continue
        made.forms.update(about.forms)
        if about.is_identifier or (about.is_capital and not first):
            made.names.append(word)
        if about.is_soft:
            made.softly.add(small)
        if not about.terms:
            continue
        if about.terms[0] not in LIGHT:
            made.content[about.terms[0]] = about.terms
        (made.denied if left else made.plain).update(about.terms, (small,))
        if seeks and not small.endswith("ly"):
            made.heads.append((small, *about.terms))
            seeks = about.terms[0] in LIGHT
        left = max(0, left - 1)
    made.numbers = [*_numbers(made.words)]
    return made


class _About(NamedTuple):
    """The properties of a word that do not depend on its sentence."""

    terms: tuple[str, ...]
    forms: tuple[str, ...]
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
        terms,
        (small, bare, bare.replace("-", ""), *re.split(r"\.|::|-|/|'", bare)),
        _SOFT.match(small) is not None,
        not nameless and _IDENTIFIER.match(word[:200]) is not None,
        not nameless and word[0].isupper() and len(word) > 1,
    )


def is_negation(word: str) -> bool:
    """Return whether a lower-case word negates what follows; `None` is a value in programs."""
    return word != "none" and (word in _NEGATIONS or word.endswith("n't") or word[:2] == "n'")


def root(name: str) -> str:
    """Return the common root of a country and its people: Greece and Greek, Sweden and Swedish."""
    found = re.fullmatch(r"(\w{4,}?)(?:ish|ians?|eans?|ese|ans?|ia|ce|en|y|a|e|ks?|n|i)", name)
    return found[1] if found else name


def knows(forms: set[str], terms: set[str], name: str) -> bool:
    """Return whether `forms` has a name, whole or in dotted parts, or `terms` has its stem."""
    small = name.casefold().removesuffix("()").removesuffix("'s").removesuffix("'")
    if not forms.isdisjoint((small, small.replace("-", ""), small.removesuffix("s"))):
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


# -- numbers ---------------------------------------------------------------------------------------

_UNITS = (
    "zero null|one first eins|two second zwei deux zweite deuxième|three third drei trois dritte|"
    "four fourth vier quatre|five fifth fünf cinq|six sixth sechs|seven seventh sieben sept|"
    "eight eighth acht huit|nine ninth neun neuf|ten tenth zehn dix|eleven eleventh onze|"
    "twelve twelfth zwölf douze dozen|thirteen thirteenth|fourteen fourteenth|fifteen fifteenth|"
    "sixteen sixteenth|seventeen seventeenth|eighteen eighteenth|nineteen nineteenth"
)
_TENS = (
    "twenty twentieth zwanzig vingt|thirty thirtieth dreißig trente|forty fortieth vierzig|"
    "fifty fiftieth fünfzig|sixty sixtieth sechzig|seventy siebzig|eighty achtzig|ninety neunzig"
)
COUNTS = {word: at for at, words in enumerate(_UNITS.split("|")) for word in words.split()}
COUNTS |= {word: 10 * at for at, words in enumerate(_TENS.split("|"), 2) for word in words.split()}
SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
SCALES |= {"hundert": 100, "tausend": 1000, "mille": 1000, "millionen": 10**6}
OTHERS: dict[str, tuple[str, ...]] = {
    "half": ("half", "0.5", "1/2"),
    "twice": ("twice", "2"),
    "thrice": ("3",),
}
# Often not counts: `one` is a pronoun, `first` an adverb, `second` a time.
LOOSE = listed("one first second zweite null eins acht mille")
_DIGITS = re.compile(r"(-?\d[\d.,_' ]*)([^\W_]*)%?$")


def _numbers(words: list[str]) -> Iterator[Number]:
    at = 0
    while at < len(words):
        word = words[at]
        start = at
        if digits := _DIGITS.match(word):
            at += 1
            scale = 1000 if digits[2] == "k" else 1
            if at < len(words) and words[at] in SCALES:
                scale, at = SCALES[words[at]], at + 1
            readings = readings_of(digits[1], scale)
            if digits[2] and digits[1].isdigit() and not digits[2].isalpha():
                readings = (word,)  # 3rc1, 0x1f
        elif word in OTHERS:
            readings, at = OTHERS[word], at + 1
        else:
            value, at = spelled(words, at)
            readings = (str(value),)
        if at > start:
            yield Number(" ".join(words[start:at]), readings)
        at = max(at, start + 1)


def spelled(words: Sequence[str], at: int) -> tuple[int, int]:
    """Return a number in words, and the place after it; the same place without one."""
    total = group = 0
    room = 10**15  # what follows must be smaller
    while at < len(words):
        word = words[at]
        parts = [COUNTS.get(part, room) for part in word.split("-")]
        if word in SCALES:
            group = max(group, 1) * SCALES[word]
            room = SCALES[word]
            if room > 100:
                total, group = total + group, 0
        elif max(parts) < room and len(parts) < 3:
            group += sum(parts)
            room = 10 if parts[-1] >= 20 else 0
        elif not (
            word == "and" and 100 <= room < 10**15 and COUNTS.keys() & words[at + 1 : at + 2]
        ):
            break
        at += 1
    return total + group, at


def readings_of(digits: str, scale: int) -> tuple[str, ...]:
    """Return the ways to read digits: `1.000` is a thousand in German and one in English."""
    digits = re.sub("[_' ]", "", digits.rstrip(".,_' "))
    grouped = re.fullmatch(r"(-?\d{1,3})((?:[.,]\d{3})+)((?:[.,]\d+)?)", digits)
    readings = []
    if grouped and grouped[1] != "0" and len(set(re.findall(r"[.,]", grouped[2]))) == 1:
        rest = grouped[3].replace(",", ".")
        readings.append(re.sub(r"[.,]", "", grouped[1] + grouped[2]) + rest)
    if not readings or (digits.count(".") == 1 and "," not in digits):
        readings.append(digits.replace(",", ".") if digits.count(",") == 1 else digits)
    if scale > 1:
        whole = [each for each in readings if re.fullmatch(r"-?\d+(\.\d+)?", each)]
        return tuple(f"{float(each) * scale:.15g}" for each in whole)
    return tuple(re.sub(r"^(-?)0+(?=\d)", r"\1", each) for each in readings)
