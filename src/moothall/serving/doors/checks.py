"""The checks of each HTTP server of moothall: headers, host, size and secret."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import json
import re
import socket
import time
from collections import Counter, deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    MutableMapping,
)
from contextlib import suppress
from typing import Any, Final, TypeVar

from moothall.build import WORKERS, UnreadableText, read_json

__all__ = [
    "Attempts",
    "Hosts",
    "Message",
    "Receive",
    "RequestRefused",
    "Scope",
    "Send",
    "answer",
    "body_of",
    "check_length",
    "check_once",
    "check_origin",
    "client_of",
    "replayed",
]

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

T = TypeVar("T")

KEEPALIVE_S: Final = 15.0
"""Seconds after which a stream without an event sends a comment, so that no proxy ends it."""
SSE_COMMENT: Final = b": waiting\n\n"
OWN_HOSTS: Final = frozenset(("localhost", "127.0.0.1", "[::1]"))
_BODY_TIMEOUT_S: Final = 20.0
_MAX_ATTEMPTS: Final = 20
"""After this many wrong secrets from one address in a minute, no further one is checked."""
_MAX_ADDRESSES: Final = 1000
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^][:@/]+)(:\d{1,5})?")
_SINGLE_HEADERS: Final = (
    *("host", "origin", "authorization", "content-length"),
    *("sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"),
)
"""The headers that access depends on: a request has each at most once."""


def in_thread(function: Callable[..., T], *args: Any) -> asyncio.Future[T]:
    """Call a function that may take long, such as one that reads a journal, in a thread."""
    return WORKERS.run(asyncio.get_running_loop(), function, *args)


def hash_of(text: str, digits: int = 64) -> str:
    """Return the first hexadecimal digits of a text's SHA-256."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:digits]


