"""Work in the background at the doors: what comes of it reaches the caller who asked."""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import mcp
import pytest

from moothall import (
    ACCESS_REQUESTED,
    Call,
    Context,
    Conversation,
    DualActAgent,
    Journal,
    MaxTurns,
    ModelReply,
    ReActAgent,
    ScriptedModel,
    action,
)
from moothall.journal import RunView
from moothall.serving import asgi
from serving.doors.a2a_calls import ask, asked, data, plain, requested, rpc, started, state
from serving.doors.conftest import client
from serving.doors.test_a2a import connected, message, updates
from serving.doors.test_ag_ui import run, user
from spaces.amqp.conftest import until

Serve = Callable[[Any], str]
TESTS = Path(__file__).parents[2]


class Clerk:
    """A model that answers once its gate is open."""

    name, context_tokens = "clerk", None

    def __init__(self) -> None:
        self.gate, self.begun = threading.Event(), threading.Event()

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> ModelReply:
        self.begun.set()
        await asyncio.to_thread(self.gate.wait, 30)
        return ModelReply(text=f"{messages[-1]['content']} is done")


def answered(agent: ReActAgent) -> threading.Event:
    """Return what is set once an agent has said that it has sent somebody."""
    event = threading.Event()

    def take(said: Any) -> None:
        if said.kind == "message" and said.message["content"] == "I have sent somebody.":
            event.set()

    agent.watch(take)
    return event


@action(access_policy=ACCESS_REQUESTED)
async def pay() -> str:
    """Pay."""
    return "paid"


def desk(clerk: Any, journal: Any = None) -> ReActAgent:
    """Return an agent that sends a clerk, says so, and repeats what it hears of it."""

    def answer(messages: list[dict[str, Any]], _: Any) -> Any:
        last = messages[-1]
        text = str(last["content"])
        if last["role"] == "tool":
            if isinstance(clerk, Clerk):
                clerk.gate.set()
            return "I have sent somebody."
        if text.startswith("Result of"):
            return text.partition("\n")[2]
        return "Good day." if text.endswith("Hello.") else Call("1", "clerk", {"text": text})

    helper = ReActAgent("clerk", clerk) if isinstance(clerk, Clerk) else clerk
    asking = [helper.as_action("clerk", background=True)]
    return ReActAgent("shop", ScriptedModel(answer), actions=asking, journal=journal)


BOTH = "I have sent somebody.\n\nOil is done"


