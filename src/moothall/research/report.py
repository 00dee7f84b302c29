"""The report: the narrative with its footnotes, its sources, and what a reader must know of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple

from moothall import DefinitionError, FileError, MissingExtra, Reply, StateError, StopReason, Usage
from moothall.build import SafeHTML, counted, dump_state, names_checked, one_line
from moothall.journal import REASONS
from moothall.research.extractive.question_words import QuestionWords, title_of_passage
from moothall.research.extractive.ranker import answer
from moothall.research.findings import Citation, Objective, Passage, Progress, Resource
from moothall.research.reading.own_reports import REPORT_MARK
from moothall.research.resource_pool import passages_of
from moothall.research.writing.report_frame import (
    below_answer,
    cost,
    difference_line,
    foot,
    how_sure,
    lacks_sentence,
    phrase,
    source_lines,
    topics_of,
)
from moothall.research.writing.safe_markdown import safe_markdown, visible_text
from moothall.research.writing.verbatim import as_text, verbatim

if TYPE_CHECKING:
    from moothall.budget import PriceList

_MAX_PLACES: Final = 3  # shown where an answer was not found


def end_in_words(reason: str, detail: str = "") -> str:
    """Return how research ended, and why, for a person."""
    if reason not in Report.completed:
        return REASONS.in_words(reason, detail)
    return f"done: {phrase(reason, '')}" + (f" ({detail})" if detail else "")


def _as_markdown(report: Report) -> str:
    from moothall.research.page import sanitized

    return sanitized(report.markdown)


class ReportForm(NamedTuple):
    """A form in which a report is written to a file or downloaded."""

    title: str
    holds: str  # it holds: the report, the page, or the sources alone
    media_type: str
    make: Callable[[Report], str | bytes]
    mark: str = ""  # ends its file, by which a folder search knows it
    packages: tuple[str, ...] = ()  # it needs, of the extra `research`

    def check_installed(self) -> None:
        """Raise MissingExtra if a package that it needs is not installed."""
        MissingExtra.unless(f"a report as {self.title}", "research", *self.packages)

    def as_file(self, report: Report) -> bytes:
        """Return what a file of this form holds."""
        content = self.make(report)
        return content if isinstance(content, bytes) else f"{content}{self.mark}".encode()


_WORD: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


@names_checked(foreign_names={"sources": "citations", "text": "markdown"})
@dataclass(frozen=True)
class Report:
    """The result of research.

    Attributes:
        markdown: the report, with footnotes `[^1^]`, its sources and what a reader must know
        citations: the footnotes that their passages support, wholly or in part, in the order of
            the text; then the sentences of sources that say otherwise
        stop_reason: why it ended: `done` (targets reached), `max_iterations`, `no_progress`
            (nothing new), `budget`, `deadline`, `cancelled`, `in_doubt`, `unreadable` or `error`
        detail: the stop reason in more detail
        objectives: the objectives, with the expertise reached
        unsupported: sentences that their sources do not support, each with the reason
        uncited: how many sentences have no source
        differing: pairs of a cited sentence and one of another source that was read, which seem
            to say different things, each with a remark
        iterations: how many iterations were made
        usage: the tokens that were used
        run_id: the id of the run
        cost: what they cost in US dollars; None if a price is not known
        notes: what rules replaced of a model's work, and what was left out
        forms: the forms in which it can be saved, by the end of a file's name
        completed: the stop reasons of research that nothing stopped
        run_kind: the kind of the runs that end with a report
    """

    completed: ClassVar[frozenset[str]] = frozenset(("done", "max_iterations", "no_progress"))
    run_kind: ClassVar[str] = "Researcher"

    markdown: str
    citations: list[Citation]
    stop_reason: StopReason
    detail: str = ""
    objectives: list[Objective] = field(default_factory=list)
    unsupported: list[tuple[str, str]] = field(default_factory=list)
    uncited: int = 0
    iterations: int = 0
    usage: Usage = field(default_factory=Usage)
    run_id: str | None = None
    cost: float | None = None
    notes: list[str] = field(default_factory=list)
    differing: list[tuple[str, str, str]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data, without its run's id."""
        return {name: value for name, value in dump_state(self).items() if name != "run_id"}

    def raise_for_error(self) -> None:
        """Raise the error that stopped the research; do nothing if it ended by itself.

        Raises:
            BudgetExceeded: the budget was spent; `DeadlineExceeded`: its time was over
            InDoubt: a call was running when its process ended, and no end is recorded
            ModelError: anything else, such as a model that failed or unusable answers
        """
        reason = "done" if self.stop_reason in Report.completed else self.stop_reason
        Reply("", self, [], [], self.usage, reason, self.detail).raise_for_error()

    def html(self, *, files: bool = True, scheme: Literal["light", "dark"] | None = None) -> str:
        """Return the report as one self-contained HTML page; footnotes open the stored passage.

        Args:
            files: whether a source that is a file is a link to it; a served page cannot open files
            scheme: light or dark; by default that of the reader's system

        Raises:
            MissingExtra: markdown-it-py is not installed
        """
        from moothall.research.page import page

        return page(self, files=files, scheme=scheme)

    def docx(self, path: str | os.PathLike[str] | None = None) -> bytes:
        """Return the report as a Word document, and write it to a file if a path is given.

        Each footnote leads to its passage at the end. The document has no macro and no image, and
        links to the sources alone.

        Raises:
            FileError: the file cannot be written
            MissingExtra: python-docx or markdown-it-py is not installed
        """
        from moothall.research.exports.word import word_document

        if not isinstance(path, str | os.PathLike | None):
            raise DefinitionError(f"docx(): path must be a path, got {path!r:.80}")
        data = word_document(self)
        if path is not None:
            try:
                Path(path).write_bytes(data)
            except OSError as error:
                reason = error.strerror or error
                raise FileError(f"the report {str(path)!r} cannot be written: {reason}") from error
        return data

    def bibtex(self) -> str:
        """Return the sources as BibTeX, with authors, date and DOI where they are known.

        A source that several footnotes cite is one entry.
        """
        from moothall.research.exports.references import bibtex

        return bibtex(self)

    def csl_json(self) -> str:
        """Return the sources as CSL-JSON, a list of items, for word processors and Zotero."""
        from moothall.research.exports.references import csl_json

        return csl_json(self)

    def without_source(self) -> list[str]:
        """Return the sentences that have no source."""
        from moothall.research.citations.footnotes import sentences_without_source

        frame = phrase("how_sure", self._topics, summary="\n").partition("\n")[0]
        parts = self.narrative().split("\n\n")
        return sentences_without_source(
            "\n\n".join(e for e in parts if not e.startswith(f"*{frame}"))
        )

    def narrative(self) -> str:
        """Return what the report says, without its title, its list of sources and its foot."""
        from moothall.research.page import parts_of

        text = parts_of(self)[0]
        if self.differing:
            text = text.rpartition(f"\n\n## {phrase('differ', self._topics)}\n\n")[0]
        return text.partition("\n")[2].strip() if text.startswith("# ") else text

    @property
    def _topics(self) -> str:
        """All objectives, whose language its frame has."""
        return " ".join(each.topic for each in self.objectives)

    forms: ClassVar[dict[str, ReportForm]] = {
        "md": ReportForm(
            "Markdown", "report", "text/markdown; charset=utf-8", _as_markdown, REPORT_MARK
        ),
        "html": ReportForm(
            "HTML", "page", "text/html; charset=utf-8", html, packages=("markdown_it",)
        ),
        "docx": ReportForm("Word", "report", _WORD, docx, packages=("docx", "markdown_it")),
        "bib": ReportForm("BibTeX", "sources", "application/x-bibtex; charset=utf-8", bibtex),
        "json": ReportForm("CSL-JSON", "sources", "application/json", csl_json),
    }

    def _repr_html_(self) -> str:
        if find_spec("markdown_it") is None:
            return SafeHTML.text(self.markdown)
        from moothall.research.page import page

        return _in_frame(page(self, framed=True))

    def __repr__(self) -> str:
        title = one_line(self.markdown.partition("\n")[0].lstrip("# "), 80)
        cited = counted(len(self.citations), "citation")
        return f"Report({title!r}, stop_reason={self.stop_reason!r}, {cited})"


