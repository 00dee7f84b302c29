"""What an agent has read within a reply stays before its model as long as it fits."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from models.openai_server import Answer, OpenAIServer, Request, call, calls, status, text
from moothall import Budget, FallbackModel, OpenAIModel, ReActAgent
from moothall.memory import DEFAULT_TOKENS, Memory, SQLiteMemory, TokenBoundedMemory
from moothall.models import BudgetedModel

PAGES = 4


def page(n: int) -> str:
    """Read a page."""
    return f"PAGE-{n} " + "lorem ipsum dolor sit amet " * 400


def reads(seen: list[int]) -> Any:
    """A model that reads one page after the other for each question."""

    def answers(request: Request) -> Any:
        shown = json.dumps(request.body["messages"])
        seen.append(sum(f"PAGE-{n} " in shown for n in range(1, PAGES + 1)))
        n = (len(seen) - 1) % (PAGES + 1) + 1
        return text("done") if n > PAGES else calls(call("page", f'{{"n": {n}}}', f"c{n}"))

    return answers


def agent_of(model: Any, memory: Memory | None = None) -> ReActAgent:
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


def test_bounded_memory_says_what_does_not_fit(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []
    memory = TokenBoundedMemory(5000, clear=False)
    with OpenAIServer(reads(seen)) as server, caplog.at_level(logging.WARNING):
        agent = agent_of(OpenAIModel("m", server.url, context_tokens=16_000), memory)
        reply = agent.reply_sync("Compare")
    assert seen == [0, 1, 2, 2, 2]
    said = "4 earlier messages of this reply did not fit the model's memory"
    assert (reply.detail, reply.stop_reason) == (said, "done")
    assert any(said in each for each in caplog.messages)


def test_bounded_memory_drops_what_was_read_before_for_the_reply() -> None:
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


def test_bounded_memory_keeps_what_a_later_reply_has_read_too() -> None:
    seen: list[int] = []
    with OpenAIServer(reads(seen)) as server:
        agent = agent_of(OpenAIModel("qwen3-32b", server.url))
        for _ in range(3):
            assert agent.reply_sync("Compare pages 1 to 4.").detail == ""
    assert seen == [0, 1, 2, 3, 4] * 3


def test_stored_memory_keeps_what_its_reply_has_read(tmp_path: Path) -> None:
    seen: list[int] = []
    with OpenAIServer(reads(seen)) as server, SQLiteMemory(tmp_path / "m.db") as memory:
        agent = agent_of(OpenAIModel("qwen3-32b", server.url), memory)
        assert [agent.reply_sync("Compare").stop_reason for _ in range(2)] == ["done"] * 2
    assert seen == [0, 1, 2, 3, 4] * 2


def test_stored_memory_shows_a_running_reply_to_another_process(tmp_path: Path) -> None:
    path, read = tmp_path / "m.db", "x" * DEFAULT_TOKENS  # about half as many tokens
    messages = [{"role": "user", "content": "Compare"}]
    messages += [{"role": "assistant", "content": f"{n} {read}"} for n in range(3)]
    with SQLiteMemory(path) as memory:
        for each in messages:
            memory.add_memory(each)
    with SQLiteMemory(path) as later:
        later.fit_reply(2 * DEFAULT_TOKENS)
        assert later.get_memories() == messages


def test_stored_memory_says_what_does_not_fit(tmp_path: Path) -> None:
    seen: list[int] = []
    memory = SQLiteMemory(tmp_path / "m.db", tokens=9000, clear=False)
    with OpenAIServer(reads(seen)) as server, memory:
        reply = agent_of(OpenAIModel("m", server.url), memory).reply_sync("Compare")
    assert seen == [0, 1, 1, 1, 1]
    assert "6 earlier messages of this reply did not fit" in reply.detail


def test_context_of_several_models_is_the_smallest_although_the_first_is_known() -> None:
    about = {"/v1/models": {"data": [{"id": "m", "max_model_len": 3000}]}}
    with OpenAIServer(status(503)) as one, OpenAIServer(text("Hi"), about=about) as two:
        first = OpenAIModel("m", one.url, context_tokens=128_000, max_retries=0)
        agent = agent_of(FallbackModel([first, OpenAIModel("m", two.url)]))
        agent.reply_sync("Hi")
    memory = agent.memory
    assert isinstance(memory, TokenBoundedMemory)
    assert memory.max_tokens == 1500
    assert (one.looked_up, two.looked_up) == ([], ["/v1/models"])


def test_context_of_a_model_with_a_budget_is_asked_for() -> None:
    about = {"/v1/models": {"data": [{"id": "m", "max_model_len": 3000}]}}
    with OpenAIServer(text("Hi"), about=about) as server:
        model = BudgetedModel(OpenAIModel("m", server.url), Budget(tokens=100_000))
        agent = agent_of(model)
        agent.reply_sync("Hi")
    assert (model.context_tokens, server.looked_up) == (3000, ["/v1/models"])


@pytest.mark.parametrize("silent", (Answer(hang=True), Answer(reset=True), status(500)))
def test_context_that_a_server_does_not_say_is_asked_for_once(silent: Answer) -> None:
    about = {"/v1/models": silent, "/props": silent}
    with OpenAIServer(text("Hi"), about=about) as server:
        agent = agent_of(OpenAIModel("m", server.url, max_retries=0))
        assert agent.reply_sync("Hi").text == "Hi"
        asked = list(server.looked_up)
        assert agent.reply_sync("Hi").text == "Hi"
    assert server.looked_up == asked
    assert "/v1/models" in asked


def test_words_from_before_make_room_for_what_the_reply_reads() -> None:
    seen: list[int] = []
    with OpenAIServer(reads(seen)) as server:
        agent = agent_of(OpenAIModel("qwen3-32b", server.url))
        for n in range(4):
            agent.memory.add_memory({"role": "user", "content": f"{n}: {'words ' * 1200}"})
        assert agent.reply_sync("Compare").detail == ""
    assert seen == [0, 1, 2, 3, 4]
