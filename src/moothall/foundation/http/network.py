"""Calls to other machines: the switch that forbids them, and their proxies.

`MOOTHALL_OFFLINE=1` forbids them all. Loopback stays allowed: a literal loopback address, or the
name `localhost`. Other names are not looked up, since what they resolve to may change.
"""

from __future__ import annotations

import ipaddress
import os
from typing import Any, Final
from urllib.parse import urlsplit

from moothall.foundation.errors import RemoteForbidden

_UNKNOWN_AUTHORITY: Final = (2, 18, 19, 20, 21)
"""OpenSSL's codes for a certificate whose issuer is not among the known ones."""


def is_offline() -> bool:
    """Return whether `MOOTHALL_OFFLINE` forbids calls to other machines."""
    return os.environ.get("MOOTHALL_OFFLINE", "").strip().lower() not in ("", "0", "false", "no")


def is_loopback(url: str | None) -> bool:
    """Return whether a URL is on this machine."""
    host = urlsplit(url or "").hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_allowed(url: str, caller: str) -> None:
    """Raise RemoteForbidden if `caller` may not call a URL; `HTTPClient` checks each call."""
    if is_offline() and not is_loopback(url):
        host = urlsplit(url).hostname
        raise RemoteForbidden(
            f"{caller}: MOOTHALL_OFFLINE=1 forbids calls to {host}; "
            "unset it, or use what is on this machine"
        )


def proxy_for(url: str) -> str | None:
    """Return the environment's proxy for a URL, or None."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    if is_loopback(url) or proxy_bypass(parts.hostname or ""):
        return None
    proxy = getproxies().get(parts.scheme, "")
    return proxy if urlsplit(proxy).netloc else None


def certificate_fault(error: BaseException) -> str:
    """Return why a server's certificate was refused, and what to do; empty for other errors."""
    cause: Any = getattr(error, "certificate_error", error)
    code = getattr(cause, "verify_code", None)
    if code is None:
        return ""
    text = f"CERTIFICATE_VERIFY_FAILED: {cause.verify_message}"
    if code in _UNKNOWN_AUTHORITY:
        text += (
            "; for certificates of your own network, set SSL_CERT_FILE to the file that has them"
        )
    return text
