"""The tab Research: a form for objectives, the progress of each run, and its report."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

from moothall.errors import ConfigError
from moothall.journal.entry import Entry, Outline
from moothall.orders.order import ResearchOrder
from moothall.research.recording import KIND
from moothall.studio.act import usable_models
from moothall.studio.page import begins, field, filled, folded, limits, start_button
from moothall.studio.research_view import research_view
from moothall.threads import guard

if TYPE_CHECKING:
    from fastapi import APIRouter, Response

    from moothall.journal.journal import Journal
    from moothall.research.report import Report
    from moothall.studio.hub import Hub
    from moothall.studio.jobs import Jobs

# The page of a report runs no scripts; its links open elsewhere.
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'; sandbox allow-popups allow-popups-to-escape-sandbox"
)


class ResearchTab:
    """The research runs of the studio's journal, of any process."""

    name = "research"
    title = "Research"

    def __init__(self, hub: Hub, jobs: Jobs) -> None:
        self._hub = hub
        self._jobs = jobs
        self._guard = guard()
        self._read: tuple[Journal, str, list[Entry]] | None = None

    def state(self, run: str) -> dict[str, Any]:
        """Return the progress of a run by `research_view`; `here` is its job's state, or None."""
        outline, entries = self._recorded(run)
        return {**research_view(outline, entries), "here": self._jobs.state(run)}

    def report(self, run: str) -> Report:
        """Return the report of a run, as far as it is written."""
        from moothall.research.recording import report_so_far

        outline, entries = self._recorded(run)
        return report_so_far(run, entries, under_way=outline.under_way)

    def _recorded(self, run: str) -> tuple[Outline, list[Entry]]:
        journal = self._hub.journal
        outline = journal.run(run)  # before its entries: none of a run that has ended is missed
        if outline.kind != KIND:
            raise ConfigError(f"run {run!r} records no research: look at it in the tab Runs")
        with self._guard:  # of the run requested last, only new entries are read
            known = self._read
            if known is None or known[:2] != (journal, run):
                known = (journal, run, [])
            read = known[2]
            read += journal.entries(run, read[-1].sequence if read else 0)
            self._read = known
            return outline, [*read]

    def routes(self, router: APIRouter) -> None:
        """Add the routes that pages call; without `async`, each runs in a thread to read files."""
        from fastapi import Response

        from moothall.research.page import page, sanitized

        router.get("/state")(self.state)

        @router.get("/page")
        def shown(run: str, scheme: Literal["light", "dark"] = "light") -> Response:
            made = page(self.report(run), files=False, scheme=scheme)
            headers = {"Content-Security-Policy": _POLICY}
            return Response(made, media_type="text/html", headers=headers)

        @router.get("/report.{ending}")
        def download(run: str, ending: Literal["md", "html"]) -> Response:
            made = self.report(run)
            is_page = ending == "html"
            text = made.html() if is_page else sanitized(made.markdown)
            kind = "html" if is_page else "markdown"
            about = self._hub.journal.run(run).task
            name = re.sub(r"[^A-Za-z0-9]+", "-", about)[:60].strip("-").lower() or "report"
            headers = {"Content-Disposition": f'attachment; filename="research-{name}.{ending}"'}
            return Response(text, media_type=f"text/{kind}; charset=utf-8", headers=headers)

    def start(self, objectives: str, **given: Any) -> str:
        """Start what the form asks for, by fields of `ResearchOrder`; return the run's id."""
        wanted = [each.strip() for each in objectives.splitlines() if each.strip()]
        if not wanted:
            raise ConfigError("there is no objective: write what to find out, one a line")
        return self._jobs.start(ResearchOrder([*dict.fromkeys(wanted)], **filled(given)))

    def form(self) -> None:
        """Add the form: objectives, where to search, model and limits."""
        import gradio

        with gradio.Accordion("New research", open=False, elem_id="research-new") as form:
            with gradio.Row():
                fields = {
                    "objectives": gradio.Textbox(
                        label="Objectives, one a line",
                        placeholder="How are messages lost?\nWhat does a budget limit?",
                        lines=5,
                        scale=3,
                    )
                }
                with gradio.Column(scale=2):
                    fields["folder"] = field("Folder to search", "~/documents")
                    with gradio.Row():
                        search_web = gradio.Checkbox(label="Search the web")
                        fields["search_web"] = search_web
                        fields["site"] = field("Of the web, only this site", "sqlite.org")
            with gradio.Row():
                fields["model"] = gradio.Dropdown(
                    [("none: quotes and cites", ""), *usable_models()],
                    value="",
                    label="Model: listed, or any by name",
                    allow_custom_value=True,
                    min_width=220,
                )
                fields["role"] = field("Role of the model", "a patient librarian")
                at = "http://localhost:8888"
                fields["searxng"] = field("Search engine: the SearXNG at", at)
            with gradio.Row():
                fields["iterations"] = gradio.Number(
                    3, label="Iterations", precision=0, min_width=140, info="at most; 0: 3"
                )
                fields |= limits()
                button = start_button()

        def now() -> Any:
            return folded(self._hub.journal.runs(), lambda run: run.kind == KIND)

        begins(button, self.start, fields, form, now)
