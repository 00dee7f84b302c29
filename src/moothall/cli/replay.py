"""`moothall replay`: show a run from its record."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import click

from moothall import (
    BlockEnded,
    BlockStarted,
    Conclusion,
    ConclusionReached,
    DecisionMade,
    Done,
    Event,
    HumanDecision,
    MessageAdded,
    ReasoningPiece,
    Reply,
    StateError,
    TextPiece,
)
from moothall.agents.loop.recording import call_events
from moothall.build import escaped
from moothall.cli.recorded_runs import RecordedRun, named_run
from moothall.cli.run.act import screen_of
from moothall.cli.run.outcome import exit_code
from moothall.cli.shared_options import journal_option, json_option, open_for_reading
from moothall.journal import REASONS, Entry

_TURN_OF_H = re.compile(r"H\d+(\.again)?")
"""The part of a dual act's run that is a turn of its H."""


@click.command()
@click.argument("run_id", metavar="ID")
@journal_option("The journal.")
@json_option
def command(run_id: str, journal: str | None, as_json: bool) -> int:
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
    with open_for_reading(journal) as store:
        return show_replay(RecordedRun(store, named_run(store, run_id)), as_json)


def show_replay(recorded: RecordedRun, as_json: bool, *, resumed: bool = False) -> int:
    """Show a run from its record; return the run's exit code."""
    run_id, outline, entries = recorded.run_id, recorded.outline, recorded.entries
    if Entry.end_of(entries) is None:
        raise StateError(
            f"run {run_id!r} has not ended: `{escaped(recorded.command('runs'))}` shows its "
            f"record, and `{escaped(recorded.command('resume'))}` resumes it"
        )
    reply: Reply | dict[str, Any] = recorded.journal.replay(run_id)
    if isinstance(reply, dict):  # of the user's own orchestrator
        click.echo(json.dumps(reply, indent=2))
        return 0 if reply["over"]["reason"] in REASONS.answered else 1
    uncut_actions = (
        [reply.steps[-1].action] if reply.stop_reason == "terminal" and reply.steps else []
    )
    # For a program that resumes it, as any other run that it resumes.
    screen = screen_of(
        outline.kind, as_json, recorded if as_json and resumed else None, uncut_actions
    )
    if not as_json:
        click.echo(escaped(outline.task))
    for event in _events(outline.agent, entries):
        screen.event(event, None)
    screen.event(Done(outline.agent, reply), None)
    if as_json and outline.kind == "Researcher":
        from moothall.cli.run.watch import print_line

        print_line("report", reply.value.to_json())
    return exit_code(reply)


def _events(agent: str, entries: Sequence[Entry]) -> Iterator[Event]:
    """Yield the recorded events in order, those of members' turns too."""
    names = {"": agent}  # the agent of each part
    kinds: dict[str, str] = {}
    researchers = set()  # their parts; their steps say what their models answer
    started_calls: dict[tuple[str, str], str] = {}
    rounds: Counter[tuple[str, str]] = Counter()
    end = Entry.end_of(entries)
    for entry in entries:
        data, path = entry.data, entry.path
        author = names.get(path, path)
        details = data.get("about", {})
        if entry.kind == "state":
            yield from _grown(author, path, data["appended"], rounds)
        elif entry.kind == "begun":
            names[path], kinds[path] = data["agent"], data["kind"]
            if data["kind"] == "Researcher":
                researchers.add(path)
        elif entry is end and "progress" in data:
            # From the turn in which the run stopped.
            lists = ("conclusions", "decisions")
            since = {name: data["progress"][name][rounds[path, name] :] for name in lists}
            yield from _grown(author, path, since, rounds)
        elif entry.kind == "ended" and path in researchers and "iteration" not in details:
            iteration, _, block = data["key"].partition(".")
            if "model" not in details:
                yield BlockStarted(author, block, int(iteration))
                yield BlockEnded(author, block, int(iteration), data["result"])
        elif entry.kind == "ended" and "model" in details:
            answer = data["result"]
            for piece, name in ((ReasoningPiece, "reasoning"), (TextPiece, "text")):
                if isinstance(text := answer.get(name), str) and text:
                    yield piece(text, author, decides=_decides(path, kinds))
        else:
            for event, *parts in call_events(author, entry, started_calls):
                yield event(*parts)


def _decides(path: str, kinds: dict[str, str]) -> bool:
    """Return whether a part is a turn of a dual act's H, or lies in one, as its stream says."""
    parts = path.split("/")
    return any(
        kinds.get("/".join(parts[:depth])) == "DualActAgent" and _TURN_OF_H.fullmatch(part)
        for depth, part in enumerate(parts)
    )


def _grown(
    author: str, path: str, grown: dict[str, Any], rounds: Counter[tuple[str, str]]
) -> Iterator[Event]:
    """Yield the events of what a state adds."""
    for message in grown.get("messages", ()):
        yield MessageAdded(author, message)
    for data in grown.get("conclusions", ()):
        rounds[path, "conclusions"] += 1
        yield ConclusionReached(author, rounds[path, "conclusions"], Conclusion(**data))
    for data in grown.get("decisions", ()):
        rounds[path, "decisions"] += 1
        yield DecisionMade(author, rounds[path, "decisions"], HumanDecision.from_json(data))
