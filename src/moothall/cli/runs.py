"""`moothall runs`: the runs of a journal, and what happened in one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, Final

import click

from moothall.build import check_text, counted, escaped
from moothall.cli import completing
from moothall.cli.operate.maintenance import COMMANDS
from moothall.cli.option_types import OneOf, WholeNumberType
from moothall.cli.recorded_runs import (
    AGENT_PLACEHOLDER,
    RecordedRun,
    filter_options,
    full_run_id,
    print_doubts,
    run_filters,
)
from moothall.cli.screen import typed_command
from moothall.cli.shared_options import (
    as_usage_error,
    is_on_command_line,
    journal_option,
    json_data_option,
    open_for_reading,
    print_json,
)
from moothall.journal import REASONS, Entry, Journal, Outline, Sums
from moothall.studio.orders import forks_of, has_resume, order_line, order_of

_MAX_LISTED = 100
"""So many runs are listed for a person who sets no limit."""

RUN_KINDS = ("Conversation", "DualActAgent", "ReActAgent", "Researcher", "Schedule", "Society")
"""What records runs, of moothall's own."""


class _RunsCommand(click.Group):
    """A command with an optional id, and commands of its own, whose names come first."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        parser = self.make_parser(ctx)
        parser.allow_interspersed_args = False
        options, rest, _ = parser.parse_args([*args])
        name = str(options.get("run_id"))
        if name in self.commands:
            typed_before = args[: len(args) - len(rest) - 1]
            click.Command.parse_args(self, ctx, [*typed_before])
            self._check_passed_on(ctx, name)
            ctx.invoked_subcommand = name
            ctx.args = [name, *typed_before, *rest]
            return ctx.args
        ctx.allow_interspersed_args, ctx.allow_extra_args = True, False
        return click.Command.parse_args(self, ctx, args)

    def _check_passed_on(self, ctx: click.Context, name: str) -> None:
        """Check that a command takes the options that are typed before its name, too."""
        option_names = {each.name for each in self.commands[name].params}
        for each in self.params:
            if (
                each.name in ctx.params
                and ctx.get_parameter_source(each.name) is click.core.ParameterSource.COMMANDLINE
                and each.name not in option_names
            ):
                raise click.UsageError(f"runs {name} takes no {each.opts[0]}", ctx)

    def invoke(self, ctx: click.Context) -> Any:
        if ctx.invoked_subcommand is None:
            return click.Command.invoke(self, ctx)
        name, *rest = ctx.args
        with self.commands[name].make_context(name, rest, parent=ctx) as subcontext:
            return subcontext.command.invoke(subcontext)


@click.group(
    cls=_RunsCommand,
    invoke_without_command=True,
    commands=COMMANDS,
    subcommand_metavar="| COMMAND [ARGS]...",
)
@click.argument("run_id", metavar="[ID]", required=False, shell_complete=completing.runs)
@journal_option("The journal.")
@filter_options
@click.option(
    "--sort",
    type=OneOf((*Outline.sorts, *(f"-{each}" for each in Outline.sorts))),
    metavar="BY",
    help=f"Order by {', '.join(Outline.sorts)}; -BY: the largest first.",
)
@click.option(
    "--limit",
    metavar="N",
    type=WholeNumberType(min=0),
    help="At most N runs, without --sort the last ones; 0 for all.  "
    f"[default: {_MAX_LISTED}; all with --json]",
)
@click.option(
    "--citizen", metavar="N", help="Show what citizen N of a society asked its model, by step."
)
@click.option("--step", type=WholeNumberType(min=0), help="Show that of one step, with --citizen.")
@json_data_option
def command(
    run_id: str | None,
    journal: str | None,
    citizen: str | None,
    step: int | None,
    as_json: bool,
    sort: str | None,
    limit: int | None,
    **filters: Any,
) -> int:
    """List the runs of a journal, the newest last; with ID, show what happened in that run.

    A list has a line for each run: id, state, when it began, seconds, tokens, US dollars, agent,
    conversation, tags, why it failed, and task. It ends with the sums of all runs that were found,
    and with the number of those that wait for a person.

    A run is shown with one line for each entry of its record; the beginning of its ID is enough.
    Calls in doubt (actions that were running when the run was cut off) are numbered; `moothall
    resume` takes these numbers.

    The states are running, waiting (for an
    answer, a result or a moment), in_doubt (it was cut off during an action, and a person decides),
    stopped (its process ended otherwise), mismatch (it could go on, but for its program, which has
    changed), done, and the other reasons for which a run ends. --needs-me lists those that are
    waiting, mismatch, in_doubt or stopped. A TIME is a date such as
    2026-11-24, with a time (2026-11-24T18:00) or without, today, yesterday, or how long ago: 90s,
    30m, 12h, 7d, 2w.

    \b
    Examples:
      moothall runs --journal runs.db
      moothall runs 79a0b5265e6033b5 --journal runs.db
      moothall runs --needs-me
      moothall runs --since yesterday
      moothall runs --since 7d --text refund --sort=-usd --limit 10
      moothall runs --tag customer=acme
      moothall runs april --citizen 17
      MOOTHALL_JOURNAL=runs.db moothall runs --json
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    if citizen is not None and run_id is None:
        raise click.UsageError("--citizen is for one run: give its ID too")
    if step is not None and citizen is None:
        raise click.UsageError("--step is of a citizen: give --citizen too")
    if run_id is not None and (limit is not None or sort or any(filters.values())):
        raise click.UsageError("an ID is one run: leave out the options that choose runs")
    with open_for_reading(journal) as store:
        if run_id is None:
            _print_list(store, run_filters(filters), sort, limit, as_json)
            return 0
        run_id = full_run_id(store, run_id)
        if citizen is not None:
            calls, outline = _calls_of(store, run_id, citizen, step), store.run(run_id)
            if as_json:
                print_json(run=outline, citizen=citizen, calls=calls)
            else:
                print_outline(outline)
                _print_calls(calls)
        else:
            _print_run(RecordedRun(store, run_id), as_json)
    return 0


