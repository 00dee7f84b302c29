"""The words that carry a text's content: lower case, stemmed, without stop words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from moothall.foundation.text.scripts import UNSPACED


def listed(words: str) -> frozenset[str]:
    """Return the words of a list as a set."""
    return frozenset(words.split())


_LISTED = {
    "en": listed(
        "a about above after again all already also am an and any are as at be because been "
        "before being below between both but by can could did do does doing done down during each "
        "either else ever every few for from further get gets got had has have having he her here "
        "hers him his how however i if in into is it its itself just let lets like made make "
        "makes many may me might more most much must my no nor not now of off often on once one "
        "only onto or other our out over own per quite rather same several shall she should since "
        "so some still such than that the their them then there therefore these they this those "
        "though through thus to too under until up upon us very via was we well were what when "
        "where whether which while who whom whose why will with within without would yet you your "
        "cannot never none neither nothing nobody nowhere"
    ),
    "de": listed(
        "aber alle als am an auch auf aus bei beim bis da damit dann das dass dem den der des die "
        "dies diese dieser doch durch ein eine einem einen einer eines er es für haben hat hatte "
        "ich ihr im in ins ist ja jede jeder kann kein keine können mehr mit muss nach nicht noch "
        "nur ob oder ohne sein sehr sich sie sind so soll über um und uns unter vom von vor waren "
        "was weil wann warum welche welchem welchen welcher welches wem wen wenn wer werden wie "
        "wir wird wo woher wohin wozu wurde wurden zu zum zur zwischen"
    ),
    "fr": listed(
        "a au aux avec ce ces cet cette combien comme d dans de des donc du elle elles en est "
        "et eux il ils j je l la le les leur leurs lui mais me même mes moi mon n ne nos notre "
        "nous on ont ou où par pas plus pour pourquoi qu quand que quel quelle quelles quels qui "
        "s sa sans se ses si son sont sous sur t ta te tes toi ton tu un une vos votre vous y été "
        "être"
    ),
    "ru": listed(
        "без бы был была были было быть в вам вас во вот все всё вы где да для до если есть же за "
        "и из или им их к как какая какие каков какова какое какой ко когда кто куда ли мне мы на "
        "над не него нет но он она они оно от откуда по под почему при про сколько так там то "
        "только уже чего чем что чтобы эта эти это этот я а с со о об у"  # noqa: RUF001
    ),
    "ar": listed(
        "أن أو أين إلى التي الذي ثم عن على في كان كم كيف لا لماذا ما ماذا متى مع من هذا هذه هل هو "
        "هي و"
    ),
}
STOP_WORDS = frozenset(word for each in _LISTED.values() for word in each)
_LANGUAGES = {word: [n for n, of in _LISTED.items() if word in of] for word in STOP_WORDS}
_PART = rf"[^\W{UNSPACED}]"
WORD = re.compile(
    rf"""
    https?://[^\s<>)\]“”«»]*[^\s<>)\].,;:!?'"*`“”«»]
    | (?<![\w-])--?[A-Za-z][\w-]*                       # --flag
    | \b[A-Za-z](?:\+\+|\#)(?!\w)                       # C++, C#
    | [{UNSPACED}]+
    | (?<![\w).-])-?\d{{1,3}}(?:\ \d{{3}})+(?![\w.,]*\d)       # 1 000 000
    | (?:(?<![\w).-])-)?\d+(?:[.,_']\d+)*{_PART}*%?
    | (?:(?<![\w.)\]])\.(?=[A-Za-z_]))?{_PART}+(?:(?:[.'/-]|::){_PART}++(?!\+\+|\#))*(?:\(\))?
    """,
    re.VERBOSE,
)
_SIGNS = str.maketrans({"’": "'", "‘": "'", "−": "-", "\u2010": "-", "\u2011": "-", "\u02bc": "'"})
_PARTS = re.compile(r"[^\W_]+")
_JOINED = re.compile(r"[a-z]{2,}(?:[A-Z]+[a-z]*)+")  # a name in code: bodyLimit
_PARTS_JOINED = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PLURAL_NAME = re.compile(r"[a-z][A-Z]\w*s$")  # `ListenAddresses` is not `ListenAddress`
_UNSPACED = re.compile(f"[{UNSPACED}]")
_TAG = re.compile(r"^v(?=\d+\.\d)")  # v1.2 is 1.2
_ASKING = re.compile("为什么|什么|时候|怎么|怎样|如何|多[少久长高大远重深快]|哪[里个些]|[吗呢谁]")
_MERELY_ASKING = re.compile(
    r"(?i)\b(how|wie) (?:long|far(?: away)?|fast|quickly|heavy|deep|high|tall|wide|thick|big|large|"
    r"small|old|hot|cold|steep|expensive|lange?|weit|schnell|schwer|tief|hoch|breit|dick|groß|klein|"
    r"alt|teuer)\b|\bdifferences? between\b|\bstands? for\b|\bmeans?(?=\W*$)"
    r"|^\W*(?:please )?(?:compare(?=\b.* (?:and|or|to|with)\b)|(?:describe|explain|list|name|"
    r"show|summari[sz]e)(?= (?:all|each|every|how|the|what|which|why)\b))"
)


def normal(text: str) -> str:
    """Return a text as NFKC, with one kind of apostrophe and one kind of hyphen."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text).translate(_SIGNS)


def words(text: str) -> list[str]:
    """The words of a text as written: `asyncio.wait_for`, `--flag`, `C++`, `1,000` are one each."""
    return WORD.findall(normal(text))


def subject(question: str) -> str:
    """Return a question without words that no answer must have: `compare`, `long` after `how`."""
    return _MERELY_ASKING.sub(r"\1", question)


def terms(text: str) -> list[str]:
    """Return the content words of a text in order: lower case, stemmed, without stop words.

    A compound such as `asyncio.wait_for` becomes itself and then its parts; Chinese, Korean, Thai
    and the like become pairs of characters.
    """
    if text.isupper() and " " in text:
        text = text.lower()
    said = words(text)
    language = language_of(said)
    return [term for word in said for term in terms_of(word, language)]


def language_of(said: Iterable[str]) -> str:
    """Return the language, such as `fr`, that lists most of some words; of several the first."""
    counts = Counter(n for word in said for n in _LANGUAGES.get(word.casefold(), ()))
    return max(_LISTED, key=lambda each: counts[each])


def is_stop_word(word: str, language: str = "") -> bool:
    """Return whether a word says nothing about the subject; in capitals it is a name: WHO, MIT.

    The stop words are those of one language, such as `fr`, or of all if none is given.
    """
    listed = _LISTED[language] if language else STOP_WORDS
    return word.casefold() in listed and not (len(word) > 1 and word.isupper())


@lru_cache(maxsize=1 << 16)
def terms_of(word: str, language: str = "") -> tuple[str, ...]:
    """Return the terms of one word from `words`; none for a stop word."""
    small = _TAG.sub("", word.casefold().removesuffix("()"))
    if _UNSPACED.match(small):
        runs = filter(None, _ASKING.split(small))
        return tuple(run[at : at + 2] for run in runs for at in range(max(1, len(run) - 1)))
    if "'" in small and not small[0].isdigit():
        before, _, after = small.rpartition("'")
        if after in ("s", "re", "ll", "ve", "d", "m"):
            small = before
        elif after == "t":
            return ()
        elif len(before) <= 2:  # French: l'homme, qu'il
            small = after
    cased = small.upper() if word.isupper() else small
    if is_stop_word(cased, language) or not small.strip("_-"):
        return ()
    is_joined = _JOINED.fullmatch(word)
    parts = _PARTS_JOINED.sub(" ", word).lower().split() if is_joined else _PARTS.findall(small)
    if (len(parts) > 1 or small.startswith("--")) and not small[0].isdigit():
        own = [stem(part) for part in parts if not is_stop_word(part, language)]
        # English has nouns such as `to-do`; French asks by `a-t-il`.
        return (small, *own) if own or language != "fr" else ()
    return (small if _PLURAL_NAME.search(word) else stem(small),)


# Suffixes with their replacements, longer ones first.
_ENDINGS = (
    "abilitie ability ibilitie ibility ization>iz isation>iz ational ically>ic ation ment nesse "
    "ness itie ity ally ibly ably able ible ating ated ator ate izing>iz ized>iz izer>iz ize>iz "
    "erring erred ering ered ing ied ier ie er or ed ive>iv al ion ly ful ous ance ence ant ent es "
    "e y"
)
_SUFFIXES = tuple((old, new) for old, _, new in (e.partition(">") for e in _ENDINGS.split()))
_NO_ADVERB = re.compile(
    r"(?:pp|mp|mb|tip|ma|po|[nr]f|\brep|\bfami|\bear|\b\w[aeio]l)ly$"
)  # apply, rally
_OF_VERB = re.compile(r"(?<=\w{5})er(?:y|ie)$")  # delivery, of deliver
_OF_Y = {"y", "ie", "ied", "ier"}
_BRIEF = {"ing", "ed", "er", "es", "e"}
_IRREGULAR = (
    "begin began begun|break broke broken|bring brought|build built|buy bought|catch caught|"
    "child children|choose chose chosen|come came|deal dealt|draw drew drawn|drive drove driven|"
    "eat ate eaten|fall fell fallen|feel felt|fight fought|find found|fly flew flown|foot feet|"
    "forget forgot forgotten|freeze froze frozen|give gave given|go went gone|grow grew grown|"
    "hear heard|hide hid hidden|hold held|index indices|keep kept|know knew known|lead led|"
    "leave left|lend lent|lose lost|man men|matrix matrices|mean meant|meet met|mouse mice|"
    "pay paid|person people|rise rose risen|run ran|see saw seen|seek sought|sell sold|send sent|"
    "shrink shrank shrunk|sing sang sung|sink sank sunk|sleep slept|speak spoke spoken|spend spent|"
    "stand stood|steal stole stolen|stick stuck|swim swam swum|take took taken|teach taught|"
    "tell told|think thought|throw threw thrown|tooth teeth|understand understood|vertex vertices|"
    "wake woke woken|wear wore worn|win won|woman women|write wrote written"
)
_BASES = {form: of.split()[0] for of in _IRREGULAR.split("|") for form in of.split()}

# How British words begin, and American ones; whole nouns; and verbs in -ise, -yse.
_BEGIN = (
    "behaviour behavior|colour color|favour favor|flavour flavor|harbour harbor|honour honor|"
    "labour labor|neighbour neighbor|rumour rumor|defenc defens|licenc licens|offenc offens"
)
_NOUNS = (
    "aluminium aluminum|analogue analog|catalogue catalog|centre center|dialogue dialog|"
    "fibre fiber|grey gray|litre liter|metre meter|programme program|theatre theater|tyre tire"
)
_BRITISH = [tuple(pair.split()) for pair in _BEGIN.split("|")]
_PAIRS = [pair.split() for pair in _NOUNS.split("|")]
_AMERICAN_NOUNS = {one + end: other + end for one, other in _PAIRS for end in ("", "s")}
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
    for british, spelled in _BRITISH:
        if word.startswith(british):
            return spelled + word[len(british) :]
    return word if word == "analyses" else _VERB_WITH_S.sub(r"\1z", word)


def other_spelling(word: str) -> str | None:
    """Return a lower-case word in its American, else in its British spelling; None without one."""
    if (other := american(word)) != word:
        return other
    if word in _BRITISH_NOUNS:
        return _BRITISH_NOUNS[word]
    for british, spelled in _BRITISH:
        if word.startswith(spelled):
            return british + word[len(spelled) :]
    return other if (other := _VERB_WITH_Z.sub(r"\1s", word)) != word else None


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return a lower-case word without a plural's `s`, one English ending, and a doubled letter.

    Irregular forms have the stem of their base, British ones that of the American spelling, names
    with a digit, such as `mke2fs`, none.
    """
    if not word.isalpha():
        return word
    word = _BASES.get(word) or american(word)
    if "ffer" in word[1:]:  # differ, difference, offered: none is of `diff` or `off`
        return word[: word.index("ffer", 1) + 4]
    if len(word) == 5 and word.endswith(("ies", "ied")):  # dries; `dies` is of `die`
        word = f"{word[:2]}y"
    if word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    word = _OF_VERB.sub("", word)
    if _NO_ADVERB.search(word):
        return word[:-1]
    for suffix, put in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= (2 if suffix in _BRIEF else 3):
            word = word[: -len(suffix)] + put
            if suffix in _OF_Y:  # carr, of carry, is not car
                return word
            break
    is_doubled = word[-2:-1] == word[-1] and word[-1] not in "sz"
    return word[:-1] if len(word) > 3 and (is_doubled or word[-1] in "ey") else word
