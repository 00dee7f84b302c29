"""Serves agents as models of OpenAI's interface: chat completions and responses."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import Any, Final, TypeAlias

from moothall import (
    CallStarted,
    ConversationalAgent,
    MessageAdded,
    ReActAgent,
    ReasoningPiece,
    Reply,
    TextPiece,
    Usage,
)
from moothall.agents import ReplyRequest
from moothall.build import Thread, json_line
from moothall.journal import REASONS
from moothall.memory import join_messages, with_unanswered
from moothall.serving.doors.asks import waiting_text
from moothall.serving.doors.callers import caller_of, sender_of
from moothall.serving.doors.checks import (
    Message,
    Receive,
    Scope,
    Send,
    body_of,
    hash_of,
    in_thread,
    with_keepalives,
)
from moothall.serving.doors.openai.client_outcome import (
    ClientOutcome,
    bad_request_of,
    failure_of,
    outcome_of,
    waiting_outcome,
    wants_last_text,
)
from moothall.serving.doors.openai.form_stream import Form, FormStream
from moothall.serving.doors.openai.input import (
    IS_AGAIN,
    OpenAIRequest,
    body_of_request,
    chat_completion,
    is_sent_again,
    with_call_results,
    without_pending,
)
from moothall.serving.doors.openai.items import echo_of, response_request
from moothall.serving.doors.openai.message_content import BadRequest
from moothall.serving.doors.openai.output import ChatCompletion, Kind, ResponseForm, send_json
from moothall.serving.doors.openai.response_chain import (
    ECHO_KEY,
    ResponseChain,
    StoredConversation,
    question_and_answer,
    thread_of,
)
from moothall.serving.doors.openai.stored_responses import StoredResponses
from moothall.serving.doors.protocols import OPENAI, TooOften, caller_text, to_id
from moothall.serving.doors.served.recorded_runs import DoorRuns
from moothall.serving.doors.served.reply_work import reply_work
from moothall.serving.doors.served.served_run import CallerRequest, RunEvent, ServedRun
from moothall.serving.doors.served.served_runs import ServedRuns
from moothall.serving.doors.served_agents import Served

Handler: TypeAlias = Callable[[dict[str, Any], Send, str], Coroutine[Any, Any, None]]

_PIECE_KINDS: Final[dict[type, Kind]] = {TextPiece: "output_text", ReasoningPiece: "reasoning_text"}
_DIGEST: Final = "request"
"""Under what name the beginning of a run has the digest of its request."""
_STREAM_DELAY_S: Final = 0.5
"""How long a stream waits for an early error before it begins."""


class OpenAIDoor:
    """Serves agents by OpenAI's interface: a model's name is an agent's id.

    The conversation is what the client has sent, with chat completions, or what the responses
    before this one were, with `previous_response_id`: the memory of an agent with a loop has no
    part in it, and another agent observes it in a thread of its own.
    """

    def __init__(self, served: Served) -> None:
        self._served = served
        self._chain = ResponseChain(served)
        self._stored = StoredResponses(served, self._chain)
        self._runs = ServedRuns(served, DoorRuns(served, OPENAI))

    def routes(self) -> list[Any]:
        """Return the routes of the door."""
        from starlette.routing import Route

        stored, base_path = self._stored, OPENAI.path
        return [
            Route(f"{base_path}/models", endpoint=Endpoint(GET=self._models)),
            Route(f"{base_path}/models/{{id:path}}", endpoint=Endpoint(GET=self._model)),
            Route(f"{base_path}/chat/completions", endpoint=Endpoint(POST=self._chat)),
            Route(f"{base_path}/responses", endpoint=Endpoint(POST=self._respond)),
            Route(
                f"{base_path}/responses/{{id}}",
                endpoint=Endpoint(GET=stored.get, DELETE=stored.delete),
            ),
            Route(f"{base_path}/responses/{{id}}/cancel", endpoint=Endpoint(POST=stored.cancel)),
            Route(
                f"{base_path}/responses/{{id}}/input_items",
                endpoint=Endpoint(GET=stored.input_items),
            ),
        ]

    async def _models(self, params: dict[str, Any], send: Send, caller: str) -> None:
        data = [_model_of(id) for id in self._served.replying()]
        await send_json(send, 200, {"object": "list", "data": data})

    async def _model(self, params: dict[str, Any], send: Send, caller: str) -> None:
        id = to_id(params["id"], self._served.replying())
        self._agent(id)
        await send_json(send, 200, _model_of(id))

    async def _chat(self, body: dict[str, Any], send: Send, caller: str) -> None:
        openai_request = chat_completion(body)
        agent = self._agent(openai_request.model)
        openai_request.messages = with_call_results(openai_request.messages)
        sender = sender_of(OPENAI.sender, caller)
        run_id = await self._sent_before(agent, sender, body, openai_request)
        run_id = run_id or f"{openai_request.digest[:8]}{secrets.token_hex(16)}"[:32]
        form, thread = ChatCompletion(openai_request, run_id), Thread.id_for(sender, run_id)
        await self._answer_request(agent, openai_request, run_id, thread, [], form, send, caller)

    async def _respond(self, body: dict[str, Any], send: Send, caller: str) -> None:
        openai_request = response_request(await self._stored.resolve_references(body, caller))
        agent, chain = self._agent(openai_request.model), self._chain
        sender = sender_of(OPENAI.sender, caller)
        earlier_runs, history = list[str](), list[dict[str, Any]]()
        if openai_request.previous_id is not None:
            earlier = await in_thread(chain.conversation, agent, sender, openai_request.previous_id)
            earlier_runs, history = earlier.runs, earlier.messages
        openai_request.messages = with_call_results([*history, *openai_request.messages])[
            len(history) :
        ]
        run_id = await self._sent_before(agent, sender, body, openai_request)
        mark = openai_request.digest[:8]
        if run_id is None and not earlier_runs:
            run_id = chain.new_id(mark)
        elif run_id is None:
            run_id = await in_thread(chain.next_id, agent, earlier_runs[-1], mark)
        form, thread = ResponseForm(openai_request, run_id), thread_of(sender, run_id)

        def keep_reply(reply: Reply, request: ReplyRequest) -> None:
            history_length = len(request.conversation or ())
            memory = request.memory if isinstance(agent, ReActAgent) else None
            run_messages = (
                without_pending(memory.get_memories()[history_length:])
                if memory is not None
                else ()
            )
            messages = [
                *history,
                *(run_messages or question_and_answer(request.content, reply.text)),
            ]
            runs, new_messages = [*earlier_runs, run_id], openai_request.messages
            chain.keep(
                StoredConversation(str(agent.id), sender, runs, messages, new_messages, form)
            )

        on_reply = keep_reply if openai_request.store else None
        await self._answer_request(
            agent, openai_request, run_id, thread, history, form, send, caller, on_reply
        )

    async def _sent_before(
        self,
        agent: ConversationalAgent,
        sender: str,
        body: Mapping[str, Any],
        openai_request: OpenAIRequest,
    ) -> str | None:
        """Note what a request and the same one sent again share; return the run of that, if any.

        A restart, a proxy or a limit may have cut it off: its client sends it again by itself.
        """
        id = str(agent.id)
        if self._served.journal_of(id) is None:
            return None
        text = json_line([sender, {name: each for name, each in body.items() if name != IS_AGAIN}])
        digest = openai_request.digest = hash_of(text, 32)
        if not body.get(IS_AGAIN):
            return None
        return await self._runs.sent_before(id, sender, _DIGEST, digest)

    def _agent(self, model: str) -> ConversationalAgent:
        agent = self._served.replying().get(model)
        if agent is None:
            names = ", ".join([*self._served.replying()][:20])
            text = f"The model '{model[:80]}' does not exist; the models are: {names}"
            raise BadRequest(text, "model", "model_not_found", 404)
        return agent

    # -- answering ---------------------------------------------------------------------------------

    async def _answer_request(
        self,
        agent: ConversationalAgent,
        openai_request: OpenAIRequest,
        run_id: str,
        thread: str,
        history: list[dict[str, Any]],
        form: Form,
        send: Send,
        caller: str,
        on_reply: Callable[[Reply, ReplyRequest], None] | None = None,
    ) -> None:
        """Answer a request; `on_reply` gets the reply and its request before the client does."""
        earlier_messages, content = history_and_content(
            openai_request, agent, sends_history=isinstance(form, ChatCompletion)
        )
        if not (has_loop := isinstance(agent, ReActAgent)):  # whose own messages have their marks
            history = agent.with_marks_of_runs(history)
        earlier_messages = [*history, *earlier_messages]
        sender = sender_of(OPENAI.sender, caller)
        try:
            request = ReplyRequest(content, openai_request.schema, thread, run_id)
        except (TypeError, ValueError) as error:  # a DefinitionError is one: of the schema
            raise BadRequest(str(error)) from None
        request.offered, request.must_call = openai_request.tools, openai_request.must_call
        if instructions := "\n\n".join(filter(None, (openai_request.instructions, request.demand))):
            earlier_messages = [{"role": "system", "content": instructions}, *earlier_messages]
        if openai_request.digest:
            request.door_data = {_DIGEST: openai_request.digest}
        if isinstance(form, ResponseForm):
            request.door_data[ECHO_KEY] = echo_of(openai_request.body)
        request.thoughts, only_last_text = [], wants_last_text(openai_request, agent)
        if has_loop:
            request.conversation, earlier_messages = earlier_messages, []

        def outcome_for_client(run: ServedRun) -> ClientOutcome:
            state, reply = run.state, run.reply
            can_wait = openai_request.schema is None or on_reply is not None
            if state.name == "at_rest" and can_wait:
                return waiting_outcome(state.waits, Usage() if reply is None else reply.usage)
            if run.error is not None:
                raise bad_request_of(run.error, state.text) from run.error
            if reply is None:
                text, status = REASONS.explain("cancelled"), REASONS["cancelled"].http_status
                raise BadRequest(text, None, "cancelled", status, "server_error")
            if state.name == "at_rest":
                raise failure_of(reply, waiting_text(state.waits))
            thoughts = request.thoughts or ()
            outcome = outcome_of(reply, openai_request, agent, thoughts, only_last_text, state.text)
            if on_reply is not None:
                on_reply(reply, request)
            return outcome

        work = reply_work(
            self._served, agent, request, earlier_messages, tells=openai_request.stream
        )
        ids = run_id, str(agent.id), sender, caller
        # Its client cannot be asked: a member's question would wait for nobody.
        caller_request = CallerRequest(*ids, content=content, can_answer=False)
        if not openai_request.stream:

            async def deliver(run: ServedRun) -> None:
                await send_json(send, 200, form.complete(outcome_for_client(run)))

            await self._runs.complete(caller_request, work, deliver)
            return
        run = self._runs.start(caller_request, work)
        async with self._runs.bound(run):
            form_stream = FormStream(form, send, only_last_text)
            await self._stream_answer(run, outcome_for_client, form_stream)

    async def _stream_answer(
        self,
        run: ServedRun,
        outcome_for_client: Callable[[ServedRun], ClientOutcome],
        form_stream: FormStream,
    ) -> None:
        """Send the pieces of an agent's reply as they come."""
        async with (
            aclosing(run.follow()) as items,
            aclosing(with_keepalives(items, _STREAM_DELAY_S)) as items_and_pauses,
        ):
            async for item in items_and_pauses:
                event = item.event if isinstance(item, RunEvent) else None
                if isinstance(event, TextPiece | ReasoningPiece):
                    if event.agent == run.request.agent and not event.decides:
                        await form_stream.send_piece(event.text, _PIECE_KINDS[type(event)])
                elif type(event) is CallStarted or (
                    isinstance(event, MessageAdded) and event.message["role"] != "user"
                ):
                    await form_stream.end_turn()
                await form_stream.keep_alive(begins=item is None)
        try:
            await form_stream.end(outcome_for_client(run))
        except BadRequest as wrong:
            if not form_stream.is_started:
                raise
            await form_stream.send_error(wrong)