def report_of(
    progress: Progress,
    resources: list[Resource],
    run_id: str | None,
    *,
    extractive: bool,
    under_way: bool = False,
    prices: PriceList | None = None,
) -> Report:
    """Return a report of what is known now; if the run is `under_way`, its foot says so."""
    from moothall.research.citations import mark_uncited, renumber_footnotes
    from moothall.research.citations.differences import differing_citations, numbered

    progress = replace(progress, notes=[*progress.notes, *_failure_notes(progress, resources)])
    passages = progress.passages
    if not all(0 < number <= len(passages) for number, _ in progress.citations):
        raise StateError(f"the record of run {run_id!r} cites passages that it does not have")
    checked_citations = _checked_citations(progress)
    narrative, citations = renumber_footnotes(progress.narrative, checked_citations)
    if extractive:
        narrative = verbatim(narrative, citations)
    narrative = safe_markdown(narrative, [each.passage.url for each in citations])
    if not extractive:
        narrative = mark_uncited(narrative)
    stop: StopReason = progress.stop or "max_iterations"
    topics, all_topics = [each.topic for each in progress.objectives], topics_of(progress)
    read_passages = [
        *dict.fromkeys(p for each in resources if each.visited for p in passages_of(each))
    ]
    # What a model has understood, and cites, may be in other words or another language.
    open_topics = [o.topic for o in progress.objectives if not citations or o.expertise < 0.5]
    empty_topics = [
        topic for topic in open_topics if not QuestionWords(topic, read_passages).has_passages()
    ]
    title = progress.title or (topics[0] if len(topics) == 1 else "Report")
    parts = [f"# {as_text(title)}", narrative.strip()]
    if parts[1].startswith("# "):  # a model's own title
        body = parts[1].partition("\n")[2].strip()
        parts = [parts[0], body] if progress.title else [parts[1].partition("\n")[0], body]
    is_quoted = extractive or progress.estimated  # quotes support themselves
    differences = differing_citations(citations, read_passages, progress.contradictions)
    if parts[1] and not is_quoted and (sure_line := how_sure(progress, citations, differences)):
        parts[1] = below_answer(parts[1], sure_line)
    nothing_phrase = "nothing"
    if not any(each.visited for each in resources):
        if stop == "error" and progress.iteration:
            nothing_phrase = "unread"
        elif resources or stop not in Report.completed:
            nothing_phrase = "nothing_read"
    remarks = [phrase(nothing_phrase, topic) for topic in empty_topics]
    has_text = under_way or progress.narrative.strip()
    if not (extractive or has_text) and any(each.visited for each in resources):
        remarks.append(phrase("unwritten", all_topics))
    if extractive and stop in Report.completed and not under_way:
        lines = progress.narrative.split("\n")  # one objective alone has no heading
        remarks.extend(
            f"{phrase('missed', topic)}{_nearest_text(read_passages, topic)}"
            for topic in topics
            if topic not in empty_topics
            and (not has_text or (len(topics) > 1 and f"## {one_line(topic, 200)}" not in lines))
        )
    if remarks and len(topics) > 1 and parts[-1]:  # it is of no section above
        parts.append(f"## {phrase('unanswered', all_topics)}")
    parts += remarks
    differences, other_sides = numbered(differences, citations)
    if differences:
        parts.append(
            f"## {phrase('differ', all_topics)}\n\n"
            + "\n".join(difference_line(*each, all_topics) for each in differences)
        )
    if citations:
        source_list = "\n".join(source_lines([*citations, *other_sides], all_topics))
        parts.append(f"## {phrase('sources', all_topics)}\n\n{source_list}")
    end_text = None
    if stop in Report.completed and not under_way:  # what has most words is no answer yet
        are_quotes = is_quoted and stop == "done"
        end_text = phrase("quotes" if are_quotes else stop, all_topics)
    elif not under_way:
        state, _, reason = REASONS.in_words(stop, as_text(progress.detail)).partition(": ")
        end_text = reason or f"it {state}"
    usd = cost(progress.used, prices)
    parts.append("---\n\n" + foot(progress, citations, end_text, usd, extractive))
    return Report(
        visible_text("\n\n".join(filter(None, parts))) + "\n",
        [*citations, *other_sides],
        stop,
        progress.detail,
        [Objective(o.topic, o.expertise) for o in progress.objectives],
        list(progress.unsupported),
        progress.uncited,
        progress.iteration,
        progress.usage,
        run_id,
        usd,
        list(progress.notes),
        [(first.sentence, other.sentence, remark) for first, other, remark in differences],
    )


