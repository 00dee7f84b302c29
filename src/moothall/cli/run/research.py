"""`moothall research`: an agent that finds out what its objectives ask for, and reports it."""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import fields
from functools import partial
from typing import Any, Final

import click

from moothall import BlockEnded, BlockStarted, CallEnded, CallStarted, ConfigError, Reply, Report
from moothall.build import counted, one_line
from moothall.cli.interrupts import INTERRUPTED, interruptible, raise_on_interrupt
from moothall.cli.option_types import WholeNumberType
from moothall.cli.progress import WarningHandler
from moothall.cli.recorded_runs import RecordedRun, execute_order
from moothall.cli.run.outcome import exit_code
from moothall.cli.run.review import PlanReview
from moothall.cli.run.run_display import MAX_LINE, RunDisplay
from moothall.cli.run.watch import JSONLines, Permission, carry_out, keyboard, print_line
from moothall.cli.shared_options import (
    as_usage_error,
    folders,
    json_option,
    model_option,
    recording_options,
    run_limits,
)
from moothall.journal import REASONS
from moothall.models import Call
from moothall.research import CATALOGUES, SEARCH_ENGINES, StyleOptions, end_in_words
from moothall.studio.orders import (
    ResearchOrder,
    check_research,
    make_researcher,
    step_models,
    write_report,
)

_folder_logger = logging.getLogger("moothall.research.folder")
_FORMS = ", ".join(f".{end}" for end in Report.forms)
_SOURCE_ENDINGS = " or ".join(
    f".{end}" for end, each in Report.forms.items() if each.holds == "sources"
)
_FILE = click.Path(dir_okay=False, writable=True)
_BAR_CHARS: Final = 20
_STEP_WORDS: Final = {
    "plan": "planning",
    "research": "researching",
    "update": "adding what was found",
    "narrate": "writing",
    "evaluate": "evaluating",
}