def history_and_content(
    openai_request: OpenAIRequest, agent: ConversationalAgent, sends_history: bool
) -> tuple[list[dict[str, Any]], Any]:
    """Return which of the messages come before, and what the agent is asked for.

    What it is asked for is recorded, so it has all that is new, unless the client sends the `whole`
    conversation each time.
    """
    messages = openai_request.messages
    if isinstance(agent, ReActAgent):
        for tool in openai_request.tools:
            if agent.actions.get_action(tool.name) is not None:
                text = f"{tool.name!r} is an action of the agent's own: give the tool another name"
                raise BadRequest(text, "tools")
        messages = agent.with_marks_of_runs(messages)
        new_start = 0
        if sends_history:
            messages = with_unanswered(messages)
            answers = [n for n, each in enumerate(messages) if each["role"] == "assistant"]
            new_start = answers[-1] + 1 if answers else 0
            while messages[new_start]["role"] == "system":
                new_start += 1
        return messages[:new_start], join_messages(messages[new_start:])
    if openai_request.tools or messages[-1]["role"] != "user":
        raise BadRequest(f"agent {agent.id!r} has no model that may call a client's tools", "tools")
    return agent.with_marks_of_runs(messages[:-1]), messages[-1]["content"]


def _model_of(id: str) -> dict[str, Any]:
    return {"id": id, "object": "model", "created": 0, "owned_by": "moothall"}


