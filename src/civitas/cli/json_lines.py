"""What happens in a run as lines of JSON, for programs."""

from __future__ import annotations

import json
from typing import Any, Final

from civitas.cli.outcome import exit_code
from civitas.reasoning.events import Event
from civitas.reasoning.prompts import cut, json_text

__all__ = ["MAX_CHARS", "JSONLines"]

MAX_CHARS: Final = 10_000
"""How much is given of a result and of a message."""


class JSONLines:
    """Prints each event as one JSON object on a line of standard output; the last is the reply.

    ASCII alone, so that nothing in it is obeyed by a terminal either.
    """

    def event(self, event: Event, seconds: float) -> None:
        """Print an event.

        Args:
            event: what happened
            seconds: how long the run took until then
        """
        _print(event.kind, _fields(event, seconds))

    def interrupted(self, seconds: float) -> None:
        """Print that the run was interrupted: there is no reply."""
        _print("interrupted", {"seconds": round(seconds, 3)})


def _print(kind: str, fields: dict[str, Any]) -> None:
    print(json.dumps({"kind": kind, **fields}, default=str), flush=True)


def _fields(event: Any, seconds: float) -> dict[str, Any]:
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
            "seconds": round(seconds, 3),
            "run_id": reply.run_id,
        }
    if kind == "message":
        return {"agent": event.agent, "message": _bounded(event.message)}
    if kind in ("decision", "conclusion"):
        value = getattr(event, kind).to_json()
        return {"agent": event.agent, "loop": event.loop, kind: _bounded(value)}
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
