"""`A2AAgent` over the SDK's own server, and over our door."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import ParseDict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Route

from moothall import (
    ACCESS_REQUESTED,
    A2AAgent,
    Agent,
    Call,
    CallbackApprover,
    ConfigError,
    Conversation,
    DefinitionError,
    DualActAgent,
    DualActConfig,
    Journal,
    MaxTurns,
    ModelError,
    NativeSpace,
    NobodyToAsk,
    Question,
    ReActAgent,
    ScriptedModel,
    SQLiteMemory,
    Waiting,
    action,
)
from moothall.models import ModelReply
from moothall.models.protocol import TextPiece
from moothall.serving import asgi
from serving.company.conftest import until
from serving.doors.conftest import serving

Serve = Callable[[Any], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda app: stack.enter_context(serving(app))


class Peer(AgentExecutor):
    """An agent of the SDK, which does what the text says."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str]] = []
        self.task_ids: list[str] = []
        self.begun = threading.Event()
        self.cancelled = threading.Event()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        assert context.task_id is not None
        assert context.context_id is not None
        said = "\n".join(part.text for part in context.message.parts)
        self.texts.append((context.context_id, said))
        self.task_ids.append(context.task_id)
        if said == "message":
            await event_queue.enqueue_event(new_text_message("no task"))
            return
        if context.current_task is None:
            task = pb.Task(id=context.task_id, context_id=context.context_id)
            task.status.state = pb.TASK_STATE_SUBMITTED
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        if said == "ask":
            question = updater.new_agent_message([pb.Part(text="Which colour?")])
            await updater.requires_input(question)
            return
        if said.endswith("fail"):
            await updater.failed(updater.new_agent_message([pb.Part(text="no paper")]))
            return
        if said == "wait":
            self.begun.set()
            await asyncio.Event().wait()
        if said == "number":
            value = ParseDict({"data": {"n": 3}}, pb.Part())
            await updater.add_artifact([value], artifact_id="a")
        else:
            for n, piece in enumerate(("You said: ", said)):
                part = [pb.Part(text=piece)]
                await updater.add_artifact(part, artifact_id="a", append=n > 0, last_chunk=n == 1)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()
        self.cancelled.set()


def sdk(peer: Peer, streaming: bool) -> Starlette:
    card = ParseDict(
        {
            "name": "peer",
            "description": "a peer",
            "version": "1",
            "supportedInterfaces": [
                {"url": "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            ],
            "capabilities": {"streaming": streaming},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "s", "name": "s", "description": "s", "tags": ["s"]}],
        },
        pb.AgentCard(),
    )
    handler = DefaultRequestHandler(peer, InMemoryTaskStore(), card)
    return Starlette(
        routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc")]
    )


STREAMING = pytest.mark.parametrize("streaming", (True, False))


@STREAMING
def test_a2a_agent_replies_for_a_server_of_the_sdk(serve: Serve, streaming: bool) -> None:
    peer = Peer()
    far = A2AAgent("far", serve(sdk(peer, streaming)))

    async def main() -> None:
        await far.observe("it rains", thread="a")
        reply = await far.reply("Hello", thread="a")
        assert reply.text == "You said: it rains\nHello"
        assert (await far.reply("message", thread="b")).text == "no task"
        await far.reply("Again", thread="a")
        first, other, again = peer.texts
        assert first[0] == again[0] != other[0]
        assert (await far.reply("number")).value == {"n": 3}
        with pytest.raises(ModelError, match="its task is failed: no paper"):
            await far.reply("fail")
        await far.aclose()

    asyncio.run(main())


@STREAMING
def test_a2a_agent_sends_no_observation_again_that_a_failed_task_had(
    serve: Serve, streaming: bool
) -> None:
    peer = Peer()
    far = A2AAgent("far", serve(sdk(peer, streaming)))

    async def main() -> None:
        await far.observe("it rains")
        with pytest.raises(ModelError, match="no paper"):
            await far.reply("fail")
        assert (await far.reply("Hello")).text == "You said: Hello"
        await far.aclose()

    asyncio.run(main())
    assert [said for _, said in peer.texts] == ["it rains\nfail", "Hello"]
    assert len({context for context, _ in peer.texts}) == 1


async def test_a2a_agent_sends_the_last_observations_also_after_a_reply_that_failed(
    serve: Serve,
) -> None:
    peer, tokens = Peer(), iter((None, "t0ken"))

    async def headers() -> dict[str, str]:
        if (token := next(tokens, "t0ken")) is None:
            await far.observe("new")
            raise OSError("no token yet")
        return {"Authorization": f"Bearer {token}"}

    far = A2AAgent("far", serve(sdk(peer, True)), headers=headers)
    for number in range(100):
        await far.observe(f"{number}")
    with pytest.raises(OSError, match="no token yet"):
        await far.reply("Hello")
    await far.reply("Hello")
    await far.aclose()
    assert peer.texts[0][1].split("\n") == [*map(str, range(1, 100)), "new", "Hello"]


