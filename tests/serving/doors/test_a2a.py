"""Agents as A2A servers, called by the SDK's own client and by plain requests."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors
from google.protobuf.json_format import MessageToDict, ParseDict

from moothall import Call, Context, ReActAgent, ScriptedModel, action
from moothall.foundation.errors import ConfigError
from moothall.models import ModelReply
from moothall.serving import asgi
from serving.doors.a2a_calls import (
    BEGUN,
    CANCELLED,
    asked,
    buy,
    call,
    data,
    plain,
    rpc,
    shop,
    state,
)
from serving.doors.conftest import serving

Serve = Callable[[Any], str]


@asynccontextmanager
async def connected(
    url: str, agent: str = "", token: str | None = None, **config: Any
) -> AsyncIterator[Client]:
    """Yield the SDK's client of an agent, found by its card."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=20) as http:
        base = f"{url}/a2a/{agent}" if agent else url
        card = await A2ACardResolver(http, base).get_agent_card()
        yield ClientFactory(ClientConfig(httpx_client=http, **config)).create(card)


def message(text: str | None = None, data: Any = None, **about: str) -> pb.SendMessageRequest:
    part = {"text": text} if data is None else {"data": data}
    sent = {"messageId": secrets.token_hex(8), "role": "ROLE_USER", "parts": [part], **about}
    return ParseDict({"message": sent}, pb.SendMessageRequest())


async def updates(client: Client, request: pb.SendMessageRequest) -> list[dict[str, Any]]:
    return [MessageToDict(each) async for each in client.send_message(request)]


async def sent(client: Client, request: pb.SendMessageRequest) -> dict[str, Any]:
    """Return the task that a message without streaming leads to."""
    (found,) = await updates(client, request)
    return dict(found["task"])


async def test_a2a_message_becomes_a_task_with_the_reply_as_artifact(serve: Serve) -> None:
    url = serve(asgi(shop("Good day.", "Again.")))
    async with connected(url, streaming=False) as client:
        first = await sent(client, message("Hello"))
        assert state(first) == "TASK_STATE_COMPLETED"
        (artifact,) = first["artifacts"]
        assert artifact["parts"] == [{"text": "Good day.", "mediaType": "text/plain"}]
        assert first["history"][0]["parts"][0]["text"] == "Hello"
        again = await sent(client, message("And?", contextId=first["contextId"]))
        assert (again["contextId"], again["id"]) != (first["contextId"], first["id"])
        assert again["contextId"] == first["contextId"]
        got = await client.get_task(pb.GetTaskRequest(id=first["id"], history_length=0))
        assert "history" not in MessageToDict(got)
        assert MessageToDict(got)["artifacts"] == first["artifacts"]


def test_a2a_context_is_a_conversation_of_its_own(serve: Serve) -> None:
    seen: list[int] = []

    def answers(messages: Any, _: Any) -> str:
        seen.append(sum(each["role"] == "user" for each in messages))
        return "yes"

    url = serve(asgi(ReActAgent("shop", ScriptedModel(answers))))
    first = rpc(url, "SendMessage", plain("one"))["result"]["task"]["contextId"]
    rpc(url, "SendMessage", plain("two", contextId=first))
    rpc(url, "SendMessage", plain("three"))
    rpc(url, "SendMessage", plain("four", contextId=first), source="127.0.0.2")
    assert seen == [1, 2, 1, 1]


async def test_a2a_stream_tells_states_calls_and_pieces_of_text(serve: Serve) -> None:
    url = serve(asgi(shop(call("ask"), "It is red.")))
    async with connected(url) as client:
        told = await updates(client, message("Which?"))
        task = told[0]["task"]
        assert state(told[-1]["statusUpdate"]) == "TASK_STATE_INPUT_REQUIRED"
        told = await updates(client, message("red", taskId=task["id"]))
        states = [state(each["statusUpdate"]) for each in told if "statusUpdate" in each]
        assert states[-1] == "TASK_STATE_COMPLETED"
        texts = [each["artifactUpdate"] for each in told if "artifactUpdate" in each]
        assert [each["artifact"]["parts"][0]["text"] for each in texts] == ["It", " is", " red."]
        assert [each.get("append", False) for each in texts] == [False, True, True]
        assert [each.get("lastChunk", False) for each in texts] == [False, False, True]
        got = MessageToDict(await client.get_task(pb.GetTaskRequest(id=task["id"])))
        assert got["artifacts"][0]["parts"][0]["text"] == "It is red."


async def test_a2a_stream_ends_the_artifact_with_what_was_not_told(serve: Serve) -> None:
    dot = {"type": "image_url", "image_url": {"url": "data:image/png;base64,ZG90"}}
    drawing = ModelReply("A red dot.", blocks=[dot])
    url = serve(asgi(shop(ModelReply("I ask.", calls=[call("ask")]), drawing)))
    async with connected(url) as client:
        told = await updates(client, message("Draw"))
        told += await updates(client, message("red", taskId=told[0]["task"]["id"]))
    texts, shown = [each["artifactUpdate"] for each in told if "artifactUpdate" in each], []
    for each in texts:
        shown = [*(shown if each.get("append") else ()), *each["artifact"]["parts"]]
    *pieces, image = shown
    assert "".join(each["text"] for each in pieces) == "A red dot."
    assert image == {"raw": "ZG90", "mediaType": "image/png"}
    assert [each for each in texts if each.get("lastChunk")] == texts[-1:]


