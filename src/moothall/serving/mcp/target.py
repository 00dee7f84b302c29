"""How a server is reached, as a user states it: its command or its address, its headers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from moothall import ConfigError
from moothall.build import ServerURL

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def checked_target(target: object, label: str) -> str | list[str]:
    """Return a target as an address, or as a command's list."""
    if isinstance(target, str):
        if _ADDRESS.match(target):
            try:
                parts = urlsplit(target)
                if parts.scheme not in ("http", "https"):
                    raise ValueError("an address must begin with https:// or http://")
                if not parts.hostname:
                    raise ValueError("it names no host")
                _ = parts.port  # which raises ValueError
            except ValueError as error:
                address_text = ServerURL(target).without_password
                raise ConfigError(f"{label}: target= {address_text}: {error}") from None
            return target
        try:
            command = shlex.split(target)
        except ValueError as error:
            raise ConfigError(f"{label}: target= is no command: {error}") from None
    elif isinstance(target, Sequence) and all(isinstance(each, str) for each in target):
        command = list(target)
    else:
        command = []
    if not command or not command[0]:
        raise ConfigError(
            f"{label}: target= must be a command, as text or a list of texts, or an address "
            f"(https://…), got {target!r:.80}"
        )
    return command


def checked_texts(texts: object, name: str, label: str) -> dict[str, str]:
    """Return texts by name; raise ConfigError if they are none."""
    if texts is None:
        return {}
    if not isinstance(texts, Mapping) or not all(
        isinstance(key, str) and isinstance(value, str) for key, value in texts.items()
    ):
        raise ConfigError(f"{label}: {name}= must be texts by name, got {type(texts).__name__}")
    return dict(texts)


def checked_headers(headers_given: object, label: str) -> dict[str, str]:
    """Return headers; raise ConfigError for one that no request can have."""
    headers = checked_texts(headers_given, "headers", label)
    for name, value in headers.items():
        if not (name + value).isascii() or not (name + value).isprintable():  # it may be a secret
            raise ConfigError(
                f"{label}: headers= must be ASCII texts of one line; {name!r:.80} is not"
            )
    return headers
