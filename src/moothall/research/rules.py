"""The extractive form: Plan, Narrate and Evaluate by rules, without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, combinations, islice, zip_longest
from typing import TYPE_CHECKING, Final

from moothall.actions import Action
from moothall.foundation.text import one_line
from moothall.foundation.text.terms import subject, terms, terms_of, words
from moothall.research.calling import taking
from moothall.research.extractive.answering import answer
from moothall.research.findings import (
    Findings,
    Narrative,
    Objective,
    Passage,
    ResearchTask,
    is_place,
)
from moothall.research.pool import ResourcePool, passages_of
from moothall.research.relevance import Index, titled

if TYPE_CHECKING:
    from moothall.research.workbench import Workbench

_SURE: Final = 0.97  # a likelihood that counts as certain: the rules never give more than 0.98
_SOURCES: Final = 3  # an objective with this many resources is well covered
_WITHOUT: Final = 3  # parts of a topic, each without one word, that are searched for at first
_NEAREST: Final = 10  # passages that a later search takes further words from
_FEEDBACK: Final = 3  # such words of one search
_KEPT: Final = 3  # words of the topic beside them


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
    searches = (
        ResearchTask(tool, {name: query}, f"{why}: {objective.topic}", objective=objective.topic)
        for query, why in _queries(objective, index)
        for tool, name in taking(researcher.tools, "query")
    )
    readings = (
        # What is read whole is for all of them.
        ResearchTask(tool, {name: each.url}, f"read what was found: {objective.topic}")
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
    found = [each.passage for each in index.search(topic, _NEAREST)]
    gap = index.missing(topic, found)
    if 1 < len(gap) < len(weights):
        yield " ".join(gap), "search for the gap"
    rarest = sorted(weights, key=lambda word: -weights[word])[:_KEPT]
    others = _other_words(index, topic, found)
    for further in (others[:_FEEDBACK], others[_FEEDBACK : 2 * _FEEDBACK]):
        if further:
            yield " ".join((*rarest, *further)), "search with words of what is nearest"
    for heading in dict.fromkeys(titled(each).rpartition(" – ")[2] for each in found[:_FEEDBACK]):
        if terms(heading) and not is_place(heading):
            yield " ".join((*rarest[:1], heading)), "search by the heading of what is nearest"


def _other_words(index: Index, topic: str, nearest: list[Passage]) -> list[str]:
    """Return words, not of the topic, that the nearest passages have in common and few others."""
    own = {*terms(topic)}
    counts: Counter[str] = Counter()
    written: dict[str, str] = {}
    for place, each in enumerate(nearest):
        for word in dict.fromkeys(words(each.text)):
            term = terms_of(word)[-1:]
            if term and word.isalpha() and len(word) > 2 and term[0] not in own:
                written.setdefault(term[0], word)
                counts[term[0]] += _NEAREST - place
    worth = {term: count * index.weight(term) for term, count in counts.items()}
    return [written[term] for term in sorted(worth, key=lambda term: -worth[term])]


def _reader(tools: dict[str, Action], url: str) -> Iterator[tuple[str, str]]:
    """Yield the tool that reads a URL: one named after PDF for PDF files, another for the rest."""
    readers = list(taking(tools, "url"))
    is_pdf = url.partition("?")[0].lower().endswith(".pdf")
    yield from [each for each in readers if ("pdf" in each[0].lower()) is is_pdf][:1] or readers[:1]


def narrate(researcher: Workbench) -> Narrative:
    """Return the sentences that answer each objective, quoted and cited, the best first."""
    parts = []
    several = len(researcher.objectives) + len(researcher.generated) > 1  # one is the title
    for objective in (*researcher.objectives, *researcher.generated):
        found = answer(_passages_for(researcher, objective), objective.topic)
        if found.is_found:
            headed = f"## {one_line(objective.topic, 200)}\n\n" if several else ""
            cited = [f"- {e.shown} [^{researcher.number_of(e.passage)}^]" for e in found.quotes]
            parts.append(headed + "\n".join(cited))
    return researcher.checked("\n\n".join(parts), by_rules=True)


def _passages_for(researcher: Workbench, objective: Objective) -> tuple[Passage, ...]:
    """Return what was read for an objective, and whole pages.

    So the passages that searches for other objectives bring do not change its answer.
    """
    changes = researcher.progress.changes
    found = ResourcePool(e for e in changes if e.objective in ("", objective.topic))
    counted = ResourcePool(changes)
    for each in researcher.resources.get_all():  # of an iteration that was cut off
        if counted.find(each.url) is None:
            found.add(each)
    return tuple(
        passage for each in found.get_all() if each.visited for passage in passages_of(each)
    )


def quoted(researcher: Workbench, passages: list[Passage], topics: list[str]) -> str:
    """Return the sentences of some passages that answer topics, quoted and cited."""
    quotes: dict[str, Passage] = {}
    for found in (answer(tuple(passages), topic) for topic in topics):
        for each in found.quotes if found.is_found else ():
            quotes.setdefault(each.shown, each.passage)
    return "\n".join(f"- {each} [^{researcher.number_of(quotes[each])}^]" for each in quotes)


def evaluate(researcher: Workbench) -> Findings:
    """Rate objectives by how likely what is quoted answers them, and by its sources."""
    remarks = []
    researcher.progress.estimated = True
    for objective in (*researcher.objectives, *researcher.generated):
        found = answer(_passages_for(researcher, objective), objective.topic)
        pages = {each.passage.url.partition("#")[0] for each in found.quotes}
        sources = min(len(pages), len({each.passage.sha256 for each in found.quotes}))
        share = 0.7 + 0.3 * min(sources / _SOURCES, 1.0)
        objective.expertise = round(min(found.probability / _SURE, 1.0) * share, 2)
        if not found.is_found:
            lacking = f": no source has {', '.join(found.missing[:5])}" if found.missing else ""
            remarks.append(f"no answer to “{objective.topic}” was found{lacking}")
        elif found.missing:
            remarks.append(f"no source of “{objective.topic}” has {', '.join(found.missing[:5])}")
    remark = "; ".join(remarks) or "every objective is answered"
    return Findings(researcher.narrative.markdown, remark, list(researcher.generated))
