"""`moothall` commands that run until they are stopped, and what they write."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
from pathlib import Path
from typing import IO, Any, Self

from commands import Command

WAIT_S = 30


class Program:
    """A program whose lines are read as they come; killed at the end, if it has not ended."""

    def __init__(self, *command: str | Path, cwd: Path, port: int, **environment: str) -> None:
        how: dict[str, Any] = {
            "cwd": cwd,
            "env": {**os.environ, "AMQP_PORT": str(port), **environment},
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
        }
        self.process: Command | subprocess.Popen[str]
        if command[0] == "moothall":
            self.process = Command(*command[1:], **how)
        else:
            how["env"]["PYTHONUNBUFFERED"] = "1"
            self.process = subprocess.Popen(command, **how)
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.lines.put)),
            threading.Thread(target=self._read, args=(self.process.stderr, self._complained)),
        ]
        for reader in self._readers:
            reader.start()

    def line(self) -> str:
        """The next line of its standard output."""
        line = self.lines.get(timeout=WAIT_S)
        assert line is not None, f"it has ended: {''.join(self.errors)}"
        return line

    def write(self, text: str) -> None:
        """Write to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def end(self) -> int:
        """Wait for its end; gives the exit code."""
        code = self.process.wait(WAIT_S)
        for reader in self._readers:
            reader.join()
        return code

    def _read(self, stream: IO[str], take: object) -> None:
        assert callable(take)
        for line in stream:
            take(line.rstrip("\n"))
        take(None)

    def _complained(self, line: str | None) -> None:
        if line is not None:
            self.errors.append(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.end()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


def moothall(*args: str, cwd: Path, port: int, **environment: str) -> Program:
    """A command of ours."""
    return Program("moothall", *args, cwd=cwd, port=port, **environment)
