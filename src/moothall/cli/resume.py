"""`moothall resume`: resume a run of a journal."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import click

from moothall import DefinitionError, RunMismatch, StateError
from moothall.build import Extension, Stop, UnreadableText, escaped, nearest, read_json
from moothall.cli import completing
from moothall.cli.interrupts import interruptible
from moothall.cli.operate.waiting import user_name
from moothall.cli.recorded_runs import AGENT_PLACEHOLDER, RecordedRun, full_run_id, report_refusal
from moothall.cli.replay import say_end, show_replay
from moothall.cli.run.act import make_display, run_act
from moothall.cli.run.outcome import exit_code
from moothall.cli.run.watch import Permission, stream_to_screen
from moothall.cli.shared_options import (
    as_usage_error,
    as_written,
    journal_option,
    json_option,
    limit_options,
    open_journal,
)
from moothall.journal import Doubt, Outline, RunView
from moothall.studio.orders import (
    ActOrder,
    AnyOrder,
    ResearchOrder,
    SimulateOrder,
    check_journal_apart,
    has_resume,
    recorded_order,
    resume_of,
    resume_refusal,
    run_for_change,
    with_new_limits,
    write_report,
)

_ALL_CALLS: Final = "all"
_OPTIONAL_NUMBER: Final[dict[str, Any]] = {"is_flag": False, "flag_value": _ALL_CALLS}
_NUMBER: Final = re.compile("[1-9][0-9]{0,8}")


def _decision_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for each decision about a call in doubt."""
    for word, kind in reversed(Doubt.decisions.items()):  # the last is shown first
        if kind.type is None:
            purpose = f"{kind.purpose[0].upper()}{kind.purpose[1:]}".format("call N")
            help = f"{purpose}: {kind.meaning}. Without N, all undecided calls."
            option: dict[str, Any] = {"metavar": "[N]", "help": help, **_OPTIONAL_NUMBER}
        else:
            value = kind.value_name
            help = f"Call N {kind.outcome}, with this {value.lower()} (JSON or text)."
            option = {"metavar": f"N={value}", "help": help}
        function = click.option(f"--{word}", multiple=True, **option)(function)
    return function


