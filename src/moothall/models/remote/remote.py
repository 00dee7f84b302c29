"""A model behind a server: its requests, within a rate limit, and how they are made again."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from moothall.foundation.arguments import check_integer
from moothall.foundation.errors import ConfigError, DefinitionError, ModelError
from moothall.foundation.http import (
    BrokenOff,
    HTTPClient,
    HTTPError,
    HTTPResponse,
    backoff_s,
    tries_note,
)
from moothall.foundation.http.headers import headers_now
from moothall.foundation.http.server_url import ServerURL
from moothall.foundation.threads import ProcessBound, awaited
from moothall.models.answer_reader import AnswerReader
from moothall.models.base import AnsweringModel, ModelRequest
from moothall.models.blocks import IMAGE_TYPES, has_texts, unknown_media, with_texts
from moothall.models.chat_answer import (
    KEPT_FIELDS,
    RefusedCall,
    TransientError,
    UnreadableCall,
    parse_json,
    retold,
)
from moothall.models.chat_stream import AnswerStream
from moothall.models.echo import without_own_words
from moothall.models.protocol import ModelReply, StreamPart, TextPiece, calls_in
from moothall.models.providers import listed_context
from moothall.models.refusal import Refusal
from moothall.models.remote.adapting import Adaptations
from moothall.models.remote.batch import Batches, BatchServer
from moothall.models.remote.chat_format import chat_messages, response_format, tools
from moothall.models.remote.exchange import parts_of, parts_of_body
from moothall.models.remote.failures import ErrorMaker, estimated_tokens, has_actions
from moothall.models.remote.schema_form import Form, SchemaForms, as_text, in_form
from moothall.models.remote.server_settings import ServerSettings
from moothall.models.settings import check_key

if TYPE_CHECKING:
    from moothall.actions import Action
    from moothall.models.remote.rate_limit import RateLimit

LENGTHS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
"""The fields for the longest answer."""
_UNASKED, _UNKNOWN = -1, 0  # of a context
# In the text of a server that no longer takes what it gave: of another model, or another key.
_STALE_FAULT = re.compile(
    r"(?:invalid|corrupt).{0,60}signature|signature.{0,60}(?:invalid|corrupt|not valid)|encrypted"
    r".{0,80}could not be|\bItem .{0,80}not found|without its required",
    re.I,
)
_MAX_BYTES, _MAX_BATCH_BYTES = 2**26, 2**30  # of an answer, and of those of a batch


class RemoteModel(ProcessBound, AnsweringModel, remedy="make it there, or give its name"):
    """What models behind a server share.

    A subclass says how a request is formed (`_body`) and sent (`_send`), and its answer read
    (`_reader`).
    """

    own_fields: ClassVar[Iterable[str]]
    reads_images: bool = True  # as far as its server says
    _takes_texts = False  # whether its server takes files that are text
    half_price: bool = False  # as its provider takes for batches
    base_url: str | None
    timeout: float
    _makes_client: ClassVar[type[HTTPClient]] = HTTPClient
    _IN_WORDS: ClassVar[Mapping[str, str]] = {}
    """What requests have once an attribute was changed as a refusal asked for it."""

    def __init__(self, settings: ServerSettings) -> None:
        provider = settings.provider
        self.name: str = settings.name
        self.model: str = settings.model
        self.base_url = settings.base_url
        self.max_tokens: int | None = settings.max_tokens
        self.rate_limit: RateLimit | None = settings.rate_limit
        self.timeout = settings.timeout
        self._context = _UNASKED if settings.context_tokens is None else settings.context_tokens
        self._max_retries = settings.max_retries
        self._server = settings.server  # the one that gets back what it gave
        self._provider = provider
        self._forms = SchemaForms(provider.schema_beside_actions)
        self._adapter = Adaptations.of_provider(provider)
        self._changes: dict[str, Any] = {}  # of a trial: the attributes that it tries otherwise
        self._dropped_fields = () if provider.gives_back else KEPT_FIELDS
        self.failures: ErrorMaker = ErrorMaker(
            settings.name, settings.base_url, settings.key_source
        )
        self._given_key, self._given_headers = settings.key, settings.headers
        self._missing_key = settings.missing_key
        self.failures.key = None if callable(settings.key) else settings.key
        self.request_fields: dict[str, Any] = settings.request_fields
        self._client = self._makes_client(
            settings.kind if self._makes_client is HTTPClient else settings.name,
            label=settings.server,
            timeout_s=settings.timeout,
            connections=settings.connections,
            max_retries=settings.max_retries,
            max_bytes=_MAX_BATCH_BYTES if settings.batch else _MAX_BYTES,
        )
        self._batches: Batches | None = None
        if settings.batch:
            self._batches = Batches(settings.name, self._batch_server(), settings.max_retries)
            self.half_price = provider.batches

    @property
    def batch(self) -> bool:
        """Whether its requests go in batches, which are answered within a day."""
        return self._batches is not None

    @property
    def context_tokens(self) -> int | None:
        """How much a prompt and its answer may take together; None if that is not known."""
        if self._context == _UNASKED:
            self._context = listed_context(self.name) or _UNKNOWN
        return self._context or None

    @context_tokens.setter
    def context_tokens(self, tokens: int | None) -> None:
        self._context = tokens or _UNKNOWN

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """Return this model, over the same connections, with more fields in its requests."""
        kind = type(self).__name__
        if not isinstance(options, Mapping):
            raise ConfigError(f"{kind}: options= must be a dict, got {options!r:.80}")
        settable = {*LENGTHS, "temperature", "seed"}
        if wrong := sorted(({*self.own_fields} - settable) & options.keys()):
            raise DefinitionError(f"{kind}: options= cannot set {', '.join(wrong)}")
        model, fields = copy(self), {**self.request_fields}
        for name, value in options.items():
            if name in LENGTHS:
                check_integer(f"{kind}: options={name}", value)
                name = next((each for each in LENGTHS if each in fields), name)
                model.max_tokens = value
            fields[name] = value
        model.request_fields = fields
        return model

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections of this event loop; a later call opens new ones."""
        await self._client.aclose()

    async def _prepare(self, actions: list[Action] | None) -> None:
        await self._client.prepare()

    def _batch_server(self) -> BatchServer:
        """Return the batches of its server."""
        raise NotImplementedError

    def _reader(self, content: bytes, request: ModelRequest) -> AnswerReader:
        """Return what reads the answer to a request, which was sent as `content`."""
        return AnswerStream(self.name, calls_in(request.messages), self._server)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, {self.base_url!r})"

    # -- a request, and what the server wants of it ------------------------------------------------

    async def _answer(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        url = self.base_url or f"https://{self._server.rpartition(':')[2]}"
        ServerURL(url).check_allowed(self.name)
        has_begun, reservation = False, None
        model, version = self, self._adapter.version  # or a copy that tries what is asked for
        while True:
            form = model._forms.form_for(request)
            content = model._content(in_form(form, request))
            if self.rate_limit is not None and reservation is None:
                estimate = estimated_tokens(content) + (self.max_tokens or 0)
                reservation = await self.rate_limit.acquire(estimate)
            exchange = model._exchange(content, request)
            if form == "final":
                exchange = as_text(request, exchange)
            try:
                async with aclosing(exchange) as parts:
                    async for part in parts:
                        if not has_begun and model is not self:
                            self._keep(model)
                        has_begun = True
                        if isinstance(part, ModelReply) and reservation is not None:
                            reservation.settle(part.usage.total)
                        yield part
                return
            except ModelError as error:
                retry = None
                if not has_begun:
                    retry = self._next_try(error, model, version, form, request, content)
                if retry is None:
                    if isinstance(error, TransientError | RefusedCall):
                        raise retold(error, str(error)) from None
                    raise
                model, version, request = retry

    def _next_try(
        self,
        error: ModelError,
        model: Self,
        version: int,
        form: Form,
        request: ModelRequest,
        content: bytes,
    ) -> tuple[Self, int, ModelRequest] | None:
        """Return what is asked next after a refusal, and how; None if that ends the request."""
        if not isinstance(error.refusal, Refusal) or not error.refusal.is_of_form:
            return None
        refusal = without_own_words(error.refusal, request)
        had_thoughts = any(each.get("thinking") for each in request.messages)
        if had_thoughts and _STALE_FAULT.search(refusal.text):
            messages = [{**each, "thinking": []} for each in request.messages]
            return model, version, request._replace(messages=messages)
        if self._adapter.version != version:  # as another request was refused, too
            return self, self._adapter.version, request
        trial = model._trial(refusal, form, request, content)
        return None if trial is None else (trial, version, request)

    def _trial(
        self, refusal: Refusal, form: Form, request: ModelRequest, content: bytes
    ) -> Self | None:
        """Return a copy that does what a refusal asks for; None if it asks for nothing new."""
        changes, adapter, forms = self._demanded_changes(refusal, content), None, None
        if not changes and (adapter := self._adapter.make_trial(refusal, content)) is None:
            forms = self._forms.make_trial(form, request, refusal.text)
        if not (changes or adapter or forms):
            return None
        trial = copy(self)
        vars(trial).update(changes)
        trial._changes = {**self._changes, **changes}
        trial._adapter, trial._forms = adapter or self._adapter, forms or self._forms
        return trial

    def _keep(self, trial: Self) -> None:
        """Take over what a trial does, since its request was answered."""
        vars(self).update(trial._changes)
        words = (
            *(self._IN_WORDS[each] for each in trial._changes),
            *self._forms.keep(trial._forms),
        )
        self._adapter.keep(trial._adapter, self.name, words)

    def _demanded_changes(self, refusal: Refusal, content: bytes) -> dict[str, Any]:
        """Return the attributes that a refusal asks to be otherwise, with their new values."""
        return {}

    @property
    def learned(self) -> tuple[str, ...]:
        """What its requests have in this process because the server refused one without it."""
        return self._adapter.learned

    def _content(self, request: ModelRequest) -> bytes:
        try:
            body = self._body(request)
            content = json.dumps(body, allow_nan=False).encode()
            if b"data:" in content or b'"media_type": ' in content:  # Anthropic's
                self._check_images(request.messages)
                if not self._takes_texts and has_texts(request.messages):
                    body = self._body(request._replace(messages=with_texts(request.messages)))
                    content = json.dumps(body, allow_nan=False).encode()
            field = next((each for each in LENGTHS if each in body), "")
            context, longest = self.context_tokens, body.get(field)
            if (
                type(longest) is not int
                or context is None
                or longest + len(content) // 3 <= context
            ):
                return content
            # Many servers refuse a prompt with an answer that together may be longer.
            limit = max(context - estimated_tokens(content), context // 4, 1)
            return json.dumps({**body, field: min(longest, limit)}, allow_nan=False).encode()
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ModelError(f"{self.name}: its input is not JSON: {error}") from error

    def _check_images(self, messages: list[Any]) -> None:
        """Raise if an image is of a type that its server certainly refuses."""
        unknown_image = unknown_media(messages, IMAGE_TYPES | {*self._provider.images})
        if unknown_image is None:
            return
        number, kind = unknown_image
        source = messages[number].get("name")
        of_action = f", of the action {source!r:.80}" if source else ""
        also = "".join(f", {each}" for each in self._provider.images)
        raise ModelError(
            f"{self.name}: messages[{number}]{of_action}: images must be PNG, JPEG, GIF or "
            f"WebP{also}, got {kind[:80]!r}: convert it before you attach it",
            of_content=True,
        )

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        """Return the request in the provider's form."""
        messages, actions, schema, _ = request
        adapted = self._adapter.adapt_messages(messages, seen_after=True)
        converted = chat_messages(adapted, self.name, self._server)
        self._adapter.add_wanted_fields(converted)
        for field in (*self._dropped_fields, *self._adapter.refused_fields):
            for each in converted:
                for holder in (each, *each.get("tool_calls", ())):
                    holder.pop(field, None)
        body = self.request_fields | {"messages": converted}
        if actions:
            body["tools"] = tools(actions)
            for each in body["tools"]:
                function = each["function"]
                function["parameters"] = self._adapter.adapt_schema(function["parameters"])
        if schema is not None:
            body["response_format"] = response_format(schema)
        return body

    # -- the exchange with the server --------------------------------------------------------------

    def _own_headers(self, key: str) -> dict[str, str]:
        """Return the headers that the provider wants."""
        return {}

    async def _headers(self) -> dict[str, str]:
        """Return the headers of a request; functions for the key and others are called now."""
        key = self._given_key
        if callable(key):  # another request may have another key meanwhile
            key = await awaited(key())
            check_key(key, self.name)
            self.failures.hide(key)
        elif self._missing_key:  # a program may set it after it has made the model
            key = os.environ.get(self._missing_key)
            if not key:
                raise ModelError(
                    f"{self.name}: there is no key: set {self._missing_key}, or pass api_key="
                )
            check_key(key, self.name)
            self.failures.hide(key)
        if given_headers := await headers_now(self._given_headers, self.name):
            self.failures.hide(*map(str, given_headers.values()))
        own_headers = {"Content-Type": "application/json", "Accept": "application/json"}
        own_headers |= self._own_headers(key or "none")
        if not given_headers:
            return own_headers
        lower = {each.lower() for each in given_headers}
        ours = {each: value for each, value in own_headers.items() if each.lower() not in lower}
        return {**ours, **given_headers}

    async def _send(self, content: bytes, stream: bool) -> HTTPResponse:
        """Send a request; return the response if it is an answer, else raise ModelError."""
        raise NotImplementedError

    async def send_to(
        self, url: str, body: bytes | None, stream: bool = False, kind: str = ""
    ) -> HTTPResponse:
        """Send a request to an address; raise ModelError if the server refuses it."""
        headers, may_call = await self._headers(), has_actions(body or b"")
        for _ in ("first", "again"):
            response = await self._client.request(
                "GET" if body is None else "POST",
                url,
                headers={**headers, "Content-Type": kind} if kind else headers,
                body=body,
                stream=stream,
                lasts=lambda response: self.failures.is_lasting(response, may_call),
            )
            if 200 <= response.status < 300:
                return response
            previous = headers
            # A key may have expired while the server was waited for.
            if response.status != 401 or (headers := await self._headers()) == previous:
                break
        text = response.content.decode("utf-8", "replace")
        details = (response.status, text, response.headers, response.tries, may_call)
        raise self.failures.refusal_error(*details)

    async def json_at(self, url: str, body: bytes | None = None, kind: str = "") -> Any:
        """Return the JSON that the server answers to a request of another kind."""
        response = await self.send_to(url, body, kind=kind)
        return parse_json(response.content, f"{self.name}: the answer")

    async def _answer_parts(
        self, content: bytes, reader: AnswerReader, stream: bool
    ) -> AsyncGenerator[StreamPart, None]:
        """Return the parts of the answer to a request, once there is an answer."""
        if self._batches is None:
            return parts_of(await self._send(content, stream), reader, stream)
        outcome = await self._batches.ask(content)
        if outcome.status != 200:
            text = outcome.body.decode("utf-8", "replace")
            raise self.failures.refusal_error(outcome.status, text, {}, 1, has_actions(content))
        return parts_of_body(outcome.body, reader)

    async def _exchange(
        self, content: bytes, request: ModelRequest
    ) -> AsyncGenerator[StreamPart, None]:
        """Yield the pieces of the answer to a request, if streamed, and finally the whole."""
        sent_parts, attempt, stream = [], 0, request.stream
        try:
            while True:
                answer = None
                try:
                    answer = await self._answer_parts(
                        content, self._reader(content, request), stream
                    )
                    async with aclosing(answer) as parts:
                        async for part in parts:
                            if stream or isinstance(part, ModelReply):
                                sent_parts.append(part)
                                yield part
                    return
                except (TransientError, BrokenOff) as error:
                    if isinstance(error, UnreadableCall) and has_actions(content):
                        raise RefusedCall(str(error)) from None
                    attempt += 1
                    if sent_parts or answer is None or attempt > self._max_retries:
                        if isinstance(error, HTTPError):
                            raise
                        raise retold(error, f"{error}{tries_note(attempt)}") from None
                await asyncio.sleep(backoff_s(attempt - 1))
        except RefusedCall as error:
            text = "".join(part.text for part in sent_parts if isinstance(part, TextPiece))
            if stream and not text and error.reply.text:
                yield TextPiece(error.reply.text)
            yield replace(error.reply, text=text or error.reply.text)
        except HTTPError as error:
            raise self.failures.connection_error(str(error)) from None
        except ModelError as error:
            redacted = self.failures.redact(str(error))
            if redacted == str(error):
                raise
            raise retold(error, redacted, type(error)) from None
