"""What is in doubt in a run, told to the person who has to decide."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from civitas.approval import escaped, escaped_json
from civitas.errors import NoSuchRun, StateError

if TYPE_CHECKING:
    from civitas.cli.journals import Recorded
    from civitas.journal import Journal
    from civitas.journal.doubt import Doubt

__all__ = ["called", "copies", "not_copied", "refused_in_doubt", "tell_of"]


def called(doubt: Doubt) -> str:
    """An action with its arguments, as it is shown when it is called."""
    args = ", ".join(f"{escaped(name)}={escaped_json(v)}" for name, v in doubt.args.items())
    where = f" ({escaped(doubt.path)})" if doubt.path else ""
    return f"{escaped(doubt.action)}({args}){where}"


def copies(journal: Journal, run_id: str) -> list[str]:
    """The ids of the copies of a run, with which somebody has gone on.

    Raises:
        JournalError: the journal cannot be read
    """
    return [each.id for each in journal.runs() if each.forked_from == run_id]


def not_copied(journal: Journal, recorded: Recorded) -> None:
    """See to it that a run has no copy: what was to be executed again, it may have executed.

    Raises:
        StateError: it has
        JournalError: the journal cannot be read
    """
    found = copies(journal, recorded.run_id)
    if found:
        copy = replace(recorded, run_id=found[-1])
        raise StateError(
            f"run {recorded.run_id!r} has gone on as a copy, {found[-1]!r}: "
            f"`{copy.command('resume')}`, or with the run itself all the same: "
            f"`{recorded.command('resume', '--force')}`"
        )


def refused_in_doubt(journal: Journal, recorded: Recorded, as_json: bool) -> bool:
    """Whether a run cannot go on before a person has decided; then that is said.

    Raises:
        JournalError: the journal cannot be read, or is damaged
    """
    try:
        if journal.run(recorded.run_id).state == "running":
            return False  # what is under way in another process is not in doubt
        doubts = journal.in_doubt(recorded.run_id)
    except NoSuchRun:
        return False
    if not doubts:
        return False
    if as_json:
        ways = [command for _, command in recorded.ways("in_doubt")]
        found = {"kind": "in_doubt", "run_id": recorded.run_id}
        print(json.dumps({**found, "actions": [asdict(each) for each in doubts], "resume": ways}))
    id = escaped(recorded.run_id)
    click.echo(f"civitas: run {id} cannot go on before you decide", err=True)
    tell_of(doubts, recorded, to_stderr=True)
    return True


def tell_of(doubts: list[Doubt], recorded: Recorded, *, to_stderr: bool = False) -> None:
    """Print what is in doubt, and what to do about it."""
    click.echo("in doubt, since the process ended in the midst of it:", err=to_stderr)
    for doubt in doubts:
        click.echo(f"  {called(doubt)}", err=to_stderr)
    click.echo("Look whether it took effect, and then:", err=to_stderr)
    ways = recorded.ways("in_doubt")
    width = max(len(words) for words, _ in ways) + 1
    for words, command in ways:
        click.echo(f"  {words + ':':<{width}} {escaped(command)}", err=to_stderr)
