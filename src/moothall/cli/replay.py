"""`moothall replay`: show a run from its record."""

from __future__ import annotations

import json
from typing import Any

import click

from moothall import Done, Reply, StateError
from moothall.agents import recorded_events
from moothall.build import escaped
from moothall.cli import completing
from moothall.cli.recorded_runs import RecordedRun, full_run_id
from moothall.cli.run.act import make_display
from moothall.cli.run.outcome import exit_code
from moothall.cli.shared_options import journal_option, json_option, open_for_reading
from moothall.journal import REASONS, Entry


@click.command()
@click.argument("run_id", metavar="ID", shell_complete=completing.runs)
@journal_option("The journal.")
@json_option
def command(run_id: str, journal: str | None, as_json: bool) -> int:
    """Replay the run with this ID from its record.

    Nothing is executed or changed, no model is asked, and no key or network is needed. The output
    is that of the run itself, without times, and the same each time, byte for byte.

    \b
    Examples:
      moothall replay 79a0b5265e6033b5 --journal runs.db
      moothall replay 79a0b5265e6033b5 --json

    \b
    Exit codes: 0 the run was done,
    1 it was stopped or has not ended, 2 wrong usage,
    130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    with open_for_reading(journal) as store:
        return show_replay(RecordedRun(store, full_run_id(store, run_id)), as_json)


def say_end(run_id: str, reason: str, detail: str) -> None:
    """Say on standard error how a run of the user's own orchestrator ended, or stopped."""
    words = REASONS.in_words(reason, detail)
    click.echo(f"moothall: run {escaped(run_id)} is {escaped(words)}", err=True)


def show_replay(recorded_run: RecordedRun, as_json: bool, *, is_resumed: bool = False) -> int:
    """Show a run from its record; return the run's exit code."""
    run_id, outline, entries = recorded_run.run_id, recorded_run.outline, recorded_run.entries
    if Entry.end_of(entries) is None:
        raise StateError(
            f"run {run_id!r} has not ended: `{escaped(recorded_run.command('runs'))}` shows its "
            f"record, and `{escaped(recorded_run.command('resume'))}` resumes it"
        )
    reply: Reply | dict[str, Any] = recorded_run.journal.replay(run_id)
    if isinstance(reply, dict):  # of the user's own orchestrator
        end = reply["over"]
        is_answered = end["reason"] in REASONS.answered
        text = str(end.get("text") or "")
        if as_json or not is_resumed:
            click.echo(json.dumps(reply, indent=2))
        elif is_answered and text:
            click.echo(escaped(text, lines=True))
        else:
            say_end(run_id, end["reason"], str(end.get("detail") or text))
        return 0 if is_answered else 1
    uncut_actions = (
        [reply.steps[-1].action] if reply.stop_reason == "terminal" and reply.steps else []
    )
    # For a program that resumes it, as any other run that it resumes.
    display = make_display(
        outline.kind, as_json, recorded_run if as_json and is_resumed else None, uncut_actions
    )
    if not as_json:
        click.echo(escaped(outline.task))
    for event in recorded_events(entries):
        display.event(event, None)
    display.event(Done(outline.agent, reply), None)
    if as_json and outline.kind == "Researcher":
        from moothall.cli.run.watch import print_line

        print_line("report", reply.value.to_json())
    return exit_code(reply)
