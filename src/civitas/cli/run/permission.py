"""The person at standard input, who permits actions or is not there."""

from __future__ import annotations

import asyncio
import json
import sys
import termios
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TextIO, cast

from civitas.approval import ApprovalRequest, Approver, TerminalApprover, approve
from civitas.reasoning.events import CallStarted, Event
from civitas.refusal import Decision

if TYPE_CHECKING:
    from civitas.cli.run.json_lines import JSONLines
    from civitas.cli.run.show import Shown


class _Lines:
    """Lines of standard input, read without its buffer.

    Whoever waits for a line of a buffer holds its lock, and Python cannot end while a thread holds
    that: an interrupted question would end the process with a crash.
    """

    def readline(self) -> str:
        with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as raw:
            return raw.readline().decode(errors="replace")


def keyboard() -> TextIO | None:
    """What a person writes lines by; None if standard input is no terminal."""
    if sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty():
        return None
    # All that is asked of it is `readline`.
    return cast(TextIO, _Lines())


def says_yes(lines: TextIO, question: str) -> bool:
    """Ask the person at the terminal; what was typed before the question is no answer to it."""
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return lines.readline().strip().lower() in ("y", "yes")


class _Nobody:
    """Refuses everything, and says so."""

    def approve(self, request: ApprovalRequest) -> bool:
        print(
            f"refused, since standard input is no terminal to ask at: {request}",
            file=sys.stderr,
            flush=True,
        )
        return False


class Permission:
    """Asks the person at the terminal, by standard error, once the call in question was shown.

    Where standard input is no terminal, everything is refused.

    Attributes:
        screen: what shows the calls
    """

    awaits_reader = True
    """It waits itself until what it asks about was shown, and holds up what comes after that."""

    def __init__(
        self,
        screen: Shown | JSONLines,
        asking: Iterable[str] = (),
        notes: Mapping[str, str] | None = None,
    ) -> None:
        lines = keyboard()
        self._approver: Approver = (
            _Nobody() if lines is None else TerminalApprover(lines, sys.stderr)
        )
        self._asking = frozenset(asking)
        self._notes = notes or {}
        self.screen = screen
        # How often each call has asked and was shown. One that was permitted in a process before is
        # shown and does not ask, so that both are counted for each.
        self._asked: Counter[str] = Counter()
        self._shown: Counter[str] = Counter()
        self._answered = 0
        self._one_at_a_time = asyncio.Lock()
        self._changed = asyncio.Event()

    async def approve(self, request: ApprovalRequest) -> Decision:
        """Whether the person said yes."""
        call = _call(request.action, request.args)
        self._asked[call] += 1
        mine = self._asked[call]
        self.screen.hold()
        try:
            while self._shown[call] < mine:
                await self._changed.wait()
            async with self._one_at_a_time:
                self._forget_keys()
                if note := self._notes.get(request.action):
                    print(note, file=sys.stderr, flush=True)
                return await approve(self._approver, request)
        finally:
            self.screen.release()
            self._answered += 1
            self._change()

    def shown(self, event: Event) -> None:
        """Note that an event was shown."""
        # Of what is past, nobody asks again.
        if isinstance(event, CallStarted) and event.action in self._asking and not event.past:
            self._shown[_call(event.action, event.args)] += 1
            self._change()

    async def answered(self) -> None:
        """Wait until no question is open: what is shown meanwhile would stand in its line."""
        while self._answered < sum(min(n, self._shown[call]) for call, n in self._asked.items()):
            await self._changed.wait()

    def _forget_keys(self) -> None:
        """Drop what was typed before the question: it was no answer to it.

        A model may write what looks like a question, and have the answer taken for the next one.
        """
        if isinstance(self._approver, TerminalApprover):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    def _change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _call(action: str, args: dict[str, Any]) -> str:
    return json.dumps([action, args], sort_keys=True)
