"""What stands around a report's narrative: how sure it is, its sources, and how it came about."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import suppress
from decimal import Decimal
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from moothall.foundation.errors import UnknownPrice
from moothall.foundation.text import counted, one_line
from moothall.foundation.text.terms import language_of, words
from moothall.models.protocol import Usage
from moothall.models.wrappers.prices import Prices
from moothall.research.findings import Citation, Passage, Progress
from moothall.research.writing.verbatim import as_text

if TYPE_CHECKING:
    from moothall.budget.amounts import PriceList

_PHRASES: Final[dict[str, dict[str, str]]] = json.loads(
    files("moothall.research.writing").joinpath("frame.json").read_text(encoding="utf-8")
)
_NOTES: Final = 12  # that are shown
_SIGNS: Final = re.compile(r"\A[\W_]+")
_BEGINNING: Final = 60  # characters of a passage


def phrase(name: str, topic: str) -> str:
    """Return what a report says of a topic, in the language of the topic, else in English."""
    phrases = _PHRASES.get(language_of(words(topic)), _PHRASES["en"])
    return phrases[name].replace("{topic}", as_text(topic))


def how_sure(progress: Progress, citations: list[Citation]) -> str:
    """Return how far the sources support a model's report, and what they do not answer."""
    counts = _labels(citations)
    total = sum(counts.values()) + len(progress.unsupported) + progress.uncited
    pages = counted(len({each.passage.url.partition("#")[0] for each in citations}), "source")
    holds, judged_by = counts["supported"], ", as a model judged" if _is_judged(citations) else ""
    if not total:
        return ""
    if not citations:
        summary = "no source supports it"
    elif holds == total:
        summary = f"{counted(total, 'sentence')}, supported by {pages}{judged_by}"
    elif judged_by or holds:
        summary = f"{holds} of {counted(total, 'sentence')} supported by {pages}{judged_by}"
        summary += "; the others are marked"
    else:
        summary = f"nobody has judged whether it follows from {pages}"
    missing = "; ".join(map(as_text, progress.unanswered[:_NOTES]))
    return f"*How sure: {summary}.{f' Not answered: {missing}.' if missing else ''}*"


def below_answer(narrative: str, line: str) -> str:
    """Return a narrative with a line below its first paragraph, or above it if it has none."""
    first, gap, rest = narrative.partition("\n\n")
    if first.endswith(":") or first.startswith(("#", "|", "- ", "* ", ">", "`", "1.")):
        return f"{line}\n\n{narrative}"
    return f"{first}\n\n{line}{gap}{rest}"


def _labels(citations: list[Citation]) -> Counter[str]:
    """Return how many sentences have each label."""
    labels = {e.sentence: e.support.label for e in citations if e.support is not None}
    return Counter[str](labels.values())


def _is_judged(citations: list[Citation]) -> bool:
    return any(each.support is not None and each.support.judge == "model" for each in citations)


def difference(first: Citation, second: Citation, remark: str) -> str:
    """Return a line with two sentences that differ, side by side."""
    sentences = [f"{as_text(each.sentence)} [^{each.number}^]" for each in (first, second)]
    return f"- {sentences[0]} / {sentences[1]} ({remark}; compare the sources)"


def sources(citations: list[Citation]) -> list[str]:
    """Return a line for each footnote: the source, where it is, and when it was read.

    A text that several addresses have is one source.
    """
    lines = []
    copies: dict[int, dict[str, Passage]] = {}
    for each in sorted(citations, key=lambda citation: citation.number):
        copies.setdefault(each.number, {})[each.passage.url] = each.passage
    counts = Counter(
        (each.title, each.url) for passages in copies.values() for each in passages.values()
    )
    for number, (passage, *other_passages) in (
        (n, [*passages.values()]) for n, passages in copies.items()
    ):
        day = passage.fetched_at[:10] or "on an unknown day"
        title = as_text(passage.title or passage.url)
        places = ", also at ".join([f"{title} – {_linked(passage)}", *map(_linked, other_passages)])
        if counts[passage.title, passage.url] > 1:  # of one section
            content = passage.text.removeprefix(passage.title.rpartition(" – ")[2])
            places += f", begins “{as_text(one_line(_SIGNS.sub('', content), _BEGINNING))}”"
        lines.append(f"[^{number}^]: {places}, read {day}  ")
    return lines


