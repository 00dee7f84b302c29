"""Models behind Anthropic's Messages API: Anthropic's own, and those of compatible servers."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, Unpack

from moothall.foundation.arguments import check_boolean, names_checked
from moothall.foundation.errors import ConfigError
from moothall.foundation.http import HTTPResponse
from moothall.models.base import ModelRequest
from moothall.models.protocol import ModelReply, StreamPart, calls_in
from moothall.models.providers import PROVIDERS, key_of
from moothall.models.refusal import Refusal
from moothall.models.remote.adapting import Adaptations
from moothall.models.remote.batch_servers import AnthropicBatches
from moothall.models.remote.chat_format import may_be_strict
from moothall.models.remote.messages_format import (
    lacks_thought,
    messages_body,
    messages_tools,
    think_first,
    tools_called,
)
from moothall.models.remote.messages_stream import (
    PAUSED,
    MessageStream,
    continued_request,
    joined_replies,
)
from moothall.models.remote.remote import RemoteModel
from moothall.models.remote.schema_form import SchemaForms
from moothall.models.remote.server_settings import ServerOptions, ServerSettings
from moothall.models.settings import KeyLike, joined_url, server_of

_MAX_PAUSES = 16  # of a turn in which the server's own tools work
# What it says of a call that another model made, once this one reasons.
_THOUGHT_FIRST = re.compile(
    "expected .?thinking.{0,60}found|must start with a thinking block", re.I
)
_VERSION = "2023-06-01"  # the version of the API whose form this is; a version is kept as it is
# Fields of a request that complete() and stream() set themselves.
_OWN_FIELDS = frozenset(("cache_control", "max_tokens", "messages", "model", "stream", "system"))


@names_checked
class AnthropicModel(RemoteModel):
    """A model behind Anthropic's Messages API, on Anthropic's own server or a compatible one.

    Without `base_url` the server is Anthropic's (or the one that `ANTHROPIC_BASE_URL` names), and
    the default key is that of `ANTHROPIC_API_KEY`. Any other server receives only the key given
    for it. Retries, connections and event loops are as with `OpenAIModel`.

    `options={"tools": […]}` adds tools that Anthropic's server has, such as its web search, to the
    agent's actions; a turn that the server pauses for them is continued.

    Blocks of reasoning go back to the model unchanged while the calls of its answer are executed,
    as the API wants it; ask for reasoning by `options={"thinking": …}`. A schema that the API can
    enforce is sent as one; any other is stated in words.

    Args:
        name: the provider's name of the model
        base_url: the server, such as `http://127.0.0.1:8080`; `/v1/messages` is added
        api_key: the key; or a function, plain or `async`, that returns it for each request
        max_tokens: how long an answer may be, reasoning included
        temperature: 0 takes the likeliest token each time; the server decides if left out
        cache: let the provider keep the prompt for a few minutes, so that the next call of the
            same conversation costs less; storing it costs more, by the provider's price of
            `cache_write`, which your `Price` should state
        **of_server: `timeout`, `max_retries`, `rate_limit`, `connections`, `batch` and the others
            of `OpenAIModel`, such as `headers={"anthropic-beta": …}` and
            `options={"thinking": {"type": "enabled", "budget_tokens": 2000}}`

    Attributes:
        name: its name for `model()`: `anthropic:NAME`
        max_tokens: the longest answer that a request asks for

    Raises:
        MissingExtra: the extra `openai`, which brings the HTTP client, is not installed
        ModelError: Anthropic's own server needs a key, and none is given
        ConfigError: an argument has a wrong type or value
    """

    _takes_texts = True
    own_fields: ClassVar[Iterable[str]] = _OWN_FIELDS
    _IN_WORDS: ClassVar[Mapping[str, str]] = {
        "_wants_thoughts": "no wish for reasoning after calls of another model"
    }
    base_url: str

    def __init__(
        self,
        name: str,
        base_url: str | None = None,
        api_key: KeyLike = None,
        *,
        max_tokens: int = 4096,
        temperature: float | None = None,
        cache: bool = False,
        **of_server: Unpack[ServerOptions],
    ) -> None:
        if max_tokens is None:
            raise ConfigError("AnthropicModel: max_tokens= must be a number of tokens, got None")
        check_boolean("AnthropicModel: cache=", cache)
        address, provider = server_of("AnthropicModel", base_url, "anthropic")
        settings = ServerSettings(
            kind=type(self).__name__,
            name=f"anthropic:{name}",
            base_url=address,
            key=api_key or (None if base_url else key_of("anthropic")),
            provider=provider,
            key_source="api_key=, or ANTHROPIC_API_KEY",
            model=name,
            max_tokens=max_tokens,
            fields={
                "max_tokens": max_tokens,
                "temperature": temperature,
                "cache_control": {"type": "ephemeral"} if cache else None,
            },
            own_fields=self.own_fields,
            **of_server,
        )
        super().__init__(settings)
        # The API refuses a schema with keywords that it cannot enforce.
        self._forms = SchemaForms(provider.schema_beside_actions, may_be_strict)
        # The ids also of compatible servers.
        call_ids = PROVIDERS["anthropic"].call_ids
        self._adapter = Adaptations(call_ids, may_want=provider.may_want)
        self._wants_thoughts = False  # where calls have results, if it reasons

    def _own_headers(self, key: str) -> dict[str, str]:
        return {"x-api-key": key, "anthropic-version": _VERSION}

    def _reader(self, content: bytes, request: ModelRequest) -> MessageStream:
        earlier_call_count = calls_in(request.messages)
        return MessageStream(self.name, earlier_call_count, self.base_url, self._adapter.reasons)

    async def _exchange(
        self, content: bytes, request: ModelRequest
    ) -> AsyncGenerator[StreamPart, None]:
        paused: list[ModelReply] = []
        while True:
            async with aclosing(super()._exchange(content, request)) as parts:
                async for part in parts:
                    if not isinstance(part, ModelReply):
                        yield part
                        continue
                    reply = part
            if PAUSED not in reply.meta or len(paused) == _MAX_PAUSES:
                yield joined_replies(paused, reply, self.base_url)
                return
            paused.append(reply)
            content = continued_request(content, reply)

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        messages, actions, schema, _ = request
        adapted = self._adapter.adapt_messages(messages)
        body = self.request_fields | messages_body(adapted, self.name, self.base_url)
        if self._adapter.reasons:
            think_first(body["messages"])
        if self._wants_thoughts and lacks_thought(body["messages"]):
            body.pop("thinking", None)
        server_tools = [*body.get("tools", ())]
        if actions or server_tools:
            body["tools"] = [*server_tools, *messages_tools(actions or ())]
        elif earlier_tools := tools_called(adapted):
            body |= {"tools": earlier_tools, "tool_choice": {"type": "none"}}
        if schema is None:
            return body
        output_format = {"format": {"type": "json_schema", "schema": schema}}
        return body | {"output_config": {**body.get("output_config", {}), **output_format}}

    def _demanded_changes(self, refusal: Refusal, content: bytes) -> dict[str, Any]:
        wants_thoughts = not self._wants_thoughts and _THOUGHT_FIRST.search(refusal.text)
        return {"_wants_thoughts": True} if wants_thoughts else {}

    @property
    def _url(self) -> str:
        base, separator, query = self.base_url.partition("?")
        return f"{base.removesuffix('/v1')}/v1/messages{separator}{query}"

    async def _send(self, content: bytes, stream: bool) -> HTTPResponse:
        body = content[:-1] + b', "stream": true}' if stream else content
        return await self.send_to(self._url, body, stream)

    def _batch_server(self) -> AnthropicBatches:
        return AnthropicBatches(self, joined_url(self._url, "/batches"))


def of_provider(
    provider: str, name: str, api_key: KeyLike, **of_server: Unpack[ServerOptions]
) -> AnthropicModel:
    """Return a provider's model of a name."""
    return AnthropicModel(name, api_key=api_key, **of_server)
