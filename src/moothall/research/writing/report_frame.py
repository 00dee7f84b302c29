"""What stands around a report's narrative: how sure it is, its sources, and how it came about."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from moothall import Prices, UnknownPrice, Usage
from moothall.build import Words, counted, one_line
from moothall.research.findings import Citation, Passage, Progress
from moothall.research.writing.verbatim import as_text

if TYPE_CHECKING:
    from moothall.budget import PriceList
    from moothall.research.citations.differences import Difference

_PHRASES: Final[dict[str, dict[str, str | list[str]]]] = json.loads(
    files("moothall.research.writing").joinpath("frame.json").read_text(encoding="utf-8")
)
_MAX_NOTES: Final = 12  # that are shown
_MAX_MISSING: Final = 5  # words of a topic that are named
_BEGINNING_CHARS: Final = 60  # characters of a passage


def phrase(name: str, topic: str, **values: object) -> str:
    """Return what a report says, in a topic's language or English; of two forms by `n`."""
    forms = _PHRASES.get(Words(topic).language, _PHRASES["en"])[name]
    form = forms if isinstance(forms, str) else forms[values["n"] != 1]
    return form.format(**{"topic": as_text(topic), **values})


def lacks_sentence(missing: list[str], topic: str) -> str:
    """Return which words of a topic no passage shown has, as a sentence and a space."""
    words = ", ".join(f"“{as_text(each)}”" for each in missing[:_MAX_MISSING])
    return f"{phrase('lacks', topic, words=words)} " if words else ""


def how_sure(
    progress: Progress, citations: list[Citation], differences: Sequence[Difference]
) -> str:
    """Return how far sources support a model's report, say otherwise, and do not answer it."""
    counts, topics = _count_labels(citations), topics_of(progress)
    total = sum(counts.values()) + len(progress.unsupported) + progress.uncited
    page_of = {each.number: each.passage.url.partition("#")[0] for each in reversed(citations)}
    supported_count = counts["supported"]
    judged = phrase("judged", topics) if _is_judged(citations) else ""
    if not total:
        return ""
    if not citations:
        name = "unsupported"
    elif supported_count == total:
        name = "all_hold"
    else:
        name = "some_hold" if judged or supported_count else "unjudged_all"
    summary = phrase(
        *(name, topics),
        holds=supported_count,
        sentences=phrase("sentences", topics, n=total),
        pages=phrase("pages", topics, n=len({*page_of.values()})),
        judged=judged,
    )
    if other_pages := {other.passage.url.partition("#")[0] for _, other, _ in differences}:
        summary += f"; {phrase('otherwise', topics, n=len(other_pages))}"
    line = phrase("how_sure", topics, summary=summary)
    if missing := "; ".join(map(as_text, progress.unanswered[:_MAX_NOTES])):
        line += f" {phrase('missing', topics, missing=missing)}"
    return f"*{line}*"


def topics_of(progress: Progress) -> str:
    """Return all objectives of a report, whose language its frame has."""
    return " ".join(each.topic for each in progress.objectives)


def below_answer(narrative: str, line: str) -> str:
    """Return a narrative with a line below its first paragraph, or above it if it has none."""
    first, gap, rest = narrative.partition("\n\n")
    if first.endswith(":") or first.startswith(("#", "|", "- ", "* ", ">", "`", "1.")):
        return f"{line}\n\n{narrative}"
    return f"{first}\n\n{line}{gap}{rest}"


def _count_labels(citations: list[Citation]) -> Counter[str]:
    """Return how many sentences have each label."""
    labels = {e.sentence: e.support.label for e in citations if e.support is not None}
    return Counter[str](labels.values())


def _is_judged(citations: list[Citation]) -> bool:
    return any(each.support is not None and each.support.judge == "model" for each in citations)


