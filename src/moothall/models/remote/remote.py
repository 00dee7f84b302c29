"""A model behind a server: its requests, within a rate limit, and the server's refusals."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing, suppress
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self

from moothall.arguments import check_integer, check_seconds
from moothall.errors import (
    ConfigError,
    ContextOverflow,
    DefinitionError,
    ModelError,
)
from moothall.http import retry_after_s, tried
from moothall.http.network import check_allowed
from moothall.memory.bounded import BLOCK_TOKENS
from moothall.models.base import Answering, Request
from moothall.models.chat_answer import (
    KEPT_FIELDS,
    Passing,
    RefusedCall,
    overflows,
    refused_call,
    server_text,
)
from moothall.models.protocol import ModelReply, StreamPart, calls_in
from moothall.models.providers import listed_context
from moothall.models.remote.adapting import Adapting
from moothall.models.remote.chat_format import (
    chat_messages,
    response_format,
    seen_after_results,
    tools,
)
from moothall.models.remote.schema_form import SchemaForms, as_text, in_form
from moothall.models.settings import check_key, check_sampling

if TYPE_CHECKING:
    from moothall.models.remote.rate_limit import RateLimit

LENGTHS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
"""The fields for the longest answer."""
_UNASKED, _UNKNOWN = -1, 0  # of a context
# In the text of a server that no longer takes what it gave: of another model, or another key.
_STALE = re.compile(
    r"(?:invalid|corrupt).{0,60}signature|signature.{0,60}(?:invalid|corrupt|not valid)|encrypted"
    r".{0,80}could not be|\bItem .{0,80}not found|without its required",
    re.I,
)
_ENCODED = re.compile(rb"[A-Za-z0-9+/=]{2000,}")
"""An image or a file, in base64."""
# In the text of a server that asks for a field which it has given.
_WANTED_BACK = re.compile("must be|missing|required|pass(?:ed)? back", re.I)


class RemoteModel(Answering):
    """What models behind a server share; a subclass defines `_asked`, which sends a request."""

    own_fields: ClassVar[Iterable[str]]
    reads_images: bool = True  # as far as its server says
    where_key: str  # where the server's key comes from
    base_url: str | None

    def __init__(
        self,
        name: str,
        base_url: str | None,
        key: str | None,
        *,
        context_tokens: int | None,
        max_tokens: int | None,
        timeout: float,
        max_retries: int,
        rate_limit: RateLimit | None,
        options: Mapping[str, Any] | None,
        fields: Mapping[str, Any],
    ) -> None:
        kind = type(self).__name__
        check_integer(f"{kind}: context_tokens=", context_tokens, optional=True)
        check_integer(f"{kind}: max_tokens=", max_tokens, optional=True)
        check_integer(f"{kind}: max_retries=", max_retries, low=0)
        check_seconds(f"{kind}: timeout=", timeout)
        if rate_limit is not None and not callable(getattr(rate_limit, "acquire", None)):
            raise ConfigError(f"{kind}: rate_limit= must be a RateLimit, got {rate_limit!r}")
        temperature = fields.get("temperature")  # None: the server decides
        check_sampling(kind, 0 if temperature is None else temperature, fields.get("seed"))
        if wrong := sorted(set(self.own_fields) & (options or {}).keys()):
            raise DefinitionError(
                f"{kind}: options= cannot set {', '.join(wrong)}, which it sets itself: leave them "
                "out, or use the argument of that name"
            )
        self.name = name
        self.base_url = base_url
        check_key(key, name)
        self._context = _UNASKED if context_tokens is None else context_tokens
        self.max_tokens: int | None = max_tokens
        self.rate_limit = rate_limit
        self.timeout = timeout
        self._max_retries = max_retries
        self._server = base_url or name.rpartition("/")[0]  # the one that gets back what it gave
        self._forms = SchemaForms(beside_actions=False)
        self._adapting = Adapting()
        self._not_back: set[str] = set()  # fields that it gave and refuses
        self._secrets: list[str] = []  # beside the key
        self._key = key
        given = {field: value for field, value in fields.items() if value is not None}
        self._fields: dict[str, Any] = {**(options or {}), **given}

    @property
    def context_tokens(self) -> int | None:
        """How much a prompt and its answer may take together; None if that is not known."""
        if self._context == _UNASKED:
            self._context = listed_context(self.name) or _UNKNOWN
        return self._context or None

    @context_tokens.setter
    def context_tokens(self, tokens: int | None) -> None:
        self._context = tokens or _UNKNOWN

    def _with_options(self, options: Mapping[str, Any]) -> Self:
        """Return this model, over the same connections, with more fields in its requests."""
        kind = type(self).__name__
        if not isinstance(options, Mapping):
            raise ConfigError(f"{kind}: options= must be a dict, got {options!r:.80}")
        settable = {*LENGTHS, "temperature", "seed"}
        if wrong := sorted(({*self.own_fields} - settable) & options.keys()):
            raise DefinitionError(f"{kind}: options= cannot set {', '.join(wrong)}")
        made, fields = copy(self), {**self._fields}
        for name, value in options.items():
            if name in LENGTHS:
                check_integer(f"{kind}: options={name}", value)
                name = next((each for each in LENGTHS if each in fields), name)
                made.max_tokens = value
            fields[name] = value
        made._fields = fields
        return made

    def _check_allowed(self, messages: list[dict[str, Any]]) -> None:
        """Check that the request may leave this machine."""
        check_allowed(self.base_url or "", self.name)

    def _asked(
        self, content: bytes, calls_before: int, stream: bool
    ) -> AsyncGenerator[StreamPart, None]:
        """Yield the pieces of the answer to a request, if streamed, and finally the whole."""
        raise NotImplementedError

    async def _answer(self, request: Request) -> AsyncGenerator[StreamPart, None]:
        self._check_allowed(request.messages)
        begun, reserved = False, None
        while True:
            form, version = self._forms.form(request), self._adapting.version
            given = request._replace(messages=self._adapting.messages(request.messages))
            content = self._content(in_form(form, given))
            if self.rate_limit is not None and reserved is None:
                most = _estimated(content) + (self.max_tokens or 0)
                reserved = await self.rate_limit.acquire(most)
            asked = self._asked(content, calls_in(request.messages), request.stream)
            if form == "final":
                asked = as_text(request, asked)
            try:
                async with aclosing(asked) as parts:
                    async for part in parts:
                        begun = True
                        if isinstance(part, ModelReply) and reserved is not None:
                            reserved.settle(part.usage.total)
                        yield part
                return
            except ModelError as error:
                said = str(error)
                if not begun and _STALE.search(said) and any(map(_thinking, request.messages)):
                    plain = [{**each, "thinking": []} for each in request.messages]
                    request = request._replace(messages=plain)
                elif begun or not (
                    self._adapts(said, content)
                    or self._forms.refused(form, request, said)
                    or self._adapting.version != version  # as another request was refused, too
                ):
                    if isinstance(error, Passing | RefusedCall):
                        raise ModelError(said) from None
                    if error.status == 400 and said.endswith(": no reason"):
                        raise self._unexplained(said, content) from None
                    raise

    def _unexplained(self, said: str, content: bytes) -> ModelError:
        """Return the error for a 400 without a body, as Cerebras answers a prompt that is long."""
        estimate, context = _estimated(content), self.context_tokens
        if context is not None and estimate > context - (self.max_tokens or 0):
            why = f"the prompt has about {estimate:,} tokens, and the model reads {context:,}"
            return ContextOverflow(f"{said}; {why}; nothing was cut")
        error = ModelError(f"{said}; some servers answer so when the prompt is too long")
        error.status = 400
        return error

    def _adapts(self, said: str, content: bytes) -> bool:
        """Note what a refusal says of the form of all requests; return whether it says something.

        Here it is the fields that the server gave, and does not take back, and what it wants of
        the messages.
        """
        if self._adapting.refused(said):
            return True
        sent = content.decode()
        named = {each for each in KEPT_FIELDS if f'"{each}": ' in sent}
        named = {each for each in named if re.search(rf"\b{each}\b", said)}
        if not named or "answered 4" not in said or _WANTED_BACK.search(said):
            return False
        self._not_back |= named
        return True

    def _content(self, request: Request) -> bytes:
        try:
            return json.dumps(self._body(request), allow_nan=False).encode()
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ModelError(f"{self.name}: its input is not JSON: {error}") from error

    def _body(self, request: Request) -> dict[str, Any]:
        """Return the request in the provider's form."""
        messages, actions, schema, _ = request
        made = seen_after_results(chat_messages(messages, self.name, self._server))
        self._adapting.complete(made)
        for field in self._not_back:
            for each in made:
                for kept in (each, *each.get("tool_calls", ())):
                    kept.pop(field, None)
        body = self._fields_of(messages) | {"messages": made}
        if actions:
            body["tools"] = tools(actions)
            for each in body["tools"]:
                about = each["function"]
                about["parameters"] = self._adapting.schema(about["parameters"])
        if schema is not None:
            body["response_format"] = response_format(schema)
        return body

    def _fields_of(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the fields of a request other than its messages, actions and schema."""
        return self._fields

    def _refused(
        self, status: int, text: str, headers: Mapping[str, str], tries: int
    ) -> ModelError:
        """Return the error for a server's refusal, in one line, with what to do about it."""
        body: Any = text
        with suppress(ValueError, RecursionError):
            body = json.loads(text)
        if isinstance(body, list) and len(body) == 1:
            body = body[0]  # Gemini's
        reason = f"{self.name}: the server answered {status}: {server_text(body)}"
        if overflows(body) or status == 413:
            return ContextOverflow(self._hidden(f"{reason}; nothing was cut"))
        if (refused := refused_call(body)) is not None:
            return RefusedCall(self._hidden(reason), refused)
        if status in (401, 403):
            reason += f"; check {self.where_key}"
        elif status == 404 or 300 <= status < 400:
            where = f" and the address {self.base_url}" if self.base_url else ""
            reason += f"; check the name of the model{where}"
        elif status == 429 and (wait_s := retry_after_s(headers)):
            reason += f"; it asks to wait {wait_s:.0f} s"
        error = ModelError(self._hidden(f"{reason}{tried(tries)}"))
        error.status = status
        return error

    def _lost(self, reason: str) -> ModelError:
        """Return the error for a request without an answer."""
        refused = "Connection refused" in reason and "the proxy of" not in reason
        hint = "; is the server running there?" if refused else ""
        return ModelError(self._hidden(f"{self.name}: {reason}{hint}"))

    def _hidden(self, text: str) -> str:
        """Return a text without the key and the keys of the environment."""
        keys = [value for name, value in os.environ.items() if name.endswith("_API_KEY")]
        for key in (self._key, *keys, *self._secrets):
            if key and len(key) > 4:
                text = text.replace(key, "…")
        return text


def _estimated(content: bytes) -> int:
    """Return how many tokens a request has, on the high side: one per three bytes of text."""
    text, seen = _ENCODED.subn(b"", content)
    return len(text) // 3 + seen * BLOCK_TOKENS


def _thinking(message: Any) -> bool:
    return isinstance(message, Mapping) and bool(message.get("thinking"))