class Endpoint:
    """An ASGI application for one path; it cancels the work of a client that left."""

    def __init__(self, **handlers: Handler) -> None:
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        has_begun = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            handler = self._handlers.get(scope["method"])
            if handler is None:
                methods = " and ".join(self._handlers)
                raise BadRequest(f"{scope['path']} takes {methods}", status=405)
            if scope["method"] != "POST":
                params: dict[str, Any] = dict(scope["path_params"])
                params["query"] = scope["query_string"].decode("latin-1")
            else:
                params = body_of_request(await body_of(receive) or b"{}")  # the guard has its limit
                params["path:id"] = scope["path_params"].get("id")
                params[IS_AGAIN] = is_sent_again(scope)
            await run_until_disconnect(handler(params, send_and_note, caller_of(scope)), receive)
        except BadRequest as error:
            allow = ", ".join(self._handlers) if error.status == 405 else ""
            await send_json(send, error.status, {"error": error.error}, allow)
        except TooOften:  # answered in the form of its door
            raise
        except Exception as error:
            failure = BadRequest(caller_text(error), None, None, 500, "server_error")
            if has_begun:
                raise
            await send_json(send, failure.status, {"error": failure.error})


async def run_until_disconnect(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Do the work of a request; cancel it when the client disconnects."""
    task = asyncio.create_task(work)
    disconnect = asyncio.create_task(_wait_for_disconnect(receive))
    try:
        await asyncio.wait((task, disconnect), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        disconnect.cancel()
        task.cancel()
        await asyncio.gather(task, disconnect, return_exceptions=True)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
