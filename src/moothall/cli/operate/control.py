"""A hand on runs that work: the commands `moothall runs cancel`, `pause`, `go-on` and `tell`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import click

from moothall import Journal, StateError
from moothall.build import counted, escaped
from moothall.cli import completing
from moothall.cli.operate.waiting import user_name
from moothall.cli.recorded_runs import filter_options, full_run_id, run_filters
from moothall.cli.shared_options import as_usage_error, journal_option, open_journal
from moothall.journal import REASONS, Outline

_WAIT_S: Final = 5.0
"""For how long a command waits for the process that works on the run."""
_LOOK_S: Final = 0.1

_by_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--as", "by", metavar="NAME", help="Who does so; by default the user of this system."
)
_all_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--all", "all_runs", is_flag=True, help="All runs of the journal, or those of the filters."
)


@click.command(short_help="End a run, whoever works on it.")
@click.argument("run_id", metavar="ID", shell_complete=completing.runs)
@journal_option("The journal.")
@_by_option
def cancel(run_id: str, journal: str | None, by: str | None) -> int:
    """End the run with this ID, and the runs of the agents that it has asked.

    A process that works on it ends it within a second, also within a call of a model or an async
    action; a plain function runs on, and its result is dropped. A run that waits, or was cut off,
    ends at once: what comes later is refused.

    \b
    Example:
      moothall runs cancel 79a0b5265e6033b5
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    with open_journal(journal) as store, as_usage_error():
        run_id = full_run_id(store, run_id)
        if not store.cancel(run_id, by=user_name(by)):
            _until(lambda: store.run(run_id).held)
            with suppress(StateError):  # its process was killed meanwhile
                store.cancel(run_id, by=user_name(by))
        run = store.run(run_id)
        id = escaped(run.id)
        if run.held:
            click.echo(f"run {id} is to end: the process that works on it has not done so yet")
        elif run.state == "in_doubt":
            click.echo(f"run {id} goes on no more, and calls of it are in doubt: moothall waiting")
        elif run.state == "cancelled":
            click.echo(f"run {id} is cancelled")
        else:
            click.echo(f"run {id} had ended before: it is {run.state}")
    return 0


@click.command(short_help="Have a run stop before its next step, and wait.")
@click.argument("run_id", metavar="[ID]", required=False, shell_complete=completing.runs)
@journal_option("The journal.")
@_all_option
@filter_options
@_by_option
def pause(
    run_id: str | None, journal: str | None, all_runs: bool, by: str | None, **filters: Any
) -> int:
    """Have the run with this ID stop before its next step, and wait until `moothall runs go-on`.

    The step under way ends first, and its result is recorded. The runs of the agents that it has
    asked wait with it. --all is for a deployment: all runs that have not ended, or those of an
    agent or a tag; a run that begins later is not paused.

    \b
    Examples:
      moothall runs pause 79a0b5265e6033b5
      moothall runs pause --all --agent clerk
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    with open_journal(journal) as store, as_usage_error():
        name, run_ids = user_name(by), list[str]()
        for id in _run_ids(store, run_id, all_runs, filters, _CAN_PAUSE):
            with suppress(*([StateError] if all_runs else [])):  # it has ended since, or is no work
                store.pause(id, by=name)
                run_ids.append(id)
        working = _until(lambda: [id for id in run_ids if store.run(id).held])
        if not all_runs:
            end = "is paused"
            if working:
                end = "is to pause: the process that works on it has not ended its step yet"
            elif store.run(run_ids[0]).state not in ("waiting", "in_doubt"):
                end = f"had ended before: it is {store.run(run_ids[0]).state}"
            click.echo(f"run {escaped(run_ids[0])} {end}")
            return 0
        count = len(run_ids) - len(working)
        click.echo(f"{counted(count, 'run')} {'stands' if count == 1 else 'stand'} still")
        for id in working:
            click.echo(f"run {escaped(id)} has not ended its step yet")
    return 1 if working else 0


@click.command("go-on", short_help="Let a paused run go on.")
@click.argument("run_id", metavar="[ID]", required=False, shell_complete=completing.runs)
@journal_option("The journal.")
@_all_option
@filter_options
@_by_option
def go_on(
    run_id: str | None, journal: str | None, all_runs: bool, by: str | None, **filters: Any
) -> int:
    """Let the paused run with this ID go on, with those that were paused with it.

    The process that serves its agent goes on with it within seconds, or `moothall resume`.

    \b
    Examples:
      moothall runs go-on 79a0b5265e6033b5
      moothall runs go-on --all
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    with open_journal(journal) as store, as_usage_error():
        count = 0
        for id in _run_ids(store, run_id, all_runs, filters, _CAN_PAUSE):
            with suppress(*([StateError] if all_runs else [])):  # it is not paused
                store.go_on(id, by=user_name(by))
                count += 1
        click.echo(f"{counted(count, 'run') if all_runs else f'run {escaped(id)}'} may go on")
    return 0


@click.command(short_help="Interrupt a run with a text.")
@click.argument("run_id", metavar="ID", shell_complete=completing.runs)
@click.argument("text")
@journal_option("The journal.")
@_by_option
def tell(run_id: str, text: str, journal: str | None, by: str | None) -> int:
    """Interrupt the run with this ID: it stops its current work, and continues with TEXT.

    Its model reads TEXT, with your name before each line, as the user's words. A run that waits or
    was cut off hears it when it goes on.

    \b
    Example:
      moothall runs tell 79a0b5265e6033b5 "Stop after this one."
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    with open_journal(journal) as store, as_usage_error():
        run_id = full_run_id(store, run_id)
        key = store.tell(run_id, text, by=user_name(by))
        has_heard = partial(store.held_runs.requests.is_heard, run_id, key)
        _until(lambda: not has_heard() and store.run(run_id).held)
        id, state = escaped(run_id), store.run(run_id).state
        if has_heard():
            click.echo(f"run {id} has heard it")
        elif state in REASONS.final:
            click.echo(f"run {id} had ended before it heard that: it is {state}")
            return 1
        else:
            click.echo(f"run {id} hears it when it goes on")
    return 0


_CAN_PAUSE: Final = ("running", "waiting", "mismatch", *Outline.cut_off)
"""The states of runs that can be paused."""


def _run_ids(
    store: Journal, run_id: str | None, all_runs: bool, filters: dict[str, Any], states: Any
) -> list[str]:
    """Return the runs that a command is for: that of its ID, or all."""
    chosen = {name: each for name, each in run_filters(filters).items() if each}
    if (run_id is None) is not all_runs or (chosen and not all_runs):
        raise click.UsageError("give the ID of a run, or --all, which takes filters")
    if run_id is not None:
        return [full_run_id(store, run_id)]
    return [each.id for each in store.runs(**{"state": states, **chosen})]


def _until(is_busy: Callable[[], Any]) -> Any:
    """Wait for some seconds until something is over; return what is not, at the end."""
    end, never = time.monotonic() + _WAIT_S, threading.Event()
    while (busy := is_busy()) and time.monotonic() < end:
        never.wait(_LOOK_S)
    return busy
