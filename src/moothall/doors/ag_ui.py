"""Serves agents by AG-UI 1.0: a run is a stream of events, an approval an interrupt."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from moothall.approval import ApprovalRequest, Question, Refused
from moothall.approval.approval import Decision
from moothall.doors.ag_ui_input import context_of, messages_of
from moothall.doors.callers import sender_of
from moothall.doors.checks import COMMENT, Send, or_silence, sent_event
from moothall.doors.openai.door import Endpoint, parted
from moothall.doors.openai.input import ClientMemory, Wrong, chat_completion, check_conversation
from moothall.doors.refusals import run_error
from moothall.doors.served import Caller, Served, id_in, in_lines
from moothall.errors import MoothallError, NobodyToAsk
from moothall.jsonvalue import json_text
from moothall.models.protocol import ReasoningPiece, TextPiece
from moothall.reasoning.events import (
    BlockEnded,
    BlockStarted,
    CallEnded,
    CallProgress,
    CallStarted,
    ConclusionReached,
    DecisionMade,
    Done,
)
from moothall.reasoning.loop.react import ReActAgent
from moothall.reasoning.reply import Reply, gives
from moothall.reasoning.reply_request import ReplyRequest
from moothall.reasoning.stream import ReplyStream

SENDER: Final = "ag-ui"
_WAITS_S: Final = 600.0
"""How long a run waits for the answer to its interrupt."""
_MOST_WAITING: Final = 1000
_TOGETHER_S: Final = 0.2
"""How long a run that asks the person waits for what else it asks."""


def _form(name: str, kind: str) -> dict[str, Any]:
    """Return the schema of an answer."""
    return {
        "type": "object",
        "properties": {name: {"type": kind}},
        "required": [name],
        "additionalProperties": False,
    }


@dataclass(eq=False)
class _Asked:
    """An approval, or a question of an action, that the person at the client answers."""

    request: ApprovalRequest | Question
    answer: asyncio.Future[Any]  # True or False; of a question its text, or None
    call_id: str = ""  # the call that it is about, if that is known

    def read(self, entry: dict[str, Any]) -> bool | str | None:
        """Return what a `resume` answers; whatever has another form permits and answers nothing."""
        name = "approved" if isinstance(self.request, ApprovalRequest) else "answer"
        payload, said = entry.get("payload"), None
        if entry.get("status") == "resolved" and isinstance(payload, dict) and len(payload) == 1:
            said = payload.get(name)
        if isinstance(self.request, ApprovalRequest):
            return said is True
        return said if isinstance(said, str) else None

    def shown(self) -> dict[str, Any]:
        """Return what the client is told of it."""
        request, about = self.request, dict[str, Any]()
        if isinstance(request, Question):
            about = {"agent": request.agent, "text": request.text}
            asks = {"reason": "question", "message": in_lines(request), "metadata": about}
            return {**asks, "responseSchema": _form("answer", "string")}
        about = {"agent": request.agent, "action": request.action, "args": request.args}
        if request.note:
            about["note"] = request.note
        asks = {"reason": "approval", "message": f"Permit {request}", "metadata": about}
        return {**asks, "responseSchema": _form("approved", "boolean")}


@dataclass(eq=False)
class _Job:
    """A running reply, which may take several requests, one for each interrupt."""

    agent: str
    sender: str
    thread: str
    tools: frozenset[str]
    renamed: dict[str, str]  # the client's names of its tools, by those that models take
    news: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    task: asyncio.Task[None] | None = None
    asked: dict[str, _Asked] = field(default_factory=dict)  # by the ids of their interrupts
    calls: dict[str, CallStarted] = field(default_factory=dict)  # those under way, by their ids

    async def approve(self, request: ApprovalRequest) -> Decision:
        """Ask the person at the client, and wait for the answer."""
        if await self._ask(request):
            return True
        return Refused("the person at the client has refused it")

    async def answer(self, question: Question) -> str:
        """Ask the person at the client a question, and wait for the answer."""
        said = await self._ask(question)
        if said is None:
            raise NobodyToAsk(f"agent {question.agent!r} has a question that nobody answered")
        return str(said)

    async def _ask(self, request: ApprovalRequest | Question) -> Any:
        asked = _Asked(request, asyncio.get_running_loop().create_future())
        self.news.put_nowait(asked)
        return await asked.answer


class AGUIDoor:
    """Serves agents by AG-UI, at `/ag-ui/ID`; a single agent also at `/ag-ui`."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._waiting: dict[str, _Job] = {}

    def routes(self) -> list[Any]:
        """Return the routes of the door."""
        from starlette.routing import Route

        run = Endpoint(POST=self._run)
        return [Route("/ag-ui", endpoint=run), Route("/ag-ui/{id:path}", endpoint=run)]

    def close(self) -> None:
        """Cancel the runs that wait for an answer."""
        for id in list(self._waiting):
            self._drop(id)

    async def _run(self, given: dict[str, Any], send: Send, caller: str) -> None:
        agents = self._served.replying()
        id = id_in(given.get("path:id") or "", agents)
        id = id or (next(iter(agents)) if len(agents) == 1 else "")
        if id not in agents:
            raise Wrong(f"there is no agent {id[:80]!r}: name one in the path", status=404)
        thread, run_id = given.get("threadId"), given.get("runId")
        if not isinstance(thread, str) or not isinstance(run_id, str):
            raise Wrong("threadId and runId must be texts")
        for name in ("messages", "tools"):
            if not isinstance(given.get(name) or [], list):
                raise Wrong(f"{name} must be a list", name)
        job = (
            self._resumed(id, caller, thread, given)
            if given.get("resume")
            else self._new(id, caller, given)
        )
        kept = False
        try:
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            about = {"threadId": thread, "runId": run_id}
            await _write(send, {"type": "RUN_STARTED", **about, "protocolVersion": "1.0"})
            async with aclosing(or_silence(self._told(job, about))) as told:
                async for each in told:
                    if each is None:
                        comment = {"type": "http.response.body", "body": COMMENT}
                        await send({**comment, "more_body": True})
                        continue
                    kept = (each.get("outcome") or {}).get("type") == "interrupt"
                    await _write(send, each)
            await send({"type": "http.response.body", "body": b""})
        finally:
            if not kept and job.task is not None:
                job.task.cancel()

    def _new(self, id: str, name: str, given: dict[str, Any]) -> _Job:
        """Begin a run. Its conversation is what the client has sent."""
        tools = [
            {"type": "function", "function": each} for each in given.get("tools") or () if each
        ]
        messages = messages_of(given.get("messages") or ())
        asked = chat_completion({"model": id, "messages": messages, "tools": tools})
        check_conversation(asked.messages)
        agent = self._served.replying()[id]
        before, content = parted(asked, agent, whole=True)
        before = [*context_of(given.get("context") or ()), *before]
        sender = sender_of(SENDER, name)
        own = f"{sender}/{secrets.token_hex(16)}"
        request = ReplyRequest(content, None, own, own.rpartition("/")[2])
        if isinstance(agent, ReActAgent):
            request.memory, request.offered = ClientMemory(before), asked.tools
        names = frozenset(each.name for each in asked.tools)
        job = _Job(id, sender, given["threadId"], names, asked.renamed)

        async def work() -> None:
            loop = asyncio.get_running_loop()
            caller = Caller(loop, job.approve, job.answer, name=name)
            try:
                with self._served.calling(sender, id, caller):
                    await self._served.permit(sender, agent, content)
                    if request.memory is None:
                        for message in before:
                            await agent.observe(message, own)
                    async with ReplyStream(id, request, agent._reply_on_loop) as events:
                        async for each in events:
                            job.news.put_nowait(each)
            except (MoothallError, ValueError, TypeError) as error:
                job.news.put_nowait(error)
            finally:
                self._served.forget(agent, own)

        job.task = asyncio.create_task(work())
        return job

    async def _told(self, job: _Job, about: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Yield the protocol's events of the reply, until it ends or asks the person something."""
        open_kind, open_id, speaker = "", "", ""  # of the message whose pieces come
        text = ""  # the last one that was told
        spoken: tuple[Any, str] = (None, "")  # who said it, and its message, until a call follows
        turn: Any = None  # whose calls belong together
        parent = ""  # the message of these calls
        while True:
            news = await self._next(job)
            if news is None:  # all that can go on without the person has
                yield self._interrupts(job, about)
                return
            if isinstance(news, TextPiece) and news.decides:
                continue  # its decision comes, too, as one event
            piece = {TextPiece: "TEXT_MESSAGE", ReasoningPiece: "REASONING_MESSAGE"}.get(type(news))
            if open_kind and (open_kind != piece or speaker != news.agent):
                for each in _ends(open_kind, open_id):
                    yield each
                open_kind = ""
            if piece is not None:
                if not open_kind:
                    open_kind, open_id, speaker = piece, secrets.token_hex(8), news.agent
                    if isinstance(news, TextPiece):
                        text, spoken, turn = "", (speaker, open_id), None
                    for each in _starts(piece, open_id, "" if speaker == job.agent else speaker):
                        yield each
                text += news.text if isinstance(news, TextPiece) else ""
                if news.text:
                    yield {"type": f"{piece}_CONTENT", "messageId": open_id, "delta": news.text}
            elif isinstance(news, CallStarted):
                job.calls[news.call_id] = news
                if turn != (news.agent, news.iteration):
                    turn = news.agent, news.iteration
                    parent = spoken[1] if spoken[0] == news.agent else secrets.token_hex(8)
                spoken, its = (None, ""), {"toolCallId": news.call_id}
                name = job.renamed.get(news.action, news.action)
                named = {"toolCallName": name, "parentMessageId": parent}
                yield {"type": "TOOL_CALL_START", **its, **named}
                yield {"type": "TOOL_CALL_ARGS", **its, "delta": json_text(news.args)}
                yield {"type": "TOOL_CALL_END", **its}
            elif isinstance(news, CallProgress):
                value = {"toolCallId": news.call_id, "text": news.text}
                yield {"type": "CUSTOM", "name": "call_progress", "value": value}
            elif isinstance(news, CallEnded):
                job.calls.pop(news.call_id, None)
                if news.action not in job.tools:
                    turn = None  # its message is not the last one any more
                    told = news.error or news.result.get("result")
                    its = {"toolCallId": news.call_id, "messageId": secrets.token_hex(8)}
                    yield {"type": "TOOL_CALL_RESULT", **its, "content": json_text(told)}
            elif isinstance(news, DecisionMade | ConclusionReached):
                told_of = news.decision if isinstance(news, DecisionMade) else news.conclusion
                made = {"agent": news.agent, "loop": news.loop, news.kind: told_of.to_json()}
                yield {"type": "CUSTOM", "name": news.kind, "value": made}
            elif isinstance(news, BlockStarted):
                yield {"type": "STEP_STARTED", "stepName": news.block}
            elif isinstance(news, BlockEnded):
                yield {"type": "STEP_FINISHED", "stepName": news.block}
            elif isinstance(news, _Asked):
                self._keep(job, news)
            elif isinstance(news, Done) and news.agent == job.agent:  # not of a member
                end = _finished(news.reply, job, about, self._served.agents[job.agent])
                left = (end.get("outcome") or {}).get("pendingToolCallIds")
                said = "" if left or end["type"] == "RUN_ERROR" else news.reply.text
                if said and said.strip() != text.strip():  # such as a group's
                    open_id = secrets.token_hex(8)
                    yield _starts("TEXT_MESSAGE", open_id)[0]
                    yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": open_id, "delta": said}
                    yield _ends("TEXT_MESSAGE", open_id)[0]
                yield end
                return
            elif isinstance(news, Exception):
                yield run_error(news)
                return

    # -- interrupts --------------------------------------------------------------------------------

    @staticmethod
    async def _next(job: _Job) -> Any:
        """Return what the reply tells next; None if it only waits for the person.

        Calls of one answer run side by side, so their questions come one after the other at once.
        """
        if not job.asked:
            return await job.news.get()
        with suppress(TimeoutError):
            async with asyncio.timeout(_TOGETHER_S):
                return await job.news.get()
        return None

    def _keep(self, job: _Job, asked: _Asked) -> None:
        """Keep a waiting run under an id that cannot be guessed, for each question of it."""
        id = secrets.token_urlsafe(24)
        if isinstance(asked.request, ApprovalRequest):
            id += f".{asked.request.fingerprint}"
            taken = {each.call_id for each in job.asked.values()}
            whole = json_text([asked.request.action, asked.request.args])
            asked.call_id = next(
                (
                    each.call_id
                    for each in job.calls.values()
                    if each.call_id not in taken and json_text([each.action, each.args]) == whole
                ),
                "",
            )
        elif len(job.calls) == 1:
            asked.call_id = next(iter(job.calls))
        job.asked[id], self._waiting[id] = asked, job
        asyncio.get_running_loop().call_later(_WAITS_S, self._drop, id)
        while len(self._waiting) > _MOST_WAITING:
            self._drop(next(iter(self._waiting)))

    @staticmethod
    def _interrupts(job: _Job, about: dict[str, Any]) -> dict[str, Any]:
        """Return the end of a run that waits for the person, with all that it asks."""
        interrupts = [
            {"id": id, **({"toolCallId": each.call_id} if each.call_id else {}), **each.shown()}
            for id, each in job.asked.items()
        ]
        outcome = {"type": "interrupt", "interrupts": interrupts}
        return {"type": "RUN_FINISHED", **about, "outcome": outcome}

    def _drop(self, id: str) -> None:
        job = self._waiting.pop(id, None)
        if job is not None and job.task is not None:
            job.task.cancel()

    def _resumed(self, agent: str, caller: str, thread: str, given: dict[str, Any]) -> _Job:
        """Give a waiting run its answers; each counts for what it answers, once."""
        entries = given["resume"]
        ids = [
            str(each.get("interruptId")) if isinstance(each, dict) else ""
            for each in (entries if isinstance(entries, list) else ())
        ]
        jobs = [self._waiting.get(id) for id in ids]
        job = jobs[0] if jobs and all(each is jobs[0] for each in jobs) else None
        whose = agent, sender_of(SENDER, caller), thread
        if (
            job is None
            or (job.agent, job.sender, job.thread) != whose
            or len({*ids}) < len(ids)
            or not job.asked.keys() >= {*ids}
        ):
            raise Wrong("no run of this thread waits for this answer, or no longer")
        for id, entry in zip(ids, entries, strict=True):
            del self._waiting[id]
            asked = job.asked.pop(id)
            if not asked.answer.done():
                asked.answer.set_result(asked.read(entry))
        return job


def _starts(kind: str, id: str, name: str = "") -> list[dict[str, Any]]:
    if kind == "TEXT_MESSAGE":
        who = {"role": "assistant", "name": name} if name else {"role": "assistant"}
        return [{"type": "TEXT_MESSAGE_START", "messageId": id, **who}]
    start = {"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}
    return [{"type": "REASONING_START", "messageId": id}, start]


def _ends(kind: str, id: str) -> list[dict[str, Any]]:
    made = [{"type": f"{kind}_END", "messageId": id}]
    return made if kind == "TEXT_MESSAGE" else [*made, {"type": "REASONING_END", "messageId": id}]


def _finished(reply: Reply, job: _Job, about: dict[str, Any], agent: Any) -> dict[str, Any]:
    if not gives(agent, reply.stop_reason, reply.text):
        text = reply.detail or reply.stop_reason
        return {"type": "RUN_ERROR", "message": text, "code": reply.stop_reason}
    outcome: dict[str, Any] = {"type": "success"}
    if reply.stop_reason == "terminal":
        last = [each for each in reply.messages if each.get("tool_calls")][-1]
        left = [each["id"] for each in last["tool_calls"] if each["name"] in job.tools]
        outcome |= {"pendingToolCallIds": left} if left else {}
    return {"type": "RUN_FINISHED", **about, "outcome": outcome}


async def _write(send: Send, data: dict[str, Any]) -> None:
    await send({"type": "http.response.body", "body": sent_event(data), "more_body": True})
