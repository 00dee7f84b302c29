"""The extractive form: Plan, Narrate and Evaluate by rules, without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, combinations, islice, zip_longest
from math import log
from typing import TYPE_CHECKING, Final

from moothall import Action
from moothall.build import Words, one_line
from moothall.research.citations.footnotes import MIN_COPIED_CHARS
from moothall.research.extractive.question_words import QuestionWords, title_of_passage
from moothall.research.extractive.ranker import ExtractiveAnswer, answer
from moothall.research.findings import (
    Findings,
    Narrative,
    Objective,
    Passage,
    ResearchTask,
    is_place,
)
from moothall.research.resource_pool import ResourcePool, passages_of
from moothall.research.tool_calls import one_text_tools
from moothall.research.writing.report_frame import lacks_sentence, phrase

if TYPE_CHECKING:
    from moothall.research.workbench import Workbench

# Parts of a topic, each without one word, that are searched for at first.
_MAX_SHORTENED_TOPICS: Final = 3
_NEAREST_PASSAGES: Final = 10  # passages that a later search takes further words from
_FEEDBACK_WORDS: Final = 3  # such words of one search
_MAX_COPIES: Final = 3  # of a passage that are cited beside it
_TOPIC_WORDS: Final = 3  # words of the topic beside them


def plan(bench: Workbench) -> list[ResearchTask]:
    """Return searches where little is known and reading where more is; objectives take turns.

    One whose answer is sure, or at the target, needs no more.
    """
    passages = bench.known_passages()
    objectives = sorted((*bench.objectives, *bench.generated), key=lambda each: each.expertise)
    task_lists = [
        _tasks_for(bench, each, passages)
        for each in objectives
        if each.expertise < bench.target
        and not answer(_passages_for(bench, each), each.topic).is_sure
    ]
    tasks: list[ResearchTask] = []
    for task in chain.from_iterable(zip_longest(*task_lists)):
        if len(tasks) == bench.max_tasks:
            break
        if task is not None and bench.is_new(task, tasks):
            tasks.append(task)
    return tasks


def _tasks_for(
    bench: Workbench, objective: Objective, passages: list[Passage]
) -> Iterator[ResearchTask]:
    """Yield tasks that would help with an objective, the most useful first."""
    searches = (
        ResearchTask(tool, {name: query}, f"{reason}: {objective.topic}", objective=objective.topic)
        for query, reason in _queries(objective, passages)
        for tool, name in one_text_tools(bench.tools, "query")
    )
    readings = (
        # What is read whole is for all of them.
        ResearchTask(tool, {name: each.url}, f"read what was found: {objective.topic}")
        for each in bench.unread(bench.max_tasks, objective.topic)
        for tool, name in _reading_tools(bench.tools, each.url)
    )
    if objective.expertise < 0.5:
        # Two searches for each reading: broader.
        while tasks := [*islice(searches, 2), *islice(readings, 1)]:
            yield from tasks
    yield from readings
    yield from searches


def _queries(objective: Objective, passages: list[Passage]) -> Iterator[tuple[str, str]]:
    """Yield queries with reasons: the topic, then parts of it, as one odd word may dominate."""
    topic = objective.topic
    yield topic, "search"
    question = QuestionWords(topic, passages)
    weights: dict[str, float] = {}  # of each word, as written
    for term, word in question.words_by_term.items():
        weights[word] = max(weights.get(word, 0.0), question.weights[term])
    if len(weights) < 3:
        return
    if not passages:
        for part in islice(combinations(weights, len(weights) - 1), _MAX_SHORTENED_TOPICS):
            yield " ".join(part), "search without one of its words"
        return
    best_passages = [each.passage for each in question.best(_NEAREST_PASSAGES)]
    gap_words = question.missing_words(best_passages)
    if 1 < len(gap_words) < len(weights):
        yield " ".join(gap_words), "search for the gap"
    rarest = sorted(weights, key=lambda word: -weights[word])[:_TOPIC_WORDS]
    other_words = _other_words(question, passages, best_passages)
    for further_words in (
        other_words[:_FEEDBACK_WORDS],
        other_words[_FEEDBACK_WORDS : 2 * _FEEDBACK_WORDS],
    ):
        if further_words:
            yield " ".join((*rarest, *further_words)), "search with words of what is nearest"
    for heading in dict.fromkeys(
        title_of_passage(each).rpartition(" – ")[2] for each in best_passages[:_FEEDBACK_WORDS]
    ):
        if Words(heading).terms() and not is_place(heading):
            yield " ".join((*rarest[:1], heading)), "search by the heading of what is nearest"


def _other_words(
    question: QuestionWords, passages: list[Passage], nearest: list[Passage]
) -> list[str]:
    """Return words, not of the topic, that the nearest passages have in common and few others."""
    counts: Counter[str] = Counter()
    for rank, each in enumerate(nearest):
        for word in dict.fromkeys(map(str.lower, Words(each.text))):
            if word.isalpha() and len(word) > 2 and not question.terms_of_word(word):
                counts[word] += _NEAREST_PASSAGES - rank
    frequency = Counter(word for each in passages for word in {*map(str.lower, Words(each.text))})
    scores = {
        word: count * log(1 + len(passages) / frequency[word])
        for word, count in counts.items()
        if question.language.terms_of(word)
    }
    return sorted(scores, key=lambda word: -scores[word])


def _reading_tools(tools: dict[str, Action], url: str) -> Iterator[tuple[str, str]]:
    """Yield the tool that reads a URL: one named after PDF for PDF files, another for the rest."""
    readers = list(one_text_tools(tools, "url"))
    is_pdf = url.partition("?")[0].lower().endswith(".pdf")
    yield from [each for each in readers if ("pdf" in each[0].lower()) is is_pdf][:1] or readers[:1]


def narrate(bench: Workbench) -> Narrative:
    """Return the sentences that answer each objective, quoted and cited, grouped by page."""
    parts = []
    has_several = len(bench.objectives) + len(bench.generated) > 1  # one is the title
    for objective in (*bench.objectives, *bench.generated):
        passages = _passages_for(bench, objective)
        result = answer(passages, objective.topic)
        if result.is_found:
            heading = [f"## {one_line(objective.topic, 200)}"] if has_several else []
            topic = objective.topic
            maybe_text = f"{lacks_sentence(result.missing, topic)}{phrase('maybe', topic)}"
            doubt = [] if result.is_sure else [maybe_text]
            parts.append("\n\n".join((*heading, *doubt, *_quotes_by_page(bench, result, passages))))
    return bench.check_narrative("\n\n".join(parts), by_rules=True)


def _quotes_by_page(
    bench: Workbench, result: ExtractiveAnswer, passages: tuple[Passage, ...]
) -> Iterator[str]:
    """Yield each page's title with its quotes; pages with the same text are one source."""
    pages: dict[str, list[str]] = {}
    copies: dict[str, list[Passage]] = {}
    for passage in dict.fromkeys(passages):
        copies.setdefault(passage.sha256, []).append(passage)
    for each in result.quotes:
        title = one_line(each.passage.page if title_of_passage(each.passage) else "", 120)
        quotes = pages.setdefault(title or one_line(each.passage.url.partition("#")[0], 120), [])
        copied_passages = (
            copies[each.passage.sha256] if len(each.passage.text) >= MIN_COPIED_CHARS else []
        )
        same_passages = dict.fromkeys((each.passage, *copied_passages[:_MAX_COPIES]))
        notes = "".join(f"[^{bench.number_of(passage)}^]" for passage in same_passages)
        quotes.append(f"- {each.markdown} {notes}")
    for title, quotes in pages.items():
        yield f"### {title}"
        yield "\n".join(quotes)


