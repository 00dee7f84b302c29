"""A server that is a process: messages over its standard streams, and its end with its group.

The SDK's own transport keeps a line of any length, and passes on what is no message. This one
bounds what it keeps, and says what was wrong.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, Final

from moothall import MCPServerError
from moothall.build import WORKERS, guard, one_line, watch_group

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

MAX_LINE: Final = 16 * 1024 * 1024
"""How many bytes one message of a server may have."""
MAX_NOISE_LINES: Final = 1000
"""So many lines of a server's output may be no messages, one after the other."""
KEPT_STDERR_BYTES: Final = 4096
"""How many of the last bytes that a server wrote to its standard error are kept."""

_GRACE_S: Final = 1.0
_EXIT_S: Final = 1.0
"""How long a process that ends may take, after its output has closed."""
_INHERITED: Final = (
    *("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ"),
    *("LOGNAME", "SHELL", "TERM", "USER"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
)
"""The variables that a server inherits; others may be secrets of this program.

Without the last ones, `uvx` and `npx` reach no index from a network with certificates of its own.
"""


class ServerProcess:
    """A server's process and the other processes of its group. One event loop uses it."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._command = command
        self._env = {name: os.environ[name] for name in _INHERITED if name in os.environ} | dict(
            env
        )
        self._loop = asyncio.get_running_loop()
        self._lock = guard()
        self._is_reaped = False
        self._group_watch: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._pipes: list[asyncio.BaseTransport] = []
        self._stderr = _OutputTail()
        self._noise_count = 0  # lines in a row that were no messages
        self._first_noise = ""  # the first of them
        self._closed_stream = ""  # the end of its that it closed first: its output or its input
        self.fault: str = ""  # why reading has ended, unless the process has
        self.end_event: asyncio.Event = asyncio.Event()  # it sends nothing any more

    def _spawn(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._env,
            start_new_session=True,
        )

    async def start(self) -> None:
        """Start the process; raise MCPServerError if that fails."""
        try:
            process = self._spawn()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            command_text = one_line(" ".join(self._command), 200)
            raise MCPServerError(f"cannot start {command_text!r}: {reason.lower()}") from error
        self._process = process
        self._exit_future = WORKERS.run(self._loop, self._wait_for_exit)
        try:
            self._group_watch = watch_group(process.pid)
            self._reader = asyncio.StreamReader(MAX_LINE)
            await self._connect_pipe(asyncio.StreamReaderProtocol(self._reader), process.stdout)
            await self._connect_pipe(self._stderr, process.stderr)
            flow = asyncio.streams.FlowControlMixin()
            pipe, _ = await self._loop.connect_write_pipe(lambda: flow, process.stdin)
            self._writer = asyncio.StreamWriter(pipe, flow, None, self._loop)
        except BaseException:  # such as no more file descriptors
            await self.stop()
            for stream in (process.stdin, process.stdout, process.stderr):
                stream.close()  # type: ignore[union-attr]
            raise

    async def _connect_pipe(self, protocol: asyncio.BaseProtocol, pipe: IO[bytes] | None) -> None:
        transport, _ = await self._loop.connect_read_pipe(lambda: protocol, pipe)
        self._pipes.append(transport)

    def _wait_for_exit(self) -> int:
        """Wait for the process's end, in a thread; end the rest of its group; return its code."""
        process = self._process
        if hasattr(os, "waitid"):
            # Until its exit code is read, no other process gets its number.
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        else:  # macOS before Python 3.13
            process.wait()
        with self._lock:
            self._signal(signal.SIGKILL)
            code = process.wait()
            self._is_reaped = True
        return code

    def _signal(self, signal_number: int) -> None:
        with self._lock:
            if not self._is_reaped:
                with suppress(OSError):
                    os.killpg(self._process.pid, signal_number)

    # -- messages ----------------------------------------------------------------------------------

    async def receive(
        self,
        parse: Callable[[bytes], SessionMessage],
        sink: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        """Pass on the messages of the process until its output ends, or is too much."""
        from anyio import BrokenResourceError, ClosedResourceError

        try:
            async with sink:
                while line := await self._next_line():
                    message = self._parse_line(line, parse)
                    if message is not None:
                        await sink.send(message)
                    elif self.fault:
                        break
                self._closed_stream = self._closed_stream or "output"
                self.end_event.set()
        except (BrokenResourceError, ClosedResourceError):
            return  # the session has ended

    async def _next_line(self) -> bytes:
        """Return the next line that is not empty; nothing at the end."""
        while True:
            try:
                line = await self._reader.readuntil()
            except asyncio.IncompleteReadError as error:
                return error.partial.strip()
            except asyncio.LimitOverrunError:
                self.fault = f"it sent a message of more than {MAX_LINE:,} bytes"
                return b""
            except OSError as error:
                self.fault = f"its output cannot be read: {error}"
                return b""
            if line := line.strip():
                return line

    def _parse_line(
        self, line: bytes, parse: Callable[[bytes], SessionMessage]
    ) -> SessionMessage | None:
        """Return the message of a line; None for what the server should not have printed."""
        try:
            message = parse(line)
        except (ValueError, RecursionError):
            if not self._first_noise:
                self._first_noise = one_line(line[:400].decode(errors="replace"), 100)
            self._noise_count += 1
            if line.startswith(b"{") and b'"jsonrpc"' in line[:100]:
                self.fault = f"it sent a message that cannot be read: {self._first_noise!r}"
            if self._noise_count >= MAX_NOISE_LINES:
                self.fault = (
                    f"it printed {MAX_NOISE_LINES:,} lines on its standard output that are no "
                    f"messages of the protocol, such as {self._first_noise!r}"
                )
            return None
        self._noise_count = 0
        return message

    async def transmit(self, source: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write the messages for the process until there are no more, or it reads none."""
        async with source:
            async for each in source:
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                assert self._writer is not None
                try:
                    self._writer.write(text.encode() + b"\n")
                    await self._writer.drain()
                except OSError:
                    self._closed_stream = self._closed_stream or "input"
                    self.end_event.set()  # or it has ended
                    return

    # -- its end -----------------------------------------------------------------------------------

    async def stop(self) -> None:
        """End the process, with its group; return when it has ended and nothing is left of it."""
        import anyio

        with anyio.CancelScope(shield=True):  # who stops it may be cancelled
            await self._end()

    async def _end(self) -> None:
        """Ask the process to end, make it, and close what belongs to it."""
        if self._closed_stream and not await self._has_ended_within(
            _EXIT_S
        ):  # one that ends does that, too
            self.fault = self.fault or f"it has closed its {self._closed_stream}"
        if self._writer is not None:
            self._writer.close()
        for signal_number in (0, signal.SIGTERM, signal.SIGKILL):
            if signal_number:
                self._signal(signal_number)
            if await self._has_ended_within(_GRACE_S):
                break
        for pipe in self._pipes:
            pipe.close()
        if self._writer is not None and self._writer.transport.get_write_buffer_size():
            self._writer.transport.abort()  # the process has not read all of it
        if self._group_watch is not None:
            self._group_watch.kill()
            self._group_watch.communicate()
        await asyncio.sleep(0)  # the pipes close in the loop's next turn

    async def _has_ended_within(self, seconds: float) -> bool:
        """Wait for the process's end; return whether it has come."""
        # In Python 3.11.2, `asyncio.timeout` in a cancelled task ends as CancelledError.
        await asyncio.wait((self._exit_future,), timeout=seconds)
        return self._exit_future.done()

    def end_reason(self) -> str:
        """Return why it sends nothing any more, with its last words; call it after `stop`."""
        cause = self.fault
        if not cause and self._exit_future.done():
            code = self._exit_future.result()
            exit_text = f"exit code {code}" if code >= 0 else f"killed by signal {-code}"
            cause = f"it has ended ({exit_text})"
        return (cause or "it has closed its output") + self.output_hint()

    def output_hint(self) -> str:
        """Return what it printed that was no message, as the end of an error's text."""
        hint = ""
        if self._first_noise and not self.fault:
            hint += f"; on its standard output it printed {self._first_noise!r}"
        if stderr_text := self._stderr.text():
            hint += f"; on its standard error: {stderr_text}"
        return hint


class _OutputTail(asyncio.Protocol):
    """Keeps the last bytes of a pipe."""

    def __init__(self) -> None:
        self._last_bytes = bytearray()

    def data_received(self, data: bytes) -> None:
        self._last_bytes += data[-KEPT_STDERR_BYTES:]
        del self._last_bytes[: max(len(self._last_bytes) - KEPT_STDERR_BYTES, 0)]

    def text(self) -> str:
        """Return the last lines, on one."""
        lines = self._last_bytes.decode(errors="replace").strip().splitlines()
        return one_line(" | ".join(lines[-5:]), 1000)


@asynccontextmanager
async def over_process(process: ServerProcess) -> AsyncIterator[tuple[Any, Any]]:
    """Start a process; yield the streams of a session with it; end it. A transport of the SDK."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    def parse(line: bytes) -> SessionMessage:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))

    await process.start()
    sink, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, source = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(process.receive, parse, sink)
            group.start_soon(process.transmit, source)
            yield incoming, outgoing
            group.cancel_scope.cancel()
    finally:
        await process.stop()
        for stream in (sink, incoming, outgoing, source):
            stream.close()