def test_a2a_agent_with_a_memory_goes_on_in_its_conversations_after_a_restart(
    serve: Serve, tmp_path: Path
) -> None:
    peer = Peer()
    url = serve(sdk(peer, False))
    answers = []
    for thread, text in (("a", "Hello"), ("b", "Hello"), ("a", "ask"), ("a", "red"), ("a", "Bye")):
        with SQLiteMemory(tmp_path / "far.db") as memory:  # as each process opens it
            far = A2AAgent("far", url, memory=memory)
            answers.append(far.reply_sync(text, thread=thread).text)
    assert answers[2:] == ["Which colour?", "You said: red", "You said: Bye"]
    first, other, *later = [context for context, _ in peer.texts]
    assert (later, other != first) == ([first] * 3, True)
    assert peer.task_ids[2] == peer.task_ids[3] != peer.task_ids[4]


@STREAMING
def test_a2a_agent_passes_a_question_on_and_the_answer_back(serve: Serve, streaming: bool) -> None:
    url = serve(sdk(Peer(), streaming))
    asked: list[str] = []

    def answer(question: Any) -> str:
        asked.append(question.text)
        return "red"

    async def main() -> None:
        approver = CallbackApprover(lambda request: False, answer=answer)
        far = A2AAgent("far", url, approver=approver)
        assert (await far.reply("ask")).text == "You said: red"
        assert asked == ["Which colour?"]
        alone = A2AAgent("alone", url)
        assert (await alone.reply("ask")).text == "Which colour?"
        assert (await alone.reply("blue")).text == "You said: blue"
        await far.aclose()
        await alone.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("approver", (None, Waiting()))
async def test_a2a_agent_answers_no_question_that_nobody_has_answered(
    serve: Serve, approver: Waiting | None
) -> None:
    peer = Peer()
    far = A2AAgent("far", serve(sdk(peer, True)), approver=approver)
    reply = await far.reply("ask", int)
    assert (reply.text, reply.stop_reason) == ("Which colour?", "unreadable")
    assert (await far.reply("blue")).text == "You said: blue"
    await far.aclose()
    assert [said for _, said in peer.texts] == ["ask", "blue"]


async def test_a2a_agent_streams_text_as_it_comes(serve: Serve) -> None:
    far = A2AAgent("far", serve(sdk(Peer(), True)))
    pieces = [e.text async for e in far.stream("Hi") if isinstance(e, TextPiece)]
    assert pieces == ["You said: ", "Hi"]
    await far.aclose()


@STREAMING
def test_a2a_agent_cancels_the_task_of_a_cancelled_reply(serve: Serve, streaming: bool) -> None:
    peer = Peer()
    far = A2AAgent("far", serve(sdk(peer, streaming)))

    async def main() -> None:
        reply = asyncio.create_task(far.reply("wait"))
        assert await asyncio.to_thread(peer.begun.wait, 10)
        reply.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reply
        assert await asyncio.to_thread(peer.cancelled.wait, 10)
        await far.aclose()

    asyncio.run(main())


@STREAMING
def test_a2a_agent_cancels_the_task_of_a_reply_cancelled_while_a_person_is_asked(
    serve: Serve, streaming: bool
) -> None:
    peer = Peer()

    async def main() -> None:
        asked = asyncio.Event()

        async def think(_: Question) -> str:
            asked.set()
            await asyncio.Event().wait()
            return ""

        approver = CallbackApprover(lambda _: True, answer=think)
        far = A2AAgent("far", serve(sdk(peer, streaming)), approver=approver)
        reply = asyncio.create_task(far.reply("ask"))
        await asked.wait()
        reply.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reply
        assert await asyncio.to_thread(peer.cancelled.wait, 10)
        await far.aclose()

    asyncio.run(main())


def test_a2a_agent_cancels_a_task_that_takes_too_long(serve: Serve) -> None:
    peer = Peer()
    far = A2AAgent("far", serve(sdk(peer, True)), timeout_s=0.5)
    with pytest.raises(ModelError, match="has not ended within"):
        far.reply_sync("wait")
    assert peer.cancelled.wait(10)


BOUGHT: list[str] = []


@action(access_policy=ACCESS_REQUESTED)
async def buy(item: str) -> str:
    """Buy an item."""
    BOUGHT.append(item)
    return f"bought {item}"


def shop(*answers: Any) -> ReActAgent:
    BOUGHT.clear()
    return ReActAgent("shop", ScriptedModel(list(answers)), actions=[buy])


