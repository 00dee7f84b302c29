"""`moothall eval`: recorded runs, or cases, asked again and graded."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Sequence
from typing import Any

import click

from moothall import Budget, ConfigError
from moothall.agents import AgentSource
from moothall.build import counted, escaped
from moothall.cli.exit_codes import DONE, FAILED
from moothall.cli.option_types import NonEmptyText, NumberType, WholeNumberType
from moothall.cli.recorded_runs import filter_options, run_filters
from moothall.cli.shared_options import (
    as_usage_error,
    json_data_option,
    model_option,
    open_for_reading,
    print_json,
)
from moothall.evals import Dataset, Evaluated, Evaluation, same_calls_as_record

_PATH = click.Path(dir_okay=False)
_MAX_ERRORS = 10
_GRADERS_HELP = (
    "The graders: its list `graders`, or else its public functions.  "
    "[default: those of the file of cases, else same_calls_as_record]"
)
_MODELS_HELP = (
    "A model that answers. May be repeated; each is compared with the first.  "
    "[default: the recorded answers; where a case has no run, the agent's own model]"
)
_AGAINST_HELP = "Another version of the agent, to compare with."
_MIN_HELP = "The least mean of a grader; below it, the exit code is 1."
_LIVE_HELP = "An action that only reads: it is executed where the record lacks a call."
_STOP_HELP = "Ask no further case once this grader's differences are decided."
_FEEDBACK_HELP = "Only runs that `moothall runs feedback` has called so last."
_RESULTS_HELP = "The journal of what is asked here.  [default: evals.db]"


@click.command()
@click.argument("source", metavar="AGENT")
@click.option("--runs", metavar="PATH", type=_PATH, help="The journal of the recorded runs.")
@click.option("--cases", metavar="FILE", type=_PATH, help="A file of cases, in place of the runs.")
@click.option("--graders", metavar="FILE.py", type=_PATH, help=_GRADERS_HELP)
@model_option("models", multiple=True, help=_MODELS_HELP)
@click.option(
    *("--against", "other"), metavar="FILE.py:NAME", type=NonEmptyText(), help=_AGAINST_HELP
)
@click.option("--min", "least", metavar="GRADER=N", multiple=True, help=_MIN_HELP)
@click.option("--live", metavar="ACTION", multiple=True, help=_LIVE_HELP)
@click.option("--seeds", type=WholeNumberType(min=1), default=1, help="How often to ask each case.")
@click.option("--stop-early", metavar="GRADER", type=NonEmptyText(), help=_STOP_HELP)
@click.option("--usd", type=NumberType(min=0), help="What the models may cost together.")
@click.option("--results", metavar="PATH", type=_PATH, default="evals.db", help=_RESULTS_HELP)
@click.option("--html", metavar="FILE", type=_PATH, help="Write a page with each differing case.")
@click.option("--good/--bad", default=None, help=_FEEDBACK_HELP)
@filter_options
@json_data_option
def command(
    source: str,
    runs: str | None,
    cases: str | None,
    graders: str | None,
    models: Sequence[str],
    other: str | None,
    least: Sequence[str],
    live: Sequence[str],
    seeds: int,
    stop_early: str | None,
    usd: float | None,
    results: str,
    html: str | None,
    good: bool | None,
    as_json: bool,
    **filters: Any,
) -> int:
    """Ask the agent AGENT again what runs were asked, in their frozen worlds, and grade it.

    AGENT is MODULE:NAME or FILE.py:NAME: an agent, or what makes one. No action is executed, but
    those of --live. The runs are those of the agent's id, or as the filters say.

    \b
    Examples:
      moothall eval shop:desk --runs runs.db
      moothall eval shop:desk --runs runs.db --model openai:gpt-5-mini --graders graders.py
      moothall eval shop:desk --runs runs.db --bad --model openai:gpt-5-mini
      moothall eval shop:desk --runs runs.db --min same_calls_as_record=0.95
      moothall eval shop:desk --runs runs.db --against ../old/shop.py:desk --html eval.html

    \b
    Exit codes: 0 done, 1 a mean is below its --min, or something failed,
    2 wrong usage, also if no run is found, 130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    if runs is None and cases is None:
        raise click.UsageError("name the recorded runs by --runs, or a file by --cases")
    with as_usage_error():
        agent: Any = AgentSource(source, "AGENT").make()
        minimums = dict(map(_minimum, least))
        data = _dataset(runs, cases, str(agent.id), {"good": good, **run_filters(filters)})
        is_recorded = all(each.run for each in data)
        if graders is None and not data.graders and not is_recorded:
            raise ConfigError("name graders by --graders: a case has no recorded run")
        own_graders = [] if data.graders else [same_calls_as_record]
        chosen = own_graders if graders is None else graders_of(graders)
        names = models or (["recorded"] if is_recorded else [])
        conditions: dict[str, Any] = {name: {"model": name} for name in names} or {source: {}}
        if other is not None:
            first = next(iter(conditions.values()))
            conditions = {other: {"program": other, **first}, **conditions}
        evaluation = Evaluation(
            agent,
            data,
            chosen,
            conditions,
            seeds,
            journal=results,
            live=live,
            budget=None if usd is None else Budget(usd=usd),
            stop_early=stop_early,
        )
        for grader in minimums:
            evaluation.check_grader("--min", grader)
    # What fails is told with its case.
    logging.getLogger("moothall").addHandler(logging.NullHandler())
    evaluated = evaluation.run_sync()
    with as_usage_error():
        faults = _below(evaluated, minimums, [each for each in conditions if each != other])
    if html is not None:
        evaluated.write_html(html)
    _show(evaluated, data, faults, as_json)
    return FAILED if faults or evaluated.errors else DONE