@click.command()
@click.argument("run_id", metavar="ID", shell_complete=completing.runs_to_resume)
@journal_option("The journal.")
@_decision_options
@click.option(
    "--force",
    is_flag=True,
    help="Resume although the agent has changed, or a fork exists.",
)
@limit_options(lambda limit: f"New {limit.option_help}")
@click.option("--agent", metavar="MODULE:AGENT", help="The agent, for a run of your own program.")
@json_option
def command(
    run_id: str,
    journal: str | None,
    force: bool,
    agent: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Resume the run with this ID where it stopped.

    Actions that ended are not repeated. An action that was running when the run was cut off is in
    doubt: it may or may not have taken effect. Check, then decide with --repeat, --skip or --done
    N=RESULT. `moothall runs ID` shows the number N of each.

    A run of `moothall act`, `research` or `simulate` continues with the options it was started
    with. The key comes from MOOTHALL_KEY or the provider's own variable, or from moothall.toml if
    that chose the model.

    A run of an orchestrator whose package states how is resumed here.

    A run of your own program, or of a company, is resumed by the process that serves its agent,
    within seconds, or by the next that starts. With --agent MODULE:AGENT (an agent, an agent class,
    or a function that returns an agent) it is resumed here. MODULE is searched in the current
    folder first.

    If the agent has changed since, --force resumes a copy; a run that waits goes on itself, also by
    the process that serves its agent.

    Resume only runs that you trust: calls that the journal records as permitted run without asking.

    \b
    Examples:
      moothall resume 79a0b5265e6033b5
      moothall resume 79a0b5265e6033b5 --repeat
      moothall resume 79a0b5265e6033b5 --done 1=paid --skip
      moothall resume 79a0b5265e6033b5 --agent my_agents:Clerk

    \b
    Exit codes: 0 done, 1 failed or stopped,
    2 wrong usage, 130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    decisions = _decisions({word: options.pop(word) for word in Doubt.decisions})
    logging.getLogger("moothall").addHandler(logging.NullHandler())
    with open_journal(journal) as store:
        run_id = full_run_id(store, run_id)
        order, outline = recorded_order(store, run_id), store.run(run_id)
        if order is not None and agent is not None:
            raise click.UsageError(
                f"it is a run of moothall {order.command}, which sets its agent up by itself: "
                "leave --agent out"
            )
        limits: dict[str, Any] = {name: at for name, at in options.items() if at is not None}
        if limits and not isinstance(order, ActOrder | ResearchOrder):
            raise click.UsageError(
                "limits are for runs of moothall act and research; an agent of yours has its own"
            )
        description = ""
        if order is not None:
            order = with_new_limits(order, limits) if limits else order
            # Shows the folder that it works on now, and the model that is sent its files.
            description = f"{order.task} ({order.in_words})"
        has_resumer = agent is None and has_resume(outline)
        agent_name = None if order or has_resumer else agent or AGENT_PLACEHOLDER
        recorded = RecordedRun(store, run_id, order, agent_name, description)
        # Checked before anything is decided, also for a run that is over.
        own_agent = None if agent is None else _agent_of_kind(agent, outline.kind)
        # A simulation's results are made again from its last state.
        is_simulation = isinstance(order, SimulateOrder)
        check = partial(resume_refusal, store, run_id, allow_ended=is_simulation, forked=force)
        refusal = check()
        if refusal is not None and refusal.reason == "ended":
            with as_written(store):
                if isinstance(order, ResearchOrder):
                    _write_missing_files(order, recorded)
                id = escaped(run_id)
                click.echo(f"moothall: run {id} has ended; this is its recorded reply", err=True)
                return show_replay(recorded, as_json, is_resumed=True)
        if isinstance(order, ActOrder):
            with as_usage_error():
                check_journal_apart(order, store.path)
        decided = False
        if decisions and not (refusal and refusal.fork):
            decided = _decide(recorded, decisions)
            refusal = check()
        if report_refusal(recorded, refusal, as_json):
            return 1
        if order is None and own_agent is None and not has_resumer:
            if force and outline.state == "mismatch":
                store.answer(run_id, "operator:program", "fork", by=user_name(None))
                decided = True
            return _print_next(recorded, outline, as_json=as_json, decided=decided)
        resume_run: Callable[[bool, RecordedRun], int] = _resume_kind
        if order is not None:
            resume_run = partial(_resume_order, order)
        elif own_agent is not None:
            resume_run = partial(_resume_agent, own_agent)
        try:
            return resume_run(as_json, recorded)
        except RunMismatch as error:
            next_id, changed = run_for_change(error, store, run_id, order, force)
        note = "going on by it" if next_id == run_id else f"resuming a fork, run {escaped(next_id)}"
        print(f"moothall: {changed}; {note}", file=sys.stderr, flush=True)
        return resume_run(as_json, replace(recorded, run_id=next_id))


def _agent_of_kind(name: str, kind: str) -> Any:
    """Return the agent of a name; DefinitionError if it is not of the run's kind."""
    from moothall.cli.own_agents import named_agent

    agent = named_agent(name)
    if kind not in (each.__name__ for each in type(agent).__mro__):
        raise DefinitionError(
            f"--agent {name}: it is a {type(agent).__name__}, and the run is one of a {kind}"
        )
    return agent


def _print_next(recorded: RecordedRun, outline: Outline, *, as_json: bool, decided: bool) -> int:
    """Print how to continue if no agent was named; return the exit code."""
    if not outline.is_ours:  # the user's own orchestrator, which no agent of a module is
        kind = escaped(outline.kind)
        near = nearest(outline.kind, Extension.all_of("moothall.kinds"))
        advice = (
            f"no installed package resumes the kind {kind!r}{near}: to resume it, run the program "
            f"of {kind} again with run_id={recorded.run_id!r}"
        )
        click.echo(f"recorded; {advice}" if decided else f"moothall: {advice}", err=True)
        return 1
    if not decided:
        recorded.journal.resume(recorded.run_id, by=user_name(None))
    click.echo(
        f"recorded: the process that serves agent {escaped(outline.agent)} goes on with it within "
        f"seconds, or the next that starts; or run its program again with run_id="
        f"{recorded.run_id!r}, or here: {escaped(recorded.command('resume'))}",
        err=as_json,
    )
    return 0


def _resume_order(order: AnyOrder, as_json: bool, recorded: RecordedRun) -> int:
    if isinstance(order, ResearchOrder):
        from moothall.cli.run.research import run_research

        return run_research(order, as_json, recorded)
    if isinstance(order, SimulateOrder):
        from moothall.cli.run.town import run_simulation

        return run_simulation(order, as_json, recorded)
    return run_act(order, as_json, recorded)


def _resume_kind(as_json: bool, recorded: RecordedRun) -> int:
    """Resume a run by the package that writes runs of its kind, and print what came of it."""
    resume = resume_of(recorded.outline)
    assert resume is not None
    try:
        interruptible(resume(recorded.journal, recorded.run_id))
    except Stop as stop:  # it does not use run_to_end
        say_end(recorded.run_id, stop.reason, stop.detail)
        return 1
    return show_replay(recorded, as_json, is_resumed=True)


def _resume_agent(agent: Any, as_json: bool, recorded: RecordedRun) -> int:
    """Resume a run by the user's own agent."""
    outline = recorded.outline
    request = RunView(recorded.journal, outline).request
    if request is None:
        raise StateError(f"run {outline.id!r} was not begun by an agent: begin another run")
    agent.journal = recorded.journal
    permission = Permission(make_display(outline.kind, as_json, recorded))
    return exit_code(
        interruptible(
            stream_to_screen(
                agent,
                permission,
                request.text,
                outline.id,
                schema=request.schema,
                thread=request.thread,
            )
        )
    )


def _decisions(by_word: Mapping[str, Iterable[str]]) -> dict[int, Any]:
    """Return the decision about each call by its number; 0 stands for all the others."""
    pairs: list[tuple[str, Any]] = []
    for word, kind in Doubt.decisions.items():
        for each in by_word[word]:
            if kind.type is None:
                pairs.append((each, word))
            else:
                number, value = _number_and_value(f"--{word}", kind.value_name, each)
                pairs.append((number, kind.type(value)))
    by_number: dict[int, Any] = {}
    for number, decision in pairs:
        if number != _ALL_CALLS and not _NUMBER.fullmatch(number):
            raise click.UsageError(
                f"N must be the number of a call in doubt, as `moothall runs ID` shows it, got "
                f"{number!r:.80}"
            )
        if by_number.setdefault(0 if number == _ALL_CALLS else int(number), decision) != decision:
            calls = "all calls that are left" if number == _ALL_CALLS else f"call {number}"
            *most, last = (f"--{word}" for word in Doubt.decisions)
            raise click.UsageError(f"{calls}: give one of {', '.join(most)} and {last}")
    return by_number


def _number_and_value(option: str, name: str, text: str) -> tuple[str, Any]:
    """Return the number of a call, and the value that is stated of it, JSON or a text."""
    number, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{option} must be N={name}, got {text!r:.80}")
    if value == name:
        raise click.UsageError(
            f"{option} {text}: write what the action gave in place of {name}, such as {number}=sent"
        )
    try:
        return number, read_json(value)
    except UnreadableText as error:
        if value.lstrip().startswith(("{", "[")):
            raise click.UsageError(
                f"{option} {text:.80}: {name} begins like JSON, and is not ({error}); "
                "a text that begins so is written as a JSON string"
            ) from None
        return number, value


def _decide(recorded: RecordedRun, decisions: dict[int, Any]) -> bool:
    """Record what a person decides; return False if nothing was in doubt."""
    rest_decision = decisions.pop(0, None)
    choice: Any = decisions
    if rest_decision is not None:
        doubt_numbers = [each.number for each in recorded.journal.in_doubt(recorded.run_id)]
        # If all are decided, none has a number any more: `rest_decision` decides all of them again.
        choice = (
            dict.fromkeys(doubt_numbers, rest_decision) | decisions
            if doubt_numbers or decisions
            else rest_decision
        )
    doubts = recorded.journal.decide(recorded.run_id, choice, by=user_name(None))
    for doubt in doubts:
        word = Doubt.decisions.to_json(decisions.get(doubt.number, rest_decision))["decision"]
        print(f"{doubt.line} {Doubt.decisions[word].outcome}", file=sys.stderr, flush=True)
    if not doubts:
        print("nothing is in doubt", file=sys.stderr, flush=True)
    return bool(doubts)


def _write_missing_files(order: ResearchOrder, recorded: RecordedRun) -> None:
    """Write the files of a report whose process could not write them, or not to their end."""
    from moothall.research import report_so_far

    entries = recorded.entries
    report = report_so_far(recorded.run_id, entries)
    for label, path in write_report(report, order, ended_at=entries[-1].at):
        click.echo(escaped(f"{label}: {path}"), err=True)
