"""Runs in a journal: how a command records one, what is in doubt in it, and what to type next."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Final

import click

from moothall import NoSuchRun, StateError
from moothall.budget import RUN_LIMITS
from moothall.build import escaped
from moothall.cli import completing
from moothall.cli.option_types import MomentType, NumberType
from moothall.cli.screen import typed_command
from moothall.cli.shared_options import as_usage_error, is_on_command_line, make_journal
from moothall.journal import ATTRIBUTES, REASONS, Doubt, Entry, Journal, Outline
from moothall.studio.orders import (
    AnyOrder,
    ResumeRefusal,
    check_no_keys,
    has_resume,
    order_of,
    resume_refusal,
)

_MAX_NAMED_RUNS: Final = 5
AGENT_PLACEHOLDER: Final = "MODULE:AGENT"
"""Stands in a shown command for an agent that is not known."""


def full_run_id(journal: Journal, run_id: str) -> str:
    """Return the id of a run, of which the beginning is enough if no other begins so.

    Raise NoSuchRun if it names none, and UsageError if it names several.
    """
    try:
        return journal.run(run_id).id
    except NoSuchRun:
        ids = [each.id for each in journal.runs() if each.id.startswith(run_id)]
        if not run_id or not ids:
            raise
        if len(ids) > 1:
            names = ", ".join(f"{id!r:.80}" for id in ids[-_MAX_NAMED_RUNS:])
            last = "the last are " if len(ids) > _MAX_NAMED_RUNS else ""
            raise click.UsageError(
                f"ID {run_id!r:.80}: {len(ids):,} runs begin so: {last}{names}"
            ) from None
        return ids[0]


def next_lines(journal: Journal, run_id: str) -> list[str]:
    """Return how a run goes on that has not ended, a line each."""
    outline, order = journal.run(run_id), order_of(journal.entries(run_id))
    if outline.under_way:
        return []
    commands = RecordedRun(
        journal, run_id, order, None if order or has_resume(outline) else AGENT_PLACEHOLDER
    ).next_commands(outline.state)
    return [f"{words}: {escaped(command)}" for words, command in commands]


@dataclass(frozen=True)
class RecordedRun:
    """A run in a journal."""

    journal: Journal
    run_id: str
    order: AnyOrder | None = None  # None if it is a run of the user's own agent,
    agent: str | None = None  # which is named here as MODULE:AGENT
    description: str = ""  # shown when the run is resumed
    # If the command line names the journal, shown commands name it too.
    names_journal: bool = field(default_factory=partial(is_on_command_line, "journal"))

    @property
    def run_fields(self) -> dict[str, str]:
        """The fields of the event `run`, by which a program knows the run."""
        return {"run_id": self.run_id, "journal": self.journal.path}

    @property
    def outline(self) -> Outline:
        """The run's outline."""
        return self.journal.run(self.run_id)

    @property
    def entries(self) -> list[Entry]:
        """The run's entries."""
        return self.journal.entries(self.run_id)

    def command(self, name: str, *options: str) -> str:
        """Return a command about the run, as it is typed."""
        journal = ("--journal", self.journal.path) if self.names_journal else ()
        agent = ("--agent", self.agent) if self.agent and name == "resume" else ()
        return typed_command("moothall", name, self.run_id, *options, *journal, *agent)

    def next_commands(self, stop_reason: str) -> list[tuple[str, str]]:
        """Return how to continue after a stop reason, as (words, command); empty if it is over."""
        if stop_reason in REASONS.final:
            return []
        if doubts := [each.number for each in self.journal.in_doubt(self.run_id)]:
            return self._decision_commands(doubts)
        if stop_reason in Outline.parked and self.journal.waiting(self.run_id):
            path = ("--journal", self.journal.path) if self.names_journal else ()
            return [("to see for what", typed_command("moothall", "waiting", *path))]
        # The limit is shown as N: nobody knows how much more the run needs.
        limits = [
            name
            for name, limit in RUN_LIMITS.items()
            if stop_reason == limit.stop_reason == "budget"
            and getattr(self.order, name, None) is not None
        ]
        words = "to resume with a higher limit N" if limits else "to resume it"
        limit_options = [part for name in limits for part in (f"--{name.replace('_', '-')}", "N")]
        commands = [(words, self.command("resume", *limit_options))]
        # The process that serves it goes on with it, or this one.
        if self.agent == AGENT_PLACEHOLDER:
            local = commands[0][1]
            if stop_reason != "waiting":
                served = replace(self, agent=None).command("resume")
                commands = [("to have it go on", served), ("to resume it here", local)]
            else:
                commands = [("answered: the program of its agent goes on with it; or here", local)]
        return commands

    def _decision_commands(self, numbers: Sequence[int]) -> list[tuple[str, str]]:
        """Return the commands to decide about the calls in doubt with these numbers."""
        pronoun, suffix = "it" if len(numbers) == 1 else "all", " and resume"
        make_command = self.command
        if self.agent == AGENT_PLACEHOLDER:  # to decide needs none: the commands work as copied
            suffix, make_command = "", replace(self, agent=None).command
        commands = []
        for word, kind in Doubt.decisions.items():
            if kind.type is None or len(numbers) == 1:
                values = [] if kind.type is None else [f"{numbers[0]}={kind.value_name}"]
                command = make_command("resume", f"--{word}", *values)
                commands.append((f"to {kind.purpose.format(pronoun)}{suffix}", command))
        if len(numbers) > 1:
            options = ("--done", f"{numbers[0]}=RESULT", "--repeat", str(numbers[1]), "--skip")
            commands.append(("to decide one by one", make_command("resume", *options)))
        return commands


