from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from models import messages_format
from models.openai_server import HANG, OpenAIServer, Request, http
from models.server_conformance import ServerConformance
from moothall import Budget, Journal, Price, Prices, ReActAgent, UnknownPrice
from moothall.foundation.errors import (
    BudgetExceeded,
    DefinitionError,
    ModelError,
    RemoteForbidden,
)
from moothall.models import (
    AnthropicModel,
    BudgetedModel,
    Model,
    ModelReply,
    model,
)
from moothall.testing.model_suite import ACTIONS, run, user_message

KEY = "sk-ant-a-secret-of-mine"
THOUGHT = {"type": "thinking", "thinking": "Let me add.", "signature": "c2ln"}
ADD = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1, "b": 2}}


def of(server: OpenAIServer, **more: Any) -> AnthropicModel:
    return AnthropicModel("m", server.url.removesuffix("/v1"), **{"api_key": KEY} | more)


def ask(*answers: Any, **more: Any) -> ModelReply:
    with OpenAIServer(*answers) as server:
        return run(of(server, **more).complete(user_message("Hi")))  # type: ignore[no-any-return]


class TestAnthropicModel(ServerConformance):
    def of(self, server: OpenAIServer) -> Model:
        return of(server)

    def text(self, said: str, stream: bool) -> Any:
        block = {"type": "text", "text": said}
        return (messages_format.streamed if stream else messages_format.message)(block)

    def call(self, name: str, args: Any, id: str, stream: bool) -> Any:
        used = {"type": "tool_use", "id": id, "name": name, "input": args}
        answer = messages_format.streamed if stream else messages_format.message
        return answer(used, stop_reason="tool_use")

    def echo(self, request: Request) -> Any:
        number = request.body["messages"][0]["content"][0]["text"].removeprefix("Number ")
        return messages_format.text(json.dumps(f"answer {number}"))


# -- requests --------------------------------------------------------------------------------------


# -- answers ---------------------------------------------------------------------------------------


def test_anthropic_cost_follows_the_prices_of_the_cache() -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 50}
    body = {"content": [{"type": "text", "text": "ok"}], "usage": usage | {"output_tokens": 20}}
    prices = Prices({"anthropic:m": Price(3, 15, cache_read=0.3, cache_write=3.75)})
    budget = Budget(usd=1, prices=prices)
    with OpenAIServer(http(json.dumps(body).encode())) as server:
        run(BudgetedModel(of(server), budget).complete(user_message("Hi")))
    dollars = (10 * 3 + 100 * 0.3 + 50 * 3.75 + 20 * 15) / 1e6
    assert float(budget.spent.usd) == pytest.approx(dollars)


def test_anthropic_reservation_covers_the_dearest_use_of_the_cache() -> None:
    dear = Prices({"anthropic:m": Price(0, 0, cache_write=1_000_000)})
    with OpenAIServer(messages_format.text("ok")) as server:
        model = BudgetedModel(of(server, cache=True), Budget(usd=1, prices=dear))
        with pytest.raises(BudgetExceeded, match="US dollars are needed"):
            run(model.complete(user_message("Hi")))
    assert not server.requests


def test_anthropic_without_a_price_spends_no_money_limit() -> None:
    with pytest.raises(UnknownPrice, match="anthropic:m"):
        BudgetedModel(AnthropicModel("m", api_key=KEY), Budget(usd=1))


# -- an agent --------------------------------------------------------------------------------------


def test_anthropic_agent_sends_reasoning_back_after_a_restart(tmp_path: Path) -> None:
    first = messages_format.message(THOUGHT, ADD, stop_reason="tool_use")

    async def cut_off(server: OpenAIServer) -> None:
        agent = ReActAgent("adder", of(server), actions=ACTIONS[:1], journal=journal)
        task = asyncio.create_task(agent.reply("Add", run_id="r"))
        for _ in range(2):
            await asyncio.to_thread(server.wait_for_request)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with Journal(tmp_path / "runs.db") as journal:
        with OpenAIServer(first, HANG) as server:
            run(cut_off(server))
        with OpenAIServer(messages_format.text("3"), port=server.port) as server:
            agent = ReActAgent("adder", of(server), actions=ACTIONS[:1], journal=journal)
            assert run(agent.reply("Add", run_id="r")).text == "3"
    assert server.requests[0].body["messages"][1]["content"] == [THOUGHT, ADD]


