"""How much a remote model reads: known by its name, stated, or asked of its server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from models.openai_server import Answer, OpenAIServer, Request, text
from moothall.foundation.errors import RemoteForbidden
from moothall.models import FallbackModel, OpenAIModel
from moothall.research import Researcher, Resource
from research.small_web import evaluation, plan

LLAMA = {"id": "qwen", "meta": {"n_ctx_train": 40_960, "n_params": 5}}


def found(served: dict[str, Any], **options: Any) -> tuple[int | None, list[str]]:
    """The context that a model finds, and what its server was asked for."""

    async def main(url: str) -> int | None:
        async with OpenAIModel("qwen", url, **options) as model:
            context = await model.find_context()
            assert model.context_tokens == context
            return context

    with OpenAIServer(about=served) as server:
        context = asyncio.run(main(server.url))
        return context, server.looked_up


@pytest.mark.parametrize(
    ("served", "context"),
    (
        ({"/v1/models": {"data": [{"id": "qwen", "max_model_len": 32_768}]}}, 32_768),  # vLLM
        ({"/v1/models": {"data": [{"id": "x"}, {"id": "qwen", "context_length": 9000}]}}, 9000),
        ({"/v1/models": {"data": [{"id": "a.gguf", "meta": {"n_ctx": 5000}}]}}, 5000),
        ({"/v1/models": {"data": [LLAMA]}}, 40_960),
        ({"/v1/models": {"data": [{"id": "a"}, {"id": "b", "max_model_len": 5}]}}, None),
        ({"/v1/models": {"data": [{"id": "qwen", "max_model_len": "many"}]}}, None),
        ({"/v1/models": {"data": [{"id": "qwen", "n_ctx": None, "context_window": 0}]}}, None),
        ({"/v1/models": {"data": [{"id": "qwen", "max_model_len": True}]}}, None),
        ({"/v1/models": {"data": [{"id": "qwen", "max_model_len": -1}]}}, None),
        ({"/v1/models": ["qwen", 5]}, None),
        ({"/v1/models": {"data": 5}}, None),
        ({}, None),
    ),
)
def test_find_context_asks_the_server_for_it(served: dict[str, Any], context: int | None) -> None:
    assert found(served)[0] == context


def test_find_context_that_was_stated_asks_nothing() -> None:
    served = {"/v1/models": {"data": [{"id": "qwen", "max_model_len": 32_768}]}}
    assert found(served, context_tokens=1000) == (1000, [])


def test_find_context_of_a_server_elsewhere_is_forbidden_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MOOTHALL_OFFLINE", "1")
    model = OpenAIModel("qwen", "http://model.example/v1")
    with pytest.raises(RemoteForbidden):
        asyncio.run(model.find_context())


def test_context_of_a_model_of_openai_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k" * 20)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert OpenAIModel("gpt-4o").context_tokens == 128_000
    assert OpenAIModel("gpt-4o-2024-08-06").context_tokens == 128_000
    assert OpenAIModel("gpt-4o", context_tokens=9000).context_tokens == 9000
    assert OpenAIModel("gpt-4o-of-tomorrow").context_tokens is None
    assert OpenAIModel("gpt-4o", "http://127.0.0.1:9/v1").context_tokens is None


def test_research_narrates_by_the_context_that_its_server_states() -> None:
    async def read(page: str) -> Resource:
        """Read a page."""
        return Resource(f"http://web.test/{page}", page, True, "Alpha rests upon copper. " * 300)

    def at(request: Request) -> Answer:
        asks = request.body["messages"][0]["content"]
        told.append(json.dumps(request.body["messages"]).count("Source [^"))
        if "Plan the next" in asks:
            return text(plan(*(("read", {"page": str(n)}) for n in range(8))))
        narrated = "Alpha rests upon copper.[^1^]"
        return text(evaluation({"alpha": 0.95}) if "Evaluate" in asks else narrated)

    told: list[int] = []
    about = {"/v1/models": {"data": [{"id": "m", "max_model_len": 128_000}]}}
    with OpenAIServer(at, about=about) as server:
        report = Researcher("r", f"{server.url}#m", "alpha", [read]).report_sync()
    assert report.stop_reason == "done"
    assert len(told) == 3  # a plan, all that was read in one prompt, an evaluation
    assert told[1] >= 8


def test_find_context_of_several_models_is_the_smallest_that_is_known() -> None:
    about = {
        "/v1/models": {"data": [{"id": "a", "max_model_len": 9000}, {"id": "b", "n_ctx": 7000}]}
    }

    async def main(url: str) -> int | None:
        unreachable = OpenAIModel("d", "http://127.0.0.1:1/v1", max_retries=0)
        model = FallbackModel([unreachable, *(OpenAIModel(name, url) for name in ("a", "b", "c"))])
        found = await model.find_context()
        assert model.context_tokens == found
        return found

    with OpenAIServer(about=about) as server:
        assert asyncio.run(main(server.url)) == 7000


def test_answer_length_is_limited_to_what_a_small_context_has_room_for() -> None:
    with OpenAIServer(text("Hi")) as server:
        model = OpenAIModel("m", server.url, context_tokens=2048)
        for prompt in ("Hi", "x " * 2500):
            asyncio.run(model.complete([{"role": "user", "content": prompt}]))
        large = OpenAIModel("m", server.url, context_tokens=32_768)
        asyncio.run(large.complete([{"role": "user", "content": "Hi"}]))
    short, long, whole = (request.body["max_tokens"] for request in server.requests)
    assert 1900 < short < 2048 - 20
    assert (long, whole) == (512, 4096)
