"""A program at a pseudo-terminal of its own, whose keys reach it as a person's do."""

from __future__ import annotations

import codecs
import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Self

from commands import Command

WAIT_S = 30
_AGAIN_S = 2
CONTROL_C = "\x03"
CONTROL_D = "\x04"

_CODES = re.compile(r"\x1b\[[?0-9;]*[a-zA-Z]|\x08")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def plain(text: str) -> str:
    """A text without the codes that colour it or move the cursor."""
    return _CODES.sub("", text)


def uncoloured(text: str) -> str:
    """A text without the codes that colour it."""
    return _COLOURS.sub("", text)


class Written(io.StringIO):
    """Takes what is written as a terminal does."""

    def isatty(self) -> bool:
        return True

    def new(self) -> str:
        """What was written since."""
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return text


class Terminal:
    """A program at a pseudo-terminal, which is in charge of the program's session.

    Args:
        args: the arguments of a Python interpreter, such as `-m moothall chat`
        cwd: where it starts
        columns: how wide the terminal is
        environment: what is set beside what is set here; None unsets
        typed: what was typed before it starts

    Attributes:
        raw: all that it wrote so far
    """

    def __init__(
        self,
        *args: str,
        cwd: Path | None = None,
        columns: int = 80,
        environment: dict[str, str | None] | None = None,
        typed: str = "",
    ) -> None:
        self.primary, secondary = pty.openpty()
        fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.raw = ""
        self._over = False  # whether the program has closed its side
        self._typed = 0  # how much there was when something was typed last
        self._past = 0  # how much was waited for
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        if typed:
            self.type(typed)
            assert self._read(WAIT_S)  # its echo: the terminal has it
        unset = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
        # This terminal answers no questions about its cursor.
        given = {**unset, "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"}
        given |= environment or {}
        given = {k: v for k, v in given.items() if v is not None}
        streams = {"stdin": secondary, "stdout": secondary, "stderr": secondary}
        self.process: Command | subprocess.Popen[bytes]
        if args[:2] == ("-m", "moothall"):
            self.process = Command(*args[2:], at_terminal=True, cwd=cwd, env=given, **streams)
        else:
            self.process = subprocess.Popen(
                [sys.executable, *args],
                start_new_session=True,
                cwd=cwd,
                env=given,
                # So that it turns Control-C into a signal.
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
                **streams,
            )
        os.close(secondary)

    @property
    def seen(self) -> str:
        """What was shown since something was typed last, without codes."""
        return plain(self.raw[self._typed :])

    def until(self, mark: str) -> str:
        """Read until a mark is there, after the one before; give what is new up to it."""
        end = time.monotonic() + WAIT_S
        while True:
            new = self.raw[self._past :]
            if mark in new:
                shown = new[: new.index(mark) + len(mark)]
                self._past += len(shown)
                return plain(shown)
            if mark in plain(new):  # there are codes in the midst of it
                self._past = len(self.raw)
                return plain(new)
            if not self._read(end - time.monotonic()):
                raise AssertionError(f"{mark!r} never came; there was {new!r}")

    def type(self, keys: str) -> None:
        """Type."""
        self._typed = len(self.raw)
        os.write(self.primary, keys.encode())

    def end(self) -> int:
        """Read to the end; give the exit code."""
        end = time.monotonic() + WAIT_S
        while self._read(end - time.monotonic()):
            pass
        return self.process.wait(WAIT_S)

    def leave(self) -> int:
        """Type Control-D until it ends, and give the exit code.

        While a program shows what has come meanwhile, the keys are the terminal's, and that one is
        lost: a person presses it again.
        """
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end and not self._over:
            self.type(CONTROL_D)
            while self._read(_AGAIN_S):
                pass
        return self.end()

    def close(self) -> None:
        """End it, if it has not ended."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(WAIT_S)
        os.close(self.primary)

    def _read(self, seconds: float) -> bool:
        """Whether something new came within so many seconds."""
        if not select.select([self.primary], [], [], max(0, seconds))[0]:
            return False
        try:
            got = os.read(self.primary, 65536)
        except OSError:  # the program has closed its side
            got = b""
        self._over = not got
        self.raw += self._decoder.decode(got)
        return bool(got)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
