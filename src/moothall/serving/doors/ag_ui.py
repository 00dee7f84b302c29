"""Serves agents by AG-UI 1.0: a run is a stream of events, an approval an interrupt."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Final

from moothall import ReActAgent
from moothall.agents import ReplyRequest
from moothall.build import json_line
from moothall.journal import REASONS, RunView
from moothall.serving.doors import ag_ui_wire as wire
from moothall.serving.doors.ag_ui_run import PageRun
from moothall.serving.doors.asks import Ask, waiting_text
from moothall.serving.doors.callers import sender_of
from moothall.serving.doors.checks import (
    SSE_COMMENT,
    Send,
    hash_of,
    in_thread,
    sse_event,
    with_keepalives,
)
from moothall.serving.doors.openai.door import Endpoint, history_and_content
from moothall.serving.doors.openai.input import with_call_results
from moothall.serving.doors.openai.message_content import BadRequest
from moothall.serving.doors.protocols import AG_UI, run_error, to_id
from moothall.serving.doors.served.recorded_runs import DoorRuns
from moothall.serving.doors.served.reply_work import reply_work
from moothall.serving.doors.served.served_run import (
    CallerRequest,
    Follower,
    RunEvent,
    RunRefused,
    RunState,
    ServedRun,
    Work,
)
from moothall.serving.doors.served.served_runs import ServedRuns
from moothall.serving.doors.served_agents import Served

_GATHER_ASKS_S: Final = 0.2
"""How long a run that asks the person waits for what else it asks."""


class AGUIDoor:
    """Serves agents by AG-UI, at `/ag-ui/ID`; a single agent also at `/ag-ui`."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._runs = ServedRuns(served, PageRuns(served, AG_UI))

    def routes(self) -> list[Any]:
        """Return the routes of the door."""
        from starlette.routing import Route

        endpoint = Endpoint(POST=self._run_request)
        return [Route(f"{AG_UI.path}{id}", endpoint=endpoint) for id in ("", "/{id:path}")]

    def close(self) -> None:
        """Cancel the runs that wait for an answer."""
        self._runs.end_all_left()

    async def _run_request(self, body: dict[str, Any], send: Send, caller: str) -> None:
        agents = self._served.replying()
        id = to_id(body.get("path:id") or "", agents)
        id = id or (next(iter(agents)) if len(agents) == 1 else "")
        if id not in agents:
            raise BadRequest(f"there is no agent {id[:80]!r}: name one in the path", status=404)
        thread, run_id = body.get("threadId"), body.get("runId")
        if not isinstance(thread, str) or not isinstance(run_id, str):
            raise BadRequest("threadId and runId must be texts")
        for name in ("messages", "tools"):
            if not isinstance(body.get(name) or [], list):
                raise BadRequest(f"{name} must be a list", name)
        run = (
            await self._resume_run(id, caller, thread, body)
            if body.get("resume")
            else self._start_run(id, caller, body)
        )
        run.door_data.is_version_1 = wire.is_version_1(body)
        async with self._runs.bound(run):
            await self._send_events(run, {"threadId": thread, "runId": run_id}, send)

    async def _send_events(self, run: ServedRun, ids: dict[str, Any], send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        version = {"protocolVersion": "1.0"} if run.door_data.is_version_1 else {}
        await _send_event(send, {"type": "RUN_STARTED", **ids, **version})
        async with aclosing(with_keepalives(self._events_of(run, ids))) as events:
            async for each in events:
                if each is None:
                    comment = {"type": "http.response.body", "body": SSE_COMMENT}
                    await send({**comment, "more_body": True})
                else:
                    await _send_event(send, each)
        await send({"type": "http.response.body", "body": b""})

    def _start_run(self, id: str, caller: str, body: dict[str, Any]) -> ServedRun:
        """Begin a run. Its conversation is what the client has sent."""
        chat_request = wire.openai_request(id, body, wire.messages_of(body.get("messages") or ()))
        chat_request.messages = wire.with_model_call_ids(with_call_results(chat_request.messages))
        agent = self._served.replying()[id]
        earlier_messages, content = history_and_content(chat_request, agent, sends_history=True)
        earlier_messages = [*wire.context_messages(body.get("context") or ()), *earlier_messages]
        sender, context = sender_of(AG_UI.sender, caller), hash_of(body["threadId"], 16)
        run_id = self._run_id(id, caller, body)
        request = CallerRequest(run_id, id, sender, caller, context, content)
        page_run = PageRun.for_request(request.id, chat_request)
        reply_request = ReplyRequest(content, None, _own_thread(request), request.id)
        if isinstance(agent, ReActAgent):
            reply_request.conversation = earlier_messages
            reply_request.offered, earlier_messages = chat_request.tools, []
        work = reply_work(self._served, agent, reply_request, earlier_messages)
        return self._start(request, work, page_run, is_new=True)

    def _start(
        self, request: CallerRequest, work: Work, page_run: PageRun, *, is_new: bool
    ) -> ServedRun:
        run = self._runs.start(request, work, is_new=is_new, door_data=page_run)
        page_run.reader = run.follow()
        return run

    async def _events_of(
        self, run: ServedRun, ids: dict[str, Any]
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the protocol's events for a request, also those of one that was sent again."""
        page_run: PageRun = run.door_data
        events_again, page_run.events_again = page_run.events_again, []
        for each in events_again:
            yield each | (ids if "runId" in each else {})
        if events_again:
            return
        async for each in self._new_events(run, page_run, ids):
            if run.answer_token:
                page_run.events_sent.append(each)
            yield each

    async def _new_events(
        self, run: ServedRun, page_run: PageRun, ids: dict[str, Any]
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the protocol's events of the reply, until it ends or asks the person something."""
        writer = wire.EventWriter(page_run, run.request.agent)
        while (item := await _next_item(run, page_run.reader)) is not None:
            if isinstance(item, RunEvent):
                for each in writer.events(page_run.with_client_id(item.event)):
                    yield each
            elif item.name != "working":
                for each in writer.events(item):
                    yield each
                page_run.find_calls(item.asks)
                if item.name != "asking":
                    for each in self._end_events(run, page_run, ids, writer.text):
                        yield each
                    return
        if run.open_asks.open:  # all that can go on without the person has
            self._runs.leave(run)
            yield _interrupt_event(run, run.open_asks.open, ids)

    def _end_events(
        self, run: ServedRun, page_run: PageRun, ids: dict[str, Any], text: str
    ) -> list[dict[str, Any]]:
        """Return the last events of a run, whose last message was this text."""
        state, reply = run.state, run.reply
        if state.name == "at_rest":
            for ask in state.asks.values():
                ask.call = ask.call and page_run.call_ids.current(ask.details["agent"], ask.call)
            if state.asks:
                return [_interrupt_event(run, state.asks, ids)]
            end: dict[str, Any] = {"type": "RUN_FINISHED", **ids, "outcome": {"type": "success"}}
            return [*wire.message_events(state.text or waiting_text(state.waits)), end]
        if run.error is not None:
            return [run_error(run.error, state.text)]
        if state.name != "done" or reply is None:
            code = "cancelled" if reply is None else reply.stop_reason
            text = state.text or REASONS.explain("cancelled")
            return [{"type": "RUN_ERROR", "message": text, "code": code}]
        pending = page_run.pending_calls(reply, run.request.agent)
        outcome: dict[str, Any] = {"type": "success"}
        if page_run.is_version_1 and pending:
            outcome |= {"pendingToolCallIds": pending}
        end = {"type": "RUN_FINISHED", **ids, "outcome": outcome}
        reply_text = "" if pending else reply.text
        is_told = bool(text.strip()) and reply_text.strip().endswith(text.strip())
        if reply_text and not is_told:  # such as a group's
            return [*wire.message_events(reply_text), end]
        return [end]

    async def _resume_run(
        self, agent: str, caller: str, thread: str, body: dict[str, Any]
    ) -> ServedRun:
        """Give a waiting run its answers; each counts for what it answers, once."""
        run_id, entries = wire.resume_entries(body["resume"])
        sender, token = sender_of(AG_UI.sender, caller), hash_of(json_line([run_id, entries]), 32)
        try:
            run = await self._runs.find_asking(agent, sender, run_id, token)
        except RunRefused:
            raise wire.no_run_error() from None
        if run.request.context != hash_of(thread, 16):
            raise wire.no_run_error()
        if run.answer_token == token:
            run.door_data.tell_again(body.get("messages") or (), run.is_worked_on)
            return run
        tool_request = wire.openai_request(agent, body, [{"role": "user", "content": ""}])
        try:
            await self._runs.answer(run, token, partial(wire.answers_in, entries, run))
        except RunRefused as refusal:
            raise BadRequest(str(refusal)) from refusal
        if run.view is None:
            run.door_data.events_sent = []
            return run
        known_calls = await in_thread(_asked_calls, run.view)
        return self._go_on(run, run.view, PageRun.for_request(run_id, tool_request, known_calls))

    def _go_on(self, run: ServedRun, view: RunView, page_run: PageRun) -> ServedRun:
        """Go on with a run of the journal, which has got its answers."""
        agent = self._served.replying()[run.request.agent]
        schema = None if view.request is None else view.request.schema
        reply_request = ReplyRequest(run.request.content, schema, _own_thread(run.request), run.id)
        work = reply_work(self._served, agent, reply_request, is_new=False)
        return self._start(run.request, work, page_run, is_new=False)

    def _run_id(self, id: str, caller: str, body: dict[str, Any]) -> str:
        """Return the id of a request's run; of one sent again, the same if a journal has it."""
        if self._served.journal_of(id) is None:
            return secrets.token_hex(16)
        # Some clients name all their runs alike.
        return hash_of(
            json_line([id, caller, body["threadId"], body["runId"], body.get("messages")]), 32
        )


class PageRuns(DoorRuns):
    """The runs of the AG-UI door: each has a thread of its own, which tells the page's thread."""

    def request_in(self, view: RunView, sender: str | None) -> CallerRequest | None:
        """Return who asks for a run of the journal; None if it is no run of this sender."""
        run, id, text = view.outline, view.outline.id, view.request
        context = (run.thread or "").removeprefix(f"{sender}/").removesuffix(f"-{id}")
        content = "" if text is None else text.text
        request = self.request(id, run.agent, sender or "", context, content)
        return None if text is None or run.thread != _own_thread(request) else request


async def _next_item(run: ServedRun, reader: Follower) -> RunState | RunEvent | None:
    """Return what a run tells next; None if it only waits for the person, or has ended.

    Calls of one answer run side by side, so their questions come one after the other at once.
    """
    if not run.open_asks.open:
        return await anext(reader, None)
    with suppress(TimeoutError):
        async with asyncio.timeout(_GATHER_ASKS_S):
            return await anext(reader, None)
    return None


def _own_thread(request: CallerRequest) -> str:
    """Return the thread of a run of its own, by which its client's thread is known again."""
    return f"{request.sender}/{request.context}-{request.id}"


def _asked_calls(view: RunView) -> set[str]:
    """Return the ids of the calls that a run has ever asked about, also for another agent."""
    return {call for each in view.with_asked() for call in each.calls_by_wait.values()}


def _interrupt_event(
    run: ServedRun, asks: Mapping[str, Ask], ids: dict[str, Any]
) -> dict[str, Any]:
    """Return the end of a run that waits for the person, with all that it asks."""
    interrupts = [wire.interrupt_of(f"{run.id}.{key}", each) for key, each in asks.items()]
    outcome = {"type": "interrupt", "interrupts": interrupts}
    return {"type": "RUN_FINISHED", **ids, "outcome": outcome}


async def _send_event(send: Send, data: dict[str, Any]) -> None:
    await send({"type": "http.response.body", "body": sse_event(data), "more_body": True})
