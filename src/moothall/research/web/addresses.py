"""Addresses that pages may be read from: those of the public Internet, and of allowed hosts.

The check is for the address that a connection is opened to, however a URL spells or names it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from typing import TypeAlias
from urllib.parse import urlsplit

from moothall.errors import AddressRefused, ConfigError

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_METADATA = "168.63.129.16"  # has secrets of Azure's machines; those of others are not public
_GLOBAL_IPV6 = ipaddress.ip_network("2000::/3")
_EMBEDDING = (ipaddress.ip_network("::/96"), ipaddress.ip_network("64:ff9b::/96"))


def address_check(
    allow_hosts: Iterable[str] = (), what: str = "allow_hosts"
) -> Callable[[str, int, str], None]:
    """Return a check for `http.Client`: `AddressRefused` unless public or an allowed host's.

    A host that is allowed with a port, such as `localhost:8080`, is allowed on that port only.
    """
    if isinstance(allow_hosts, str) or not isinstance(allow_hosts, Iterable):
        raise ConfigError(f"{what} must be a list of hosts, got {allow_hosts!r}")
    allowed = {_host(each, what) for each in allow_hosts}

    def check(host: str, port: int, address: str) -> None:
        name = host.lower().rstrip(".")
        kind = kind_of(address)
        if kind is not None and not {(name, None), (name, port)} & allowed:
            raise AddressRefused(
                f"{host} is at {address}, {kind}: pages are read from public addresses only. To "
                f"allow this host, pass allow_hosts=({host!r},), or --allow-host {host}"
            )

    return check


def kind_of(address: str) -> str | None:
    """Return the kind of an address that is not public, in words; None for a public one."""
    given = ipaddress.ip_address(address.partition("%")[0])
    # An address that leads to another one has the kind of that one.
    for each in _embedded(given) or [given]:
        if kind := _kind(each):
            return kind if each is given else f"which stands for {each}, {kind}"
    return None


def _kind(address: _Address) -> str | None:
    if str(address) == _METADATA:
        return "a metadata service of a cloud"
    for kind in ("loopback", "link_local", "multicast", "private"):
        if getattr(address, f"is_{kind}"):
            return f"a {kind.replace('_', '-')} address"
    if not address.is_global or (address.version == 6 and address not in _GLOBAL_IPV6):
        return "an address for something else than the public Internet"
    return None


def _embedded(address: _Address) -> list[_Address]:
    """Return the IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if int(address) > 1 and any(address in network for network in _EMBEDDING):
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [each for each in found if each is not None]


def _plain(host: str) -> str:
    """Return a host as it is asked for: an address in its shortest form, a name in ASCII."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.encode("idna").decode()


def _host(given: str, what: str) -> tuple[str, int | None]:
    try:
        bare = given.count(":") > 1 and "[" not in given
        parts = urlsplit(f"//[{given}]" if bare else f"//{given}")
        if parts.hostname and parts.netloc in (given, f"[{given}]") and "@" not in given:
            return _plain(parts.hostname.rstrip(".")), parts.port
    except (AttributeError, ValueError):
        pass  # no text, or no host
    raise ConfigError(f"{what}: a host is like 'localhost' or 'localhost:8080', got {given!r}")
