"""The server of a model: given, or a provider's."""

from __future__ import annotations

from urllib.parse import urlsplit

from moothall.errors import ConfigError
from moothall.models.providers import OTHER, PROVIDERS, Provider, address_variable, provider_at
from moothall.models.settings import base_url_of


def server_of(what: str, base_url: str | None, provider: str) -> tuple[str, Provider]:
    """Return the checked address of a model's server, and what is known of the server."""
    if provider not in PROVIDERS:
        names = ", ".join(PROVIDERS)
        raise ConfigError(f"{what}: provider= must be one of {names}, got {provider!r:.80}")
    named, variable = PROVIDERS[provider], address_variable(provider)
    if provider == "azure" and base_url is None:
        given = base_url_of(what, None, variable, "")
        if not urlsplit(given).path:
            given += "/openai/v1"
        return given, named
    given = base_url_of(what, base_url, variable, named.url)
    if base_url is None and (given == named.url or provider != "openai"):
        return given, named
    # Behind another address of OpenAI's own name may be any server.
    at = provider_at(given)
    return given, OTHER if at is None else PROVIDERS[at]
