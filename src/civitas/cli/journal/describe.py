"""What a journal holds, in words: an entry in one line, and what is in doubt in a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

import click

from civitas.approval import escaped, escaped_json
from civitas.cli.run.show import one_or_more
from civitas.cli.run.worker import KIND
from civitas.errors import NoSuchRun, StateError

if TYPE_CHECKING:
    from civitas.cli.options import Recorded
    from civitas.journal import Entry, Journal
    from civitas.journal.doubt import Doubt

__all__ = ["called", "copies", "not_copied", "refused_in_doubt", "tell_of", "told"]


def told(entry: Entry) -> str:
    """What happened, with nothing in it that a terminal obeys."""
    tell = _KINDS.get(entry.kind)
    if tell is not None:
        try:
            return escaped(tell(entry.data))
        except (KeyError, TypeError, AttributeError, ValueError):
            pass  # of another civitas: shown as it stands
    return f"{escaped(entry.kind)} {escaped_json(entry.data)}"


def _begun(data: dict[str, Any]) -> str:
    return f"is asked: {_text(data['task'])}"


def _ordered(data: dict[str, Any]) -> str:
    review = f", reviewed by {data['review']}" if data["review"] else ""
    network = ", commands have the network" if data["network"] else ""
    return f"is set up: {data['model']} in {data['root']}{review}{network}"


def _remembered(data: dict[str, Any]) -> str:
    return "remembers " + ", and ".join(_message(message) for message in data["messages"])


def _message(message: dict[str, Any]) -> str:
    content = message.get("content")
    said = f": {_text(content)}" if content else ""
    role = str(message["role"])
    if role == "tool":
        return f"what {message.get('name')} gave{said}"
    if calls := [call["name"] for call in message.get("tool_calls") or ()]:
        return f"that it calls {', '.join(calls)}"
    return {"user": "what it is told", "assistant": "its answer"}.get(role, role) + said


def _asked(data: dict[str, Any]) -> str:
    if "part" in data:
        return f"asks {data['agent']} ({data['part']})"
    return f"asks its model, the {_nth(data['iteration'])} time"


def _answered(data: dict[str, Any]) -> str:
    answer = data["answer"]
    calls = [_call(call["name"], call["args"]) for call in answer["calls"] or ()]
    text = [_text(answer["text"])] if answer["text"] else []
    return "the model answers: " + "; ".join(text + calls)


def _failed(data: dict[str, Any]) -> str:
    return f"the model fails: {data['error']}"


def _charged(data: dict[str, Any]) -> str:
    charged = data["charged"]
    spent = f"{one_or_more(charged['tokens'], 'token')}, {charged['usd']} US dollars"
    return f"the model was asked, and gave no answer: {spent}"


def _permitted(data: dict[str, Any]) -> str:
    return "it is permitted"


def _started(data: dict[str, Any]) -> str:
    return f"begins {_call(data['action'], data['args'])}"


def _ended(data: dict[str, Any]) -> str:
    if data["error"] is not None:
        return f"{data['action']} fails: {data['error']}"
    return f"{data['action']} gives {escaped_json(data['result'].get('result'))}"


def _turned(data: dict[str, Any]) -> str:
    faults = f"; it could not be used: {data['faults']}" if data["faults"] else ""
    return f"is through with that answer{faults}"


def _heard(data: dict[str, Any]) -> str:
    return "the user has spoken meanwhile"


def _decided(data: dict[str, Any]) -> str:
    what = "is executed again" if data["repeat"] else "is not executed again"
    return f"a person decides: what was in doubt {what}"


def _replied(data: dict[str, Any]) -> str:
    return f"{data['part']} replies: {data['reply']['text']}"


def _progress(data: dict[str, Any]) -> str:
    progress = data["progress"]
    conclusions = one_or_more(len(progress["conclusions"]), "conclusion")
    return f"has {conclusions} and {one_or_more(len(progress['decisions']), 'decision')} by now"


def _over(data: dict[str, Any]) -> str:
    detail = f" ({data['detail']})" if data["detail"] else ""
    text = f": {_text(data['text'])}" if data["text"] else ""
    return f"ends, {data['reason'].replace('_', ' ')}{detail}{text}"


def _call(name: str, args: Any) -> str:
    if isinstance(args, str):  # as the model wrote them
        try:
            args = json.loads(args)
        except ValueError:
            pass
    if not isinstance(args, dict):
        return f"{name}({escaped_json(args)})"
    return f"{name}({', '.join(f'{k}={escaped_json(v)}' for k, v in args.items())})"


def _text(content: Any) -> str:
    return content if isinstance(content, str) else escaped_json(content)


def _nth(number: int) -> str:
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if 10 < number % 100 < 14 else ends.get(number % 10, 'th')}"


_KINDS: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    KIND: _ordered,
    "begun": _begun,
    "remembered": _remembered,
    "heard": _heard,
    "asked": _asked,
    "answered": _answered,
    "failed": _failed,
    "charged": _charged,
    "permitted": _permitted,
    "started": _started,
    "ended": _ended,
    "decided": _decided,
    "turned": _turned,
    "replied": _replied,
    "progress": _progress,
    "over": _over,
}


def called(doubt: Doubt) -> str:
    """An action with its arguments, as it is shown when it is called."""
    args = ", ".join(f"{escaped(name)}={escaped_json(v)}" for name, v in doubt.args.items())
    where = f" ({escaped(doubt.path)})" if doubt.path else ""
    return f"{escaped(doubt.action)}({args}){where}"


def copies(journal: Journal, run_id: str) -> list[str]:
    """The ids of the copies of a run, with which somebody has gone on.

    Raises:
        JournalError: the journal cannot be read
    """
    return [each.id for each in journal.runs() if each.forked_from == run_id]


def not_copied(journal: Journal, recorded: Recorded) -> None:
    """See to it that a run has no copy: what was to be executed again, it may have executed.

    Raises:
        StateError: it has
        JournalError: the journal cannot be read
    """
    found = copies(journal, recorded.run_id)
    if found:
        copy = replace(recorded, run_id=found[-1])
        raise StateError(
            f"run {recorded.run_id!r} has gone on as a copy, {found[-1]!r}: "
            f"`{copy.command('resume')}`, or with the run itself all the same: "
            f"`{recorded.command('resume', '--force')}`"
        )


def refused_in_doubt(journal: Journal, recorded: Recorded, as_json: bool) -> bool:
    """Whether a run cannot go on before a person has decided; then that is said.

    Raises:
        JournalError: the journal cannot be read, or is damaged
    """
    try:
        if journal.run(recorded.run_id).state == "running":
            return False  # what is under way in another process is not in doubt
        doubts = journal.in_doubt(recorded.run_id)
    except NoSuchRun:
        return False
    if not doubts:
        return False
    if as_json:
        ways = [command for _, command in recorded.ways("in_doubt")]
        found = {"kind": "in_doubt", "run_id": recorded.run_id}
        print(json.dumps({**found, "actions": [asdict(each) for each in doubts], "resume": ways}))
    id = escaped(recorded.run_id)
    click.echo(f"civitas: run {id} cannot go on before you decide", err=True)
    tell_of(doubts, recorded, to_stderr=True)
    return True


def tell_of(doubts: list[Doubt], recorded: Recorded, *, to_stderr: bool = False) -> None:
    """Print what is in doubt, and what to do about it."""
    click.echo("in doubt, since the process ended in the midst of it:", err=to_stderr)
    for doubt in doubts:
        click.echo(f"  {called(doubt)}", err=to_stderr)
    click.echo("Look whether it took effect, and then:", err=to_stderr)
    ways = recorded.ways("in_doubt")
    width = max(len(words) for words, _ in ways) + 1
    for words, command in ways:
        click.echo(f"  {words + ':':<{width}} {escaped(command)}", err=to_stderr)
