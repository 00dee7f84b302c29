"""`moothall budgets`: the budgets that processes share by a journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from moothall.budget import LIMITS, Left, Spent, StoredBudget
from moothall.build import escaped
from moothall.cli.shared_options import (
    as_usage_error,
    chosen_journal,
    journal_option,
    json_data_option,
    limit_options,
    open_journal,
    print_json,
)
from moothall.journal import Outline

_MAX_RUNS = 20
_LIMITS_BY_NAME = {each.name: each for each in LIMITS}


@click.group(invoke_without_command=True)
@journal_option("The journal.")
@json_data_option
@click.pass_context
def command(ctx: click.Context, journal: str | None, as_json: bool) -> None:
    """Show the budgets that processes share by a journal, and change them.

    Each budget is shown with its limits, and with what is spent and reserved. A child stands behind
    its parent, such as service/anna. What a process had reserved when it died stays reserved: its
    calls may have cost something all the same. `moothall budgets release` gives it back.

    \b
    Examples:
      moothall budgets --journal runs.db
      moothall budgets release service
      moothall budgets limit service/anna --tokens 200000
      moothall budgets reset service/anna
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    ctx.obj = journal
    if ctx.invoked_subcommand is not None:
        return
    with open_journal(journal) as store:
        budgets = store.budgets.list()
    if as_json:
        print_json(budgets=budgets)
        return
    for each in budgets:
        _print(each)
    if not budgets:
        click.echo("There are no budgets.")


def _change_budget(
    group_journal: str | None, journal: str | None, change: Callable[[Any], StoredBudget]
) -> None:
    with open_journal(chosen_journal(group_journal, journal)) as store, as_usage_error():
        _print(change(store))
        if stopped := store.runs(state="budget", limit=_MAX_RUNS):
            click.echo(f"Runs that a spent budget has stopped: {_names(stopped)}")
            click.echo("To have one go on: moothall resume ID")


def _names(runs: Sequence[Outline]) -> str:
    return escaped(", ".join(each.id for each in runs)) + (", …" if len(runs) == _MAX_RUNS else "")


@command.command(short_help="Have nothing be spent of a budget.")
@click.argument("name")
@journal_option("The journal.")
@click.pass_obj
def reset(group_journal: str | None, name: str, journal: str | None) -> None:
    """Have nothing be spent of the budget NAME; what living processes have reserved stays so."""
    _change_budget(group_journal, journal, lambda books: books.budgets.reset(name))


@command.command(short_help="Give back what dead processes had reserved.")
@click.argument("name")
@journal_option("The journal.")
@click.pass_obj
def release(group_journal: str | None, name: str, journal: str | None) -> None:
    """Give back to the budget NAME, and its parts, what processes that ended since had reserved.

    Their last calls may have reached a provider and cost something all the same.
    """
    _change_budget(group_journal, journal, lambda books: books.budgets.release(name))


@command.command(short_help="Set limits of a budget.")
@click.argument("name")
@limit_options(lambda each: f"Limit of {each.unit}.", _LIMITS_BY_NAME, 0, metavar="N")
@click.option("--clear", is_flag=True, help="First leave all limits to the programs again.")
@journal_option("The journal.")
@click.pass_obj
def limit(
    group_journal: str | None, /, name: str, journal: str | None, clear: bool, **limits: Any
) -> None:
    """Set limits of the budget NAME, which hold instead of those that programs state.

    They hold from the next reservation on, in all processes.
    """
    new_limits = {each: value for each, value in limits.items() if value is not None}
    if not new_limits and not clear:
        raise click.UsageError("give a limit, such as --tokens 1000000, or --clear")
    cleared: dict[str, Any] = dict.fromkeys(_LIMITS_BY_NAME) if clear else {}
    _change_budget(
        group_journal, journal, lambda books: books.budgets.limit(name, **{**cleared, **new_limits})
    )


@command.command(short_help="Delete a budget, such as that of a person.")
@click.argument("name")
@journal_option("The journal.")
@click.pass_obj
def delete(group_journal: str | None, name: str, journal: str | None) -> None:
    """Delete the budget NAME. Whoever uses it begins a new one, of which nothing is spent."""
    with open_journal(chosen_journal(group_journal, journal)) as store, as_usage_error():
        store.budgets.delete(name)


def _print(budget: StoredBudget) -> None:
    period = f" ({budget.period})" if budget.period else ""
    click.echo(f"{escaped(budget.name)}{period}")
    for name, kind in _LIMITS_BY_NAME.items():
        limit, spent = getattr(budget.limits, name), getattr(budget.spent, name)
        if limit is None and (not spent or kind.name == "seconds"):  # which pass by themselves
            continue
        of_limit = "" if limit is None else f"of {_number(limit)} "
        parts = [f"{_number(spent)} {of_limit}{kind.unit} spent"]
        if limit is None:
            parts.append("no limit")
        if name in budget.set:
            parts.append("limit set by hand")
        parts += _amount_parts(name, budget.reserved, "reserved")
        parts += _amount_parts(name, budget.of_dead, "of it by dead processes")
        parts += _amount_parts(name, budget.over, "beyond what was reserved")
        click.echo(f"  {', '.join(parts)}")


def _amount_parts(name: str, amounts: Spent | Left, words: str) -> Sequence[str]:
    amount = getattr(amounts, name)
    return [f"{_number(amount)} {words}"] if amount else []


def _number(value: float) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else f"{value:,}"
