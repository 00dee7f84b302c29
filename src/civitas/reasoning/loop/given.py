"""What a model is given, recorded as the difference from the call before."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json as plain_json

from civitas.goal import Goal, format_goals
from civitas.jsonvalue import as_json, json_text, read_json, readable
from civitas.text import cut

if TYPE_CHECKING:
    from civitas.journal import Entry
    from civitas.reasoning.loop.answer import Shown

MAX_RESULT_CHARS = 20_000
"""How much of a result a model is shown."""

NOT_RUN = "not executed, because another call of the same answer was wrong"


def system_text(system_prompt: str | None, goals: Iterable[Goal]) -> str:
    """Return the system part of a prompt; empty if there is none."""
    return "\n\n".join(part for part in (system_prompt, format_goals(goals)) if part)


def result_content(result: dict[str, Any], limit: int) -> str:
    """Return a result as a model sees it: the value as JSON (a text unchanged), or the error alone.

    A traceback is for people; it is in the step.
    """
    error = result.get("error")
    if error is not None:
        return json.dumps({"error": cut(readable(str(error)), limit)}, ensure_ascii=False)
    if "result" in result:
        return cut(json_text(result["result"]), limit)
    rest = {key: value for key, value in result.items() if key != "traceback"}
    return cut(json_text(rest), limit)


class Given:
    """The last prompt of one part of a run, from which the next one's record is computed."""

    def __init__(self) -> None:
        self._before: list[dict[str, Any]] = []
        self._shown: Shown | None = None

    def note(
        self,
        prompt: list[dict[str, Any]],
        own: list[dict[str, Any]],
        shown: Shown,
        schema: dict[str, Any] | None,
    ) -> dict[str, Any]:
        """Return what to record of a call; `own` are the run's messages, recorded already."""
        before, self._before = self._before, prompt
        same = len(before) if prompt[: len(before)] == before else _alike(before, prompt)
        new = prompt[same:]
        mine = len(new) if new == own[len(own) - len(new) :] else _alike(new[::-1], own[::-1])
        noted: dict[str, Any] = {"same": same, "own": [len(own) - mine, len(own)]}
        if mine < len(new):
            noted["new"] = _text(new[: len(new) - mine])
        if shown is not self._shown:
            self._shown = shown
            tools = [
                {"name": each.name, "description": each.description, "parameters": each.parameters}
                for each in shown.actions
            ]
            # As text: the journal stores equal texts of several runs once.
            noted |= {"tools": json_text(as_json(tools)), "schema": schema}
        return noted


def given_for(entries: Iterable[Entry], path: str, sequence: int) -> dict[str, Any] | None:
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
            prompt = [*prompt[: noted["same"]], *new, *own[slice(*noted["own"])]]
            if "tools" in noted:
                about = {"tools": read_json(noted["tools"]), "schema": noted["schema"]}
        if entry.sequence == sequence:
            return None if noted is None else {"messages": prompt, **about}
    return None


def _text(messages: list[Any]) -> str:
    """Return messages as one text, the cheapest form for a thread with a long past."""
    try:
        return plain_json(messages, inf_nan_mode="strings").decode()
    except ValueError:  # something that is not JSON
        return json_text(messages)


def _alike(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return the length of the common prefix."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
