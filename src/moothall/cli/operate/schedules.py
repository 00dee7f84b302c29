"""`moothall schedules`: the schedules of a company, seen and changed while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moothall import ConfigError
from moothall.build import check_text, counted, escaped
from moothall.cli.operate.waiting import user_name, user_option
from moothall.cli.option_types import MomentType
from moothall.cli.shared_options import as_usage_error, json_data_option, make_journal, print_json

if TYPE_CHECKING:
    from moothall.journal import Journal
    from moothall.serving import Schedule


def _schedule_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the company's file, and the name of one of its schedules."""
    return click.argument("file", type=click.Path(exists=True, dir_okay=False))(
        click.argument("schedule")(user_option(function))
    )


@contextmanager
def _opened(file: str, name: str | None = None) -> Iterator[tuple[Journal, dict[str, Schedule]]]:
    """Yield the journal and the schedules of a company's file."""
    from moothall.serving import Company

    with as_usage_error():
        settings = Company.read_settings(file)
        schedules = {
            each: each_settings.schedule() for each, each_settings in settings.schedules.items()
        }
        if not schedules:
            raise ConfigError(f"{file} has no schedules")
        check_text("SCHEDULE", name, sorted(schedules), optional=True)
    journal_name = settings.journal or ""
    path = (
        journal_name if "://" in journal_name else str(Path(file).resolve().parent / journal_name)
    )
    with make_journal(path) as journal:
        yield journal, schedules


@click.group()
def command() -> None:
    """Show the schedules of a company, pause them, fire them now, or make up for missed times.

    FILE is the company's file. The process that serves it finds what you want within a second; if
    none does, the next start.

    \b
    Examples:
      moothall schedules list company.yaml
      moothall schedules pause company.yaml report
      moothall schedules resume company.yaml report
      moothall schedules fire company.yaml report
      moothall schedules backfill company.yaml report --since 2026-11-20 --until 2026-11-22
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are


@command.command("list", short_help="List the schedules, with their last and next times.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@json_data_option
def list_(file: str, as_json: bool) -> None:
    """List the schedules of FILE: when each fires next, what became of the last firing."""
    from moothall.serving import ScheduleControl

    now, rows = datetime.now(UTC), []
    with _opened(file) as (journal, schedules):
        for name, schedule in schedules.items():
            control = ScheduleControl(journal, name)
            pause_note, last = control.paused(), control.newest()
            next_time = (
                None if pause_note else next(schedule.after(now)).isoformat(timespec="seconds")
            )
            rows.append(
                {
                    "name": name,
                    "times": schedule.times,
                    "paused": None if pause_note is None else pause_note.task,
                    "next": next_time,
                    "last": None if last is None else last.id,
                    "state": None if last is None else last.state,
                }
            )
    if as_json:
        print_json(schedules=rows)
        return
    for each in rows:
        click.echo(escaped(f"{each['name']}: {each['times']}"))
        click.echo(escaped(f"  {each['paused'] or 'next: ' + str(each['next'])}"))
        if each["last"] is not None:
            click.echo(escaped(f"  last: {each['last']} {each['state']}"))


@command.command(short_help="Have a schedule not fire.")
@_schedule_arguments
def pause(file: str, schedule: str, by: str | None) -> None:
    """Have the schedule SCHEDULE not fire until `resume`. Times that pass meanwhile never fire."""
    from moothall.serving import ScheduleControl

    with _opened(file, schedule) as (journal, _):
        ScheduleControl(journal, schedule, user_name(by)).pause()
    click.echo(escaped(f"{schedule} is paused"))


@command.command(short_help="Have a paused schedule fire again.")
@_schedule_arguments
def resume(file: str, schedule: str, by: str | None) -> None:
    """Have the schedule SCHEDULE fire again, from its next time on."""
    from moothall.serving import ScheduleControl

    with _opened(file, schedule) as (journal, schedules):
        ScheduleControl(journal, schedule, user_name(by)).resume()
    next_time = next(schedules[schedule].after(datetime.now(UTC)))
    click.echo(escaped(f"{schedule} fires next at {next_time.isoformat(timespec='seconds')}"))


@command.command(short_help="Have a schedule fire now.")
@_schedule_arguments
def fire(file: str, schedule: str, by: str | None) -> None:
    """Have the schedule SCHEDULE fire once, now, even if it is paused."""
    from moothall.serving import ScheduleControl

    with _opened(file, schedule) as (journal, _):
        click.echo(escaped(ScheduleControl(journal, schedule, user_name(by)).fire()))


@command.command(short_help="Have a schedule fire for times that have passed.")
@_schedule_arguments
@click.option("--since", metavar="TIME", type=MomentType(), required=True, help="After this time.")
@click.option("--until", metavar="TIME", type=MomentType(), help="Up to this time; now by default.")
def backfill(file: str, schedule: str, by: str | None, since: float, until: float | None) -> None:
    """Have the schedule SCHEDULE fire for its times since then that have not fired, in order."""
    from moothall.serving import ScheduleControl

    with _opened(file, schedule) as (journal, schedules), as_usage_error():
        end = datetime.now(UTC) if until is None else datetime.fromtimestamp(until, UTC)
        begin = datetime.fromtimestamp(since, UTC)
        control = ScheduleControl(journal, schedule, user_name(by))
        firings = control.make_up(schedules[schedule], begin, end)
    for each in firings:
        click.echo(escaped(each))
    click.echo(counted(len(firings), "firing"))
