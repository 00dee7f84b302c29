"""Serving a page at one port, in a thread: arguments, sockets, the token, and how it ends."""

from __future__ import annotations

import ipaddress
import secrets
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from os import environ
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import quote

from moothall import ConfigError
from moothall.build import check_integer
from moothall.serving.doors import Front, HTTPServer
from moothall.studio.hub import Hub

if TYPE_CHECKING:
    from moothall.studio.page_guard import PageGuard

PORT: Final = 8080


class ServedHub(Hub):
    """The base of what is served at one port, with a token or password.

    Attributes:
        url: the address, without the token; None while it is not served
    """

    _server_name: str = "moothall studio"

    def __init__(self) -> None:
        super().__init__()
        self._server: HTTPServer | None = None
        self.url: str | None = None

    def _launch(
        self,
        port: int,
        host: str,
        *,
        password: str | None,
        token: str | None,
        prevent_thread_lock: bool | None,
        quiet: bool,
        public_url: str | None = None,
        proxies: Sequence[str] = (),
    ) -> str:
        """Serve the application; return the address."""
        if self._server is not None:
            raise ConfigError(f"the studio is served at {self.url} already: close() it first")
        check_integer("port", port, 0, 65535)
        if not isinstance(host, str) or not host.isprintable():
            raise ConfigError(f"host must be a name or an address, got {host!r:.80}")
        is_remote = host not in ("127.0.0.1", "localhost", "::1")
        if password is None and (is_remote or public_url is not None):
            place = repr(host)[:80] if is_remote else repr(public_url)[:80]
            raise ConfigError(
                f"a studio at {place}, which others reach, needs a password: set "
                "MOOTHALL_STUDIO_PASSWORD for the command, or pass password="
            )
        front = Front.of(public_url=public_url, proxies=proxies)
        trusted_proxies = [*front.proxies]
        if token is None:
            token = environ.get("MOOTHALL_STUDIO_TOKEN") or secrets.token_urlsafe(24)
        is_password = password is not None
        secret = _secret("password", password, 8) if is_password else _secret("token", token, 16)
        self._check_extra()

        from moothall.studio.server import OPTIONS

        make_application = partial(self._application, secret, host, is_password, front)
        # What a proxy states of a client's address is believed of these proxies alone.
        proxied = {"proxy_headers": bool(trusted_proxies), "forwarded_allow_ips": trusted_proxies}
        server = HTTPServer(make_application, host, port, 2, on_ipv6_too=True, **OPTIONS, **proxied)
        self._server = server
        try:
            self._begin()
            server.start()
            server.listening.result()
        except BaseException:
            self.close()
            raise
        # Not the name `localhost`: it may lead to ::1, where another program may have the port.
        ip, bound_port = server.place
        ip = _reachable_address(ip)
        own_url = f"http://{f'[{ip}]' if ':' in ip else ip}:{bound_port}{front.base}"
        self.url = f"{front.origin}{front.base}" if front.origin else own_url
        address = self.url if is_password else f"{self.url}?token={quote(secret)}"
        returns = "ipykernel" in sys.modules if prevent_thread_lock is None else prevent_thread_lock
        line = f"{self._server_name}: {address}"
        if not returns:
            self.wait("" if quiet else f"{line}  (Ctrl-C ends it)")
        elif not quiet:
            print(line, flush=True)
        return address

    def _application(self, secret: str, host: str, is_password: bool, front: Front) -> PageGuard:
        """Return the ASGI application; it is made in the server's loop."""
        raise NotImplementedError

    def _check_extra(self) -> None:
        """Raise MissingExtra if a package that serves it is not installed."""

    def _begin(self) -> None:
        """Prepare what is served, once the port is open."""

    def wait(self, line: str = "") -> None:
        """Print a line, if there is one, and serve until Ctrl-C; then close."""
        try:
            if line:  # printed in here: a reader may press Ctrl-C at once
                print(line, flush=True)
            if self._server is not None:
                self._server.join()
        except KeyboardInterrupt:
            with suppress(OSError):  # the output is closed
                print(f"{self._server_name}: ends", flush=True)
        finally:
            self.close()

    def close(self) -> None:
        """Stop the server."""
        server, self._server, self.url = self._server, None, None
        if server is not None:
            server.stop()
            server.join(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _reachable_address(host: str) -> str:
    """Return an address at which others reach a server that listens at a host."""
    ip = ipaddress.ip_address(host)
    if not ip.is_unspecified:
        return host
    kind, remote = (
        (socket.AF_INET6, "2001:db8::1") if ip.version == 6 else (socket.AF_INET, "192.0.2.1")
    )
    with suppress(OSError), socket.socket(kind, socket.SOCK_DGRAM) as probe:
        probe.connect((remote, 9))  # sends nothing: it only finds the way out
        address: str = probe.getsockname()[0]
        return address
    return "::1" if ip.version == 6 else "127.0.0.1"  # this machine has no network


def _secret(name: str, value: object, min_chars: int) -> str:
    """Return a token or password; ConfigError if it is too short or not printable."""
    if not isinstance(value, str) or len(value) < min_chars:
        raise ConfigError(f"the {name} must be text of {min_chars} characters or more")
    if not value.isprintable():
        raise ConfigError(f"the {name} must have characters that can be printed")
    return value
