"""Addresses of servers, and the switch that forbids calls to other machines.

`MOOTHALL_OFFLINE=1` forbids them all. Loopback stays allowed: a literal loopback address, or the
name `localhost`. Other names are not looked up, since what they resolve to may change.
"""

from __future__ import annotations

import ipaddress
import os
import re
from functools import lru_cache
from typing import Final, Self
from urllib.parse import urlsplit

from moothall.foundation.errors import ConfigError, DefinitionError, RemoteForbidden
from moothall.foundation.http.proxies import proxy_for, proxy_place

_API_VERSION: Final = re.compile(r"api-version=[\w.-]+", re.ASCII)
_PORTS: Final = {"http": 80, "https": 443}


def is_offline() -> bool:
    """Return whether `MOOTHALL_OFFLINE` forbids calls to other machines."""
    return os.environ.get("MOOTHALL_OFFLINE", "").strip().lower() not in ("", "0", "false", "no")


class ServerURL(str):
    """The address of a server, as somebody states it: nothing is checked but by `checked`."""

    __slots__ = ()

    @classmethod
    def checked(cls, url: object, label: str, *, query: bool = False) -> Self:
        """Return an address of http or https without a slash at its end.

        With `query` it may end with `?api-version=…`. No other query: names, errors and logs show
        the address.

        Args:
            url: the address
            label: what it is called in errors
            query: whether it may have one

        Raises:
            ConfigError: it is no such address
            DefinitionError: it has a password, a fragment or a query
        """
        text = url if isinstance(url, str) else ""
        try:
            parts = urlsplit(text)
            parts.port  # noqa: B018 - looked at because it raises
            is_plain = text.isascii() and text.isprintable() and " " not in text
        except ValueError:
            is_plain = False
        if not is_plain or parts.scheme not in _PORTS or not parts.hostname:
            raise ConfigError(f"{label} must be like http://host/v1, got {_without_password(url)}")
        if parts.username or parts.password:
            # Names, errors and logs show the address.
            raise DefinitionError(f"{label} must hold no password: the key is given apart from it")
        is_plain = not parts.query or (query and _API_VERSION.fullmatch(parts.query) is not None)
        if not is_plain or parts.fragment:
            ends = "its path or ?api-version=…" if query else "its path, without ? or #"
            raise DefinitionError(f"{label} must end with {ends}")
        path, separator, query_text = text.partition("?")
        return cls(f"{path.rstrip('/')}{separator}{query_text}")

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine."""
        return _is_loopback(self)

    @property
    def is_forbidden(self) -> bool:
        """Whether `MOOTHALL_OFFLINE` forbids calls to it."""
        return not _is_loopback(self) and is_offline()

    def check_allowed(self, caller: str) -> None:
        """Raise RemoteForbidden if `caller` may not call it; `HTTPClient` checks each call."""
        if self.is_forbidden:
            raise RemoteForbidden(
                f"{caller}: MOOTHALL_OFFLINE=1 forbids calls to {urlsplit(self).hostname}; "
                "unset it, or use what is on this machine"
            )

    @property
    def proxy(self) -> str | None:
        """The environment's proxy for it, or None; ConfigError if that is not one of HTTP."""
        return None if _is_loopback(self) else proxy_for(self)

    @property
    def proxy_place(self) -> str:
        """The host and port of that proxy, without its password; empty without a proxy."""
        return proxy_place(self.proxy or "")

    @property
    def origin(self) -> tuple[str, str, int | None]:
        """The scheme, the host and the port; ValueError if the port is none."""
        parts = urlsplit(self)
        scheme = parts.scheme.lower()
        return scheme, (parts.hostname or "").rstrip("."), parts.port or _PORTS.get(scheme)

    @property
    def without_password(self) -> str:
        """It as an error shows it: quoted, without its user and password, and not too long."""
        return _without_password(self)


@lru_cache(maxsize=1000)
def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _without_password(url: object) -> str:
    return re.sub(r"//[^/?#]*@", "//…@", repr(url))[:200]
