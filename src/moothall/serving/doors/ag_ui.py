"""Serves agents by AG-UI 1.0: a run is a stream of events, an approval an interrupt."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final

from moothall import NoSuchRun, ReActAgent, Reply, ReplyStream, RunHeld, StateError
from moothall.agents import ReplyRequest
from moothall.build import json_text
from moothall.journal import REASONS, RunView
from moothall.serving.doors import ag_ui_wire as wire
from moothall.serving.doors.asks import ASK_WAIT_S, MAX_WAITING, RESTING, Ask, asks_of, waiting_text
from moothall.serving.doors.callers import sender_of
from moothall.serving.doors.checks import SSE_COMMENT, Send, in_thread, sse_event, with_keepalives
from moothall.serving.doors.openai.door import Endpoint, history_and_content
from moothall.serving.doors.openai.input import with_call_results
from moothall.serving.doors.openai.message_content import BadRequest
from moothall.serving.doors.protocols import AG_UI, ended_text, run_error, to_id
from moothall.serving.doors.served_agents import Served

_POLL_S: Final = 0.5
"""Seconds between two looks whether another server still works on a run."""
_GATHER_ASKS_S: Final = 0.2
"""How long a run that asks the person waits for what else it asks."""


class AGUIDoor:
    """Serves agents by AG-UI, at `/ag-ui/ID`; a single agent also at `/ag-ui`."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._waiting_runs: dict[str, wire.AGUIRun] = {}  # those that wait in this process, by run
        self._answered_runs: dict[str, wire.AGUIRun] = {}  # the last ones that took answers here

    def routes(self) -> list[Any]:
        """Return the routes of the door."""
        from starlette.routing import Route

        endpoint = Endpoint(POST=self._run_request)
        return [Route(f"{AG_UI.path}{id}", endpoint=endpoint) for id in ("", "/{id:path}")]

    def close(self) -> None:
        """Cancel the runs that wait for an answer."""
        for id in list(self._waiting_runs):
            self._drop_run(id)

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
        job = (
            await self._resume_run(id, caller, thread, body)
            if body.get("resume")
            else self._start_run(id, caller, body)
        )
        is_waiting, job.is_version_1 = False, wire.is_version_1(body)
        try:
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            ids = {"threadId": thread, "runId": run_id}
            version = {"protocolVersion": "1.0"} if job.is_version_1 else {}
            await _send_event(send, {"type": "RUN_STARTED", **ids, **version})
            async with aclosing(with_keepalives(self._events_of(job, ids))) as events:
                async for each in events:
                    if each is None:
                        comment = {"type": "http.response.body", "body": SSE_COMMENT}
                        await send({**comment, "more_body": True})
                        continue
                    is_waiting = job.run_id in self._waiting_runs
                    if job.answers is not None:
                        job.events_sent.append(each)
                    await _send_event(send, each)
            await send({"type": "http.response.body", "body": b""})
        finally:
            if not is_waiting and job.task is not None:
                job.task.cancel()

    def _start_run(self, id: str, caller: str, body: dict[str, Any]) -> wire.AGUIRun:
        """Begin a run. Its conversation is what the client has sent."""
        chat_request = wire.openai_request(id, body, wire.messages_of(body.get("messages") or ()))
        chat_request.messages = wire.with_model_call_ids(with_call_results(chat_request.messages))
        agent = self._served.replying()[id]
        earlier_messages, content = history_and_content(chat_request, agent, sends_history=True)
        earlier_messages = [*wire.context_messages(body.get("context") or ()), *earlier_messages]
        run_id, thread = self._run_id(id, caller, body), body["threadId"]
        names = frozenset(each.name for each in chat_request.tools)
        job = wire.AGUIRun(id, caller, thread, run_id, names, chat_request.client_tool_names)
        request = job.request(agent, _own_thread(caller, thread, run_id), content)
        if isinstance(agent, ReActAgent):
            request.conversation, request.offered = earlier_messages, chat_request.tools
            earlier_messages = []
        on_end = self._served.count_reply()
        job.task = asyncio.create_task(self._run_reply(job, agent, request, earlier_messages))
        job.task.add_done_callback(on_end)
        return job

    async def _run_reply(
        self,
        job: wire.AGUIRun,
        agent: Any,
        request: ReplyRequest,
        earlier_messages: list[dict[str, Any]] | None,
    ) -> None:
        """Have an agent reply; of a new run it observes what was said before."""
        sender, own_thread = sender_of(AG_UI.sender, job.caller), str(request.thread)
        try:
            with self._served.calling(sender, job.agent, job.asker):
                if earlier_messages is not None:
                    await self._served.permit(sender, agent, request.content)
                while True:
                    for message in earlier_messages or ():
                        await agent.observe(message, own_thread)
                    try:
                        async with ReplyStream(
                            job.agent, request, agent.reply_to_request
                        ) as events:
                            async for each in events:
                                job.take_event(each)
                        return
                    except RunHeld as error:
                        if error.run_id != job.run_id:
                            raise
                    # It was sent again while another server works on it: that has the reply soon.
                    self._served.forget(agent, own_thread)
                    await asyncio.sleep(_POLL_S)
        except Exception as error:  # also of an agent of the user's own
            job.event_queue.put_nowait(error)
        finally:
            self._served.forget(agent, own_thread)

    async def _events_of(
        self, job: wire.AGUIRun, ids: dict[str, Any]
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the protocol's events of the reply, until it ends or asks the person something."""
        for each in job.events_sent if job.task is None else ():  # its answer was sent again
            yield each | (ids if "runId" in each else {})
        writer = wire.EventWriter(job)
        while job.task is not None:
            item = await self._next_item(job)
            if item is None:  # all that can go on without the person has
                yield _interrupt_event(job, self._keep_waiting(job), ids)
                return
            for each in writer.events(item):
                yield each
            if isinstance(item, Ask):
                job.find_call_of(item)
            elif isinstance(item, Exception):
                yield run_error(item, job.run_id)
                return
            elif item.kind == "done" and item.agent == job.agent:  # not of a member
                for each in await self._end_events(job, ids, item.reply, writer.text):
                    yield each
                return

    async def _end_events(
        self, job: wire.AGUIRun, ids: dict[str, Any], reply: Reply, text: str
    ) -> list[dict[str, Any]]:
        """Return the last events of a reply, whose last message was this text."""
        if reply.stop_reason in RESTING:
            waits = await self._served.waits(job.agent, job.run_id)
            asks = asks_of(waits, self._served.callers.permits(job.caller))
            for ask in asks.values():
                ask.call = ask.call and job.call_ids.current(ask.details["agent"], ask.call)
            if asks:
                return [_interrupt_event(job, asks, ids)]
            end = {"type": "RUN_FINISHED", **ids, "outcome": {"type": "success"}}
            return [*wire.message_events(waiting_text(waits)), end]
        end = _end_event(reply, job, ids, self._served.agents[job.agent])
        reply_text = "" if _pending_calls(reply, job) or end["type"] == "RUN_ERROR" else reply.text
        if reply_text and reply_text.strip() != text.strip():  # such as a group's
            return [*wire.message_events(reply_text), end]
        return [end]

    # -- interrupts --------------------------------------------------------------------------------

    @staticmethod
    async def _next_item(job: wire.AGUIRun) -> Any:
        """Return what the reply tells next; None if it only waits for the person.

        Calls of one answer run side by side, so their questions come one after the other at once.
        """
        if not job.open_asks.open:
            return await job.event_queue.get()
        with suppress(TimeoutError):
            async with asyncio.timeout(_GATHER_ASKS_S):
                return await job.event_queue.get()
        return None

    def _keep_waiting(self, job: wire.AGUIRun) -> dict[str, Ask]:
        """Keep a run that waits in this process; return what it asks."""
        self._waiting_runs[job.run_id] = job
        asyncio.get_running_loop().call_later(
            ASK_WAIT_S, self._drop_idle, job, {*job.open_asks.open}
        )
        while len(self._waiting_runs) > MAX_WAITING:
            self._drop_run(next(iter(self._waiting_runs)))
        return job.open_asks.open

    def _drop_idle(self, job: wire.AGUIRun, keys: set[str]) -> None:
        if keys & (job.open_asks.open.keys() | job.open_asks.withdrawn):
            self._drop_run(job.run_id)

    def _drop_run(self, run_id: str) -> None:
        job = self._waiting_runs.pop(run_id, None)
        if job is not None and job.task is not None:
            job.task.cancel()

    async def _resume_run(
        self, agent: str, caller: str, thread: str, body: dict[str, Any]
    ) -> wire.AGUIRun:
        """Give a waiting run its answers; each counts for what it answers, once."""
        entries = body["resume"]
        entries_by_id: dict[str, dict[str, Any]] = {
            str(each.get("interruptId")): each
            for each in (entries if isinstance(entries, list) else ())
            if isinstance(each, dict)
        }
        run_ids = {id.partition(".")[0] for id in entries_by_id}
        if not run_ids or len(run_ids) > 1 or len(entries_by_id) < len(entries):
            raise wire.no_run_error()
        (run_id,) = run_ids
        answers = {id.partition(".")[2]: each for id, each in entries_by_id.items()}
        answered = self._answered_runs.get(run_id)
        if answered and answered.answers == answers and answered.is_of(agent, caller, thread):
            return answered.repeat_for(body.get("messages") or ())
        job = self._waiting_runs.get(run_id)
        if job is None:
            return await self._resume_from_journal(agent, caller, run_id, answers, body)
        open_asks, late_keys = job.open_asks.open, job.open_asks.withdrawn & answers.keys()
        if (
            not job.is_of(agent, caller, thread)
            or not open_asks.keys() | late_keys >= answers.keys()
        ):
            raise wire.no_run_error()
        del self._waiting_runs[run_id]
        job.answers, job.events_sent = answers, []
        self._answered_runs[run_id] = self._answered_runs.pop(run_id, job)
        while len(self._answered_runs) > MAX_WAITING:
            del self._answered_runs[next(iter(self._answered_runs))]
        job.open_asks.withdrawn -= late_keys  # once; the run has gone on without these answers
        for key in answers.keys() - late_keys:
            job.open_asks.settle(key, wire.read_resume_entry(open_asks[key], answers[key]))
        return job

    async def _resume_from_journal(
        self, id: str, caller: str, run_id: str, answers: dict[str, Any], body: dict[str, Any]
    ) -> wire.AGUIRun:
        """Give a run that waits in its journal its answers, and go on with it."""
        agent, thread = self._served.replying()[id], body["threadId"]
        journal: Any = self._served.journal_of(id)
        own_thread = _own_thread(caller, thread, run_id)

        def read_run() -> Any:
            view = RunView(journal, run_id)
            run = view.outline
            if (run.agent, run.thread) != (id, own_thread):
                return None
            decided = journal.waits.decided(caller, run_id)  # perhaps sent again
            goes_on = run.held or run.state in ("waiting", "forked", *REASONS.answered)
            if not goes_on and not decided:
                return None
            late_keys = view.calls_by_wait.keys() - {each.key for each in (*view.waits, *decided)}
            waits = decided if run.held else [*view.waits, *decided]
            return view.request, waits, late_keys, {*view.calls_by_wait.values()}

        try:
            recorded = None if journal is None else await in_thread(read_run)
        except NoSuchRun:
            recorded = None
        run_request, waits, late_keys, calls_shown = recorded or (None, (), set[str](), set[str]())
        asks = asks_of(waits, self._served.callers.permits(caller))
        if run_request is None or not asks.keys() | late_keys >= answers.keys():
            raise wire.no_run_error()
        tool_request = wire.openai_request(id, body, [{"role": "user", "content": ""}])
        names = frozenset(e.name for e in tool_request.tools)
        job = wire.AGUIRun(
            id, caller, thread, run_id, names, tool_request.client_tool_names, calls_shown
        )
        request = job.request(agent, own_thread, run_request.text, run_request.schema)

        def answer() -> None:
            for key in answers.keys() & asks.keys():  # where somebody else answers, that counts
                journal.answer(
                    run_id, key, wire.read_resume_entry(asks[key], answers[key]), by=caller
                )

        try:
            await self._served.answer(run_id, answer)
        except StateError as error:
            raise BadRequest(str(error)) from error
        job.task = asyncio.create_task(self._run_reply(job, agent, request, None))
        job.task.add_done_callback(self._served.count_reply(is_new=False))
        job.task.add_done_callback(lambda task: self._served.answered_runs.discard(run_id))
        return job

    def _run_id(self, id: str, caller: str, body: dict[str, Any]) -> str:
        """Return the id of a request's run; of one sent again, the same if a journal has it."""
        if self._served.journal_of(id) is None:
            return secrets.token_hex(16)
        # Some clients name all their runs alike.
        parts = [id, caller, body["threadId"], body["runId"], body.get("messages")]
        text = json_text(parts)
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def _own_thread(caller: str, thread: str, run_id: str) -> str:
    """Return the thread of a run of its own, by which its client's thread is known again."""
    digest = hashlib.sha256(thread.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{sender_of(AG_UI.sender, caller)}/{digest}-{run_id}"


def _interrupt_event(
    job: wire.AGUIRun, asks: Mapping[str, Ask], ids: dict[str, Any]
) -> dict[str, Any]:
    """Return the end of a run that waits for the person, with all that it asks."""
    interrupts = [wire.interrupt_of(f"{job.run_id}.{key}", each) for key, each in asks.items()]
    outcome = {"type": "interrupt", "interrupts": interrupts}
    return {"type": "RUN_FINISHED", **ids, "outcome": outcome}


def _end_event(reply: Reply, job: wire.AGUIRun, ids: dict[str, Any], agent: Any) -> dict[str, Any]:
    if not Reply.gives_text(agent, reply.stop_reason, reply.text):
        text = ended_text(reply, job.run_id)
        return {"type": "RUN_ERROR", "message": text, "code": reply.stop_reason}
    outcome: dict[str, Any] = {"type": "success"}
    if job.is_version_1 and (pending := _pending_calls(reply, job)):
        outcome["pendingToolCallIds"] = pending
    return {"type": "RUN_FINISHED", **ids, "outcome": outcome}


def _pending_calls(reply: Reply, job: wire.AGUIRun) -> list[str]:
    """Return the calls that a reply leaves to the page."""
    if reply.stop_reason != "terminal":
        return []
    last = [each for each in reply.messages if each.get("tool_calls")][-1]
    calls = (each["id"] for each in last["tool_calls"] if each["name"] in job.tools)
    return [job.call_ids.current(job.agent, each) for each in calls]


async def _send_event(send: Send, data: dict[str, Any]) -> None:
    await send({"type": "http.response.body", "body": sse_event(data), "more_body": True})
