"""The agents as an MCP server: each action that they offer is a tool."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from moothall import tracing
from moothall.doors.callers import LOCAL, caller_of, sender_of
from moothall.doors.checks import Message, Receive, Scope, Send
from moothall.doors.mcp_job import Asked, Job
from moothall.doors.refusals import REFUSED, fault_of
from moothall.doors.served import Caller, Served
from moothall.errors import MoothallError
from moothall.jsonvalue import json_text
from moothall.mcp.results import ResultSchema, content_of
from moothall.reasoning.events import CallEnded, CallProgress, CallStarted, Event
from moothall.reasoning.loop.answer import safe_names
from moothall.text import one_line

if TYPE_CHECKING:
    import mcp_types as types
    from mcp import MCPError
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

    from moothall.action import Action

_CALLS: Final = "moothall.calls"
"""In a request's scope: the calls that end if the client closes its connection."""
_WAITS_S: Final = 600.0
"""How long a call waits for an answer that comes with another request."""
_MOST_WAITING: Final = 1000


class MCPDoor:
    """Serves agents by MCP: over streamable HTTP, and over standard streams.

    Each session is a sender of its own, so that each has its own threads. The revision of
    2026-07-28 has no sessions: there a `say` without a thread begins one, and its result names it
    in `_meta`; only a thread that a result has named is taken.
    """

    def __init__(self, served: Served, title: str) -> None:
        from mcp.server.lowlevel import Server

        self._served = served
        self._key = secrets.token_bytes(32)
        self._waiting: dict[str, Job] = {}
        self.server: Server[Any] = Server(
            title,
            version=version("moothall"),
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    # -- transports --------------------------------------------------------------------------------

    @asynccontextmanager
    async def over_http(self) -> AsyncIterator[Any]:
        """Yield an ASGI application for the path of the door."""
        from mcp.server.streamable_http_manager import (
            StreamableHTTPASGIApp,
            StreamableHTTPSessionManager,
        )

        manager = StreamableHTTPSessionManager(self.server)
        async with manager.run():
            try:
                yield _Owned(StreamableHTTPASGIApp(manager))
            finally:
                self._end_waiting()

    async def over_standard_streams(self) -> None:
        """Serve the client at the standard streams until it closes them."""
        from mcp.server.stdio import stdio_server

        try:
            async with stdio_server() as (read, write):
                await self.server.run(read, write, self.server.create_initialization_options())
        finally:
            self._end_waiting()

    def _end_waiting(self) -> None:
        for job in self._waiting.values():
            if job.task is not None:
                job.task.cancel()
        self._waiting.clear()

    # -- tools -------------------------------------------------------------------------------------

    def _tools(self) -> dict[str, tuple[str, Any]]:
        """Return the tools by name: `action`, or `agent_action` if there are several agents.

        Hosts pass the names on to their models, whose providers take letters, digits, `_` and `-`.
        """
        several = len(self._served.agents) > 1
        found = {
            f"{id}\0{action.name}" if several else action.name: (id, action)
            for id, action in self._served.actions()
        }
        safe = safe_names(found)
        return {safe[public]: each for public, each in found.items()}

    async def _list(
        self, ctx: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        import mcp_types as types

        hint = types.ToolAnnotations(idempotent_hint=True)
        tools = [
            types.Tool(
                name=name,
                description=action.description,
                input_schema={"type": "object", **action.parameters},
                output_schema=None if (gives := _gives(action)) is None else gives.schema,
                annotations=hint if action.idempotent else None,
            )
            for name, (_, action) in self._tools().items()
        ]
        return types.ListToolsResult(tools=tools)

    async def _call(
        self, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        import mcp_types as types
        from mcp import MCPError

        args = params.arguments or {}
        if params.request_state is not None:
            return await self._followed(ctx, self._continued(ctx, params))
        found = self._tools().get(params.name)
        if found is None:
            text = f"there is no tool {one_line(params.name, 100)!r}"
            raise MCPError(types.INVALID_PARAMS, text)
        id, action = found
        caller = _caller(ctx)
        try:
            self._served.check(caller)
        except REFUSED as refused:
            raise _refused(refused) from None
        sender, meta = self._sender(ctx), None
        if sender is None:  # a revision without sessions
            sender = sender_of("mcp", caller)
            if "thread" in action.parameters.get("properties", {}):
                thread = args.get("thread")
                if thread is None:
                    thread = self._signed(secrets.token_hex(16))
                elif not isinstance(thread, str) or thread != self._signed(
                    thread.partition(".")[0]
                ):
                    return _failed("there is no such thread: leave it out to begin one")
                args, meta = {**args, "thread": thread}, {"thread": thread}
        capabilities = ctx.session.client_capabilities
        can_ask = capabilities is not None and capabilities.elicitation is not None
        job = Job(sender, caller, params.name, params.arguments or {}, can_ask)
        # A session's task is not that of the request; a trace in `_meta` is the SDK's to continue.
        stated = () if ctx.request is None or _in_meta(params) else ctx.request.headers.raw
        with tracing.joining(stated):
            job.task = asyncio.create_task(self._done(job, id, action, args, meta))
        job.task.add_done_callback(lambda task: job.news.put_nowait(None))
        return await self._followed(ctx, job)

    async def _done(
        self, job: Job, to: str, action: Action, args: dict[str, Any], meta: Any
    ) -> types.CallToolResult:
        """Call an action, and return its outcome as a result."""
        loop, tell = asyncio.get_running_loop(), job.news.put_nowait
        caller = Caller(loop, job.approve, job.answer, tell, name=job.caller)
        try:
            value = await self._served.call(job.sender, to, action.name, args, caller, tell)
            return _result(value, action, f"{to}.{action.name}", meta)
        except REFUSED as refused:
            raise _refused(refused) from None
        except MoothallError as error:
            return _failed(str(error))

    async def _followed(
        self, ctx: ServerRequestContext[Any], job: Job
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Report a call's progress and put its questions to the client, until it has ended."""
        assert job.task is not None
        kept = False
        under_way = set() if ctx.request is None else ctx.request.scope[_CALLS]
        under_way.add(job.task)
        try:
            while (news := await job.news.get()) is not None:
                if not isinstance(news, Asked):
                    await self._progress(ctx, job, news)
                elif ctx.session.can_send_request:
                    news.settle(await self._elicited(ctx, news))
                else:
                    kept = True
                    return self._kept(job, news)
            if job.task.cancelled():
                return _failed("it was cancelled")
            result: types.CallToolResult = await job.task
            return result
        finally:
            under_way.discard(job.task)
            if not kept:
                job.task.cancel()

    async def _progress(self, ctx: ServerRequestContext[Any], job: Job, event: Event | str) -> None:
        text = event if isinstance(event, str) else ""  # of the action itself
        if isinstance(event, CallStarted):
            text = f"{event.agent}: {event.action} {json_text(event.args)}"
        elif isinstance(event, CallProgress):
            text = f"{event.agent}: {event.action}: {event.text}"
        elif isinstance(event, CallEnded):
            text = f"{event.agent}: {event.action} has {'failed' if event.error else 'ended'}"
        if text:
            job.told += 1
            await ctx.session.report_progress(job.told, None, one_line(text, 300))

    async def _elicited(self, ctx: ServerRequestContext[Any], asked: Asked) -> Any:
        from mcp import MCPError

        try:
            return await ctx.session.elicit_form(asked.message, asked.schema, ctx.request_id)
        except (MCPError, ValueError):  # it cannot after all, or answers what is no form
            return None

    # -- questions of a revision in which the client comes again with the answer -------------------

    def _kept(self, job: Job, asked: Asked) -> types.InputRequiredResult:
        """Keep a waiting call under a name that cannot be guessed."""
        import mcp_types as types

        state = secrets.token_urlsafe(32)
        job.asked = asked
        self._waiting[state] = job
        asyncio.get_running_loop().call_later(_WAITS_S, self._dropped, state)
        while len(self._waiting) > _MOST_WAITING:
            self._dropped(next(iter(self._waiting)))
        params = types.ElicitRequestFormParams(message=asked.message, requested_schema=asked.schema)
        return types.InputRequiredResult(
            input_requests={"question": types.ElicitRequest(params=params)}, request_state=state
        )

    def _dropped(self, state: str) -> None:
        job = self._waiting.pop(state, None)
        if job is not None and job.task is not None:
            job.task.cancel()

    def _continued(
        self, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> Job:
        """Return the call that waits for this answer; its tool and arguments must be the same."""
        import mcp_types as types
        from mcp import MCPError

        job = self._waiting.pop(params.request_state or "", None)
        if job is None:
            text = "no call waits for this answer: it was given, or took too long"
            raise MCPError(types.INVALID_PARAMS, text)
        asked = job.asked
        assert asked is not None
        sender = self._sender(ctx) or sender_of("mcp", _caller(ctx))
        same = (params.name, params.arguments or {}, sender) == (*(job.tool, job.args, job.sender),)
        if not same:
            asked.settle(None)
            assert job.task is not None
            job.task.cancel()
            raise MCPError(types.INVALID_PARAMS, "the call is not the one that was asked about")
        asked.settle((params.input_responses or {}).get("question"))
        return job

    def _sender(self, ctx: ServerRequestContext[Any]) -> str | None:
        """Return the sender of a client's session; None in a revision without sessions."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        if ctx.request is None:  # the one client at the standard streams
            return "mcp"
        session = ctx.request.headers.get("mcp-session-id")
        if not session or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return None
        sender = sender_of("mcp", _caller(ctx))
        return f"{sender}/{hashlib.sha256(session.encode()).hexdigest()[:16]}"

    def _signed(self, name: str) -> str:
        """Return a thread's id, signed with this server's key."""
        seal = hmac.new(self._key, name.encode(), "sha256").hexdigest()[:32]
        return f"{name}.{seal}"


class _Owned:
    """An ASGI application that lets each named caller use only its own sessions."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with its caller as the user to whom the session belongs."""
        from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
        from mcp.server.auth.provider import AccessToken

        owner = AccessToken(token="", client_id=caller_of(scope), scopes=[])
        scope["user"] = AuthenticatedUser(owner)
        calls: set[asyncio.Task[Any]] = set()
        scope[_CALLS] = calls

        async def heard() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                for each in calls:
                    each.cancel()
            return message

        await self._app(scope, heard, send)


def _caller(ctx: ServerRequestContext[Any]) -> str:
    """Return the caller; at the standard streams, it is the program that started this one."""
    return LOCAL if ctx.request is None else caller_of(ctx.request.scope)


def _in_meta(params: types.CallToolRequestParams) -> bool:
    """Whether a call states its trace in `_meta`."""
    return bool(params.meta) and "traceparent" in dict(params.meta or {})


def _refused(error: Exception) -> MCPError:
    """Return the error of the protocol for a call that is refused."""
    from mcp import MCPError

    return MCPError(fault_of(error).code, str(error))


def _gives(action: Action) -> ResultSchema | None:
    """Return the schema of the results of an action's tool; None if its type is not known."""
    return ResultSchema.of(action.returned)


def _result(value: Any, action: Action, where: str, meta: Any) -> types.CallToolResult:
    import mcp_types as types

    gives = _gives(action)
    if gives is None:
        structured = value if isinstance(value, dict) else None
    else:
        structured = gives.content(value, where)
    return types.CallToolResult(
        content=content_of(value) or [types.TextContent(text=json_text(value))],
        structured_content=structured,
        _meta=meta,
    )


def _failed(text: str) -> types.CallToolResult:
    import mcp_types as types

    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)
