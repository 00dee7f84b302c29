"""`civitas replay`: a run told again, from its record alone."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from civitas.approval import escaped
from civitas.cli.completion import run_ids
from civitas.cli.options import Recorded, is_named, journal_option, opened
from civitas.cli.run.show import exit_code
from civitas.errors import StateError
from civitas.models.protocol import ReasoningPiece, TextPiece
from civitas.reasoning.dualact.conclusions import Conclusion, DecisionAction, HumanDecision
from civitas.reasoning.events import (
    BlockEnded,
    BlockStarted,
    CallEnded,
    CallStarted,
    ConclusionReached,
    DecisionMade,
    Done,
    Event,
    MessageAdded,
)
from civitas.reasoning.reply import ANSWERED

if TYPE_CHECKING:
    from civitas.cli.run.json_lines import JSONLines
    from civitas.cli.run.show import Shown
    from civitas.journal import Entry, Journal
    from civitas.reasoning.reply import Reply


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
@journal_option("The journal.")
@click.option("--json", "as_json", is_flag=True, help="Print events as lines of JSON.")
def command(run_id: str, journal: str | None, as_json: bool) -> int:
    """Tell the run of that ID again, from its record alone.

    No model is asked, no action executed, nothing changed, and no key or network needed. It is
    shown as it was when it happened, without the time that it took; twice it is the same, byte for
    byte.

    \b
    Examples:
      civitas replay 79a0b5265e6033b5 --journal runs.db
      civitas replay 79a0b5265e6033b5 --json

    \b
    Exit codes: 0 the run was done,
    1 it was stopped or has not ended, 2 wrong usage,
    130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    with opened(journal) as found:
        return retold(found, Recorded(run_id, str(journal), is_named()), as_json)


def retold(journal: Journal, recorded: Recorded, as_json: bool) -> int:
    """Show a run from its record; give the exit code that it had."""
    run_id = recorded.run_id
    outline, entries = journal.run(run_id), journal.entries(run_id)
    own = [entry for entry in entries if not entry.path]
    if not own or own[-1].kind != "over":
        raise StateError(
            f"run {run_id!r} has not ended: `{escaped(recorded.command('runs'))}` shows what there "
            f"is, and `{escaped(recorded.command('resume'))}` goes on with it"
        )
    reply: Reply | dict[str, Any] = journal.replay(run_id)
    if isinstance(reply, dict):  # of an orchestrator of the user's own
        click.echo(json.dumps(reply, indent=2))
        return 0 if reply["over"]["reason"] in ANSWERED else 1
    whole = [reply.steps[-1].action] if reply.stop_reason == "terminal" and reply.steps else []
    screen = screen_of(outline.kind, as_json, whole=whole)
    if not as_json:
        click.echo(escaped(outline.task))
    for event in _events(outline.agent, entries):
        screen.event(event, None)
    screen.event(Done(outline.agent, reply), None)
    return exit_code(reply)


def screen_of(
    kind: str, as_json: bool, recorded: Recorded | None = None, whole: Sequence[str] = ()
) -> Shown | JSONLines:
    """What shows a run of a kind of agent; `whole` names actions whose results are not cut."""
    if as_json:
        from civitas.cli.run.json_lines import JSONLines

        return JSONLines(recorded)
    if kind == "Researcher":
        from civitas.cli.run.research_show import ResearchShown

        return ResearchShown(recorded=recorded, to=sys.stdout, whole=True)
    from civitas.cli.run.show import Shown

    return Shown(whole, reviewed=kind == "DualActAgent", recorded=recorded)


def _events(agent: str, entries: Sequence[Entry]) -> Iterator[Event]:
    """What happened, in the order in which it was recorded, in members' turns too."""
    names = {"": agent}  # of each part
    researchers = set()  # the parts of those: what their models answer is told by their steps
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
            # Of the turn in which it stopped.
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
        elif entry.kind in ("started", "ended") and "iteration" in about:
            common = (by, about["iteration"], about["id"], about["action"])
            # What was refused has an end alone.
            if entry.kind == "started" or (path, data["key"]) not in begun:
                args = data["result"]["args"] if entry.kind == "ended" else data["args"]
                yield CallStarted(*common, args)
            begun.add((path, data["key"]))
            if entry.kind == "ended":
                result = data["result"]["result"]
                error = result.get("error")
                yield CallEnded(*common, result, None if error is None else str(error))


def _grown(
    by: str, path: str, grown: dict[str, Any], rounds: Counter[tuple[str, str]]
) -> Iterator[Event]:
    """What was new in a state."""
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
