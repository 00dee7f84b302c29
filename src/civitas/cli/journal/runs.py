"""`civitas runs`: the runs of a journal, and what happened in one."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from civitas.approval import escaped
from civitas.cli.completion import run_ids
from civitas.cli.journal.describe import copies, tell_of, told
from civitas.cli.options import NOBODY, Recorded, is_named, journal_option, opened
from civitas.cli.run.order import RecordedResearch, ResearchOrder, order_of
from civitas.journal.describe import doubt_line

if TYPE_CHECKING:
    from civitas.journal import Journal, Outline

_STATES = {
    "terminal": "done",
    "terminated": "done",
    "stopped": "stopped: its process ended",
    "in_doubt": "stopped: an action is in doubt",
    "cancelled": "stopped: it was interrupted",
    "deadline": "stopped: its time was over",
    "budget": "stopped: at the limit of what it may spend",
    "max_iterations": "stopped: no answer after as many as it may give",
    "max_loops": "stopped: the review did not accept it",
    "no_progress": "stopped: the model did the same over and over",
    "unreadable": "stopped: what the model answered could not be used",
    "error": "failed",
}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run_id", metavar="[ID]", required=False, shell_complete=run_ids)
@journal_option("The journal.")
@click.option(
    "--citizen", metavar="N", help="Of a society's run: what citizen N asked its model, by step."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def command(run_id: str | None, journal: str | None, citizen: str | None, as_json: bool) -> int:
    """List the runs of a journal, or what happened in the one of that ID.

    They are listed in the order in which they began. Of one run each entry of its record is shown
    in a line, and by numbers the calls in doubt: actions that were running when their process
    ended. `civitas resume` takes these numbers.

    \b
    Examples:
      civitas runs --journal runs.db
      civitas runs 79a0b5265e6033b5 --journal runs.db
      civitas runs april --citizen 17
      CIVITAS_JOURNAL=runs.db civitas runs --json

    \b
    Exit codes: 0 done, 1 failed, 2 wrong usage,
    130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    if citizen is not None and run_id is None:
        raise click.UsageError("--citizen is for one run: give its ID too")
    with opened(journal) as found:
        if run_id is None:
            _list(found, as_json)
        elif citizen is not None:
            calls, outline = _calls_of(found, run_id, citizen), found.run(run_id)
            if as_json:
                made = {"run": asdict(outline), "citizen": citizen, "calls": calls}
                click.echo(json.dumps(made, indent=2))
            else:
                headed(outline)
                _tell_calls(calls)
        else:
            _show(found, Recorded(run_id, str(journal), is_named()), as_json)
    return 0


def headed(outline: Outline) -> None:
    """Print of which run it is."""
    click.echo(escaped(outline.id))
    words = _STATES.get(outline.state, outline.state)
    began = datetime.fromtimestamp(outline.began).strftime("%Y-%m-%d %H:%M:%S")
    who = f"{outline.kind} {outline.agent}"
    entries = f"{outline.entries:,} entr{'y' if outline.entries == 1 else 'ies'}"
    click.echo(f"  {escaped(words)}; {escaped(who)}, began {began}, {entries}")
    if outline.forked_from is not None:
        click.echo(f"  a copy of {escaped(outline.forked_from)}")
    click.echo(f"  {_fitting(escaped(outline.task), 4)}")


def _list(journal: Journal, as_json: bool) -> None:
    outlines = journal.runs()
    if as_json:
        click.echo(json.dumps({"runs": [asdict(each) for each in outlines]}, indent=2))
        return
    for outline in outlines:
        headed(outline)
    if not outlines:
        click.echo("There are no runs.")


def _show(journal: Journal, recorded: Recorded, as_json: bool) -> None:
    outline = journal.run(recorded.run_id)
    entries = journal.entries(recorded.run_id)
    doubts = journal.in_doubt(recorded.run_id)
    order = order_of(entries)
    if order is None:
        recorded = replace(recorded, agent=NOBODY)
    elif isinstance(order, ResearchOrder):
        recorded = RecordedResearch(recorded.run_id, recorded.path, recorded.named, order=order)
    if as_json:
        # Under way is not in doubt.
        found = [] if outline.state == "running" else [asdict(each) for each in doubts]
        run = {"run": asdict(outline), "entries": [asdict(entry) for entry in entries]}
        click.echo(json.dumps({**run, "in_doubt": found}, indent=2))
        return
    headed(outline)
    day = ""
    for entry in entries:
        at = datetime.fromtimestamp(entry.at)
        if entry is not entries[0] and f"{at:%Y-%m-%d}" != day:
            click.echo(f"  {at:%Y-%m-%d}")
        day = f"{at:%Y-%m-%d}"
        path = f"{escaped(entry.path)}: " if entry.path else ""
        line = f"  {entry.sequence:>4}  {at:%H:%M:%S}  {path}{told(entry)}"
        click.echo(_fitting(line, 2))
    if outline.state == "running":
        for doubt in doubts:
            click.echo(f"running: {doubt_line(doubt)}")
        return
    if made := copies(journal, outline.id):
        click.echo(f"it has gone on as a copy: {escaped(', '.join(made))}")
        return
    if doubts:
        tell_of(doubts, recorded)
        return
    for words, line in recorded.ways(outline.state) if entries else ():
        click.echo(f"{words}: {escaped(line)}")


def _fitting(line: str, rest: int) -> str:
    """A line cut to what is legible: as wide as the terminal, or a little more elsewhere."""
    width = max(40, shutil.get_terminal_size((120, 24)).columns - rest)
    return line if len(line) <= width else f"{line[: width - 2]} …"


def _calls_of(journal: Journal, run_id: str, citizen: str) -> list[dict[str, Any]]:
    """What a citizen asked in a run, in its order, as JSON data.

    Each call has `step`, `time` (None where the state after the step is not recorded), `model`,
    `messages`, `answer`, `failed` (why there is no answer) and `unused` (why it decided nothing).

    Raises:
        UsageError: it is no society's run, or the citizen asked nothing
    """
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


def _tell_calls(calls: list[dict[str, Any]]) -> None:
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
