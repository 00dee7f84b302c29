"""Addresses that may be called: those of the public Internet, and of hosts that a program allows.

The check is for the address that a connection is opened to, however a URL spells or names it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TypeAlias
from urllib.parse import urlsplit

from moothall.foundation.errors import AddressRefused, ConfigError

_Host: TypeAlias = tuple[str, int | None]
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

# IANA's special-purpose and multicast registries, in tables of our own: those of `ipaddress` differ
# from one Python to the next. What they reserve for a service of routers is left out, too.
_NON_PUBLIC_NETWORKS = {
    "a metadata service of a cloud": "168.63.129.16/32",  # of Azure; the others' are not public
    "a loopback address": "127.0.0.0/8 ::1/128",
    "a link-local address": "169.254.0.0/16 fe80::/10",
    "a multicast address": "224.0.0.0/4 ff00::/8",
    "a private address": "10.0.0.0/8 100.64.0.0/10 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10",
    "an unspecified address": "0.0.0.0/8 ::/128",
    "an address for examples and tests": (
        "192.0.2.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 2001:2::/48 2001:db8::/32 "
        "3fff::/20"
    ),
    "an address for something else than the public Internet": (
        "192.0.0.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.175.48.0/24 240.0.0.0/4 "
        "2001::/23 2620:4f:8000::/48 ::/3 4000::/2 8000::/1"
    ),
}
_NETWORKS = [
    (ipaddress.ip_network(each), kind)
    for kind, networks in _NON_PUBLIC_NETWORKS.items()
    for each in networks.split()
]
_IPV4_IN_IPV6_NETWORKS = (ipaddress.ip_network("::/96"), ipaddress.ip_network("64:ff9b::/96"))


class AllowedHosts:
    """Hosts that a program allows to be called, though they are not public or not its own.

    Args:
        hosts: such as `localhost`, or `localhost:8080`, on that port only
        name: what they are called in errors

    Raises:
        ConfigError: one is no host
    """

    def __init__(self, hosts: Iterable[str] = (), name: str = "allow_hosts") -> None:
        if isinstance(hosts, str) or not isinstance(hosts, Iterable):
            raise ConfigError(f"{name} must be a list of hosts, got {hosts!r}")
        self._hosts = frozenset(_parse_host(each, name) for each in hosts)

    def includes(self, host: str, port: int | None) -> bool:
        """Return whether a host, on this port, is one of them."""
        name = host.lower().rstrip(".")
        return not self._hosts.isdisjoint(((name, None), (name, port)))

    def check(self, host: str, port: int, address: str) -> None:
        """Raise AddressRefused unless an address is public, or that of one: for `HTTPClient`."""
        kind = non_public_kind(address)
        if kind is not None and not self.includes(host, port):
            raise AddressRefused(
                f"{host} is at {address}, {kind}: pages are read from public addresses only. To "
                f"allow this host, pass allow_hosts=({host!r},), or --allow-host {host}"
            )


def non_public_kind(address: str) -> str | None:
    """Return the kind of an address that is not public, in words; None for a public one."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    # An address that leads to another one has the kind of that one.
    for each in _embedded_ipv4(ip) or [ip]:
        if kind := _address_kind(each):
            return kind if each is ip else f"which stands for {each}, {kind}"
    return None


def _address_kind(address: _Address) -> str | None:
    candidates = (
        (network, kind) for network, kind in _NETWORKS if network.version == address.version
    )
    return next((kind for network, kind in candidates if address in network), None)


def _embedded_ipv4(address: _Address) -> list[_Address]:
    """Return the IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    addresses = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if int(address) > 1 and any(address in network for network in _IPV4_IN_IPV6_NETWORKS):
        addresses.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [each for each in addresses if each is not None]


def _canonical_host(host: str) -> str:
    """Return a host as it is asked for: an address in its shortest form, a name in ASCII."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.encode("idna").decode()


def _parse_host(host: str, name: str) -> _Host:
    try:
        is_unbracketed_ipv6 = host.count(":") > 1 and "[" not in host
        parts = urlsplit(f"//[{host}]" if is_unbracketed_ipv6 else f"//{host}")
        if parts.hostname and parts.netloc in (host, f"[{host}]") and "@" not in host:
            return _canonical_host(parts.hostname.rstrip(".")), parts.port
    except (AttributeError, TypeError, ValueError):
        pass  # no text, or no host
    raise ConfigError(f"{name}: a host is like 'localhost' or 'localhost:8080', got {host!r}")
