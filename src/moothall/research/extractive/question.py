"""What a question asks for: the kind of thing that answers it, and how that looks in a text."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_LETTERS: Final = r"0-9A-Za-z_\u00c0-\u024f\u0400-\u04ff"
_NO_NAME: Final = rf"(?<![{_LETTERS}.,/:+#-])(?<!version )(?<!release )"
_NUMBER: Final = (
    # No part of a name, a version, a time, an address or a page: `UTF-8`, `3.11.2`, `10:30`, `mp3`.
    rf"{_NO_NAME}[-+]?(?:[$€£]\s?)?\d[\d,_]*(?:\.\d+)?(?:\s?%)?(?![{_LETTERS}]|[.:/]\d)"
    rf"|{_NO_NAME}[-+]?\d+(?:\.\d+)?(?:[kMGT]i?[Bb]?|ms|s|m|h|d|bits?|bytes?)\b"
    r"|\b(?:zero|one(?! of\b)|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|"
    r"hundred|thousand|million|once|twice|single|unlimited|half|third|"
    r"zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|zwölf|einmal|zweimal|"
    r"deux|trois|quatre|cinq|sept|huit|neuf|dix)\b"
    r"|[一二三四五六七八九十百千万]+|\b(?:два|три|четыре|пять|шесть|семь|восемь|девять|десять)\b"
)
_DATE: Final = (
    # No part of a standard's name: `SQL:2008`.
    r"(?<![\w:])(?:1[5-9]|20)\d\d\b|\b\d{1,2}[:.]\d\d\b"
    # `May` and `March` are months beside a number alone: `he may march on`.
    r"|\b(?:Jan(?:uary)?|Feb(?:ruary)?|(?:(?<=\d )|(?<=\d\. ))(?:March|May)"
    r"|(?:March|May)(?=,? \d)|Mar|April|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|"
    r"Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?|Januar|Februar|März|Mai|Juni|Juli|Oktober|Dezember|"
    r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?|[Tt]oday|[Yy]esterday|[Nn]oon|[Mm]idnight)\b"
    r"|\d+[年月日点时]"
)
_CONDITION: Final = (
    r"\b(?:if|when|whenever|unless|until|till|while|after|before|once|as soon as|every|each time|"
    r"wenn|sobald|nachdem|bevor|falls|lorsque|après|avant|quand|когда|если|после)\b"
)
_NAME: Final = r"(?<![.!?]\s)(?<!^)\b[A-Z][\w'’.-]*[a-z](?:\s+(?:[A-Z][\w'’.-]+|de|van|von|of))*"
_PEOPLE: Final = (
    r"\b(?:users?|group|team|maintainers?|developers?|authors?|administrators?|owner|root)\b"
)
_OPTION: Final = r"(?<![\w-])--?[A-Za-z][\w-]*|(?<!\w)/[A-Z]\b"
_IDENTIFIER: Final = (
    r"`[^`\n]+`|\b\w[\w.]*\(\)?|\b[A-Za-z]\w*_\w+|\b[a-z]+[A-Z]\w*|\b[A-Z][a-z0-9]+[A-Z]\w*"
    r"|\b[A-Z][A-Z0-9]{2,}\b|\b[A-Za-z]\w*(?:[.:-]{1,2}\w*[A-Za-z]\w*)+|(?<![\w-])--?[A-Za-z][\w-]*"
    r"|‘[^’\n]+’|\"[^\"\n]{1,40}\"|“[^”\n]{1,40}”"
)
_PATH: Final = (
    r"(?<!\w)[~/][\w.+~-]+(?:/[\w.+*~-]*)*|\b[\w-]+\.[a-z]{1,5}\b|\b\w+/[\w./-]+|`[^`\n]+`"
)
_PLACE: Final = r"\b(?:in|at|on|under|below|near|inside|from|into)\s+(?:the\s+)?[A-Z]\w+"
_REASON: Final = (
    r"\b(?:because|since|so that|due to|in order|as it|as they|therefore|otherwise|reasons?|"
    r"causes?d?|prevents?|avoids?|to (?:avoid|prevent|ensure|allow|make|keep)|"
    r"which (?:means|allows|makes)|"
    r"this (?:means|is|allows|makes)|weil|denn|damit|parce que|car|afin|потому|чтобы)\b"
)
_METHOD: Final = (
    r"\b(?:use|using|used|call|calling|run|running|set|setting|pass|passing|type|add|by|with|can|"
    r"to \w+,|should|must|specify|specifying|enable|option|command|function|method|via|"
    r"verwenden|mit|durch|indem|utiliser|avec|par)\b"
)
_MEANING: Final = (
    r"\b(?:is|are) (?:an?|the|one|used|known|called|defined)\b|\bstands? for\b|\bmeans\b"
    r"|\bmeaning\b"
    r"|\brefers? to\b|\bcalled\b|\bknown as\b|\bdenotes?\b|\bdefined\b|\(\w+[^)]*\)"
    r"|\bconsists? of\b"
    r"|\bist (?:ein|eine|der|die|das)\b|\best (?:un|une|le|la)\b|是"
)
_JUDGEMENT: Final = (
    r"\b(?:not|never|no|cannot|can|may|must|should|only|always|required|allowed|permitted|forbidden|"
    r"supported|default|optional|necessary|possible|impossible|mandatory|recommended|unsupported|"
    r"automatically|instead|n[o']t|kann|darf|muss|nicht|kein|peut|doit|pas)\b|n['’]t\b"
)
_MANY: Final = (
    r"many|much|large|big|long|often|old|fast|high|deep|wide|heavy|tall|far|small|quickly|late|cold|"
    r"hot|thick|steep|expensive|frequently|big"
)
_MEASURES: Final = (
    r"numbers?|limits?|sizes?|ports?|percentage|percent|share|maximum|minimum|amount|depth|length|"
    r"height|weight|width|speed|price|cost|fee|age|distance|temperature|capacity|range|"
    r"timeout|interval|duration|frequency|rate|quantity|population|area|salary"
)
_PLACES: Final = r"files?|director(?:y|ies)|folders?|paths?|places?"
_NAMED: Final = (
    r"functions?|methods?|class|classes|modules?|commands?|tools?|programs?|variables?|directives?|"
    r"settings?|parameters?|attributes?|keywords?|statements?|signals?|macros?|types?|fields?|roles?|"
    r"tags?|headers?|exceptions?|constants?|interfaces?|calls?|library|libraries|packages?|string|"
    r"keys?|properties|property|decorators?|operators?|environment variables?|"
    r"configuration|clauses?"
)


class Kind(NamedTuple):
    """A kind of question, and what its answers have in the text."""

    name: str
    asks: re.Pattern[str]
    answers: re.Pattern[str]
    classes: re.Pattern[str]

    def is_class(self, word: str) -> bool:
        """Return whether a word names the kind, such as `option`: an answer need not have it."""
        return bool(self.classes.match(word))


def _kind(name: str, asks: str, answers: str, classes: str = r"(?!)") -> Kind:
    flags = re.IGNORECASE
    loose = 0 if name in ("name", "code", "path", "date") else flags
    return Kind(
        name,
        re.compile(asks, flags),
        re.compile(answers, loose),
        re.compile(rf"(?:{classes})$", flags),
    )


_WHICH: Final = r"\b(?:which|what(?! (?:is|are|was|were) an? )|whose|name the)\s+"
KINDS: Final = (
    _kind(
        "number",
        rf"\bhow (?:{_MANY})\b|\bwie ?(?:viele?|lange?|oft|hoch|weit|groß|alt|schwer)\b|\bcombien\b"
        rf"|{_WHICH}(?:is |are |was )?(?:the )?(?:[\w-]+ ){{0,3}}(?:{_MEASURES})\b"
        r"|\bсколько\b|多[少久长高大远重深快]|何番",  # noqa: RUF001
        _NUMBER,
        _MEASURES,
    ),
    _kind(
        "date",
        rf"\bwhen (?:was|were|did|will)\b|{_WHICH}(?:year|date|day|month|century|time)\b"
        r"|\bwann (?:wurde|war|ist)\b|\bquand (?:est|a|fut)\b|什么时候|いつ",
        _DATE,
        "year|date|day|month|century",
    ),
    _kind(
        "version",
        rf"{_WHICH}(?:[\w-]+ ){{0,2}}(?:version|release)s?\b",
        r"\b\d+(?:\.\w+)+\b|\bv?\d+\b",
        "versions?|releases?",
    ),
    _kind(
        "option",
        rf"{_WHICH}(?:[\w-]+ ){{0,3}}(?:options?|flags?|switch(?:es)?)\b",
        _OPTION,
        "options?|flags?|switch(?:es)?",
    ),
    _kind("place", r"\bwhere\b|\bwo\b|\boù\b", f"{_PATH}|{_PLACE}", _PLACES),
    _kind(
        "path",
        rf"{_WHICH}(?:[\w-]+ ){{0,3}}(?:{_PLACES})\b",
        f"{_PATH}|{_PLACE}",
        _PLACES,
    ),
    _kind("code", rf"{_WHICH}(?:[\w-]+ ){{0,3}}(?:{_NAMED})\b", f"{_IDENTIFIER}|{_PATH}", _NAMED),
    _kind(
        "name",
        r"\b(?:who|whom|whose|by whom)\b|\bwer\b|\bwem\b|\bqui\b|\bкто\b|谁",  # noqa: RUF001
        f"{_NAME}|{_PEOPLE}",
    ),
    _kind(
        "reason",
        r"\bwhy\b|\bwhat (?:is the )?(?:reason|purpose)\b|\bwarum\b|\bpourquoi\b|为什么|почему",
        _REASON,
        "reason|purpose",
    ),
    _kind("condition", r"\bwhen\b|\bwann\b|\bquand\b|когда", f"{_CONDITION}|{_DATE}"),
    _kind(
        "meaning",
        r"\bwhat (?:is|are) (?:an? )?[\w.-]+(?: [\w.-]+){0,2}\?|stands? for|\bmean(?:ing)?\b"
        r"|\bwas (?:ist|sind)\b",
        _MEANING,
    ),
    _kind(
        "method",
        r"\bhow\b|\bwie\b|\bcomment\b|\bкак\b",  # noqa: RUF001
        f"{_METHOD}|{_IDENTIFIER}",
    ),
    _kind(
        "judgement",
        r"^\W*(?:is|are|does|do|did|can|may|should|must|has|have|will|was|were|could|ist|sind|kann|"
        r"darf|muss|est-ce)\b",
        _JUDGEMENT,
    ),
    _kind("any", r"", r"(?!)"),
)
EXACT: Final = frozenset(("number", "date", "version", "option", "path", "code", "name"))
"""Kinds whose answers always look so."""
STRONG: Final = EXACT | {"place"}
"""Kinds whose answers look like no other text, if a place is a file: it may be a room as well."""


def kind_of(question: str) -> Kind:
    """Return what a question asks for; the kind `any` if that cannot be told."""
    fitting = [(found, each) for each in KINDS if (found := each.asks.search(question))]
    strong = [each for each in fitting if each[1].name in STRONG]
    # Of `which function opens a file`, what follows `which` first is asked for.
    return min(strong or fitting[:1], key=lambda each: each[0].end())[1]
