"""A shell command: its start under a supervisor, its output, and its end with all that it began."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

from civitas.agents.sandbox import Sandbox
from civitas.errors import CommandError, CommandTimeout, TooManyThreads
from civitas.threads import WORKERS

__all__ = ["MAX_OUTPUT", "run"]

MAX_OUTPUT: Final = 64 * 1024
"""How many bytes of a command's output are kept."""

logger = logging.getLogger("civitas.agents")

_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")
# What an interpreter may need to start at all; not for the command.
_FOR_PYTHON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))
_PIECE = 2**16
_LAST_WORDS_S = 1.0
# Longer than the supervisor itself tries.
_ABANDON_S = 8.0


async def run(
    command: str,
    folder: str,
    timeout: float,
    *,
    sandbox: Sandbox | None = None,
    max_file_bytes: int | None = None,
) -> str:
    """Run a shell command to its end, and give what it printed.

    Cancelled, it kills every process of the command before anything else.

    Args:
        command: what `/bin/sh` executes
        folder: where it starts
        timeout: seconds that it may take
        sandbox: what it runs in; nothing if left out
        max_file_bytes: the largest file that it can write; any if left out

    Raises:
        CommandError: it could not be started, or did away with its supervisor
        CommandTimeout: it took longer than `timeout` seconds
    """
    readable, writable = os.pipe()
    output = _Output(readable)
    process = _Process(command, folder, writable, sandbox, max_file_bytes)
    try:
        try:
            ended = WORKERS.run(asyncio.get_running_loop(), process.run)
        except TooManyThreads:
            os.close(writable)
            raise
        late = False
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(ended)
        except TimeoutError:
            late = True
        finally:
            process.kill()
            await asyncio.wait((ended,), timeout=_ABANDON_S)
            process.abandon()
            code = await ended
        # Whoever got away may hold the pipe open still; that is not waited for.
        await output.ended(_LAST_WORDS_S)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandError(f"the command could not be started: {reason.lower()}") from error
    finally:
        output.close()
    text = output.text()
    if late:
        said = f"; it had printed: {text[-1000:]}" if text.strip() else "; it had printed nothing"
        raise CommandTimeout(f"the command was killed after {timeout:g} s{said}")
    if not code:
        return text
    end = f"[exit code {code}]" if code > 0 else f"[killed by {_signal_name(-code)}]"
    return f"{text}\n{end}" if text and not text.endswith("\n") else f"{text}{end}"


