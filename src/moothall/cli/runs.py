"""`moothall runs` and `moothall replay`: the runs of a journal, and what happened in one."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

import click

from moothall.cli.recorded_runs import NOBODY, Recorded, print_doubts
from moothall.cli.run.act import screen_of
from moothall.cli.run.ended import WORDS, exit_code
from moothall.cli.shared_options import journal_option, json_option, reading
from moothall.errors import StateError
from moothall.journal import Entry, Journal, Outline
from moothall.journal.describe import doubt_line
from moothall.models.protocol import ReasoningPiece, TextPiece
from moothall.orders.order import line_of, order_of
from moothall.orders.resumable import forks
from moothall.reasoning.events import (
    BlockEnded,
    BlockStarted,
    Conclusion,
    ConclusionReached,
    DecisionAction,
    DecisionMade,
    Done,
    Event,
    HumanDecision,
    MessageAdded,
)
from moothall.reasoning.loop.recording import call_events
from moothall.reasoning.reply import ANSWERED, Reply
from moothall.text import escaped

_STATES = {
    **WORDS,
    **dict.fromkeys(ANSWERED, "done"),
    "stopped": "stopped: its process ended",
    "cancelled": "stopped: it was interrupted",
    "max_iterations": "stopped: iteration limit reached without an answer",
}


@click.command()
@click.argument("run_id", metavar="[ID]", required=False)
@journal_option("The journal.")
@click.option(
    "--citizen", metavar="N", help="Show what citizen N of a society asked its model, by step."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def command(run_id: str | None, journal: str | None, citizen: str | None, as_json: bool) -> int:
    """List the runs of a journal, the oldest first; with ID, show what happened in that run.

    A run is shown with one line for each entry of its record. Calls in doubt (actions that were
    running when their process died) are numbered; `moothall resume` takes these numbers.

    \b
    Examples:
      moothall runs --journal runs.db
      moothall runs 79a0b5265e6033b5 --journal runs.db
      moothall runs april --citizen 17
      MOOTHALL_JOURNAL=runs.db moothall runs --json

    \b
    Exit codes: 0 done, 1 failed, 2 wrong usage,
    130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    if citizen is not None and run_id is None:
        raise click.UsageError("--citizen is for one run: give its ID too")
    with reading(journal) as found:
        if run_id is None:
            _list(found, as_json)
        elif citizen is not None:
            calls, outline = _calls_of(found, run_id, citizen), found.run(run_id)
            if as_json:
                made = {"run": asdict(outline), "citizen": citizen, "calls": calls}
                click.echo(json.dumps(made, indent=2))
            else:
                print_outline(outline)
                _print_calls(calls)
        else:
            _show(Recorded(found, run_id), as_json)
    return 0


def print_outline(outline: Outline) -> None:
    """Print the head of a run: id, state, agent and task."""
    click.echo(escaped(outline.id))
    words = _STATES.get(outline.state, outline.state)
    began = datetime.fromtimestamp(outline.began).strftime("%Y-%m-%d %H:%M:%S")
    who = f"{outline.kind} {outline.agent}"
    entries = f"{outline.entries:,} entr{'y' if outline.entries == 1 else 'ies'}"
    click.echo(f"  {escaped(words)}; {escaped(who)}, began {began}, {entries}")
    if outline.forked_from is not None:
        click.echo(f"  forked from {escaped(outline.forked_from)}")
    click.echo(f"  {_fitting(escaped(outline.task), 4)}")


def _list(journal: Journal, as_json: bool) -> None:
    outlines = journal.runs()
    if as_json:
        click.echo(json.dumps({"runs": [asdict(each) for each in outlines]}, indent=2))
        return
    for outline in outlines:
        print_outline(outline)
    if not outlines:
        click.echo("There are no runs.")


