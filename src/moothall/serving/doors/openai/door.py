"""Serves agents as models of OpenAI's interface: chat completions and responses."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from moothall.agents.loop.answer import demand_of
from moothall.agents.loop.react import ReActAgent
from moothall.agents.replies.conversational import ConversationalAgent
from moothall.agents.replies.events import CallStarted, Done, MessageAdded
from moothall.agents.replies.reply import Reply
from moothall.agents.replies.reply_request import ReplyRequest
from moothall.agents.replies.stream import ReplyStream
from moothall.agents.replies.thread import thread_of_sender
from moothall.foundation.errors import MoothallError, RequestError
from moothall.foundation.text import log_failure
from moothall.models.protocol import ReasoningPiece, TextPiece
from moothall.serving.doors.asks import Caller
from moothall.serving.doors.callers import caller_of, sender_of
from moothall.serving.doors.checks import (
    Message,
    Receive,
    Scope,
    Send,
    body_of,
    in_thread,
    or_silence,
    path_of,
)
from moothall.serving.doors.guard import MOST_BYTES
from moothall.serving.doors.openai.chain import SENDER, Chain, said, thread_of
from moothall.serving.doors.openai.content import Wrong
from moothall.serving.doors.openai.form_stream import Form, FormStream
from moothall.serving.doors.openai.input import (
    Asked,
    body_of_request,
    chat_completion,
    content_for,
    mended,
    settled,
)
from moothall.serving.doors.openai.items import response_request
from moothall.serving.doors.openai.marking import marked, sent_back
from moothall.serving.doors.openai.outcome import Outcome, is_alone, outcome_of, resting, wrong_of
from moothall.serving.doors.openai.output import ChatCompletion, Kind, Response, send_json
from moothall.serving.doors.openai.stored import StoredResponses
from moothall.serving.doors.served import Served, id_in

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response as HTTPResponse

logger: logging.Logger = logging.getLogger("moothall.doors")

Handle: TypeAlias = Callable[[dict[str, Any], Send, str], Coroutine[Any, Any, None]]

_KINDS: Final[dict[type, Kind]] = {TextPiece: "output_text", ReasoningPiece: "reasoning_text"}
_HEAD_S: Final = 0.5
"""How long a stream waits for an early error before it begins."""


class OpenAIDoor:
    """Serves agents by OpenAI's interface: a model's name is an agent's id.

    The conversation is what the client has sent, with chat completions, or what the responses
    before this one were, with `previous_response_id`: the memory of an agent with a loop has no
    part in it, and another agent observes it in a thread of its own.
    """

    def __init__(self, served: Served) -> None:
        self._served = served
        self._chain = Chain(served)
        self._stored = StoredResponses(served, self._chain)

    def routes(self) -> list[Any]:
        """Return the routes of the door."""
        from starlette.routing import Route

        stored = self._stored
        return [
            Route("/v1/models", endpoint=Endpoint(GET=self._models)),
            Route("/v1/models/{id:path}", endpoint=Endpoint(GET=self._model)),
            Route("/v1/chat/completions", endpoint=Endpoint(POST=self._chat)),
            Route("/v1/responses", endpoint=Endpoint(POST=self._respond)),
            Route("/v1/responses/{id}", endpoint=Endpoint(GET=stored.get, DELETE=stored.delete)),
            Route("/v1/responses/{id}/cancel", endpoint=Endpoint(POST=stored.cancel)),
            Route("/v1/responses/{id}/input_items", endpoint=Endpoint(GET=stored.input_items)),
        ]

    async def _models(self, given: dict[str, Any], send: Send, caller: str) -> None:
        data = [_model_of(id) for id in self._served.replying()]
        await send_json(send, 200, {"object": "list", "data": data})

    async def _model(self, given: dict[str, Any], send: Send, caller: str) -> None:
        id = id_in(given["id"], self._served.replying())
        self._agent(id)
        await send_json(send, 200, _model_of(id))

    async def _chat(self, given: dict[str, Any], send: Send, caller: str) -> None:
        asked = chat_completion(given)
        agent = self._agent(asked.model)
        asked.messages = mended(asked.messages)
        run_id = secrets.token_hex(16)
        form = ChatCompletion(asked, run_id)
        thread = thread_of_sender(sender_of(SENDER, caller), run_id)
        await self._answer(agent, asked, run_id, thread, [], form, send, caller)

    async def _respond(self, given: dict[str, Any], send: Send, caller: str) -> None:
        asked = response_request(await self._stored.resolved(given, caller))
        agent, chain = self._agent(asked.model), self._chain
        sender = sender_of(SENDER, caller)
        previous, history = None, list[dict[str, Any]]()
        if asked.previous is not None:
            previous, history = await in_thread(chain.before, agent, sender, asked.previous)
        asked.messages = mended([*history, *asked.messages])[len(history) :]
        run_id = chain.next(agent, previous)
        form, thread = Response(asked, run_id), thread_of(sender, run_id)

        def keep(reply: Reply, request: ReplyRequest) -> None:
            known = len(request.conversation or ())
            memory = request.memory if isinstance(agent, ReActAgent) else None
            own = settled(memory.get_memories()[known:]) if memory is not None else ()
            messages = [*history, *(own or said(request.content, reply.text))]
            chain.keep(run_id, str(agent.id), sender, messages, asked.messages, form)

        kept = keep if asked.store else None
        await self._answer(agent, asked, run_id, thread, history, form, send, caller, kept)

    def _agent(self, model: str) -> ConversationalAgent:
        found = self._served.replying().get(model)
        if found is None:
            known = ", ".join([*self._served.replying()][:20])
            text = f"The model '{model[:80]}' does not exist; the models are: {known}"
            raise Wrong(text, "model", "model_not_found", 404)
        return found

    # -- answering ---------------------------------------------------------------------------------

    async def _answer(
        self,
        agent: ConversationalAgent,
        asked: Asked,
        run_id: str,
        thread: str,
        history: list[dict[str, Any]],
        form: Form,
        send: Send,
        name: str,
        keep: Callable[[Reply, ReplyRequest], None] | None = None,
    ) -> None:
        """Answer a request; `keep` gets the reply and its request before the client does."""
        before, content = parted(asked, agent, whole=isinstance(form, ChatCompletion))
        if not isinstance(agent, ReActAgent):  # whose own messages have their marks
            history = marked(history, agent)
        before = [*history, *before]
        demand = demand_of(asked.tools) if asked.must_call else ""
        if told := "\n\n".join(filter(None, (asked.instructions, demand))):
            before = [{"role": "system", "content": told}, *before]
        try:
            request = ReplyRequest(content, asked.schema, thread, run_id)
        except (TypeError, ValueError) as error:  # a DefinitionError is one: of the schema
            raise Wrong(str(error)) from None

        request.thoughts, alone = [], is_alone(asked, agent)

        async def over(reply: Reply) -> Outcome:
            self._served.forget(agent, thread)
            if reply.stop_reason == "waiting" and (asked.schema is None or keep is not None):
                return resting(await self._served.waits(str(agent.id), run_id), reply.usage)
            outcome = outcome_of(reply, asked, agent, request.thoughts or (), alone)
            if keep is not None:
                keep(reply, request)
            return outcome

        loop, sender = asyncio.get_running_loop(), sender_of(SENDER, name)
        caller = Caller(loop, None, run_id=run_id, name=name)
        try:
            with self._served.calling(sender, str(agent.id), caller):
                await self._served.permit(sender, agent, content)
                if isinstance(agent, ReActAgent):
                    request.conversation, request.offered = before, asked.tools
                    request.must_call = asked.must_call
                else:
                    for message in before:
                        await agent.observe(message, thread)
                if asked.stream:
                    await self._streamed(agent, request, over, FormStream(form, send, alone))
                    return
                outcome = await over(await agent._reply_on_loop(request))
        except (MoothallError, RequestError) as error:
            raise wrong_of(error) from error
        finally:
            self._served.forget(agent, thread)
        await send_json(send, 200, form.whole(outcome))

    async def _streamed(
        self,
        agent: ConversationalAgent,
        request: ReplyRequest,
        over: Callable[[Reply], Awaitable[Outcome]],
        sent: FormStream,
    ) -> None:
        """Have the agent reply, and send the pieces as they come."""
        stream = ReplyStream(str(agent.id), request, agent._reply_on_loop)
        async with stream as every, aclosing(or_silence(every, _HEAD_S)) as events:
            try:
                async for event in events:
                    kind = type(event)
                    if isinstance(event, TextPiece | ReasoningPiece):
                        if event.agent == str(agent.id) and not event.decides:
                            await sent.piece(event.text, _KINDS[kind])
                    elif isinstance(event, Done):
                        if event.agent == str(agent.id):  # not of a member
                            await sent.end(await over(event.reply))
                    elif kind is CallStarted or (
                        isinstance(event, MessageAdded) and event.message["role"] != "user"
                    ):
                        await sent.turn_ended()
                    await sent.keep(begins=event is None)
            except (Wrong, MoothallError) as error:
                if not sent.begun:
                    raise
                await sent.failed(wrong_of(error))


def parted(
    asked: Asked, agent: ConversationalAgent, whole: bool
) -> tuple[list[dict[str, Any]], Any]:
    """Return which of the messages come before, and what the agent is asked for.

    What it is asked for is recorded, so it has all that is new, unless the client sends the `whole`
    conversation each time.
    """
    messages = asked.messages
    if isinstance(agent, ReActAgent):
        taken = {each.name for each in agent.actions.get_actions()}
        for tool in asked.tools:
            if tool.name in taken:
                text = f"{tool.name!r} is an action of the agent's own: give the tool another name"
                raise Wrong(text, "tools")
        messages = sent_back(messages, agent)
        new = 0
        if whole:
            answers = [n for n, each in enumerate(messages) if each["role"] == "assistant"]
            new = answers[-1] + 1 if answers else 0
            while messages[new]["role"] == "system":
                new += 1
        return messages[:new], content_for(messages[new:])
    if asked.tools or messages[-1]["role"] != "user":
        raise Wrong(f"agent {agent.id!r} has no model that may call a client's tools", "tools")
    return marked(messages[:-1], agent), messages[-1]["content"]


def _model_of(id: str) -> dict[str, Any]:
    return {"id": id, "object": "model", "created": 0, "owned_by": "moothall"}


async def nowhere(request: Request, error: Exception) -> HTTPResponse:
    """Answer 404 for an unknown path; the clients of `/v1` read JSON alone."""
    from starlette.responses import JSONResponse, PlainTextResponse

    path = path_of(request.scope)
    if not path.startswith("/v1/"):
        return PlainTextResponse("Not Found", 404)
    wrong = Wrong(f"{path[:80]} is not offered by this server", None, "unknown_url", 404)
    return JSONResponse({"error": wrong.error}, 404)


class Endpoint:
    """An ASGI application for one path; it cancels the work of a client that left."""

    def __init__(self, **handles: Handle) -> None:
        self._handles = handles

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            handle = self._handles.get(scope["method"])
            if handle is None:
                takes = " and ".join(self._handles)
                raise Wrong(f"{scope['path']} takes {takes}", status=405)
            if scope["method"] != "POST":
                given: dict[str, Any] = dict(scope["path_params"])
                given["query"] = scope["query_string"].decode("latin-1")
            else:
                given = body_of_request(await body_of(receive, MOST_BYTES) or b"{}")
                given["path:id"] = scope["path_params"].get("id")
            await until_gone(handle(given, sending, caller_of(scope)), receive)
        except Wrong as wrong:
            allow = ", ".join(self._handles) if wrong.status == 405 else ""
            await send_json(send, wrong.status, {"error": wrong.error}, allow)
        except Exception as error:
            log_failure(logger, f"a request of {scope['path']} failed", error)
            if begun:
                raise
            failed = Wrong("the server has failed", None, None, 500, "server_error")
            await send_json(send, failed.status, {"error": failed.error})


async def until_gone(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Do the work of a request; cancel it when the client disconnects."""
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        gone.cancel()
        task.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
