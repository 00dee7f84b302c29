"""Models of many providers, each in its own form, by the `litellm` library."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import suppress
from functools import cache
from types import SimpleNamespace
from typing import Any, ClassVar, TypedDict, Unpack

from moothall.foundation.arguments import names_checked
from moothall.foundation.errors import ConfigError, MissingExtra, ModelError, RemoteForbidden
from moothall.foundation.http import Client, Response, error_reason, may_pass
from moothall.foundation.http.network import connections_checked
from moothall.models.base import Request
from moothall.models.providers import OTHER, PROVIDERS
from moothall.models.remote.messages_format import tools_called
from moothall.models.remote.rate_limit import RateLimit
from moothall.models.remote.remote import RemoteModel
from moothall.models.settings import check_base_url

# Fields that this class sets itself, and fields that would make litellm bypass it.
_OWN_FIELDS = (
    "api_base api_key base_url callbacks client custom_llm_provider fallbacks max_retries n "
    "max_tokens messages mock_response model model_list num_retries response_format seed stream "
    "stream_options temperature timeout tools"
)
_WANTS_TOOLS = ("anthropic", "bedrock", "vertex_ai")  # with a conversation with calls


class RemoteSettings(TypedDict, total=False):
    """The settings that `OpenAIModel` has, too."""

    context_tokens: int | None
    timeout: float
    max_retries: int
    rate_limit: RateLimit | None
    options: Mapping[str, Any] | None


class _Library(Client):
    """Sends requests by litellm; a body has the arguments of its `acompletion`."""

    _of_all: ClassVar[dict[Any, Any]] = {}

    def __init__(self, name: str, **how: Any) -> None:
        super().__init__(name, **how)
        self._held = self._of_all

    def _session(self) -> Any:
        return SimpleNamespace(close=_close)

    async def _send(self, session: Any, method: str, url: str, how: Any, hops: Any) -> Any:
        litellm = await asyncio.to_thread(_imported)
        # Attempts and time are counted by the client: litellm counts them by provider.
        own = {"timeout": self.timeout_s + 60, "max_retries": 0, "num_retries": 0}
        try:
            with connections_checked("litellm"):
                given = await litellm.acompletion(**json.loads(how["data"]), **own)
                if isinstance(given, litellm.ModelResponse):
                    return _answer(200, {}, _json(given))
                first = await anext(given, None)  # some providers are asked only now
                return _answer(200, {}, more=_events(given, first))
        except RemoteForbidden:
            raise
        except Exception as error:
            return self._refusal(error)

    def _refusal(self, error: Any) -> Any:
        """Return the answer of a server that refused a request; raise if there is no answer."""
        chain = [error]
        while (before := chain[-1].__cause__ or chain[-1].__context__) and before not in chain:
            chain.append(before)
        if given := [each.response for each in chain if type(each).__name__ == "HTTPStatusError"]:
            return _answer(given[0].status_code, given[0].headers, given[0].content)
        if any(type(each).__module__.startswith(("httpx", "aiohttp")) for each in chain):
            raise OSError(error_reason(chain[-1])) from None
        status, text = getattr(error, "status_code", 500), error_reason(error)
        if status != 500 and may_pass(status):  # a library tells litellm only the status
            return _answer(status, {}, text.encode())
        if status == 500 and "api_key" not in text:  # a failure of its own, as it reads an answer
            text = f"what {self._where} answered cannot be read; check the address"
        raise ModelError(f"{self.name}: {text}") from error


@names_checked
class LiteLLMModel(RemoteModel):
    """A model of any provider that `litellm` knows, in the provider's own form.

    Without `api_key`, the key comes from the provider's environment variable; a server named by
    `base_url` receives only the key given for it. Unlike `OpenAIModel`, it follows redirects and
    uses the environment's proxies for every address. litellm is imported with the first call.

    Args:
        name: provider and model, such as `anthropic/claude-sonnet-4-5`
        api_key: the key
        base_url: another server; which part of its path to leave out depends on the provider
        max_tokens: how long an answer may be
        temperature: 0 takes the likeliest token each time; the provider decides if left out
        seed: the random seed; a provider without seeds refuses it
        more: `context_tokens`, `timeout`, `max_retries`, `rate_limit`, `options` of `OpenAIModel`

    Raises:
        MissingExtra: the extra `litellm` is not installed
        ModelError: the key holds a character that no key has
        DefinitionError: an argument has a wrong type or value
    """

    own_fields: ClassVar[Iterable[str]] = frozenset(_OWN_FIELDS.split())
    _makes_client: ClassVar[type[Client]] = _Library

    def __init__(
        self,
        name: str,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        max_tokens: int = 4096,
        temperature: float | None = None,
        seed: int | None = None,
        **more: Unpack[RemoteSettings],
    ) -> None:
        MissingExtra.unless("LiteLLMModel", "litellm", "litellm")
        self._of, _, rest = name.partition("/") if isinstance(name, str) else ("", "", "")
        if not self._of or not rest or not name.isprintable():
            raise ConfigError(f"LiteLLMModel: a name must be PROVIDER/NAME, got {name!r:.80}")
        fields: dict[str, Any] = {
            "temperature": temperature,
            "seed": seed,
            "max_tokens": max_tokens,
        }
        if base_url is not None:
            base_url = check_base_url(base_url, "LiteLLMModel: base_url=")
            # Without a key here, litellm would send the provider's own key to this server.
            fields |= {"api_base": base_url, "api_key": api_key or "none"}
        super().__init__(
            f"litellm:{name}",
            base_url,
            api_key,
            PROVIDERS.get(self._of, OTHER),
            where_key="api_key=" if base_url else "api_key=, or the provider's variable",
            model=name,
            max_tokens=max_tokens,
            fields=fields,
            **more,
        )
        if base_url is not None and "context_tokens" not in more:
            self.context_tokens = None  # of another server nothing is known

    async def aclose(self) -> None:
        """Do nothing: all of these models share connections, which end with the event loop."""

    async def _prepare(self, actions: Any) -> None:
        await asyncio.to_thread(_imported)

    def _body(self, request: Request) -> dict[str, Any]:
        body = super()._body(request)
        called = tools_called(request.messages) if self._of in _WANTS_TOOLS else ()
        if called and not request.actions:
            made = [{"name": each["name"], "parameters": each["input_schema"]} for each in called]
            body["tools"] = [{"type": "function", "function": function} for function in made]
            body["tool_choice"] = "none"
        return body

    async def find_context(self) -> int | None:
        """Return the context of the model, by litellm's own list; None if that has none."""
        if self.context_tokens is None and self.base_url is None:
            listed: Any = (await asyncio.to_thread(_imported)).model_cost
            about = listed.get(self.model) or listed.get(self.model.partition("/")[2]) or {}
            self.context_tokens = about.get("max_input_tokens")
        return self.context_tokens

    async def _sent(self, content: bytes, stream: bool) -> Response:
        streamed = b', "stream": true, "stream_options": {"include_usage": true}}'
        body = content[:-1] + streamed if stream else content
        return await self._sent_to(self._server, body, stream)


