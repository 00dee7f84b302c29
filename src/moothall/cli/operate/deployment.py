"""`moothall runs check --agent`: which runs a program would take, before it is deployed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import click

from moothall.agents import fits_of, get_ready
from moothall.build import counted, escaped
from moothall.cli.own_agents import named_agent
from moothall.cli.shared_options import as_usage_error, open_journal
from moothall.journal import Journal, Outline
from moothall.serving import agents_of_file

_FILES = (".yaml", ".yml")


def check_program(journal: str | None, names: Sequence[str]) -> int:
    """Print which runs agents, or those of a company's file, would take; return the exit code."""
    files = [each for each in names if each.endswith(_FILES)]
    agents: list[Any] = []
    own_journal: Journal | None = None
    with as_usage_error():
        for each in names:
            if each not in files:
                agents.append(named_agent(each))
                continue
            company_agents, company_journal = agents_of_file(each)
            agents += company_agents
            own_journal = own_journal or company_journal
        with open_journal(journal) if journal or own_journal is None else own_journal as store:
            asyncio.run(get_ready(agents))
            fits = list(fits_of(agents, store))
    other_runs = [each.run for each in fits if each.is_of_others]
    faults = [each for each in fits if each.fault and (files or not each.is_of_others)]
    for fit in faults:
        click.echo(f"{_name(fit.run)} would not go on: {escaped(fit.fault)}")
    unknown = [each for each in fits if each.unknown]
    for fit in unknown:
        text = "may go on: its program fits; the agents whose actions it finds are not looked at"
        click.echo(f"{_name(fit.run)} {text}: {escaped(fit.unknown)}")
    taken_count = sum(not (each.fault or each.unknown) for each in fits)
    end = f", {len(unknown)} may" if unknown else ""
    click.echo(f"{counted(taken_count, 'run')} would go on, {len(faults)} would not{end}")
    if other_runs and not files:
        click.echo(f"{counted(len(other_runs), 'run')} of other agents not looked at")
    return 1 if faults else 0


def _name(run: Outline) -> str:
    return f"run {escaped(run.id)} of {escaped(run.agent)} ({run.state})"
