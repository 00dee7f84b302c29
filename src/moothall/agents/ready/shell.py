"""A shell command: its start, its output, and its end with its process group or its sandbox."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import BinaryIO, Final

from moothall import CommandError, CommandTimeout, ConfigError, TooManyThreads
from moothall.agents.ready.sandbox import Sandbox, SandboxChoice, sandbox_for
from moothall.build import WORKERS, check_boolean, check_seconds, guard, watch_group

MAX_OUTPUT: Final = 64 * 1024
"""How many bytes of a command's output are kept."""

_ENVIRONMENT_NAMES = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")
_PIECE_BYTES = 2**16
_DRAIN_S = 1.0
# A shell script that waits for a line, sets the limit of file sizes, in blocks of 512 bytes, and
# becomes the command. Without the line, as when this program has died, it ends.
_START_SCRIPT = (
    'read -r line || exit; ${0:+ulimit -f $0} 2>/dev/null; exec /bin/sh -c "$1" </dev/null'
)


def check_limits(
    timeout_s: float | None, max_file_bytes: int | None, name: str = "command_timeout"
) -> None:
    """Raise ConfigError if a limit of a command has no such value; `name` is that of seconds."""
    check_seconds(f"{name}=", timeout_s, optional=True)
    if max_file_bytes is not None and not (type(max_file_bytes) is int and max_file_bytes >= 0):
        raise ConfigError(f"max_file_bytes= must be 0 or more, or None, got {max_file_bytes!r}")


class Shell:
    """Runs shell commands as `Host` does, in bubblewrap if that works here.

    Args:
        sandbox: `"bwrap"`, `"none"`, or `"auto"`: bubblewrap if it works on this machine, else
            none, with one warning in the log `moothall.agents`
        network: whether commands in bubblewrap have the machine's network

    Raises:
        ConfigError: an argument has another value
        CommandError: the sandbox is `"bwrap"`, which is not installed or does not work here
    """

    def __init__(self, sandbox: SandboxChoice = "auto", network: bool = False) -> None:
        check_boolean("network=", network)
        self._sandbox = sandbox_for(sandbox, network)

    @property
    def is_confined(self) -> bool:
        """Whether commands run in bubblewrap; else they can do what the program's user can."""
        return self._sandbox is not None

    async def run(
        self,
        command: str,
        folder: str | os.PathLike[str],
        timeout_s: float | None = None,
        *,
        max_file_bytes: int | None = None,
        readable: Iterable[str] = (),
    ) -> str:
        """Run a command in a folder, and return what it printed; if cancelled, kill it first.

        Args:
            command: the command, for `/bin/sh`
            folder: the folder in which it starts; in bubblewrap it can write nowhere else
            timeout_s: seconds that it may take; None for no limit
            max_file_bytes: the largest file that it can write; None for no limit
            readable: folders that it can read although bubblewrap hides what is around them

        Returns:
            its output, and its exit code if that is not 0

        Raises:
            CommandError: it cannot be started
            CommandTimeout: it was killed at the time limit
            ConfigError: a limit is wrong
        """
        check_limits(timeout_s, max_file_bytes, "timeout_s")
        folder = os.fspath(folder)
        sandbox = self._sandbox
        if sandbox is not None:
            sandbox = replace(sandbox, readable=tuple(readable))
        read_end, write_end = os.pipe()
        output = _Output(read_end)
        process = _ShellProcess(command, folder, write_end, sandbox, max_file_bytes)
        try:
            try:
                exit_code = WORKERS.run(asyncio.get_running_loop(), process.run)
            except TooManyThreads:
                os.close(write_end)
                raise
            is_late = False
            try:
                async with asyncio.timeout(timeout_s):
                    await asyncio.shield(exit_code)
            except TimeoutError:
                is_late = True
            finally:
                process.kill()
                code = await exit_code
            # A process that left the group may hold the pipe open; do not wait for it long.
            with suppress(TimeoutError):
                async with asyncio.timeout(_DRAIN_S):
                    await output.at_end.wait()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise CommandError(f"the command could not be started: {reason.lower()}") from error
        finally:
            output.close()
        text = output.text()
        if is_late:
            printed = (
                f"; it had printed: {text[-1000:]}" if text.strip() else "; it had printed nothing"
            )
            raise CommandTimeout(f"the command was killed after {timeout_s:g} s{printed}")
        if not code:
            return text
        hint = "" if sandbox is None else sandbox.hidden_files_hint(folder, f"{command}\n{text}")
        end = f"exit code {code}" if code > 0 else f"killed by {_signal_name(-code)}"
        end = f"[{end}; {hint}]" if hint else f"[{end}]"
        return f"{text}\n{end}" if text and not text.endswith("\n") else f"{text}{end}"