def _dataset(runs: str | None, cases: str | None, agent: str, filters: dict[str, Any]) -> Dataset:
    """Return the cases; ConfigError if there is none."""
    if runs is not None:
        with open_for_reading(runs):
            pass  # a file that is none is refused as typed wrong
    if cases is not None:
        data = Dataset.from_file(cases, journal=runs)
    else:
        chosen_filters = {name: each for name, each in filters.items() if each is not None}
        data = Dataset.from_runs(str(runs), **{"agent": agent, **chosen_filters})
    if not len(data):
        note = f"; {counted(len(data.left_out), 'run')} left out" if data.left_out else ""
        id = filters["agent"] or agent
        raise ConfigError(f"there is no case: no run of agent {id!r} that is over{note}")
    return data


def graders_of(file: str) -> list[Any]:
    """Return the graders in a file: its list `graders`, or else its public functions."""
    module = sys.modules[AgentSource(f"{file}:__name__", "--graders").load()]
    chosen = getattr(module, "graders", None)
    if chosen is None:
        chosen = [
            each
            for name, each in vars(module).items()
            if name[0] != "_" and inspect.isfunction(each) and each.__module__ == module.__name__
        ]
    if not isinstance(chosen, list) or not chosen:
        raise ConfigError(f"--graders {file}: it has no list `graders`, and no public function")
    return chosen


def _minimum(text: str) -> tuple[str, float]:
    name, _, number = text.rpartition("=")
    try:
        return name, float(number)
    except ValueError:
        raise ConfigError(f"--min must be GRADER=NUMBER, got {text!r:.80}") from None


def _below(evaluated: Evaluated, minimums: dict[str, float], conditions: list[str]) -> list[str]:
    """Return which means are below their minimum, in words."""
    mean_values = {
        (grader, condition): evaluated.mean(grader, condition).mean
        for grader in minimums
        for condition in conditions
    }
    return [
        f"{grader} of {condition} is {mean:.4g}, below {minimums[grader]:g}"
        for (grader, condition), mean in mean_values.items()
        if mean < minimums[grader]
    ]


def _show(evaluated: Evaluated, data: Dataset, faults: list[str], as_json: bool) -> None:
    if as_json:
        print_json(**evaluated.to_json(), below=faults, left_out=data.left_out)
        return
    rows = [evaluated.columns, *evaluated.table()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        click.echo(escaped(line.rstrip()))
    for cell in evaluated.cells:
        for name, value in cell.grades.items():
            if value is False:
                reason = f": {cell.reasons[name]}" if name in cell.reasons else ""
                click.echo(escaped(f"{cell.condition}, {cell.case.name}: not {name}{reason}"[:400]))
    for id, reason in data.left_out.items():
        click.echo(escaped(f"left out: run {id}: {reason}"))
    for text in (*faults, *evaluated.errors[:_MAX_ERRORS]):
        click.echo(escaped(f"moothall: {text}"), err=True)
