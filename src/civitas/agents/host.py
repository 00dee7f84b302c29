"""The host agent: the machine that the program runs on, offered to others if somebody says yes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from typing import Final

from civitas.action import ACCESS_REQUESTED, action
from civitas.agent import Agent
from civitas.agents.folder import Folder
from civitas.approval import Approver
from civitas.errors import CommandError, CommandTimeout, TooManyThreads
from civitas.threads import WORKERS

__all__ = ["Host"]

MAX_OUTPUT: Final = 64 * 1024
"""How many bytes of a command's output are kept."""

_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")
_PIECE = 2**16
_LAST_WORDS_S = 1.0


class Host(Agent):
    """Offers files below one folder, and shell commands.

    Every action asks first: `request_permission` asks the agent's approver, or its space's, and
    refuses without one. Files are confined to `root`, symbolic links, `..` and races included.

    **A command that was approved is not confined.** It starts in `root` as the user who runs the
    program and can do what that user can. It has no input, no terminal, an environment of only
    `PATH`, `HOME`, language, time zone and the folder for temporary files; it has a time limit, and
    it is killed, with all of its process group, at that limit, when it is cancelled, and when its
    shell ends, so that it leaves nothing behind but a process that made a group of its own.

    Args:
        id: the agent's id
        root: the folder that files are in and commands start in
        approver: who is asked; the space's approver if left out
        command_timeout: seconds that a command may take
    """

    def __init__(
        self,
        id: str | int,
        root: str | os.PathLike[str] = ".",
        approver: Approver | None = None,
        *,
        command_timeout: float = 30.0,
    ) -> None:
        super().__init__(id, approver=approver)
        self.folder = Folder(root)
        self.command_timeout = command_timeout

    @action(access_policy=ACCESS_REQUESTED)
    async def shell_command(self, command: str) -> str:
        """Execute a shell command.

        Args:
            command: The command to execute

        Returns:
            The output of the command, and its exit code if that is not 0
        """
        return await run(command, self.folder.root, self.command_timeout)

    @action(access_policy=ACCESS_REQUESTED, idempotent=True)
    def read_file(self, file_name: str) -> str:
        """Read the contents of a text file.

        Args:
            file_name: Name of the file to read

        Returns:
            The text of the file
        """
        return self.folder.read(file_name)

    @action(access_policy=ACCESS_REQUESTED)
    def write_to_file(self, file_name: str, content: str) -> str:
        """Write a text file, in place of one that is there.

        Args:
            file_name: Name of the file to write
            content: The whole new text of the file

        Returns:
            What was written
        """
        self.folder.write(file_name, content)
        return f"wrote {len(content.encode())} bytes"

    @action(access_policy=ACCESS_REQUESTED)
    def delete_file(self, file_name: str) -> str:
        """Delete a file.

        Args:
            file_name: Name of the file to delete

        Returns:
            What was deleted
        """
        self.folder.delete(file_name)
        return f"deleted {file_name}"

    @action(access_policy=ACCESS_REQUESTED, idempotent=True)
    def list_files(self, folder_name: str = ".") -> list[str]:
        """List the files in a folder.

        Args:
            folder_name: Name of the folder to list

        Returns:
            The names of its files; the names of folders end in a slash
        """
        return self.folder.names(folder_name)


async def run(command: str, folder: str, timeout: float) -> str:
    """Run a shell command to its end, and give what it printed.

    Cancelled, it kills the command's process group before anything else.

    Raises:
        CommandError: it could not be started
        CommandTimeout: it took longer than `timeout` seconds
    """
    readable, writable = os.pipe()
    output = _Output(readable)
    process = _Process(command, folder, writable)
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
            code = await ended
        # Whoever left the group may hold the pipe open still; that is not waited for.
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
    """A shell that leads a process group, from its start to the end of the last of the group.

    A thread starts it and waits. In asyncio's own way a task does, and a loop that is about to end
    cancels every task: between the start and its answer nobody would know of the group.
    """

    def __init__(self, command: str, folder: str, output: int) -> None:
        self._command = command
        self._folder = folder
        self._output = output
        self._lock = threading.Lock()
        self._killed = False
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Start it, unless it was killed before, and wait for its end; give its exit code."""
        try:
            with self._lock:
                if self._killed:
                    return -signal.SIGKILL
                process = self._process = subprocess.Popen(
                    ("/bin/sh", "-c", self._command),
                    stdin=subprocess.DEVNULL,
                    stdout=self._output,
                    stderr=subprocess.STDOUT,
                    cwd=self._folder,
                    env={**{k: os.environ[k] for k in _KEPT if k in os.environ}, "TERM": "dumb"},
                    start_new_session=True,
                )
        finally:
            os.close(self._output)
        if hasattr(os, "waitid"):
            # While nobody has asked for its exit code, the leader's number is given to no other
            # process, and so neither is the group's.
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        else:  # macOS before Python 3.13
            process.wait()
        with self._lock:
            # What the shell left in the background ends with it.
            self._kill_group(process.pid)
            self._process = None
            return process.wait()

    def kill(self) -> None:
        """Kill the group, or keep it from starting. Does nothing if it has ended."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._kill_group(self._process.pid)

    def _kill_group(self, leader: int) -> None:
        try:
            os.killpg(leader, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return  # none is left; macOS says the latter if the leader is all that is


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
