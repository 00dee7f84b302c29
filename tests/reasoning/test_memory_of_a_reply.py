"""What an agent has read within a reply stays before its model as long as it fits."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from models.openai_server import OpenAIServer, Request, call, calls, text
from moothall import OpenAIModel, ReActAgent
from moothall.memory import TokenBoundedMemory

PAGES = 4


def page(n: int) -> str:
    """Read a page."""
    return f"PAGE-{n} " + "lorem ipsum dolor sit amet " * 400


def reads(seen: list[int]) -> Any:
    """A model that reads one page after the other."""

    def answers(request: Request) -> Any:
        shown = json.dumps(request.body["messages"])
        seen.append(sum(f"PAGE-{n} " in shown for n in range(1, PAGES + 1)))
        n = len(seen)
        return text("done") if n > PAGES else calls(call("page", f'{{"n": {n}}}', f"c{n}"))

    return answers


def agent_of(model: Any, memory: TokenBoundedMemory | None = None) -> ReActAgent:
    return ReActAgent("reader", model, actions=[page], memory=memory)


def test_unknown_context_keeps_what_the_reply_has_read(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []
    with OpenAIServer(reads(seen)) as server, caplog.at_level(logging.INFO):
        agent = agent_of(OpenAIModel("qwen3-32b", server.url))
        assert agent.reply_sync("Compare pages 1 to 4.").detail == ""
        agent.reply_sync("Again")
    assert seen[: PAGES + 1] == [0, 1, 2, 3, 4]
    told = [each for each in caplog.messages if "32,768 tokens are assumed" in each]
    assert len(told) == 1
    assert "#qwen3-32b" in told[0]


def test_server_that_states_its_context_is_asked_for_it() -> None:
    about = {"/v1/models": {"data": [{"id": "m", "max_model_len": 100_000}]}}
    with OpenAIServer(text("Hi"), about=about) as server:
        agent = agent_of(OpenAIModel("m", server.url))
        agent.reply_sync("Hi")
    memory = agent.memory
    assert isinstance(memory, TokenBoundedMemory)
    assert memory.max_tokens == 50_000


def test_what_does_not_fit_is_said(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []
    memory = TokenBoundedMemory(5000, clear=False)
    with OpenAIServer(reads(seen)) as server, caplog.at_level(logging.WARNING):
        agent = agent_of(OpenAIModel("m", server.url, context_tokens=16_000), memory)
        reply = agent.reply_sync("Compare")
    assert seen == [0, 1, 2, 2, 2]
    said = "4 earlier messages of this reply did not fit the model's memory"
    assert (reply.detail, reply.stop_reason) == (said, "done")
    assert any(said in each for each in caplog.messages)


def test_what_was_read_before_makes_room_for_the_reply() -> None:
    memory = TokenBoundedMemory(100, len, reply_tokens=200)
    for n in range(3):
        memory.add_memory({"role": "user", "content": f"{n}" * 20})
        memory.add_memory({"role": "assistant", "content": f"{n}" * 40})
    memory.add_memory({"role": "user", "content": "task"})
    for n in range(3):
        memory.add_memory({"role": "assistant", "content": f"{n}" * 50})
    kept = [each["content"] for each in memory.items]
    assert kept == ["task", "0" * 50, "1" * 50, "2" * 50]
    assert memory.left_out == 0
    memory.add_memory({"role": "assistant", "content": "3" * 50})
    assert memory.left_out == 1
