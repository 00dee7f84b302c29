"""How requests come to a server from elsewhere: its public address, proxies, pages of others."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict, Unpack
from urllib.parse import urlsplit

from moothall import ConfigError

WILDCARD: Final = "*"
"""The origin that stands for all."""
_PORTS: Final = {"http": 80, "https": 443}


class FrontOptions(TypedDict, total=False):
    """What programs, commands and companies state of it; `asgi` documents it."""

    public_url: str | None
    proxies: Sequence[str]
    origins: Iterable[str]


FRONT_OPTIONS: Final = tuple(FrontOptions.__annotations__)


@dataclass(frozen=True)
class Front:
    """How requests come to a server from elsewhere.

    Attributes:
        origin: the scheme and host of its public address, such as `https://agents.example`; empty
            without a proxy
        base: where its public addresses begin, from `/` to `/`
        proxies: the addresses and networks of proxies whose word on a client is believed
        pages: the origins of web pages that may use it
    """

    origin: str = ""
    base: str = "/"
    proxies: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()

    @classmethod
    def of(cls, **options: Unpack[FrontOptions]) -> Front:
        """Return the front that a program states.

        Raises:
            ConfigError: an argument is not valid
        """
        public_url, origins = options.get("public_url"), options.get("origins", ())
        origin_list = [origins] if isinstance(origins, str) else [*origins]
        pages = []
        for each in origin_list:
            page, path = (WILDCARD, "/") if each == WILDCARD else _origin_and_path(each, "origins=")
            if path != "/" or str(each).endswith("/"):
                raise ConfigError(
                    "origins= must be origins such as https://app.example, without a path, "
                    f"or {WILDCARD!r} for all, got {each!r:.80}"
                )
            pages.append(page)
        parts = ("", "/") if public_url is None else _origin_and_path(public_url, "public_url")
        return cls(*parts, tuple(checked_proxies(options.get("proxies", ()))), tuple(pages))

    @property
    def host(self) -> str:
        """The address's host, with its port if it has one."""
        return self.origin.partition("://")[2].lower()

    def has_page(self, origin: str | None) -> bool:
        """Whether pages of an origin may use the server."""
        return origin is not None and (origin in self.pages or WILDCARD in self.pages)


NO_FRONT: Final = Front()


def _origin_and_path(value: object, name: str) -> tuple[str, str]:
    """Return the origin, as browsers state it, and the base path of a public address."""
    error = ConfigError(
        f"{name} must be an address such as https://agents.example/moothall/, got {value!r:.80}"
    )
    if not isinstance(value, str) or not value.isascii() or not value.isprintable():
        raise error
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise error from None
    host = parts.hostname or ""
    has_extra = parts.username or parts.password or parts.query or parts.fragment
    if parts.scheme not in ("http", "https") or not host or has_extra or " " in value:
        raise error
    path = parts.path.strip("/")
    if any(each in ("", ".", "..") for each in path.split("/")) and path:
        raise error
    host_text = f"[{host}]" if ":" in host else host
    if port == _PORTS[parts.scheme]:
        port = None
    return f"{parts.scheme}://{host_text}{f':{port}' if port else ''}", f"/{path}/" if path else "/"


def checked_proxies(proxies: object) -> list[str]:
    """Return the addresses and networks of proxies; ConfigError if one is neither."""
    proxy_list = [proxies] if isinstance(proxies, str) else proxies
    if not isinstance(proxy_list, Sequence):
        raise ConfigError(f"proxies must be addresses of proxies, got {proxies!r:.80}")
    for each in proxy_list:
        try:
            ipaddress.ip_network(each, strict=False)
        except (ValueError, TypeError):
            raise ConfigError(
                f"proxies must be addresses or networks such as 10.0.0.0/8, got {each!r:.80}"
            ) from None
    return [str(each) for each in proxy_list]
