"""Programs that tests run, each in a process that is forked with the modules of moothall imported.

A fresh interpreter takes 0.3 s of the processor to import them, hundreds of times. So one process,
the starter, imports them once and forks for each program: a process with its own arguments, folder,
environment, streams, terminal and signals. Tests of what an interpreter does as it starts or ends
run `sys.executable`.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any, Self

STARTER = Path(__file__).with_name("command_starter.py")
READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "TZ")
"""How the names of variables begin that an interpreter reads once."""


OF_DOCUMENTATION = ("mcp", "openai", "pandas", "scipy.sparse.csgraph", "starlette.applications")
"""What many programs of the documentation and the examples take long to import."""


class Command:
    """`moothall` with these arguments; the rest is as for `subprocess.Popen`.

    Args:
        module: another program of the tests' own, as after `-m`
        script: a file of another, as the only argument of an interpreter
        code: another that is given as text, as after `-c`
        imports: modules that many of such programs take long to import
        options: the interpreter's, such as `-W error`
        at_terminal: whether its standard input is a terminal, which is to be in charge of it
    """

    def __init__(
        self,
        *args: object,
        module: str = "moothall",
        script: Path | None = None,
        code: str | None = None,
        imports: tuple[str, ...] = (),
        options: tuple[str, ...] = (),
        at_terminal: bool = False,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int | IO[Any] | None = None,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        text: bool = False,
    ) -> None:
        environment = dict(os.environ if env is None else env)
        self.args = args
        self.returncode: int | None = None
        self.stdin, read = _stream(stdin, 0, text)
        self.stdout, write = _stream(stdout, 1, text)
        self.stderr, complain = _stream(stderr, 2, text)
        self._told, tell = socket.socketpair()
        order = {
            "module": module,
            "script": None if script is None else str(script),
            "code": code,
            "args": [*map(str, args)],
            "cwd": os.path.abspath(cwd or ""),
            "environment": environment,
            "at_terminal": at_terminal,
        }
        at_start = sorted((k, v) for k, v in environment.items() if k.startswith(READ_AT_START))
        with tell:
            _starter(options, imports, *at_start).start(
                order, [read, write, complain, tell.fileno()]
            )
        for mine, handle in ((stdin, read), (stdout, write), (stderr, complain)):
            if mine in (subprocess.PIPE, subprocess.DEVNULL):
                os.close(handle)
        self.pid = int(self._line())

    def poll(self) -> int | None:
        """The exit code, or the number of the signal that ended it as a negative one."""
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            self.returncode = int(self._line())
            self._told.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; gives the exit code."""
        if self.returncode is None and not select.select([self._told], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired([*map(str, self.args)], timeout or 0)
        code = self.poll()
        assert code is not None
        return code

    def communicate(self, timeout: float | None = None) -> tuple[Any, Any]:
        """Read what it writes to its end; gives standard output and error."""
        if self.stdin is not None:
            self.stdin.close()
        left = (self.stdout, self.stderr)
        said = [each.read() if each is not None and not each.closed else None for each in left]
        self.wait(timeout)
        self._close()
        return said[0], said[1]

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            read = self._told.recv(1)
            assert read, "the process that starts commands has ended"
            line += read
        return line

    def _close(self) -> None:
        for each in (self.stdin, self.stdout, self.stderr):
            if each is not None:
                each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self.wait()


def run(
    *args: object,
    input: str | bytes = b"",
    timeout: float = 50,
    **how: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with this for its standard input; how is as for `Command`."""
    temporary = tempfile.TemporaryFile
    with temporary() as typed, temporary() as shown, temporary() as complained:
        typed.write(input.encode() if isinstance(input, str) else input)
        typed.seek(0)
        how = {"stdin": typed, "stdout": shown, "stderr": complained} | how
        command = Command(*args, **how)
        try:
            code = command.wait(timeout)
        finally:
            command.kill()
            command.wait()
        for each in (shown, complained):
            each.seek(0)
        said = [each.read().decode() for each in (shown, complained)]
    return subprocess.CompletedProcess(command.args, code, *said)


def _stream(given: int | IO[Any] | None, number: int, text: bool) -> tuple[Any, int]:
    """The test's end of a standard stream, if it has one, and the command's."""
    if given is None:
        return None, number
    if given == subprocess.DEVNULL:
        return None, os.open(os.devnull, os.O_RDWR)
    if given != subprocess.PIPE:
        return None, given if isinstance(given, int) else given.fileno()
    read, write = os.pipe()
    mine, its = (write, read) if number == 0 else (read, write)
    mode = ("w" if number == 0 else "r") + ("" if text else "b")
    return open(mine, mode, 1 if text else -1), its


class _Starter:
    """The process that forks, and what it is told by."""

    def __init__(
        self, options: tuple[str, ...], imports: tuple[str, ...], environment: Mapping[str, str]
    ) -> None:
        self._orders, its = socket.socketpair()
        self._sending = threading.Lock()  # tests start commands in threads of theirs, too
        with its:
            self._process = subprocess.Popen(
                [sys.executable, *options, STARTER, str(its.fileno()), *imports],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(its.fileno(),),
                env=dict(environment),
            )
        atexit.register(self._end)

    def start(self, order: Mapping[str, object], handles: list[int]) -> None:
        """Have it fork for a command; it tells the last handle the process id and the end."""
        written = json.dumps(order).encode()
        size = len(written).to_bytes(4, "big")
        with self._sending:
            socket.send_fds(self._orders, [size], handles)
            self._orders.sendall(written)

    def _end(self) -> None:
        self._orders.close()
        self._process.wait()


@cache
def _starter(
    options: tuple[str, ...], imports: tuple[str, ...], *variables: tuple[str, str]
) -> _Starter:
    """The starter for these options of the interpreter, and variables that it reads as it starts.

    Of a new worker's environment no other variable matters: a command gets its own.
    """
    others = {k: v for k, v in os.environ.items() if not k.startswith(READ_AT_START)}
    return _Starter(options, imports, others | dict(variables))
