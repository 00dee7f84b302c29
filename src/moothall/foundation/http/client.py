"""The HTTP client of moothall, over aiohttp, which is imported on first use."""

from __future__ import annotations

import asyncio
import importlib
import socket
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from moothall.foundation.errors import ConfigError, MissingExtra, MoothallError
from moothall.foundation.http.headers import HeadersLike, check_headers, headers_now
from moothall.foundation.http.response import (
    HTTPError,
    HTTPResponse,
    TooLarge,
    UnusableProxy,
    error_reason,
)
from moothall.foundation.http.retries import LONGEST_WAIT_S, backoff_s, tries_note, wants_retry
from moothall.foundation.http.server_url import ServerURL
from moothall.foundation.threads import guard

if TYPE_CHECKING:
    import aiohttp

_CONNECT_S, _STALE_S = 10.0, 0.1


# A client's state in one event loop: the session, slots for requests, the session's closer.
_State: TypeAlias = "tuple[aiohttp.ClientSession, asyncio.Semaphore, AsyncGenerator[None, None]]"

# The host of new connections, and the result of each: a refusal, or None.
_connecting: ContextVar[tuple[str, list[MoothallError | None]]] = ContextVar("_connecting")


class HTTPClient:
    """Sends requests, with limits on concurrent requests, and on the time and size of answers.

    A transient failure (no connection, no answer in time, 408, 409, 429, 5xx) is retried: after the
    time that the server asks for in `Retry-After`, unless that is more than two minutes, or after
    half a second and then twice as long each time. What a server says in `x-should-retry` decides
    before the status. A kept connection that the server has closed
    does not count as an attempt if it fails at once, the first time: another one is opened. Without
    `keeps`, each request opens its own, and none is sent twice.

    It may be used from several event loops and threads; each loop has its own connections, closed
    when the loop ends, by `aclose`, or when the client is collected. It keeps no cookies. Proxies
    of the environment are used for other machines only. Each request has the `headers`, too; a
    function, plain or `async`, is called for those of each.

    `timeout_s` limits one attempt, from its connection to the end of the answer; waiting for one of
    the `connections` does not count. `check_address` is called with the host, its port and an
    address before each connection, and refuses by raising a `MoothallError`, which ends the request
    unless the host has another address. With `check_address` no proxy is used, since it would look
    up names itself. `where` is the server's name in errors, instead of the URL. A subclass that
    sends requests by another library defines `_session` and `_send`.
    """

    def __init__(
        self,
        name: str,
        *,
        label: str | None = None,
        timeout_s: float = 600.0,
        connections: int = 100,
        max_bytes: int = 64 * 2**20,
        max_retries: int = 2,
        keeps: bool = True,
        headers: HeadersLike = None,
        check_address: Callable[[str, int, str], None] | None = None,
        extra: str = "openai",
    ) -> None:
        MissingExtra.unless(name, extra, "aiohttp")
        check_headers(headers, name)
        self.name = name
        self.timeout_s = timeout_s
        self.max_bytes = max_bytes
        self.max_retries = max_retries
        self._label = label
        self._connections = connections
        self._keeps = keeps
        self._headers = headers
        self._check_address = check_address
        self._lock = guard()
        # Connections belong to the loop that opened them.
        self._by_loop: dict[asyncio.AbstractEventLoop, _State] = {}
        # A session collected with the client would warn that it is open. Dropped just after the
        # client, the loop closes its keeper.
        weakref.finalize(self, self._by_loop.clear).atexit = False

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        redirects: int = 0,
        stream: bool = False,
        lasts: Callable[[HTTPResponse], bool] | None = None,
    ) -> HTTPResponse:
        """Send a request. Cancelling it closes the connection.

        At most `redirects` redirects are followed; to another server without keys and cookies, and
        after 303, or 301 or 302 of a POST, without the body. With `stream` the caller reads the
        body of a 2xx answer and must close it; retries end with its first bytes. `lasts` returns
        whether a refusal with a transient status would be the same again.

        Raises:
            RemoteForbidden: `MOOTHALL_OFFLINE=1` forbids it, or the target of a redirect
            HTTPError: there is no answer, or it is late or too large
        """
        redirect_options = {"allow_redirects": redirects > 0, "max_redirects": redirects + 1}
        if self._headers is not None:
            headers = {**(headers or {}), **await headers_now(self._headers, self.name)}
        options = {"headers": headers, "data": body, **redirect_options}
        for attempt in range(self.max_retries + 1):
            wait_s = None
            is_last = attempt == self.max_retries
            try:
                response = await self._attempt(method, url, options, stream)
            except (TooLarge, UnusableProxy):
                raise
            except HTTPError as error:
                if is_last:
                    raise HTTPError(f"{error}{tries_note(attempt + 1)}") from None
            else:
                response.tries += attempt
                if is_last or 200 <= response.status < 300:
                    break
                may_retry = wants_retry(response.headers)
                if may_retry is None:
                    may_retry = response.is_transient and not (lasts and lasts(response))
                if not may_retry:
                    break
                wait_s = response.wait_s
                if wait_s is not None and wait_s > LONGEST_WAIT_S:
                    break
            await asyncio.sleep(backoff_s(attempt) if wait_s is None else wait_s)
        return response

    async def prepare(self) -> None:
        """Import aiohttp, in a thread, and open a session in the running loop; send nothing."""
        loop = asyncio.get_running_loop()
        await asyncio.to_thread(importlib.import_module, "aiohttp")
        if loop not in self._by_loop:
            await self._open(loop)

    async def aclose(self) -> None:
        """Close the connections of the running loop; a later request opens new ones."""
        with self._lock:
            state = self._by_loop.pop(asyncio.get_running_loop(), None)
        if state is not None:
            await state[2].aclose()

    async def _attempt(
        self, method: str, url: str, args: dict[str, Any], stream: bool
    ) -> HTTPResponse:
        import aiohttp

        loop = asyncio.get_running_loop()
        session, slots, _ = self._by_loop.get(loop) or await self._open(loop)
        await slots.acquire()
        response, is_left_open = None, False
        hops: dict[str, None] = {}  # more than one if it is redirected
        try:
            async with asyncio.timeout(self.timeout_s) as timer:
                try:
                    answer = await self._send(session, method, url, args, hops)
                    response = self._response(answer, str(answer.url) if answer.history else url)
                    stream = stream and 200 <= response.status < 300
                    await response.begin(stream)
                except aiohttp.TooManyRedirects as error:
                    stream = False
                    response = self._response(error.history[-1], str(error.history[-1].url))
            if stream:
                response.keep_open(self, slots, (timer.when() or 0.0) - loop.time())
                is_left_open = True
            return response
        except MoothallError:
            raise  # first, since a refusal of an address may also be an OSError
        except (aiohttp.ClientError, OSError, ValueError) as error:
            last_url = [*hops][-1] if len(hops) > 1 else url
            label = self._label or last_url.partition("?")[0]
            if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientError):
                raise HTTPError(f"{label} gave no answer within {self.timeout_s:g} s") from None
            if self._proxy_for(last_url):
                place = ServerURL(last_url).proxy_place
                label += f" through {place}, the proxy of the environment"
            raise HTTPError(f"no answer from {label}: {error_reason(error)}") from None
        finally:
            if not is_left_open:
                if response is not None:
                    response.close()
                slots.release()

    def _response(self, answer: aiohttp.ClientResponse, url: str) -> HTTPResponse:
        return HTTPResponse(
            self.name, answer, url, max_bytes=self.max_bytes, timeout_s=self.timeout_s
        )

    async def _send(
        self,
        session: aiohttp.ClientSession,
        method: str,
        url: str,
        options: dict[str, Any],
        hops: dict[str, None],
    ) -> aiohttp.ClientResponse:
        """Send a request, and note the address of each hop."""
        import aiohttp

        refusals: list[MoothallError | None] = []

        async def check_hop(
            request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
        ) -> aiohttp.ClientResponse:  # also before each redirect
            hops[address := ServerURL(request.url)] = None
            address.check_allowed(self.name)
            refusals.clear()
            _connecting.set((request.url.raw_host or "", refusals))
            return await send(request)

        proxy = self._proxy_for(url)
        loop = asyncio.get_running_loop()
        start, may_resend = loop.time(), True
        while True:
            try:
                return await session.request(
                    method, url, proxy=proxy, middlewares=(check_hop,), **options
                )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                if refusal := next(filter(None, refusals), None):
                    raise refusal from None
                # A kept connection that the server has closed meanwhile fails at once: that is no
                # attempt. One that fails later was at work on the request.
                if refusals or not may_resend or loop.time() - start > _STALE_S:
                    raise
                if isinstance(error, aiohttp.ClientConnectorError):
                    raise
                may_resend = False

    def _proxy_for(self, url: str) -> str | None:
        try:
            return ServerURL(url).proxy if self._check_address is None else None
        except ConfigError as error:
            label = self._label or url.partition("?")[0]
            raise UnusableProxy(f"no request was sent to {label}: {error}") from None

    def _session(self) -> aiohttp.ClientSession:
        import aiohttp

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                force_close=not self._keeps,
                socket_factory=partial(_socket, self._check_address),
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(_CONNECT_S, self.timeout_s)),
        )

    async def _open(self, loop: asyncio.AbstractEventLoop) -> _State:
        """Return a new session of the running loop, which closes the session when the loop ends."""
        session = self._session()
        keeper = _keep_session(session)
        with self._lock:
            for other in [other for other in self._by_loop if other.is_closed()]:
                del self._by_loop[other]
            state = self._by_loop[loop] = session, asyncio.Semaphore(self._connections), keeper
        # It runs to its `yield` without waiting, so no other task of this loop runs in between.
        await anext(keeper)
        return state


def _socket(check: Callable[[str, int, str], None] | None, address: Any) -> socket.socket:
    """Return a socket for a connection to an address, if that is allowed."""
    host, refusals = _connecting.get()
    if check is not None:
        try:
            check(host, address[4][1], address[4][0])
        except MoothallError as error:
            refusals.append(error)
            raise OSError(str(error)) from None  # an OSError makes aiohttp try the next address
    refusals.append(None)
    return socket.socket(*address[:3])


async def _keep_session(session: aiohttp.ClientSession) -> AsyncGenerator[None, None]:
    """Hold a session: a loop closes its async generators when it ends."""
    try:
        yield
    finally:
        await session.close()
