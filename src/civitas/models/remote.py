"""Calls to other machines: the one switch that forbids them, and the addresses they go to.

`CIVITAS_OFFLINE=1` forbids them all. Loopback stays allowed: a literal loopback address, or the
name `localhost`. Other names are not looked up, since what they resolve to may change.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from civitas.errors import DefinitionError, RemoteForbidden
from civitas.models.weights import is_loopback, is_offline

__all__ = ["check_allowed", "check_url"]


def check_allowed(url: str, what: str) -> None:
    """Look whether a call may be made. Every adapter that calls out asks here, before every call.

    Args:
        url: where the call goes
        what: what makes it, for the error

    Raises:
        RemoteForbidden: `CIVITAS_OFFLINE=1` forbids it
    """
    if is_offline() and not is_loopback(url):
        host = urlsplit(url).hostname
        raise RemoteForbidden(
            f"{what}: CIVITAS_OFFLINE=1 forbids calls to {host}; unset it, or use a local model"
        )


def check_url(url: str, what: str) -> str:
    """A server's address without a slash at its end.

    Raises:
        DefinitionError: it is none, or has parts that do not belong there
    """
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - looked at because it raises
        plain = url.isascii() and url.isprintable() and " " not in url
    except (AttributeError, TypeError, ValueError):
        plain = False
    if not plain or parts.scheme not in ("http", "https") or not parts.hostname:
        raise DefinitionError(f"{what}: base_url= is like http://host:port/v1, not {url!r:.200}")
    if parts.username or parts.password:
        # An address is in names, errors and logs.
        raise DefinitionError(f"{what}: base_url= holds a password; pass it as api_key=")
    if parts.query or parts.fragment:
        raise DefinitionError(f"{what}: base_url= ends with its path, without ? or #")
    return url.rstrip("/")
