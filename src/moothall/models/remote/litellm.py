"""Models of many providers, each in its own form, by the `litellm` library."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from moothall.arguments import check_integer, names_checked
from moothall.errors import ConfigError, MissingExtra, ModelError, RemoteForbidden
from moothall.http import Client, Response, error_reason, may_pass
from moothall.http.network import check_allowed, is_offline
from moothall.models.base import Request
from moothall.models.chat_answer import server_text
from moothall.models.chat_stream import AnswerStream
from moothall.models.providers import OTHER, PROVIDERS
from moothall.models.remote.messages_format import tools_called
from moothall.models.remote.remote import RemoteModel
from moothall.models.settings import check_base_url

if TYPE_CHECKING:
    from moothall.models.remote.rate_limit import RateLimit

# Fields that this class sets itself, and fields that would make litellm bypass it.
_OWN_FIELDS = (
    "api_base api_key base_url callbacks client custom_llm_provider fallbacks max_retries "
    "max_tokens messages mock_response model model_list n num_retries response_format seed stream "
    "stream_options temperature timeout tools"
)
_WANTS_TOOLS = frozenset(("anthropic", "bedrock", "vertex_ai"))  # with a conversation with calls
# Prefixes that litellm adds to a server's error text, and what it adds after the text.
_AROUND = re.compile(r"(?:(?:litellm\.)?[A-Za-z]+(?:Error|Exception|Timeout) ?[:-] )+")
_AFTER = re.compile(r"\s*(?:Handle with `|Received Messages=|Traceback \(most|Original exception:)")
# The refusals of connections, within a request of litellm.
_refused: ContextVar[list[RemoteForbidden] | None] = ContextVar("_refused", default=None)


@names_checked
class LiteLLMModel(RemoteModel):
    """A model of any provider that `litellm` knows, in the provider's own form.

    Without `api_key`, the key comes from the provider's environment variable, such as
    `ANTHROPIC_API_KEY`; a server named by `base_url` receives only the key given for it.

    It differs from `OpenAIModel` in this: it follows redirects and uses the environment's proxies
    for every address, and all of these models share connections, which end with the event loop.
    litellm is imported with the first call, without a network and without reading a `.env`.

    Args:
        name: provider and model, such as `anthropic/claude-sonnet-4-5`
        api_key: the key
        base_url: another server with the provider's interface; which part of its path to leave out
            depends on the provider
        context_tokens: how much a prompt and its answer may take together, if you know it
        max_tokens: how long an answer may be
        temperature: 0 takes the likeliest token each time; the provider decides if left out
        seed: the random seed; a provider without seeds refuses it
        timeout: seconds that one attempt may take, to the end of its answer
        max_retries: how many more attempts are made
        rate_limit: the limits of the provider; models that are given the same object share them
        options: more arguments of litellm's `completion`, such as `{"reasoning_effort": "low"}`

    Attributes:
        name: its name for `model()`: `litellm:PROVIDER/NAME`

    Raises:
        MissingExtra: the extra `litellm` is not installed
        ModelError: the key holds a character that no key has
        DefinitionError: an argument has a wrong type or value
    """

    own_fields: ClassVar[Iterable[str]] = frozenset(_OWN_FIELDS.split())

    def __init__(
        self,
        name: str,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        context_tokens: int | None = None,
        max_tokens: int = 4096,
        temperature: float | None = None,
        seed: int | None = None,
        timeout: float = 600.0,
        max_retries: int = 2,
        rate_limit: RateLimit | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        MissingExtra.unless("LiteLLMModel", "litellm", "litellm")
        provider, _, rest = name.partition("/") if isinstance(name, str) else ("", "", "")
        if not provider or not rest or not name.isprintable():
            raise ConfigError(f"LiteLLMModel: a name must be PROVIDER/NAME, got {name!r:.80}")
        check_integer("LiteLLMModel: max_tokens=", max_tokens)
        if base_url is not None:
            base_url = check_base_url(base_url, "LiteLLMModel: base_url=")
        self.provider: str = provider
        super().__init__(
            f"litellm:{name}",
            base_url,
            api_key,
            PROVIDERS.get(provider, OTHER),
            where_key="api_key="
            if base_url
            else "api_key=, or the provider's environment variable",
            model=name,
            context_tokens=context_tokens,
            max_tokens=max_tokens,
            timeout=timeout,
            max_retries=max_retries,
            rate_limit=rate_limit,
            options=options,
            fields={
                "max_tokens": max_tokens,
                "temperature": temperature,
                "seed": seed,
                "api_base": base_url,
                # Without a key here, litellm would send the provider's own key to this server.
                "api_key": api_key or (base_url and "none"),
            },
        )
        if base_url is not None:
            self.context_tokens = context_tokens  # of another server nothing is known

    def __repr__(self) -> str:
        return f"LiteLLMModel({self.model!r}, base_url={self.base_url!r})"

    def _made_client(self, connections: int, max_bytes: int) -> Client:
        return _Library(
            self.name,
            where=self.base_url or self.provider,
            timeout_s=self.timeout,
            max_retries=self._max_retries,
            extra="litellm",
        )

    def _check_allowed(self) -> None:
        check_allowed(self.base_url or f"https://{self.provider}", self.name)

    def _body(self, request: Request) -> dict[str, Any]:
        body = super()._body(request)
        if not request.actions and self.provider in _WANTS_TOOLS:
            called = tools_called(request.messages)
            made = [{"name": each["name"], "parameters": each["input_schema"]} for each in called]
            tools = [{"type": "function", "function": function} for function in made]
            body |= {"tools": tools, "tool_choice": "none"} if tools else {}
        return body

    async def find_context(self) -> int | None:
        """Return what litellm's own list says that a prompt may have; None if it does not know.

        `context_tokens` is set to it, unless it was known. Nothing is sent to the provider.
        """
        if self.context_tokens is None and self.base_url is None:
            listed: Any = (await asyncio.to_thread(_imported)).model_cost
            about = listed.get(self.model) or listed.get(self.model.partition("/")[2]) or {}
            most = about.get("max_input_tokens")
            self.context_tokens = most if type(most) is int and most > 0 else None
        return self.context_tokens

    def _own_headers(self, key: str) -> dict[str, str]:
        return {}  # litellm adds the provider's

    def _reader(self, content: bytes, calls_before: int) -> AnswerStream:
        return AnswerStream(self.name, calls_before, self._server)

    async def _sent(self, content: bytes, stream: bool) -> Response:
        streamed = b', "stream": true, "stream_options": {"include_usage": true}}'
        body = content[:-1] + streamed if stream else content
        return await self._sent_to(self.base_url or self.provider, body, stream)


class _Library(Client):
    """Sends requests by litellm; a body has the arguments of its `acompletion`."""

    _of_all: ClassVar[dict[Any, Any]] = {}

    def __init__(self, name: str, **how: Any) -> None:
        super().__init__(name, **how)
        self._held = self._of_all

    async def prepare(self) -> None:
        """Import litellm."""
        await asyncio.to_thread(_imported)

    async def aclose(self) -> None:
        """Do nothing: other models may be using the connections."""

    def _session(self) -> Any:
        return _Connections(f"-{id(asyncio.get_running_loop())}")

    async def _send(self, session: Any, method: str, url: str, how: Any, hops: Any) -> Any:
        litellm = await asyncio.to_thread(_imported)
        if is_offline():
            _check_connections()
        refused = list[RemoteForbidden]()
        asked, token = json.loads(how["data"]), _refused.set(refused)
        # Attempts and time are counted by the client: litellm counts them by provider.
        asked |= {"timeout": self.timeout_s + 60, "max_retries": 0, "num_retries": 0}
        try:
            given = await litellm.acompletion(**asked)
            if "stream" not in asked:
                return _Answer(200, {"content-type": "application/json"}, _json(given))
            # Some providers are asked only now.
            return _Answer(200, {}, b"", _events(given, await anext(given, None)))
        except Exception as error:
            if refused:
                raise refused[0] from None
            return self._refusal(error)
        finally:
            _refused.reset(token)

    def _refusal(self, error: Exception) -> _Answer:
        """Return the answer of a server that refused a request; raise if there is no answer."""
        chain: list[Any] = [error]
        while (before := chain[-1].__cause__ or chain[-1].__context__) and before not in chain:
            chain.append(before)
        for each in chain:
            if type(each).__name__ == "HTTPStatusError":
                given = each.response
                return _Answer(given.status_code, given.headers, given.content)
        if any(type(each).__module__.startswith(("httpx", "aiohttp")) for each in chain):
            raise OSError(error_reason(chain[-1])) from None
        # litellm reports a failure of its own, as it reads an answer, as a 500.
        status, text = getattr(error, "status_code", 500), _text_of(error)
        if status != 500 and may_pass(status):  # a library tells litellm only the status
            return _Answer(status, {}, text.encode())
        if "LLM Provider NOT provided" in text:
            text = "litellm knows no such provider"
        elif "`api_key`" in text:  # OpenAI's own client has no key
            text = "there is no key: set OPENAI_API_KEY, or pass api_key="
        elif status == 500:
            text = f"what {self._where} answered cannot be read; check the address"
        raise ModelError(f"{self.name}: {text}") from error


class _Answer:
    """What litellm gave, as an answer of aiohttp."""

    history = ()

    def __init__(self, status: int, headers: Any, data: bytes, more: Any = None) -> None:
        self.status, self.headers, self.content = status, headers, self
        self._data, self._more = data, more

    async def readany(self) -> bytes:
        data, self._data = self._data, b""
        return data if data or self._more is None else await anext(self._more, b"")

    def close(self) -> None:
        self._more = None  # the event loop closes a generator that nobody holds


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
        raise OSError(_text_of(error)) from error
    finally:
        with suppress(Exception):
            await stream.aclose()


def _json(given: Any) -> bytes:
    return json.dumps(given.model_dump(warnings=False), default=str).encode()


def _text_of(error: Exception) -> str:
    text = server_text(_AFTER.split(_AROUND.sub("", str(error)), maxsplit=1)[0])
    with suppress(ValueError, RecursionError):
        text = server_text(json.loads(text))
    return text


class _Connections:
    """What litellm keeps of one event loop."""

    def __init__(self, of_loop: str) -> None:
        self._of_loop = of_loop

    async def close(self) -> None:
        kept = _imported().in_memory_llm_clients_cache.cache_dict
        for key in [each for each in kept if each.endswith(self._of_loop)]:
            with suppress(Exception):
                await kept.pop(key).close()


class _ClientOfLoop:
    def __getattr__(self, name: str) -> Any:
        from litellm.llms.custom_httpx.http_handler import get_async_httpx_client

        return getattr(get_async_httpx_client("moothall"), name)


@cache
def _check_connections() -> None:
    """Have each connection of litellm checked from now on, also of a redirect or a proxy."""

    def check(event: str, args: tuple[Any, ...]) -> None:
        refused = _refused.get() if event == "socket.connect" else None
        if refused is not None and isinstance(args[1], tuple):
            host = str(args[1][0])
            try:
                check_allowed(f"tcp://[{host}]" if ":" in host else f"tcp://{host}", "litellm")
            except RemoteForbidden as error:
                refused.append(error)
                raise OSError(str(error)) from None  # then the socket is closed

    sys.addaudithook(check)


@cache
def _imported() -> Any:
    """Return the library, which takes some seconds to import."""
    # By default it fetches these lists from the network; those that it includes suffice.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
    # Otherwise it reads the `.env` of the current folder into the environment.
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    import litellm

    litellm.suppress_debug_info = True  # else printed with every error
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logger = logging.getLogger(name)
        # Its own handler writes whole prompts to standard error; with none, Python's writes.
        logger.handlers[:] = [logging.NullHandler()]
        logger.propagate = False
    litellm.module_level_aclient = _ClientOfLoop()  # else it has one for all loops
    return litellm