@pytest.mark.parametrize("permit", (True, False))
def test_a2a_agent_asks_its_approver_for_what_our_door_asks(serve: Serve, permit: bool) -> None:
    url = serve(asgi(shop(Call("c", "buy", {"item": "tea"}), "Done.")))
    seen: list[Any] = []

    def decide(request: Any) -> bool:
        seen.append(request)
        return permit

    far = A2AAgent("far", url, approver=CallbackApprover(decide))
    assert far.reply_sync("Buy tea").text == "Done."
    assert len(BOUGHT) == permit
    (request,) = seen
    assert (request.agent, request.action, request.args) == ("far", "buy", {"item": "tea"})
    assert url in request.note


def test_a2a_agent_without_an_approver_refuses_what_is_asked(serve: Serve) -> None:
    url = serve(asgi(shop(Call("c", "buy", {"item": "tea"}), "No tea.")))
    assert A2AAgent("far", url).reply_sync("Buy tea").text == "No tea."
    assert BOUGHT == []


def test_a2a_agent_asks_nobody_for_what_only_the_servers_operator_may_answer(
    serve: Serve, journal: Journal
) -> None:
    agent = shop(Call("c", "buy", {"item": "tea"}), "Hello.", "Done.")
    agent.journal = journal
    url = serve(asgi(agent, token={"ada": "t-ada"}))

    class Nobody:
        async def approve(self, request: Any) -> bool:
            raise NotImplementedError

        async def answer(self, question: Any) -> str:
            raise NotImplementedError

    far = A2AAgent("far", url, headers={"Authorization": "Bearer t-ada"}, approver=Nobody())
    waits = far.reply_sync("Buy tea").text
    assert waits.startswith('waiting for the approval of buy(item="tea")')
    assert far.reply_sync("Hello").text == "Hello."
    (wait,) = journal.waiting()
    journal.answer(wait.run, wait.key, True)
    asyncio.run(until(lambda: journal.run(wait.run).state == "done"))
    assert BOUGHT == ["tea"]


def test_a2a_agent_states_its_token(serve: Serve) -> None:
    url = serve(asgi(shop("Good day."), token="t0ken"))
    headers = {"Authorization": "Bearer t0ken"}
    assert A2AAgent("far", url, headers=headers).reply_sync("Hello").text == "Good day."
    with pytest.raises(ModelError, match="status 401"):
        A2AAgent("far", url).reply_sync("Hello")


def test_a2a_agent_reads_the_answer_by_a_schema_and_asks_again(serve: Serve) -> None:
    far = A2AAgent("far", serve(asgi(shop("three", "3"))))
    assert far.reply_sync("How many?", int).value == 3


def test_a2a_agent_goes_wherever_an_agent_goes(serve: Serve) -> None:
    def url(*answers: str) -> str:
        return serve(asgi(shop(*answers)))

    begins = json.dumps({"action": "CONTINUE", "new_instruction": "Do it.", "reasoning": ""})
    accepts = json.dumps({"action": "TERMINATE", "new_instruction": "", "reasoning": ""})
    judge = ReActAgent("judge", ScriptedModel([begins, accepts]))
    act = DualActAgent(DualActConfig(judge, A2AAgent("far", url("It is done."))))
    assert act.reply_sync("Do it").text == "It is done."
    act = DualActAgent(DualActConfig(A2AAgent("far", url(begins, accepts)), shop("Done.")))
    assert act.reply_sync("Do it").text == "Done."
    both = [A2AAgent("one", url("first")), A2AAgent("two", url("second"))]
    talk = Conversation(both, until=MaxTurns(2))
    assert talk.reply_sync("Speak").text == "second"
    asks = ScriptedModel([Call("c", "far", {"text": "Well?"}), "He said yes."])
    boss = ReActAgent("boss", asks, actions=[A2AAgent("far", url("yes")).as_action()])
    assert boss.reply_sync("Ask").steps[0].result["result"] == "yes"
    with NativeSpace() as space:
        space.add(A2AAgent("far", url("in a space")))
        assert space.add(Agent("me")).ask("far", "say", content="Hi").result(20) == "in a space"


