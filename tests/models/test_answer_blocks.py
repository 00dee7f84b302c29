"""Answers with images and audio, and answers for which the provider's own tools worked."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from models import messages_format
from models.openai_server import (
    Answer,
    OpenAIServer,
    answer,
    completion,
    text,
)
from moothall import AnthropicModel, Journal, OpenAIModel, ReActAgent
from moothall.testing.model_suite import ACTIONS, parts_of, run, user_message

PNG = base64.b64encode(b"\x89PNG picture").decode()
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}


def image_of_chat() -> Answer:
    message = {"role": "assistant", "content": "Here.", "images": [{**IMAGE, "index": 0}]}
    return answer(completion(message))


def test_image_of_an_answer_is_a_block_of_the_reply(tmp_path: Path) -> None:
    with OpenAIServer(image_of_chat(), text("A cat.")) as server:
        path = tmp_path / "runs.db"
        with Journal(path) as journal:
            agent = ReActAgent("painter", OpenAIModel("m", server.url), journal=journal)

            async def ask() -> Any:
                async with agent.stream("Draw a cat.", run_id="r") as parts:
                    return [part async for part in parts][-1].reply

            reply = run(ask())
            assert (reply.text, reply.blocks, reply.stop_reason) == ("Here.", [IMAGE], "done")
            agent.reply_sync([{"type": "text", "text": "What is it?"}, *reply.blocks])
        with Journal(path) as journal:  # the run has ended: nothing is asked
            again = ReActAgent("painter", OpenAIModel("m", server.url), journal=journal)
            assert again.reply_sync("Draw a cat.", run_id="r").blocks == [IMAGE]
    messages = server.requests[1].body["messages"]
    # An answer goes back as text, since servers take no images there.
    assert {"role": "assistant", "content": "Here.\n[an image]"} in messages
    assert IMAGE in messages[-1]["content"]
    assert len(server.requests) == 2


# -- tools of Anthropic's server -------------------------------------------------------------------

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
USED = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "Zorp"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srv_1",
    "content": [{"type": "web_search_result", "url": "https://example.com", "title": "Zorp"}],
}
ADD = {"type": "tool_use", "id": "t", "name": "add", "input": {"a": 1, "b": 2}}


def add(a: int, b: int) -> int:
    return a + b


@pytest.mark.parametrize("streamed", (False, True))
def test_anthropic_turn_that_the_server_pauses_goes_on(streamed: bool) -> None:
    make: Any = messages_format.streamed if streamed else messages_format.message
    paused = make({"type": "text", "text": "I look. "}, USED, stop_reason="pause_turn")
    with OpenAIServer(paused, make(FOUND, {"type": "text", "text": "It is so."})) as server:
        model = AnthropicModel("m", server.url, "k", options={"tools": [SEARCH]})
        reply = run(parts_of(model, user_message("Zorp?")))[-1] if streamed else None
        reply = reply or run(model.complete(user_message("Zorp?")))
    assert (reply.text, reply.usage.total, reply.finish_reason) == ("I look. It is so.", 20, "stop")
    assert "paused" not in reply.meta
    first, second = (request.body for request in server.requests)
    assert first["tools"] == second["tools"] == [SEARCH]
    said = {"role": "assistant", "content": [{"type": "text", "text": "I look. "}, USED]}
    assert second["messages"] == [*first["messages"], said]


def test_call_after_a_pause_goes_back_behind_all_that_came_before_it() -> None:
    looks, adds = ({"type": "text", "text": each} for each in ("I look. ", "I add."))
    paused = messages_format.message(looks, USED, stop_reason="pause_turn")
    called = messages_format.message(adds, ADD, stop_reason="tool_use")
    with OpenAIServer(paused, called, messages_format.text("3")) as server:
        model = AnthropicModel("m", server.url, "k", options={"tools": [SEARCH]})
        assert ReActAgent("a", model, actions=[add]).reply_sync("1+2?").text == "3"
    assert server.requests[2].body["messages"][1]["content"] == [looks, USED, adds, ADD]


@pytest.mark.long
def test_requests_with_anthropics_tools_fit_its_published_types() -> None:
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
    from pydantic import TypeAdapter

    called = messages_format.message(USED, FOUND, ADD, stop_reason="tool_use")
    with OpenAIServer(called, messages_format.text("3")) as server:
        model = AnthropicModel("m", server.url, "k", options={"tools": [SEARCH]})
        ReActAgent("a", model, actions=ACTIONS[:1]).reply_sync("1+2?")
    for request in server.requests:
        TypeAdapter(MessageCreateParamsNonStreaming).validate_python(request.body)
