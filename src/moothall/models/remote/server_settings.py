"""The settings of a model behind a server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from moothall.foundation.arguments import (
    check_boolean,
    check_function,
    check_integer,
    check_seconds,
)
from moothall.foundation.errors import ConfigError, DefinitionError
from moothall.foundation.http.headers import HeadersLike, check_headers
from moothall.models.settings import KeyLike, check_key, check_name_and_options, check_sampling

if TYPE_CHECKING:
    from moothall.models.providers import Provider
    from moothall.models.remote.rate_limit import RateLimit


class ServerOptions(TypedDict, total=False):
    """What all models behind servers take by name; `OpenAIModel` documents it."""

    context_tokens: int | None
    timeout: float
    max_retries: int
    rate_limit: RateLimit | None
    connections: int
    options: Mapping[str, Any] | None
    headers: HeadersLike
    batch: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerSettings:
    """The settings of a model behind a server, checked when they are made.

    Attributes:
        kind: the model's class, as errors name it
        name: the model's, for `model()`
        key_source: where its key is set, for errors
        model: the provider's name of it
        fields: fields of each request; None is left out
        own_fields: fields that `options` cannot set
    """

    kind: str
    name: str
    base_url: str
    key: KeyLike
    provider: Provider
    key_source: str
    model: str
    max_tokens: int | None
    fields: Mapping[str, Any]
    own_fields: Iterable[str]
    context_tokens: int | None = None
    timeout: float = 600.0
    max_retries: int = 2
    rate_limit: RateLimit | None = None
    connections: int = 100
    options: Mapping[str, Any] | None = None
    headers: HeadersLike = None
    batch: bool = False

    def __post_init__(self) -> None:
        kind = self.kind
        check_name_and_options(kind, self.model, self.options)
        check_integer(f"{kind}: context_tokens=", self.context_tokens, optional=True)
        check_integer(f"{kind}: max_tokens=", self.max_tokens, optional=True)
        check_integer(f"{kind}: max_retries=", self.max_retries, low=0)
        check_seconds(f"{kind}: timeout=", self.timeout)
        check_integer(f"{kind}: connections=", self.connections)
        check_boolean(f"{kind}: batch=", self.batch)
        limit = self.rate_limit
        if limit is not None and not callable(getattr(limit, "acquire", None)):
            raise ConfigError(f"{kind}: rate_limit= must be a RateLimit, got {limit!r}")
        if self.batch and limit is not None:
            raise ConfigError(f"{kind}: batches have limits of their own: leave out rate_limit=")
        temperature = self.fields.get("temperature")  # None: the server decides
        check_sampling(kind, 0 if temperature is None else temperature, self.fields.get("seed"))
        if wrong := sorted({*self.own_fields} & (self.options or {}).keys()):
            raise DefinitionError(
                f"{kind}: options= cannot set {', '.join(wrong)}, which it sets itself: leave them "
                "out, or use the argument of that name"
            )
        check_headers(self.headers, kind)
        if callable(self.key):
            check_function(f"{kind}: api_key=", self.key)
        else:
            check_key(self.key, self.name)

    @property
    def missing_key(self) -> str:
        """The variable of the key that its server wants and it has not; empty if nothing lacks."""
        is_providers = self.base_url == self.provider.url
        return self.provider.key if self.key is None and is_providers else ""

    @property
    def server(self) -> str:
        """The server, by its address or its provider's name."""
        return self.base_url or self.name.rpartition("/")[0]

    @property
    def request_fields(self) -> dict[str, Any]:
        """The fields of each request."""
        own_fields = {field: value for field, value in self.fields.items() if value is not None}
        return {**(self.options or {}), "model": self.model, **own_fields}
