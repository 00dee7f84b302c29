"""Checks of the settings of models, made when a model is constructed."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from moothall.foundation.errors import ConfigError, ModelError
from moothall.foundation.http.server_url import ServerURL
from moothall.models.providers import ANY_SERVER, PROVIDERS, Provider, provider_at

KeyLike: TypeAlias = str | Callable[[], str | Awaitable[str]] | None
"""A key, or a function, plain or `async`, that returns the one for the next request."""


def check_sampling(label: str, temperature: Any, seed: Any) -> None:
    """Raise if a temperature or a seed is one that no model takes."""
    if type(temperature) not in (int, float) or not 0 <= temperature <= 10:
        raise ConfigError(
            f"{label}: temperature= must be a number from 0 to 10, got {temperature!r}"
        )
    if seed is not None and type(seed) is not int:
        raise ConfigError(f"{label}: seed= must be an integer, got {seed!r}")


def check_key(key: Any, name: str) -> None:
    """Check that a key can stand in a header; the error does not show it."""
    if key is not None and not isinstance(key, str):
        raise ConfigError(f"{name}: the key must be text, got {type(key).__name__}")
    if key is not None and (not key.isascii() or not key.isprintable() or " " in key):
        raise ModelError(f"{name}: the key holds a character that no key has, such as a line break")


def check_name_and_options(label: str, name: Any, options: Any) -> None:
    """Check a provider's name of a model, and the further fields of its requests."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ConfigError(f"{label}: name must be text, got {name!r:.80}")
    if options is not None and not isinstance(options, Mapping):
        raise ConfigError(f"{label}: options= must be a dict, got {options!r:.80}")


def server_of(label: str, base_url: Any, provider: str) -> tuple[str, Provider]:
    """Return the checked address of a model's server, and what is known of the server."""
    if not isinstance(provider, str) or provider not in PROVIDERS:
        names = ", ".join(PROVIDERS)
        raise ConfigError(f"{label}: provider= must be one of {names}, got {provider!r:.80}")
    provider_row = PROVIDERS[provider]
    variable = provider_row.address
    if base_url is not None:
        address: str = ServerURL.checked(base_url, f"{label}: base_url=", query=True)
    else:
        is_of_host = provider_row.host and not os.environ.get(variable)
        source = provider_row.host if is_of_host else variable
        url = provider_row.settings[0] or provider_row.url
        address = ServerURL.checked(url, source, query=True)
        if provider == "azure" and not urlsplit(address).path:
            address += "/openai/v1"
        if address == provider_row.url or not provider_row.may_be_any:
            return address, provider_row
    # Behind another address of these names may be any server.
    provider_name = provider_at(address)
    return address, ANY_SERVER if provider_name is None else PROVIDERS[provider_name]


def joined_url(base_url: str, path: str) -> str:
    """Return the address of a path of a server, with the query of the server's address."""
    base, separator, query = base_url.partition("?")
    return f"{base}{path}{separator}{query}"
