"""The agents as an MCP server: each action that they offer is a tool."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from moothall import Event, MoothallError
from moothall.build import Thread, ToolCall, Tracing, one_line
from moothall.serving.doors.asks import Ask, waiting_text
from moothall.serving.doors.callers import sender_of
from moothall.serving.doors.checks import Receive, Scope, Send
from moothall.serving.doors.mcp_call import (
    CALLS,
    CallRuns,
    MCPCall,
    SessionOwnerApp,
    SessionThreads,
    answer_in,
    answer_token,
    caller_in,
    can_ask,
    elicited_form,
    failed_result,
    has_trace,
    input_required_result,
    protocol_refusals,
    result_of,
    result_schema_of,
    until_answered,
)
from moothall.serving.doors.protocols import MCP, REFUSALS, caller_text
from moothall.serving.doors.served.served_run import (
    CallerRequest,
    RunEvent,
    RunQuestions,
    RunRefused,
    ServedRun,
)
from moothall.serving.doors.served.served_runs import ServedRuns
from moothall.serving.doors.served_agents import Served

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server


_ANSWER_WAIT_S: Final = 86_400.0
"""How long a call under way waits for an answer to its question."""


class MCPDoor:
    """Serves agents by MCP: over streamable HTTP, and over standard streams.

    Each session is a sender of its own, so that each has its own threads. The revision of
    2026-07-28 has no sessions: there a `say` without a thread begins one. The result of a `say`
    names its thread in `_meta`; by this name it goes on in a later session or process. Without
    sessions, only a thread that a result has named is taken.
    """

    def __init__(self, served: Served, title: str) -> None:
        from mcp.server.lowlevel import Server

        self._served = served
        self._threads = SessionThreads(served)
        self._runs = ServedRuns(served, CallRuns(served, MCP), _ANSWER_WAIT_S)
        self.server: Server[Any] = Server(
            title,
            version=version("moothall"),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    _app: SessionOwnerApp  # while it is served over HTTP

    # -- transports --------------------------------------------------------------------------------

    @asynccontextmanager
    async def over_http(self) -> AsyncIterator[None]:
        """Answer the requests to the path of the door in the `with` block."""
        from mcp.server.streamable_http_manager import (
            StreamableHTTPASGIApp,
            StreamableHTTPSessionManager,
        )

        manager = StreamableHTTPSessionManager(self.server)
        async with manager.run():
            try:
                self._app = SessionOwnerApp(StreamableHTTPASGIApp(manager))
                yield
            finally:
                self._runs.end_all_left()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to its path, as an ASGI application."""
        await self._app(scope, receive, send)

    async def over_standard_streams(self) -> None:
        """Serve the client at the standard streams until it closes them."""
        from mcp.server.stdio import stdio_server

        try:
            async with stdio_server() as (read, write):
                await self.server.run(read, write, self.server.create_initialization_options())
        finally:
            self._runs.end_all_left()

    # -- tools -------------------------------------------------------------------------------------

    def _tools(self) -> dict[str, tuple[str, Any]]:
        """Return the tools by name: `action`, or `agent_action` if there are several agents.

        Hosts pass the names on to their models, whose providers take letters, digits, `_` and `-`.
        """
        has_several = len(self._served.agents) > 1
        by_name = {
            f"{id}\0{action.name}" if has_several else action.name: (id, action)
            for id, action in self._served.actions()
        }
        safe_names = ToolCall.safe_names(by_name)
        return {safe_names[name]: each for name, each in by_name.items()}

    async def _list_tools(
        self, ctx: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        import mcp_types as types

        hint = types.ToolAnnotations(idempotent_hint=True)
        tools = [
            types.Tool(
                name=name,
                description=action.description,
                input_schema={"type": "object", **action.parameters},
                output_schema=None
                if (result_schema := result_schema_of(action)) is None
                else result_schema.schema,
                annotations=hint if action.idempotent else None,
                _meta={"moothall/facts": {**action.facts}} if action.facts else None,
            )
            for name, (_, action) in self._tools().items()
        ]
        return types.ListToolsResult(tools=tools)

    async def _call_tool(
        self, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        with protocol_refusals():
            return await self._answer_call(ctx, params)

    async def _answer_call(
        self, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        import mcp_types as types
        from mcp import MCPError

        args = params.arguments or {}
        if params.request_state is not None:
            return await self._follow_call(ctx, await self._run_to_continue(ctx, params))
        if (match := self._tools().get(params.name)) is None:
            text = f"there is no tool {one_line(params.name, 100)!r}"
            raise MCPError(types.INVALID_PARAMS, text)
        id, action = match
        caller = caller_in(ctx)
        self._served.check(caller)
        sender, meta = self._sender(ctx) or sender_of(MCP.sender, caller), None
        if "thread" in action.parameters.get("properties", {}):
            caller_sender = sender_of(MCP.sender, caller)
            call_thread = await self._threads.resolve(caller_sender, self._sender(ctx), id, args)
            if call_thread is None:
                return failed_result("there is no such thread: leave it out to begin one")
            sender, args, meta = call_thread
        # A session's task is not that of the request; a trace in `_meta` is the SDK's to continue.
        trace_headers = () if ctx.request is None or has_trace(params) else ctx.request.headers.raw
        call = MCPCall(params.name, params.arguments or {}, action, args, meta)
        is_reply = action.name == "say" and id in self._served.replying()
        ids = f"mcp-{secrets.token_hex(16)}", id, sender, caller
        request = CallerRequest(*ids, can_answer=can_ask(ctx), is_reply=is_reply)
        with Tracing.join_trace(trace_headers):
            run = self._start(request, call, is_new=True)
        return await self._follow_call(ctx, run)

    def _start(self, request: CallerRequest, call: MCPCall, *, is_new: bool = False) -> ServedRun:
        work = call.work(self._served)
        run = self._runs.start(request, work, is_new=is_new, door_data=call)
        call.reader = run.follow()
        return run

    async def _follow_call(
        self, ctx: ServerRequestContext[Any], run: ServedRun
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Report a call's progress and put its questions to the client, until it has ended."""
        running_tasks = set() if ctx.request is None else ctx.request.scope[CALLS]
        while True:
            running_tasks.add(run.task)
            try:
                async with self._runs.bound(run):
                    if (question := await self._read_items(ctx, run)) is not None:
                        return question
                    result = await self._outcome(ctx, run)
            finally:
                running_tasks.discard(run.task)
            if result is not None:
                return result
            run = self._start(run.request, run.door_data)

    async def _read_items(
        self, ctx: ServerRequestContext[Any], run: ServedRun
    ) -> types.InputRequiredResult | None:
        """Follow a run until its work has ended; return a question that its client is to ask."""
        async for item in run.door_data.reader:
            if isinstance(item, RunEvent):
                await self._report_progress(ctx, run.door_data, item.event)
                continue
            for ask in item.asks.values() if item.name == "asking" else ():
                if ask.key not in run.open_asks.open:
                    continue  # it was withdrawn, or answered, before it was this one's turn
                if not ctx.session.can_send_request:
                    self._runs.leave(run)
                    return input_required_result(run.id, ask)
                run.open_asks.settle(ask.key, answer_in(ask, await self._elicit(ctx, ask)))
        return None

    async def _outcome(
        self, ctx: ServerRequestContext[Any], run: ServedRun
    ) -> types.CallToolResult | types.InputRequiredResult | None:
        """Return what came of a call; None if it goes on, since its client has answered."""
        state, call = run.state, run.door_data
        if state.name == "done":
            try:
                label = f"{run.request.agent}.{call.action.name}"
                return result_of(run.value, call.action, label, call.meta)
            except MoothallError as error:  # the value has not the type that was promised
                return failed_result(caller_text(error, run.id))
        if isinstance(run.error, REFUSALS):
            raise run.error
        if state.name != "at_rest":
            return failed_result(state.text or "it was cancelled")
        asks = [*state.asks.values()]
        if not run.request.can_answer or not asks:
            return failed_result(state.text or waiting_text(state.waits))
        if not ctx.session.can_send_request:
            return input_required_result(run.id, asks[0])
        await self._answer_by_form(ctx, run, asks[0])
        return None

    async def _answer_by_form(
        self, ctx: ServerRequestContext[Any], run: ServedRun, ask: Ask
    ) -> None:
        """Give a run the answer of the client's person, unless somebody else answers before."""
        ask.future = watch = asyncio.ensure_future(until_answered(self._served, run, ask.key))
        try:
            answer = answer_in(ask, await self._elicit(ctx, ask))
            if not watch.done():
                recorded = await self._runs.find_run(*run.ids)
                with suppress(RunRefused):  # another one that was given before counts
                    token = f"{run.id}.{ask.key}"
                    await self._runs.answer(recorded, token, lambda questions: {ask.key: answer})
        finally:
            watch.cancel()

    async def _report_progress(
        self, ctx: ServerRequestContext[Any], call: MCPCall, event: Event | str
    ) -> None:
        # A text is of the action itself.
        if text := event if isinstance(event, str) else event.progress:
            call.progress_count += 1
            await ctx.session.report_progress(call.progress_count, None, one_line(text, 300))

    async def _elicit(self, ctx: ServerRequestContext[Any], ask: Ask) -> Any:
        from mcp import MCPError

        form = ctx.session.elicit_form(ask.text, elicited_form(ask), ctx.request_id)
        elicited = asyncio.ensure_future(form)
        try:  # a question that is withdrawn needs no answer any more
            await asyncio.wait({elicited, ask.future or elicited}, return_when="FIRST_COMPLETED")
            return elicited.result() if elicited.done() else None
        except (MCPError, ValueError):  # it cannot after all, or answers what is no form
            return None
        finally:
            elicited.cancel()

    # -- questions of a revision in which the client comes again with the answer -------------------

    async def _run_to_continue(
        self, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> ServedRun:
        """Return the run that waits for this answer; its tool and arguments must be the same."""
        import mcp_types as types
        from mcp import MCPError

        sender = self._sender(ctx) or sender_of(MCP.sender, caller_in(ctx))
        run_id, _, key = (params.request_state or "").partition(".")
        result = (params.input_responses or {}).get("question")
        id, action = self._tools().get(params.name, ("", None))
        args = params.arguments or {}
        token = answer_token(params.request_state or "", result)
        no_call_error = MCPError(
            types.INVALID_PARAMS, "no call waits for this answer: it was given, cancelled or late"
        )
        try:
            run = await self._runs.find_asking(id, sender, run_id, token)
        except RunRefused:
            raise no_call_error from None
        if run.view is None:
            is_same = run.door_data.is_same(params.name, args)
        elif action is None or action.name != "say":
            raise no_call_error
        else:
            is_same = run.request.content == args.get("content")
        if not is_same:
            self._runs.drop(run)
            text = "the call is not the one that was asked about"
            raise MCPError(types.INVALID_PARAMS, text)
        if run.answer_token == token:
            if run.is_worked_on:
                text = "this answer was taken: its call goes on in another request"
                raise MCPError(types.INVALID_PARAMS, text)
            run.door_data.reader = run.follow()  # it tells nothing more than its outcome
            return run

        def read(questions: RunQuestions) -> dict[str, Any]:
            asks = {**questions.open_asks, **questions.answered_asks}
            if key in asks:
                return {key: answer_in(asks[key], result)}
            if key not in questions.late_keys or not run.goes_on:
                raise no_call_error
            return {key: None}

        with suppress(RunRefused):  # if somebody else has answered, it gives the reply, too
            await self._runs.answer(run, token, read)
        if run.view is None:
            return run
        meta = None
        if own_thread := run.request.context:
            args, meta = {**args, "thread": own_thread}, {"thread": own_thread}
        call = MCPCall(params.name, params.arguments or {}, action, args, meta)
        return self._start(replace(run.request, can_answer=can_ask(ctx)), call)

    def _sender(self, ctx: ServerRequestContext[Any]) -> str | None:
        """Return the sender of a client's session; None in a revision without sessions."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        if ctx.request is None:  # the one client at the standard streams
            return MCP.sender
        session = ctx.request.headers.get("mcp-session-id")
        if not session or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return None
        return Thread.session_sender(sender_of(MCP.sender, caller_in(ctx)), session)
