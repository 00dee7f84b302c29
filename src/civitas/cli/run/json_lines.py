"""What happens in a run as lines of JSON, for programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from civitas.cli.run.show import exit_code
from civitas.reasoning.events import Event
from civitas.reasoning.prompts import cut, json_text

if TYPE_CHECKING:
    from civitas.cli.options import Recorded

MAX_CHARS: Final = 10_000
"""How much is given of a result and of a message."""


class JSONLines:
    """Prints each event as one JSON object on a line of standard output; the last is the reply.

    ASCII alone, so that nothing in it is obeyed by a terminal either.
    """

    for_a_person = False
    is_loaded: Callable[[], bool]  # of no interest here

    def __init__(self, recorded: Recorded | None = None) -> None:
        self._recorded = recorded
        self._begun = False

    def begin(self) -> None:
        """Nothing: a program needs no sign of life."""

    finish = hold = release = begin

    def event(self, event: Event, seconds: float | None) -> None:
        """Print an event."""
        if self._recorded is not None and not self._begun:
            self._begun = True
            print_line("run", {"run_id": self._recorded.run_id, "journal": self._recorded.path})
        fields = _fields(event, seconds)
        if event.kind == "done" and self._recorded is not None:
            fields["resume"] = self._ways(event.reply.stop_reason)  # type: ignore[union-attr]
        print_line(event.kind, fields)

    def interrupted(self, seconds: float) -> None:
        """Print that the run was interrupted: there is no reply."""
        fields: dict[str, Any] = {"seconds": round(seconds, 3)}
        if self._recorded is not None:
            fields["resume"] = self._ways("cancelled")
        print_line("interrupted", fields)

    def _ways(self, stop_reason: str) -> list[str]:
        assert self._recorded is not None
        return [command for _, command in self._recorded.ways(stop_reason)]


def print_line(kind: str, fields: dict[str, Any]) -> None:
    """Print an object on a line."""
    print(json.dumps({"kind": kind, **fields}, default=str), flush=True)


def _fields(event: Any, seconds: float | None) -> dict[str, Any]:
    fields = _fields_of(event)
    if event.kind == "done" and seconds is not None:
        fields["seconds"] = round(seconds, 3)
    if getattr(event, "past", False):
        fields["past"] = True
    return fields


def _fields_of(event: Any) -> dict[str, Any]:
    kind = event.kind
    if kind in ("text", "reasoning"):
        return {"agent": event.agent, "text": event.text}
    if kind == "done":
        reply = event.reply
        return {
            "agent": event.agent,
            "text": reply.text,
            "stop_reason": reply.stop_reason,
            "detail": reply.detail,
            "exit_code": exit_code(reply),
            "steps": len(reply.steps),
            "input_tokens": reply.usage.input_tokens,
            "output_tokens": reply.usage.output_tokens,
            "run_id": reply.run_id,
        }
    if kind == "message":
        return {"agent": event.agent, "message": _bounded(event.message)}
    if kind in ("decision", "conclusion"):
        value = getattr(event, kind).to_json()
        return {"agent": event.agent, "loop": event.loop, kind: _bounded(value)}
    if kind in ("block_started", "block_ended"):
        fields = {"agent": event.agent, "iteration": event.iteration, "block": event.block}
        return fields if kind == "block_started" else {**fields, "result": event.result}
    fields = {
        "agent": event.agent,
        "iteration": event.iteration,
        "call_id": event.call_id,
        "action": event.action,
    }
    if kind == "call_started":
        return {**fields, "args": event.args}
    # A traceback is for the program's own authors.
    result = None if event.error is not None else as_json(event.result.get("result"))
    return {**fields, "result": result, "error": event.error}


def as_json(value: Any) -> str:
    """A result as JSON text, cut to a bound; text too, so that it can be told from other values."""
    return cut(json.dumps(value) if isinstance(value, str) else json_text(value), MAX_CHARS)


def _bounded(value: dict[str, Any]) -> dict[str, Any]:
    return {key: cut(v, MAX_CHARS) if isinstance(v, str) else v for key, v in value.items()}
