"""The proxies that the environment states, by the rules of curl and of Python's `urllib`."""

from __future__ import annotations

import ipaddress
import os
from contextlib import suppress
from urllib.parse import urlsplit

from moothall.foundation.errors import ConfigError


def proxy_for(url: str) -> str | None:
    """Return the environment's proxy for another machine's URL, or None; ConfigError for SOCKS."""
    from urllib.request import getproxies, proxy_bypass

    parts, proxies = urlsplit(url), getproxies()
    host = parts.netloc.rpartition("@")[2]
    if proxy_bypass(host) or _is_within(parts.hostname, proxies.get("no", "")):
        return None
    setting = (proxies.get(parts.scheme) or proxies.get("all", "")).strip()
    if not setting:
        return None
    proxy = setting if "://" in setting else f"http://{setting}"
    scheme = urlsplit(proxy).scheme
    try:
        urlsplit(proxy).port  # noqa: B018 - looked at because it raises
        is_place = bool(urlsplit(proxy).hostname)
    except ValueError:
        is_place = False
    if is_place and scheme in ("http", "https"):
        return proxy
    rule = f"{_variable_of(parts.scheme)} must be an HTTP proxy, such as http://HOST:PORT, got "
    text = f"{scheme}://{proxy_place(proxy)}"
    hint = ""
    if scheme.startswith("socks"):
        hint = ": moothall does not speak SOCKS. Many SOCKS proxies speak HTTP too"
    raise ConfigError(f"{rule}{text!r:.200}{hint}; NO_PROXY names hosts that need no proxy")


def proxy_place(proxy: str) -> str:
    """Return the host and port of a proxy, without its password."""
    return urlsplit(proxy).netloc.rpartition("@")[2]


def _variable_of(scheme: str) -> str:
    lower = (f"{scheme}_proxy", "all_proxy")
    names = [each for name in lower for each in (name, name.upper()) if os.environ.get(each)]
    return names[0] if names else f"the system's proxy of {scheme}"


def _is_within(host: str | None, exceptions: str) -> bool:
    """Return whether a host is an address of one of the networks in `NO_PROXY`."""
    with suppress(ValueError):
        address = ipaddress.ip_address(host or "")
        for each in exceptions.split(","):
            with suppress(ValueError):
                if "/" in each and address in ipaddress.ip_network(each.strip(), strict=False):
                    return True
    return False
