"""Agents as A2A servers over plain HTTP, called by the SDK's own client and by plain requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors
from google.protobuf.json_format import MessageToDict

from moothall import Budget
from moothall.serving import asgi
from serving.doors.a2a_calls import BEGUN, asked, call, plain, rpc, shop, state
from serving.doors.conftest import serving
from serving.doors.test_a2a import connected, message, sent, updates

Serve = Callable[[Any], str]
OVER_HTTP: dict[str, Any] = {"supported_protocol_bindings": ["HTTP+JSON"]}


@pytest.fixture(scope="module")
def door() -> Iterator[str]:
    with serving(asgi(shop())) as url:
        yield url


def request(url: str, method: str, path: str, data: Any = None, **headers: str) -> httpx.Response:
    given = {"A2A-Version": "1.0", **headers}
    return httpx.request(method, f"{url}/a2a/shop/v1/{path}", json=data, headers=given, timeout=30)


async def test_a2a_over_http_answers_and_gets_lists_and_cancels_tasks(serve: Serve) -> None:
    url = serve(asgi(shop("Good day.", call("wait"))))
    async with connected(url, streaming=False, polling=True, **OVER_HTTP) as client:
        first = await sent(client, message("Hello"))
        while state(first) != "TASK_STATE_COMPLETED":
            first = MessageToDict(await client.get_task(pb.GetTaskRequest(id=first["id"])))
        assert first["artifacts"][0]["parts"][0]["text"] == "Good day."
        got = await client.get_task(pb.GetTaskRequest(id=first["id"], history_length=0))
        assert "history" not in MessageToDict(got)
        task = await sent(client, message("Wait"))
        assert await asyncio.to_thread(BEGUN.wait, 10)
        page = await client.list_tasks(pb.ListTasksRequest(page_size=1))
        assert ([each.id for each in page.tasks], page.total_size) == ([task["id"]], 2)
        request = pb.ListTasksRequest(page_token=page.next_page_token, include_artifacts=True)
        page = await client.list_tasks(request)
        assert MessageToDict(page.tasks[0])["artifacts"] == first["artifacts"]
        ended = await client.cancel_task(pb.CancelTaskRequest(id=task["id"]))
        assert ended.status.state == pb.TASK_STATE_CANCELED
        with pytest.raises(errors.TaskNotCancelableError):
            await client.cancel_task(pb.CancelTaskRequest(id=task["id"]))
        with pytest.raises(errors.TaskNotFoundError):
            await client.get_task(pb.GetTaskRequest(id="a2a-" + "0" * 40))


async def test_a2a_over_http_streams_updates_and_takes_an_answer(serve: Serve) -> None:
    url = serve(asgi(shop(call("buy", item="tea"), "It is bought.")))
    async with connected(url, **OVER_HTTP) as client:
        told = await updates(client, message("Buy tea"))
        task = told[0]["task"]
        wanted = asked(told[-1]["statusUpdate"])
        again = client.subscribe(pb.SubscribeToTaskRequest(id=task["id"]))
        first = MessageToDict(await anext(aiter(again)))
        assert state(first["task"]) == "TASK_STATE_INPUT_REQUIRED"
        answer = {"approval": wanted["approval"], "permit": True}
        told = await updates(client, message(data=answer, taskId=task["id"]))
        assert state(told[-1]["statusUpdate"]) == "TASK_STATE_COMPLETED"


def test_a2a_over_http_tells_that_a_budget_or_a_rate_is_spent(serve: Serve) -> None:
    url = serve(asgi(shop("One."), budget=lambda name: Budget(model_calls=0), rate=2))
    for text, reason in (("a", "BUDGET_EXCEEDED"), ("b", "BUDGET_EXCEEDED"), ("c", "RATE_LIMIT")):
        answer = request(url, "POST", "message:send", plain(text))
        assert answer.status_code == 429
        assert answer.json()["error"]["details"][0]["reason"].startswith(reason)
    assert rpc(url, "GetTask", {"id": "x"})["error"]["code"] == -32029
    assert int(answer.headers["retry-after"]) > 0
