"""What an answer must have beside the thing that is asked for, and what answers nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import Final, NamedTuple

from moothall.foundation.text.terms import terms, terms_of
from moothall.research.extractive.question import Kind

# Who wrote it: the verbs of a question, and one of those that must then stand beside a name.
_WROTE: Final = (
    r"wrote|written(?! (?:(?:as|to|into|out|back|on)\b|in \D))|writers?|author(?:s|ed|ship)?|"
    r"creat(?:e[sd]?|ors?)|develop(?:ed|ers?)|"
    r"design(?:ed|ers?)|invent(?:ed|ors?)|found(?:ed|ers?)|initiat(?:ed|ors?)|started|beg[au]n|"
    r"construct(?:ed|ors?)|propos(?:ed|ers?)|contribut(?:e[sd]?|ors?)|implement(?:ed|ers?)|made|"
    r"original(?:ly)?|originated|work of|(?:ge)?schrieben|schrieb|autor(?:in|en)?|écrit|auteure?s?"
)
_KEEPS: Final = r"maintain(?:s|ed|ers?|ing)?|caretakers?|in charge|responsible"
_APPEARED: Final = (
    r"releas(?:e[sd]?|ing)|publish(?:es|ed)?|publication|appear(?:s|ed)?|launch(?:ed)?|"
    r"announc(?:e[sd]?|ement)|introduc(?:e[sd]?|tion)|ship(?:s|ped)|issued|came out|since|forked|"
    r"started|founded|born|written|created|history"
)
_BEGAN: Final = (
    r"(?:releas|publish|launch|announc|introduc|creat|found|invent|fork)ed|begun|written|born"
)
VERSION: Final = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+)+)(?![.\w]*\d)")


def _any(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?i)\b(?:{words})\b")


_MAKES: Final = _any(_WROTE)
MADE: Final = _any("wrote|written|made|created|developed|designed|authors?|creators?")
_VERBS: Final = {
    "name": (
        (_any(_KEEPS), _any(f"{_KEEPS}|{_WROTE}")),
        (_MAKES, re.compile(rf"(?i)\b(?:{_WROTE}|by)\b|@")),
    ),
    "date": ((_any(_BEGAN), _any(f"{_APPEARED}|{_BEGAN}|began|beginning|invention|creation")),),
}
_AUTHORS: Final = frozenset(terms("author authors credits history maintainers founders"))
_FIRST: Final = _any("first|initial(?:ly)?|original(?:ly)?|started|beg[au]n|founded|born|history")
_OF_WHAT: Final = re.compile(
    r"(?i)\b(?:author|creator|inventor|founder|developer|designer|maintainer|writer)s? of\s+"
    r"((?:[^\s.,;:]+\s*){1,6})"
)
_YEAR: Final = re.compile(r"(?<![\w:])(?:1[5-9]|20)\d\d\b")
# What was introduced in a version is dated by it.
_CHANGED: Final = re.compile(r"(?i)\b(?:introduc|add|remov|deprecat|dropp)ed\b")
_RELEASE: Final = re.compile(
    rf"{_YEAR.pattern}|\b(?i:versions?|releases?|since|in) [a-z]?\d+(?:\.\d+)+"
)
_COSTS: Final = re.compile(r"(?i)\bhow much\b.*\bcosts?\b")
# A sum in a currency, or “free”.
_MONEY: Final = re.compile(
    r"\p\s?\d|\d[\d.,]*\s?(?:\p|[A-Z]{3}\b|(?i:(?:US )?(?:dollars?|euros?|pounds?|francs?|crowns?|"
    r"yen|rupees?|cents?)\b))|\b[A-Z]{3}\s?\d|\b(?i:free|gratis|no charge)\b".replace(
        r"\p", "[$€£¥₹]"
    )
)
_COUNTED: Final = re.compile(
    r"(?i)\bhow many (?:of (?:the |its )?)?(.+?)(?:\s(?:is|are|was|were|does|do|did|can|could|may|"
    r"might|must|should|will|would|has|have|had|of|in|on|at|per|from|with|that|which|to)\b|\?|$)"
)
_OBJECT: Final = re.compile(r"(?i)\b(?:which|what) (?:[\w-]+ ){1,3}of (?:the )?([\w.+-]+)")
# Somebody, or a company: two words, initials, or what stands after `by`.
_SOMEBODY: Final = re.compile(
    r"\b(?:[A-Z]\.[ -]?)+[A-Z][\w'’-]+|\b[Bb]y\s+(?:the\s+)?[A-Z][\w'’-]+"
    r"|(?!(?:The|This|These|An?|In|On|For|If|When|We|You|It|As|At|To|Of|By|And|But|See|Before|After|"
    r"Since|While|Note|Each|Every|All|Some|Any|With|From|GNU|Version|Section|Chapter|Appendix) )"
    r"\b[A-Z][\w'’-]*[a-z](?:\s+(?:[A-Z]\.|de|d[aeo]|van|von|der|of(?= [A-Z])|[A-Z][\w'’-]+))+"
    r"|[\w.+-]+@\w[\w.-]+\.\w+|\b[A-Z][\w'’-]*[a-z](?=\s+(?:has |had |first |originally )?"
    r"(?:wrote|written|created|developed|designed|invented|founded|started|made)\b)"
)
_LICENCE: Final = re.compile(
    r"(?i)\blicen[cs]|\bcopyright|\bcopyleft|\blegal|\bwarrant|\bliab|\b(?:re)?distribut|\bpermi|"
    r"\bmay I\b|\bfree software\b|\bcommercial|\btrademark|\b[AL]?GPL|\blizenz|\burheber|\bhaft|"
    r"\bdroits?\b"
)
# A section that is a licence; `License keys` and `Copying files` are none.
_LICENSED: Final = re.compile(
    r"(?i)\b(?:general|public|documentation|mit|bsd|apache|artistic|creative commons|software|"
    r"zlib|mozilla|eclipse)(?: v?[\d.]+| \w+)? licen[cs]e\b"
    r"|(?:^|[–/] ?)(?:(?:the |software )?licen[cs]e(?:s|\.\w+)?|copying(?:\.\w+)?|copyright"
    r"(?: (?:notice|and licen[cs]e)s?)?|warranty|legal notices?)$"
)
_BOILERPLATE: Final = re.compile(
    r"(?i)\bcopyright\s*(?:\(c\)|©|\d|notice|holder|.{0,3}by\b)|©|\ball rights reserved\b"
    r"|\bpermission is (?:hereby )?granted\b|\bwithout (?:even |any )*(?:the )?(?:implied )?warrant"
    r"|\bmerchantability\b|\bfitness for a particular\b|\bin no event shall\b|\bsublicen[cs]e\b"
    r"|\bredistribut\w+ (?:it and|and use)\b|\bunder the terms of the\b.{0,60}\blicen[cs]e\b"
    r"|\bwrite to the free software foundation\b|\balong with (?:this program|\w+); if not\b"
    r"|\b(?:cover texts?|invariant sections?)\b|\bmodified version\b.*\b(?:title page|licen[cs]e)\b"
    r"|\bsections? entitled\b.*\b(?:history|document|endorsements)\b"
)
_CHANGES: Final = re.compile(
    r"(?i)/(?:change-?logs?|changes|news|release[_-]?notes|whats-?new)(?:[._-][^/#]*)?(?:#|$)"
    r"|/(?:relnotes|whatsnew)/[^/]*$"
)
_CONTENTS: Final = re.compile(r"(?:\.[ \t]?){5,}\s*(?:\d|$)")
_REFERENCES: Final = re.compile(r"(?:[\w.+-]+\(\d\w*\)[\W_]*)+")  # what `SEE ALSO` lists


class Needed(NamedTuple):
    """What must stand beside the thing asked for, if anything."""

    thing: re.Pattern[str] | None  # what it must be, if not all of its kind
    verb: re.Pattern[str] | None  # of who wrote it: `author`, `by`
    is_of_authors: bool  # of who wrote or maintains it
    is_first: bool  # of when it first appeared
    about: frozenset[str]  # the words of the question, but for its verb
    counted: frozenset[str]  # of how many files: `files`
    named: frozenset[str]  # of which option of curl: `curl`; near it, or above it
    object: frozenset[str]  # the same, if it stands after `of`

    def is_headed(self, said: str, above: Set[str]) -> bool:
        """Return whether it names somebody below a heading such as `Authors`."""
        return self.is_under(above) and bool(_SOMEBODY.search(said))

    def is_under(self, above: Set[str]) -> bool:
        """Return whether a heading such as `Authors` says what the verb asks."""
        return self.is_of_authors and not _AUTHORS.isdisjoint(above)

    def counts(self, near: Set[str]) -> bool:
        """Return whether what is counted stands there, if anything is."""
        return not self.counted or not self.counted.isdisjoint(near)

    def is_met(self, beside: str, near: Set[str], above: Set[str]) -> bool:
        """Return whether it stands in the words `beside`, in terms `near`, or in headings."""
        if self.verb and not self.verb.search(beside) and not self.is_under(above):
            return False
        if self.is_first and not _FIRST.search(beside):
            return False
        # `the author of sh` is not that of Bash
        of = [each[1] for each in _OF_WHAT.finditer(beside)] if self.thing is _SOMEBODY else []
        if of and all(self.about.isdisjoint(terms(each)) for each in of):
            return False
        around = near | above
        return self.named <= around


def needed(question: str, kind: Kind, names: Sequence[str]) -> Needed:
    """Return what an answer of a question must have."""
    pairs = _VERBS.get(kind.name, ())
    verb = next((answers for asks, answers in pairs if asks.search(question)), None)
    version = VERSION.search(question)
    if verb and version and kind.name == "date":  # `2022-04-10: v1.0.26`
        verb = re.compile(rf"{verb.pattern}|(?<![\d.]){re.escape(version[1])}(?![.\w]*\d)")
    found = _COUNTED.search(question)
    # Of `how many commits`, its last word is counted: `client processes`.
    counted = frozenset(terms_of(found[1].split()[-1])) if found and found[1].split() else None
    of = _OBJECT.search(question)
    own = terms_of(of[1]) if of and kind.name in ("option", "code", "path", "version") else []
    thing = {"name": _SOMEBODY, "date": _YEAR}.get(kind.name) if verb else None
    if kind.name == "number" and _COSTS.search(question):
        thing = _MONEY
    is_first = thing is _YEAR and bool(_any("first|originally").search(question))
    if thing is _YEAR and _CHANGED.search(question):
        thing = _RELEASE
    about = frozenset(terms(_MAKES.sub("", question)))
    named = frozenset((*names[:1], *own[:1]))
    of_authors = thing is _SOMEBODY and not _any("found(?:ed|er)|made|started").search(question)
    counts = counted or frozenset()
    return Needed(thing, verb, of_authors, is_first, about, counts, named, frozenset(own[:1]))


def asks_for_licence(question: str) -> bool:
    """Return whether a question is about a licence, a copyright or what one may do."""
    return bool(_LICENCE.search(question))


def is_licence(title: str, said: str = "") -> bool:
    """Return whether a section is a licence, or a sentence is of a licence or copyright notice."""
    return bool(_LICENSED.search(title) or _BOILERPLATE.search(said))


def is_contents(said: str) -> bool:
    """Return whether it leads elsewhere only: `Introduction ..... 3`, `ls(1), cp(1)`."""
    return bool(_CONTENTS.search(said) or _REFERENCES.fullmatch(said.strip("*_`[ \n")))


def is_of_changes(url: str) -> bool:
    """Return whether a page says what was changed, release by release: `changelog.gz`, `NEWS`."""
    return bool(_CHANGES.search(url))