def test_a2a_agent_asks_for_what_came_of_a_task_whose_stream_has_states_alone(serve: Serve) -> None:
    about = {"taskId": "t", "contextId": "c"}
    states = [{"state": f"TASK_STATE_{each}"} for each in ("WORKING", "COMPLETED")]
    artifact = {"artifactId": "a", "parts": [{"text": "Here."}]}
    whole = {"id": "t", "contextId": "c", "status": states[-1], "artifacts": [artifact]}

    async def get_card(request: Request) -> JSONResponse:
        usual = {"url": "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        return JSONResponse({"supportedInterfaces": [usual], "capabilities": {"streaming": True}})

    async def call(request: Request) -> PlainTextResponse:
        asked = await request.json()
        answer = {"jsonrpc": "2.0", "id": asked["id"]}
        if asked["method"] == "GetTask":
            return PlainTextResponse(json.dumps({**answer, "result": whole}))
        updates = [{"statusUpdate": {**about, "status": each}} for each in states]
        told = [json.dumps({**answer, "result": each}) for each in updates]
        text = "".join(f"data: {each}\n\n" for each in told)
        return PlainTextResponse(text, media_type="text/event-stream")

    card = Route("/.well-known/agent-card.json", get_card)
    far = A2AAgent("far", serve(Starlette(routes=[card, Route("/rpc", call, methods=["POST"])])))
    assert far.reply_sync("Hello").text == "Here."


@pytest.mark.parametrize("faults", (0, 2, 6))
def test_a2a_agent_asks_nobody_again_when_the_stream_of_an_answer_breaks_off(
    serve: Serve, faults: int
) -> None:
    asked: list[str] = []
    about = {"id": "t", "contextId": "c"}
    question = {"messageId": "m", "parts": [{"text": "Which?"}]}
    waiting = {**about, "status": {"state": "TASK_STATE_INPUT_REQUIRED", "message": question}}
    artifact = {"artifactId": "a", "parts": [{"text": "Red it is."}]}
    ended = {**about, "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [artifact]}
    statuses = iter((*[503] * faults, 200))  # of a proxy, while the server starts anew

    def answer(question: Question) -> str:
        asked.append(question.text)
        if len(asked) > 1:
            raise NobodyToAsk("it was answered")
        return "red"

    async def get_card(request: Request) -> JSONResponse:
        return JSONResponse({**naming("/rpc"), "capabilities": {"streaming": True}})

    async def call(request: Request) -> PlainTextResponse:
        body = await request.json()
        if body["method"] == "GetTask":
            return PlainTextResponse(json.dumps({"result": ended}), next(statuses))
        is_new = "taskId" not in body["params"]["message"]
        events = f"data: {json.dumps({'result': {'task': waiting}})}\n\n" if is_new else ""
        return PlainTextResponse(events, media_type="text/event-stream")

    card = Route("/.well-known/agent-card.json", get_card)
    url = serve(Starlette(routes=[card, Route("/rpc", call, methods=["POST"])]))
    far = A2AAgent("far", url, approver=CallbackApprover(lambda request: True, answer=answer))
    assert far.reply_sync("Paint").text == "Red it is."
    assert asked == ["Which?"]


def streaming(updates: Iterable[dict[str, Any]]) -> Starlette:
    """Return a server that answers a message by these updates."""

    async def get_card(request: Request) -> JSONResponse:
        usual = {"url": "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        return JSONResponse({"supportedInterfaces": [usual], "capabilities": {"streaming": True}})

    async def call(request: Request) -> StreamingResponse:
        told = (json.dumps({"jsonrpc": "2.0", "id": 1, "result": each}) for each in updates)
        events = (f"data: {each}\n\n" for each in told)
        return StreamingResponse(events, media_type="text/event-stream")

    routes = [
        Route("/.well-known/agent-card.json", get_card),
        Route("/rpc", call, methods=["POST"]),
    ]
    return Starlette(routes=routes)


def piece(id: str, text: str, append: bool) -> dict[str, Any]:
    artifact = {"artifactId": id, "parts": [{"text": text}]}
    return {"artifactUpdate": {"taskId": "t", "artifact": artifact, "append": append}}


ENDED = {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED"}}}


@pytest.mark.parametrize(
    ("updates", "shown"),
    (
        ([("a", "Tea ", False), ("a", "is here.", True), ("b", "Bye.", False)], None),
        ([("a", "Tea", False), ("a", "Tea is here.", False)], None),
        ([("a", "Tea ", True), ("b", "Bye.", True), ("a", "is here.", True)], "Tea \n\nBye."),
        ([("a", "Coffee", False), ("a", "Tea", False), ("a", " is here.", True)], "Coffee"),
    ),
)
def test_a2a_agent_shows_the_text_of_artifacts_as_it_comes(
    serve: Serve, updates: list[tuple[str, str, bool]], shown: str | None
) -> None:
    far = A2AAgent("far", serve(streaming([*(piece(*each) for each in updates), ENDED])))

    async def main() -> tuple[str, str]:
        async with far.stream("Hello") as events:
            seen = [each.text async for each in events if isinstance(each, TextPiece)]
            return events.reply.text, "".join(seen)

    text, seen = asyncio.run(main())
    assert seen == (text if shown is None else shown)


@pytest.mark.long
def test_a2a_agent_takes_an_answer_in_very_many_pieces_in_a_time_that_grows_with_it(
    serve: Serve,
) -> None:
    pieces = (piece("a", "x" * 3000, True) for _ in range(9000))
    far = A2AAgent("far", serve(streaming(itertools.chain(pieces, [ENDED]))), timeout_s=20)
    assert len(far.reply_sync("Hello").text) == 27_000_000


LOGIN = "https://accounts.example/login?state=" + "x" * 3000
SO_FAR = {"artifactId": "a", "parts": [{"text": "So far."}]}


def standing(state: str, *parts: Any) -> Any:
    """Return the answer of a task that stands, beside what there is so far."""
    status = {"state": f"TASK_STATE_{state}", "message": {"messageId": "m", "parts": [*parts]}}
    about = {"id": "t", "contextId": "c", "status": status}
    return {"result": {"task": {**about, "artifacts": [SO_FAR]}}}


@pytest.mark.parametrize("state", ("AUTH_REQUIRED", "FAILED", "REJECTED", "CANCELED"))
@pytest.mark.parametrize(
    "parts",
    (
        [{"text": f"Log in at {LOGIN}"}],
        [{"text": "Log in."}, {"url": LOGIN}],
        [{"text": "Log in."}, {"data": {"address": LOGIN}}],
    ),
)
def test_a2a_agent_tells_why_a_task_stands_and_not_what_there_is_so_far(
    serve: Serve, state: str, parts: list[Any]
) -> None:
    with pytest.raises(ModelError) as caught:
        A2AAgent("far", serve(broken(answer=standing(state, *parts)))).reply_sync("Hello")
    assert f"its task is {state.lower()}: Log in" in str(caught.value)
    assert LOGIN in str(caught.value)
    assert "So far." not in str(caught.value)


def test_a2a_agent_tells_what_there_is_of_a_task_that_does_not_say_why(serve: Serve) -> None:
    with pytest.raises(ModelError, match=r"its task is failed: So far\."):
        A2AAgent("far", serve(broken(answer=standing("FAILED")))).reply_sync("Hello")


def test_a2a_agent_asks_the_question_of_a_task_beside_what_there_is_so_far(serve: Serve) -> None:
    asked: list[str] = []

    def say(question: Question) -> str:
        asked.append(question.text)
        raise NobodyToAsk("not now")

    url = serve(broken(answer=standing("INPUT_REQUIRED", {"text": "Which?"})))
    approver = CallbackApprover(lambda request: True, answer=say)
    reply = A2AAgent("far", url, approver=approver).reply_sync("Hello")
    assert asked == ["Which?"]
    assert reply.text == "So far.\n\nWhich?"


# -- servers that misbehave ------------------------------------------------------------------------


def broken(card: Any = None, answer: Any = None) -> Starlette:
    """Return a server with this card and this answer to every call."""
    usual = {"url": "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}

    async def get_card(request: Request) -> JSONResponse:
        return JSONResponse({"supportedInterfaces": [usual]} if card is None else card)

    async def call(request: Request) -> PlainTextResponse:
        return PlainTextResponse(answer if isinstance(answer, str) else json.dumps(answer))

    routes = [
        Route("/.well-known/agent-card.json", get_card),
        Route("/rpc", call, methods=["POST"]),
    ]
    return Starlette(routes=routes)


@pytest.mark.parametrize(
    ("answer", "told"),
    (
        ("nonsense", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ([], "has no result"),
        ({"error": {"code": -32001, "message": "gone"}}, r"refuses SendMessage: gone \(-32001\)"),
        ({"result": 5}, "does not follow A2A"),
        ({"result": {}}, "told of no task"),
        ({"result": {"task": []}}, "does not follow A2A"),
        ({"result": {"task": {"id": "x", "status": {"state": "HAPPY"}}}}, "does not follow A2A"),
        ({"result": {"task": {"id": 5, "status": {}}}}, "does not follow A2A"),
        ({"result": {"message": {"parts": "x"}}}, "does not follow A2A"),
        ({"result": {"message": {"parts": [{"text": 5}]}}}, "does not follow A2A"),
    ),
)
def test_a2a_agent_says_what_is_wrong_with_an_answer(serve: Serve, answer: Any, told: str) -> None:
    with pytest.raises(ModelError, match=f"agent 'far': .*{told}"):
        A2AAgent("far", serve(broken(answer=answer)), timeout_s=10).reply_sync("Hello")


@pytest.mark.parametrize(
    "card", ([], {}, {"supportedInterfaces": [{"url": "/", "protocolBinding": "GRPC"}]})
)
def test_a2a_agent_says_what_is_wrong_with_a_card(serve: Serve, card: Any) -> None:
    with pytest.raises(ModelError, match=r"no card of|offers no A2A"):
        A2AAgent("far", serve(broken(card))).reply_sync("Hello")


def test_a2a_agent_says_what_a_card_offers_instead(serve: Serve) -> None:
    old = {"url": "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "0.2.6"}
    grpc = {"url": "/", "protocolVersion": "0.3.0", "preferredTransport": "GRPC"}
    told = r"offers no A2A 1\.0 or 0\.3 over JSON-RPC, but JSONRPC 0\.2\.6, GRPC 0\.3\.0"
    with pytest.raises(ModelError, match=told):
        A2AAgent("far", serve(broken({"supportedInterfaces": [old], **grpc}))).reply_sync("Hello")


def test_a2a_agent_goes_to_no_address_of_another_kind_that_a_card_names(serve: Serve) -> None:
    file = {"url": "file:///etc/passwd", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    with pytest.raises(ModelError, match="which is not of http or https"):
        A2AAgent("far", serve(broken({"supportedInterfaces": [file]}))).reply_sync("Hello")


async def test_a2a_agent_sends_no_message_again_to_a_server_that_ends_without_an_answer() -> None:
    posts: list[bytes] = []
    card = json.dumps(naming("/rpc")).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while (request := await reader.readuntil(b"\r\n\r\n")).startswith(b"GET"):
                writer.write(head % len(card) + card)
            posts.append(request)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        far = A2AAgent("far", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(ModelError, match="no answer"):
            await far.reply("Order tea")
        await far.aclose()
    assert len(posts) == 1


@pytest.mark.parametrize("state", ("COMPLETED", "INPUT_REQUIRED"))
def test_a2a_agent_goes_on_though_the_stream_of_a_task_that_rests_stays_open(
    serve: Serve, state: str
) -> None:
    closed = threading.Event()
    asked: list[str] = []

    async def get_card(request: Request) -> JSONResponse:
        return JSONResponse({**naming("/rpc"), "capabilities": {"streaming": True}})

    async def call(request: Request) -> StreamingResponse:
        is_new = "taskId" not in (await request.json())["params"]["message"]
        rests = standing(state if is_new else "COMPLETED", {"text": "Which?"})

        async def events() -> AsyncIterator[str]:
            yield f"data: {json.dumps(rests)}\n\n"
            await asyncio.to_thread(closed.wait)

        return StreamingResponse(events(), media_type="text/event-stream")

    def answer(question: Question) -> str:
        asked.append(question.text)
        return "red"

    card = Route("/.well-known/agent-card.json", get_card)
    url = serve(Starlette(routes=[card, Route("/rpc", call, methods=["POST"])]))
    approver = CallbackApprover(lambda request: True, answer=answer)
    far = A2AAgent("far", url, approver=approver, timeout_s=20)
    try:
        assert far.reply_sync("Paint").text == "So far."
    finally:
        closed.set()
    assert asked == (["Which?"] if state == "INPUT_REQUIRED" else [])


def test_a2a_agent_reads_the_card_again_of_a_server_that_streams_no_more(serve: Serve) -> None:
    streams = [True, False, False]

    async def get_card(request: Request) -> JSONResponse:
        return JSONResponse({**naming("/rpc"), "capabilities": {"streaming": streams.pop(0)}})

    async def call(request: Request) -> JSONResponse:
        if (await request.json())["method"] == "SendMessage":
            return JSONResponse(answers())
        return JSONResponse({"error": {"code": -32004, "message": "no streams"}})

    card = Route("/.well-known/agent-card.json", get_card)
    far = A2AAgent("far", serve(Starlette(routes=[card, Route("/rpc", call, methods=["POST"])])))
    assert [far.reply_sync("Hello").text for _ in range(2)] == ["Here.", "Here."]
    assert streams == [False]


@pytest.mark.parametrize(
    ("refused", "status"),
    (
        ("SendMessage", 429),
        ("SendMessage", 200),
        ("GetTask", 408),
        ("GetTask", 429),
        ("GetTask", 500),
        ("GetTask", 200),
    ),
)
def test_a2a_agent_waits_as_long_as_a_busy_server_asks_and_cancels_no_task(
    serve: Serve, refused: str, status: int
) -> None:
    called: list[str] = []
    times: list[float] = []
    working = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
    artifact = {"artifactId": "a", "parts": [{"text": "Here."}]}
    ended = {**working, "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [artifact]}
    results = {"SendMessage": {"task": working}, "GetTask": ended, "CancelTask": working}

    async def get_card(request: Request) -> JSONResponse:
        return JSONResponse(naming("/rpc"))

    async def call(request: Request) -> JSONResponse:
        called.append(method := (await request.json())["method"])
        if method == refused and called.count(method) <= (2 if status == 200 else 6):
            code = -32029 if method == "SendMessage" else -32603
            fault = {"error": {"code": code, "message": "busy"}}
            times.append(time.monotonic())
            return JSONResponse(fault, status, {"Retry-After": "1" if len(times) == 1 else "0"})
        return JSONResponse({"result": results[method]})

    card = Route("/.well-known/agent-card.json", get_card)
    far = A2AAgent("far", serve(Starlette(routes=[card, Route("/rpc", call, methods=["POST"])])))
    assert far.reply_sync("Hello").text == "Here."
    assert set(called) == {"SendMessage", "GetTask"}
    assert times[1] - times[0] >= 1 or status == 200  # which has no such header for a client


def test_a2a_agent_whose_token_is_missing_says_where_it_belongs(serve: Serve) -> None:
    closed = asgi(ReActAgent("shop", ScriptedModel(["Hello."])), token="secret")
    with pytest.raises(ModelError, match=r"status 401.*a token belongs in headers="):
        A2AAgent("far", serve(closed)).reply_sync("Hello")


def test_a2a_agent_gets_files_of_an_answer_as_blocks(serve: Serve) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    drawing = ReActAgent("painter", ScriptedModel([ModelReply("Here.", blocks=(image,))]))
    far = A2AAgent("far", serve(asgi(drawing)))
    reply = far.reply_sync("Draw.")
    assert (reply.text, reply.blocks) == ("Here.", [image])


@pytest.mark.parametrize("is_async", (False, True))
def test_a2a_agent_asks_for_its_headers_before_each_request(serve: Serve, is_async: bool) -> None:
    asked: list[str] = []

    def plain() -> dict[str, str]:
        asked.append("")
        return {"Authorization": "Bearer t0ken"}

    async def later() -> dict[str, str]:
        return plain()

    agent = ReActAgent("shop", ScriptedModel(["Good day.", "Again."]))
    url = serve(asgi(agent, token="t0ken"))
    far = A2AAgent("far", url, headers=later if is_async else plain)
    assert far.reply_sync("Hello").text == "Good day."
    many = len(asked)
    assert far.reply_sync("And?").text == "Again."
    assert len(asked) > many


def test_a2a_agent_gives_its_headers_to_no_other_server(serve: Serve) -> None:
    url = "http://127.0.0.2:9/rpc"
    card = {
        "supportedInterfaces": [
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ]
    }
    token = {"Authorization": "Bearer secret"}
    far = A2AAgent("far", serve(broken(card)), headers=token, allow_hosts=["127.0.0.2"])
    with pytest.raises(ModelError, match="not given your headers"):
        far.reply_sync("Hello")


def naming(url: str) -> dict[str, Any]:
    """Return a card that names an address."""
    interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return {"supportedInterfaces": [interface]}


def answers(text: str = "Here.") -> Any:
    return {"result": {"message": {"parts": [{"text": text}]}}}


@pytest.mark.parametrize(
    "there",
    (
        "http://127.0.0.2:9/rpc",
        "http://169.254.169.254/latest/meta-data/",
        "//10.0.0.1/rpc",
        "http://[::1]:22/",
        "http://localhost:1/rpc",
        "https://{here}/rpc",
        "http://{here}@127.0.0.2:9/rpc",
        "http://[nonsense/",
        "http://127.0.0.1:x/",
    ),
)
def test_a2a_agent_calls_no_other_server_that_a_card_names(serve: Serve, there: str) -> None:
    asked: list[str] = []

    async def get_card(request: Request) -> JSONResponse:
        return JSONResponse(naming(there.format(here=request.url.netloc)))

    async def rest(request: Request) -> PlainTextResponse:
        asked.append(str(request.url))
        return PlainTextResponse(json.dumps(answers()))

    card, other = Route("/.well-known/agent-card.json", get_card), Route("/{x:path}", rest)
    far = A2AAgent("far", serve(Starlette(routes=[card, other])))
    with pytest.raises(ModelError, match=r"agent 'far': its card at .* names the address"):
        far.reply_sync("Hello")
    assert asked == []


def test_a2a_agent_calls_the_first_address_of_a_card_that_it_may(serve: Serve) -> None:
    (usual,) = naming("/rpc")["supportedInterfaces"]
    wrong = [{**usual, "url": each} for each in ("http://example.org/rpc", "ftp://x/rpc")]
    far = A2AAgent("far", serve(broken({"supportedInterfaces": [*wrong, usual]}, answers())))
    assert far.reply_sync("Hello").text == "Here."


def test_a2a_agent_calls_an_allowed_host_that_a_card_names(serve: Serve) -> None:
    there = serve(broken(answer=answers()))
    port = there.rpartition(":")[2]
    card = naming(f"http://localhost:{port}/rpc")
    url = serve(broken(card))
    told = rf"of another server, which is not called.*allow_hosts=\('localhost:{port}',\)"
    with pytest.raises(ModelError, match=told):
        A2AAgent("far", url).reply_sync("Hello")
    with pytest.raises(ModelError, match="which is not called"):
        A2AAgent("far", url, allow_hosts=["localhost:1", "127.0.0.1"]).reply_sync("Hello")
    for allowed in (f"localhost:{port}", "LOCALHOST"):
        assert A2AAgent("far", url, allow_hosts=[allowed]).reply_sync("Hello").text == "Here."


def test_a2a_agent_goes_to_the_new_address_of_a_server_that_has_moved(serve: Serve) -> None:
    def card_of(url: str) -> dict[str, Any]:
        return naming(f"{url}/rpc")

    with serving(broken(answer=answers("Before."))) as before:
        card = card_of(before)
        far = A2AAgent("far", serve(broken(card)), allow_hosts=["127.0.0.1"])
        assert far.reply_sync("Hello").text == "Before."
    with pytest.raises(ModelError):
        far.reply_sync("Hello")
    card |= card_of(serve(broken(answer=answers("After."))))
    assert far.reply_sync("Hello").text == "After."


def test_a2a_agent_goes_to_the_new_path_of_an_agent_that_its_server_has_moved(serve: Serve) -> None:
    card = naming("/old")
    far = A2AAgent("far", serve(broken(card, answers())))
    with pytest.raises(ModelError, match="status 404"):
        far.reply_sync("Hello")
    card |= naming("/rpc")
    assert far.reply_sync("Hello").text == "Here."


def test_a2a_agent_answers_a_task_that_waits_once_its_server_is_back(serve: Serve) -> None:
    card: dict[str, Any] = {}
    messages: list[dict[str, Any]] = []

    async def call(request: Request) -> JSONResponse:
        messages.append((await request.json())["params"]["message"])
        return JSONResponse(answers("Red it is."))

    asks = standing("INPUT_REQUIRED", {"text": "Which?"})
    with serving(broken(answer=asks)) as before:
        card |= naming(f"{before}/rpc")
        far = A2AAgent("far", serve(broken(card)), allow_hosts=["127.0.0.1"])
        assert far.reply_sync("Paint").text.endswith("Which?")
    with pytest.raises(ModelError):
        far.reply_sync("Red.")
    after = serve(Starlette(routes=[Route("/rpc", call, methods=["POST"])]))
    card |= naming(f"{after}/rpc")
    assert far.reply_sync("Red!").text == "Red it is."
    assert [each["taskId"] for each in messages] == ["t"]


def test_a2a_agent_keeps_a_task_that_was_not_reached_with_its_answer(serve: Serve) -> None:
    called: list[str] = []
    steps = [
        (200, standing("INPUT_REQUIRED", {"text": "Which?"})),
        (503, {}),  # to what the approver answers
        (200, answers("Red it is.")),
    ]

    async def get_card(request: Request) -> JSONResponse:
        return JSONResponse(naming("/rpc"))

    async def call(request: Request) -> JSONResponse:
        body = await request.json()
        called.append(body["params"].get("message", body["params"]).get("taskId", body["method"]))
        status, answer = steps.pop(0)
        return JSONResponse(answer, status)

    card = Route("/.well-known/agent-card.json", get_card)
    url = serve(Starlette(routes=[card, Route("/rpc", call, methods=["POST"])]))
    approver = CallbackApprover(lambda request: True, answer=lambda question: "red")
    far = A2AAgent("far", url, approver=approver)
    with pytest.raises(ModelError, match="503"):
        far.reply_sync("Paint")
    assert far.reply_sync("Red.").text == "Red it is."
    assert called == ["SendMessage", "t", "t"]


@pytest.mark.parametrize(
    "own",
    ("{url}/rpc", "/rpc", "rpc", "HTTP://127.0.0.1:{port}/rpc", "http://localhost:{port}/rpc"),
)
def test_a2a_agent_calls_its_cards_own_server(serve: Serve, own: str) -> None:
    card: dict[str, Any] = {}
    url = serve(broken(card, answers()))
    named = own.format(url=url, port=url.rpartition(":")[2])
    card |= naming("/rpc" if named == "rpc" else named)
    assert A2AAgent("far", url).reply_sync("Hello").text == "Here."


@pytest.mark.parametrize(
    "wrong",
    (
        {"url": "ftp://x"},
        {"url": "http://a:b@x"},
        {"timeout_s": 0},
        {"headers": {"a": "b\n"}},
        {"allow_hosts": "x"},
        {"allow_hosts": ["http://x"]},
    ),
)
def test_a2a_agent_with_a_wrong_argument_is_refused(wrong: Any) -> None:
    with pytest.raises((ConfigError, DefinitionError)):
        A2AAgent("far", **{"url": "http://x", **wrong})