def _failure_notes(progress: Progress, resources: list[Resource]) -> Iterator[str]:
    """Yield what could not be searched or read, for each reason once."""
    read = [json.dumps(each.url) for each in resources if each.visited]
    subjects: dict[str, list[str]] = {}
    for key, reason in progress.failed.items():
        args = json.loads(key.partition(" ")[2]).values()
        texts = (each for each in args if isinstance(each, str))
        subject = max(texts, key=lambda text: "://" in text, default="")
        is_named = reason in progress.detail and ("://" not in subject or subject in reason)
        if not is_named and not any(each in key for each in read):
            subjects.setdefault(reason, []).append(one_line(subject, 120))
    for reason, subject_texts in subjects.items():
        more_text = f" and {len(subject_texts) - _MAX_PLACES} more" * (
            len(subject_texts) > _MAX_PLACES
        )
        places = [each for each in subject_texts[:_MAX_PLACES] if each not in reason]
        yield f"failed: {', '.join(places)}{more_text}: {reason}" if places else f"failed: {reason}"


def _nearest_text(passages: list[Passage], topic: str) -> str:
    """Return what comes nearest to an answer that the rules may have missed, and where it is."""
    result = answer(tuple(passages), topic)
    nearest = [(each.passage, f"{verbatim(each.markdown, [])} – ") for each in result.quotes]
    if not nearest:  # none can be quoted, such as markup
        nearest = [(each.passage, "") for each in QuestionWords(topic, passages).best(_MAX_PLACES)]
    lines = [
        f"- {safe_markdown(quote)}{as_text(title_of_passage(passage) or passage.url)}, "
        f"`{passage.url.replace('`', '%60')}`"
        for passage, quote in nearest[:_MAX_PLACES]
    ]
    heading = f"{lacks_sentence(result.missing, topic)}{phrase('nearest', topic)}"
    return f"\n\n{heading}\n\n" + "\n".join(lines) if lines else ""


def _checked_citations(progress: Progress) -> list[Citation]:
    """Return the citations with their passages."""
    return [
        Citation(number, text, progress.passages[number - 1], support)
        for (number, text), support in zip(progress.citations, progress.supports, strict=True)
    ]


def _in_frame(page: str, height: str = "36rem") -> str:
    """Return a whole page in a frame of its own, which runs no script and sends no form."""
    return (
        '<iframe sandbox="allow-popups" referrerpolicy="no-referrer" '
        f'style="width: 100%; height: {height}; border: 1px solid #8884" '
        f'srcdoc="{escape(page)}"></iframe>'
    )