def _linked(passage: Passage) -> str:
    url = "".join(c for c in passage.url if c not in "<>" and c.isprintable())
    return f"<{url.replace(' ', '%20')}>"


def cost(used: dict[str, Usage], prices: PriceList | None) -> float | None:
    """Return what tokens cost in US dollars; None if the price of a model is not known."""
    price_list = prices or Prices()
    try:
        return float(sum(_cost_of(price_list, name, usage) for name, usage in used.items()))
    except UnknownPrice:
        return None


def _cost_of(prices: PriceList, name: str, usage: Usage) -> Decimal:
    counts = (usage.input_tokens, usage.output_tokens)
    if usage.cache_read_tokens or usage.cache_write_tokens:  # a user's own list may know no cache
        cached: Any = prices.cost
        with suppress(TypeError):
            cost: Decimal = cached(name, *counts, usage.cache_read_tokens, usage.cache_write_tokens)
            return cost
    return prices.cost(name, *counts)


def _spent(progress: Progress, usd: float | None) -> str:
    """Return what the report took, in a sentence; empty if no model was asked."""
    if not progress.usage.total:
        return ""
    counts = f"{progress.usage.input_tokens:,} in, {progress.usage.output_tokens:,} out"
    models = ", ".join(map(as_text, progress.used))
    took = f"It took {counted(progress.usage.total, 'token')} ({counts}) of {models}"
    if usd is None:
        return f"{took}, at a price that is not known."
    return f"{took}: US$ {usd:.4f}." if usd else f"{took}."


def foot(
    progress: Progress,
    citations: list[Citation],
    end: str | None,
    usd: float | None,
    extractive: bool,
) -> str:
    """Return how the report came about, with the counts of its marks."""
    counts = _labels(citations)
    marked = f"{counts['partly']} marked [partly supported], " if counts["partly"] else ""
    marked += f"{counts['not checked']} marked [not checked], " if counts["not checked"] else ""
    lines = [
        f"{counted(counts['supported'], 'sentence')} supported by a source, {marked}"
        f"{len(progress.unsupported)} marked [unsupported], {progress.uncited} without a source."
    ]
    if _is_judged(citations):
        lines.append("A model judged whether the sources support the sentences.")
    if progress.unjudged:
        lines.append(f"The judging model did not judge {counted(progress.unjudged, 'sentence')}.")
    if counts["not checked"]:
        lines.append(
            "Of a sentence marked [not checked], the quotations, numbers, dates and names stand in "
            "its source; whether the source means the same, nobody has checked: read the source, "
            "or have a model judge."
        )
    if extractive:
        lines.append(
            "This report is extractive: no model wrote it."
            + " It shows what has most words of each objective, by page, the best first."
            * bool(citations)
        )
    if citations and not (extractive or progress.estimated):
        reached = "; ".join(f"{as_text(o.topic)}: {o.expertise:.2f}" for o in progress.objectives)
        lines.append(f"Expertise reached, from 0 to 1: {reached}.")
    iterations = counted(progress.iteration, "iteration")
    if progress.notes:
        notes = [as_text(each) for each in progress.notes[:_NOTES]]
        hidden_notes = len(progress.notes) - _NOTES
        notes += [f"and {hidden_notes} more"] if hidden_notes > 0 else []
        lines.append(f"Notes: {'; '.join(notes)}.")
    if spent := _spent(progress, usd):
        lines.append(spent)
    if end is None:
        lines.append(f"It is under way: {iterations} done.")
        return "\n\n".join(lines)
    state, _, reason = end.partition(": ")
    lines.append(f"It ended after {iterations}: {reason or f'it {state}'}.")
    return "\n\n".join(lines)
