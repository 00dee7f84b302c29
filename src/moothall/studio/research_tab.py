"""The tab Research: a form for objectives, the progress of each run, and its report."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

from moothall import ConfigError, Report
from moothall.journal import Entry, Outline
from moothall.models import budget_of, made_model
from moothall.research import CATALOGUES, SEARCH_ENGINES, why_ended
from moothall.studio.act_tab import usable_models
from moothall.studio.orders.examples import report_order
from moothall.studio.orders.order import ResearchOrder, readable_order
from moothall.studio.page import (
    STATIC,
    Field,
    PageForm,
    Tab,
    attachment,
    limit_fields,
    non_empty_fields,
    report_page,
)
from moothall.studio.run_view import cut_value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fastapi import APIRouter, Response

    from moothall import Citation
    from moothall.studio.jobs import TabHub

_OBJECTIVES: Final = "How are messages lost?\nWhat does a budget limit?"
_QUOTES: Final = "none: quotes and cites"
_LINK_SANDBOX: Final = " allow-popups allow-popups-to-escape-sandbox"
"""The links of a report open elsewhere."""
_MAX_RESULTS: Final = 10_000
"""The most resources of a task, or citations of a narrative, that a page counts."""
_MAX_ITEMS: Final = 100
_MAX_DEPTH: Final = 6
"""How deep what is shown of a resource stands in the entry that found it."""
_MAX_FOOTNOTES: Final = 500
"""The most footnotes that a page lists."""
_PASSAGE_CHARS: Final = 4_000
"""How much of a passage is shown, its window in the middle."""


class ResearchTab(Tab):
    """The research runs of the studio's journal, of any process."""

    name = "research"
    title = "Research"
    script: Path | None = STATIC / "research.js"

    def __init__(self, studio: TabHub) -> None:
        self._hub = studio

    def entries(self, run: str, after: int = 0) -> dict[str, Any]:
        """Return the entries of a run after a number, cut, and what forms are called."""
        _, run_entries = self._read_run(run, after)
        forms = {ending: form.title for ending, form in Report.forms.items()}
        entries = [progress_entry(each) for each in run_entries if not each.path]
        return {"entries": entries, "forms": forms}

    def report(self, run: str) -> Report:
        """Return the report of a run, as far as it is written."""
        from moothall.research import report_so_far

        outline, entries = self._read_run(run)
        return report_so_far(run, entries, under_way=outline.under_way)

    def _read_run(self, run: str, after: int = 0) -> tuple[Outline, Sequence[Entry]]:
        journal = self._hub.journal
        outline = journal.run(run)  # before its entries: none of a run that has ended is missed
        if outline.kind != Report.run_kind:
            raise ConfigError(f"run {run!r} records no research: look at it in the tab Runs")
        return outline, journal.entries(run, after)

    def routes(self, router: APIRouter) -> None:
        """Add the routes that pages call; without `async`, each runs in a thread to read files."""
        from fastapi import Body

        router.get("/entries")(self.entries)

        @router.get("/page")
        def report_html(run: str, scheme: Literal["light", "dark"] = "light") -> Response:
            return report_page(self.report(run).html(files=False, scheme=scheme), _LINK_SANDBOX)

        @router.get("/report.{ending}")
        def download(run: str, ending: str) -> Response:
            form = Report.forms.get(ending)
            if form is None:
                raise ConfigError(f"a report has no form {ending!r:.80}")
            name = f"research-{self._hub.journal.run(run).task[:60].lower()}"
            return attachment(form.as_file(self.report(run)), name, ending, form.media_type)

        @router.get("/cited")
        def cited_sources(run: str) -> list[dict[str, Any]]:
            return [_source(each) for each in self.report(run).citations[:_MAX_FOOTNOTES]]

        @router.get("/uncited")
        def unsourced_sentences(run: str) -> list[str]:
            return self.report(run).without_source()[:_MAX_FOOTNOTES]

        @router.post("/example")
        def start_example() -> dict[str, str]:
            return {"run": self._hub.jobs.start(report_order())}

        @router.post("/ask")
        def ask_report(run: str = Body(), question: str = Body(max_length=2_000)) -> dict[str, Any]:
            return self.ask(run, question)

        @router.post("/follow")
        def follow_up(run: str = Body(), question: str = Body(max_length=2_000)) -> dict[str, str]:
            return {"run": self.follow(run, question)}

    def ask(self, run: str, question: str) -> dict[str, Any]:
        """Answer a question from the passages that a report cites, by the run's model if any."""
        from moothall.research import ask

        order = self._order_of_run(run)
        model = None
        if order is not None and order.model is not None:
            model = made_model(order.model, os.environ.get("MOOTHALL_KEY"))
        budget = budget_of("research", model, **({} if order is None else order.limits()))
        answer = ask(self.report(run), question, model=model, budget=budget)
        if model is not None:
            answer.raise_for_error()
        return {
            "text": answer.narrative(),
            "cited": [_source(each) for each in answer.citations],
            "unsupported": [list(each) for each in answer.unsupported],
            "cost": answer.cost,
        }

    def follow(self, run: str, question: str) -> str:
        """Begin research on a question where another run searched; return its id."""
        order = self._order_of_run(run)
        if order is None:
            raise ConfigError(f"run {run!r} was begun by a program: its tools are not known here")
        if not question.strip():
            raise ConfigError("write what else to find out")
        cleared: Any = {"title": "", "out": None, "html": None, "sources": None}  # of that report
        return self._hub.jobs.start(replace(order, objectives=[question.strip()], **cleared))

    def _order_of_run(self, run: str) -> ResearchOrder | None:
        """Return the order of a run; None if a program of the user's began it."""
        orders = map(readable_order, reversed(self._read_run(run)[1]))
        return next((each for each in orders if isinstance(each, ResearchOrder)), None)

    def start(self, objectives: str, **options: Any) -> str:
        """Start what the form asks for, by fields of `ResearchOrder`; return the run's id."""
        questions = [each.strip() for each in objectives.splitlines() if each.strip()]
        if not questions:
            text = "fill in “Objectives, one a line”: there is nothing to find out"
            raise ConfigError(text, argument="objectives")
        return self._hub.jobs.start(
            ResearchOrder([*dict.fromkeys(questions)], **non_empty_fields(options))
        )

    def forms(self) -> list[PageForm]:
        """Return the form: objectives, where to search, model and limits."""
        models = [(each, each) for each in usable_models()]
        web_fields = [
            Field(name, each.field, hint=each.example, more=True)
            if each.example
            else Field(name, each.field, "check", value=False, more=True)
            for name, each in (SEARCH_ENGINES | CATALOGUES).items()
        ]
        fields = [
            Field("objectives", "Objectives, one a line", "text", hint=_OBJECTIVES, wide=True),
            Field("folder", "Folder to search", hint="~/documents"),
            Field("search_web", "Search the web", "check", value=False),
            Field("model", "Model: listed, or any by name", "named", options=models, hint=_QUOTES),
            Field("site", "Of the web, only this site", hint="sqlite.org", more=True),
            *web_fields,
            Field("role", "Role of the model", hint="a patient librarian", more=True),
            Field("iterations", "Iterations at most", "whole", value=3, more=True),
            Field("review_plan", "Show me the plan first", "check", value=False),
            *limit_fields(),
        ]
        is_first = not self._hub.journal.runs(kind=Report.run_kind, limit=1)
        title = "New research"
        return [
            PageForm(name="new", title=title, fields=fields, start=self.start, is_open=is_first)
        ]


def progress_entry(entry: Entry) -> dict[str, Any]:
    """Return an entry as pages make the progress of it: with all that was found, each cut."""
    max_items = _MAX_RESULTS if entry.ends_step else _MAX_ITEMS
    shortened = cut_value(entry.shown_data, max_items, _MAX_DEPTH)
    row = {"sequence": entry.sequence, "kind": entry.kind, "data": shortened}
    if entry.reason is not None:
        row["why"] = why_ended(entry)
    return row


def _source(citation: Citation) -> dict[str, Any]:
    """Return a footnote as pages get it: its passage in three parts, the window in the middle."""
    passage, support, window = citation.passage, citation.support, citation.window
    before, inside, after = passage.text.partition(window) if window else (passage.text, "", "")
    half = _PASSAGE_CHARS // 2
    return {
        "number": citation.number,
        "sentence": citation.sentence,
        "url": passage.url,
        "title": passage.title,
        "read": passage.fetched_at,
        "text": [before[-half:] if inside else before[:_PASSAGE_CHARS], inside, after[:half]],
        "cut": [bool(inside) and len(before) > half, len(after) > half],
        "label": None if support is None else support.label,
        "probability": None if support is None else support.probability,
    }
