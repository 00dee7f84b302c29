"""A server at an address: streamable HTTP, with bounds on what an answer may have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from moothall.errors import MCPServerError
from moothall.http.network import check_allowed
from moothall.mcp.process import MAX_LINE

if TYPE_CHECKING:
    import httpx2


@asynccontextmanager
async def over_http(url: str, headers: Mapping[str, str], name: str) -> AsyncIterator[Any]:
    """Yield the streams of a session with a server at an address. A transport of the SDK."""
    check_allowed(url, name)
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def bound(response: httpx2.Response) -> None:
        """Bound an answer that is no stream of events; the SDK bounds each event of one."""
        if response.headers.get("content-encoding", "identity") != "identity":
            raise MCPServerError("it compressed its answer, which nobody asked for")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _bounded_class()(response.stream)

    client = httpx2.AsyncClient(
        headers={"accept-encoding": "identity", **headers},
        timeout=httpx2.Timeout(30.0, connect=10.0, read=None),  # a request has a limit of its own
        event_hooks={"response": [bound]},
    )
    async with (
        client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_LINE) as streams,
    ):
        yield streams


def _bounded_class() -> Any:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        """The body of an answer, which ends with an error where it is too long."""

        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for piece in self._stream:
                size += len(piece)
                if size > MAX_LINE:
                    raise MCPServerError(f"it sent an answer of more than {MAX_LINE:,} bytes")
                yield piece

        async def aclose(self) -> None:
            await self._stream.aclose()

    return Bounded