def as_json(data: Any) -> bytes:
    """Return JSON data as the bytes of an answer; half a character is written as an escape."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="backslashreplace")


def sse_event(data: dict[str, Any], name: str = "") -> bytes:
    """Return a server-sent event."""
    head = f"event: {name}\n" if name else ""
    return head.encode() + b"data: " + as_json(data) + b"\n\n"


class RequestRefused(Exception):
    """A request, or the opening of a socket, is refused; its text says why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def json_of(body: bytes) -> Any:
    """Return the JSON value of a request's body.

    Raises:
        UnreadableText: it is not JSON, or has half of a character
    """
    try:
        value = read_json(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise UnreadableText(str(error)) from None
    if b"\\u" in body:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise UnreadableText("half of a character, which UTF-8 cannot carry") from None
    return value


def check_once(scope: Scope, token_headers: Iterable[str] = ()) -> None:
    """Refuse a request that has two of a header that access depends on, or two lengths."""
    names = Counter([name.decode("latin-1").lower() for name, _ in scope["headers"]])
    if {"content-length", "transfer-encoding"} <= names.keys():  # a proxy may believe the other one
        raise RequestRefused(400, "a request has one length: Content-Length or Transfer-Encoding")
    if any(names[each] > 1 for each in (*_SINGLE_HEADERS, *token_headers)):
        raise RequestRefused(403, "a header appears twice")


def header(scope: Scope, name: str) -> str | None:
    """Return a header of a request, or None."""
    name_bytes = name.encode()
    for key, value in scope["headers"]:
        if key.lower() == name_bytes:
            text: str = value.decode("latin-1")
            return text
    return None


def path_of(scope: Scope) -> str:
    """Return the path of a request below the place where the application is mounted."""
    path: str = scope["path"]
    root = scope.get("root_path", "").rstrip("/")
    return path.removeprefix(root) if root and path.startswith(f"{root}/") else path


def check_length(scope: Scope, most_bytes: int) -> None:
    """Refuse a request whose header announces a longer body."""
    length = header(scope, "content-length") or "0"
    if not (length.isdecimal() and len(length) < 10 and int(length) <= most_bytes):
        raise RequestRefused(413, too_long_text(most_bytes))


def check_origin(
    scope: Scope, own_origins: Collection[str], resource: str, *, is_link: bool = False
) -> None:
    """Refuse a request of a web page of another origin than these, unless it follows a link."""
    origin = header(scope, "origin")
    if origin is not None and origin not in own_origins:
        raise RequestRefused(403, f"a page of {origin[:80]!r} may not use this {resource}")
    if header(scope, "sec-fetch-site") in ("cross-site", "same-site") and not is_link:
        raise RequestRefused(403, f"a page from elsewhere may not use this {resource}")


def too_long_text(most_bytes: int) -> str:
    """Return the refusal of a body that has too many bytes."""
    return f"a request must have at most {most_bytes:,} bytes"


def is_loopback_address(host: str) -> bool:
    """Return whether a server that listens at an address is reached from this machine only."""
    return host in ("127.0.0.1", "localhost", "::1")


class Hosts:
    """The names by which requests may call the server that listens at an address.

    At one that is not loopback, these are also the names of this machine, and any IP address.
    """

    def __init__(self, host: str) -> None:
        self.is_public: bool = not is_loopback_address(host)
        self._own_hosts = OWN_HOSTS
        if self.is_public:
            name = socket.gethostname().lower()
            self._own_hosts |= {host.lower(), name, f"{name}.local"}

    def has(self, host: str) -> bool:
        """Return whether a `Host` header is one of these."""
        match = _HOST.fullmatch(host.lower())
        if match is None:
            return False
        if match[1] in self._own_hosts:
            return True
        if not self.is_public:
            return False
        try:  # an IP address is no DNS name, so nobody else can make it point here
            ipaddress.ip_address(match[1].strip("[]"))
        except ValueError:
            return False
        return True


class Attempts:
    """Wrong secrets, counted by the address that they came from, and with `in_all` all together."""

    def __init__(self, in_all: int = 0) -> None:
        self._failures: dict[str, deque[float]] = {}
        self._times: deque[float] = deque(maxlen=in_all)

    def note(self, scope: Scope) -> None:
        """Count a wrong secret."""
        tries = self._failures.setdefault(client_of(scope), deque(maxlen=_MAX_ATTEMPTS))
        tries.append(time.monotonic())
        self._times.append(tries[-1])
        if len(self._failures) > _MAX_ADDRESSES:
            del self._failures[next(iter(self._failures))]

    def are_over(self, scope: Scope, *, is_known: bool = False) -> bool:
        """Return whether an address has sent too many wrong secrets, and must wait.

        One that is not known must wait after those of all addresses, too.
        """
        time_lists = [self._failures.get(client_of(scope), deque(maxlen=_MAX_ATTEMPTS))]
        if not is_known and self._times.maxlen:
            time_lists.append(self._times)
        return any(
            len(each) == each.maxlen and time.monotonic() - each[0] < 60 for each in time_lists
        )


def client_of(scope: Scope) -> str:
    """Return the client's address; for IPv6 its network, in which it has billions of addresses."""
    address: str = (scope.get("client") or ("", 0))[0].partition("%")[0]
    try:
        ip = ipaddress.IPv6Address(address)
    except ValueError:  # of IPv4, or what a proxy has passed on
        return address
    return str(ip.ipv4_mapped or ip.exploded[:19])


async def body_of(receive: Receive, most_bytes: int | None = None) -> bytes:
    """Return a whole body; refuse one that is too long or too slow."""
    body, has_more = bytearray(), True
    try:
        async with asyncio.timeout(_BODY_TIMEOUT_S):
            while has_more:
                message = await receive()
                if message["type"] != "http.request":
                    raise RequestRefused(400, "the request has ended in its midst")
                body += message.get("body", b"")
                if most_bytes is not None and len(body) > most_bytes:
                    raise RequestRefused(413, too_long_text(most_bytes))
                has_more = message.get("more_body", False)
    except TimeoutError:
        reason = f"a request must be sent within {_BODY_TIMEOUT_S:.0f} seconds"
        raise RequestRefused(408, reason) from None
    return bytes(body)


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first returns an already read body."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_body() -> Message:
        return messages.pop() if messages else await receive()

    return receive_body


async def with_keepalives(
    items: AsyncIterator[T], first_s: float = KEEPALIVE_S
) -> AsyncGenerator[T | None, None]:
    """Yield the items, and None where nothing comes for a while; `first_s` is the first one."""
    next_item: asyncio.Future[T | None] = asyncio.ensure_future(anext(items, None))
    wait_s = first_s
    try:
        while True:
            done, _ = await asyncio.wait((next_item,), timeout=wait_s)
            item = next_item.result() if done else None
            if done and item is None:
                return
            yield item
            if done:
                next_item = asyncio.ensure_future(anext(items, None))
            else:
                wait_s = KEEPALIVE_S
    finally:
        next_item.cancel()
        with suppress(asyncio.CancelledError):
            await next_item


async def answer(
    send: Send,
    status: int,
    text: str,
    headers: Iterable[tuple[bytes, bytes]] = (),
    kind: bytes = b"text/plain; charset=utf-8",
) -> None:
    """Answer a request with a line of text."""
    body = f"{text}\n".encode()
    all_headers = [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        *headers,
    ]
    if status == 400:  # where the next request would begin is not known
        all_headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})
