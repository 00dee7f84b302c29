"""The connection to one server: one task of one thread owns it from its beginning to its end.

What the SDK's client enters in a task it must leave in that task, and its scopes break where
another task, or another loop, does that. So the owner opens and closes the connection on a loop of
its own, and everybody else hands it requests: from any loop, thread or task, whichever ends first.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from moothall import ActionError, Later, MCPServerError, MoothallError, SpaceClosed
from moothall.build import LoopThread, Tracing, one_line
from moothall.serving.mcp.elicitation import address_in_words, addresses_in
from moothall.serving.mcp.listing import ServerOffer, read_offer
from moothall.serving.mcp.live_connection import (
    UNANSWERED,
    LiveConnection,
    as_moothall_error,
    end_reason_of,
    open_session,
    wait_for_first,
)
from moothall.serving.mcp.process import ServerProcess, over_process
from moothall.serving.mcp.server_request import Ask, Send, ServerRequest
from moothall.serving.mcp.web import Headers, over_http, shown_address

if TYPE_CHECKING:
    import anyio
    import mcp
    from mcp import MCPError
    from mcp_types import ElicitResult

_FIRST_DELAY_S: Final = 0.2
_LONGEST_DELAY_S: Final = 30.0
_MAX_OPENING_QUESTIONS: Final = 3
"""So often may a call want an address opened first: a person may say too early that it is done."""
_RELIST_S: Final = 1.0
"""A server may change its list more often; it is read this often at most."""
logger: logging.Logger = logging.getLogger("moothall.serving.mcp")

_REQUEST: ContextVar[ref[ServerRequest] | None] = ContextVar("moothall_mcp_request", default=None)
"""The request that a task of the connection's loop sends. Weak, since the loop keeps contexts."""