async def test_a2a_stream_tells_the_progress_of_actions(serve: Serve) -> None:
    begun = (
        threading.Event()
    )  # the client reads the stream; what was before, a task does not repeat

    async def answer(*_: Any) -> Call:
        await asyncio.to_thread(begun.wait, 20)
        return Call("1", "dig", {})

    async def dig(context: Context[Any]) -> str:
        """Dig."""
        context.progress("1 m of 2")
        return "deep"

    agent = ReActAgent("shop", ScriptedModel([answer, "Dug."]), actions=[dig])
    url = serve(asgi(agent))
    told = []
    async with connected(url) as client:
        async for each in client.send_message(message("Dig.")):
            begun.set()
            told.append(MessageToDict(each))
    states = [each["statusUpdate"]["status"] for each in told if "statusUpdate" in each]
    assert ([each["message"]["parts"][0]["text"] for each in states if "message" in each]) == [
        "shop: dig {}",
        "shop: dig: 1 m of 2",
    ]


def test_a2a_value_of_a_reply_is_a_data_part(serve: Serve) -> None:
    @action(terminal=True)
    async def total(amount: int) -> dict[str, int]:
        """State the total."""
        return {"amount": amount}

    agent = ReActAgent("shop", ScriptedModel([call("total", amount=3)]), actions=[total])
    task = rpc(serve(asgi(agent)), "SendMessage", plain("Sum?"))["result"]["task"]
    value = {"data": {"amount": 3}, "mediaType": "application/json"}
    assert task["artifacts"][0]["parts"][0] == value  # the first part that a client reads


def test_a2a_images_and_audio_of_a_reply_are_files(serve: Serve, tmp_path: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    sound = {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}}
    csv = "https://x.example/a.csv?at=1"
    table = {"type": "file", "file": {"file_url": csv}}
    link = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    agent = shop(
        ModelReply("Here.", blocks=(image, sound, link, table)), journal=tmp_path / "runs.db"
    )
    url = serve(asgi(agent))

    async def main() -> dict[str, Any]:
        async with connected(url, streaming=False) as client:
            return await sent(client, message("Draw."))

    task = asyncio.run(main())
    (artifact,) = task["artifacts"]
    assert artifact["parts"] == [
        {"text": "Here.", "mediaType": "text/plain"},
        {"raw": "aGk=", "mediaType": "image/png"},
        {"raw": "aGk=", "mediaType": "audio/mp3"},
        {"url": "https://example.com/a.png", "mediaType": "image/png"},
        {"url": csv, "mediaType": "text/csv"},
    ]
    # After a restart the journal has it.
    again = serve(asgi(shop(journal=tmp_path / "runs.db")))
    got = rpc(again, "GetTask", {"id": task["id"]})["result"]
    assert got["artifacts"] == [artifact]


async def test_a2a_cancel_ends_the_reply(serve: Serve) -> None:
    url = serve(asgi(shop(call("wait"))))
    async with connected(url, streaming=False, polling=True) as client:
        task = await sent(client, message("Wait"))
        assert state(task) in ("TASK_STATE_WORKING", "TASK_STATE_SUBMITTED")
        assert await asyncio.to_thread(BEGUN.wait, 10)
        ended = await client.cancel_task(pb.CancelTaskRequest(id=task["id"]))
        assert ended.status.state == pb.TASK_STATE_CANCELED
        assert await asyncio.to_thread(CANCELLED.wait, 10)
        with pytest.raises(errors.TaskNotCancelableError):
            await client.cancel_task(pb.CancelTaskRequest(id=task["id"]))


def test_a2a_task_that_fails_says_which_run_the_log_tells_of(serve: Serve) -> None:
    task = rpc(serve(asgi(shop())), "SendMessage", plain("Hello"))["result"]["task"]
    assert state(task) == "TASK_STATE_FAILED"
    told = task["status"]["message"]["parts"][0]["text"]
    assert told == (
        f"the server has failed (ModelError); its log has the reason, under run {task['id']}"
    )


