"""The providers that people name: address, key, and what their servers do in their own way."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from moothall.foundation.extensions import Extension


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider of models behind a server.

    Attributes:
        title: what its models are, for people
        url: the address of its server; empty if each customer has another
        key: the variable of its key; empty if it asks for none
        data: what the package of prices calls it; empty if its models cost nothing
        otel: what OpenTelemetry calls it; its name if left out
        address: the variable that names another server; `NAME_BASE_URL` in `PROVIDERS` if left out
        host: the variable that names another server without the path, as Ollama's own
        form: the class that speaks its form, after its file in `models/remote/`, whose
            `of_provider` makes its models
        families: how names of its models begin that nobody else has, for errors
        may_be_any: whether its variable of the address may name a server of any other
        length: the field for the longest answer
        key_header: the header of its key, where it is not `Authorization`
        schema_beside_actions: whether it takes a schema in its own field beside actions
        batches: whether it answers batches in OpenAI's or Anthropic's form, at half the price
        gives_back: whether it takes back fields that it gave with its answers
        call_ids: a pattern of the ids of calls that it takes; empty if any will do
        answer_before_user: whether it wants an answer between a result and a message of the user
        may_want: what it may want of another's answers: `reasons` with each, or a `signature` of
            each call; gateways may want both
        images: the media types of images that it takes, beside those that all take
    """

    title: str
    url: str = ""
    key: str = ""
    data: str = ""
    otel: str = ""
    address: str = ""
    host: str = ""
    form: str = "openai.OpenAIModel"
    families: tuple[str, ...] = ()
    may_be_any: bool = False
    length: str = "max_tokens"
    key_header: str = ""
    schema_beside_actions: bool = False
    batches: bool = False
    gives_back: bool = True
    call_ids: str = ""
    answer_before_user: bool = False
    may_want: tuple[str, ...] = ("reasons", "signature")
    images: tuple[str, ...] = ()

    @property
    def class_name(self) -> str:
        """The class that speaks its form."""
        return self.form.rpartition(".")[2]

    @property
    def settings(self) -> tuple[str, str]:
        """What the environment says of it: the address of its server, and its key; else empty."""
        address = os.environ.get(self.address, "")
        if not address and self.host:
            address = _address_of_host(os.environ.get(self.host, ""), self.url)
        return address, os.environ.get(self.key, "")


