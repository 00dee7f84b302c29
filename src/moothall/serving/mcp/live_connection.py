"""One connection of the SDK's client, while it is open, and in words why it is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from moothall import MCPServerError, MoothallError
from moothall.build import error_text, json_line, one_line
from moothall.serving.mcp.filtered_stream import filtered_streams
from moothall.serving.mcp.server_request import Send
from moothall.serving.mcp.web import refusal_in

if TYPE_CHECKING:
    import mcp
    from mcp import MCPError

    from moothall.serving.mcp.process import ServerProcess

UNANSWERED: Final = "it did not answer in time"
_LAST_REQUESTS_S: Final = 5.0
"""How long the requests under way may still end after a server has forgotten their session."""


class LiveConnection:
    """One connection of the server's."""

    def __init__(self) -> None:
        self.client: Any = None
        self.process: ServerProcess | None = None  # None for a server at an address
        self.address: str = ""  # its address, without what may be secret
        self.has_session: bool = False  # which a server at an address refuses once it started anew
        self.end_event: asyncio.Event = asyncio.Event()  # nothing comes any more
        self.is_closed: bool = False  # nothing is read any more
        self.fault: str = ""  # why nothing more is read of it
        self.is_forgotten: bool = (
            False  # the server has forgotten its session: the next request begins one
        )
        self.request_count: int = 0  # how many are under way
        self.end_reason: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def output_hint(self) -> str:
        """Return what its process wrote that was no message, as the end of an error's text."""
        return "" if self.process is None else self.process.output_hint()

    def note_session(self) -> None:
        """Note that the server keeps a session for this connection."""
        self.has_session = True

    def end_when_idle(self) -> None:
        """Have this connection end with the last of its requests, or soon."""
        if not self.is_forgotten:
            self.is_forgotten = True
            delay_s = _LAST_REQUESTS_S if self.request_count else 0
            asyncio.get_running_loop().call_later(delay_s, self.end_event.set)

    async def send(self, send_with: Send) -> Any:
        """Send a request, and return its answer."""
        self.request_count += 1
        try:
            return await send_with(self.client)
        finally:
            self.request_count -= 1
            if self.is_forgotten and not self.request_count:
                self.end_event.set()

    async def is_session_lost(self, error: MCPError) -> bool:
        """Whether an error says that the server knows no such session, so it ran nothing."""
        from mcp import MCPError

        status = refusal_in(error)
        if status and status != 404 and not self.is_forgotten:  # it may refuse this request alone
            try:
                await self.send(_ping)
                return False
            except MCPError as second_error:
                status = refusal_in(second_error)
        return bool(status)

    def set_end_reason(self, reason: str) -> None:
        """Say why it has ended, once it is closed."""
        self.end_event.set()
        if not self.end_reason.done():
            self.end_reason.set_result(reason)


async def _ping(client: mcp.Client) -> None:
    """Ask a server for what each answers in a session that it knows."""
    from mcp_types import EmptyResult, PingRequest
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
        await client.session.send_discover(client.protocol_version)
    else:
        await client.session.send_request(PingRequest(), EmptyResult)


@asynccontextmanager
async def open_session(
    connection: LiveConnection,
    transport: Any,
    name: str,
    elicit: Any,
    on_list_change: Callable[[bool], None],
) -> AsyncIterator[None]:
    """Open a connection over a transport of the SDK, and close it, in the same task."""
    import mcp
    from mcp_types import Implementation

    connection.client = mcp.Client(
        filtered_streams(transport, connection, name, on_list_change),
        client_info=Implementation(name="moothall", version=version("moothall")),
        elicitation_callback=elicit,
        cache=None,
    )
    async with connection.client:
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
        first_error = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first_error["loc"]))
        reason = f"it answered what the protocol does not allow: {field}: {first_error['msg']}"
    elif isinstance(error, MCPError):
        reason = error.message
        if error.code == UNSUPPORTED_PROTOCOL_VERSION and isinstance(error.data, dict):
            versions = one_line(json_line(error.data.get("supported")), 150)
            reason = f"{one_line(reason, 100)}: it speaks {versions}"
            reason += f", and moothall {KNOWN_PROTOCOL_VERSIONS}"
    elif type(error).__name__ == "ConnectError":  # the HTTP client's
        reason = f"nothing answers there ({error_text(error, 400)})"
    elif isinstance(error, TimeoutError):
        reason = UNANSWERED
    else:
        reason = error_text(error, 400)
    return MCPServerError(f"{name}: {label} failed: {one_line(reason, 400)}")


def end_reason_of(name: str, connection: LiveConnection, failure: BaseException | None) -> str:
    """Return why a connection has ended, or could not be opened."""
    process = connection.process
    if connection.fault:
        return connection.fault + connection.output_hint()
    if process is not None and process.end_event.is_set():
        return process.end_reason()
    if failure is None:
        return "the connection has ended"
    label = f"connecting to {connection.address}" if connection.address else "connecting"
    reason = str(as_moothall_error(name, label, failure)).removeprefix(f"{name}: ")
    return reason + connection.output_hint()


async def wait_for_first(*events: asyncio.Event) -> asyncio.Event:
    """Return the first of some events that is set, as soon as one is."""
    events_by_task = {asyncio.ensure_future(each.wait()): each for each in events}
    try:
        await asyncio.wait(events_by_task, return_when=asyncio.FIRST_COMPLETED)
        return next(each for each in events if each.is_set())
    finally:
        for task in events_by_task:
            task.cancel()
