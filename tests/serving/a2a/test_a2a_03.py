"""A2A 0.3 with its SDK: its server is an agent of ours, its client is at our door."""

from __future__ import annotations

import base64
import json
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from faults.process import wait_for
from moothall import A2AAgent, Budget, CallbackApprover, ModelError, ReActAgent, ScriptedModel
from moothall.models.protocol import TextPiece
from moothall.serving import asgi
from peers.playing import Conversations, Peer, Program, peers
from serving.doors.a2a_calls import BEGUN, CANCELLED, call, shop
from serving.doors.conftest import serving

SERVER = next(each for each in peers() if each.name == "a2a-python-0-3-server")
CALLS = Peer("calls", "", "a2a03_calls.py", [], pypi=("a2a-sdk[http-server]==0.3.26",))
DOT = {
    "type": "image_url",
    "image_url": {"url": f"data:image/png;base64,{base64.b64encode(b'dot').decode()}"},
}


@pytest.fixture(scope="module", params=("whole", "stream"))
def remote(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[tuple[str, Path]]:
    """The address of a server of 0.3, and the folder where it notes what it did."""
    folder = tmp_path_factory.mktemp("remote")
    with Program(*SERVER.command(), request.param, str(folder)) as program:
        yield program.url, folder


async def test_a2a_agent_replies_for_a_server_of_0_3(remote: tuple[str, Path]) -> None:
    url, _ = remote
    far = A2AAgent("far", url)
    await far.observe("it rains", thread="a")
    assert (await far.reply("Hello", thread="a")).text == "Hello"
    assert (await far.reply("Again", thread="a")).text == "Hello Again"
    assert (await far.reply("message", thread="b")).text == "no task"
    assert (await far.reply("number")).value == {"n": 3}
    dot = await far.reply("file")
    assert (dot.text, dot.blocks[0]["type"]) == ("a dot", "image_url")
    with pytest.raises(ModelError, match="its task is failed: no paper"):
        await far.reply("fail")
    await far.aclose()


async def test_a2a_agent_tells_a_page_how_many_replies_failed_and_the_last_reason(
    remote: tuple[str, Path],
) -> None:
    far = A2AAgent("far", remote[0])
    await far.reply("Hello")
    assert (far.door_row()["calls"], far.door_row()["failed"]) == (1, 0)
    with pytest.raises(ModelError):
        await far.reply("fail")
    row = far.door_row()
    assert (row["calls"], row["failed"]) == (2, 1)
    assert "no paper" in row["last_fault"][1]
    await far.aclose()


async def test_a2a_agent_sends_text_and_files_to_a_server_of_0_3(remote: tuple[str, Path]) -> None:
    far = A2AAgent("far", remote[0])
    await far.observe("it rains")
    heard = json.loads((await far.reply([DOT, {"type": "text", "text": "said"}])).text)
    assert [each["kind"] for each in heard] == ["text", "file", "text"]
    assert heard[0]["text"] == "it rains"
    assert heard[1]["file"] == {"mimeType": "image/png", "bytes": "ZG90", "name": "file"}
    await far.aclose()


async def test_a2a_agent_streams_text_of_a_server_of_0_3(remote: tuple[str, Path]) -> None:
    far = A2AAgent("far", remote[0])
    await far.reply("one")
    pieces = [e.text async for e in far.stream("two") if isinstance(e, TextPiece)]
    assert "".join(pieces) == "one two"
    await far.aclose()


async def test_a2a_agent_answers_a_question_of_a_server_of_0_3(remote: tuple[str, Path]) -> None:
    approver = CallbackApprover(lambda request: False, answer=lambda question: "red")
    far = A2AAgent("far", remote[0], approver=approver)
    assert (await far.reply("ask")).text == "red"
    alone = A2AAgent("alone", remote[0])
    assert (await alone.reply("ask")).text == "Which colour?"
    assert (await alone.reply("blue")).text == "blue"
    await far.aclose()
    await alone.aclose()


def test_a2a_agent_cancels_the_task_of_a_server_of_0_3(remote: tuple[str, Path]) -> None:
    url, folder = remote
    far = A2AAgent("far", url, timeout_s=5)
    far.reply_sync("Hello")  # connected, it has all the time for what follows
    with pytest.raises(ModelError, match="has not ended within 5 s"):
        far.reply_sync("wait")
    assert (folder / "waits").exists()
    assert (folder / "cancelled").exists()


# -- their client ----------------------------------------------------------------------------------


class Client:
    """The client of 0.3 of an agent, in a process of its own."""

    def __init__(self, url: str, *token: str) -> None:
        self.program = Conversations(CALLS, url, *token)

    def __call__(self, do: str, mode: str = "whole-stream", **about: Any) -> Any:
        told = self.program.ask(mode, {"do": do, **about})
        return json.loads(told) if told[:1] in "[{" else told

    def say(self, text: str = "", mode: str = "whole-stream", **about: Any) -> Any:
        parts = about.pop("parts", [{"kind": "text", "text": text}])
        message = {"messageId": secrets.token_hex(8), "role": "user", "parts": parts, **about}
        return self("send", mode, message=message)


Connect = Callable[..., Client]


@pytest.fixture
def connect() -> Iterator[Connect]:
    with ExitStack() as stack:

        def connected(agent: Any, *token: str, **options: Any) -> Client:
            client = Client(stack.enter_context(serving(asgi(agent, **options))), *token)
            stack.callback(client.program.close)
            return client

        yield connected


def state(task: dict[str, Any]) -> str:
    return str(task["status"]["state"])


def data_of(task: dict[str, Any]) -> dict[str, Any]:
    parts = task["status"]["message"]["parts"]
    return dict(next(each["data"] for each in parts if each["kind"] == "data"))


def text_of(task: dict[str, Any]) -> str:
    return "".join(each["text"] for artifact in task["artifacts"] for each in artifact["parts"])


def test_a2a_card_and_task_are_read_by_a_client_of_0_3(connect: Connect) -> None:
    client = connect(shop("Good day.", "Again."), "s", token="s")
    card = client("card")
    assert (card["protocolVersion"], card["preferredTransport"]) == ("0.3.0", "JSONRPC")
    assert card["securitySchemes"]["bearer"]["scheme"] == "bearer"
    ((task, _),) = client.say("Hello", "whole")
    assert (state(task), text_of(task)) == ("completed", "Good day.")
    assert task["history"][0]["parts"] == [{"kind": "text", "text": "Hello"}]
    ((again, _),) = client.say("And?", "whole", contextId=task["contextId"])
    assert again["contextId"] == task["contextId"]
    assert client("get", id=task["id"]) == task
    assert client("get", id=task["id"], most=0)["history"] == task["history"]


def test_a2a_stream_is_read_by_a_client_of_0_3(connect: Connect) -> None:
    client = connect(ReActAgent("bot", ScriptedModel(["one two"])))
    first, *rest = client.say("Hi")
    updates = [update for _, update in rest]
    assert (state(first[0]), first[1]) == ("submitted", None)
    assert [each.get("final") for each in updates if each["kind"] == "status-update"] == [
        False,
        True,
    ]
    assert (state(rest[-1][0]), text_of(rest[-1][0])) == ("completed", "one two")


@pytest.mark.parametrize("mode", ("whole", "whole-stream"))
@pytest.mark.parametrize("recorded", (True, False))
def test_a2a_approval_is_answered_by_a_client_of_0_3(
    connect: Connect, tmp_path: Path, mode: str, recorded: bool
) -> None:
    options = {"journal": tmp_path / "runs.db"} if recorded else {}
    client = connect(shop(call("buy", item="tea"), "It is bought.", **options))
    task, _ = client.say("Buy tea", mode)[-1]
    assert state(task) == "input-required"
    asked = data_of(task)
    assert (asked["action"], asked["args"]) == ("buy", {"item": "tea"})
    ids = {"taskId": task["id"], "contextId": task["contextId"]}
    wrong = client.say(mode=mode, parts=[{"kind": "text", "text": "yes"}], **ids)
    assert "this answers nothing that the task asks" in wrong
    answer = {"kind": "data", "data": {"approval": asked["approval"], "permit": True}}
    task, _ = client.say(mode=mode, parts=[answer], **ids)[-1]
    assert (state(task), text_of(task)) == ("completed", "It is bought.")


def test_a2a_question_is_answered_and_followed_by_clients_of_0_3(connect: Connect) -> None:
    client = connect(shop(call("ask"), "It is red."))
    task, update = client.say("Which?")[-1]
    assert (state(task), update["final"]) == ("input-required", True)
    ((again, _),) = client("follow", id=task["id"], most=1)
    assert data_of(again)["text"] == "What colour?"
    task, _ = client.say("red", taskId=task["id"], contextId=task["contextId"])[-1]
    assert (state(task), text_of(task)) == ("completed", "It is red.")


def test_a2a_task_is_followed_and_cancelled_by_a_client_of_0_3(connect: Connect) -> None:
    client = connect(shop(call("wait")))
    ((task, _),) = client.say("Wait", "polling")
    assert BEGUN.wait(20)
    assert state(client("get", id=task["id"])) == "working"
    ended = client("cancel", id=task["id"])
    assert (state(ended), CANCELLED.wait(20)) == ("canceled", True)
    assert "-32002" in client("cancel", id=task["id"])
    assert "nothing works on the task" in client("follow", id=task["id"])
    assert "-32001" in client("get", id="none")


def test_a2a_stream_of_0_3_tells_the_end_of_a_task_that_somebody_else_answers(
    connect: Connect, tmp_path: Path
) -> None:
    agent = shop(call("buy", item="tea"), "It is bought.", journal=tmp_path / "runs.db")
    client = connect(agent)
    task, _ = client.say("Buy tea")[-1]
    follower = Client(client.program.url)
    try:
        followed: list[Any] = []
        about = {"id": task["id"], "noted": str(tmp_path / "follows")}
        following = threading.Thread(target=lambda: followed.extend(follower("follow", **about)))
        following.start()
        wait_for((tmp_path / "follows").exists, "that it follows")
        (wait,) = agent.journal.waiting(task["id"])
        agent.journal.answer(task["id"], wait.key, True)
        following.join(30)
    finally:
        follower.program.close()
    assert (state(followed[-1][0]), text_of(followed[-1][0])) == ("completed", "It is bought.")


def test_a2a_files_of_a_client_of_0_3_reach_the_model(connect: Connect) -> None:
    heard: list[Any] = []

    def model(messages: Any, actions: Any) -> str:
        heard.append(messages[-1]["content"])
        return "seen"

    client = connect(ReActAgent("bot", ScriptedModel(model)))
    file = {"mimeType": "image/png", "bytes": base64.b64encode(b"dot").decode()}
    client.say(parts=[{"kind": "text", "text": "See"}, {"kind": "file", "file": file}])
    assert heard == [[{"type": "text", "text": "See"}, DOT]]
    far = {"uri": "https://x.example/a.png", "mimeType": "image/png", "name": "a.png"}
    client.say(parts=[{"kind": "file", "file": far}])
    assert heard[1][0]["image_url"] == {"url": "https://x.example/a.png"}
    wrong = {"uri": "file:///etc/passwd", "mimeType": "image/png"}
    for mode in ("whole", "whole-stream"):
        refused = client.say(mode=mode, parts=[{"kind": "file", "file": wrong}])
        assert "must begin with https:// or http://" in refused


def test_a2a_refusals_are_read_by_a_client_of_0_3(connect: Connect) -> None:
    client = connect(shop("One."), budget=lambda name: Budget(model_calls=0), rate=4)
    for _ in range(2):
        for mode in ("whole", "whole-stream"):
            assert "-32029" in client.say("Hi", mode)
