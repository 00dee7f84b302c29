"""The HTTP server of the doors: uvicorn, in a thread of its own."""

from __future__ import annotations

import socket
import threading
from typing import Any, Final

from moothall.doors.checks import is_loopback_address
from moothall.errors import ConfigError, MissingExtra

_BACKLOG: Final = 128


def place_of(text: str, name: str) -> tuple[str, int]:
    """Return the host and the port of HOST:PORT; ConfigError for another text."""
    host, _, number = text.rpartition(":")
    host = host.strip("[]")
    if not host or not number.isdecimal() or not 0 <= int(number) < 65536:
        raise ConfigError(f"{name} takes HOST:PORT, such as 127.0.0.1:8100, got {text!r:.80}")
    return host, int(number)


def needs_token(host: str) -> bool:
    """Return whether other machines can reach a server at an address."""
    return not is_loopback_address(host)


class HTTPServer:
    """Serves an ASGI application at an address.

    Args:
        app: the application
        host: the address to listen at
        port: its port; 0 for any that is free
        grace_s: seconds that running requests have to end

    Raises:
        ConfigError: the server cannot listen at the address
        MissingExtra: uvicorn is not installed
    """

    def __init__(self, app: Any, host: str, port: int, grace_s: float = 5) -> None:
        MissingExtra.unless("serving HTTP", "mcp", "uvicorn")
        import uvicorn

        options: dict[str, Any] = {
            "log_level": "warning",
            "access_log": False,
            "server_header": False,
            "proxy_headers": False,
            "timeout_graceful_shutdown": max(1, round(grace_s)),
        }
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            raise ConfigError(
                f"nothing can be served at {host}:{port}: {error.strerror}"
            ) from error
        self.port: int = self._socket.getsockname()[1]
        self._server = uvicorn.Server(uvicorn.Config(app, **options))
        # In a thread, since in the main one uvicorn ends the process by the signal that has ended
        # it.
        self._thread = threading.Thread(target=self._serve, daemon=True, name="moothall-http")

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()

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
            self._socket.close()
            return False
        self._thread.join(timeout)
        return bool(self._server.started)
