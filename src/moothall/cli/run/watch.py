"""How a run is watched: a person permits its actions, a program reads lines of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import termios
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Any, ClassVar, Final, TextIO, cast

from moothall import (
    ApprovalRequest,
    Approver,
    CallbackApprover,
    Done,
    Event,
    Reply,
    TerminalApprover,
)
from moothall.actions import Decision
from moothall.build import approve, as_json, cut, json_text
from moothall.cli.recorded_runs import RecordedRun
from moothall.cli.run.outcome import exit_code
from moothall.cli.run.run_display import RunDisplay
from moothall.studio.orders import AnyOrder, record_order

MAX_CHARS: Final = 10_000
"""The most characters printed of a result and of a message."""
_OMITTED_FIELDS: Final = ("past", "run_id", "thread")


class _InputLines:
    """Reads lines of standard input without its buffer."""

    def readline(self) -> str:
        # A thread that waits for a line of a buffer holds its lock, and Python cannot end while a
        # thread holds the lock: an interrupted question would crash the process.
        with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as raw:
            return raw.readline().decode(errors="replace")


def keyboard() -> TextIO | None:
    """Return a reader of a person's lines; None if standard input is no terminal."""
    if sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty():
        return None
    # Only its `readline` is used.
    return cast(TextIO, _InputLines())


def forget_keys() -> None:
    """Drop what was typed before a question: a model may have written what looks like one."""
    with suppress(termios.error):  # it has gone
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def says_yes(reader: TextIO, question: str) -> bool:
    """Ask the person at the terminal; return whether the answer is yes."""
    forget_keys()
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return reader.readline().strip().lower() in ("y", "yes")


def _refuse(request: ApprovalRequest) -> bool:
    text = f"refused, since standard input is not a terminal, so nobody can be asked: {request}"
    print(text, file=sys.stderr, flush=True)
    return False


class Permission:
    """Asks the person at the terminal, on standard error; other output waits for the answer."""

    title: ClassVar[str] = TerminalApprover.title  # who permitted, in the record

    def __init__(
        self, display: RunDisplay | JSONLines, notes: Mapping[str, str] | None = None
    ) -> None:
        self._reader = reader = keyboard()
        self._approver: Approver = (
            CallbackApprover(_refuse) if reader is None else TerminalApprover(reader, sys.stderr)
        )
        self._notes = notes or {}
        self.display = display
        self.question_lock: asyncio.Lock = asyncio.Lock()  # held by a question, or by what is shown

    async def approve(self, request: ApprovalRequest) -> Decision:
        """Ask the person; return whether the action is permitted."""
        self.display.hold()
        try:
            async with self.question_lock:
                if self._reader is not None:
                    forget_keys()
                if note := self._notes.get(request.action):
                    print(note, file=sys.stderr, flush=True)
                return await approve(self._approver, request)
        except asyncio.CancelledError:
            self.display.forget_call(request.action)
            raise
        finally:
            self.display.release()


async def stream_to_screen(
    agent: Any, permission: Permission, task: Any, run_id: str | None = None, **options: Any
) -> Reply:
    """Let an agent reply, show what happens, and return the reply."""
    start, display = time.monotonic(), permission.display
    display.begin()
    try:
        async with agent.stream(task, run_id=run_id, **options) as events:
            async for event in events:
                async with permission.question_lock:
                    display.event(event, time.monotonic() - start)
    except asyncio.CancelledError:
        # By now all calls have ended, a command with all of its process group.
        display.show_interrupted(time.monotonic() - start)
        raise
    finally:
        display.finish()
    reply: Reply = events.reply
    return reply


async def carry_out(
    agent: Any, permission: Permission, order: AnyOrder, recorded: RecordedRun | None
) -> Reply:
    """Let an agent carry out an order, record the order if there is a journal, and show it."""
    if recorded is None:
        return await stream_to_screen(agent, permission, order.task)
    await record_order(order, recorded.journal, recorded.run_id, agent)
    return await stream_to_screen(agent, permission, order.task, recorded.run_id)


# -- for programs ----------------------------------------------------------------------------------


class JSONLines:
    """Prints each event as one JSON object on a line of standard output; the last is the reply."""

    is_loaded: Callable[[], bool]  # unused here

    def __init__(self, recorded: RecordedRun | None = None) -> None:
        self._recorded = recorded
        self._has_begun = False

    def begin(self) -> None:
        """Do nothing: a program needs no sign of life."""

    def finish(self) -> None:
        """Do nothing."""

    def hold(self) -> None:
        """Do nothing."""

    def release(self) -> None:
        """Do nothing."""

    def forget_call(self, action: str) -> None:
        """Do nothing: a program knows the calls that have ended."""

    def event(self, event: Event, seconds: float | None) -> None:
        """Print an event."""
        if self._recorded is not None and not self._has_begun:
            self._has_begun = True
            print_line("run", self._recorded.run_fields)
        if not isinstance(event, Done):
            print_line(event.kind, _event_fields(event))
            return
        reply = event.reply
        fields = {
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
        self._end("done", fields, seconds, reply.stop_reason)

    def show_interrupted(self, seconds: float) -> None:
        """Print that the run was interrupted: there is no reply."""
        self._end("interrupted", {}, seconds, "cancelled")

    def _end(
        self, kind: str, fields: dict[str, Any], seconds: float | None, stop_reason: str
    ) -> None:
        if seconds is not None:
            fields["seconds"] = round(seconds, 3)
        if self._recorded is not None:
            fields["resume"] = [command for _, command in self._recorded.next_commands(stop_reason)]
        print_line(kind, fields)


def print_line(kind: str, fields: dict[str, Any]) -> None:
    """Print an object on a line."""
    print(json.dumps({"kind": kind, **fields}, default=str), flush=True)


def _event_fields(event: Any) -> dict[str, Any]:
    names = [each.name for each in fields(event) if each.name not in _OMITTED_FIELDS]
    shown_fields = {name: getattr(event, name) for name in names}
    if (make_short_fields := _SHORT_FIELDS.get(event.kind)) is not None:
        shown_fields |= make_short_fields(event)
    return shown_fields | {"past": True} if getattr(event, "past", False) else shown_fields


def _short_result(event: Any) -> dict[str, Any]:
    if event.error is not None:
        return {"result": None}  # its traceback is for the program's own authors
    value = event.result.get("result")
    text = json.dumps(value) if isinstance(value, str) else json_text(as_json(value))
    return {"result": cut(text, MAX_CHARS)}


def _bounded_field(name: str, value: dict[str, Any]) -> dict[str, Any]:
    return {name: {k: cut(v, MAX_CHARS) if isinstance(v, str) else v for k, v in value.items()}}


_SHORT_FIELDS: Final[dict[str, Callable[[Any], dict[str, Any]]]] = {
    "call_ended": _short_result,
    "decision": lambda event: _bounded_field("decision", event.decision.to_json()),
    "conclusion": lambda event: _bounded_field("conclusion", event.conclusion.to_json()),
    "message": lambda event: _bounded_field("message", event.message),
}
"""The fields that are not printed as they are."""