def execute_order(
    runner: Callable[..., int],
    order: AnyOrder,
    journal: str | None,
    run_id: str | None,
    as_json: bool,
) -> int:
    """Carry out an order, recorded if a journal is named; return the exit code."""
    # The reply says in words what the library logs.
    logging.getLogger("moothall").addHandler(logging.NullHandler())
    if journal is None:
        if run_id is not None:
            raise click.UsageError("--run-id is for a run in a journal: give --journal too")
        return runner(order, as_json)
    with as_usage_error():
        check_no_keys(order)
    with make_journal(journal) as store:
        recorded_run = RecordedRun(store, run_id or secrets.token_hex(8), order)
        if run_id is not None:
            # What has ended is not resumed: its recorded reply is returned.
            refusal = resume_refusal(store, run_id, allow_ended=True)
            if report_refusal(recorded_run, refusal, as_json):
                return 1
            store.held_runs.requests.keep_going(run_id)
        return runner(order, as_json, recorded_run)


def report_refusal(recorded_run: RecordedRun, refusal: ResumeRefusal | None, as_json: bool) -> bool:
    """Return whether a person must decide before a run can continue; if so, print how.

    Raise StateError if the run has a fork.
    """
    if refusal is None:
        return False
    if refusal.fork:
        fork = replace(recorded_run, run_id=refusal.fork)
        raise StateError(
            f"{refusal.text} by `{fork.command('resume')}`, or this run all the same by "
            f"`{recorded_run.command('resume', '--force')}`"
        )
    if as_json:
        commands = [command for _, command in recorded_run.next_commands("in_doubt")]
        report = {"kind": refusal.reason, "run_id": recorded_run.run_id}
        actions = [asdict(each) for each in refusal.doubts]
        print(json.dumps({**report, "actions": actions, "resume": commands}))
    id = escaped(recorded_run.run_id)
    click.echo(f"moothall: run {id} cannot be resumed before you decide", err=True)
    print_doubts(refusal.doubts, recorded_run, to_stderr=True)
    return True


def print_doubts(
    doubts: Sequence[Doubt], recorded_run: RecordedRun, *, to_stderr: bool = False
) -> None:
    """Print the calls in doubt with their numbers, and what to type to decide."""
    verb, pronoun = ("this was", "it") if len(doubts) == 1 else ("these were", "each")
    click.echo(f"outcome unknown, the run was cut off while {verb} running:", err=to_stderr)
    for doubt in doubts:
        click.echo(f"  {doubt.number}  {doubt.line}", err=to_stderr)
    click.echo(f"Look whether {pronoun} took effect, and then:", err=to_stderr)
    commands = recorded_run.next_commands("in_doubt")
    width = max(len(words) for words, _ in commands) + 1
    for words, command in commands:
        click.echo(f"  {words + ':':<{width}} {escaped(command)}", err=to_stderr)


_COMPLETERS: Final = {"state": completing.states, "agent": completing.agents}
_OPTION_TYPES: Final = {"moment": MomentType(), "number": NumberType(min=0)}


def filter_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add an option for each filter, and for each attribute by which runs are found."""
    options = [
        click.option(each.option, name, metavar=each.metavar, multiple=True, help=each.help)
        for name, each in ATTRIBUTES.items()
    ]
    for name, filter in Journal.filters.items():
        if filter.option is not None:
            option, metavar, help = filter.option
            is_flag = filter.type == "flag"
            kind: Any = None if is_flag else _OPTION_TYPES.get(filter.type)
            options.append(
                click.option(
                    option,
                    name,
                    metavar=metavar or None,
                    is_flag=is_flag,
                    type=kind,
                    shell_complete=_COMPLETERS.get(name),
                    help=help,
                )
            )
    for each in reversed(options):
        function = each(function)
    return function


def run_filters(filters: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `Journal.runs` that choose runs."""
    attributes = {name: each.parse_option(filters.pop(name)) for name, each in ATTRIBUTES.items()}
    for name, value in filters.items():
        if value is not None and Journal.filters[name].type == "texts":
            filters[name] = [each.strip() for each in value.split(",")]
    return {**attributes, **filters}
