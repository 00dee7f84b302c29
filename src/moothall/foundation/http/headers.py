"""Headers that a user states for each request to a server, or a function that returns them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from moothall.foundation.arguments import check_function
from moothall.foundation.errors import ConfigError
from moothall.foundation.threads import awaited

HeadersLike: TypeAlias = (
    Mapping[str, str] | Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]] | None
)
"""Headers, or a function, plain or `async`, that returns those for the next request."""


def check_headers(headers: object, label: str) -> None:
    """Raise if headers are not names and texts that can stand in a request, nor a function."""
    if callable(headers):
        check_function(f"{label}: headers=", headers)
    elif headers is not None:
        _check(headers, label)


async def headers_now(headers: HeadersLike, label: str) -> Mapping[str, str]:
    """Return the headers of the next request."""
    if not callable(headers):
        return headers or {}
    returned: Mapping[str, str] = await awaited(headers()) or {}
    _check(returned, label)
    return returned


def _check(headers: object, label: str) -> None:
    pairs = headers.items() if isinstance(headers, Mapping) else [(None, None)]
    for name, value in pairs:
        for each in (name, value):
            if not isinstance(each, str) or not each.isascii() or not each.isprintable():
                raise ConfigError(f"{label}: headers= must be names and texts in one line each")
