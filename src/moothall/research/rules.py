"""The extractive form: Plan, Narrate and Evaluate by rules, without a model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain, combinations, islice, zip_longest
from typing import TYPE_CHECKING, Final

from moothall.action import Action
from moothall.research.calling import taking
from moothall.research.citations import fault
from moothall.research.findings import Findings, Narrative, Objective, Passage, ResearchTask
from moothall.research.relevance import RELEVANT, Found, Index, titled
from moothall.research.sentences import UNDERLINED, sentences, subject, terms, words
from moothall.text import one_line

if TYPE_CHECKING:
    from moothall.research.workbench import Workbench

_CITED: Final = 10  # passages that are cited for an objective, at most
_OF_ONE: Final = 4  # how many of them may be from one resource
_QUOTED: Final = 2  # adjacent sentences that are quoted from a passage, at most
_LONGEST_QUOTE: Final = 400
_SOURCES: Final = 3  # an objective with this many resources is well covered
_WITHOUT: Final = 3  # parts of a topic, each without one word, that are searched for at first
_ENDS: Final = re.compile(r"[.!?…:][\"'”’»)\]*_`]*$|[。\uff01\uff1f][」』”’\uff09]*$")
_WORDS: Final = 3  # text with fewer, or without a mark at its end, is part of a list, or code
_MARKUP: Final = re.compile(r"```|\]\(|!\[|<[!/?a-zA-Z]|\[\^|(?: - .*){4}")  # or an index's list
_CLAUSE: Final = re.compile(r"[,;:]\s+|[\uff0c\uff1b\uff1a\u3001]|\n")
_WHOLE: Final = re.compile(r"(?s).*(?=[\s\uff0c\uff1b\uff1a\u3001])")  # words or clauses
_CODE: Final = re.compile(
    r">>> |[({\[:;=]\n[ \t]+|;\n|\n[ \t]*(?:[)}\]]|#|//)"
    r"|^(?:import|from|return|def|class|\$) [^.]*$| = (?!.*\.$)|\w\([^)]*\)$"
)


def plan(researcher: Workbench) -> list[ResearchTask]:
    """Return searches where little is known and reading where more is; objectives take turns."""
    index = Index(researcher.known_passages())
    all = sorted((*researcher.objectives, *researcher.generated), key=lambda each: each.expertise)
    each_wants = [
        _for_objective(researcher, each, index)
        for each in all
        if each.expertise < researcher.target
    ]
    made: list[ResearchTask] = []
    for task in chain.from_iterable(zip_longest(*each_wants)):
        if len(made) == researcher.max_tasks:
            break
        if task is not None and researcher.is_new(task, made):
            made.append(task)
    return made


def _for_objective(
    researcher: Workbench, objective: Objective, index: Index
) -> Iterator[ResearchTask]:
    """Yield tasks that would help with an objective, the most useful first."""
    known = f"expertise {objective.expertise:.2f}"
    searches = (
        ResearchTask(tool, {name: query}, f"{why} ({known}): {objective.topic}")
        for query, why in _queries(objective, index)
        for tool, name in taking(researcher.tools, "query")
    )
    readings = (
        ResearchTask(tool, {name: each.url}, f"read what was found ({known}): {objective.topic}")
        for each in researcher.unread(researcher.max_tasks, objective.topic)
        for tool, name in _reader(researcher.tools, each.url)
    )
    if objective.expertise < 0.5:
        # Two searches for each reading: broader.
        while taken := [*islice(searches, 2), *islice(readings, 1)]:
            yield from taken
    yield from readings
    yield from searches


def _queries(objective: Objective, index: Index) -> Iterator[tuple[str, str]]:
    """Yield queries with reasons: the topic, then parts of it, as one odd word may dominate."""
    topic = objective.topic
    yield topic, "search"
    said = [word for word in words(subject(topic)) if terms(word)]
    weights = {word: max(map(index.weight, terms(word))) for word in said}
    if len(weights) < 3:
        return
    if not index.passages:
        for part in islice(combinations(weights, len(weights) - 1), _WITHOUT):
            yield " ".join(part), "search without one of its words"
        return
    found = [each.passage for each in index.search(topic, _CITED)]
    gap = index.missing(topic, found)
    if 1 < len(gap) < len(weights):
        yield " ".join(gap), "search for the gap"


def _reader(tools: dict[str, Action], url: str) -> Iterator[tuple[str, str]]:
    """Yield the tool that reads a URL: one named after PDF for PDF files, another for the rest."""
    readers = list(taking(tools, "url"))
    is_pdf = url.partition("?")[0].lower().endswith(".pdf")
    yield from [each for each in readers if ("pdf" in each[0].lower()) is is_pdf][:1] or readers[:1]


def narrate(researcher: Workbench) -> Narrative:
    """Return a digest: the sentences that say most about each objective, quoted and cited."""
    index = Index(researcher.known_passages())
    parts = []
    several = len(researcher.objectives) + len(researcher.generated) > 1  # one is the title
    for objective in (*researcher.objectives, *researcher.generated):
        quotes: dict[str, Passage] = {}  # equal quotes cite the first passage
        for found in best(index, objective.topic):
            if quoted := _quote(found.passage, objective.topic, index):
                quotes.setdefault(quoted, found.passage)
        if quotes:
            headed = f"## {one_line(objective.topic, 200)}\n\n" if several else ""
            numbered = [f"- “{each}” [^{researcher.number_of(quotes[each])}^]" for each in quotes]
            parts.append(headed + "\n".join(numbered))
    return researcher.checked("\n\n".join(parts), by_rules=True)


def quoted(researcher: Workbench, passages: list[Passage], topics: list[str]) -> str:
    """Return the sentences of some passages that say most about topics, quoted and cited."""
    index = Index(passages)
    quotes: dict[str, Passage] = {}
    for topic in topics:
        for found in best(index, topic):
            if said := _quote(found.passage, topic, index):
                quotes.setdefault(said, found.passage)
    return "\n".join(f"- “{each}” [^{researcher.number_of(quotes[each])}^]" for each in quotes)


def best(index: Index, topic: str) -> list[Found]:
    """Return the best passages for an objective: at most ten, and four of one resource."""
    kept: list[Found] = []
    of: Counter[str] = Counter()
    for found in index.search(topic):
        page = found.passage.url.partition("#")[0]
        if found.share >= RELEVANT and of[page] < _OF_ONE:
            of[page] += 1
            kept.append(found)
    return kept[:_CITED]


def _quote(passage: Passage, topic: str, index: Index) -> str:
    """Return the sentence that says most about a topic, with the one after it; empty for none."""
    text = passage.text
    spans = sentences(text)
    wanted = index.weights(topic)
    heading = titled(passage).rpartition(" – ")[2]

    def rank(place: int) -> tuple[int, float, int]:
        start, end = spans[place]
        said = text[start:end]
        worth = _worth(wanted, said)
        mark = _ENDS.search(said[-20:])  # words without spaces between them are not counted
        whole = mark and (mark[0][0] in "。\uff01\uff1f" or len(said.split()) >= _WORDS)
        before = text[text.rfind("\n", 0, start) + 1 : start]
        headed = said == heading or "#" in before or UNDERLINED.match(text, end)
        last = headed or said.rstrip("*_")[-1:] in "?\uff1f؟" or _CODE.search(said)
        if (last or not whole) and wanted.keys() >= {*terms(said)}:
            kind = 3  # the topic alone says nothing
        elif last:
            kind = 2
        else:
            kind = 0 if worth else 1 if whole else 3
        return kind, -worth if whole else -worth / 2, place

    for kind, worth, first in sorted(map(rank, range(len(spans)))):
        if kind == 3 or (kind == 2 and not worth):
            break  # nothing is left but headings and code that say nothing about it
        start, *ends = spans[first]
        for _, last in spans[first + 1 : first + _QUOTED]:
            follows = "\n" not in text[ends[0] : last] and _ENDS.search(text, ends[0], last)
            if follows and last - start <= _LONGEST_QUOTE:
                ends.insert(0, last)
        for end in ends:
            quoted = _shortened(text[start:end], wanted)
            # A page's links and images must not become links and images of the report.
            if not _MARKUP.search(quoted) and fault(f"“{quoted}”", text) is None:
                return quoted
    return ""


def _shortened(sentence: str, wanted: dict[str, float]) -> str:
    """Return a sentence in one line; of a long one, the clauses or lines that say most."""
    if len(sentence) > _LONGEST_QUOTE:
        starts = [0, *(found.end() for found in _CLAUSE.finditer(sentence))]
        # Of text without marks, such as a transcript, the words in the middle of a clause.
        amid = (sentence.find(" ", at) + 1 for at in range(200, len(sentence), 200))
        cuts = {at: sentence[at : at + _LONGEST_QUOTE] for at in (*starts, *amid)}
        at = max(cuts, key=lambda at: (_worth(wanted, cuts[at]), at in starts, at == 0, at))
        to_end = at + len(cuts[at]) == len(sentence)
        whole = None if to_end else _WHOLE.match(cuts[at])
        sentence = f"{'… ' * (at > 0)}{whole[0] if whole else cuts[at]}{' …' * (not to_end)}"
    return " ".join(sentence.split())


def _worth(wanted: dict[str, float], text: str) -> float:
    there = {*terms(text)}
    return sum(weight for term, weight in wanted.items() if term in there)


def evaluate(researcher: Workbench) -> Findings:
    """Rate objectives by coverage: the share of an objective's words found, and the sources."""
    index = Index(researcher.known_passages())
    remarks = []
    for objective in (*researcher.objectives, *researcher.generated):
        topic = objective.topic
        found = best(index, topic)
        objective.expertise = _coverage(index, topic, found)
        missing = index.missing(topic, [each.passage for each in found])
        if not found:
            remarks.append(f"nothing relevant was found for “{topic}”")
        elif missing:
            remarks.append(f"no source of “{topic}” has {', '.join(missing[:5])}")
    remark = "; ".join(remarks) or "every objective's words are covered"
    return Findings(researcher.narrative.markdown, remark, list(researcher.generated))


def _coverage(index: Index, topic: str, found: list[Found]) -> float:
    """Return 0 to 1: the shares of words in the best passage and in all, scaled by resources."""
    if not found:
        return 0.0
    wanted = index.weights(topic)
    texts = "\n".join(f"{titled(each.passage)}\n{each.passage.text}" for each in found)
    together = _worth(wanted, texts) / (sum(wanted.values()) or 1.0)
    pages = {each.passage.url.partition("#")[0] for each in found}
    sources = min(len(pages), len({each.passage.sha256 for each in found}))
    share = (max(each.share for each in found) + together) / 2
    return round(share * (0.7 + 0.3 * min(sources / _SOURCES, 1.0)), 2)
