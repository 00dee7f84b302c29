"""A fake of a server of streams: each line that a client appends goes to all, in one order."""

from __future__ import annotations

import socketserver
import threading
from typing import Self


class _Client(socketserver.StreamRequestHandler):
    server: FakeStreams

    def handle(self) -> None:
        """Append the lines of a client."""
        with self.server.lock:
            self.server.followers.append(self)
        for line in self.rfile:
            with self.server.lock:
                for each in [*self.server.followers]:
                    try:
                        each.wfile.write(line)
                    except OSError:  # it has left
                        self.server.followers.remove(each)


class FakeStreams(socketserver.ThreadingTCPServer):
    """One stream, on a port of loopback."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Client)
        self.lock = threading.Lock()
        self.followers: list[_Client] = []
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def address(self) -> tuple[str, int]:
        """Its host and its port."""
        host, port = self.server_address[:2]
        return str(host), int(port)

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def __enter__(self) -> Self:
        return self