_OPENAI: Final[dict[str, Any]] = {
    "length": "max_completion_tokens",
    "schema_beside_actions": True,
    "batches": True,
    "call_ids": ".{1,40}",
    "may_want": (),
}
_ROWS: Final = {
    "openai": Provider(
        *("OpenAI's", "https://api.openai.com/v1", "OPENAI_API_KEY", "openai"),
        families=("gpt", "chatgpt", "o1", "o3", "o4"),
        may_be_any=True,
        **_OPENAI,
    ),
    "anthropic": Provider(
        *("Anthropic's", "https://api.anthropic.com", "ANTHROPIC_API_KEY", "anthropic"),
        form="anthropic.AnthropicModel",
        families=("claude",),
        may_be_any=True,
        schema_beside_actions=True,
        batches=True,
        call_ids="[A-Za-z0-9_-]{1,64}",
        may_want=(),
    ),
    "azure": Provider(
        *("OpenAI's at Azure", "", "AZURE_OPENAI_API_KEY", "azure", "azure.ai.openai"),
        address="AZURE_OPENAI_ENDPOINT",
        key_header="api-key",
        **_OPENAI,
    ),
    "cerebras": Provider(
        *("Cerebras's", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", "cerebras"),
        gives_back=False,
        may_want=(),
    ),
    "deepseek": Provider(
        *("DeepSeek's", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", "deepseek"),
        families=("deepseek",),
        may_want=("reasons",),
    ),
    "gemini": Provider(
        *("Google's", "https://generativelanguage.googleapis.com/v1beta/openai"),
        *("GEMINI_API_KEY", "google", "gcp.gemini"),
        families=("gemini",),
        may_want=("signature",),
        images=("image/heic", "image/heif"),
    ),
    "groq": Provider(
        *("Groq's", "https://api.groq.com/openai/v1", "GROQ_API_KEY", "groq"),
        batches=True,
        gives_back=False,
        may_want=(),
    ),
    "mistral": Provider(
        *("Mistral's", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", "mistral", "mistral_ai"),
        gives_back=False,
        call_ids="[A-Za-z0-9]{9}",
        answer_before_user=True,
        may_want=(),
    ),
    "ollama": Provider("of an Ollama server", "http://localhost:11434/v1", host="OLLAMA_HOST"),
    "openrouter": Provider(
        *("of many providers, by OpenRouter", "https://openrouter.ai/api/v1"),
        *("OPENROUTER_API_KEY", "openrouter"),
    ),
}
OTHER_KINDS: Final = frozenset(("local", "gguf", "hf", "http", "https"))
"""What names of models begin with that is no provider."""


def _with_address(name: str, row: Provider) -> Provider:
    variable = f"{name.upper().replace('-', '_')}_BASE_URL"
    return replace(row, address=row.address or variable)


OUR_PROVIDERS: Final = {name: _with_address(name, each) for name, each in _ROWS.items()}
"""The providers that moothall knows by itself."""


class _Providers(Mapping[str, Provider]):
    """Ours, then those of installed packages, which are looked for only where ours do not do."""

    def __getitem__(self, name: str) -> Provider:
        if name in OUR_PROVIDERS:
            return OUR_PROVIDERS[name]
        if name in OTHER_KINDS:
            raise KeyError(name)
        return _with_address(name, Extension.rows("moothall.providers", Provider)[name])

    def __iter__(self) -> Iterator[str]:
        names = {**OUR_PROVIDERS, **Extension.rows("moothall.providers", Provider)}
        yield from (name for name in names if name not in OTHER_KINDS)

    def __len__(self) -> int:
        return sum(1 for _ in self)


PROVIDERS: Final[Mapping[str, Provider]] = _Providers()
"""By the first part of a model's name, as in `deepseek:NAME`."""

BY_FAMILY: Final = {name: id for id, each in OUR_PROVIDERS.items() for name in each.families}
"""The providers by how names of their models begin."""

ANY_SERVER: Final = Provider("of any server")
"""A server of which only the address is known."""


def _address_of_host(text: str, url: str) -> str:
    """Return the address of a server that is named as `HOST`, `HOST:PORT`, `:PORT` or a URL."""
    text = text.strip().strip("\"'").rstrip("/")
    if not text:
        return ""
    usual, scheme = urlsplit(url), text.partition("://")[0] if "://" in text else ""
    place, slash, path = text.partition("://")[2 if scheme else 0].partition("/")
    host, colon, port = place.rpartition(":")
    if not colon or port.endswith("]"):  # `[::1]` has colons of its own
        host, port = place, "" if scheme else f"{usual.port}"
    # A server that listens at all addresses of its machine is asked at the machine's own.
    host = (usual.hostname or "") if host in ("", "0.0.0.0", "[::]") else host
    return f"{scheme or 'http'}://{host}{port and f':{port}'}{slash}{path}/v1"


def key_of(name: str) -> str | None:
    """Return the key that the environment has for a provider, or None."""
    return PROVIDERS[name].settings[1] or None


def missing_variable(name: str) -> str:
    """Return the variable without which a provider cannot be asked; empty if nothing is missing."""
    provider = PROVIDERS[name]
    address, key = provider.settings
    if address:
        return ""
    if not provider.url:
        return provider.address
    return "" if key else provider.key


def provider_at(url: str) -> str | None:
    """Return the provider whose server has this address; None if it is another's."""
    host = urlsplit(url).hostname or ""
    if host.endswith((".openai.azure.com", ".services.ai.azure.com")):
        return "azure"
    hosts = ((name, urlsplit(each.url).hostname) for name, each in OUR_PROVIDERS.items())
    return next((name for name, each in hosts if each == host and host != "localhost"), None)


def provider_of(name: str) -> tuple[str | None, str]:
    """Return the provider of a model's name, and the provider's own name of it."""
    kind, _, rest = name.partition(":")
    if rest and kind in PROVIDERS:
        return kind, rest
    url, _, model_name = name.partition("#")
    return (provider_at(url) if kind in ("http", "https") else None), model_name


# Contexts and prices are of the package `genai-prices`, which asks no server.
_FIELDS = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")


def listed_context(name: str) -> int | None:
    """Return the context of a model of this name; None if it is not listed."""
    record = _price_record(name)
    context = getattr(record, "context_window", None)
    return context if type(context) is int and context > 0 else None


@lru_cache(maxsize=256)
def listed_price(name: str) -> tuple[Decimal, Decimal, Decimal | None, Decimal | None] | None:
    """Return what a model takes per million tokens, for long prompts and at any hour of today.

    These are input, output, reading of the cache and writing to it, in US dollars.
    """
    record = _price_record(name)
    if record is None:
        return None
    today = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    prices = [record.get_prices(today + timedelta(hours=hour)) for hour in range(24)]
    input, output, cache_read, cache_write = (_highest(prices, field) for field in _FIELDS)
    return None if input is None or output is None else (input, output, cache_read, cache_write)


def _highest(prices: list[Any], field: str) -> Decimal | None:
    amounts: list[Any] = []
    for each in prices:
        price = getattr(each, field, None)
        tiers = getattr(price, "tiers", ())
        amounts += [getattr(price, "base", price), *(tier.price for tier in tiers)]
    return max((each for each in amounts if isinstance(each, Decimal)), default=None)


def _price_record(name: str) -> Any:
    """Return the package's record of a model, or None."""
    provider, model_name = provider_of(name)
    if provider is None or not PROVIDERS[provider].data:
        return None
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    data = PROVIDERS[provider].data
    provider_record = next((each for each in get_snapshot().providers if each.id == data), None)
    record = None if provider_record is None else provider_record.find_model(model_name)
    if record is None and data == "azure":  # the models of OpenAI
        return _price_record(f"openai:{model_name}")
    return record
