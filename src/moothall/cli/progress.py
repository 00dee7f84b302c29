"""Progress and warnings, as a person at a terminal sees them."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from moothall.build import escaped
from moothall.cli.screen import width_of

_ON_TERMINAL_S: Final = 0.2
_ON_PIPE_S: Final = 10.0
"""How often progress is shown, in seconds."""


class ProgressLine:
    """Shows progress on standard error: one changing line on a terminal, else a line at times."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._interval_s = _ON_TERMINAL_S if self._is_terminal else _ON_PIPE_S
        self._last_shown_at = time.perf_counter()
        self._is_open = False

    def is_due(self, *, last: bool) -> bool:
        """Return whether to show a line now; the last one is always shown."""
        now = time.perf_counter()
        if now - self._last_shown_at < self._interval_s and not last:
            return False
        self._last_shown_at = now
        return True

    def show(self, line: str) -> None:
        """Show a line, in place of the one before."""
        self._is_open = self._is_terminal
        with suppress(OSError):  # the terminal has gone: what it shows goes on
            if self._is_terminal:  # a line that wrapped would not be written over
                columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
                while width_of(line) >= columns:
                    line = line[:-1]
            text, end = (f"\r{line}\x1b[K", "") if self._is_terminal else (line, "\n")
            print(text, end=end, file=sys.stderr, flush=True)

    def close(self) -> None:
        """End the line."""
        if self._is_open:
            with suppress(OSError):
                print(file=sys.stderr, flush=True)
        self._is_open = False


class WarningHandler(logging.Handler):
    """Shows each warning of a logger in a line."""

    def __init__(self, show: Callable[[str], object]) -> None:
        super().__init__(logging.WARNING)
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        """Show the first line of a warning."""
        # A traceback may follow: it is for the log of a process that runs the agent itself.
        first_line = record.getMessage().partition("\n")[0]
        self._show(escaped(f"({record.levelname.lower()}: {first_line})"))
