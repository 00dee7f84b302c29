"""HTTP for the `openai` SDK: aiohttp's connections below it, and one client for each event loop.

The SDK's own HTTP client takes longer over a call on loopback than everything else together. This
one also bounds what the SDK does not: the time of a whole attempt (a server that sends a byte a
second is never silent) and the size of an answer. It follows no redirects: a call that is allowed
to go to one host must not end at another.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx2

from civitas.errors import ModelError
from civitas.models.weights import is_loopback

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["Body", "Connections", "HttpClient", "Response"]

Response = httpx2.Response

_CONNECT_S = 10.0
# How long the end of a body may take that follows the end of its answer.
_END_S = 0.1
# What the SDK looks at, and nothing that describes the body as it was on its way.
_KEPT_HEADERS = ("content-type", "retry-after", "retry-after-ms", "x-request-id", "x-should-retry")


class HttpClient(httpx2.AsyncClient):
    """Sends the SDK's requests over aiohttp.

    Args:
        url: the server, which decides whether proxies and certificates are looked for
        name: what errors call the model
        timeout_s: how long one attempt may take, from its connection to the end of the answer
        connections: how many there may be at once; further calls wait, and their time does not run
        max_bytes: how large an answer may be
    """

    def __init__(
        self, url: str, name: str, timeout_s: float, connections: int, max_bytes: int
    ) -> None:
        # Without a transport it would make its own, with all the certificates of this machine.
        super().__init__(transport=httpx2.AsyncBaseTransport(), trust_env=False)
        self._name = name
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._slots = asyncio.Semaphore(connections)
        secure = url.startswith("https:")
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, ssl=httpx2.create_ssl_context() if secure else True
            ),
            # A proxy that the environment names is for other machines.
            trust_env=not is_loopback(url),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(_CONNECT_S, timeout_s)),
        )

    def build_request(
        self,
        method: str,
        url: httpx2.URL | str,
        *,
        content: Any = None,
        headers: Any = None,
        **_: Any,
    ) -> httpx2.Request:
        """A request of what the SDK gives; there is nothing of the client's to merge it with."""
        return httpx2.Request(method, url, content=content, headers=headers)

    async def send(
        self, request: httpx2.Request, *, stream: bool = False, **_: Any
    ) -> httpx2.Response:
        """Send a request and read the whole answer. Cancelled, it closes the connection.

        Args:
            request: the request
            stream: whether the body of an answer that is no error is left to the caller, from its
                first bytes on: `response.extensions["body"]` is a `Body`, to be closed

        Raises:
            httpx2.TransportError: there is no answer, or not all of it
            ModelError: the answer is too large
        """
        await self._slots.acquire()
        kept = False
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                response = await self._send(request, stream)
            if body := response.extensions.get("body"):
                body.left_s = (limit.when() or 0.0) - asyncio.get_running_loop().time()
                kept = True
            return response
        except aiohttp.ServerTimeoutError as error:
            raise httpx2.ConnectError("no connection in time", request=request) from error
        except TimeoutError as error:
            raise httpx2.ReadTimeout("no answer", request=request) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise httpx2.TransportError(_told(error), request=request) from error
        finally:
            if not kept:
                self._slots.release()

    async def _send(self, request: httpx2.Request, stream: bool) -> httpx2.Response:
        response = await self._session.request(
            request.method,
            str(request.url),
            headers=[(name.decode(), value.decode()) for name, value in request.headers.raw],
            data=request.content,
            allow_redirects=False,
        )
        headers = [(n, response.headers[n]) for n in _KEPT_HEADERS if n in response.headers]
        try:
            if stream and 200 <= response.status < 300:
                # As long as nothing has come, the attempt can be made again.
                first = await response.content.readany()
                body = Body(
                    response, first, self._name, self._timeout_s, self._max_bytes, self._slots
                )
                return httpx2.Response(
                    response.status, headers=headers, request=request, extensions={"body": body}
                )
            content = await self._body(response)
        except BaseException:
            response.close()
            raise
        return httpx2.Response(response.status, headers=headers, content=content, request=request)

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for piece in response.content.iter_any():
            body += piece
            if len(body) > self._max_bytes:
                raise ModelError(f"{self._name}: the answer has more than {self._max_bytes} bytes")
        return bytes(body)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._session.close()
        await super().aclose()


