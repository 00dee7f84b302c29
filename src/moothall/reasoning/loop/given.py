"""What a model is given, recorded as the difference from the call before.

What a thread has from its earlier runs is recorded as the difference from what was recorded of it
last, so that a journal grows with what is new.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import ref

from pydantic_core import to_json as plain_json

from moothall.goal import Goal, format_goals
from moothall.jsonvalue import json_text, read_json, readable
from moothall.reasoning.read_record import kept_list
from moothall.text import cut

if TYPE_CHECKING:
    from moothall.journal import Entry
    from moothall.journal.file import JournalFile
    from moothall.reasoning.loop.answer import OfferedActions
    from moothall.reasoning.record import Record
    from moothall.reasoning.thread import Thread

MAX_RESULT_CHARS = 20_000
"""How much of a result a model is shown."""

FEW: Final = 8
"""So many messages or utterances of earlier runs are recorded as they are."""
_MAX_LINKS: Final = 32
"""How many differences are read at most to restore what a thread had."""

NOT_RUN = "not executed, because another call of the same answer was wrong"


def system_text(system_prompt: str | None, goals: Iterable[Goal]) -> str:
    """Return the system part of a prompt; empty if there is none."""
    return "\n\n".join(part for part in (system_prompt, format_goals(goals)) if part)


def error_of(result: dict[str, Any]) -> str | None:
    """Return the error in a result, as text; None without one."""
    error = result.get("error")
    return None if error is None else str(error)


def result_content(result: dict[str, Any], limit: int) -> str:
    """Return a result as a model sees it: the value as JSON (a text unchanged), or the error."""
    error = error_of(result)
    if error is not None:
        return json.dumps({"error": cut(readable(error), limit)}, ensure_ascii=False)
    if "result" in result:
        return cut(json_text(result["result"]), limit)
    rest = {key: value for key, value in result.items() if key != "traceback"}
    return cut(json_text(rest), limit)


class _Remembered(NamedTuple):
    """What a thread had from earlier runs, as a journal keeps it."""

    file: ref[JournalFile]  # another one of the same path need not have the value
    hash: str
    links: int
    items: list[Any]


class Given:
    """The last prompt of one part of a run, from which the next one's record is computed."""

    def __init__(self, record: Record[Any], thread: Thread) -> None:
        self._record = record
        self._thread = thread
        self._before: list[dict[str, Any]] = []
        self._shown: OfferedActions | None = None

    def note(
        self,
        prompt: list[dict[str, Any]],
        own: list[dict[str, Any]],
        shown: OfferedActions,
        schema: dict[str, Any] | None,
    ) -> dict[str, Any]:
        """Return what to record of a call; `own` are the run's messages, recorded already."""
        before, self._before = self._before, prompt
        same = len(before) if prompt[: len(before)] == before else _alike(before, prompt)
        gone = _forgotten(before[same:], prompt[same:]) if same < len(before) else 0
        kept = len(before) - gone
        new = prompt[kept:]
        mine = len(new) if new == own[len(own) - len(new) :] else _alike(new[::-1], own[::-1])
        noted: dict[str, Any] = {"same": same, "own": [len(own) - mine, len(own)]}
        if kept > same:
            noted["gone"] = gone
        if mine < len(new):
            others = new[: len(new) - mine]
            if len(others) > FEW:
                first = int(others[0].get("role") == "system")
                noted["remembered"] = keep_list(self._record, self._thread, others[first:])
                others = others[:first]
            if others:
                noted["new"] = _json(others).decode()
        if shown is not self._shown:
            self._shown = shown
            tools = [
                {"name": each.name, "description": each.description, "parameters": each.parameters}
                for each in shown.actions
            ]
            # As text: the journal stores equal texts of several runs once.
            noted |= {"tools": _json(tools).decode(), "schema": schema}
        return noted


def keep_list(record: Record[Any], thread: Thread, items: list[Any]) -> str:
    """Keep what a thread has from earlier runs; return its hash, for `kept_list`."""
    last = thread.remembered
    link: dict[str, Any] = {"new": items}
    links = 0
    if last is not None and last.file() is record.file and last.links < _MAX_LINKS:
        gone = _forgotten(last.items, items)
        if gone < len(last.items):
            link = {"after": last.hash, "gone": gone, "new": items[len(last.items) - gone :]}
            links = last.links + 1
    hash = record.keep(_json(link))
    made = _Remembered(ref(record.file), hash, links, items)
    record.then(partial(setattr, thread, "remembered", made))
    return hash


def given_for(
    entries: Iterable[Entry], path: str, sequence: int, kept: Callable[[str], bytes]
) -> dict[str, Any] | None:
    """Return the messages, tools and schema of an entry's answer or failure; None if unknown."""
    own: list[Any] = []
    prompt: list[Any] = []
    about: dict[str, Any] = {}
    for entry in entries:
        if entry.path != path:
            continue
        if entry.kind == "state":
            own += entry.data.get("appended", {}).get("messages", ())
        noted = entry.data.get("prompt")
        if noted is not None:
            new = read_json(noted.get("new", "[]"))
            if "remembered" in noted:
                new += kept_list(noted["remembered"], kept)
            same, gone = noted["same"], noted.get("gone", len(prompt))
            prompt = [*prompt[:same], *prompt[same + gone :], *new, *own[slice(*noted["own"])]]
            if "tools" in noted:
                about = {"tools": read_json(noted["tools"]), "schema": noted["schema"]}
        if entry.sequence == sequence:
            return None if noted is None else {"messages": prompt, **about}
    return None


def _json(data: Any) -> bytes:
    """Return JSON data as bytes, in the cheapest way."""
    try:
        return plain_json(data, inf_nan_mode="strings")
    except ValueError:  # something that is not JSON
        return json_text(data).encode()


def _forgotten(before: list[Any], now: list[Any]) -> int:
    """Return how many of the first messages are gone, if all others still begin the prompt."""
    gone = next((n for n, each in enumerate(before) if now and each is now[0]), len(before))
    left = before[gone:]
    return gone if now[: len(left)] == left else len(before)


def _alike(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return the length of the common prefix."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