async def test_a2a_cards_name_each_agent_and_what_it_takes(serve: Serve) -> None:
    agents = [shop("one"), shop("two", id="a/b c")]
    url = serve(asgi(agents, token="t0ken"))
    async with connected(url, token="t0ken", streaming=False) as client:
        assert (await sent(client, message("Hello")))["artifacts"][0]["parts"][0]["text"] == "one"
    async with connected(url, "a%2Fb%20c", "t0ken", streaming=False) as client:
        assert (await sent(client, message("Hello")))["artifacts"][0]["parts"][0]["text"] == "two"
    async with httpx.AsyncClient(headers={"Authorization": "Bearer t0ken"}) as http:
        card = (await http.get(f"{url}/.well-known/agent-card.json")).json()
        assert card["name"] == "shop"
        assert card["securityRequirements"] == [{"schemes": {"bearer": {"list": []}}}]
        assert card["capabilities"]["pushNotifications"] is False
        named_in_0_3 = {"protocolVersion", "url", "preferredTransport", "security"}
        assert named_in_0_3 <= card.keys()
        (scheme,) = card.pop("securitySchemes").values()
        assert (scheme.pop("type"), scheme.pop("scheme")) == ("http", "bearer")  # those of 0.3, too
        ParseDict(scheme, pb.SecurityScheme())  # every other field is one of the protocol
        ParseDict({k: v for k, v in card.items() if k not in named_in_0_3}, pb.AgentCard())
        none = await http.get(f"{url}/a2a/nobody/.well-known/agent-card.json")
        assert none.status_code == 404


def test_description_of_an_agent_is_in_its_card_and_read_by_models_that_may_ask_it(
    serve: Serve,
) -> None:
    agent = shop(description="Sells tea.\nNo coffee.")
    url = serve(asgi(agent))
    card = httpx.get(f"{url}/.well-known/agent-card.json").json()
    assert card["description"] == card["skills"][0]["description"] == "Sells tea.\nNo coffee."
    assert agent.as_action().description == "Sells tea.\nNo coffee."
    assert agent.as_action(description="A shop.").description == "A shop."
    assert "description" in agent.offers["say"].help
    with pytest.raises(ConfigError, match="description= must be a text, got 5"):
        shop(description=5)


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


@pytest.mark.parametrize(
    ("part", "block", "told"),
    (
        ({"raw": "aGk=", "mediaType": "image/png"}, PICTURE, "[image/png, 3 bytes]"),
        ({"raw": "aGk", "filename": "a.PNG"}, PICTURE, "[image/png, 3 bytes]"),
        (
            {"url": "https://x.example/a.pdf", "mediaType": "application/pdf", "filename": "a.pdf"},
            {"type": "file", "file": {"file_url": "https://x.example/a.pdf", "filename": "a.pdf"}},
            "[a.pdf at https://x.example/a.pdf]",
        ),
        (
            {"raw": "_-8=", "mediaType": "audio/mpeg"},
            {"type": "input_audio", "input_audio": {"data": "/+8=", "format": "mp3"}},
            "[audio/mp3, 3 bytes]",
        ),
        (
            {"raw": "aGk=", "filename": "a.csv"},
            {
                "type": "file",
                "file": {"file_data": "data:text/csv;base64,aGk=", "filename": "a.csv"},
            },
            "a.csv:\nhi",
        ),
    ),
)
def test_a2a_file_of_a_client_reaches_the_model(part: Any, block: Any, told: str) -> None:
    heard: list[Any] = []

    def model(messages: Any, actions: Any) -> str:
        heard.append(messages[-1]["content"])
        return "seen"

    with serving(asgi(ReActAgent("shop", ScriptedModel(model)))) as url:
        parts = [{"text": "Look."}, part, {"data": {"n": 1}}]
        message = {"messageId": "m", "role": "ROLE_USER", "parts": parts}
        task = rpc(url, "SendMessage", {"message": message})["result"]["task"]
    texts = [{"type": "text", "text": each} for each in ("Look.", '{"n": 1}')]
    assert heard == [[texts[0], block, texts[1]]]
    assert task["artifacts"][0]["parts"][0]["text"] == "seen"
    assert task["history"][0]["parts"][0]["text"] == f"Look.\n\n{told}\n\n" + '{"n": 1}'


def test_a2a_files_of_a_task_are_there_when_it_goes_on(tmp_path: Path) -> None:
    heard: list[Any] = []

    def model(messages: Any, actions: Any) -> Any:
        heard.append(messages[0 if messages[0]["role"] == "user" else 1]["content"])
        return "done" if messages[-1]["role"] == "tool" else call("buy", item="tea")

    def app() -> Any:
        options: Any = {"actions": [buy], "journal": tmp_path / "runs.db"}
        return asgi(ReActAgent("shop", ScriptedModel(model), **options))

    parts = [{"text": "Look."}, {"raw": "aGk=", "mediaType": "image/png"}]
    message = {"messageId": "m", "role": "ROLE_USER", "parts": parts}
    with serving(app()) as url:
        task = rpc(url, "SendMessage", {"message": message})["result"]["task"]
    with serving(app()) as url:
        hash = asked(rpc(url, "GetTask", {"id": task["id"]})["result"])["approval"]
        answer = data({"approval": hash, "permit": True}, taskId=task["id"])
        task = rpc(url, "SendMessage", answer)["result"]["task"]
    assert state(task) == "TASK_STATE_COMPLETED"
    assert heard[-1] == heard[0] == [{"type": "text", "text": "Look."}, PICTURE]


@pytest.fixture(scope="module")
def door() -> Any:
    with serving(asgi(shop())) as url:
        yield url
