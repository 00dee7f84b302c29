"""Quote a sentence: marked within some hundred characters of its passage, without markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from moothall.research.citations.exact_checks import verbatim
from moothall.research.extractive.question_words import QuestionWords, title_of_passage
from moothall.research.extractive.units import Unit
from moothall.research.findings import Passage
from moothall.research.writing.safe_markdown import has_html
from moothall.research.writing.verbatim import is_markdown

QUOTE_CHARS: Final = 500  # characters that a quote has, if its neighbours are so long
MAX_QUOTE_CHARS: Final = 600
_SECTION_CHARS: Final = 1_500  # the same of a section that is plainly about the question
_ABOUT_SHARE: Final = 0.5  # the share of the question's words that its titles have then
_CONTEXT_KINDS: Final = ("prose", "item", "term")  # what may stand around a sentence
_WORD_END: Final = re.compile(r"\s|[\uff0c\uff1b\uff1a\u3001]|\Z")
_EXCERPT_STEP: Final = 100  # characters between the places where an excerpt may begin, about
# The next line of a comment, or of what a block quote or a mail quotes.
_COMMENTED: Final = re.compile(r"\n[ \t]*(?:#[ \t]+|(?:>[ \t]?)+)")
_FENCE: Final = re.compile(r"^[ \t]*(?:`{3,}|~{3,}).*\n?", re.MULTILINE)
_LINKED: Final = re.compile(r"```|\]\(|!\[|\[\^")
_SIGNS: Final = str.maketrans("“”„", '"""')
_STOPS: Final = "。\uff01\uff1f…」』”’\uff09"
_STRONG_MARK: Final = re.compile(r"\*{2,3}(?=\S)|(?<=\S)\*{2,3}")


class Candidate(NamedTuple):
    """A sentence that could answer."""

    score: float  # how well, against other sentences
    passage: Passage
    units: tuple[Unit, ...]  # of the passage
    number: int  # among them
    terms: frozenset[str]  # the question's terms in it, beside it and above it
    repeats_question: (
        bool  # whether its passage has the question itself, elsewhere than in a heading
    )


class Quote(NamedTuple):
    """What is quoted for an answer."""

    passage: Passage
    span: tuple[int, int]  # where it is in the passage
    markdown: str  # with the sentence marked


def quote_of(
    question: QuestionWords, candidate: Candidate, spans: list[tuple[int, int]]
) -> Quote | None:
    """Return a sentence's quote with what stands around it, beside `spans`; None if it has none."""
    _, passage, units, number, *_ = candidate
    heads = (passage.text[each.start : each.end] for each in units[:number] if each.kind == "head")
    titles = question.terms_in(" ".join((title_of_passage(passage), *heads)))
    max_chars = _SECTION_CHARS if question.share(titles) >= _ABOUT_SHARE else QUOTE_CHARS
    for first, last in _windows(units, number, max_chars):
        start, end = units[first].start, units[last].end
        if any(start < other_end and other < end for other, other_end in spans):
            continue
        markdown = _markdown_of(question, candidate, start, end)
        if markdown is not None and verbatim(markdown, passage.text, passage.title):
            return Quote(passage, (start, end), markdown)
    return None


def _windows(units: tuple[Unit, ...], number: int, max_chars: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last unit of what may be shown, the longest first."""
    first = last = number
    windows = [(first, last)]
    while units[number].kind != "row":
        # What follows says more than what stands before. Text may lead to code.
        after, before = units[last + 1 : last + 2], units[max(first - 1, 0) : first]
        next_kinds = (
            _CONTEXT_KINDS if units[last].kind not in _CONTEXT_KINDS else (*_CONTEXT_KINDS, "code")
        )
        if after and after[0].kind in next_kinds and after[0].end - units[first].start <= max_chars:
            last += 1
        is_text = bool(before) and before[0].kind in _CONTEXT_KINDS
        if is_text and units[last].end - before[0].start <= max_chars:
            first -= 1
        if (first, last) == windows[-1]:
            break
        windows.append((first, last))
    yield from reversed(windows)


def _markdown_of(question: QuestionWords, candidate: Candidate, start: int, end: int) -> str | None:
    """Return what stands from a start to an end, with the sentence marked; None for markup."""
    _, passage, units, number, *_ = candidate
    unit = units[number]
    spans = ((start, unit.start), (unit.start, unit.end), (unit.end, end))
    before, sentence, after = (
        _quote_line(passage.text[slice(*span)], passage.url) for span in spans
    )
    sentence = _shortened_sentence(sentence, question)
    heads = (each[:2] for each in reversed(units[:number]) if each.kind == "head")
    lead_span = unit.lead or next(heads, None)
    if lead_span and lead_span[1] <= start:
        lead = _quote_line(passage.text[slice(*lead_span)], passage.url)
        fits = len(lead) + len(before) + len(sentence) + len(after) <= MAX_QUOTE_CHARS
        is_asked = lead in passage.title and question.has_all_words_of(lead)
        is_title = not unit.lead and (
            lead == passage.page or (lead_span == units[0][:2] and lead not in passage.title)
        )
        if fits and not (
            is_asked or is_title or "**" in lead or _is_marked(lead)
        ):  # no `char **argv`
            before = f"{lead} … {before}"
    # Chinese and Japanese have no space between sentences.
    at, text = unit.end, passage.text
    after = f" {after}" if after and text[at : at + 1].isspace() else after
    before = f"{before} " if before and text[unit.start - 1].isspace() else before
    quote = f"{before}{sentence}{after}"
    if not sentence or _is_marked(quote) or question.has_all_words_of(quote):
        return None
    # A mark between the two ends of code would be shown as it is.
    is_open = any(each.count("`") % 2 for each in (before, sentence))
    if "**" not in quote and not is_open and (before or after):
        # A mark behind a full stop, with a letter behind it, would be shown as it is.
        end = len(sentence) if not after or after[0] == " " else len(sentence.rstrip(_STOPS))
        sentence = f"**{sentence[:end]}**{sentence[end:]}"
    return f"“{before}{sentence}{after}”"


def _quote_line(text: str, url: str) -> str:
    """Return a text in one line, without the signs of lines and of what is strong."""
    text = _FENCE.sub(" … ", _COMMENTED.sub("\n", text)).translate(_SIGNS)
    if is_markdown(url):
        text = _STRONG_MARK.sub("", text)
    return " ".join(text.split())


def _shortened_sentence(sentence: str, question: QuestionWords) -> str:
    """Return a sentence; of a very long one, the part with most words of the question."""
    if len(sentence) <= MAX_QUOTE_CHARS:
        return sentence
    ends = [0, *(match.end() for match in _WORD_END.finditer(sentence))]
    starts = {min(filter(at.__le__, ends)) for at in range(0, len(sentence), _EXCERPT_STEP)}
    excerpts = {
        at: sentence[at : max(filter((at + QUOTE_CHARS).__ge__, ends))] for at in sorted(starts)
    }
    at = max(excerpts, key=lambda at: question.share(question.terms_in(excerpts[at])))
    is_end = at + len(excerpts[at]) == len(sentence)
    return f"{'… ' * (at > 0)}{excerpts[at].strip()}{' …' * (not is_end)}"


def _is_marked(text: str) -> bool:
    """Return whether a text has markup of a page."""
    return bool(_LINKED.search(text) or has_html(text))
