"""A model behind a server that the one HTTP client asks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol, Self

from moothall.arguments import check_integer
from moothall.errors import ModelError
from moothall.http import Client, HTTPError, Response
from moothall.models.protocol import StreamPart
from moothall.models.remote.remote import RemoteModel

if TYPE_CHECKING:
    from moothall.action import Action


class AnswerReader(Protocol):
    """Turns the bytes of one answer into its parts.

    Attributes:
        over: the server said that no more data follows
        whole: the answer is complete, whether or not the server said so
    """

    over: bool
    whole: bool

    def feed(self, data: bytes) -> Iterator[StreamPart]:
        """Yield the pieces that some bytes of a stream complete."""
        ...

    def take_whole(self, body: bytes) -> Iterator[StreamPart]:
        """Yield the pieces of an answer that came whole."""
        ...

    def end(self) -> list[StreamPart]:
        """Return the remaining pieces and finally the answer."""
        ...


class HTTPModel(RemoteModel):
    """What models share that the one HTTP client asks.

    A subclass says how a request is sent (`_sent`) and how an answer is read (`_reader`).
    """

    base_url: str
    timeout: float

    def _connect(self, connections: int) -> None:
        """Make the client; its connections are opened when they are needed."""
        kind = type(self).__name__
        check_integer(f"{kind}: connections=", connections)
        self._client = Client(
            kind,
            where=self.base_url,
            timeout_s=self.timeout,
            connections=connections,
            max_retries=self._max_retries,
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

    async def _sent(self, content: bytes, stream: bool) -> Response:
        """Send a request; return the response if it is an answer, else raise ModelError."""
        raise NotImplementedError

    def _reader(self, content: bytes, calls_before: int) -> AnswerReader:
        """Return what reads the answer to a request."""
        raise NotImplementedError

    async def _asked(
        self, content: bytes, calls_before: int, stream: bool
    ) -> AsyncGenerator[StreamPart, None]:
        try:
            response = await self._sent(content, stream)
            reader = self._reader(content, calls_before)
            async with aclosing(_parts_of(response, reader, stream)) as parts:
                async for part in parts:
                    yield part
        except HTTPError as error:
            raise self._lost(str(error)) from None
        except ModelError as error:
            hidden = self._hidden(str(error))
            if hidden == str(error):
                raise
            raise type(error)(hidden) from None


async def _parts_of(
    response: Response, answer: AnswerReader, stream: bool
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


async def _more(response: Response, answer: AnswerReader) -> bytes:
    try:
        return await response.read()
    except HTTPError:
        if answer.whole:
            return b""  # the missing bytes are not part of the answer
        raise
