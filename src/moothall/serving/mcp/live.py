"""One connection of the SDK's client, while it is open, and in words why it is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from moothall import MCPServerError, MoothallError
from moothall.build import error_text, json_text, one_line
from moothall.serving.mcp.filtered_stream import filtered_streams
from moothall.serving.mcp.server_request import Send
from moothall.serving.mcp.web import refusal_in

if TYPE_CHECKING:
    import mcp
    from mcp import MCPError

    from moothall.serving.mcp.process import ServerProcess

UNANSWERED: Final = "it did not answer in time"
_LAST_S: Final = 5.0
"""How long the requests under way may still end after a server has forgotten their session."""


class LiveConnection:
    """One connection of the server's."""

    def __init__(self) -> None:
        self.client: Any = None
        self.process: ServerProcess | None = None  # None for a server at an address
        self.address: str = ""  # its address, without what may be secret
        self.at_end: asyncio.Event = asyncio.Event()  # nothing comes any more
        self.closed: bool = False  # nothing is read any more
        self.fault: str = ""  # why nothing more is read of it
        self.forgotten = False  # the server has forgotten its session: the next request begins one
        self.requests = 0  # how many are under way
        self.end_reason: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def output_hint(self) -> str:
        """Return what its process wrote that was no message, as the end of an error's text."""
        return "" if self.process is None else self.process.output_hint()

    def forget(self) -> None:
        """Have this connection end with the last of its requests, or soon."""
        if not self.forgotten:
            self.forgotten = True
            wait = _LAST_S if self.requests else 0
            asyncio.get_running_loop().call_later(wait, self.at_end.set)

    async def answer(self, send: Send) -> Any:
        """Send a request, and return its answer."""
        self.requests += 1
        try:
            return await send(self.client)
        finally:
            self.requests -= 1
            if self.forgotten and not self.requests:
                self.at_end.set()

    async def has_forgotten(self, error: MCPError) -> bool:
        """Whether an error says that the server knows no such session, so it ran nothing."""
        from mcp import MCPError

        status = refusal_in(error)
        if status and status != 404 and not self.forgotten:  # it may refuse this request alone
            try:
                await self.answer(_probe)
                return False
            except MCPError as second:
                status = refusal_in(second)
        return bool(status)

    def end(self, reason: str) -> None:
        """Say why it has ended, once it is closed."""
        self.at_end.set()
        if not self.end_reason.done():
            self.end_reason.set_result(reason)


async def _probe(client: mcp.Client) -> None:
    """Ask a server for what each answers in a session that it knows."""
    from mcp_types import EmptyResult, PingRequest
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
        await client.session.send_discover(client.protocol_version)
    else:
        await client.session.send_request(PingRequest(), EmptyResult)


@asynccontextmanager
async def open_session(
    live: LiveConnection, transport: Any, name: str, elicit: Any, changed: Callable[[bool], None]
) -> AsyncIterator[None]:
    """Open a connection over a transport of the SDK, and close it, in the same task."""
    import mcp
    from mcp_types import Implementation

    live.client = mcp.Client(
        filtered_streams(transport, live, name, changed),
        client_info=Implementation(name="moothall", version=version("moothall")),
        elicitation_callback=elicit,
        cache=None,
    )
    async with live.client:
        yield


def as_moothall_error(name: str, label: str, error: BaseException) -> MoothallError:
    """Return what a caller is told of an exception of the SDK, in one line."""
    from mcp import MCPError
    from mcp_types import UNSUPPORTED_PROTOCOL_VERSION
    from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
    from pydantic import ValidationError

    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MoothallError):
        return error
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        reason = f"it answered what the protocol does not allow: {field}: {first['msg']}"
    elif isinstance(error, MCPError):
        reason = error.message
        if error.code == UNSUPPORTED_PROTOCOL_VERSION and isinstance(error.data, dict):
            versions = one_line(json_text(error.data.get("supported")), 150)
            reason = f"{one_line(reason, 100)}: it speaks {versions}"
            reason += f", and moothall {KNOWN_PROTOCOL_VERSIONS}"
    elif type(error).__name__ == "ConnectError":  # the HTTP client's
        reason = f"nothing answers there ({error_text(error, 400)})"
    elif isinstance(error, TimeoutError):
        reason = UNANSWERED
    else:
        reason = error_text(error, 400)
    return MCPServerError(f"{name}: {label} failed: {one_line(reason, 400)}")


def why_ended(name: str, live: LiveConnection, failure: BaseException | None) -> str:
    """Return why a connection has ended, or could not be opened."""
    process = live.process
    if live.fault:
        return live.fault + live.output_hint()
    if process is not None and process.at_end.is_set():
        return process.reason()
    if failure is None:
        return "the connection has ended"
    label = f"connecting to {live.address}" if live.address else "connecting"
    reason = str(as_moothall_error(name, label, failure)).removeprefix(f"{name}: ")
    return reason + live.output_hint()


async def first_set(*events: asyncio.Event) -> asyncio.Event:
    """Return the first of some events that is set, as soon as one is."""
    waiting = {asyncio.ensure_future(each.wait()): each for each in events}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        return next(each for each in events if each.is_set())
    finally:
        for task in waiting:
            task.cancel()