def print_outline(outline: Outline, detail: str = "") -> None:
    """Print the head of a run: id, state with the detail of its end, agent and task."""
    click.echo(escaped(outline.id))
    words = REASONS.state_in_words(outline.state, detail)
    began_text = datetime.fromtimestamp(outline.began).strftime("%Y-%m-%d %H:%M:%S")
    agent = f"{outline.kind} {outline.agent}"
    entries = f"{outline.entries:,} entr{'y' if outline.entries == 1 else 'ies'}"
    click.echo(f"  {escaped(words)}; {escaped(agent)}, began {began_text}, {entries}")
    if outline.forked_from is not None:
        click.echo(f"  forked from {escaped(outline.forked_from)}")
    for name, text in outline.attributes_in_words().items():
        click.echo(f"  {name}: {escaped(text)}")
    click.echo(f"  {_fit_to_width(escaped(outline.task), 4)}")


_DETAIL_CHARS: Final = 60
"""So many characters of why a run failed stand in a list, before its task."""


def _task_cell(outline: Outline) -> str:
    notes = [*outline.attributes_in_words().values()]
    notes += [f"{outline.detail:.{_DETAIL_CHARS}}"] if outline.detail else []
    return escaped("".join(f"[{text}] " for text in notes) + outline.task)


_COLUMNS: Final[dict[str, Callable[[Outline], str]]] = {
    "id": lambda run: escaped(run.id),
    "state": lambda run: run.state,
    "failed": lambda run: f"{run.errors:,}" if run.errors else "",
    "began": lambda run: datetime.fromtimestamp(run.began).strftime("%Y-%m-%d %H:%M"),
    "took": lambda run: _duration(run.seconds),
    "tokens": lambda run: f"{run.tokens:,}" if run.tokens else "",
    "usd": lambda run: f"${run.usd:.4g}" if run.usd else "",
    "agent": lambda run: escaped("/".join(filter(None, (run.agent, run.thread)))),
    "task": _task_cell,
}
"""The columns of a list of runs, each with what makes its cell."""
_TASK_COLUMNS: Final = 40
"""So many columns of a terminal the task has, if agents and ids can be cut."""
_FEWEST_COLUMNS: Final = 12
_NUMBER_COLUMNS: Final = ("failed", "took", "tokens", "usd")