def _options(table: dict[str, Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for each row of a table of what is searched."""
    for name, each in reversed(table.items()):
        url = "URL" if each.example else None
        option = click.option(f"--{name}", metavar=url, is_flag=not url, help=each.help)
        function = option(function)
    return function


def _style_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a report's style."""
    for each in reversed(fields(StyleOptions)):
        kind = WholeNumberType(min=1) if each.default is None else str
        option = partial(click.option, f"--{each.name}", type=kind, default=each.default)
        function = option(help=each.metadata["help"])(function)
    return function


@click.command()
@click.argument("objectives", metavar="OBJECTIVE...", nargs=-1, required=True)
@click.option("--folder", metavar="DIR", shell_complete=folders, help="Search the files below DIR.")
@click.option("--search-web", is_flag=True, help="Search the web, and read pages and PDFs.")
@partial(_options, SEARCH_ENGINES)
@click.option(
    "--iterations",
    type=WholeNumberType(min=1),
    default=3,
    show_default=True,
    help="Limit of iterations: plan, read, write.",
)
@model_option(help="Have a model plan, write and judge.  [default: extractive]")
@click.option("--role", metavar="TEXT", default="", help="Role that the model takes, in words.")
@click.option(
    "--step-model",
    "step_model_options",
    metavar="STEP=MODEL",
    multiple=True,
    help="Another model for plan, narrate or evaluate. May be repeated.",
)
@click.option(
    "--judge", metavar="MODEL", help="Have MODEL, not --model, judge if sources support sentences."
)
@click.option("--no-judge", is_flag=True, help="Compare only what is exact in the sentences.")
@click.option(
    "--context-tokens",
    type=WholeNumberType(min=1000),
    help="Context of the model, with its answer.",
)
@_style_options
@click.option("--title", metavar="TEXT", default="", help="Title of the report.")
@click.option(
    "--link-base", metavar="URL", help="Where readers find the files of --folder, not file:///."
)
@click.option("--review-plan", is_flag=True, help="Show you the plan, to change before it begins.")
@partial(_options, CATALOGUES)
@click.option("--site", metavar="HOST", help="Visit only this host and its subdomains.")
@click.option(
    "--sites", metavar="HOSTS", multiple=True, help="The same for several: a,b. May be repeated."
)
@click.option(
    "--exclude", metavar="HOSTS", multiple=True, help="Hosts that are not visited. May be repeated."
)
@click.option(
    "--since", metavar="DATE", help="Leave out what was published before: 2024, 2024-05-01."
)
@click.option(
    "--allow-host",
    "allow_hosts",
    metavar="HOST",
    multiple=True,
    help="Permit a host of this machine or a private network. May be repeated.",
)
@run_limits
@recording_options
@click.option("--out", metavar="FILE", type=_FILE, help=f"Write the report to FILE: {_FORMS}.")
@click.option("--html", metavar="FILE", type=_FILE, help="Write it to FILE as HTML, too.")
@click.option(
    "--sources", metavar="FILE", type=_FILE, help=f"Write its sources to FILE: {_SOURCE_ENDINGS}."
)
@click.option("--studio", "in_studio", is_flag=True, help="Show it on a web page, until Ctrl-C.")
@json_option
def command(
    objectives: tuple[str, ...],
    allow_hosts: tuple[str, ...],
    sites: tuple[str, ...],
    exclude: tuple[str, ...],
    step_model_options: tuple[str, ...],
    journal: str | None,
    run_id: str | None,
    in_studio: bool,
    as_json: bool,
    **values: Any,
) -> int:
    """Research each OBJECTIVE, and report with sources.

    --folder, --search-web and the like say where to search. Each footnote of the report leads to a
    stored passage. A sentence is marked [unsupported] if its passages lack a number, date, name or
    quotation of it, and [not checked] if nobody has compared the meaning: a model does.

    Without --model the report is extractive: it quotes the best sentences for each objective. With
    --model, the model plans the tasks, writes the report and judges its citations and what is
    missing; it is sent what was read.

    The report goes to standard output or --out, progress to standard error.

    \b
    Examples:
      moothall research "How are messages lost?" \\
        --folder docs
      moothall research "What is FTS5?" --search-web \\
        --site sqlite.org --html report.html
      moothall research "Who wrote it?" "When?" \\
        --folder . --model openai:gpt-4o --max-usd 1

    --journal records the run. After Ctrl-C, a limit or a crash, `moothall resume` or the same
    command with the same --run-id continues it; nothing is read or paid twice. A finished run can
    be extended with more --iterations or objectives.

    --studio shows the run on a web page. Without --journal, it is recorded in studio.db in your
    state folder.

    Exit codes: 0 done, 1 failed or stopped,
    2 wrong usage, 130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    with as_usage_error():
        order = ResearchOrder(
            list(dict.fromkeys(objectives)),
            allow_hosts=list(allow_hosts),
            sites=_split_hosts(sites),
            exclude=_split_hosts(exclude),
            step_models=step_models(step_model_options),
            **values,
        )
        check_research(order)
        if order.review_plan and (as_json or keyboard() is None):
            raise ConfigError("--review-plan asks you: it needs a terminal, and no --json")
    if not in_studio:
        return execute_order(run_research, order, journal, run_id, as_json)
    return _in_studio(order, journal, run_id, as_json)


def _split_hosts(values: tuple[str, ...]) -> list[str]:
    """Return hosts that were given in any number of options, with commas between them."""
    return [each.strip() for text in values for each in text.split(",")]


def _in_studio(order: ResearchOrder, journal: str | None, run_id: str | None, as_json: bool) -> int:
    """Carry out an order and show it on a page, until Ctrl-C; return the exit code."""
    from moothall.studio import Studio

    with Studio() as page:
        page.opens = "research"
        with as_usage_error():
            address = page.launch(0, journal=journal, prevent_thread_lock=True, quiet=True)
        if journal is None:  # a command that resumes the run has to name it
            source = click.core.ParameterSource.COMMANDLINE
            click.get_current_context().set_parameter_source("journal", source)
        print(f"moothall studio: {address}", file=sys.stderr, flush=True)
        status = execute_order(run_research, order, journal or page.journal.path, run_id, as_json)
        if status != INTERRUPTED:
            print("the page stays there until Ctrl-C", file=sys.stderr, flush=True)
            with redirect_stdout(sys.stderr), raise_on_interrupt():  # stdout is for the report
                page.wait()
    return status


def run_research(order: ResearchOrder, as_json: bool, recorded: RecordedRun | None = None) -> int:
    """Carry out a research order, show it, and write the report; return the exit code."""
    journal = None if recorded is None else recorded.journal
    display = JSONLines(recorded) if as_json else ResearchDisplay(order.iterations, recorded)
    permission = Permission(display)
    plan_review = PlanReview(permission)
    with as_usage_error():
        reviewer = plan_review.review if order.review_plan else None
        agent = make_researcher(order, journal, os.environ.get("MOOTHALL_KEY"), reviewer)
    plan_review.tools = agent.tools
    to_stderr = partial(print, file=sys.stderr, flush=True)
    handler = WarningHandler(to_stderr if isinstance(display, JSONLines) else display.notes.append)
    _folder_logger.addHandler(handler)  # files that cannot be read
    try:
        reply = interruptible(carry_out(agent, permission, order, recorded))
        status, report, reason = exit_code(reply), reply.value, reply.stop_reason
    except KeyboardInterrupt:
        status, report, reason = INTERRUPTED, agent.report_so_far(), "cancelled"
    finally:
        _folder_logger.removeHandler(handler)
    _write(report, order, as_json)
    if isinstance(display, ResearchDisplay):
        display.print_next_commands(reason)
    return status


def _write(report: Report, order: ResearchOrder, as_json: bool) -> None:
    if as_json:
        print_line("report", report.to_json())
    elif not order.out:
        _print_report(report)
    try:
        files = write_report(report, order)
    except OSError:
        if order.out and not as_json:
            _print_report(report)  # else nobody would have it
        raise
    for label, path in files:
        if not as_json:
            print(f"{label}: {path}", file=sys.stderr, flush=True)


def _print_report(report: Report) -> None:
    text = report.forms["md"].make(report)
    print("\n" * sys.stdout.isatty(), text, sep="", end="", flush=True)


class ResearchDisplay(RunDisplay):
    """Prints what research does on standard error, as standard output is for the report.

    With `whole_report` it prints the report too, and all on standard output.
    """

    _step_noun = "task"
    _hidden_kinds = frozenset(("message", "text", "reasoning"))

    def __init__(
        self,
        iterations: int | None = None,
        recorded: RecordedRun | None = None,
        *,
        whole_report: bool = False,
    ) -> None:
        super().__init__(recorded=recorded, out=sys.stdout if whole_report else sys.stderr)
        self._iterations = iterations
        self._whole_report = whole_report
        self._step_words = "beginning"
        self._open_calls: dict[str, CallStarted] = {}
        self.notes: list[str] = []  # warnings that are not shown yet
        self._shown_ends: set[str] = set()  # the tasks of this iteration whose end was shown

    def _activity(self) -> str:
        running = Counter(self._running_actions.values()).items()
        names = ", ".join(name if n == 1 else f"{n} × {name}" for name, n in running)
        return f"{self._step_words}{f': {names}' if names else ''}"

    # -- the kinds of events -----------------------------------------------------------------------

    def _show_block(self, event: BlockStarted | BlockEnded) -> None:
        if isinstance(event, BlockStarted):
            of_total = (
                "" if self._iterations is None else f" of {max(self._iterations, event.iteration)}"
            )
            if event.block == "plan":
                self._shown_ends.clear()
                self._line(f"iteration {event.iteration}{of_total}", "bold")
            block_name = _STEP_WORDS.get(event.block, event.block)
            self._step_words = f"iteration {event.iteration}{of_total}, {block_name}"
            return
        data = event.result
        for note in data.get("notes", ()):
            self._line(one_line(note, MAX_LINE), "yellow", "  note: ", "    ")
        if event.block == "plan":
            count = len(data["tasks"])
            self._line(f"  plan: {counted(count, 'task')}" if count else "  plan: no task is left")
        elif event.block == "research":
            for task in data["results"]:  # a task that could not be called had no start
                line = Call("", task["tool"], task["args"]).line
                if task["error"] is not None and line not in self._shown_ends:
                    self._show_task(task["tool"], task["args"], task["error"], [])
        elif event.block == "narrate":
            number = len(data["unsupported"])
            unsupported = f", {counted(number, 'sentence')} marked [unsupported]" if number else ""
            self._line(f"  report: {counted(len(data['citations']), 'citation')}{unsupported}")
        elif event.block == "evaluate":
            if data["remark"]:
                self._line(one_line(data["remark"], MAX_LINE), "dim", "  remark: ", "    ")
            for objective in () if data.get("estimated") else data["objectives"]:
                self._show_bar(objective["expertise"], objective["topic"])
            for objective in data["generated"]:
                self._line(one_line(objective["topic"], MAX_LINE), "dim", "  also: ", "    ")

    def _show_bar(self, expertise: float, topic: str) -> None:
        filled = round(expertise * _BAR_CHARS)
        label = f"  {expertise:.2f}  {one_line(topic, MAX_LINE)}"
        bar = ("■" * filled, "green"), ("·" * (_BAR_CHARS - filled), "dim"), (label, "")
        self._print("  ", "    ", *bar)

    def _show_call(self, event: CallStarted) -> None:
        self._open_calls[event.call_id] = event

    def _show_result(self, event: CallEnded) -> None:
        call = self._open_calls.pop(event.call_id, None)
        result = event.result.get("result")
        resources = result.get("resources", []) if isinstance(result, dict) else []
        self._show_task(event.action, call.args if call else {}, event.error, resources)
        while self.notes:
            self._line(self.notes.pop(0), "yellow", "    ", "      ")

    def _show_task(self, tool: str, args: Any, error: str | None, resources: list[Any]) -> None:
        line = Call("", tool, args).line
        self._shown_ends.add(line)
        failed = error is not None
        prefix = "  ✗ " if failed else "  ✓ "
        self._line(one_line(line, MAX_LINE), "red" if failed else "cyan", prefix, "    ")
        self._line(one_line(error or _resource_line(resources), MAX_LINE), "", "    ", "      ")

    def _show_end(self, reply: Reply, seconds: float | None) -> None:
        report: Report = reply.value
        if self._whole_report:
            self._line("")
            self._line(report.markdown.expandtabs(4).rstrip())
        if exit_code(reply):
            self._print_to(sys.stderr)
        words = end_in_words(report.stop_reason, report.detail)
        self._line("")
        self._line(words, "bold red" if exit_code(reply) else "bold green")
        tokens = report.usage.input_tokens + report.usage.output_tokens
        duration = "" if seconds is None else f"{seconds:.1f} s, "
        amounts = f"{duration}{counted(tokens, 'token')}"
        self._line(f"{counted(report.iterations, 'iteration')}, {amounts}", "dim")
        self._show_next_commands(reply.stop_reason)

    def _show_next_commands(self, stop_reason: str) -> None:
        if self._whole_report:  # else `run_research` prints it below the report
            super()._show_next_commands(stop_reason)

    def print_next_commands(self, stop_reason: str) -> None:
        """Print how to continue the run."""
        super()._show_next_commands(stop_reason)
        if self._recorded_run is None and stop_reason not in REASONS.final:
            self._line("with --journal FILE it would be recorded and could be resumed")


def _resource_line(resources: list[Any]) -> str:
    visited = [each for each in resources if each.get("visited")]
    labels = [each.get("description") or each.get("url") for each in visited or resources]
    names = dict.fromkeys(labels)  # pages of one manual may all be called the same
    counts = [f"{len(visited)} read"] if visited else []
    counts += [f"{len(resources) - len(visited)} found"] if len(resources) > len(visited) else []
    return f"{', '.join(counts)}: {'; '.join(map(str, names))}" if counts else "nothing found"