def _show(recorded: Recorded, as_json: bool) -> None:
    outline, entries = recorded.outline, recorded.entries
    doubts = recorded.journal.in_doubt(recorded.run_id)
    order = order_of(entries)
    recorded = replace(recorded, order=order, agent=None if order else NOBODY)
    if as_json:
        # A call under way is not in doubt.
        found = [] if outline.state == "running" else [asdict(each) for each in doubts]
        run = {"run": asdict(outline), "entries": [asdict(entry) for entry in entries]}
        click.echo(json.dumps({**run, "in_doubt": found}, indent=2))
        return
    print_outline(outline)
    day = ""
    for entry in entries:
        at = datetime.fromtimestamp(entry.at)
        if entry is not entries[0] and f"{at:%Y-%m-%d}" != day:
            click.echo(f"  {at:%Y-%m-%d}")
        day = f"{at:%Y-%m-%d}"
        path = f"{escaped(entry.path)}: " if entry.path else ""
        line = f"  {entry.sequence:>4}  {at:%H:%M:%S}  {path}{line_of(entry)}"
        click.echo(_fitting(line, 2))
    if outline.state == "running":
        for doubt in doubts:
            click.echo(f"running: {doubt_line(doubt)}")
        return
    if made := forks(recorded.journal, recorded.run_id):
        click.echo(f"it was forked as: {escaped(', '.join(made))}")
        return
    if doubts:
        print_doubts(doubts, recorded)
        return
    for words, line in recorded.ways(outline.state) if entries else ():
        click.echo(f"{words}: {escaped(line)}")


def _fitting(line: str, rest: int) -> str:
    """Return a line cut to the terminal's width, or to 120 columns without a terminal."""
    width = max(40, shutil.get_terminal_size((120, 24)).columns - rest)
    return line if len(line) <= width else f"{line[: width - 2]} …"


def _calls_of(journal: Journal, run_id: str, citizen: str) -> list[dict[str, Any]]:
    """Return a citizen's model calls in a run, in order; `time` is None if it is not recorded."""
    kind = journal.run(run_id).kind
    if kind not in ("Society", "Survey"):
        raise click.UsageError(f"--citizen is for a society's run, and {run_id!r} is of a {kind}")
    asked: dict[str, dict[str, Any]] = {}
    mine: dict[str, str | None] = {}
    times: dict[int, str] = {}
    for entry in journal.entries(run_id):
        data, about = entry.data, entry.data.get("about") or {}
        if entry.kind == "state":
            times |= {row["step"]: row["time"] for row in data["appended"].get("rows", ())}
        if "citizen" not in about:
            continue
        key = about.get("unused") or about.get("shared") or data["key"]
        if about["citizen"] == citizen:
            mine[key] = data["result"] if "unused" in about else mine.get(key)
        if "model" not in about:
            continue
        new = {"step": int(key.partition("/")[0]), "model": about["model"], "messages": []}
        call = asked.setdefault(key, new)
        if entry.kind == "ended":
            call["failed"] = data["result"].get("failed")
            call["answer"] = data["result"].get("answer", {}).get("text")
        else:
            call |= {"messages": (data.get("args") or {}).get("messages", [])}
            call |= {"answer": None, "failed": "no answer is recorded"}
    if not mine:
        raise click.UsageError(f"in run {run_id!r} no citizen {citizen!r} has asked a model")
    return [
        {"time": times.get(asked[key]["step"]), **asked[key], "unused": why}
        for key, why in mine.items()
    ]


def _print_calls(calls: list[dict[str, Any]]) -> None:
    """Print the calls of a citizen by step."""
    step = None
    for call in calls:
        if call["step"] != step:
            step = call["step"]
            at = f", {call['time'].replace('T', ' ')}" if call["time"] else ""
            click.echo(f"step {step}{at}")
        click.echo(f"  {escaped(call['model'])}")
        for message in call["messages"]:
            _tell(str(message.get("role")), message.get("content"))
        _tell("failed" if call["failed"] else "answer", call["failed"] or call["answer"])
        if call["unused"] or not call["failed"]:
            why = f"not by this answer: {call['unused']}" if call["unused"] else "by this answer"
            _tell("decided", why)


def _tell(name: str, text: Any) -> None:
    lines = str("nothing" if text is None else text).splitlines() or [""]
    click.echo(f"    {escaped(name):<9} {escaped(lines[0])}")
    for line in lines[1:]:
        click.echo(f"    {'':<9} {escaped(line)}")


# -- moothall replay -------------------------------------------------------------------------------