@pytest.fixture(params=("no journal", "journal"))
def journal(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    return tmp_path / "runs.db" if request.param == "journal" else None


async def test_background_work_keeps_an_a2a_task_working_until_its_result_is_told(
    serve: Serve, journal: Any
) -> None:
    url = serve(asgi(desk(Clerk(), journal)))
    async with connected(url) as sdk:
        told = await updates(sdk, message("Oil"))
    assert [each["status"]["state"] for each in map(status_in, told) if each][-1] == (
        "TASK_STATE_COMPLETED"
    )
    pieces = list[str]()
    for each in (each["artifactUpdate"] for each in told if "artifactUpdate" in each):
        pieces = [*(pieces if each.get("append") else ()), each["artifact"]["parts"][0]["text"]]
    assert "".join(pieces) == BOTH
    assert each.get("append")  # it is told piece by piece
    (task,) = rpc(url, "ListTasks", {"includeArtifacts": True})["result"]["tasks"]
    assert task["artifacts"][0]["parts"][0]["text"] == BOTH


def status_in(update: dict[str, Any]) -> dict[str, Any]:
    return dict(update.get("statusUpdate") or {})


def test_background_work_lets_an_a2a_context_go_on(serve: Serve, journal: Any) -> None:
    clerk = Clerk()
    agent = desk(clerk, journal)
    clerk.gate.set = lambda: None  # type: ignore[method-assign]
    url = serve(asgi(agent))
    sent = {**plain("Oil", contextId="c"), "configuration": {"returnImmediately": True}}
    first = rpc(url, "SendMessage", sent)["result"]["task"]
    assert clerk.begun.wait(20)
    second = started(url, "Hello.", contextId="c")
    assert second["artifacts"][0]["parts"][0]["text"] == "Good day."
    assert state(rpc(url, "GetTask", {"id": first["id"]})["result"]) == "TASK_STATE_WORKING"
    threading.Event.set(clerk.gate)
    ended = followed(url, first["id"])
    assert ended["artifacts"][0]["parts"][0]["text"] == BOTH


def followed(url: str, id: str) -> dict[str, Any]:
    """Return a task once it has ended or asks something."""
    http, answer = requested(url, "SubscribeToTask", {"id": id})
    with closing(http):
        answer.read()
    task: dict[str, Any] = rpc(url, "GetTask", {"id": id})["result"]
    return task


@pytest.mark.parametrize("kind", ("agent", "conversation", "dual act"))
@pytest.mark.parametrize("asks_by", ("pay", "ask"))
def test_background_work_of_each_kind_asks_the_person_of_its_a2a_task(
    serve: Serve, journal: Any, kind: str, asks_by: str
) -> None:
    def answer(messages: list[dict[str, Any]], _: Any) -> Any:
        last = messages[-1]
        return last["content"] if last["role"] == "tool" else Call("1", asks_by, {})

    worker: Any = ReActAgent("worker", ScriptedModel(answer), actions=[pay, ask])
    if kind == "conversation":
        worker = Conversation([worker], id="group", until=MaxTurns(1))
    elif kind == "dual act":
        decision = {"reasoning": "", "action": "TERMINATE", "new_instruction": ""}
        human = ReActAgent("human", ScriptedModel(lambda *asked: json.dumps(decision)))
        worker = DualActAgent(human=human, reactive=worker, first="reactive")
    url = serve(asgi(desk(worker, journal)))
    task = started(url, "Oil")
    assert asked(task)["agent"] == "worker"
    if asks_by == "pay":
        answer_data = {"approval": asked(task)["approval"], "permit": True}
    else:
        answer_data = {"question": asked(task)["question"], "answer": "Blue"}
    ended = rpc(url, "SendMessage", data(answer_data, taskId=task["id"]))["result"]["task"]
    text = ended["artifacts"][0]["parts"][0]["text"]
    assert text == f"I have sent somebody.\n\n{'paid' if asks_by == 'pay' else 'Blue'}"


def test_background_work_asks_the_model_of_its_a2a_task_that_has_answered(
    serve: Serve, journal: Any
) -> None:
    @action
    async def ask_desk(context: Context) -> str:
        """Ask the desk."""
        return await context.ask_parent("What colour?")

    clerk = Clerk()

    async def work(messages: list[dict[str, Any]], _: Any) -> Any:
        await asyncio.to_thread(clerk.gate.wait, 30)
        last = messages[-1]
        return last["content"] if last["role"] == "tool" else Call("1", "ask_desk", {})

    def answer(messages: list[dict[str, Any]], _: Any) -> Any:
        last = messages[-1]
        text = str(last["content"])
        if "asks you" in text:
            id = text.partition("(")[2].partition(")")[0]
            return Call("2", "tell", {"id": id, "text": "Blue"})
        if last["role"] == "tool":
            return "It has my answer." if "your answer" in text else "I have sent somebody."
        return text.partition("\n")[2] or Call("1", "clerk", {"text": text})

    helper = ReActAgent("clerk", ScriptedModel(work), actions=[ask_desk])
    asking = [helper.as_action(background=True)]
    agent = ReActAgent("shop", ScriptedModel(answer), actions=asking, journal=journal)
    has_answered = answered(agent)
    url = serve(asgi(agent))
    sent = {**plain("Oil"), "configuration": {"returnImmediately": True}}
    task = rpc(url, "SendMessage", sent)["result"]["task"]
    assert has_answered.wait(20)
    clerk.gate.set()
    ended = followed(url, task["id"])
    assert ended["artifacts"][0]["parts"][0]["text"].endswith("It has my answer.\n\nBlue")


@pytest.mark.parametrize("to", ("the task", "its work"))
def test_background_work_and_its_a2a_task_are_told_more_by_the_operator(
    serve: Serve, tmp_path: Path, to: str
) -> None:
    clerk = Clerk()
    agent = desk(clerk, Journal(tmp_path / "runs.db"))
    clerk.gate.set = lambda: None  # type: ignore[method-assign]
    has_answered = answered(agent)
    url = serve(asgi(agent))
    sent = {**plain("Oil"), "configuration": {"returnImmediately": True}}
    id = rpc(url, "SendMessage", sent)["result"]["task"]["id"]
    assert has_answered.wait(20)
    assert clerk.begun.wait(20)
    assert agent.journal is not None
    agent.journal.tell(id if to == "the task" else f"{id}/1.0", "Hello.", by="eva")
    if to == "the task":
        until(lambda: "Good day." in str(RunView(agent.journal, id).messages))
    threading.Event.set(clerk.gate)
    text = followed(url, id)["artifacts"][0]["parts"][0]["text"]
    assert text == BOTH.replace("\n\n", "\n\nGood day.\n\n" if to == "the task" else "\n\n")


def test_background_work_ends_with_its_a2a_task(serve: Serve, journal: Any) -> None:
    clerk = Clerk()
    agent = desk(clerk, journal)
    clerk.gate.set = lambda: None  # type: ignore[method-assign]
    url = serve(asgi(agent))
    sent = {**plain("Oil"), "configuration": {"returnImmediately": True}}
    task = rpc(url, "SendMessage", sent)["result"]["task"]
    assert clerk.begun.wait(20)
    cancelled = rpc(url, "CancelTask", {"id": task["id"]})["result"]
    assert state(cancelled) == "TASK_STATE_CANCELED"
    threading.Event.set(clerk.gate)
    assert started(url, "Hello.")["artifacts"][0]["parts"][0]["text"] == "Good day."


async def test_background_work_is_part_of_an_mcp_call(serve: Serve, journal: Any) -> None:
    url = serve(asgi(desk(Clerk(), journal)))
    async with mcp.Client(f"{url}/mcp") as session:
        result = await session.call_tool("say", {"content": "Oil"})
    assert [each.text for each in result.content if each.type == "text"] == [BOTH]


def test_background_work_is_told_as_a_message_of_its_own_by_ag_ui(
    serve: Serve, journal: Any
) -> None:
    events = run(serve(asgi(desk(Clerk(), journal))), user("Oil"))
    texts = dict[str, str]()
    for each in events:
        if each["type"] == "TEXT_MESSAGE_CONTENT":
            texts[each["messageId"]] = texts.get(each["messageId"], "") + each["delta"]
    assert [*texts.values()] == BOTH.split("\n\n")
    assert events[-1]["type"] == "RUN_FINISHED"


@pytest.mark.parametrize("stream", (False, True))
def test_background_work_is_part_of_a_response(serve: Serve, journal: Any, stream: bool) -> None:
    openai = client(serve(asgi(desk(Clerk(), journal))))
    if stream:
        events = [*openai.responses.create(model="shop", input="Oil", stream=True)]
        response = events[-1].response
    else:
        response = openai.responses.create(model="shop", input="Oil")
    assert BOTH.replace("\n\n", "") in response.output_text.replace("\n\n", "")
    after = openai.responses.create(model="shop", input="Hello.", previous_response_id=response.id)
    assert after.output_text == "Good day."


def test_background_work_is_part_of_a_chat_completion(serve: Serve, journal: Any) -> None:
    openai = client(serve(asgi(desk(Clerk(), journal))))
    messages: Any = [{"role": "user", "content": "Oil"}]
    answer = openai.chat.completions.create(model="shop", messages=messages)
    assert answer.choices[0].message.content == BOTH


class Served:
    """A server in a process that is killed; connections wait in its socket meanwhile."""

    def __init__(self, folder: Path, count: int) -> None:
        self._command = [sys.executable, "-m", "serving.doors.background_program"]
        self._command += [str(folder), str(count)]
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, cwd=TESTS, stdin=self.listening.fileno())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.mark.parametrize("kills", (3, pytest.param(12, marks=pytest.mark.long)))
def test_background_results_reach_the_a2a_client_once_whenever_the_server_is_killed(
    kills: int, tmp_path: Path
) -> None:
    draw, killed, folder = random.Random(kills), 0, 0
    while killed < kills:
        folder += 1
        (tmp_path / str(folder)).mkdir()
        server = Served(tmp_path / str(folder), 4)
        try:
            sent = {**plain("Go."), "configuration": {"returnImmediately": True}}
            task = rpc(server.url, "SendMessage", sent)["result"]["task"]
            for _ in range(3):
                with suppress(subprocess.TimeoutExpired):
                    server.process.wait(draw.uniform(0.0, 1.2))
                server.kill()
                killed += 1
                server.start()
            ended = dict[str, Any]()
            while not ended:
                with suppress(TimeoutError):  # it takes long to start on a busy machine
                    ended = followed(server.url, task["id"])
        finally:
            server.kill()
            server.listening.close()
        assert state(ended) == "TASK_STATE_COMPLETED"
        text = ended["artifacts"][0]["parts"][0]["text"]
        first, _, rest = text.partition("\n\n")
        assert first == "I have sent them."
        results = Counter(re.split("; |\n\n", rest))
        assert results == {f"task {n} is done": 1 for n in range(4)}
