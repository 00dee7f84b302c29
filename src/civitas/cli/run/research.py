"""`civitas research`: an agent that finds out what its objectives ask for, and reports it."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from civitas.cli.completion import folders, models
from civitas.cli.options import (
    Above0,
    Recorded,
    journal_option,
    run_id_option,
    usage,
)
from civitas.cli.run.act import ordered
from civitas.cli.run.order import carried_out
from civitas.orders.order import ResearchOrder
from civitas.orders.research import check, researcher

if TYPE_CHECKING:
    from civitas.journal import Journal
    from civitas.research.report import Report

_HELP = {"help_option_names": ["-h", "--help"]}
_INTERRUPTED: Final = 130
_FILE = click.Path(dir_okay=False, writable=True)


@click.command(context_settings=_HELP)
@click.argument("objectives", metavar="OBJECTIVE...", nargs=-1, required=True)
@click.option("--folder", metavar="DIR", shell_complete=folders, help="Search the files below DIR.")
@click.option("--search-web", is_flag=True, help="Search the web, and read its pages and PDFs.")
@click.option("--searxng", metavar="URL", help="Search the web by the SearXNG at URL.")
@click.option(
    "--iterations",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="How often it plans, reads and writes.",
)
@click.option(
    "--model",
    metavar="MODEL",
    shell_complete=models,
    help="Have a model plan, write and judge.  [default: none, extractive]",
)
@click.option("--role", metavar="TEXT", default="", help="Who the model is to be.")
@click.option("--site", metavar="HOST", help="Of the web, only this host and those below it.")
@click.option(
    "--allow-host",
    "allow_hosts",
    metavar="HOST",
    multiple=True,
    help="A host of this machine or network that may be visited.",
)
@click.option("--max-usd", type=Above0("US dollars"), help="Limit of US dollars, in all.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Limit of tokens, in all.")
@click.option("--max-seconds", type=Above0(), help="Time limit.")
@journal_option("A file to record the run in.")
@run_id_option
@click.option("--out", metavar="FILE", type=_FILE, help="Write the report there (Markdown).")
@click.option("--html", metavar="FILE", type=_FILE, help="Write it as one HTML page too.")
@click.option("--studio", "in_studio", is_flag=True, help="Show it in the browser, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print events as lines of JSON.")
def command(
    objectives: tuple[str, ...],
    allow_hosts: tuple[str, ...],
    journal: str | None,
    run_id: str | None,
    in_studio: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Find out what each OBJECTIVE asks for, and report it with sources.

    What is searched is said by --folder, --search-web or --searxng. Each footnote of the report
    leads to a passage that was read and stored; a sentence that its passage does not bear out is
    marked [unsupported].

    Without --model the report is extractive: it quotes the sentences that say most about each
    objective. A model plans the tasks, writes, and judges what is still missing; what was read, it
    is sent.

    The report is printed, or written to --out; what happens meanwhile is shown on standard error.

    \b
    Examples:
      civitas research "How are messages lost?" \\
        --folder docs
      civitas research "What is FTS5?" --search-web \\
        --site sqlite.org --html report.html
      civitas research "Who wrote it?" "When?" \\
        --folder . --model openai:gpt-4o --max-usd 1

    With a journal, a run that Ctrl-C, a limit or a crash has stopped goes on with the same command
    and its --run-id, or by `civitas resume`: nothing is read or paid twice. One that has ended goes
    further with more --iterations or further objectives. --studio shows the run on a page of the
    browser as it goes; it is recorded in studio.db in your state folder if no journal is named.

    Exit codes: 0 done, 1 failed or stopped,
    2 wrong usage, 130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    order = ResearchOrder(list(dict.fromkeys(objectives)), allow_hosts=list(allow_hosts), **given)
    with usage():
        check(order)
    if not in_studio:
        return carried_out(researched, order, journal, run_id, as_json)
    return _in_studio(order, journal, run_id, as_json)


def _in_studio(order: ResearchOrder, journal: str | None, run_id: str | None, as_json: bool) -> int:
    """The same, shown on a page while it goes and until Ctrl-C."""
    from civitas.studio import Studio

    with Studio() as page:
        page.opens = "research"
        with usage():
            address = page.launch(0, journal=journal, prevent_thread_lock=True, quiet=True)
        if journal is None:  # a command that goes on with the run has to name it
            named = click.core.ParameterSource.COMMANDLINE
            click.get_current_context().set_parameter_source("journal", named)
        print(f"civitas studio: {address}", file=sys.stderr, flush=True)
        status = carried_out(researched, order, page.journal.path, run_id, as_json)
        if status != _INTERRUPTED:
            print("the page stays there until Ctrl-C", file=sys.stderr, flush=True)
            with redirect_stdout(sys.stderr):  # standard output is for the report
                page.wait()
    return status


def researched(
    order: ResearchOrder,
    as_json: bool,
    journal: Journal | None = None,
    recorded: Recorded | None = None,
) -> int:
    """Research as it was ordered, show it, and write the report; give the exit code."""
    from civitas.cli.run.permission import Permission
    from civitas.cli.run.research_show import ResearchLines, ResearchShown

    with usage("--folder"):
        agent = researcher(order, journal, os.environ.get("CIVITAS_KEY"))
    screen = (
        ResearchLines(recorded)
        if as_json
        else ResearchShown(order.iterations, recorded, may_be_recorded=True)
    )
    try:
        status = asyncio.run(ordered(agent, Permission(screen), order, journal, recorded))
        report = screen.report
        assert report is not None  # it came with the last event
    except KeyboardInterrupt:
        status, report = _INTERRUPTED, agent.report_so_far()
    _write(report, order, as_json)
    screen.written()
    return status


def _write(report: Report, order: ResearchOrder, as_json: bool) -> None:
    """Print the report, or write it where it was ordered."""
    from civitas.agents.terminal import shown_lines
    from civitas.research.page import legible

    text = legible(report.markdown)
    written = []
    if order.html:
        written.append(("page", order.html, report.html()))
    if order.out:
        written.append(("report", order.out, text))
    elif not as_json:
        if sys.stdout.isatty():  # which would obey what a page holds
            text = "\n" + shown_lines(text.expandtabs(4))
        print(text, end="", flush=True)
    for what, path, content in written:
        Path(path).write_text(content, encoding="utf-8")
        if not as_json:
            print(f"{what}: {path}", file=sys.stderr, flush=True)
    if as_json:
        from civitas.cli.run.json_lines import print_line
        from civitas.research.recording import report_json

        print_line("report", report_json(report))
