"""Models of many providers, each in its own form, by the `litellm` library."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from civitas.arguments import check_count, names_checked
from civitas.errors import (
    DefinitionError,
    MissingExtra,
    ModelError,
    RemoteForbidden,
)
from civitas.http import LONGEST_WAIT_S, error_reason, may_pass, retry_after_s
from civitas.http.network import check_allowed, is_offline
from civitas.models.protocol import StreamPart
from civitas.models.remote.chat_answer import read_answer, said
from civitas.models.remote.chat_stream import AnswerStream
from civitas.models.remote.litellm_loop import LOOP, imported
from civitas.models.remote.remote import RemoteModel, tried

if TYPE_CHECKING:
    from civitas.models.wrappers.rate_limit import RateLimit

# What a call itself says, and what would have litellm go around it.
_OWN_FIELDS = frozenset(
    (
        *("api_base", "api_key", "base_url", "callbacks", "client", "custom_llm_provider"),
        *("fallbacks", "max_retries", "max_tokens", "messages", "mock_response", "model"),
        *("model_list", "n", "num_retries", "response_format", "seed", "stream"),
        *("stream_options", "temperature", "timeout", "tools"),
    )
)
# Those that speak to `base_url` and to nobody else. Others may fetch tokens elsewhere first.
_SPEAKS_TO_ITS_URL_ONLY = frozenset(
    (
        *("anthropic", "custom_openai", "hosted_vllm", "llamafile", "lm_studio", "ollama"),
        *("ollama_chat", "openai", "openai_like"),
    )
)
# Those that take no conversation with calls in it unless they are told what could be called.
_WANTS_TOOLS = frozenset(("anthropic", "bedrock", "vertex_ai"))
# What litellm puts around what a server said.
_AROUND = re.compile(r"(?:(?:litellm\.)?[A-Za-z]+(?:Error|Exception|Timeout) ?[:-] )+")
_AFTER = re.compile(r"\s*(?:Handle with `|Received Messages=|Traceback \(most|Original exception:)")


@names_checked
class LiteLLMModel(RemoteModel):
    """A model of any provider that `litellm` knows, in the provider's own form.

    Keys come from the provider's environment variable, such as `ANTHROPIC_API_KEY`, if none is
    given; a server named by `base_url` gets only the key that is given for it.

    An attempt that fails in a way that may pass (no connection, no answer in time, 408, 409, 429,
    5xx) is made again, `max_retries` times, after the time that the server asks for, or half a
    second and then twice as long each time; a stream, as long as nothing of it has come. A server
    that asks for more than two minutes is not waited for.

    It may be used from several threads and event loops: what litellm does, it does in a thread of
    its own, where its connections are kept for all of these models, until the process ends. It
    loads with the first call, without a network and without reading a `.env`, and sends nothing to
    anyone but the provider. Unlike `OpenAIModel`, it follows redirects and uses the proxies of the
    environment for every address.

    Args:
        name: provider and model, such as `anthropic/claude-sonnet-4-5`
        api_key: the key
        base_url: another server that speaks the provider's form; what is left out of its path
            differs from provider to provider
        context_tokens: how much a prompt and its answer may take together, where you know it
        max_tokens: how long an answer may be
        temperature: 0 takes the likeliest token each time; the provider decides if left out
        seed: of the draws; a provider without one refuses it
        timeout: seconds that one attempt may take, to the end of its answer
        max_retries: how many more attempts are made
        rate_limit: the limits of the provider, shared with others by sharing the object
        options: more arguments of litellm's `completion`, such as `{"reasoning_effort": "low"}`

    Attributes:
        name: what `model()` takes for it: `litellm:PROVIDER/NAME`

    Raises:
        MissingExtra: the extra `litellm` is not installed
        ModelError: the key holds a character that no key has
        DefinitionError: an argument is not what it should be
    """

    own_fields = _OWN_FIELDS
    variable = "the provider's environment variable"

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
            raise DefinitionError(f"LiteLLMModel: a name must be PROVIDER/NAME, got {name!r:.80}")
        check_count("LiteLLMModel", "max_tokens", max_tokens)
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
        )
        self.model = name
        self.provider = provider
        self._fields: dict[str, Any] = {
            **(options or {}),
            "model": name,
            "max_tokens": max_tokens,
            "timeout": timeout,
            # Attempts are counted here: litellm's own retries differ from provider to provider.
            "max_retries": 0,
            "num_retries": 0,
        }
        if self.base_url is not None:
            # Without one, litellm would hand the provider's own key to this server.
            self._fields |= {"api_base": self.base_url, "api_key": api_key or "none"}
        elif api_key is not None:
            self._fields["api_key"] = api_key
        for field, about in (("temperature", temperature), ("seed", seed)):
            if about is not None:
                self._fields[field] = about
        MissingExtra.unless("LiteLLMModel", "litellm", "litellm")

    def __repr__(self) -> str:
        return f"LiteLLMModel({self.model!r}, base_url={self.base_url!r})"

    def _check_allowed(self, messages: list[dict[str, Any]]) -> None:
        check_allowed(self.base_url or f"https://{self.provider}", self.name)
        if not is_offline():
            return
        if self.provider not in _SPEAKS_TO_ITS_URL_ONLY:
            raise RemoteForbidden(
                f"{self.name}: CIVITAS_OFFLINE=1 forbids it: {self.provider} may call others than "
                f"base_url=; those that do not are {', '.join(sorted(_SPEAKS_TO_ITS_URL_ONLY))}"
            )
        for message in messages:
            content = message.get("content") if isinstance(message, Mapping) else None
            if isinstance(content, list) and any(map(_has_link, content)):
                raise RemoteForbidden(
                    f"{self.name}: CIVITAS_OFFLINE=1 forbids links in blocks of content, because "
                    "litellm may fetch them; give the data itself"
                )

    def _fields_of(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        if self.provider in _WANTS_TOOLS and (called := _called(messages)):
            return {"tools": called, "tool_choice": "none"}
        return {}

    async def _asked(
        self, content: bytes, calls_before: int, stream: bool
    ) -> AsyncGenerator[StreamPart, None]:
        litellm = await asyncio.to_thread(imported)  # it takes some seconds
        request = {**json.loads(content), **self._fields}
        if stream:
            request |= {"stream": True, "stream_options": {"include_usage": True}}

        async def ask() -> AsyncIterator[StreamPart]:
            for attempt in range(self._max_retries + 1):
                answer = AnswerStream(self.name, calls_before)
                begun = False
                response: Any = None
                try:
                    async with asyncio.timeout(self.timeout):
                        response = await litellm.acompletion(**request)
                        if stream:
                            async for chunk in response:
                                for piece in answer.take(chunk.model_dump()):
                                    begun = True
                                    yield piece
                    break
                except Exception as error:
                    if begun:
                        raise self._broke_off(error) from error
                    await self._after(error, attempt)
                finally:
                    close = getattr(getattr(response, "completion_stream", None), "close", None)
                    close = close or getattr(response, "aclose", None)
                    if stream and close is not None:
                        await _closed(close)
            # litellm ends a stream that broke off as if it had come to its end.
            if getattr(response, "received_finish_reason", "stop") is None:
                raise ModelError(f"{self.name}: the answer broke off")
            whole = [] if stream else [read_answer(response.model_dump(), self.name, calls_before)]
            for part in answer.end() if stream else whole:
                yield part

        async with aclosing(LOOP.stream(ask)) as parts:
            async for part in parts:
                yield part

    # -- what comes back ---------------------------------------------------------------------------

    async def _after(self, error: Exception, attempt: int) -> None:
        """Wait before the next attempt, or raise what this one failed with."""
        _raise_forbidden(error)
        response = _response(error)
        # A failure in litellm's own code, as it reads an answer, is a 500 of its own making.
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
        """What an attempt failed with, in one line that names the model."""
        if response is not None:
            return self._refused(response.status_code, response.text, response.headers, tries)
        where = self.base_url or self.provider
        text = _said(error)
        if _is_late(error):
            text = f"{where} gave no answer within {self.timeout:g} s{tried(tries)}"
        elif _is_lost(error):
            reason = error_reason(_chain(error)[-1])
            return self._lost(f"no answer from {where}: {reason}{tried(tries)}")
        elif "LLM Provider NOT provided" in text:
            text = f"litellm knows no provider {self.provider!r}"
        elif "`api_key`" in text:  # of OpenAI's own client, which was given none
            text = "there is no key: set OPENAI_API_KEY, or pass api_key="
        elif (status := getattr(error, "status_code", 500)) == 500:
            text = f"what {where} answered cannot be read"
        elif may_pass(status):  # of a library that tells litellm no more than this
            return self._refused(status, text, {}, tries)
        return ModelError(self._hidden(f"{self.name}: {text}"))

    def _broke_off(self, error: Exception) -> ModelError:
        _raise_forbidden(error)
        reason = f"the answer broke off: {_said(error)}"
        if _is_late(error):
            reason = f"the answer took longer than {self.timeout:g} s"
        return ModelError(self._hidden(f"{self.name}: {reason}"))


def _said(error: Exception) -> str:
    """What an error of litellm's own says, without what stands around it."""
    text = said(_AFTER.split(_AROUND.sub("", str(error)), maxsplit=1)[0])
    with suppress(ValueError, RecursionError):
        text = said(json.loads(text))
    return text


def _called(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = {call["name"] for each in messages for call in each.get("tool_calls") or ()}
    about = {"description": "", "parameters": {"type": "object", "properties": {}}}
    return [{"type": "function", "function": about | {"name": name}} for name in sorted(names)]


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


def _response(error: BaseException) -> Any:
    """The server's own refusal, which litellm wraps in errors of its own; None if there is none."""
    refused = [each for each in _chain(error) if type(each).__name__ == "HTTPStatusError"]
    return getattr(refused[0], "response", None) if refused else None


def _is_late(error: BaseException) -> bool:
    return isinstance(error, TimeoutError) or type(error).__name__ == "Timeout"


def _is_lost(error: BaseException) -> bool:
    """Whether there was no connection, or it broke."""
    of_http = ("httpx", "aiohttp")
    return any(
        isinstance(each, OSError) or type(each).__module__.startswith(of_http)
        for each in _chain(error)
    )


def _raise_forbidden(error: BaseException) -> None:
    for each in _chain(error):
        if isinstance(each, RemoteForbidden):
            raise each from None


async def _closed(close: Any) -> None:
    try:
        await close()
    except Exception:
        logging.getLogger(__name__).debug("a stream could not be closed", exc_info=True)
