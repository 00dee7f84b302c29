"""The HTTP server of the doors: uvicorn, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from moothall import ConfigError, MissingExtra
from moothall.serving.doors.checks import is_loopback_address

_BACKLOG: Final = 128
_JOIN_POLL_S: Final = 1.0
_HEAD_TIMEOUT_S: Final = 20.0
"""Seconds in which the head of a request must have arrived, as its body must after that, and in
which a client must read something of an answer that fills what is kept for it."""


class HTTPServer:
    """Serves an ASGI application at an address.

    Args:
        app: the application; with the option `factory`, what makes it in the server's loop
        host: the address to listen at; `localhost` is 127.0.0.1
        port: its port; 0 for any that is free
        grace_s: seconds that running requests have to end
        on_ipv6_too: whether a server at 127.0.0.1 is also at ::1, so that browsers find `localhost`
        options: options of uvicorn

    Attributes:
        place: the host and the port that it listens at
        port: the port
        listening: has a result once it serves, or the exception that it ended with before

    Raises:
        ConfigError: the server cannot listen at the address
        MissingExtra: uvicorn is not installed
    """

    def __init__(
        self,
        app: Any,
        host: str,
        port: int,
        grace_s: float = 5,
        *,
        on_ipv6_too: bool = False,
        **options: Any,
    ) -> None:
        MissingExtra.unless("serving HTTP", "mcp", "uvicorn")
        import uvicorn

        config: dict[str, Any] = {
            "log_level": "warning",
            "access_log": False,
            "server_header": False,
            "proxy_headers": False,
            "timeout_graceful_shutdown": max(1, round(grace_s)),
            **options,
            "http": _timed_protocol(),
        }
        self._sockets = [_listening_socket("127.0.0.1" if host == "localhost" else host, port)]
        self.place: tuple[str, int] = self._sockets[0].getsockname()[:2]
        self.port: int = self.place[1]
        if on_ipv6_too and self.place[0] == "127.0.0.1":
            with suppress(ConfigError):  # no IPv6 here, or another program has the port there
                self._sockets.append(_listening_socket("::1", self.port))
        self._server = uvicorn.Server(uvicorn.Config(app, **config))
        logging.getLogger("uvicorn.error").addFilter(_is_fault)
        self.listening: Future[None] = Future()
        startup = self._server.startup

        async def startup_and_report(*args: Any, **options: Any) -> None:
            await startup(*args, **options)
            self.listening.set_result(None)

        self._server.startup = startup_and_report
        # In a thread, since in the main one uvicorn ends the process by the signal that has ended
        # it.
        self._thread = threading.Thread(target=self._serve, daemon=True, name="moothall-http")

    @staticmethod
    def place_of(text: str, name: str) -> tuple[str, int]:
        """Return the host and the port of HOST:PORT; ConfigError for another text."""
        host, _, number = text.rpartition(":")
        host = host.strip("[]")
        if not host or not number.isdecimal() or not 0 <= int(number) < 65536:
            raise ConfigError(f"{name} takes HOST:PORT, such as 127.0.0.1:8100, got {text!r:.80}")
        return host, int(number)

    @staticmethod
    def needs_token(host: str) -> bool:
        """Return whether other machines can reach a server at an address."""
        return not is_loopback_address(host)

    def _serve(self) -> None:
        try:
            self._server.run(sockets=self._sockets)
        except BaseException as error:
            if self.listening.done():
                raise
            self.listening.set_exception(error)
        finally:
            self._close()

    def _close(self) -> None:
        for each in self._sockets:
            each.close()

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self, *, at_once: bool = False) -> None:
        """Take no more requests; with `at_once`, end the running ones too."""
        self._server.force_exit = at_once
        self._server.should_exit = True

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the server has ended; return whether it had begun."""
        if self._thread.ident is None:
            self._close()
            return False
        while timeout is None and self._thread.is_alive():
            # A signal that comes just before the wait is handled after it: by then at the latest.
            self._thread.join(_JOIN_POLL_S)
        self._thread.join(timeout)
        return bool(self._server.started)


def _is_fault(record: logging.LogRecord) -> bool:
    """Return whether a record is worth showing: a request that the end cuts off is no fault."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def _timed_protocol() -> Any:
    """Return uvicorn's protocol, which closes connections on which a request does not end in time.

    That is its head, or a body that is still sent after the answer. Connections whose client reads
    nothing of its answer are closed, too.
    """
    from uvicorn.protocols.http import h11_impl

    idle, body = h11_impl.h11.IDLE, h11_impl.h11.SEND_BODY

    class TimedProtocol(h11_impl.H11Protocol):  # type: ignore[misc]
        """A connection; a request's head has some seconds to arrive whole."""

        _read_timer: Any = None
        _write_timer: Any = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._await_reader()

        def _await_reader(self) -> None:
            # A long answer may be one write, which goes on when nearly all of it has been read.
            size = self.transport.get_write_buffer_size()
            self._write_timer = self.loop.call_later(_HEAD_TIMEOUT_S, self._on_unread, size)

        def _on_unread(self, size: int) -> None:
            if self.transport.get_write_buffer_size() < size:
                self._await_reader()
            else:
                self.transport.abort()

        def resume_writing(self) -> None:
            self._write_timer.cancel()
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end_watch()
            if self._write_timer is not None:
                self._write_timer.cancel()
            super().connection_lost(exc)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch()

        def _awaits_client(self) -> bool:
            answered = self.cycle is not None and self.cycle.response_complete
            return self.conn.their_state is idle or (answered and self.conn.their_state is body)

        def _watch(self) -> None:
            if not self._awaits_client():
                self._end_watch()
            elif self._read_timer is None and not self.transport.is_closing():
                self._read_timer = self.loop.call_later(_HEAD_TIMEOUT_S, self._on_late)

        def _end_watch(self) -> None:
            if self._read_timer is not None:
                self._read_timer.cancel()
                self._read_timer = None

        def _on_late(self) -> None:
            self._read_timer = None
            if self._awaits_client() and not self.transport.is_closing():
                self.transport.close()

    return TimedProtocol


def _listening_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).partition(" (while attempting")[0]
        raise ConfigError(
            f"nothing can be served at {host}:{port}: {reason}; give another host or port "
            "(0 takes a free one)"
        ) from error
