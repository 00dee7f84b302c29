"""`civitas replay`: a run told again, from its record alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from civitas.approval import escaped
from civitas.cli.completion import run_ids
from civitas.cli.options import Recorded, is_named, journal_option, opened
from civitas.cli.run.show import exit_code
from civitas.errors import StateError
from civitas.models.protocol import ReasoningPiece, TextPiece
from civitas.reasoning.dualact.conclusions import Conclusion, DecisionAction, HumanDecision
from civitas.reasoning.events import (
    CallEnded,
    CallStarted,
    ConclusionReached,
    DecisionMade,
    Done,
    Event,
    MessageAdded,
)

if TYPE_CHECKING:
    from civitas.cli.run.json_lines import JSONLines
    from civitas.cli.run.show import Shown
    from civitas.journal import Entry, Journal
    from civitas.reasoning.reply import Reply

__all__ = ["command", "retold"]


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
    """Show a run from its record; give the exit code that it had.

    Raises:
        NoSuchRun: there is none of that id
        StateError: it has not ended
        JournalError: the journal cannot be read, or is damaged
    """
    run_id = recorded.run_id
    outline, entries = journal.run(run_id), journal.entries(run_id)
    own = [entry for entry in entries if not entry.path]
    if not own or own[-1].kind != "over":
        raise StateError(
            f"run {run_id!r} has not ended: `{escaped(recorded.command('runs'))}` shows what there "
            f"is, and `{escaped(recorded.command('resume'))}` goes on with it"
        )
    reply: Reply = journal.replay(run_id)
    screen = _screen(reply, outline.kind, as_json)
    if not as_json:
        click.echo(escaped(outline.task))
    for event in _events(outline.agent, entries):
        screen.event(event, None)
    screen.event(Done(outline.agent, reply), None)
    return exit_code(reply)


def _screen(reply: Reply, kind: str, as_json: bool) -> Shown | JSONLines:
    if as_json:
        from civitas.cli.run.json_lines import JSONLines

        return JSONLines()
    from civitas.cli.run.show import Shown

    whole = [reply.steps[-1].action] if reply.stop_reason == "terminal" and reply.steps else []
    return Shown(whole, reviewed=kind == "DualActAgent")


def _events(agent: str, entries: Sequence[Entry]) -> Iterator[Event]:
    """What happened, in the order in which it was recorded."""
    decisions = conclusions = 0
    names = {"": agent}
    begun = set()
    for entry in entries:
        data = entry.data
        by = names.get(entry.path, entry.path)
        if entry.kind in ("asked", "started") and "part" in data:
            names[f"{entry.path}/{data['part']}".lstrip("/")] = data["agent"]
        if entry.kind == "answered":
            answer = data["answer"]
            for piece, text in ((ReasoningPiece, answer["reasoning"]), (TextPiece, answer["text"])):
                if isinstance(text, str) and text:
                    yield piece(text, by)
        elif entry.kind == "remembered":
            for message in data["messages"]:
                yield MessageAdded(by, message)
        elif entry.kind in ("started", "ended") and "action" in data:
            common = (by, data["iteration"], data["id"], data["action"])
            call = (entry.path, data["iteration"], data["call"])
            # What was refused has an end alone.
            if entry.kind == "started" or call not in begun:
                yield CallStarted(*common, data["args"])
            begun.add(call)
            if entry.kind == "ended":
                yield CallEnded(*common, data["result"], data["error"])
        elif entry.kind == "state" and not entry.path:
            grown = entry.data["appended"]
            for given in grown.get("conclusions", ()):
                conclusions += 1
                yield ConclusionReached(agent, conclusions, Conclusion(**given))
            for given in grown.get("decisions", ()):
                decisions += 1
                made = HumanDecision(
                    DecisionAction(given["action"]), given["new_instruction"], given["reasoning"]
                )
                yield DecisionMade(agent, decisions, made)
