"""A network that can be broken: a TCP proxy on loopback, before a server on loopback.

    with Proxy(broker.port) as proxy:
        connect("127.0.0.1", proxy.port)
        proxy.cut()

It runs in a thread of its own. Each call has taken effect when it returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any

from benchmarks.ports import free_port

HOST = "127.0.0.1"
AT_ONCE = 64 * 1024


class Proxy:
    """Passes connections on to the port given, until told otherwise.

    Attributes:
        port: Where it listens.
        connections: How many connections it has taken so far.
        open: How many of them there are now.
        sent: Bytes passed on to the server.
        received: Bytes passed on from the server.
    """

    def __init__(self, target: int, host: str = HOST) -> None:
        self.port = free_port()
        self._host = host
        self.connections = 0
        self.sent = 0
        self.received = 0
        self._target = target
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._fatal = ("", b"")
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        try:
            self.accept()
        except BaseException:
            self.close()
            raise

    @property
    def open(self) -> int:
        return len(self._tasks)

    def cut(self) -> None:
        """Break every connection, as a router that has forgotten them does: by a reset."""
        self._run(self._cut())

    def cut_at(self, text: bytes) -> None:
        """Break every connection when a client sends this, once; it is not passed on."""
        self._run(self._call(lambda: setattr(self, "_fatal", ("sent", text))))

    def cut_at_answer(self, text: bytes) -> None:
        """Break every connection when the server sends this, once; what was before it is passed."""
        self._run(self._call(lambda: setattr(self, "_fatal", ("received", text))))

    def stall(self) -> None:
        """Take and keep connections, and pass nothing on: what is sent meanwhile waits."""
        self._run(self._call(self._flowing.clear))

    def resume(self) -> None:
        """Pass on again, first what has waited."""
        self._run(self._call(self._flowing.set))

    def refuse(self) -> None:
        """Refuse new connections; those that are there stay."""
        self._run(self._refuse())

    def accept(self) -> None:
        """Take new connections again."""
        self._run(self._accept())

    def close(self) -> None:
        """Break every connection and end; a second time does nothing."""
        if self._loop.is_closed():
            return
        self.refuse()
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _call(self, function: Callable[[], None]) -> None:
        function()

    async def _accept(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._pass, self._host, self.port)

    async def _refuse(self) -> None:
        if self._server is not None:
            # It is not waited for: that is until the last connection has ended.
            self._server.close()
            self._server = None

    async def _cut(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection from its beginning to its end."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        writers = [writer]
        try:
            await self._flowing.wait()
            there, back = await asyncio.open_connection(HOST, self._target)
            writers.append(back)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, back, "sent"))
                both.create_task(self._pump(there, writer, "received"))
        except* OSError:
            pass  # one side broke it, and so the other is broken too
        except* asyncio.CancelledError:
            pass  # cut
        else:
            for each in writers:
                each.close()
                with contextlib.suppress(OSError):
                    await each.wait_closed()
            writers.clear()
        finally:
            for each in writers:
                reset(each)
            self._tasks.discard(task)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: str
    ) -> None:
        """Pass on one direction until its end."""
        while data := await reader.read(AT_ONCE):
            await self._flowing.wait()
            direction, text = self._fatal
            if count == direction and text in data:
                self._fatal = ("", b"")
                if direction == "received":
                    writer.write(data[: data.index(text)])
                self._cutting = self._loop.create_task(self._cut())
                return
            writer.write(data)
            setattr(self, count, getattr(self, count) + len(data))
            await writer.drain()
        await self._flowing.wait()
        writer.write_eof()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close at once, with a reset, whatever is still to be sent."""
    link: socket.socket = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