@click.command()
@click.argument("run_id", metavar="ID")
@journal_option("The journal.")
@json_option
def replay(run_id: str, journal: str | None, as_json: bool) -> int:
    """Replay the run with this ID from its record.

    Nothing is executed or changed, no model is asked, and no key or network is needed. The output
    is that of the run itself, without times, and the same each time, byte for byte.

    \b
    Examples:
      moothall replay 79a0b5265e6033b5 --journal runs.db
      moothall replay 79a0b5265e6033b5 --json

    \b
    Exit codes: 0 the run was done,
    1 it was stopped or has not ended, 2 wrong usage,
    130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    with reading(journal) as found:
        return show_replay(Recorded(found, run_id), as_json)


def show_replay(recorded: Recorded, as_json: bool, *, resumed: bool = False) -> int:
    """Show a run from its record; return the run's exit code."""
    run_id, outline, entries = recorded.run_id, recorded.outline, recorded.entries
    own = [entry for entry in entries if not entry.path]
    if not own or own[-1].kind != "over":
        raise StateError(
            f"run {run_id!r} has not ended: `{escaped(recorded.command('runs'))}` shows its "
            f"record, and `{escaped(recorded.command('resume'))}` resumes it"
        )
    reply: Reply | dict[str, Any] = recorded.journal.replay(run_id)
    if isinstance(reply, dict):  # of the user's own orchestrator
        click.echo(json.dumps(reply, indent=2))
        return 0 if reply["over"]["reason"] in ANSWERED else 1
    whole = [reply.steps[-1].action] if reply.stop_reason == "terminal" and reply.steps else []
    # For a program that resumes it, as any other run that it resumes.
    screen = screen_of(outline.kind, as_json, recorded if as_json and resumed else None, whole)
    if not as_json:
        click.echo(escaped(outline.task))
    for event in _events(outline.agent, entries):
        screen.event(event, None)
    screen.event(Done(outline.agent, reply), None)
    if as_json and outline.kind == "Researcher":
        from moothall.cli.run.watch import print_line
        from moothall.research.recording import report_json

        print_line("report", report_json(reply.value))
    return exit_code(reply)


def _events(agent: str, entries: Sequence[Entry]) -> Iterator[Event]:
    """Yield the recorded events in order, those of members' turns too."""
    names = {"": agent}  # the agent of each part
    researchers = set()  # their parts; their steps say what their models answer
    begun: set[tuple[str, str]] = set()
    rounds: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        data, path = entry.data, entry.path
        by = names.get(path, path)
        about = data.get("about", {})
        if entry.kind == "state":
            yield from _grown(by, path, data["appended"], rounds)
        elif entry.kind == "begun":
            names[path] = data["agent"]
            if data["kind"] == "Researcher":
                researchers.add(path)
        elif entry.kind == "over" and entry is entries[-1] and "progress" in data:
            # From the turn in which the run stopped.
            lists = ("conclusions", "decisions")
            since = {name: data["progress"][name][rounds[path, name] :] for name in lists}
            yield from _grown(by, path, since, rounds)
        elif entry.kind == "ended" and path in researchers and "iteration" not in about:
            iteration, _, block = data["key"].partition(".")
            if "model" not in about:
                yield BlockStarted(by, block, int(iteration))
                yield BlockEnded(by, block, int(iteration), data["result"])
        elif entry.kind == "ended" and "model" in about:
            answer = data["result"]
            for piece, name in ((ReasoningPiece, "reasoning"), (TextPiece, "text")):
                if isinstance(text := answer.get(name), str) and text:
                    yield piece(text, by)
        else:
            for event, *parts in call_events(by, entry, begun):
                yield event(*parts)


def _grown(
    by: str, path: str, grown: dict[str, Any], rounds: Counter[tuple[str, str]]
) -> Iterator[Event]:
    """Yield the events of what a state adds."""
    for message in grown.get("messages", ()):
        yield MessageAdded(by, message)
    for given in grown.get("conclusions", ()):
        rounds[path, "conclusions"] += 1
        yield ConclusionReached(by, rounds[path, "conclusions"], Conclusion(**given))
    for given in grown.get("decisions", ()):
        rounds[path, "decisions"] += 1
        action = DecisionAction(given["action"])
        made = HumanDecision(action, given["new_instruction"], given["reasoning"])
        yield DecisionMade(by, rounds[path, "decisions"], made)
