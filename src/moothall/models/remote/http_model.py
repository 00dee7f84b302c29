"""A model behind a server that the one HTTP client asks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from moothall.arguments import check_boolean, check_function, check_integer
from moothall.errors import ConfigError, ModelError
from moothall.http import BrokenOff, Client, HTTPError, Response, backoff_s, tried
from moothall.http.network import check_allowed
from moothall.models.answer_reader import AnswerReader
from moothall.models.chat_answer import Passing, RefusedCall, parsed
from moothall.models.protocol import ModelReply, StreamPart, TextPiece
from moothall.models.remote.batch import Batches
from moothall.models.remote.remote import RemoteModel
from moothall.models.settings import check_key
from moothall.threads import awaited

if TYPE_CHECKING:
    from moothall.action import Action

_BYTES, _BATCH_BYTES = 2**26, 2**30  # of an answer, and of those of a batch

KeyLike: TypeAlias = str | Callable[[], str | Awaitable[str]] | None
"""A key, or a function, plain or `async`, that returns the one for the next request."""
HeadersLike: TypeAlias = (
    Mapping[str, str] | Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]] | None
)
"""Headers, or a function, plain or `async`, that returns those for the next request."""


class HTTPModel(RemoteModel):
    """What models share that the one HTTP client asks.

    A subclass says how a request is sent (`_sent`) and how an answer is read (`_reader`).
    """

    base_url: str
    timeout: float
    _given_key: KeyLike = None
    _given_headers: HeadersLike = None
    _batches: Batches | None = None
    half_price: bool = False  # as its provider takes for batches

    @property
    def batch(self) -> bool:
        """Whether its requests go in batches, which are answered within a day."""
        return self._batches is not None

    def _connect(self, connections: int, key: KeyLike, headers: HeadersLike, batch: bool) -> None:
        """Make the client; its connections are opened when they are needed."""
        kind = type(self).__name__
        check_boolean(f"{kind}: batch=", batch)
        if batch and self.rate_limit is not None:
            raise ConfigError(f"{kind}: batches have limits of their own: leave out rate_limit=")
        if callable(headers):
            check_function(f"{kind}: headers=", headers)
        elif headers is not None:
            check_headers(headers, kind)
        if callable(key):
            check_function(f"{kind}: api_key=", key)
        self._given_key, self._given_headers = key, headers
        check_integer(f"{kind}: connections=", connections)
        self._client = Client(
            kind,
            where=self.base_url,
            timeout_s=self.timeout,
            connections=connections,
            max_retries=self._max_retries,
            max_bytes=_BATCH_BYTES if batch else _BYTES,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections of this event loop; a later call opens new ones."""
        await self._client.aclose()

    async def _prepare(self, actions: list[Action] | None) -> None:
        await self._client.prepare()

    def _own_headers(self, key: str) -> dict[str, str]:
        """Return the headers that the provider wants."""
        raise NotImplementedError

    async def _headers(self) -> dict[str, str]:
        """Return the headers of a request; functions for the key and others are called now."""
        if callable(self._given_key):
            key = await awaited(self._given_key())
            check_key(key, self.name)
            self._key = key
        given = self._given_headers
        more = await awaited(given()) if callable(given) else given or {}
        if more:
            check_headers(more, self.name)
            self._secrets = [*map(str, more.values())]
        theirs = {each.lower() for each in more}
        made = {"Content-Type": "application/json", "Accept": "application/json"}
        made |= self._own_headers(self._key or "none")
        ours = {each: value for each, value in made.items() if each.lower() not in theirs}
        return {**ours, **more}

    async def _sent(self, content: bytes, stream: bool) -> Response:
        """Send a request; return the response if it is an answer, else raise ModelError."""
        raise NotImplementedError

    async def _sent_to(
        self, url: str, body: bytes | None, stream: bool = False, kind: str = ""
    ) -> Response:
        """Send a request to an address; raise ModelError if the server refuses it."""
        headers, method = await self._headers(), "GET" if body is None else "POST"
        if kind:
            headers = {**headers, "Content-Type": kind}
        response = await self._client.request(
            method, url, headers=headers, body=body, stream=stream
        )
        if 200 <= response.status < 300:
            return response
        text = response.content.decode("utf-8", "replace")
        raise self._refused(response.status, text, response.headers, response.tries)

    async def _posted(self, url: str, body: Any) -> Any:
        """Return the JSON that the server answers to a request of another kind."""
        check_allowed(url, self.name)
        try:
            response = await self._sent_to(url, json.dumps(body, allow_nan=False).encode())
        except HTTPError as error:
            raise self._lost(str(error)) from None
        return parsed(response.content, f"{self.name}: the answer")

    async def _answered(self, content: bytes, stream: bool) -> Response | _Body:
        if self._batches is None:
            return await self._sent(content, stream)
        came = await self._batches.ask(content)
        if came.status != 200:
            raise self._refused(came.status, came.body.decode("utf-8", "replace"), {}, 1)
        return _Body(came.body)

    def _reader(self, content: bytes, calls_before: int) -> AnswerReader:
        """Return what reads the answer to a request."""
        raise NotImplementedError

    async def _asked(
        self, content: bytes, calls_before: int, stream: bool
    ) -> AsyncGenerator[StreamPart, None]:
        said, attempt = [], 0
        try:
            while True:
                response = None
                try:
                    response = await self._answered(content, stream)
                    reader = self._reader(content, calls_before)
                    async with aclosing(_parts_of(response, reader, stream)) as parts:
                        async for part in parts:
                            if stream or isinstance(part, ModelReply):
                                said.append(part)
                                yield part
                    return
                except (Passing, BrokenOff) as error:
                    attempt += 1
                    if said or response is None or attempt > self._max_retries:
                        if isinstance(error, HTTPError):
                            raise
                        raise ModelError(f"{error}{tried(attempt)}") from None
                await asyncio.sleep(backoff_s(attempt - 1))
        except RefusedCall as error:
            text = "".join(part.text for part in said if isinstance(part, TextPiece))
            if stream and not text and error.reply.text:
                yield TextPiece(error.reply.text)
            yield replace(error.reply, text=text or error.reply.text)
        except HTTPError as error:
            raise self._lost(str(error)) from None
        except ModelError as error:
            hidden = self._hidden(str(error))
            if hidden == str(error):
                raise
            raise type(error)(hidden) from None