def _answer(status: int, headers: Any, data: bytes = b"", more: Any = None) -> Any:
    """Return an answer of litellm's as one of aiohttp's."""
    pieces = iter((data,))

    async def readany() -> bytes:
        return next(pieces, b"") if more is None else await anext(more, b"")

    about = {"status": status, "headers": headers, "history": (), "close": lambda: None}
    return SimpleNamespace(content=SimpleNamespace(readany=readany), **about)


async def _events(stream: Any, first: Any) -> AsyncGenerator[bytes]:
    """Yield the events of a streamed answer."""
    try:
        while first is not None:
            # litellm ends a stream that broke off like a complete one.
            ends = any(getattr(each, "finish_reason", None) for each in first.choices)
            if ends and getattr(stream, "received_finish_reason", "stop") is None:
                raise OSError("its end is missing")
            yield b"data: %b\n\n" % _json(first)
            first = await anext(stream, None)
        yield b"data: [DONE]\n\n"
    except Exception as error:
        raise OSError(str(error).rpartition("Exception - ")[2]) from error
    finally:
        with suppress(Exception):
            await stream.aclose()


def _json(given: Any) -> bytes:
    return json.dumps(given.model_dump(warnings=False), default=str).encode()


async def _close() -> None:
    """Close the connections that litellm keeps of the running event loop."""
    kept, loop = _imported().in_memory_llm_clients_cache.cache_dict, asyncio.get_running_loop()
    for key in [each for each in kept if each.endswith(f"-{id(loop)}")]:
        with suppress(Exception):
            await kept.pop(key).close()


class _ClientOfLoop:
    def __getattr__(self, name: str) -> Any:
        from litellm.llms.custom_httpx.http_handler import get_async_httpx_client

        return getattr(get_async_httpx_client("moothall"), name)


@cache
def _imported() -> Any:
    """Return the library, which takes some seconds to import: without fetching or printing."""
    for name in ("LOCAL_MODEL_COST_MAP", "LOCAL_ANTHROPIC_BETA_HEADERS"):
        os.environ.setdefault(f"LITELLM_{name}", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # else it reads the folder's `.env`
    import litellm

    litellm.suppress_debug_info = True
    for logger in map(logging.getLogger, ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")):
        # Its own handler writes whole prompts to standard error; with none, Python's writes.
        logger.handlers[:], logger.propagate = [logging.NullHandler()], False
    litellm.module_level_aclient = _ClientOfLoop()  # else it has one for all loops
    return litellm
