"""Addresses that pages may be read from: those of the public Internet, and of allowed hosts.

The check is for the address that a connection is opened to. So it does not matter how a URL spells
it, what a name resolves to, or whether it resolves to something else the next time.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from typing import TypeAlias
from urllib.parse import urlsplit

from civitas.errors import AddressRefused, ConfigError

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

# Where clouds tell their machines secrets; some of these are in public ranges.
_METADATA = frozenset(
    ipaddress.ip_address(each)
    for each in (
        *("169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16"),
        *("fd00:ec2::254", "fd20:ce::254"),
    )
)
_SHARED = ipaddress.ip_network("100.64.0.0/10")
_PROTOCOL = ipaddress.ip_network("192.0.0.0/24")
_GLOBAL_IPV6 = ipaddress.ip_network("2000::/3")
_EMBEDDING = tuple(map(ipaddress.ip_network, ("::/96", "64:ff9b::/96")))


def address_check(allow_hosts: Iterable[str] = ()) -> Callable[[str, int, str], None]:
    """What `http.Client` is given as `check_address=`.

    It raises `AddressRefused` for an address that is not public, unless the host is allowed.

    Args:
        allow_hosts: hosts that may have any address, as URLs name them: `localhost`, `::1`; with a
            port, such as `localhost:8080`, on that port only

    Raises:
        ConfigError: it is not a list of such names
    """
    allowed = {_host(each) for each in _listed(allow_hosts)}

    def check(host: str, port: int, address: str) -> None:
        name = _named(host)
        if (name, None) in allowed or (name, port) in allowed:
            return
        kind = kind_of(address)
        if kind is not None:
            raise AddressRefused(
                f"{host} is at {address}, {kind}: pages are read from public addresses only. To "
                f"allow this host, pass allow_hosts=({host!r},), or --allow-host {host}"
            )

    return check


def kind_of(address: str) -> str | None:
    """What an address is that is not public, in words; None for a public one."""
    try:
        given: _Address = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "which is no IP address"
    for each in (given, *_embedded(given)):
        kind = _kind(each)
        if kind is not None:
            return kind if each is given else f"which stands for {each}, {kind}"
    if given.version == 6 and given not in _GLOBAL_IPV6 and not _embedded(given):
        return "a reserved address"
    return None


def _kind(address: _Address) -> str | None:
    if address in _METADATA:
        return "a metadata service of a cloud"
    if address.version == 6 and _embedded(address):
        return None  # the address in it says it
    for is_it, kind in (
        (address.is_unspecified, "the unspecified address"),
        (address.is_loopback, "a loopback address"),
        (address.is_link_local, "a link-local address"),
        (address.is_multicast, "a multicast address"),
        (address.version == 4 and address in _SHARED, "a shared address of a provider's network"),
        (address.is_reserved, "a reserved address"),
        (address.is_private or address in _PROTOCOL, "a private address"),
        (getattr(address, "is_site_local", False), "a private address"),
        (not address.is_global, "a reserved address"),
    ):
        if is_it:
            return kind
    return None


def _embedded(address: _Address) -> list[_Address]:
    """The IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found: list[_Address | None] = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if int(address) > 1 and any(address in network for network in _EMBEDDING):
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [each for each in found if each is not None]


def _listed(allow_hosts: Iterable[str]) -> list[str]:
    if isinstance(allow_hosts, str):
        raise ConfigError(f"allow_hosts must be a list of hosts, got {allow_hosts!r}")
    return list(allow_hosts)


def _host(given: str) -> tuple[str, int | None]:
    """The name and port of an allowed host."""
    wrong = ConfigError(
        f"allow_hosts must be hosts such as 'localhost' or 'localhost:8080', got {given!r}"
    )
    if not isinstance(given, str):
        raise wrong
    try:
        parts = urlsplit(
            f"//[{given}]" if given.count(":") > 1 and "[" not in given else f"//{given}"
        )
        if not parts.hostname or parts.path or parts.query or parts.fragment or "@" in given:
            raise wrong
        return _named(parts.hostname), parts.port
    except ValueError:
        raise wrong from None


def _named(host: str) -> str:
    return host.lower().rstrip(".")
