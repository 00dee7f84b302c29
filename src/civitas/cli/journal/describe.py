"""What the commands say of a run: its entries, its copies, what is in doubt and what to type."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from civitas.approval import escaped
from civitas.errors import NoSuchRun, StateError
from civitas.journal.describe import doubt_line, entry_line
from civitas.orders.order import of_entry

if TYPE_CHECKING:
    from civitas.cli.options import Recorded
    from civitas.journal import Entry, Journal
    from civitas.journal.doubt import Doubt


def told(entry: Entry) -> str:
    """What happened, with nothing in it that a terminal obeys."""
    order = of_entry(entry)
    return entry_line(entry) if order is None else escaped(f"set up: {order.in_words}")


def copies(journal: Journal, run_id: str) -> list[str]:
    """The ids of the copies of a run, with which somebody has gone on."""
    return [each.id for each in journal.runs() if each.forked_from == run_id]


def not_copied(journal: Journal, recorded: Recorded) -> None:
    """See to it that a run has no copy: what was to be executed again, it may have executed."""
    found = copies(journal, recorded.run_id)
    if found:
        copy = replace(recorded, run_id=found[-1])
        raise StateError(
            f"run {recorded.run_id!r} has gone on as a copy, {found[-1]!r}: "
            f"`{copy.command('resume')}`, or with the run itself all the same: "
            f"`{recorded.command('resume', '--force')}`"
        )


def refused_in_doubt(journal: Journal, recorded: Recorded, as_json: bool) -> bool:
    """Whether a run cannot go on before a person has decided; then that is said."""
    try:
        if journal.run(recorded.run_id).state == "running":
            return False  # what is under way in another process is not in doubt
        doubts = journal.in_doubt(recorded.run_id)
    except NoSuchRun:
        return False
    if not doubts:
        return False
    if as_json:
        numbers = [each.number for each in doubts]
        ways = [command for _, command in recorded.ways("in_doubt", numbers)]
        found = {"kind": "in_doubt", "run_id": recorded.run_id}
        print(json.dumps({**found, "actions": [asdict(each) for each in doubts], "resume": ways}))
    id = escaped(recorded.run_id)
    click.echo(f"civitas: run {id} cannot go on before you decide", err=True)
    tell_of(doubts, recorded, to_stderr=True)
    return True


def tell_of(doubts: list[Doubt], recorded: Recorded, *, to_stderr: bool = False) -> None:
    """Print the calls in doubt with their numbers, and what to type to decide."""
    these, each = ("this was", "it") if len(doubts) == 1 else ("these were", "each")
    click.echo(f"outcome unknown, the process ended while {these} running:", err=to_stderr)
    for doubt in doubts:
        click.echo(f"  {doubt.number}  {doubt_line(doubt)}", err=to_stderr)
    click.echo(f"Look whether {each} took effect, and then:", err=to_stderr)
    ways = recorded.ways("in_doubt", [doubt.number for doubt in doubts])
    width = max(len(words) for words, _ in ways) + 1
    for words, command in ways:
        click.echo(f"  {words + ':':<{width}} {escaped(command)}", err=to_stderr)