def _table(outlines: Sequence[Outline]) -> Iterator[str]:
    """Yield the lines of a table with its head; a column in which nothing stands is left out."""
    if not outlines:
        return
    columns = [
        (name, [name, *texts])
        for name, cell in _COLUMNS.items()
        if any(texts := [*map(cell, outlines)])
    ]
    widths = [max(map(len, cells)) for _, cells in columns]
    _leave_room_for_task(columns, widths)
    for number in range(len(outlines) + 1):
        padded_cells = (
            f"{cells[number]:{'>' if name in _NUMBER_COLUMNS else '<'}{width}}"
            for (name, cells), width in zip(columns, widths, strict=True)
        )
        yield "  ".join(padded_cells).rstrip()


def _leave_room_for_task(columns: list[tuple[str, list[str]]], widths: list[int]) -> None:
    """Cut agents and ids, if the terminal would have no room for the task; an id stays its own."""
    lacking = sum(widths[:-1]) + 2 * len(widths) + _TASK_COLUMNS - _terminal_columns()
    for name, fewest in (("agent", _FEWEST_COLUMNS), ("id", _FEWEST_COLUMNS)):
        index = next((n for n, (column, _) in enumerate(columns) if column == name), None)
        if lacking <= 0 or index is None or not _terminal_columns():
            continue
        cells = columns[index][1]
        width = max(fewest, widths[index] - lacking)
        while name == "id" and len({each[: width - 1] for each in cells}) < len({*cells}):
            width += 1
        lacking -= max(0, widths[index] - width)
        cells[:] = [each if len(each) <= width else f"{each[: width - 1]}…" for each in cells]
        widths[index] = min(width, widths[index])


def _spent_text(spent: Outline | Sums) -> str:
    """Return what runs have spent, in words; empty if they asked no model and ran no action."""
    if not (spent.model_calls or spent.actions):
        return ""
    parts = [counted(spent.model_calls, "model call"), counted(spent.tokens, "token")]
    parts += [f"${spent.usd:.4g}"] if spent.usd else []
    parts += [counted(spent.actions, "action"), _duration(spent.seconds)]
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"


def _check_kind(journal: Journal, kind: str) -> None:
    """Raise for a class without runs that is not a class that records them."""
    if journal.sums(kind=kind).runs == 0:
        kinds = {each.kind for each in journal.runs()}
        with as_usage_error():
            check_text("--kind", kind, sorted({*RUN_KINDS, *kinds}))


def _print_list(
    journal: Journal, filters: dict[str, Any], sort: str | None, limit: int | None, as_json: bool
) -> None:
    most = limit if limit is not None else None if as_json else _MAX_LISTED
    takes_newest = sort is None and bool(most)
    sort_order = "-began" if takes_newest else sort or "began"
    with as_usage_error():
        outlines: Sequence[Outline] = journal.runs(**filters, sort=sort_order, limit=most or None)
    if takes_newest:  # the last ones, the oldest of them first
        outlines = outlines[::-1]
    sums = journal.sums(**filters)
    if not sums.runs and filters.get("kind") is not None:
        _check_kind(journal, filters["kind"])
    if as_json:
        print_json(runs=outlines, sums=sums)
        return
    for line in _table(outlines):
        click.echo(_fit_to_width(line, 0))
    if not sums.runs:
        click.echo("There are no runs." if not any(filters.values()) else "There are no such runs.")
        return
    spent = _spent_text(sums)
    count_shown = f"{len(outlines):,} {'is' if len(outlines) == 1 else 'are'} shown"
    shown_note = "" if sums.runs == len(outlines) else f"; {count_shown} (--limit)"
    click.echo(f"{counted(sums.runs, 'run')}{shown_note}{f': {spent}' if spent else ''}")
    if needing := journal.sums(**{**filters, "needs_person": True}).runs:
        path = ("--journal", journal.path) if is_on_command_line("journal") else ()
        command = typed_command("moothall", "waiting", *path)
        click.echo(f"{needing:,} of them {'needs' if needing == 1 else 'need'} you: {command}")


