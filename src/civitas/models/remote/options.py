"""What models behind a server are given, checked when they are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from civitas.errors import DefinitionError, ModelError


def check_options(
    what: str,
    counts: Mapping[str, tuple[Any, int]],
    timeout: Any,
    options: Mapping[str, Any] | None,
    own: Iterable[str],
) -> None:
    """Check what is not text."""
    for name, (value, least) in counts.items():
        if type(value) is not int or value < least:
            raise DefinitionError(f"{what}: {name}= must be an integer from {least}, got {value!r}")
    if not isinstance(timeout, int | float) or not 0 < timeout < float("inf"):
        raise DefinitionError(f"{what}: timeout= must be a number of seconds, got {timeout!r}")
    wrong = sorted(set(own) & (options or {}).keys())
    if wrong:
        raise DefinitionError(f"{what}: options= cannot set {', '.join(wrong)}")


def check_key(key: str | None, name: str) -> None:
    """Check that a key can stand in a header; the error does not show it."""
    if key is not None and (not key.isascii() or not key.isprintable() or " " in key):
        raise ModelError(f"{name}: the key holds a character that no key has, such as a line break")


def check_base_url(url: Any, what: str) -> str:
    """A server's address without a slash at its end."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - looked at because it raises
        plain = url.isascii() and url.isprintable() and " " not in url
    except (AttributeError, TypeError, ValueError):
        plain = False
    if not plain or parts.scheme not in ("http", "https") or not parts.hostname:
        raise DefinitionError(f"{what}: base_url= must be like http://host/v1, got {url!r:.200}")
    if parts.username or parts.password:
        # An address is in names, errors and logs.
        raise DefinitionError(f"{what}: base_url= holds a password; pass it as api_key=")
    if parts.query or parts.fragment:
        raise DefinitionError(f"{what}: base_url= must end with its path, without ? or #")
    return str(url).rstrip("/")