@dataclass(eq=False)
class ServerConnection:
    """One server, started or reached at the first request, and again after its end.

    Args:
        name: how errors and the log name the server
        target: its command, or its address
        env: variables for its process
        headers: headers for its address, or a function that returns those of a request
        timeout_s: seconds until a request ends
        on_offer: told, on the connection's loop, what the server offers, each time that it is read
        auth: who logs in at its address
    """

    name: str
    target: str | list[str]
    env: Mapping[str, str]
    headers: Mapping[str, str] | Headers
    timeout_s: float
    on_offer: Callable[[ServerOffer], None]
    auth: Any = None
    _closed: bool = False
    _open_connection: LiveConnection | None = None
    _latest_connection: LiveConnection | None = None  # also while it is opened
    _failures: int = 0
    _requests: dict[ServerRequest, None] = field(default_factory=dict)
    _list_faults: set[str] = field(default_factory=set)  # that the log has

    def __post_init__(self) -> None:
        self._thread = LoopThread("moothall-mcp", self._close, lambda: None)
        self._thread.start()
        self._thread.call(self._set_up)

    def _set_up(self) -> None:
        self._opening: asyncio.Future[LiveConnection] | None = None
        self._wake = asyncio.Event()
        self._list_changed = asyncio.Event()  # the server's list is not the one that was read
        self._list_is_current = asyncio.Event()
        self._list_is_current.set()
        self._scope: anyio.CancelScope | None = None
        self._owner = self._thread.spawn(self._keep_open())

    # -- for callers, on any loop or in any thread -------------------------------------------------

    async def request(
        self, send: Send, label: str, ask: Ask | None = None, caller: object = None
    ) -> Any:
        """Send a request, and return its answer; if cancelled, cancel it at the server too.

        Raises:
            ActionError: the server refuses it, or it took too long
            MCPServerError: the server cannot be reached, or ended meanwhile
        """
        answer = asyncio.get_running_loop().create_future()
        request = ServerRequest(send, label, answer, ask, caller)
        request.trace = Tracing.carry()
        self._thread.call_soon(self._accept_request, request)
        try:
            return await request.answer
        except asyncio.CancelledError:
            self._thread.call_soon(self._cancel_request, request)
            raise

    async def open(self) -> None:
        """Connect, if that has not happened, and read what the server offers."""
        await self.request(self._do_nothing, "connecting")

    def open_in_thread(self) -> None:
        """Do what `open` does, in a thread without a loop."""
        try:
            self._thread.run(self.open).result()
        except SpaceClosed:
            raise self._closed_error() from None

    def close(self, *, wait: bool = True) -> None:
        """End the connection and the server's process; what waits ends as MCPServerError."""
        if wait:
            self._thread.stop()
        else:
            self._thread.call_soon(self._thread.end)

    @property
    def is_live(self) -> bool:
        """Whether the server answers."""
        return self._open_connection is not None and not self.is_closed

    @property
    def is_closed(self) -> bool:
        """Whether it has been closed, or belongs to the process that forked this one."""
        return self._closed or self._thread.closed

    def _closed_error(self) -> MCPServerError:
        return MCPServerError(f"{self.name}: the connection is closed")

    # -- requests, on the connection's loop --------------------------------------------------------

    def _accept_request(self, request: ServerRequest) -> None:
        if self.is_closed:
            request.settle(error=self._closed_error())
            return
        import mcp  # noqa: F401  # the first time takes seconds on a busy machine: not the server's

        self._requests[request] = None
        request.task = self._thread.spawn(self._answer_request(request))
        self._start_timer(request, self.timeout_s)

    def _start_timer(self, request: ServerRequest, seconds: float) -> None:
        request.timer = self._thread.loop.call_later(seconds, self._on_timeout, request)

    def _on_timeout(self, request: ServerRequest) -> None:
        output_hint = (
            "" if self._latest_connection is None else self._latest_connection.output_hint()
        )
        is_connected = self._open_connection is not None
        # The error is the same for each caller of a server that does not connect.
        reason = (
            f"{request.label} took longer than {self.timeout_s:g} s" if is_connected else UNANSWERED
        )
        text = f"{self.name}: {reason}{output_hint}"
        request.settle(
            error=ActionError("TimeoutError", text) if is_connected else MCPServerError(text)
        )
        self._cancel_request(request)

    def _cancel_request(self, request: ServerRequest) -> None:
        """Cancel a request whose caller does not wait any more."""
        for each in (request.timer, request.task, request.person_answer):
            if each is not None:
                each.cancel()

    async def _answer_request(self, request: ServerRequest) -> None:
        _REQUEST.set(ref(request))
        if request.trace is not None:
            request.trace()  # the SDK states the span in `_meta`
        value: Any = None
        failure: BaseException | None = None
        try:
            value = await self._send_until_answered(request)
        except asyncio.CancelledError:
            failure = self._closed_error()  # or nobody waits
        except MoothallError as error:
            failure = error
            if request.unopened_addresses and isinstance(error, ActionError):
                unopened_text = (
                    f"it wants a person to open {' and '.join(request.unopened_addresses)}"
                )
                failure = ActionError(error.type, f"{error.text}; {unopened_text}", error.where)
        except BaseException as error:
            failure = as_moothall_error(self.name, request.label, error)
        finally:
            self._requests.pop(request, None)
            for each in (request.timer, request.person_answer):
                if each is not None:
                    each.cancel()
        request.settle(value, failure)

    async def _send_until_answered(self, request: ServerRequest) -> Any:
        """Return the answer of the server that runs now, or else is started now."""
        from mcp import MCPError

        may_retry, question_count = True, 0
        while True:
            connection = await self._live_connection()
            if not self._list_is_current.is_set():
                await self._list_is_current.wait()
                continue  # it may have ended meanwhile
            try:
                value = await connection.send(request.send)
            except MCPError as error:
                if may_retry and await connection.is_session_lost(error):
                    may_retry = False
                    connection.end_when_idle()
                elif question_count < _MAX_OPENING_QUESTIONS and await self._has_opened_addresses(
                    request, error
                ):
                    question_count += 1
                else:
                    await self._look_at_list(request, connection)
                    raise await self._error_for_caller(request, connection, error) from None
            except ActionError:  # of the tool, or of a server that has no such tool
                await self._look_at_list(request, connection)
                raise
            else:
                self._failures = 0
                await self._wait_for_list(request)
                return value

    async def _error_for_caller(
        self, request: ServerRequest, connection: LiveConnection, error: MCPError
    ) -> MoothallError:
        """Return what a caller is told of an error of the SDK."""
        from mcp_types import CONNECTION_CLOSED

        reason = error.message
        is_lost = error.code == CONNECTION_CLOSED and reason.startswith("SSE stream ")
        if connection.end_event.is_set() or connection.is_closed:
            is_lost = True
            connection.end_event.set()
            reason = await asyncio.shield(connection.end_reason)
        if is_lost:
            return MCPServerError(
                f"{self.name}: {request.label} got no answer, and whether it took effect is not "
                f"known: {one_line(reason, 2000)}"
            )
        request.unopened_addresses = [
            address_in_words(each) for each in addresses_in(error)
        ] or request.unopened_addresses
        return ActionError("MCPError", one_line(f"{reason} (code {error.code})", 2000))

    async def _live_connection(self) -> LiveConnection:
        connection = self._open_connection
        if connection is not None:
            if connection.is_closed:
                connection.end_event.set()
            if not (connection.is_forgotten or connection.end_event.is_set()):
                return connection
        if self._opening is None:
            self._opening = self._thread.loop.create_future()
            self._wake.set()
        return await asyncio.shield(self._opening)

    # -- the owner ---------------------------------------------------------------------------------

    async def _keep_open(self) -> None:
        """Open the connection when it is wanted, and keep it until its end, again and again."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            connection = self._latest_connection = LiveConnection()
            reason = "the connection was closed"
            if not self._closed:
                reason = await self._run_connection(connection)
            self._open_connection = None
            connection.set_end_reason(reason)
            self._fail_opening(reason)
            self._list_changed.clear()
            self._list_is_current.set()
            if self._closed:
                return

    async def _run_connection(self, connection: LiveConnection) -> str:
        """Open a connection, and keep it until its end; return why it has ended."""
        import anyio

        failure: BaseException | None = None
        # The SDK's own scopes swallow the cancellation of a task: so a scope around them.
        with anyio.CancelScope() as self._scope:
            try:
                await self._back_off()
                self._failures += 1  # until it has answered a request
                # Before those that wait for it end without a reason.
                self._scope.deadline = anyio.current_time() + self.timeout_s * 0.9
                async with open_session(
                    connection,
                    self._transport(connection),
                    self.name,
                    self._elicit,
                    self._note_change,
                ):
                    self.on_offer(await self._read_offer(connection))
                    self._scope.deadline = math.inf
                    self._open_connection = connection
                    self._resolve_opening(connection)
                    await self._follow_list(connection)
            except Exception as error:
                failure = error
        if self._closed:
            return "the connection was closed"
        if self._scope.cancelled_caught:
            failure = TimeoutError()
        return end_reason_of(self.name, connection, failure)

    async def _read_offer(self, connection: LiveConnection) -> ServerOffer:
        return await read_offer(connection.client, self.name, self._list_faults)

    async def _back_off(self) -> None:
        """Wait before another start of a server that has failed, longer each time."""
        if self._failures:
            longest = min(_FIRST_DELAY_S * 2**self._failures, _LONGEST_DELAY_S)
            await asyncio.sleep(longest * random.uniform(0.5, 1.0))

    def _resolve_opening(self, connection: LiveConnection) -> None:
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.set_result(connection)

    def _fail_opening(self, reason: str) -> None:
        """End what waits for a connection that could not be opened."""
        if self._wake.is_set():
            return  # it waits for the next one
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.set_exception(MCPServerError(f"{self.name}: {reason}"))
            opening.exception()  # all that waited may have been cancelled

    def _transport(self, connection: LiveConnection) -> Any:
        """Return what carries the messages of a connection."""
        if isinstance(self.target, str):
            connection.address = shown_address(self.target)
            return over_http(
                self.target, self.headers, self.name, self.auth, connection.note_session
            )
        connection.process = ServerProcess(self.target, self.env)
        connection.end_event = connection.process.end_event
        return over_process(connection.process)

    async def _follow_list(self, connection: LiveConnection) -> None:
        """Read the list again when it changes, until the connection is over."""
        import anyio

        listener = self._thread.spawn(self._listen_for_changes(connection))
        try:
            while (
                await wait_for_first(connection.end_event, self._list_changed)
                is not connection.end_event
            ):
                self._list_changed.clear()
                try:
                    with anyio.fail_after(self.timeout_s):
                        self.on_offer(await self._read_offer(connection))
                except Exception as error:
                    logger.warning(
                        "%s", as_moothall_error(self.name, "reading its list again", error)
                    )
                    self._list_changed.set()  # calls wait until its list is known
                if not self._list_changed.is_set():
                    self._list_is_current.set()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_RELIST_S):
                        await connection.end_event.wait()
        finally:
            listener.cancel()

    async def _listen_for_changes(self, connection: LiveConnection) -> None:
        """Hear of changes of the list, where the protocol has a stream for that."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        client = connection.client
        capabilities = client.server_capabilities
        list_changes: Any = {
            f"{name}_list_changed": each is not None and bool(each.list_changed)
            for name, each in (
                ("tools", capabilities.tools),
                ("resources", capabilities.resources),
                ("prompts", capabilities.prompts),
            )
        }
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not any(
            list_changes.values()
        ):
            return
        while not connection.end_event.is_set():
            try:
                async with client.listen(**list_changes) as changes:
                    async for _ in changes:
                        self._note_change()
            except Exception as error:
                logger.debug("%s: its stream of changes has ended: %r", self.name, error)
            await asyncio.sleep(_LONGEST_DELAY_S)
            self._note_change()  # what was missed

    def _note_change(self, is_tool_list: bool = True) -> None:
        if is_tool_list:
            self._list_is_current.clear()  # calls wait
        self._list_changed.set()

    async def _wait_for_list(self, request: ServerRequest) -> None:
        """Wait a little for the list that a call has changed: its caller goes on with that."""
        if not self._list_is_current.is_set():
            assert request.timer is not None
            request.timer.cancel()  # there is an answer
            with suppress(TimeoutError):
                async with asyncio.timeout(2 * _RELIST_S):
                    await self._list_is_current.wait()

    async def _look_at_list(self, request: ServerRequest, connection: LiveConnection) -> None:
        """Read the list again where nobody hears that a server has started anew."""
        if connection.process is not None or connection.has_session:
            return
        assert request.timer is not None
        request.timer.cancel()  # there is an answer
        with suppress(Exception):  # the answer is all that the caller waits for
            async with asyncio.timeout(2 * _RELIST_S):
                self.on_offer(await self._read_offer(connection))

    # -- questions of the server to a person -------------------------------------------------------

    async def _elicit(self, context: Any, params: Any) -> Any:
        """Ask the person behind a request what the server asks meanwhile."""
        from mcp_types import ElicitResult

        reference = _REQUEST.get()
        request = None if reference is None else reference()
        if request is None:  # older revisions do not say which request asks
            if len({each.caller for each in self._requests}) > 1:
                logger.warning(
                    "%s asked a question while the calls of several callers were under way, and "
                    "did not say in which: it is declined",
                    self.name,
                )
                return ElicitResult(action="decline")
            idle_requests = (
                each for each in reversed(self._requests) if each.person_answer is None
            )
            request = next(idle_requests, next(reversed(self._requests), None))
        return await self._ask_person(request, params)

    async def _has_opened_addresses(self, request: ServerRequest, error: MCPError) -> bool:
        """Whether the person has opened what is to be opened before a call."""
        addresses = addresses_in(error)
        for each in addresses:
            if (await self._ask_person(request, each)).action != "accept":
                return False
        return bool(addresses)

    async def _ask_person(self, request: ServerRequest | None, params: Any) -> ElicitResult:
        """Ask the person behind a request; its time stands still meanwhile."""
        from mcp_types import ElicitResult

        answer = ElicitResult(action="decline")
        while request is not None and request.person_answer is not None:  # one question at a time
            await asyncio.wait((request.person_answer,))
        if (
            request is not None
            and request.ask is not None
            and request in self._requests
            and not request.is_cancelled
        ):
            assert request.timer is not None
            seconds_left = request.timer.when() - self._thread.loop.time()
            request.timer.cancel()
            question = request.ask(params)
            try:
                run_on_loop, loop = asyncio.run_coroutine_threadsafe, request.answer.get_loop()
                person_answer = request.context.run(run_on_loop, question, loop)
                request.person_answer = asyncio.wrap_future(person_answer)
                answer = await request.person_answer
            except RuntimeError:  # the caller's loop has ended
                question.close()
                return ElicitResult(action="cancel")
            except Later as error:  # the call is made again once the answer has come
                request.settle(error=error)
                self._cancel_request(request)
                return ElicitResult(action="cancel")
            except MoothallError as error:
                logger.warning("%s asked a question, which is declined: %s", self.name, error)
            finally:
                request.person_answer = None
                if request in self._requests:
                    self._start_timer(request, seconds_left)
        if request is not None and params.mode == "url" and answer.action != "accept":
            request.unopened_addresses.append(address_in_words(params))
        return answer

    # -- the end -----------------------------------------------------------------------------------

    async def _close(self) -> None:
        """End what waits, and the owner, which closes the connection."""
        self._closed = True
        for request in list(self._requests):
            self._cancel_request(request)
        self._wake.set()
        if self._scope is not None:
            self._scope.cancel()
        await asyncio.wait((self._owner,))

    @staticmethod
    async def _do_nothing(client: mcp.Client) -> None:
        """Send nothing: the connection is all that is wanted."""