def _print_run(recorded: RecordedRun, as_json: bool) -> None:
    outline, entries = recorded.outline, recorded.entries
    doubts = recorded.journal.in_doubt(recorded.run_id)
    order = order_of(entries)
    agent = None if order or has_resume(outline) else AGENT_PLACEHOLDER
    recorded = replace(recorded, order=order, agent=agent)
    if as_json:
        # A call under way is not in doubt.
        in_doubt = [] if outline.under_way else doubts
        print_json(run=outline, entries=entries, in_doubt=in_doubt)
        return
    end = None if outline.under_way else Entry.end_of(entries)
    print_outline(outline, "" if end is None else end.detail)
    day = ""
    for entry in entries:
        moment = datetime.fromtimestamp(entry.at)
        if entry is not entries[0] and f"{moment:%Y-%m-%d}" != day:
            click.echo(f"  {moment:%Y-%m-%d}")
        day = f"{moment:%Y-%m-%d}"
        path = f"{escaped(entry.path)}: " if entry.path else ""
        line = f"  {entry.sequence:>4}  {moment:%H:%M:%S}  {path}{order_line(entry)}"
        click.echo(_fit_to_width(line, 2))
    if outline.under_way:
        for doubt in doubts:
            click.echo(f"running: {doubt.line}")
        return
    if fork_ids := forks_of(recorded.journal, recorded.run_id):
        click.echo(f"it was forked as: {escaped(', '.join(fork_ids))}")
        return
    if doubts:
        print_doubts(doubts, recorded)
        return
    for words, line in recorded.next_commands(outline.state) if entries else ():
        click.echo(f"{words}: {escaped(line)}")


def _terminal_columns() -> int:
    """Return the terminal's width; 0 without one."""
    return shutil.get_terminal_size((0, 24)).columns


def _fit_to_width(line: str, reserved_columns: int) -> str:
    """Return a line cut to the terminal's width; without a terminal it is whole, for `grep`."""
    columns = _terminal_columns()
    width = max(40, columns - reserved_columns)
    return line if not columns or len(line) <= width else f"{line[: width - 2]} …"


def _calls_of(
    journal: Journal, run_id: str, citizen: str, step: int | None
) -> list[dict[str, Any]]:
    """Return a citizen's model calls in a run, in order."""
    from moothall.society import decisions

    with as_usage_error():
        calls = decisions(journal, run_id, citizen, step)
    if not calls:
        place = "" if step is None else f" in step {step}"
        raise click.UsageError(f"in run {run_id!r} no citizen {citizen!r} has asked a model{place}")
    return [asdict(each) for each in calls]


def _print_calls(calls: list[dict[str, Any]]) -> None:
    """Print the calls of a citizen by step."""
    step = None
    for call in calls:
        if call["step"] != step:
            step = call["step"]
            time_text = f", {call['time'].replace('T', ' ')}" if call["time"] else ""
            click.echo(f"step {step}{time_text}")
        click.echo(f"  {escaped(call['model'])}")
        for message in call["messages"]:
            _print_field(str(message.get("role")), message.get("content"))
        _print_field("failed" if call["failed"] else "answer", call["failed"] or call["answer"])
        if call["unused"] or not call["failed"]:
            reason = f"not by this answer: {call['unused']}" if call["unused"] else "by this answer"
            _print_field("decided", reason)
        if call["reason"] and call["reason"] != call["unused"]:
            _print_field("reason", call["reason"])
        if call["tokens"]:
            usd = "" if call["usd"] is None else f", {call['usd']:.6f} US dollars"
            _print_field("cost", f"{call['tokens']:,} tokens{usd}")


def _print_field(name: str, text: Any) -> None:
    lines = str("nothing" if text is None else text).splitlines() or [""]
    click.echo(f"    {escaped(name):<9} {escaped(lines[0])}")
    for line in lines[1:]:
        click.echo(f"    {'':<9} {escaped(line)}")