class _Body:
    """The body of an answer that came in a batch, read as that of a response."""

    headers: Mapping[str, str] = {"content-type": "application/json"}

    def __init__(self, content: bytes) -> None:
        self.content = content

    async def read(self) -> bytes:
        return b""

    async def drain(self) -> None: ...

    def close(self) -> None: ...


async def _parts_of(
    response: Response | _Body, answer: AnswerReader, stream: bool
) -> AsyncGenerator[StreamPart, None]:
    """Yield the pieces of an answer, and finally the whole; close the response in any case."""
    try:
        kind = response.headers.get("content-type", "")
        if stream and "json" not in kind and "html" not in kind:
            while not answer.over and (data := await _more(response, answer)):
                for part in answer.feed(data):
                    yield part
            if answer.over:
                await response.drain()
        else:  # it cannot stream, or is a web page
            body = bytearray(response.content)
            while stream and (data := await response.read()):
                body += data
            for part in answer.take_whole(bytes(body)):
                yield part
    finally:
        response.close()
    for part in answer.end():
        yield part


async def _more(response: Response | _Body, answer: AnswerReader) -> bytes:
    try:
        return await response.read()
    except HTTPError:
        if answer.whole:
            return b""  # the missing bytes are not part of the answer
        raise


def check_headers(given: Any, what: str) -> None:
    """Raise if headers are not names and texts that can stand in a request."""
    pairs = given.items() if isinstance(given, Mapping) else [(None, None)]
    for name, value in pairs:
        for each in (name, value):
            if not isinstance(each, str) or not each.isascii() or not each.isprintable():
                raise ConfigError(f"{what}: headers= must be names and texts in one line each")