class _Process:
    """A supervisor and its command, from the start to the end of the last process.

    A thread starts it and waits. In asyncio's own way a task does, and a loop that is about to end
    cancels every task: between the start and its answer nobody would know of the process.
    """

    def __init__(
        self,
        command: str,
        folder: str,
        output: int,
        sandbox: Sandbox | None,
        max_file_bytes: int | None,
    ) -> None:
        self._command = ["/bin/sh", "-c", command]
        self._folder = folder
        self._output = output
        self._sandbox = sandbox
        self._max_file_bytes = -1 if max_file_bytes is None else max_file_bytes
        self._lock = threading.Lock()
        self._killed = False
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Start it, unless it was killed before, and wait for its end; give its exit code."""
        try:
            report, reported = os.pipe()
        except OSError:
            os.close(self._output)
            raise
        try:
            try:
                with self._lock:
                    if self._killed:
                        return -signal.SIGKILL
                    process = self._process = self._start(reported)
            finally:
                os.close(self._output)
                os.close(reported)
            if hasattr(os, "waitid"):
                # While nobody has asked for its exit code, its number is given to no other process.
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            else:  # macOS before Python 3.13
                process.wait()
            with self._lock:
                self._process = None
                self._close(process)
                failed = process.wait()
            if failed and not self._killed:
                raise CommandError(f"the command's supervisor ended with exit code {failed}")
            return self._code(report)
        finally:
            os.close(report)

    def kill(self) -> None:
        """Have the supervisor kill everything, or keep it from starting.

        Does nothing if it has ended.
        """
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._close(self._process)
                # The command may have stopped its own supervisor.
                self._signal(self._process, signal.SIGCONT)

    def abandon(self) -> None:
        """Kill a supervisor that does not end; its command's shell goes with it, on Linux."""
        with self._lock:
            if self._process is not None:
                self._signal(self._process, signal.SIGKILL)

    def _start(self, reported: int) -> subprocess.Popen[bytes]:
        environment = {k: os.environ[k] for k in _KEPT if k in os.environ}
        for_python = {k: os.environ[k] for k in _FOR_PYTHON if k in os.environ}
        command = self._command
        if self._sandbox is not None:
            command = self._sandbox.wrap(self._folder, command)
        return subprocess.Popen(
            (
                # Neither the user's settings nor the packages of the environment are looked at.
                *(sys.executable or "python3", "-I", "-S", "-X", "utf8", _SUPERVISOR),
                *(str(os.getpid()), str(reported), str(self._max_file_bytes)),
                *(f"{key}={value}" for key, value in environment.items()),
                *("TERM=dumb", "--", *command),
            ),
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            cwd=self._folder,
            env=environment | for_python,
            pass_fds=(reported,),
            start_new_session=True,
        )

    def _code(self, report: int) -> int:
        """The command's exit code, as the supervisor gave it."""
        os.set_blocking(report, False)
        try:
            lines = os.read(report, _PIECE).decode().splitlines()
        except BlockingIOError:
            lines = []
        if "survivors" in lines:
            lines.remove("survivors")
            logger.error("a process of the command %.200r cannot be killed", self._command[-1])
        if not lines:
            if self._killed:
                return -signal.SIGKILL
            raise CommandError("the command killed the process that waits for its end")
        if lines[0].startswith("error "):
            number = int(lines[0].removeprefix("error "))
            raise OSError(number, os.strerror(number))
        code = int(lines[0])
        # bubblewrap says it as a shell does.
        if self._sandbox is not None and code - 128 in set(signal.Signals):
            return 128 - code
        return code

    @staticmethod
    def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
        """Send a signal to a supervisor whose exit code nobody has asked for."""
        if hasattr(os, "waitid"):
            # `send_signal` would ask for it, and leave none to the thread that waits.
            os.kill(process.pid, number)
        else:
            process.send_signal(number)

    @staticmethod
    def _close(process: subprocess.Popen[bytes]) -> None:
        if process.stdin is not None:
            process.stdin.close()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class _Output:
    """What comes out of a pipe, of which the first and the last part are kept.

    It is read to its end whatever its size: a full pipe would stop the command.
    """

    def __init__(self, pipe: int) -> None:
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._first = bytearray()
        self._last = bytearray()
        self._size = 0
        self._end = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(pipe, self._read)

    def _read(self) -> None:
        try:
            piece = os.read(self._pipe, _PIECE)
        except BlockingIOError:
            return
        if not piece:
            self._loop.remove_reader(self._pipe)
            self._end.set()
            return
        self._size += len(piece)
        room = MAX_OUTPUT // 2 - len(self._first)
        self._first += piece[:room] if room > 0 else b""
        self._last += piece[max(room, 0) :]
        del self._last[: max(len(self._last) - MAX_OUTPUT // 2, 0)]

    async def ended(self, timeout: float) -> None:
        """Wait for the end of the output, but not longer than this."""
        try:
            async with asyncio.timeout(timeout):
                await self._end.wait()
        except TimeoutError:
            return

    def text(self) -> str:
        """What was kept; it says how much is left out between the two parts."""
        left_out = self._size - len(self._first) - len(self._last)
        parts = [bytes(self._first), bytes(self._last)]
        if not left_out:
            return b"".join(parts).decode(errors="replace")
        first, last = (part.decode(errors="replace") for part in parts)
        return f"{first}\n[… {left_out} bytes are left out …]\n{last}"

    def close(self) -> None:
        """Read no more."""
        self._loop.remove_reader(self._pipe)
        os.close(self._pipe)
