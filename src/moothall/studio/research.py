"""The tab Research: a form for objectives, the progress of each run, and its report."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

from moothall.errors import ConfigError
from moothall.journal.entry import Entry, Outline
from moothall.orders.order import ResearchOrder
from moothall.research.recording import KIND
from moothall.studio.act import usable_models
from moothall.studio.page import Field, Form, filled, limits
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
    "default-src 'none'; style-src {style}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'; sandbox allow-popups allow-popups-to-escape-sandbox"
)
_STYLE: Final = re.compile(r"'sha256-[A-Za-z0-9+/=]+'")


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
            style = _STYLE.search(made)  # the page states its own style sheet's hash
            policy = _POLICY.format(style=style[0] if style else "'none'")
            headers = {"Content-Security-Policy": policy}
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

    def forms(self) -> list[Form]:
        """Return the form: objectives, where to search, model and limits."""
        fields = [
            Field(
                name="objectives",
                label="Objectives, one a line",
                kind="text",
                hint="How are messages lost?\nWhat does a budget limit?",
                wide=True,
            ),
            Field(name="folder", label="Folder to search", hint="~/documents"),
            Field(name="search_web", label="Search the web", kind="check", value=False),
            Field(
                name="model",
                label="Model: listed, or any by name",
                kind="named",
                options=[(each, each) for each in usable_models()],
                hint="none: quotes and cites",
            ),
            Field(name="site", label="Of the web, only this site", hint="sqlite.org", more=True),
            Field(
                name="searxng",
                label="Search engine: the SearXNG at",
                hint="http://localhost:8888",
                more=True,
            ),
            Field(name="role", label="Role of the model", hint="a patient librarian", more=True),
            Field(name="iterations", label="Iterations", kind="whole", value=3, more=True),
            *limits(),
        ]
        is_first = not self._hub.journal.runs(kind=KIND, limit=1)
        title = "New research"
        return [Form(name="new", title=title, fields=fields, start=self.start, is_open=is_first)]