def difference_line(first: Citation, second: Citation, remark: str, topics: str) -> str:
    """Return a line with two sentences that differ, side by side."""
    sentences = []
    for each in (first, second):
        published = each.passage.publication.published if each.passage.publication else ""
        day = published or phrase("read", topics, day=each.passage.fetched_at[:10])
        sentences.append(f"{as_text(each.sentence)} [^{each.number}^], {as_text(day)}")
    return f"- {' / '.join(sentences)} ({phrase('compare', topics, remark=remark)})"


def source_lines(citations: list[Citation], topics: str) -> list[str]:
    """Return a line for each source: its title, its addresses, and when it was read."""
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
        place = f"{as_text(passage.title or passage.url)} – {_passage_link(passage)}"
        place += "".join(
            phrase("also", topics, place=_passage_link(each)) for each in other_passages
        )
        if counts[passage.title, passage.url] > 1:  # of one section
            content = passage.text.removeprefix(passage.title.rpartition(" – ")[2])
            start = as_text(one_line(re.sub(r"\A[\W_]+", "", content), _BEGINNING_CHARS))
            place += phrase("begins", topics, text=start)
        day = passage.fetched_at[:10]
        read = phrase("read" if day else "unknown_day", topics, day=day)
        lines.append(f"[^{number}^]: {place}, {read}  ")
    return lines


def _passage_link(passage: Passage) -> str:
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
        cost_function: Any = prices.cost
        with suppress(TypeError):
            amount: Decimal = cost_function(
                name, *counts, usage.cache_read_tokens, usage.cache_write_tokens
            )
            return amount
    return prices.cost(name, *counts)


def _usage_sentence(progress: Progress, usd: float | None) -> str:
    """Return what the report took, in a sentence; empty if no model was asked."""
    if not progress.usage.total:
        return ""
    counts = f"{progress.usage.input_tokens:,} in, {progress.usage.output_tokens:,} out"
    models = ", ".join(map(as_text, progress.used))
    sentence = f"It took {counted(progress.usage.total, 'token')} ({counts}) of {models}"
    if usd is None:
        return f"{sentence}, at a price that is not known."
    return f"{sentence}: US$ {usd:.4f}." if usd else f"{sentence}."


def foot(
    progress: Progress,
    citations: list[Citation],
    end: str | None,
    usd: float | None,
    extractive: bool,
) -> str:
    """Return how a report came about; `end` says why it ended, None while it is under way."""
    counts, topics = _count_labels(citations), topics_of(progress)

    def say(name: str, **values: object) -> str:
        return phrase(name, topics, **values)

    by_label = {
        "partly supported": counts["partly"],
        "not checked": counts["not checked"],
        "unsupported": len(progress.unsupported),
    }
    marks = [
        say("mark", count=count, label=f"[{label}]")
        for label, count in by_label.items()
        if count or label == "unsupported"
    ]
    supported_count = counts["supported"]
    is_empty = not (supported_count or counts or progress.unsupported or progress.uncited)
    # That a quote is supported says nothing of an answer.
    lines = [say("counts", n=supported_count, marks=", ".join((*marks, str(progress.uncited))))] * (
        not (is_empty or extractive)
    )
    if _is_judged(citations):
        lines.append(say("by_model"))
    if progress.unjudged:
        lines.append(say("unjudged", sentences=say("sentences", n=progress.unjudged)))
    if counts["not checked"]:
        lines.append(say("unchecked"))
    if extractive:
        lines.append(" ".join((say("extractive"), *[say("order")] * bool(citations))))
    if citations and not (extractive or progress.estimated):
        reached = "; ".join(f"{as_text(o.topic)}: {o.expertise:.2f}" for o in progress.objectives)
        lines.append(say("expertise", reached=reached))
    if progress.notes:
        notes = [as_text(each) for each in progress.notes[:_MAX_NOTES]]
        hidden_notes = len(progress.notes) - _MAX_NOTES
        notes += [say("more", count=hidden_notes)] if hidden_notes > 0 else []
        lines.append(say("notes", notes="; ".join(notes)))
    if usage_sentence := _usage_sentence(progress, usd):
        lines.append(usage_sentence)
    lines.append(say("under_way" if end is None else "ended", n=progress.iteration, why=end))
    return "\n\n".join(lines)
