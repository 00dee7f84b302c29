"""A server at its limit of simultaneous replies refuses more of them before they begin."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import httpx2
import pytest

from moothall import ConfigError, Journal, Model, ModelReply, ReActAgent
from moothall.serving import asgi
from serving.doors.a2a_calls import BEGUN, BOUGHT, call, requested, rpc, shop
from serving.doors.test_callers import DOORS, say, tool

Serve = Callable[[Any], str]
BUSY = {
    "responses": "rate_limit_exceeded",
    "chat": "rate_limit_exceeded",
    "mcp": "-32029",
    "a2a": "-32029",
    "ag-ui": "rate_limit_exceeded",
}


class Slow(Model):
    """A model that answers once it may."""

    name, context_tokens, max_tokens = "slow", None, 10

    def __init__(self) -> None:
        self.asked, self.begun, self.may = 0, threading.Event(), threading.Event()

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> ModelReply:
        self.asked += 1
        self.begun.set()
        assert await asyncio.to_thread(self.may.wait, 20)
        return ModelReply("Good day.")


@pytest.mark.parametrize("first", DOORS)
def test_busy_server_refuses_more_replies_by_all_doors_and_begins_none(
    serve: Serve, first: str
) -> None:
    model = Slow()
    url = serve(asgi(ReActAgent("bot", model), max_replies=1))
    answers: list[tuple[bool, str]] = []
    replying = threading.Thread(target=lambda: answers.append(say(url, first)))
    replying.start()
    assert model.begun.wait(20)
    assert {door: say(url, door) for door in DOORS} == {
        door: (False, code) for door, code in BUSY.items()
    }
    model.may.set()
    replying.join()
    assert (answers, model.asked) == ([(True, "")], 1)
    assert [say(url, door) for door in DOORS] == [(True, "")] * len(DOORS)


def test_busy_server_says_when_to_ask_again(serve: Serve) -> None:
    model = Slow()
    url = serve(asgi(ReActAgent("bot", model), max_replies=1))
    replying = threading.Thread(target=say, args=(url, "chat"))
    replying.start()
    assert model.begun.wait(20)
    page = {
        "threadId": "t",
        "runId": "r",
        "messages": [{"id": "m", "role": "user", "content": "Hi"}],
    }
    found = [
        httpx2.post(f"{url}{path}", json=data)
        for path, data in (
            ("/v1/responses", {"model": "bot", "input": "Hi", "stream": True}),
            ("/ag-ui/bot", page),
        )
    ]
    assert [each.status_code for each in found] == [429, 200]
    for each in found:
        assert each.headers["retry-after"] == "5"
        assert "the server is busy: its limit of simultaneous replies is 1: wait 5 s" in each.text
    refused = tool(url, None, "say", content="Hi").json()["error"]
    assert (
        refused["message"] == "the server is busy: its limit of simultaneous replies is 1: wait 5 s"
    )
    model.may.set()
    replying.join()


def test_busy_server_takes_the_answer_of_the_task_that_fills_it(serve: Serve) -> None:
    url = serve(asgi(shop(call("ask"), "Blue it is.", "Hello."), max_replies=1))
    paint, hello = (
        {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]}
        for text in ("Paint.", "Hello?")
    )
    task = rpc(url, "SendMessage", {"message": paint})["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    refused = rpc(url, "SendMessage", {"message": hello})["error"]
    assert (refused["code"], refused["message"][:18]) == (-32029, "the server is busy")
    answer = {**paint, "messageId": "2", "taskId": task["id"], "parts": [{"text": "Blue."}]}
    answered = rpc(url, "SendMessage", {"message": answer})["result"]["task"]
    assert answered["artifacts"][0]["parts"][0]["text"] == "Blue it is."
    # Nothing has begun of what was refused: sent again, it is a task.
    greeted = rpc(url, "SendMessage", {"message": hello})["result"]["task"]
    assert greeted["artifacts"][0]["parts"][0]["text"] == "Hello."


def test_busy_server_goes_on_with_a_task_that_waited_once_there_is_room(
    serve: Serve, journal: Journal
) -> None:
    agent = shop(call("buy", item="tea"), call("wait"), "Bought.", journal=journal)
    url = serve(asgi(agent, token={"ada": "t-ada"}, max_replies=1))

    ada = {"Authorization": "Bearer t-ada"}

    def said(text: str, at_once: bool) -> Any:
        message = {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]}
        params = {"message": message, "configuration": {"returnImmediately": at_once}}
        return rpc(url, "SendMessage", params, **ada)["result"]["task"]

    waits = said("Buy tea.", False)
    assert waits["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    (wait,) = journal.waiting(waits["id"])
    fills = said("Wait.", True)
    assert BEGUN.wait(20)
    journal.answer(waits["id"], wait.key, True, by="boss")
    rpc(url, "CancelTask", {"id": fills["id"]}, **ada)
    http, answer = requested(url, "SubscribeToTask", {"id": waits["id"]}, headers=ada)
    with closing(http):
        assert '"Bought."' in answer.read().decode()
    assert BOUGHT == ["tea"]


@pytest.mark.parametrize("wrong", (0, 1.5, "2"))
def test_busy_limit_must_be_a_positive_integer(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="max_replies= must be"):
        asgi(shop("x"), max_replies=wrong)