# -- failures, names -------------------------------------------------------------------------------


def test_anthropic_is_made_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    made = model("anthropic:large")
    assert isinstance(made, AnthropicModel)
    assert made.name == "anthropic:large"
    assert made.base_url == "https://api.anthropic.com"
    assert model("anthropic:large") is made
    with OpenAIServer(messages_format.text("ok")) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        assert run(model("anthropic:large").complete(user_message("Hi"))).text == "ok"


def test_anthropic_key_goes_to_no_other_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with OpenAIServer(messages_format.text("ok")) as server:
        run(AnthropicModel("m", server.url).complete(user_message("Hi")))
    assert KEY not in str(server.requests[0].headers)


def test_anthropic_is_refused_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOTHALL_OFFLINE", "1")
    with pytest.raises(RemoteForbidden, match="anthropic:m"):
        run(AnthropicModel("m", api_key=KEY).complete(user_message("Hi")))


@pytest.mark.parametrize(
    ("args", "fault"),
    (
        ({"max_tokens": None}, "max_tokens= must be a number of tokens, got None"),
        ({"options": {"messages": []}}, "options= cannot set messages"),
        ({"api_key": 5}, "the key must be text, got int"),
        ({"api_key": "two\nlines"}, "key"),
    ),
)
def test_anthropic_wrong_arguments_are_refused(args: dict[str, Any], fault: str) -> None:
    with pytest.raises((DefinitionError, ModelError), match=fault):
        AnthropicModel("m", **{"api_key": KEY} | args)


# -- what comes later ------------------------------------------------------------------------------


def test_anthropic_reasons_no_further_about_the_call_of_another_model() -> None:
    asks = {"error": {"message": "Expected `thinking`, but found `tool_use`"}}
    refusal = http(json.dumps(asks).encode(), 400)
    called = {"id": "c1", "name": "add", "args": {"a": 1, "b": 2}}
    messages = [*user_message("Add"), {"role": "assistant", "content": "", "tool_calls": [called]}]
    messages.append({"role": "tool", "tool_call_id": "c1", "content": "3"})
    with OpenAIServer(refusal, messages_format.text("It is 3.")) as server:
        reasons = of(server, options={"thinking": {"type": "enabled", "budget_tokens": 1024}})
        assert run(reasons.complete(messages)).text == "It is 3."
        run(reasons.complete(messages))
        run(reasons.complete(user_message("Hi")))
    assert ["thinking" in each.body for each in server.requests] == [True, False, False, True]


# -- the server of these tests is what the provider's own client understands -----------------------


@pytest.mark.long
def test_anthropic_sdk_understands_the_server_of_these_tests() -> None:
    import anthropic  # here, as it takes a second, and each worker collects all tests

    answers = (
        messages_format.message(THOUGHT, ADD, stop_reason="tool_use"),
        messages_format.streamed(THOUGHT, {"type": "text", "text": "It is 3."}),
    )
    with (
        OpenAIServer(*answers) as server,
        anthropic.Anthropic(api_key=KEY, base_url=server.url.removesuffix("/v1")) as client,
    ):
        asked: Any = {"model": "m", "max_tokens": 9, "messages": user_message("Add")}
        whole = client.messages.create(**asked)
        with client.messages.stream(**asked) as stream:
            said = "".join(stream.text_stream)
            last = stream.get_final_message()
    assert whole.content[1].model_dump(include={"name", "input"}) == {
        "name": "add",
        "input": {"a": 1, "b": 2},
    }
    assert said == "It is 3."
    assert last.content[0].model_dump(include=set(THOUGHT)) == THOUGHT
    assert server.requests[0].path == "/v1/messages"
