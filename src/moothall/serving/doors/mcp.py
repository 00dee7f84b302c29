"""The agents as an MCP server: each action that they offer is a tool."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from moothall import Event, MoothallError, NoSuchRun, StateError
from moothall.build import Thread, ToolCall, Tracing, one_line
from moothall.journal import REASONS, RunView, Wait
from moothall.serving.doors.asks import ASK_WAIT_S, MAX_WAITING, Ask, Caller, asks_of, waiting_text
from moothall.serving.doors.callers import sender_of
from moothall.serving.doors.checks import in_thread
from moothall.serving.doors.mcp_call import (
    CALLS,
    POLL_S,
    MCPCall,
    SessionOwnerApp,
    SessionThreads,
    answer_in,
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
    waits_of,
)
from moothall.serving.doors.protocols import MCP, REFUSALS, caller_text, ended_text
from moothall.serving.doors.served_agents import Served

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server


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
        self._waiting_calls: dict[str, MCPCall] = {}
        self._answered_calls: dict[str, MCPCall] = {}  # the last ones, by their answers
        self.server: Server[Any] = Server(
            title,
            version=version("moothall"),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
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
                yield SessionOwnerApp(StreamableHTTPASGIApp(manager))
            finally:
                self._cancel_waiting()

    async def over_standard_streams(self) -> None:
        """Serve the client at the standard streams until it closes them."""
        from mcp.server.stdio import stdio_server

        try:
            async with stdio_server() as (read, write):
                await self.server.run(read, write, self.server.create_initialization_options())
        finally:
            self._cancel_waiting()

    def _cancel_waiting(self) -> None:
        for job in self._waiting_calls.values():
            if job.task is not None:
                job.task.cancel()
        self._waiting_calls.clear()

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
            return await self._follow_call(ctx, await self._call_to_continue(ctx, params))
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
        job_args = (sender, caller, params.name, params.arguments or {}, id, action, args, meta)
        is_reply = action.name == "say" and id in self._served.replying()
        run_id = f"mcp-{secrets.token_hex(16)}" if is_reply else None
        job = MCPCall(*job_args, can_ask(ctx), run_id)
        with Tracing.join_trace(trace_headers):
            self._start(job, is_new=True)
        return await self._follow_call(ctx, job)

    def _start(self, job: MCPCall, *, is_new: bool = False) -> None:
        on_end = None if job.run_id is None else self._served.count_reply(is_new=is_new)
        job.task = asyncio.create_task(self._outcome(job))
        job.task.add_done_callback(lambda task: self._on_end(job))
        if on_end is not None:
            job.task.add_done_callback(on_end)

    def _on_end(self, job: MCPCall) -> None:
        self._served.answered_runs.discard(str(job.run_id))
        job.event_queue.put_nowait(None)

    async def _outcome(self, job: MCPCall) -> types.CallToolResult | list[Wait]:
        """Call an action; return its outcome as a result, or what its run waits for."""
        loop, on_event, action = asyncio.get_running_loop(), job.note_event, job.action
        asking = job.open_asks if job.can_ask else None
        caller = Caller(loop, asking, on_event, job.run_id, job.caller, options=job.options)
        call = (job.sender, job.agent, action.name, job.args, caller, on_event)
        try:
            value = await self._served.call(*call)
            return result_of(value, action, f"{job.agent}.{action.name}", job.meta)
        except REFUSALS:
            raise
        except MoothallError as error:
            if getattr(error, "type", "") == "RunHeld":  # another process has resumed it
                await asyncio.sleep(POLL_S)
                return await self._outcome(job)
            if waits := await waits_of(self._served, job):
                return waits
            await asyncio.sleep(0)  # the event that has the reply waits in this loop
            if job.reply is not None and job.reply.stop_reason not in ("error", *REASONS.answered):
                return failed_result(ended_text(job.reply, job.run_id))
            return failed_result(caller_text(error, job.run_id))

    async def _follow_call(
        self, ctx: ServerRequestContext[Any], job: MCPCall
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Report a call's progress and put its questions to the client, until it has ended."""
        assert job.task is not None
        keeps_running = False
        running_tasks = set() if ctx.request is None else ctx.request.scope[CALLS]
        running_tasks.add(job.task)
        try:
            while True:
                item = await job.event_queue.get()
                if isinstance(item, Ask):
                    if item.key not in job.open_asks.open:
                        continue  # withdrawn, before it was this one's turn
                    if not ctx.session.can_send_request:
                        keeps_running = True
                        return self._keep_call(job, item)
                    job.open_asks.settle(item.key, answer_in(item, await self._elicit(ctx, item)))
                    continue
                if item is not None:
                    await self._report_progress(ctx, job, item)
                    continue
                if job.task.cancelled():
                    return failed_result("it was cancelled")
                result: types.CallToolResult | list[Wait] = await job.task
                if not isinstance(result, list):
                    return result
                asks = [*asks_of(result, self._served.callers.permits(job.caller)).values()]
                if not job.can_ask or not asks:
                    return failed_result(waiting_text(result))
                if not ctx.session.can_send_request:
                    return input_required_result(f"{job.run_id}.{asks[0].key}", asks[0])
                await self._answer_by_form(ctx, job, asks[0])
                running_tasks.discard(job.task)
                self._start(job)
                running_tasks.add(job.task)
        finally:
            running_tasks.discard(job.task)
            if not keeps_running:
                job.task.cancel()

    async def _answer_by_form(self, ctx: ServerRequestContext[Any], job: MCPCall, ask: Ask) -> None:
        """Give a run the answer of the client's person, unless somebody else answers before."""
        ask.future = watch = asyncio.ensure_future(until_answered(self._served, job, ask.key))
        try:
            answer = answer_in(ask, await self._elicit(ctx, ask))
            if not watch.done():
                await self._give_answer(job, ask.key, answer)
        finally:
            watch.cancel()

    async def _give_answer(self, job: MCPCall, key: str, answer: Any) -> None:
        """Give a run that waits its answer; another one that was given before counts."""
        journal: Any = self._served.agents[job.agent].journal  # type: ignore[attr-defined]
        assert job.run_id is not None

        def give() -> None:
            with suppress(StateError):
                journal.answer(job.run_id, key, answer, by=job.caller)

        await self._served.answer(job.run_id, give)

    async def _report_progress(
        self, ctx: ServerRequestContext[Any], job: MCPCall, event: Event | str
    ) -> None:
        # A text is of the action itself.
        if text := event if isinstance(event, str) else event.progress:
            job.progress_count += 1
            await ctx.session.report_progress(job.progress_count, None, one_line(text, 300))

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

    def _keep_call(self, job: MCPCall, ask: Ask) -> types.InputRequiredResult:
        """Keep a call that waits in this process under a name that cannot be guessed."""
        state = secrets.token_urlsafe(32)
        job.ask = ask
        self._waiting_calls[state] = job
        asyncio.get_running_loop().call_later(ASK_WAIT_S, self._drop_call, state)
        while len(self._waiting_calls) > MAX_WAITING:
            self._drop_call(next(iter(self._waiting_calls)))
        return input_required_result(state, ask)

    def _drop_call(self, state: str) -> None:
        job = self._waiting_calls.pop(state, None)
        if job is not None and job.task is not None:
            job.task.cancel()

    async def _call_to_continue(
        self, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> MCPCall:
        """Return the call that waits for this answer; its tool and arguments must be the same."""
        import mcp_types as types
        from mcp import MCPError

        state = params.request_state or ""
        sender = self._sender(ctx) or sender_of(MCP.sender, caller_in(ctx))
        result = (params.input_responses or {}).get("question")
        call = (params.name, params.arguments or {}, sender)
        job = self._answered_calls.get(state)
        if job is not None and job.is_same_call(*call) and job.answers[state] == result:
            job.repeat()
            return job
        job = self._waiting_calls.pop(state, None)
        if job is None:
            return await self._resume_waiting_run(ctx, params, sender, result)
        ask = job.ask
        assert ask is not None
        if not job.is_same_call(*call):
            assert job.task is not None
            job.task.cancel()
            raise MCPError(types.INVALID_PARAMS, "the call is not the one that was asked about")
        job.answers[state] = result
        self._answered_calls[state] = job
        while len(self._answered_calls) > MAX_WAITING:
            del self._answered_calls[next(iter(self._answered_calls))]
        job.open_asks.settle(ask.key, answer_in(ask, result))
        return job

    async def _resume_waiting_run(
        self,
        ctx: ServerRequestContext[Any],
        params: types.CallToolRequestParams,
        sender: str,
        result: Any,
    ) -> MCPCall:
        """Give a run that waits in its journal the answer, and go on with its call."""
        import mcp_types as types
        from mcp import MCPError

        no_call_error = MCPError(
            types.INVALID_PARAMS, "no call waits for this answer: it was given, cancelled or late"
        )
        run_id, _, key = (params.request_state or "").partition(".")
        id, action = self._tools().get(params.name, ("", None))
        journal = self._served.journal_of(id)
        if journal is None or action is None or action.name != "say":
            raise no_call_error
        try:
            view = await in_thread(RunView, journal, run_id)
        except NoSuchRun:
            raise no_call_error from None
        run, args = view.outline, params.arguments or {}
        thread = run.thread or ""
        if run.agent != id or not (thread == sender or thread.startswith(f"{sender}/")):
            raise no_call_error
        request, all_waits = await in_thread(lambda: (view.request, view.calls_by_wait))
        if request is None or request.text != args.get("content"):
            raise MCPError(types.INVALID_PARAMS, "the call is not the one that was asked about")
        caller, meta = caller_in(ctx), None
        if own_thread := thread.removeprefix(sender).removeprefix("/"):
            args, meta = {**args, "thread": own_thread}, {"thread": own_thread}
        call = (sender, caller, params.name, params.arguments or {}, id, action, args, meta)
        job = MCPCall(*call, can_ask(ctx), run_id)
        waits = await waits_of(self._served, job)
        decided = await in_thread(journal.waits.decided, caller, run_id)  # perhaps sent again
        asks = asks_of((*waits, *decided), self._served.callers.permits(caller))
        if key in asks:
            await self._give_answer(job, key, answer_in(asks[key], result))
        elif (
            any(each.key == key for each in waits)
            or key not in all_waits
            or not (run.held or run.state in ("waiting", "forked", *REASONS.answered))
        ):
            raise no_call_error
        self._start(job)  # also if somebody else has answered: it gives the reply
        return job

    def _sender(self, ctx: ServerRequestContext[Any]) -> str | None:
        """Return the sender of a client's session; None in a revision without sessions."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        if ctx.request is None:  # the one client at the standard streams
            return MCP.sender
        session = ctx.request.headers.get("mcp-session-id")
        if not session or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return None
        return Thread.session_sender(sender_of(MCP.sender, caller_in(ctx)), session)
