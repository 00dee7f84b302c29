"""Models of many providers, each in its own form, by the `litellm` library."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, ClassVar

from moothall.arguments import check_integer, names_checked
from moothall.errors import ConfigError, MissingExtra, ModelError, RemoteForbidden
from moothall.http import LONGEST_WAIT_S, error_reason, may_pass, retry_after_s, tried
from moothall.http.network import check_allowed, is_offline
from moothall.models.chat_answer import server_text
from moothall.models.chat_stream import AnswerStream
from moothall.models.protocol import StreamPart
from moothall.models.remote.litellm_loop import LOOP, imported
from moothall.models.remote.remote import RemoteModel
from moothall.models.remote.schema_form import SchemaForms
from moothall.models.settings import check_base_url

if TYPE_CHECKING:
    from moothall.action import Action
    from moothall.models.remote.rate_limit import RateLimit

# Fields that this class sets itself, and fields that would make litellm bypass it.
_OWN_FIELDS = frozenset(
    (
        *("api_base", "api_key", "base_url", "callbacks", "client", "custom_llm_provider"),
        *("fallbacks", "max_retries", "max_tokens", "messages", "mock_response", "model"),
        *("model_list", "n", "num_retries", "response_format", "seed", "stream"),
        *("stream_options", "temperature", "timeout", "tools"),
    )
)
# Providers that connect to `base_url` only. Others may fetch tokens elsewhere first.
_SPEAKS_TO_ITS_URL_ONLY = frozenset(
    (
        *("anthropic", "custom_openai", "hosted_vllm", "llamafile", "lm_studio", "ollama"),
        *("ollama_chat", "openai", "openai_like"),
    )
)
# Providers that accept a conversation with calls only together with a list of tools.
_WANTS_TOOLS = frozenset(("anthropic", "bedrock", "vertex_ai"))
# Prefixes that litellm adds to a server's error text.
_AROUND = re.compile(r"(?:(?:litellm\.)?[A-Za-z]+(?:Error|Exception|Timeout) ?[:-] )+")
_AFTER = re.compile(r"\s*(?:Handle with `|Received Messages=|Traceback \(most|Original exception:)")


@names_checked
class LiteLLMModel(RemoteModel):
    """A model of any provider that `litellm` knows, in the provider's own form.

    Without `api_key`, the key comes from the provider's environment variable, such as
    `ANTHROPIC_API_KEY`; a server named by `base_url` receives only the key given for it.

    A transient failure is retried as by `OpenAIModel`; a stream only before its first piece.

    It may be used from several threads and event loops: litellm runs in its own thread, which keeps
    its connections for all of these models until the process ends. litellm is imported with the
    first call, without a network and without reading a `.env`, and sends data to the provider only.
    Unlike `OpenAIModel`, it follows redirects and uses the proxies of the environment for every
    address.

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

    own_fields: ClassVar[Iterable[str]] = _OWN_FIELDS
    where_key: str = "api_key=, or the provider's environment variable"

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
        provider, slash, rest = name.partition("/") if isinstance(name, str) else ("", "", "")
        if not provider or not slash or not rest or not name.isprintable():
            raise ConfigError(f"LiteLLMModel: a name must be PROVIDER/NAME, got {name!r:.80}")
        check_integer("LiteLLMModel: max_tokens=", max_tokens)
        if base_url is not None:
            base_url = check_base_url(base_url, "LiteLLMModel: base_url=")
        super().__init__(
            f"litellm:{name}",
            base_url,
            api_key,
            context_tokens=context_tokens,
            max_tokens=max_tokens,
            timeout=timeout,
            max_retries=max_retries,
            rate_limit=rate_limit,
            options=options,
            fields={
                "model": name,
                "max_tokens": max_tokens,
                "temperature": temperature,
                "seed": seed,
                "timeout": timeout,
                # Attempts are counted here, since litellm's own retries differ between providers.
                "max_retries": 0,
                "num_retries": 0,
                "api_key": api_key,
            },
        )
        self._forms = SchemaForms(provider in ("anthropic", "azure", "openai"))
        self.model = name
        self.provider = provider
        if self.base_url is not None:
            # Without a key here, litellm would send the provider's own key to this server.
            self._fields |= {"api_base": self.base_url, "api_key": api_key or "none"}
            self.where_key = "api_key="
            self.context_tokens = context_tokens  # of another server nothing is known
        MissingExtra.unless("LiteLLMModel", "litellm", "litellm")

    def __repr__(self) -> str:
        return f"LiteLLMModel({self.model!r}, base_url={self.base_url!r})"

    def _check_allowed(self, messages: list[dict[str, Any]]) -> None:
        check_allowed(self.base_url or f"https://{self.provider}", self.name)
        if not is_offline():
            return
        if self.provider not in _SPEAKS_TO_ITS_URL_ONLY:
            raise RemoteForbidden(
                f"{self.name}: MOOTHALL_OFFLINE=1 forbids it: {self.provider} may call others than "
                f"base_url=; those that do not are {', '.join(sorted(_SPEAKS_TO_ITS_URL_ONLY))}"
            )
        for message in messages:
            content = message.get("content") if isinstance(message, Mapping) else None
            if isinstance(content, list) and any(map(_has_link, content)):
                raise RemoteForbidden(
                    f"{self.name}: MOOTHALL_OFFLINE=1 forbids links in blocks of content, because "
                    "litellm may fetch them; give the data itself"
                )

    def _fields_of(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        called = {call["name"] for each in messages for call in each.get("tool_calls") or ()}
        if not called or self.provider not in _WANTS_TOOLS:
            return {}
        about = {"description": "", "parameters": {"type": "object", "properties": {}}}
        functions = [about | {"name": name} for name in sorted(called)]
        tools = [{"type": "function", "function": function} for function in functions]
        return {"tools": tools, "tool_choice": "none"}

    async def find_context(self) -> int | None:
        """Return what litellm's own list says that a prompt may have; None if it does not know.

        `context_tokens` is set to it, unless it was known. Nothing is sent to the provider.
        """
        if self.context_tokens is None and self.base_url is None:
            listed: Any = (await asyncio.to_thread(imported)).model_cost
            about = listed.get(self.model) or listed.get(self.model.partition("/")[2]) or {}
            most = about.get("max_input_tokens")
            self.context_tokens: int | None = most if type(most) is int and most > 0 else None
        return self.context_tokens

    async def _prepare(self, actions: list[Action] | None) -> None:
        await asyncio.to_thread(imported)

    async def _asked(
        self, content: bytes, calls_before: int, stream: bool
    ) -> AsyncGenerator[StreamPart, None]:
        litellm = await asyncio.to_thread(imported)  # the import takes some seconds
        request = {**json.loads(content), **self._fields}
        if stream:
            request |= {"stream": True, "stream_options": {"include_usage": True}}

        async def ask() -> AsyncIterator[StreamPart]:
            for attempt in range(self._max_retries + 1):
                answer = AnswerStream(self.name, calls_before, self._server)
                begun = False
                response: Any = None
                try:
                    async with asyncio.timeout(self.timeout):
                        response = await litellm.acompletion(**request)
                        if stream:
                            async for chunk in response:
                                for piece in answer.take(chunk.model_dump(warnings=False)):
                                    begun = True
                                    yield piece
                    break
                except Exception as error:
                    if begun:
                        reason = f"the answer broke off: {_error_text(error)}"
                        if _is_late(error):
                            reason = f"the answer took longer than {self.timeout:g} s"
                        raise ModelError(self._hidden(f"{self.name}: {reason}")) from error
                    await self._after(error, attempt)
                finally:
                    close = getattr(getattr(response, "completion_stream", None), "close", None)
                    close = close or getattr(response, "aclose", None)
                    if stream and close is not None:
                        with suppress(Exception):
                            await close()
            # litellm ends a stream that broke off like a complete one.
            if getattr(response, "received_finish_reason", "stop") is None:
                raise ModelError(f"{self.name}: the answer broke off")
            if not stream:
                for piece in answer.take_whole(response.model_dump(warnings=False)):
                    yield piece
            for part in answer.end():
                yield part

        async with aclosing(LOOP.stream(ask)) as parts:
            async for part in parts:
                yield part

    # -- errors ------------------------------------------------------------------------------------

    async def _after(self, error: Exception, attempt: int) -> None:
        """Wait before the next attempt, or raise the error of this one."""
        for each in _chain(error):
            if isinstance(each, RemoteForbidden):
                raise each from None
        # The server's refusal, which litellm wraps in its own errors.
        refused = (each for each in _chain(error) if type(each).__name__ == "HTTPStatusError")
        response = getattr(next(refused, None), "response", None)
        # litellm reports a failure in its own code, as it reads an answer, as a 500.
        status = getattr(error, "status_code", 500)
        again = _is_late(error) or _is_lost(error) or (may_pass(status) and status != 500)
        asked_s = None
        if response is not None:
            again, asked_s = may_pass(response.status_code), retry_after_s(response.headers)
        wait_s = 0.5 * 2**attempt if asked_s is None else asked_s
        if not again or attempt == self._max_retries or wait_s > LONGEST_WAIT_S:
            raise self._failed(error, response, attempt + 1) from error
        await asyncio.sleep(wait_s)

    def _failed(self, error: Exception, response: Any, tries: int) -> ModelError:
        """Return the error of an attempt, in one line that names the model."""
        if response is not None:
            return self._refused(response.status_code, response.text, response.headers, tries)
        where = self.base_url or self.provider
        text = _error_text(error)
        if _is_late(error):
            text = f"{where} gave no answer within {self.timeout:g} s{tried(tries)}"
        elif _is_lost(error):
            reason = error_reason(_chain(error)[-1])
            return self._lost(f"no answer from {where}: {reason}{tried(tries)}")
        elif "LLM Provider NOT provided" in text:
            text = f"litellm knows no provider {self.provider!r}"
        elif "`api_key`" in text:  # OpenAI's own client has no key
            text = "there is no key: set OPENAI_API_KEY, or pass api_key="
        elif (status := getattr(error, "status_code", 500)) == 500:
            text = f"what {where} answered cannot be read"
        elif may_pass(status):  # a library tells litellm only the status
            return self._refused(status, text, {}, tries)
        return ModelError(self._hidden(f"{self.name}: {text}"))


def _error_text(error: Exception) -> str:
    text = server_text(_AFTER.split(_AROUND.sub("", str(error)), maxsplit=1)[0])
    with suppress(ValueError, RecursionError):
        text = server_text(json.loads(text))
    return text


def _has_link(block: Any) -> bool:
    if isinstance(block, str):
        return block.lstrip().lower().startswith(("http:", "https:", "gs:", "s3:", "file:"))
    if isinstance(block, Mapping):
        return any(_has_link(value) for key, value in block.items() if key != "text")
    return isinstance(block, list) and any(map(_has_link, block))


def _chain(error: BaseException) -> list[BaseException]:
    chain = [error]
    while (earlier := chain[-1].__cause__ or chain[-1].__context__) and earlier not in chain:
        chain.append(earlier)
    return chain


def _is_late(error: BaseException) -> bool:
    return isinstance(error, TimeoutError) or type(error).__name__ == "Timeout"


def _is_lost(error: BaseException) -> bool:
    """Return whether there was no connection, or it broke."""
    of_http = ("httpx", "aiohttp")
    return any(
        isinstance(each, OSError) or type(each).__module__.startswith(of_http)
        for each in _chain(error)
    )
