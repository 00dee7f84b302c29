"""A person's terminal, one question at a time."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import threading
from typing import TextIO

from moothall import TerminalApprover
from moothall.build import escaped, guard, in_child


def terminal_text(text: str, file: TextIO) -> str:
    """Return a text for a terminal or file: control characters, and what it lacks, escaped."""
    text, encoding = escaped(text, lines=True), getattr(file, "encoding", None)
    return text.encode(encoding, "backslashreplace").decode(encoding) if encoding else text


class Terminal:
    """Asks for lines and waits for them without blocking an event loop.

    If a question is cancelled, the line that was asked for is the answer to the next question,
    since a read cannot be undone.
    """

    def __init__(self, stdin: TextIO | None = None, stdout: TextIO | None = None) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._lock = guard()
        self._pending_line: concurrent.futures.Future[str] | None = None
        in_child(self._forget)

    def _forget(self) -> None:
        self._pending_line = None  # by a thread of the parent

    def show(self, text: str) -> None:
        """Write a text, line by line, with terminal control characters escaped."""
        stdout = self._stdout or sys.stdout
        print(terminal_text(text, stdout), file=stdout, flush=True)

    async def ask(self, prompt: str) -> str | None:
        """Return the line that the person writes; None if the terminal is closed."""
        print(prompt, end="", file=self._stdout or sys.stdout, flush=True)
        with self._lock:
            pending_line = self._pending_line
            if pending_line is None:
                pending_line = self._pending_line = concurrent.futures.Future()
                # A daemon: an unanswered question must not delay the interpreter's exit.
                threading.Thread(
                    target=lambda: pending_line.set_result(TerminalApprover.read_line(self._stdin)),
                    name="moothall-terminal",
                    daemon=True,
                ).start()
        line = await asyncio.shield(asyncio.wrap_future(pending_line))
        with self._lock:
            if self._pending_line is pending_line:
                self._pending_line = None
        return line.rstrip("\r\n") if line else None