class _ShellProcess:
    """A command from its start to its end, in a thread: a starting task may be cancelled."""

    def __init__(
        self,
        command: str,
        folder: str,
        output: int,
        sandbox: Sandbox | None,
        max_file_bytes: int | None,
    ) -> None:
        blocks = "" if max_file_bytes is None else str(max_file_bytes // 512)
        self._command = ["/bin/sh", "-c", _START_SCRIPT, blocks, command]
        self._folder = folder
        self._output = output
        self._sandbox = sandbox
        self._lock = guard()
        self._is_killed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._first_pidfd = -1  # the handle of the sandbox's first process

    def run(self) -> int:
        """Start it, unless it was killed before, and wait for its end; return its exit code."""
        try:
            if self._is_killed:
                return -signal.SIGKILL
            process, pid_file = self._start()
        finally:
            os.close(self._output)
        watch = None
        try:
            # The command begins when all that ends it is there.
            with process.stdin as stdin, pid_file:  # type: ignore[union-attr]
                if self._sandbox is None:
                    watch = watch_group(process.pid)
                else:
                    self._first_pidfd = _open_first_pidfd(pid_file.read())
                with self._lock:
                    self._process = process
                    if self._is_killed:
                        self._kill(process)
                    else:
                        with suppress(BrokenPipeError):  # bubblewrap has ended, and said why
                            stdin.write(b"\n")
            if hasattr(os, "waitid"):
                # Until its exit code is read, no other process gets its number.
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            else:  # macOS before Python 3.13
                process.wait()
        finally:
            with self._lock:
                self._kill(process)  # what is left of the command
                self._process = None
                process.wait()
                if self._first_pidfd >= 0:
                    os.close(self._first_pidfd)
            if watch is not None:
                watch.kill()
                watch.communicate()
        code = process.returncode
        # bubblewrap reports signals as a shell does.
        if self._sandbox is not None and code - 128 in set(signal.Signals):
            return 128 - code
        return code

    def kill(self) -> None:
        """Kill the command, or prevent its beginning. Does nothing if it has ended."""
        with self._lock:
            self._is_killed = True
            if self._process is not None:
                self._kill(self._process)

    def _start(self) -> tuple[subprocess.Popen[bytes], BinaryIO]:
        """Start it; return its process, and what bubblewrap tells about its own."""
        environment = {k: os.environ[k] for k in _ENVIRONMENT_NAMES if k in os.environ} | {
            "TERM": "dumb"
        }
        read_end, write_end = os.pipe()
        pid_file = open(read_end, "rb")  # noqa: SIM115 - the caller closes it
        command = self._command
        if self._sandbox is not None:
            command = self._sandbox.wrap(self._folder, command, write_end)
        try:
            process = subprocess.Popen(
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env=environment,
                start_new_session=True,
                pass_fds=() if self._sandbox is None else (write_end,),
            )
        except BaseException:
            pid_file.close()
            raise
        finally:
            os.close(write_end)
        return process, pid_file

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(OSError):  # it has ended
            os.killpg(process.pid, signal.SIGKILL)
        # With the first process inside, every other one ends. `--die-with-parent` alone works only
        # once that has set itself up.
        if self._first_pidfd >= 0:
            with suppress(OSError):
                signal.pidfd_send_signal(self._first_pidfd, signal.SIGKILL)


def _open_first_pidfd(report: bytes) -> int:
    """Return a handle of the sandbox's first process, by what bubblewrap tells; -1 if it failed."""
    try:
        return os.pidfd_open(json.loads(report)["child-pid"])
    except (ValueError, OSError):
        return -1


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class _Output:
    """The output of a pipe, read to its end; the first and the last part are kept."""

    def __init__(self, pipe: int) -> None:
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._first_bytes = bytearray()
        self._last_bytes = bytearray()
        self._size = 0
        self.at_end = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(pipe, self._read_piece)

    def _read_piece(self) -> None:
        try:
            piece = os.read(self._pipe, _PIECE_BYTES)
        except BlockingIOError:
            return
        if not piece:
            self._loop.remove_reader(self._pipe)
            self.at_end.set()
            return
        self._size += len(piece)
        room = MAX_OUTPUT // 2 - len(self._first_bytes)
        self._first_bytes += piece[:room] if room > 0 else b""
        self._last_bytes += piece[max(room, 0) :]
        del self._last_bytes[: max(len(self._last_bytes) - MAX_OUTPUT // 2, 0)]

    def text(self) -> str:
        """Return what was kept, with a note of how much is left out between the two parts."""
        left_out = self._size - len(self._first_bytes) - len(self._last_bytes)
        parts = [bytes(self._first_bytes), bytes(self._last_bytes)]
        if not left_out:
            return b"".join(parts).decode(errors="replace")
        first, last = (part.decode(errors="replace") for part in parts)
        return f"{first}\n[… {left_out} bytes are left out …]\n{last}"

    def close(self) -> None:
        """Stop reading and close the pipe."""
        self._loop.remove_reader(self._pipe)
        os.close(self._pipe)
