"""The switch that forbids calls to other machines: `CIVITAS_OFFLINE=1`.

Loopback stays allowed: a literal loopback address, or the name `localhost`. Other names are not
looked up, since what they resolve to may change.
"""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit

from civitas.errors import RemoteForbidden

__all__ = ["check_allowed", "is_loopback", "is_offline"]


def is_offline() -> bool:
    """Whether `CIVITAS_OFFLINE` forbids calls to other machines."""
    return os.environ.get("CIVITAS_OFFLINE", "").strip().lower() not in ("", "0", "false", "no")


def is_loopback(url: str | None) -> bool:
    """Whether a URL is of this machine."""
    host = urlsplit(url or "").hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_allowed(url: str, what: str) -> None:
    """Check that a call may be made; what calls out by other means asks here before each call.

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
