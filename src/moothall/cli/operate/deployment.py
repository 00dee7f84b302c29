"""`moothall runs check --agent`: which runs a program would take, before it is deployed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from moothall import Journal
from moothall.agents import fits_of, get_ready
from moothall.build import counted, escaped
from moothall.cli.own_agents import named_agent
from moothall.cli.shared_options import as_usage_error, open_journal
from moothall.journal import Outline

_FILES = (".yaml", ".yml")


def check_program(journal: str | None, names: Sequence[str]) -> int:
    """Print which runs agents, or those of a company's file, would take; return the exit code."""
    files = [each for each in names if each.endswith(_FILES)]
    agents: list[Any] = []
    with as_usage_error():
        for each in names:
            agents += _agents_of_file(each) if each in files else [named_agent(each)]
            journal = journal or (_journal_of_file(each) if each in files else None)
        with open_journal(journal) as store:
            asyncio.run(get_ready(agents))
            fits = list(fits_of(agents, store))
    other_runs = [each.run for each in fits if each.is_of_others]
    faults = [each for each in fits if each.fault and (files or not each.is_of_others)]
    for fit in faults:
        click.echo(f"{_name(fit.run)} would not go on: {escaped(fit.fault)}")
    taken_count = sum(not each.fault for each in fits)
    click.echo(f"{counted(taken_count, 'run')} would go on, {len(faults)} would not")
    if other_runs and not files:
        click.echo(f"{counted(len(other_runs), 'run')} of other agents not looked at")
    return 1 if faults else 0


def _name(run: Outline) -> str:
    return f"run {escaped(run.id)} of {escaped(run.agent)} ({run.state})"


def _agents_of_file(name: str) -> list[Any]:
    from moothall.serving import Company
    from moothall.serving.company.program import CompanyProgram

    settings, address = Company.read_settings(name), _journal_of_file(name)
    journal = None if address is None else Journal(address)
    return list(CompanyProgram(settings, Path(name).resolve().parent).agents_for(journal))


def _journal_of_file(name: str) -> str | None:
    """Return the journal that a company's file names; None without one."""
    from moothall.serving import Company

    address = Company.read_settings(name).journal
    if address is None or "://" in address:
        return address
    return str(Path(name).resolve().parent / address)
