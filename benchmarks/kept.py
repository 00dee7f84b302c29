"""A server that a test or a benchmark starts and ends: its folder, and keeper.py, which runs it."""

from __future__ import annotations

import abc
import contextlib
import json
import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from benchmarks.ports import free_port

STOP_S = 30.0


class KeptServer(abc.ABC):
    """A server on loopback; `with` starts it, and leaves nothing behind.

    One thread at a time may start and end it.
    """

    what: ClassVar[str]
    """What errors call it."""
    error: ClassVar[type[RuntimeError]]
    start_s: ClassVar[float]
    """How long it may take until it accepts connections."""
    stopping: ClassVar[signal.Signals]
    killing: ClassVar[signal.Signals]
    accounts: ClassVar[tuple[str, ...]]
    """Whom root runs it as: the first of them that the system has."""

    def __init__(self) -> None:
        self.port = free_port()
        self.pid: int | None = None
        self._account = self._whom()
        self._keeper: subprocess.Popen[bytes] | None = None
        self._received = b""
        # Readable by the account that it runs as, wherever the caller keeps its own files.
        self.folder = Path(tempfile.mkdtemp(prefix=f"moothall-{self.what.lower()}-"))
        try:
            self._command, self._environment = self._write()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    @abc.abstractmethod
    def _write(self) -> tuple[list[str], dict[str, str]]:
        """Write the server's files into `folder`, and give its command and its environment."""

    @abc.abstractmethod
    def _is_ready(self) -> bool:
        """Whether it accepts connections."""

    @classmethod
    def _whom(cls) -> str | None:
        """Whom to run it as; None: as whoever runs this."""
        if os.geteuid():
            return None
        there = {entry.pw_name for entry in pwd.getpwall()}
        return next((name for name in cls.accounts if name in there), None)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self, timeout: float | None = None) -> None:
        """Start it, again too: with the same port and data; wait until it accepts connections.

        Raises:
            RuntimeError: the class's `error`: it ended, or is not ready in `timeout` seconds; with
                the end of its log
        """
        if self.pid is not None:
            raise self.error(f"{self.what} runs already, as process {self.pid}")
        self._order(0)
        allowed = self.start_s if timeout is None else timeout
        deadline = time.monotonic() + allowed
        while self.pid is None:
            self._receive(self.start_s)
        while not self._is_ready():
            # Takes in the server's end while it waits for the next try.
            self._receive(0.02)
            if self.pid is None:
                raise self.error(f"{self.what} ended while it started:\n{self.log()}")
            if time.monotonic() > deadline:
                self.kill()
                raise self.error(f"{self.what} was not ready in {allowed:g} s:\n{self.log()}")

    def stop(self) -> None:
        """End it as an operator does: it closes connections and writes what it has."""
        self._end(self.stopping)

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self._end(self.killing)

    def restart(self) -> None:
        """Stop it, and start it with the same port and data."""
        self.stop()
        self.start()

    def suspend(self) -> None:
        """Have it do nothing, with its connections open; it can still be killed."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Have it go on after `suspend`."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill it if it runs, and remove all that it wrote. A second time does nothing."""
        keeper, self._keeper, self.pid = self._keeper, None, None
        if keeper is not None:
            # Not stopped first: nobody will ask for its data again, and it takes a second.
            assert keeper.stdin is not None
            assert keeper.stdout is not None
            keeper.stdin.close()
            keeper.wait()
            keeper.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self, lines: int = 100) -> str:
        """The last lines of what it wrote."""
        path = self.folder / "log"
        text = path.read_text(errors="replace") if path.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _signal(self, number: signal.Signals) -> None:
        if self.pid is not None:
            self._order(number)
            while self.pid is not None and self._receive(STOP_S) != "told":
                pass
        if self.pid is None:
            raise self.error(f"{self.what} does not run:\n{self.log()}")

    def _end(self, number: signal.Signals) -> None:
        if self.pid is None:
            return
        self._order(number)
        deadline = time.monotonic() + STOP_S
        while self.pid is not None:
            self._receive(1.0)
            if time.monotonic() > deadline:
                if number != self.killing:
                    self.kill()
                raise self.error(f"{self.what} did not end in {STOP_S:g} s:\n{self.log()}")

    def _order(self, order: int) -> None:
        """Tell the keeper to start the server (0), or to send it a signal."""
        if self._keeper is None:
            if order or not self.folder.exists():
                raise self.error(f"{self.what} is not started, or closed")
            setup = {
                "parent": os.getpid(),
                "command": self._command,
                "environment": self._environment,
                "folder": str(self.folder),
                "log": str(self.folder / "log"),
                "user": self._account,
            }
            self._keeper = subprocess.Popen(
                (sys.executable, "-I", Path(__file__).with_name("keeper.py"), json.dumps(setup)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(bytes([order]))

    def _receive(self, timeout: float) -> str | None:
        """Take the keeper's next line if it comes in time, and give its first word."""
        assert self._keeper is not None
        assert self._keeper.stdout is not None
        output = self._keeper.stdout.fileno()
        if b"\n" not in self._received and select.select((output,), (), (), timeout)[0]:
            read = os.read(output, 4096)
            if not read:
                self.pid = None
                raise self.error(f"keeper.py has ended, and {self.what} with it")
            self._received += read
        line, end, rest = self._received.partition(b"\n")
        if not end:
            return None
        self._received = rest
        word, _, value = line.decode().partition(" ")
        if word == "started":
            self.pid = int(value)
        elif word == "ended":
            self.pid = None
        return word


def listens(port: int, greeting: bytes = b"") -> bool:
    """Whether something listens on loopback and, given a greeting, answers it."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0) as link:
        link.sendall(greeting)
        return not greeting or bool(link.recv(1))
    return False
