"""Models behind OpenAI's chat interface: OpenAI's own, and those of every compatible server."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Literal, Unpack

from moothall.foundation.arguments import names_checked
from moothall.foundation.errors import ConfigError
from moothall.foundation.http import HTTPError, HTTPResponse
from moothall.foundation.http.server_url import ServerURL
from moothall.models.answer_reader import AnswerReader
from moothall.models.base import ModelRequest
from moothall.models.chat_stream import AnswerStream
from moothall.models.protocol import calls_in
from moothall.models.providers import PROVIDERS, key_of
from moothall.models.refusal import Refusal
from moothall.models.remote.batch_servers import OpenAIBatches
from moothall.models.remote.chat_format import response_format
from moothall.models.remote.context_length import stated_context
from moothall.models.remote.remote import LENGTHS, RemoteModel
from moothall.models.remote.responses_format import (
    is_response,
    responses_fields,
    responses_input,
    responses_tools,
)
from moothall.models.remote.responses_stream import ResponseStream
from moothall.models.remote.server_settings import ServerOptions, ServerSettings
from moothall.models.settings import KeyLike, joined_url, server_of

# Fields of a request that complete() and stream() set themselves.
_OWN_FIELDS = frozenset(
    ("messages", "model", "n", "response_format", "stream", "stream_options", "tools")
)
_RESPONSES_FIELDS = frozenset(("input", "model", "stream"))
_ACCOUNT = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
_ASK_S = 2.0  # for a question about a model
_STREAM_USAGE = re.compile("stream_options|include_usage")
# OpenAI's and Copilot's words for a model that is not spoken to by chat, and Azure's.
_RESPONSES_ONLY = re.compile(
    r"v1/responses|via the /chat/completions|chatCompletion operation does not work with", re.I
)
_NOT_ENCRYPTED = re.compile(r"encrypted content|reasoning\.encrypted_content", re.I)
_OTHER_LENGTH = re.compile(r"max_tokens.{1,60}max_completion_tokens", re.S)


@names_checked
class OpenAIModel(RemoteModel):
    """A model behind OpenAI's chat interface, on OpenAI's own server or any compatible one.

    Without `base_url` the server is OpenAI's (or the one that `OPENAI_BASE_URL` names), and the
    default key is that of `OPENAI_API_KEY`; `provider=` names another provider's server and key.
    Any other server receives only the key given for it, since a key must not go to strangers.

    A transient failure (no connection, no answer in time, 408, 409, 429, 5xx) is retried
    `max_retries` times, after the time that the server asks for in `Retry-After`, or after half a
    second and then twice as long each time. A server that asks for more than two minutes is not
    waited for. Redirects are not followed.

    It may be used from several event loops; each has its own connections, which close when the loop
    ends, by `aclose()`, or at the end of `async with`.

    Args:
        name: the provider's name of the model
        base_url: the server, such as `http://127.0.0.1:8080/v1`; it may end with `?api-version=…`
        api_key: the key; or a function, plain or `async`, that returns it for each request
        context_tokens: how much a prompt and its answer may take together; an agent's memory keeps
            within it. By default that of the provider's model of this name; `find_context` asks
            another server for it
        max_tokens: how long an answer may be, in the field that the server knows (one that
            `options` names); None leaves it to the server, and then no budget has an upper bound
        temperature: 0 takes the likeliest token each time; the server decides if left out
        seed: the random seed, for servers that use it
        timeout: seconds that one attempt may take, to the end of its answer; for a streamed one,
            only the time spent waiting for the server counts
        max_retries: how many more attempts are made
        rate_limit: the limits of the provider; models that are given the same object share them; a
            call counts once, however many attempts it takes
        connections: how many calls run at once in each event loop; others wait
        options: more fields of the request, such as `{"reasoning_effort": "low"}`; with
            `api="responses"`, `tools` are those that OpenAI's server has, beside the actions
        api: `chat` or `responses`, the interface of OpenAI's that is spoken; by default chat, until
            the server says that it takes the request as a response only
        headers: more headers of each request, which replace ours; or a function, plain or `async`,
            that returns them
        provider: whose server and key are used without `base_url`: `azure`, `cerebras`, `deepseek`,
            `gemini`, `groq`, `mistral`, `ollama`, `openai` or `openrouter`
        batch: whether requests made at about the same time are sent as one batch, which is answered
            within a day at half the price; a recorded call finds its batch again after a crash

    Attributes:
        name: its name for `model()`: `PROVIDER:NAME`, or `http://host/v1#NAME`
        max_tokens: the longest answer that a request asks for

    Raises:
        MissingExtra: the extra `openai` is not installed
        ModelError: the provider's own server needs a key, and none is given
        DefinitionError: an argument has a wrong type or value
    """

    own_fields: ClassVar[Iterable[str]] = _OWN_FIELDS
    _IN_WORDS: ClassVar[Mapping[str, str]] = {
        "_api": "the form of the Responses API",
        "_encrypts": "no wish for encrypted reasoning",
        "_streams_usage": "no wish for the usage of a stream",
        "request_fields": "'max_completion_tokens' in place of 'max_tokens'",
    }
    base_url: str

    def __init__(
        self,
        name: str,
        base_url: str | None = None,
        api_key: KeyLike = None,
        *,
        max_tokens: int | None = 4096,
        temperature: float | None = None,
        seed: int | None = None,
        api: Literal["chat", "responses"] | None = None,
        provider: str = "openai",
        **of_server: Unpack[ServerOptions],
    ) -> None:
        if api not in (None, "chat", "responses"):
            raise ConfigError(f"OpenAIModel: api= must be 'chat' or 'responses', got {api!r:.80}")
        if api == "responses":
            self.own_fields = _RESPONSES_FIELDS  # type: ignore[misc]
        address, provider_row = server_of("OpenAIModel", base_url, provider)
        options = of_server.get("options")
        own_options = options if isinstance(options, Mapping) else {}
        limit = next((field for field in LENGTHS if field in own_options), provider_row.length)
        max_tokens = own_options.get(limit, max_tokens)
        variable = "MOOTHALL_KEY of a command" if base_url else PROVIDERS[provider].key
        settings = ServerSettings(
            kind=type(self).__name__,
            name=f"{address}#{name}" if base_url else f"{provider}:{name}",
            base_url=address,
            key=api_key or (None if base_url else key_of(provider)),
            provider=provider_row,
            key_source=f"api_key=, or {variable}" if variable else "api_key=",
            model=name,
            max_tokens=max_tokens,
            # OpenAI's newer models refuse the old field; other servers do not know the new one.
            fields={limit: max_tokens, "temperature": temperature, "seed": seed},
            own_fields=self.own_fields,
            **of_server,
        )
        super().__init__(settings)
        self._api, self._may_switch = api, api is None
        # Until a server says that it cannot.
        self._streams_usage = True
        self._encrypts = True
        self._account: dict[str, str] = {}
        if provider == "openai" and not base_url:  # like the key, they are for OpenAI's server
            account_headers = {header: os.environ.get(name) for header, name in _ACCOUNT.items()}
            self._account = {header: value for header, value in account_headers.items() if value}

    async def find_context(self) -> int | None:
        """Ask the server how much a prompt and its answer may take together; None if it is silent.

        `context_tokens` is set to it, unless it was known. llama.cpp, vLLM and others say it in
        their list of models.

        Raises:
            RemoteForbidden: `MOOTHALL_OFFLINE=1`, and the server is not on this machine
        """
        if self.context_tokens is None:
            ServerURL(self.base_url).check_allowed(self.name)
            with suppress(HTTPError, TimeoutError):
                async with asyncio.timeout(_ASK_S):
                    self.context_tokens = stated_context(await self._get("/models"), self.model)
        return self.context_tokens

    async def _get(self, path: str) -> bytes:
        """Return what the server has at a path; empty if it refuses."""
        url = joined_url(self.base_url, path)
        response = await self._client.request("GET", url, headers=await self._headers())
        return response.content if response.status == 200 else b""

    def _own_headers(self, key: str) -> dict[str, str]:
        if self._provider.key_header and not callable(self._given_key):
            return {self._provider.key_header: key}
        return {"Authorization": f"Bearer {key}"} | self._account

    def _reader(self, content: bytes, request: ModelRequest) -> AnswerReader:
        earlier_call_count = calls_in(request.messages)
        if is_response(content):
            is_read = request.schema is not None
            return ResponseStream(self.name, earlier_call_count, self.base_url, is_read)
        thinking = self.request_fields.get("thinking")  # Z.ai keeps earlier turns' if asked to
        keeps_reasoning = isinstance(thinking, dict) and thinking.get("clear_thinking") is False
        keeps_reasoning |= self._adapter.reasons
        audio = self.request_fields.get("audio")
        format = audio.get("format") if isinstance(audio, dict) else None
        return AnswerStream(self.name, earlier_call_count, self.base_url, keeps_reasoning, format)

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        if self._api != "responses":
            return super()._body(request)
        messages, actions, schema, _ = request
        adapted = self._adapter.adapt_messages(messages)
        items = responses_input(adapted, self.name, self.base_url)
        # The first field tells the form.
        body = {"input": items, **responses_fields(self.request_fields)}
        if actions:
            body["tools"] = [*body.get("tools", ()), *responses_tools(actions)]
        if schema is not None:
            text_format = {"type": "json_schema", **response_format(schema)["json_schema"]}
            body["text"] = {**body.get("text", {}), "format": text_format}
        # What is not stored there comes with the answer, and goes back with the results.
        if body.setdefault("store", False) is False and self._encrypts:
            include = body.get("include") or ()
            body["include"] = list(dict.fromkeys([*include, "reasoning.encrypted_content"]))
        return body

    def _demanded_changes(self, refusal: Refusal, content: bytes) -> dict[str, Any]:
        text, places = refusal.text, [each.place for each in refusal.faults]
        if self._may_switch and not is_response(content) and _RESPONSES_ONLY.search(text):
            return {"_api": "responses"}
        if b'"reasoning.encrypted_content"' in content and (
            "include" in places or _NOT_ENCRYPTED.search(text)
        ):
            return {"_encrypts": False}
        if self._streams_usage and any(map(_STREAM_USAGE.search, (text, *places))):
            return {"_streams_usage": False}
        is_old_length = "max_tokens" in places and "unsupported_parameter" in refusal.kinds
        if b'"max_tokens": ' in content and (is_old_length or _OTHER_LENGTH.search(text)):
            fields = {**self.request_fields}
            fields["max_completion_tokens"] = fields.pop("max_tokens", self.max_tokens)
            return {"request_fields": fields}
        return {}

    async def _send(self, content: bytes, stream: bool) -> HTTPResponse:
        is_responses = is_response(content)
        extra = b', "stream": true' if stream else b""
        if stream and self._streams_usage and not is_responses:
            extra += b', "stream_options": {"include_usage": true}'
        url = joined_url(self.base_url, "/responses" if is_responses else "/chat/completions")
        return await self.send_to(url, content[:-1] + extra + b"}", stream)

    def _batch_server(self) -> OpenAIBatches:
        return OpenAIBatches(self, self.base_url)


def of_provider(
    provider: str, name: str, api_key: KeyLike, **of_server: Unpack[ServerOptions]
) -> OpenAIModel:
    """Return a provider's model of a name."""
    return OpenAIModel(name, api_key=api_key, provider=provider, **of_server)