class Body:
    """The body of an answer, as it comes.

    Only the time of waiting for the server counts towards the time of the attempt: how long the
    caller takes between two pieces is no fault of the server.

    Attributes:
        left_s: how much longer it may be waited for
    """

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        first: bytes,
        name: str,
        timeout_s: float,
        max_bytes: int,
        slots: asyncio.Semaphore,
    ) -> None:
        self.left_s = timeout_s
        self._timeout_s = timeout_s
        self._response = response
        self._first = first
        self._name = name
        self._left_bytes = max_bytes
        self._max_bytes = max_bytes
        self._slots = slots
        self._closed = False

    async def read(self) -> bytes:
        """The next bytes; none at the end.

        Raises:
            ModelError: the rest does not come, or is too large
        """
        data = self._first
        if data:
            self._first = b""
        else:
            data = await self._next()
        self._left_bytes -= len(data)
        if self._left_bytes < 0:
            raise ModelError(f"{self._name}: the answer has more than {self._max_bytes} bytes")
        return data

    async def _next(self) -> bytes:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with asyncio.timeout(self.left_s):
                return await self._response.content.readany()
        except TimeoutError as error:
            raise ModelError(
                f"{self._name}: the answer did not end within {self._timeout_s:g} s"
            ) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ModelError(f"{self._name}: the answer broke off: {_line(error)}") from error
        finally:
            self.left_s -= loop.time() - begun

    async def finish(self) -> None:
        """Read what may follow the answer's end, so that the connection can be used again.

        A server that keeps it open is not waited for.
        """
        self.left_s = min(self.left_s, _END_S)
        try:
            while await self.read():
                pass
        except ModelError:
            pass  # the answer is there; the connection will be closed

    def close(self) -> None:
        """Close the connection, unless all that was sent on it has been read."""
        if not self._closed:
            self._closed = True
            self._response.close()
            self._slots.release()


def _line(error: Exception) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in _told(error)).split())[:300]


def _told(error: Exception) -> str:
    return str(error) or type(error).__name__


_Held = dict[asyncio.AbstractEventLoop, tuple["AsyncOpenAI", AsyncGenerator[None, None]]]
_CLOSING: set[asyncio.Task[None]] = set()


class Connections:
    """One client of the SDK for each event loop, closed when its loop ends.

    Connections belong to the loop that opened them, and a model may be used from several. An async
    generator is what a loop closes at its end by itself, so each client is held in one.
    """

    def __init__(self, open: Callable[[], AsyncOpenAI]) -> None:
        self._open = open
        self._lock = threading.Lock()
        self._held: _Held = {}
        # Held by it, the clients outlive a model that is collected, until they have been closed.
        weakref.finalize(self, _close_all, self._held).atexit = False

    async def client(self) -> AsyncOpenAI:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        found = self._held.get(loop)
        if found is not None and not found[0].is_closed():
            return found[0]
        client = self._open()
        keeper = _keep(client)
        with self._lock:
            for other in [other for other in self._held if other.is_closed()]:
                del self._held[other]
            self._held[loop] = (client, keeper)
        # It runs to its `yield` without waiting, so no other task of this loop comes in between.
        await anext(keeper)
        return client

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        with self._lock:
            found = self._held.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found[1].aclose()


async def _keep(client: AsyncOpenAI) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await client.close()


def _close_all(held: _Held) -> None:
    for loop, (_, keeper) in held.items():
        try:
            loop.call_soon_threadsafe(_begin_to_close, keeper)
        except RuntimeError:
            pass  # the loop is closed, and has closed its own
    held.clear()


def _begin_to_close(keeper: AsyncGenerator[None, None]) -> None:
    task = asyncio.create_task(_close(keeper))
    _CLOSING.add(task)  # a loop alone does not keep its tasks alive
    task.add_done_callback(_CLOSING.discard)


async def _close(keeper: AsyncGenerator[None, None]) -> None:
    # A loop that ends just now closes it by itself. Not every async generator says so by its type.
    if not getattr(keeper, "ag_running", False):
        await keeper.aclose()
