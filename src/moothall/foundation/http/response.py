"""An answer of a server, as it comes, and what failed if it does not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from moothall.foundation.errors import MoothallError
from moothall.foundation.http.event_stream import EventStreamParser
from moothall.foundation.http.network import certificate_fault
from moothall.foundation.http.retries import is_transient, retry_after_s
from moothall.foundation.text import one_line

if TYPE_CHECKING:
    import aiohttp

_DRAIN_S: Final = 0.1
_CLOSED_TEXTS: Final = (
    "Response payload is not completed",
    "Server disconnected",
    "<RawResponseMessage",
)


class HTTPError(MoothallError):
    """No answer came, or not all of it; the caller converts this to its own error."""


class BrokenOff(HTTPError):
    """A streamed answer did not come to its end."""


class TooLarge(HTTPError):
    """A body has more bytes than allowed."""


class UnusableProxy(HTTPError):
    """The environment's proxy for a host is not one of HTTP; nothing was sent."""


class HTTPResponse:
    """An answer: its head, and its body, whole in `content`, or streamed by `read` or `events`."""

    def __init__(
        self,
        name: str,
        answer: aiohttp.ClientResponse,
        url: str,
        *,
        max_bytes: int,
        timeout_s: float,
    ) -> None:
        self.status: int = answer.status
        self.headers: Mapping[str, str] = answer.headers
        self.url = url  # after redirects
        self.content: bytes = b""
        self.tries = 1
        self._name = name
        self._answer = answer
        self._first_bytes = b""
        self._max_bytes, self._timeout_s = max_bytes, timeout_s
        self._remaining_bytes = max_bytes
        self._remaining_s = timeout_s
        self._slots: asyncio.Semaphore | None = None  # held by a streamed body until it is closed
        self._client: object = None  # a client that nobody holds closes its connections

    @property
    def is_transient(self) -> bool:
        """Whether its status is transient, so that the same request may succeed later."""
        return is_transient(self.status)

    @property
    def wait_s(self) -> float | None:
        """How many seconds the server asks to wait; None if it does not say."""
        return retry_after_s(self.headers)

    async def read(self) -> bytes:
        """Return the next bytes of a streamed body; none at its end. Only waiting takes time."""
        import aiohttp

        data, self._first_bytes = self._first_bytes, b""
        if data:
            return data
        loop = asyncio.get_running_loop()
        start = loop.time()
        try:
            async with asyncio.timeout(self._remaining_s):
                return await self._read_next()
        except TimeoutError:
            raise HTTPError(f"the answer did not end within {self._timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise BrokenOff(f"the answer broke off: {error_reason(error)}") from None
        finally:
            self._remaining_s -= loop.time() - start

    async def events(self) -> AsyncGenerator[tuple[str, bytes], None]:
        """Yield the name and the data of each server-sent event of a streamed body, as they come.

        Raises:
            HTTPError: as `read`
            ModelError: an event or the answer is too large
        """
        events = EventStreamParser(self._name)
        while data := await self.read():
            for each in events.feed(data):
                yield each
            await asyncio.sleep(0)  # a server that never pauses holds up nobody

    async def drain(self) -> None:
        """Read the bytes after the answer's end, if they come at once, to keep the connection."""
        self._remaining_s = min(self._remaining_s, _DRAIN_S)
        with suppress(HTTPError):
            while await self.read():
                pass

    def close(self) -> None:
        """Close the connection, unless all data on it has been read."""
        self._answer.close()
        slots, self._slots = self._slots, None
        if slots is not None:
            slots.release()

    async def _read_next(self) -> bytes:
        data = await self._answer.content.readany()
        self._remaining_bytes -= len(data)
        if self._remaining_bytes < 0:
            raise TooLarge(f"the answer has more than {self._max_bytes} bytes")
        return data

    def keep_open(self, client: object, slots: asyncio.Semaphore, remaining_s: float) -> None:
        """Hold client and slot until a streamed body is closed, which may wait these seconds."""
        self._client, self._slots, self._remaining_s = client, slots, remaining_s

    async def begin(self, stream: bool) -> None:
        """Read the first bytes of the body, or all of it."""
        self._first_bytes = await self._read_next()
        if not stream:
            pieces = [self._first_bytes]
            while pieces[-1]:
                pieces.append(await self._read_next())
            self.content = b"".join(pieces)
            self._first_bytes = b""


def error_reason(error: BaseException) -> str:
    """Return what failed, in one line."""
    # aiohttp's own text repeats the address, names a status that no server sent, and has the error
    # number instead of its meaning.
    number = getattr(error, "errno", None) or 0
    attribute = "strerror" if number < 0 else "message"  # below 0 of a name that was not found
    text = os.strerror(number) if number > 1 else str(getattr(error, attribute, error))
    text = certificate_fault(error) or text
    if text.startswith(_CLOSED_TEXTS):
        text = "the server closed the connection"
    return one_line(text.removeprefix("400, message:") or type(error).__name__, 300)