def _passages_for(bench: Workbench, objective: Objective) -> tuple[Passage, ...]:
    """Return what was read for an objective, or whole: that of others changes no answer."""
    changes = bench.progress.changes
    pool = ResourcePool(each for each in changes if each.objective in ("", objective.topic))
    changed_pool = ResourcePool(changes)
    for each in bench.resources.get_all():  # of an iteration that was cut off
        if changed_pool.find(each.url) is None:
            pool.add(each)
    return tuple(
        passage for each in pool.get_all() if each.visited for passage in passages_of(each)
    )


def quoted_sentences(bench: Workbench, passages: list[Passage], topics: list[str]) -> str:
    """Return the sentences of some passages that answer topics, quoted and cited."""
    quotes: dict[str, Passage] = {}
    for result in (answer(tuple(passages), topic) for topic in topics):
        for each in result.quotes if result.is_found else ():
            quotes.setdefault(each.markdown, each.passage)
    return "\n".join(f"- {each} [^{bench.number_of(quotes[each])}^]" for each in quotes)


def evaluate(bench: Workbench) -> Findings:
    """Rate objectives by how likely the first quote answers each."""
    remarks = []
    bench.progress.estimated = True
    for objective in (*bench.objectives, *bench.generated):
        result = answer(_passages_for(bench, objective), objective.topic)
        objective.expertise = round(result.likelihood, 2) if result.is_found else 0.0
        topic = f"“{one_line(objective.topic, 200)}”"
        missing_text = f": no source has {', '.join(result.missing[:5])}" if result.missing else ""
        if not result.is_found:
            remarks.append(f"not found: {topic}{missing_text}")
        elif not result.is_sure:
            remarks.append(f"the answer to {topic} may be among the quotes{missing_text}")
    remark = "; ".join(remarks) or "each quote has most words of its objective"
    return Findings(bench.narrative.markdown, remark, list(bench.generated))
