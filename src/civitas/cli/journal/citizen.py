"""What one citizen of a society asked its model: prompts, answers and decisions by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from civitas.approval import escaped

if TYPE_CHECKING:
    from civitas.journal import Journal


def calls_of(journal: Journal, run_id: str, citizen: str) -> list[dict[str, Any]]:
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


def tell_calls(calls: list[dict[str, Any]]) -> None:
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
